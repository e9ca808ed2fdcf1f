/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control of the flow by the program. A paused endpoint treats messages that
 * arrive like messages behind a large message: they wait in rndv.waiting, in
 * their receive buffers, and keep their credits. Reads that have begun go on. A
 * cancelled send leaves the queue at once and completes in the loop, because no
 * call of the program runs callbacks.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "lane/lane.h"
#include "session/deadline.h"
#include "session/ep.h"
#include "session/flow.h"
#include "session/lent.h"
#include "session/resume.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/flow.h>
#include <rdmamsg/rdmamsg.h>

/* ---- pause and resume ------------------------------------------------- */

int rdmamsg_ep_pause(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__ep_check(ep);

	if (ret || ep->state == EP_CLOSED)
		return ret;
	ep->recv.paused = true;
	rdmamsg__ep_ready(ep);	/* no fast path while paused: recv.end = 0 */
	return 0;
}

int rdmamsg_ep_resume(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__ep_check(ep);

	if (ret || !ep->recv.paused)
		return ret;
	ep->recv.paused = false;
	if (ep->state == EP_CLOSED)
		return 0;
	rdmamsg__ep_ready(ep);
	rdmamsg__ep_touch(ep);	/* to deliver what waits */
	return 0;
}

/* ---- cancel ----------------------------------------------------------- */

static bool is_send(const struct op *op, const void *cookie)
{
	return (op->kind == OP_EAGER || op->kind == OP_RNDV) &&
	       rdmamsg__op_has(op, cookie);
}

static bool has_cookie(const struct op *op, const void *cookie)
{
	return op && rdmamsg__op_has(op, cookie);
}

/* Returns true if an operation that has begun has the cookie. */
static bool has_begun(const struct rdmamsg_ep *ep, const void *cookie)
{
	const struct op *orphan = ep->send.orphans;
	const struct op *last = ep->send.untold, *untold = last;
	struct list *n;

	list_for_each(n, &ep->rndv.out)
		if (has_cookie(list_entry(n, struct op, node), cookie))
			return true;
	for (; untold; untold = untold->next != last ? untold->next : NULL)
		if (has_cookie(untold, cookie))
			return true;
	for (; orphan; orphan = orphan->next)
		if (has_cookie(orphan, cookie))
			return true;
	if (rdmamsg__keeps(ep) && rdmamsg__lost_has(ep->resume, cookie))
		return true;
	for (uint32_t i = 0; ep->lane.sq.slots && i <= ep->lane.sq.mask; i++)
		if (has_cookie(ep->lane.sq.slots[i], cookie))
			return true;
	return false;
}

void rdmamsg__flow_take_back(struct rdmamsg_ep *ep, struct op *op)
{
	list_del(&op->node);
	ep->send.queued--;
	rdmamsg__ep_touch(ep);
}

static void cancel(struct rdmamsg_ep *ep, struct op *op)
{
	struct op *last = ep->send.canceled;

	rdmamsg__flow_take_back(ep, op);
	if (op->tell == TELL_DEADLINE)
		rdmamsg__deadline_stop(ep, op->cookie);
	op->next = last ? last->next : op;
	if (last)
		last->next = op;
	ep->send.canceled = op;
	ep->ctrl.due |= CTRL_CANCELED;
}

int rdmamsg_ep_cancel(struct rdmamsg_ep *ep, void *cookie)
{
	int ret = rdmamsg__ep_check(ep);
	bool begun = false;
	struct list *n;

	if (ret)
		return ret;
	if (!cookie)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_ep_cancel: cookie is NULL");
	list_for_each(n, &ep->send.queue) {
		struct op *op = list_entry(n, struct op, node);

		if (is_send(op, cookie)) {
			cancel(ep, op);
			return 0;
		}
		begun |= has_cookie(op, cookie);
	}
	if (begun || has_begun(ep, cookie))
		return rdmamsg__fail(-EBUSY, "the operation has begun, or is "
				     "one-sided: it cannot be cancelled");
	return rdmamsg__fail(-ENOENT, "no outstanding operation has this "
			     "cookie");
}

static struct op *take_canceled(struct rdmamsg_ep *ep)
{
	struct op *last = ep->send.canceled, *op = last->next;

	last->next = op->next;
	if (op == last) {
		ep->send.canceled = NULL;
		ep->ctrl.due &= ~CTRL_CANCELED;
	}
	return op;
}

/* If a callback does not return, the others wait for the next call. */
void rdmamsg__flow_canceled(struct rdmamsg_ep *ep)
{
	const struct op *op = NULL, *last = ep->send.canceled;

	while (ep->send.canceled && op != last) {
		struct op *next = take_canceled(ep);

		op = next;
		ep->ctx->loop.told = true;
		rdmamsg__op_complete(ep, next, -ECANCELED);
	}
}

/* ---- how far ---------------------------------------------------------- */

static void incoming(const struct rdmamsg_ep *ep,
		     struct rdmamsg_ep_flow_attr *f)
{
	const struct rdmamsg_msg *first = ep->rndv.waiting.first;
	const struct rndv_in *in;

	f->waiting = ep->rndv.waiting.count;
	if (ep->pieces.dst.msg) {
		/* none of its pieces waits, unless the endpoint is paused */
		f->incoming_tag = ep->pieces.dst.msg->tag;
		f->incoming_len = ep->pieces.dst.msg->len;
		f->incoming_arrived = ep->pieces.filled;
	} else if (first && first->type == PROTO_RNDV &&
		   first != ep->rndv.waiting.unparsed) {
		in = list_first(&ep->rndv.fetching, struct rndv_in, node);
		f->incoming_tag = in->tag;
		f->incoming_len = in->wire.total;
		f->incoming_arrived = in->arrived;
	}
}

static void outgoing(const struct rdmamsg_ep *ep,
		     struct rdmamsg_ep_flow_attr *f)
{
	struct list *n;

	f->queued = ep->send.queued;
	list_for_each(n, &ep->send.queue) {
		const struct op *op = list_entry(n, struct op, node);

		if (op->kind != OP_RMA)
			f->queued_bytes += op->len;
		if (op->kind == OP_EAGER && ep->send.crc)
			f->queued_bytes -= PROTO_CRC_LEN;
	}
	f->announced = ep->rndv.count;
	list_for_each(n, &ep->rndv.out)
		f->announced_bytes += list_entry(n, struct op, node)->len;
}

int rdmamsg_ep_flow_query(const struct rdmamsg_ep *ep,
			  struct rdmamsg_ep_flow_attr *attr)
{
	struct rdmamsg_ep_flow_attr f = { .size = sizeof(f) };
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	f.paused = ep->recv.paused;
	if (ep->rndv.lent) {
		f.lent = ep->rndv.lent->bytes;
		f.lent_full = ep->rndv.lent->wanted;
	}
	incoming(ep, &f);
	outgoing(ep, &f);
	return rdmamsg__give(attr, &f, sizeof(f));
}
