/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests. Each request is built in the context's batch. In a callback the
 * batch is posted when the callbacks end or the batch is full, with one
 * doorbell. Outside of callbacks it is posted at once. The completion of a
 * request ends its operation.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "device/device.h"
#include "device/proof.h"
#include "device/verbs_api.h"
#include "lane/srq.h"
#include "lane/batch.h"
#include "lane/lane.h"
#include "session/ep.h"
#include "session/flow.h"
#include "session/recv.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

/* Accepted operations that could not be posted end with the endpoint. */
static void unposted(struct lane *l, struct op *op)
{
	struct rdmamsg_ep *ep = rdmamsg__ep_of(l);

	if (op->kind == OP_RMA) {
		rdmamsg__rma_lost(ep, op);
		return;
	}
	op->next = ep->send.orphans;
	ep->send.orphans = op;
}

static void failed(struct lane *l, int err, const char *what)
{
	rdmamsg__ep_device_failed(rdmamsg__ep_of(l), err, what);
}

const struct lane_events rdmamsg__lane_events = {
	.unposted = unposted, .failed = failed, .buffer = rdmamsg__rx_buffer,
	.attr = rdmamsg__qp_attr,
};

/* The batch is not empty. */
void rdmamsg__tx_post(struct rdmamsg *ctx)
{
	struct rdmamsg_ep *ep = rdmamsg__ep_of(ctx->tx->lane);

	rdmamsg__batch_post(ctx->tx);
	rdmamsg__tx_room(ep);
	ep->lane.hot.len_end = ep->send.inline_end;
}

void rdmamsg__tx_new(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	rdmamsg__tx_flush(ctx);
	ctx->tx->lane = &ep->lane;
	/* outside of callbacks, the call that began the batch posts it */
	ctx->loop.work |= ctx->loop.in_callback;
	ep->lane.hot.len_end = 0;	/* the inline would overtake it */
}

bool rdmamsg__tx_burst_begin(struct rdmamsg *ctx)
{
	bool idle = rdmamsg__loop_idle(&ctx->loop) &&
		    list_empty(&ctx->sessions->dirty);

	ctx->loop.in_callback++;
	return idle;
}

void rdmamsg__tx_burst_end(struct rdmamsg *ctx, bool idle)
{
	if (!--ctx->loop.in_callback)
		rdmamsg__tx_flush(ctx);
	/* failed requests saw in_callback, so they did not wake the loop */
	if (unlikely(idle && !list_empty(&ctx->sessions->dirty)))
		rdmamsg__loop_kick(&ctx->loop);
}

void rdmamsg__tx_message(struct rdmamsg_ep *ep, enum proto_type type,
			 uint32_t number, uint32_t tag, struct op *op,
			 struct rdmamsg_msg *msg, const void *inl, uint32_t len)
{
	struct tx_entry *e = rdmamsg__tx_begin(ep, op);
	const struct proto_hdr hdr = {
		.type = (uint8_t)type, .seen = ep->credit.took,
		.credit = ep->credit.granted, .number = number, .tag = tag,
	};

	ep->credit.announced = ep->credit.granted;
	ep->credit.told = ep->credit.took;
	ep->credit.offered = 0;
	ep->lane.hot.low &= PROTO_NUMBER_MASK;
	e->wr.opcode = IBV_WR_SEND;
	if (msg) {
		uint8_t *at = msg->data - PROTO_HDR_LEN;

		rdmamsg__hdr_encode(&hdr, at);
		e->sge.addr = (uintptr_t)at;
		e->sge.lkey = msg->lkey;
		e->wr.send_flags &= ~(unsigned int)IBV_SEND_INLINE;
	} else {
		rdmamsg__hdr_encode(&hdr, &e->hdr);
		e->sge.addr = (uintptr_t)&e->hdr;
		if (len)
			memcpy(e->data, inl, len);
	}
	e->sge.length = PROTO_HDR_LEN + len;
	if (type == PROTO_INVALIDATE) {
		e->wr.opcode = IBV_WR_SEND_WITH_INV;
		/* earlier reads may still use the key */
		if (!ep->lane.came)
			e->wr.send_flags |= IBV_SEND_FENCE;
		e->wr.invalidate_rkey = op->rkey;
	}
	/* completions that are needed soon; others can be confirmed later */
	if (op && (op->cookie || op->kind != OP_EAGER))
		ep->ctx->tx->signal = true;
	rdmamsg__tx_end(ep);
}

static void tx_compact(struct rdmamsg_ep *ep, uint32_t tag, struct op *op,
		       struct rdmamsg_msg *msg, const void *inl, uint32_t len)
{
	struct tx_entry *e = rdmamsg__tx_begin(ep, op);

	e->wr.imm_data = rdmamsg__tx_imm(ep, tag);
	if (msg) {
		e->sge.addr = (uintptr_t)msg->data;
		e->sge.lkey = msg->lkey;
		e->wr.send_flags &= ~(unsigned int)IBV_SEND_INLINE;
	} else if (len) {
		memcpy(e->data, inl, len);
	}
	e->sge.length = len;
	e->wr.num_sge = len != 0;
	if (op && op->cookie)
		ep->ctx->tx->signal = true;
	rdmamsg__tx_end(ep);
}

void rdmamsg__tx_data(struct rdmamsg_ep *ep, uint32_t tag, struct op *op,
		      struct rdmamsg_msg *msg, const void *inl, uint32_t len)
{
	if (likely(rdmamsg__is_compact(ep, tag)))
		tx_compact(ep, tag, op, msg, inl, len);
	else
		rdmamsg__tx_message(ep, PROTO_DATA, rdmamsg__tx_next_number(ep),
				    tag, op, msg, inl, len);
}

void rdmamsg__tx_read(struct rdmamsg_ep *ep, struct op *op,
		      const struct ibv_sge *sge, uint32_t count, uint64_t raddr,
		      uint32_t rkey)
{
	struct tx_entry *e = rdmamsg__tx_begin(ep, op);

	e->wr.opcode = IBV_WR_RDMA_READ;
	memcpy(e->sges, sge, count * sizeof(*sge));
	e->wr.sg_list = e->sges;
	e->wr.num_sge = (int)count;
	e->wr.wr.rdma.remote_addr = raddr;
	e->wr.wr.rdma.rkey = rkey;
	/* later reads wait for this completion */
	e->wr.send_flags = IBV_SEND_SIGNALED;
	rdmamsg__tx_end(ep);
}

/*
 * Returns true if the last posted request is signaled. It confirms all, unless
 * all are signaled.
 */
static bool last_is_signaled(const struct rdmamsg_ep *ep)
{
	return ep->lane.hot.signal_at ==
	       (uint32_t)ep->lane.hot.sq_posted - 1 + ep->lane.hot.signal_every;
}

/* Posts a keepalive behind unsignaled requests. */
void rdmamsg__tx_ask(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (!ep->lane.sq.ops || last_is_signaled(ep) ||
		    (ep->state != EP_OPEN && ep->state != EP_CLOSING))
			continue;
		/* a keepalive on its way may be before the last request */
		ep->live.ask_again = ep->live.keepalive_out;
		if (ep->live.keepalive_out)
			continue;
		ep->ctrl.due |= CTRL_KEEPALIVE;
		rdmamsg__ep_touch(ep);
	}
}

void rdmamsg__tx_empty(struct rdmamsg_ep *ep, struct op *op)
{
	struct tx_entry *e = rdmamsg__tx_begin(ep, op);

	e->wr.opcode = IBV_WR_RDMA_WRITE;
	e->wr.num_sge = 0;
	e->wr.wr.rdma.remote_addr = 0;
	e->wr.wr.rdma.rkey = 0;
	e->wr.send_flags = IBV_SEND_SIGNALED;
	rdmamsg__tx_end(ep);
}

void rdmamsg__tx_aim_proof(const struct rdmamsg_ep *ep, struct tx_entry *e)
{
	const struct proto_proof *far = &ep->connect.peer.proof;
	const struct ibv_mr *sink = ep->lane.dev->proof->sink;
	const uint64_t addr = (uint64_t)far->high << 32 | far->low;

	e->sge = (struct ibv_sge){
		.addr = (uintptr_t)sink->addr, .lkey = sink->lkey,
		.length = addr ? PROTO_PROOF_BYTES : 0,
	};
	e->wr.wr.rdma.remote_addr = addr;
	e->wr.wr.rdma.rkey = far->rkey;
}

void rdmamsg__tx_proof(struct rdmamsg_ep *ep, struct op *op)
{
	struct tx_entry *e;

	if (likely(!ep->lane.came)) {
		rdmamsg__tx_empty(ep, op);
		return;
	}
	e = rdmamsg__tx_begin(ep, op);
	e->wr.opcode = IBV_WR_RDMA_READ;
	rdmamsg__tx_aim_proof(ep, e);
	e->wr.send_flags = IBV_SEND_SIGNALED;
	rdmamsg__tx_end(ep);
}

void rdmamsg__tx_mark_end(struct rdmamsg_ep *ep)
{
	uint32_t used = rdmamsg__sq_used(&ep->lane);

	if (ep->lane.came || !used || used >= ep->lane.sq.total)
		return;
	rdmamsg__tx_empty(ep, NULL);
	rdmamsg__tx_flush(ep->ctx);
}

/* ---- completions ------------------------------------------------------ */

static void keepalive_done(struct rdmamsg_ep *ep)
{
	ep->live.keepalive_out = false;
	if (ep->live.ask_again && ep->lane.sq.ops && !last_is_signaled(ep))
		ep->ctrl.due |= CTRL_KEEPALIVE;
	ep->live.ask_again = false;
}

/* Returns the type of the message that refuses the peer. */
static enum proto_type last_word(const struct rdmamsg_ep *ep)
{
	return ep->connect.passive ? PROTO_SETUP : PROTO_AUTH;
}

static void abort_done(struct rdmamsg_ep *ep, const struct op *op, int status)
{
	if (status || op->tag == CLOSE_PROOF || !ep->close.proving)
		ep->close.saying = false;
}

void rdmamsg__request_done(struct rdmamsg_ep *ep, struct op *op, int status)
{
	switch (op->kind) {
	case OP_EAGER:
		if (unlikely(status) && rdmamsg__lane_lost(ep)) {
			rdmamsg__lost_eager(ep, op);
			break;
		}
		/* if its CLOSE confirms ours, the peer has this message */
		rdmamsg__op_complete(ep, op, ep->close.confirmed ? 0 : status);
		break;
	case OP_RNDV:
		/* ends with DONE of the peer; after a failure in tx_cancel() */
		if (!--op->refs)
			rdmamsg__op_complete(ep, op, op->status);
		break;
	case OP_READ:
		rdmamsg__rndv_read_done(ep, op, status);
		break;
	case OP_PROOF:
		rdmamsg__rndv_proven(ep, op, status);
		break;
	case OP_RMA:
		rdmamsg__rma_request_done(ep, op, status);
		break;
	case OP_CTRL:
		if (op->ctrl == PROTO_CLOSE && !status) {
			ep->close.done = true;
			ep->close.asserted_done |=
				op->tag == (ep->close.proving ? CLOSE_PROOF : 1);
			ep->reads.free += op->tag == CLOSE_PROOF;
		}
		if (unlikely(op->ctrl == PROTO_ABORT))
			abort_done(ep, op, status);
		if (op->ctrl == PROTO_SETUP || op->ctrl == PROTO_AUTH)
			ep->lane.sq.data--;
		if (ep->connect.refused && op->ctrl == last_word(ep))
			rdmamsg__ep_kill(ep);
		if (!op->ctrl)
			keepalive_done(ep);
		rdmamsg__op_complete(ep, op, status);
		rdmamsg__ep_touch(ep);
		break;
	}
}

/* Returns true if the request completes when the peer's device has answered. */
static bool is_answered(const struct op *op)
{
	return op && (op->kind == OP_READ ||
		      (op->kind == OP_RMA &&
		       rdmamsg__rma_is_read((const struct rma *)op)));
}

/*
 * The completion proves this request alone. It waits for those of earlier
 * requests, because the program is told in the order of the calls, and a later
 * completion tells it of earlier operations without a cookie.
 */
static __attribute__((noinline)) void
done_alone(struct rdmamsg_ep *ep, uint32_t seq, int status)
{
	static const int statuses[] = {
		[CAME_REFUSED] = -EACCES, [CAME_CANCELED] = -ECANCELED,
	};
	struct lane *l = &ep->lane;

	if (!status && is_answered(l->sq.slots[seq & l->sq.mask]))
		ep->live.answered = true;
	rdmamsg__sq_came(l, seq, !status ? CAME_WELL : status == -EACCES ?
			 CAME_REFUSED : CAME_CANCELED);
	while (rdmamsg__sq_used(l)) {
		uint8_t *at = &l->came[l->sq.done & l->sq.mask], how = *at;
		struct op *op;

		if (how == CAME_NOT)
			break;
		*at = CAME_NOT;
		op = rdmamsg__sq_take(l);
		if (op)
			rdmamsg__request_done(ep, op, statuses[how]);
	}
}

/*
 * The requests before 'end' are done, at least one. In a callback the program
 * may send, which may handle later completions (room.c).
 */
static inline void done_before(struct rdmamsg_ep *ep, uint32_t end)
{
	while (ep->lane.sq.ops) {
		struct op *op = rdmamsg__sq_take(&ep->lane);

		if (op)
			rdmamsg__request_done(ep, op, 0);
		if ((int32_t)(end - ep->lane.sq.done) <= 0)
			return;
	}
	ep->lane.sq.done = end;		/* the rest have no operation */
}

/* The same, but the last one has failed. */
static __attribute__((noinline)) void
failed_before(struct rdmamsg_ep *ep, uint32_t end, int status)
{
	struct op *op;

	if (ep->lane.sq.done != end - 1)
		done_before(ep, end - 1);
	op = rdmamsg__sq_take(&ep->lane);
	if (op)
		rdmamsg__request_done(ep, op, status);
}

/*
 * Where requests complete in order, a completion confirms all requests before
 * it: a failed request would have had an error completion.
 */
void rdmamsg__tx_done(struct rdmamsg_ep *ep, uint32_t seq, int status)
{
	const uint32_t n = (seq - ep->lane.sq.done) & 0x7fffffffu;

	if (unlikely(n >= rdmamsg__sq_used(&ep->lane))) {
		/* handled early, or no such request: a broken device */
		rdmamsg__tell_untold(ep);
		return;
	}
	if (unlikely(ep->lane.hot.signal_every == 1) && ep->lane.came)
		done_alone(ep, seq, status);
	else if (likely(!status))
		done_before(ep, ep->lane.sq.done + n + 1);
	else
		failed_before(ep, ep->lane.sq.done + n + 1, status);
	rdmamsg__tx_room(ep);
	if (unlikely(ep->send.want_writable || ep->send.queued ||
		     ep->ctrl.due || ep->state != EP_OPEN))
		rdmamsg__ep_touch(ep);
}

/*
 * The queue pair is gone. Ends all accepted operations that have not ended.
 * Callbacks may query the endpoint, but their sends fail.
 */
void rdmamsg__tx_cancel(struct rdmamsg_ep *ep, int status)
{
	rdmamsg__tell_untold(ep);
	while (rdmamsg__sq_used(&ep->lane)) {
		struct op *op = rdmamsg__sq_take(&ep->lane);

		rdmamsg__ep_lost(ep, (ep->lane.sq.done - 1) & 0x7fffffffu);
		if (op)
			rdmamsg__request_done(ep, op, status);
	}
	while (ep->send.orphans) {
		struct op *op = ep->send.orphans;

		ep->send.orphans = op->next;
		ep->close.lost = true;
		rdmamsg__request_done(ep, op, status);
	}
	rdmamsg__lost_cancel(ep, status);
	while (!list_empty(&ep->rndv.out)) {
		struct op *op = list_first(&ep->rndv.out, struct op, node);

		list_del(&op->node);
		rdmamsg__rndv_less(ep);
		rdmamsg__op_complete(ep, op, status);
	}
	while (!list_empty(&ep->send.queue)) {
		struct op *op = list_first(&ep->send.queue, struct op, node);

		list_del(&op->node);
		ep->send.queued--;
		if (op->kind == OP_RMA)
			rdmamsg__rma_end(ep, op, status);
		else
			rdmamsg__op_complete(ep, op, status);
	}
	/* last, because a callback may have cancelled more of the queue */
	rdmamsg__flow_canceled(ep);
}
