/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages with a timeout. Such a message ends in on_complete, or it is overdue
 * there and ends in on_late. Its memory is lent until its end.
 */
#include "worker.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

static void on_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct conn *c = rdmamsg_ep_user(ep);
	uint32_t n = (uint32_t)(uintptr_t)cookie - 1;

	if (c->r->closed)
		VIOLATION(c, "on_late after on_closed");
	if (n >= c->r->sent || c->tx[n] != TX_OVERDUE) {
		w.j->doubled++;
		VIOLATION(c, "on_late of message %u, whose state is %d", n,
			  n < c->r->sent ? c->tx[n] : -1);
		return;
	}
	if (status == RDMAMSG_TIMED_OUT)
		VIOLATION(c, "message %u was overdue, and is taken back", n);
	send_ended(c, n, status);
	send_some(c, 4);
}

int late_send(struct conn *c, uint32_t n, uint8_t *buf, uint32_t len,
	      void *cookie)
{
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	struct rdmamsg_sge sge[RDMAMSG_SEGMENTS_MAX];
	const int count = send_cut(c, n, buf, len, iov);
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = sge,
		.count = (uint32_t)count, .cookie = cookie,
		.tag = plan_tag(&c->plan, c->side, n),
		.timeout_ms = plan_timeout(&c->plan, c->side, n),
		.on_late = on_late,
	};

	for (int i = 0; i < count; i++)
		sge[i] = (struct rdmamsg_sge){
			iov[i].iov_base, iov[i].iov_len, NULL,
		};
	return rdmamsg_post(c->ep, &op);
}

bool late_told(struct conn *c, uint32_t n, int status)
{
	if (status != RDMAMSG_TIMED_OUT && status != RDMAMSG_OVERDUE)
		return false;
	if (!plan_timeout(&c->plan, c->side, n))
		VIOLATION(c, "message %u has no timeout and status %d", n,
			  status);
	if (status == RDMAMSG_TIMED_OUT) {
		w.j->timed_out++;
		send_ended(c, n, status);
		return true;
	}
	w.j->overdue++;
	c->tx[n] = TX_OVERDUE;
	return true;
}
