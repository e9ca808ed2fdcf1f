/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion events of a program's queue pair. Its own channel is in the
 * context's descriptor. So a context that only polls also handles the events,
 * now and then.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/watch.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "qp/rawqp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

int rdmamsg__rawqp_arm(struct rdmamsg_qp *q, struct ibv_cq *cq)
{
	int solicited = cq == q->recv_cq &&
			q->opts.flags & RDMAMSG_QP_SOLICITED;

	return rdmamsg__verbs_ret(ibv_req_notify_cq(cq, solicited));
}

/*
 * Arms the queue before the program polls, so that later completions raise the
 * next event. The descriptor stays readable if there are more events.
 */
static void on_event(struct watch *w)
{
	struct rdmamsg_qp *q = list_entry(w, struct rdmamsg_qp, watch);
	struct rdmamsg *ctx = q->ctx;
	struct ibv_cq *cq;
	int ret;

	ret = rdmamsg__v_get_cq_event(q->v, q->channel, &cq);
	/* the channel of a removed device stays readable, but has no event */
	if (ret == -EIO && q->dev->device->gone)
		rdmamsg__rawqp_unwatch(q);
	if (ret)
		return;
	q->v->ack_cq_events(cq, 1);
	ret = rdmamsg__rawqp_arm(q, cq);
	if (ret)
		log_error("qp 0x%x: cannot arm its completion queue: %s",
			  q->ibv->qp_num, strerror(-ret));
	rdmamsg__tell(&ctx->loop, q->on.on_completion, q, cq);
}

int rdmamsg__rawqp_channel(struct rdmamsg_qp *q)
{
	int flags, ret;

	if (!q->on.on_completion)
		return 0;
	ret = rdmamsg__v_create_comp_channel(q->v, q->dev->device->verbs,
					     &q->channel);
	if (ret)
		return rdmamsg__fail_verbs(ret, "completion channel");
	flags = fcntl(q->channel->fd, F_GETFL);
	(void)fcntl(q->channel->fd, F_SETFL, flags | O_NONBLOCK);
	q->watch.fd = q->channel->fd;
	q->watch.fn = on_event;
	ret = rdmamsg__watch_set(&q->ctx->loop, &q->watch, EPOLLIN);
	return ret ? rdmamsg__fail(ret, "epoll: %s", strerror(-ret)) : 0;
}

void rdmamsg__rawqp_unwatch(struct rdmamsg_qp *q)
{
	(void)rdmamsg__watch_set(&q->ctx->loop, &q->watch, 0);
}

void rdmamsg__rawqp_end(struct rdmamsg_qp *q)
{
	if (!q->channel) {
		free(q);
		return;
	}
	rdmamsg__rawqp_unwatch(q);
	if (rdmamsg__v_destroy_comp_channel(q->v, q->channel))
		log_error("device %s: a completion channel is still in use",
			  q->dev->device->name);
	rdmamsg__watch_retire(&q->ctx->loop, &q->watch, q);
}
