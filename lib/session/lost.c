/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane is taken away from an endpoint that stays open. The endpoint keeps
 * what it has accepted and the peer may lack: messages in struct keep,
 * one-sided operations in resume.parked, large messages in rndv.out and
 * rndv.fetching. None of these uses the device of the lane any more.
 */
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "lane/lane.h"
#include "lane/qp.h"
#include "lane/srq.h"
#include "memory/large.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "session/connector.h"
#include "session/destination.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recv.h"
#include "session/resume.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/tx.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/failover.h>

_Static_assert(RDMAMSG_IN_DOUBT == -EREMOTEIO, "as in the header");

/* ---- operations -------------------------------------------------------- */

void rdmamsg__lost_eager(struct rdmamsg_ep *ep, struct op *op)
{
	struct keep *k = &ep->resume->keep;

	if ((int32_t)(op->number - k->first) < 0) {
		rdmamsg__op_complete(ep, op, 0);
		return;
	}
	if (op->msg)
		rdmamsg__msg_done(op->msg);
	op->msg = NULL;
	rdmamsg__kept(k, op->number)->op = op;
}

void rdmamsg__lost_confirm(struct rdmamsg_ep *ep, uint32_t next)
{
	struct keep *k = &ep->resume->keep;

	while (k->first != k->at && (int32_t)(next - k->first) > 0) {
		struct op *op = rdmamsg__keep_release(k);

		if (unlikely(op))
			rdmamsg__op_complete(ep, op, 0);
	}
}

/* Adds to parked, in the order in which the operations began. */
static void park(struct resume *r, struct rma *m)
{
	struct list *at = &r->parked;

	while (at->prev != &r->parked &&
	       (int32_t)(list_entry(at->prev, struct rma, op.node)->order -
			 m->order) > 0)
		at = at->prev;
	list_add_tail(at, &m->op.node);
}

void rdmamsg__lost_rma(struct rdmamsg_ep *ep, struct rma *r)
{
	if (r->proof != PROOF_NONE)
		r->proof = PROOF_DUE;
	if (r->posted)
		return;
	if (rdmamsg__rma_is_atomic(r) && r->begun) {
		/* the peer's memory may or may not have changed */
		if (!list_empty(&r->op.node)) {
			list_del(&r->op.node);
			ep->send.queued--;
		}
		rdmamsg__rma_end(ep, &r->op, RDMAMSG_IN_DOUBT);
		return;
	}
	if (list_empty(&r->op.node))
		park(ep->resume, r);
}

/*
 * A write of which only the proof was not posted is still in the send queue. It
 * goes where it would be if the proof were posted, because its value is kept
 * and goes out before the queue.
 */
static void park_unproven(struct rdmamsg_ep *ep)
{
	struct op *op = list_empty(&ep->send.queue) ? NULL :
			list_first(&ep->send.queue, struct op, node);
	struct rma *r = (struct rma *)op;

	if (!op || op->kind != OP_RMA || rdmamsg__rma_is_atomic(r) ||
	    r->proof != PROOF_DUE || !r->begun || r->left || r->notify)
		return;
	list_del(&op->node);
	ep->send.queued--;
	park(ep->resume, r);
}

/* Ends the requests without a completion, which none will come for. */
static void take_requests(struct rdmamsg_ep *ep)
{
	while (rdmamsg__sq_used(&ep->lane)) {
		struct op *op = rdmamsg__sq_take(&ep->lane);

		if (op)
			rdmamsg__request_done(ep, op, -ECANCELED);
	}
	while (ep->send.orphans) {
		struct op *op = ep->send.orphans;

		ep->send.orphans = op->next;
		rdmamsg__request_done(ep, op, -ECANCELED);
	}
}

/* ---- large messages ---------------------------------------------------- */

static void forget_keys(struct rdmamsg_ep *ep)
{
	struct list *n;

	list_for_each(n, &ep->rndv.out)
		rdmamsg__rndv_forget(ep, list_entry(n, struct op, node)->rndv);
	list_for_each(n, &ep->send.queue) {
		struct op *op = list_entry(n, struct op, node);

		if (op->kind == OP_RNDV)
			rdmamsg__rndv_forget(ep, op->rndv);
	}
	list_for_each(n, &ep->rndv.fetching)
		rdmamsg__rndv_in_lost(list_entry(n, struct rndv_in, node));
}

/* ---- the lane ---------------------------------------------------------- */

static void put_receives(struct lane *l)
{
	for (uint32_t i = 0; l->rq.slots && i < l->rq.target; i++) {
		if (l->rq.slots[i].msg)
			rdmamsg__slot_put(l->rq.slots[i].msg);
		l->rq.slots[i].msg = NULL;
	}
}

/* Adds the counters of the lane, which the next lane begins at 0. */
static void count(struct rdmamsg_ep *ep)
{
	ep->st.sent_inline += ep->lane.hot.sq_posted;
	ep->st.msgs_received += rdmamsg__rx_count(&ep->lane);
	ep->st.completions += rdmamsg__rx_count(&ep->lane);
}

static void put_shares(struct rdmamsg_ep *ep)
{
	struct srq *q = ep->lane.srq;

	if (!q)
		return;
	/* no answer of the peer comes over this lane any more */
	for (uint32_t i = 1; i < ep->rndv.count; i++)
		rdmamsg__srq_expected(&q->account);
	rdmamsg__srq_leave(ep);
}

static void empty(struct rdmamsg_ep *ep)
{
	struct lane *l = &ep->lane;
	const struct lane old = *l;

	*l = (struct lane){
		.hot = {
			.number = old.hot.number, .low = old.hot.low,
			.bytes_sent = old.hot.bytes_sent,
			.signal_every = old.hot.signal_every,
		},
		.rq.head = rdmamsg__nobody.lane.rq.head,
		.on = old.on, .v = old.v, .port = old.port, .mtu = old.mtu,
	};
	memcpy(l->device_name, old.device_name, sizeof(l->device_name));
}

void rdmamsg__lane_down(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;
	struct lane *l = &ep->lane;

	rdmamsg__lane_destroy_qp(l);
	rdmamsg__tell_untold(ep);
	take_requests(ep);
	park_unproven(ep);
	forget_keys(ep);
	put_receives(l);
	count(ep);
	put_shares(ep);
	rdmamsg__pools_put(ep);
	if (ep->onesided.results)
		rdmamsg__msg_put(ep->onesided.results);
	ep->onesided.results = NULL;
	strcpy(l->device_name, l->dev->device->name);
	rdmamsg__lane_unmake(l);
	rdmamsg__handle_take(&ctx->sessions->table, ep, ep->key >> 8);
	if (ctx->last == ep)
		ctx->last = &rdmamsg__nobody;
	list_del(&ep->starving.node);
	rdmamsg__dev_put(l->dev);
	ep->connect.by->release(ep);
	ep->connect.established = false;
	empty(ep);
	ep->reads.free = 0;
	ep->send.want_memory = ep->ctrl.lacks = false;
	rdmamsg__ep_ready(ep);
}

bool rdmamsg__lost_has(const struct resume *r, const void *cookie)
{
	struct list *n;

	for (uint32_t i = r->keep.first; i != r->keep.end; i++) {
		const struct op *op = rdmamsg__kept(&r->keep, i)->op;

		if (op && rdmamsg__op_has(op, cookie))
			return true;
	}
	list_for_each(n, &r->parked)
		if (rdmamsg__op_has(list_entry(n, struct op, node), cookie))
			return true;
	return false;
}

void rdmamsg__lost_cancel(struct rdmamsg_ep *ep, int status)
{
	struct resume *r = ep->resume;

	if (!r || !r->agreed)
		return;
	/*
	 * a CLOSE that confirms ours tells that the peer has these messages and
	 * the data of these writes
	 */
	while (r->keep.first != r->keep.end) {
		struct op *op = rdmamsg__keep_release(&r->keep);

		if (op)
			rdmamsg__op_complete(ep, op, ep->close.confirmed ? 0 :
					     status);
	}
	while (!list_empty(&r->parked)) {
		struct op *op = list_first(&r->parked, struct op, node);
		bool has = ep->close.confirmed &&
			   !rdmamsg__rma_is_read((struct rma *)op);

		list_del(&op->node);
		rdmamsg__rma_end(ep, op, has ? 0 : status);
	}
}
