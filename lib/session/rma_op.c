/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations. An operation becomes one or more requests, depending on
 * its length and its gather entries. If some of them cannot be posted, the
 * operation waits in send.queue, which keeps the order of the calls.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "lane/lanes.h"
#include "session/tx.h"
#include "memory/layout.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "session/credit.h"
#include "session/deadline.h"
#include "session/ep.h"
#include "session/recv.h"
#include "session/rma.h"
#include "session/send.h"
#include "session/sessions.h"
#include "session/window.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

/* ---- memory ----------------------------------------------------------- */

static uint32_t rma_count(const struct rdmamsg_ep *ep)
{
	return min(ep->tuning.send_depth, (uint32_t)RMA_MAX);
}

/* Allocates memory for all operations, with the first operation. */
static int rma_alloc(struct rdmamsg_ep *ep)
{
	uint32_t count = rma_count(ep);
	struct rma *all;

	_Static_assert(RMA_MAX * sizeof(uint64_t) <= PROTO_RECV_MIN,
		       "a result each");
	ep->onesided.results = rdmamsg__send_buffer(ep);
	if (!ep->onesided.results) {
		ep->onesided.wanted = true;
		return rdmamsg__no_buffer(ep);
	}
	if (ep->onesided.all)
		return 0;	/* the results were on another device */
	all = calloc(count, sizeof(*all));
	if (!all) {
		rdmamsg__msg_put(ep->onesided.results);
		ep->onesided.results = NULL;
		return rdmamsg__fail(-ENOMEM, "no memory for one-sided "
				     "operations");
	}
	for (uint32_t i = 0; i < count; i++) {
		all[i].op.kind = OP_RMA;
		list_init(&all[i].op.node);
		all[i].op.next = i + 1 < count ? &all[i + 1].op : NULL;
	}
	ep->onesided.all = ep->onesided.free = all;
	return 0;
}

void rdmamsg__rma_free(struct rdmamsg_ep *ep)
{
	if (ep->onesided.results)
		rdmamsg__msg_put(ep->onesided.results);
	ep->onesided.results = NULL;
	free(ep->onesided.all);
	ep->onesided.all = ep->onesided.free = NULL;
}

static int again(struct rdmamsg_ep *ep)
{
	ep->onesided.wanted = true;
	return rdmamsg__tx_again(ep);
}

/* All operations are in use. Returns 0 if one is free now. */
static int __attribute__((noinline)) make_room(struct rdmamsg_ep *ep)
{
	int ret;

	rdmamsg__make_rma_room(ep);
	ret = rdmamsg__tx_check(ep);	/* a request may have failed */
	if (!ret && !ep->onesided.free)
		ret = again(ep);
	return ret;
}

int rdmamsg__rma_get(struct rdmamsg_ep *ep, struct rma **ret)
{
	struct rma *r;
	int err = ep->onesided.results ? 0 : rma_alloc(ep);

	if (err)
		return err;
	if (unlikely(!ep->onesided.free)) {
		err = make_room(ep);
		if (err)
			return err;
	}
	r = ep->onesided.free;
	ep->onesided.free = (struct rma *)r->op.next;
	r->op.status = 0;
	r->op.msg = NULL;
	r->begun = r->again = false;
	r->entries = r->at = 0;
	r->offset = 0;
	r->posted = 0;
	r->left = 0;
	r->notify = r->fence = r->no_cpu = r->scattered = false;
	r->refused = r->flush = false;
	r->far = NULL;
	r->made = ep->resume ? ep->resume->lanes : 0;
	r->proof = PROOF_NONE;
	r->result = NULL;
	*ret = r;
	return 0;
}

static inline void put(struct rdmamsg_ep *ep, struct rma *r)
{
	for (uint32_t i = 0; i < r->entries; i++)
		if (r->entry[i].region)
			r->entry[i].region->busy--;
	if (unlikely(r->scattered && r->far))
		rdmamsg__layout_rele(r->far);
	if (unlikely(r->op.msg))
		rdmamsg__msg_put(r->op.msg);
	r->op.next = (struct op *)ep->onesided.free;
	ep->onesided.free = r;
}

void rdmamsg__rma_put(struct rdmamsg_ep *ep, struct rma *r)
{
	put(ep, r);
}

/* ---- posting ---------------------------------------------------------- */

/*
 * Returns true if the next request is the last and carries the value. A Write
 * with immediate data cannot tell the peer that its CREDITs were seen, and the
 * peer may wait for that. If so, WRITTEN follows the writes instead.
 */
static bool takes_value(struct rdmamsg_ep *ep, const struct rma *r)
{
	/* the requests of a layout are not counted in advance */
	if (likely(!r->notify) || !ep->send.compact || r->scattered)
		return false;
	(void)rdmamsg__announced(ep);	/* brings 'told' up to date */
	return ep->credit.took == ep->credit.told &&
	       (rdmamsg__rma_fits_inline(ep, r) || (r->left <= ep->lane.chunk &&
				       r->entries - r->at <= rdmamsg__rma_entries(ep)));
}

/* The value has a number, so it is kept like a message. */
static void keep_value(struct rdmamsg_ep *ep, const struct rma *r)
{
	if (rdmamsg__keeps(ep))
		(void)rdmamsg__keep_add(&ep->resume->keep, PROTO_WRITTEN,
					r->value, 0);
}

static void post_next(struct rdmamsg_ep *ep, struct rma *r)
{
	struct tx_entry *e = rdmamsg__tx_begin(ep, &r->op);
	const bool value = takes_value(ep, r);
	uint32_t len;

	e->wr.send_flags &= IBV_SEND_SIGNALED;
	if (r->fence && !r->begun && !ep->lane.came)
		e->wr.send_flags |= IBV_SEND_FENCE;
	len = rdmamsg__rma_fill(ep, r, e);
	if (!r->begun)
		rdmamsg__rma_begin(ep, r);
	if (value) {
		e->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		e->wr.imm_data = (__be32)htole32(r->value);
		keep_value(ep, r);
		(void)rdmamsg__tx_next_number(ep);
		r->notify = false;
	}
	r->posted++;
	r->raddr += len;
	r->left -= len;
	if (r->counted) {
		/* later reads wait for this completion */
		e->wr.send_flags |= IBV_SEND_SIGNALED;
		rdmamsg__read_taken(ep, READ_RMA);
	} else if (!r->left && (r->op.cookie || r->after ||
				(r->kind != RMA_WRITE &&
				 r->kind != RMA_READ))) {
		ep->ctx->tx->signal = true;
	}
	rdmamsg__tx_end(ep);
}

static bool has_room(struct rdmamsg_ep *ep)
{
	return ep->state < EP_DRAINING && rdmamsg__sq_fits(&ep->lane, 1);
}

/* The tries of an emulated atomic follow one another. */
static inline bool wants_request(const struct rma *r)
{
	return (r->left || !r->begun) &&
	       (r->kind != RMA_EMULATED || (!r->posted && !r->op.status));
}

static inline bool fence_holds(const struct rdmamsg_ep *ep, const struct rma *r)
{
	return unlikely(r->fence) && !r->begun && rdmamsg__fence_holds(ep);
}

bool rdmamsg__rma_pump(struct rdmamsg_ep *ep, struct op *op)
{
	struct rma *r = (struct rma *)op;
	struct rdmamsg *ctx = ep->ctx;
	bool idle = rdmamsg__tx_burst_begin(ctx);

	while (wants_request(r) && has_room(ep) && !fence_holds(ep, r) &&
	       (!r->counted || rdmamsg__may_read(ep, READ_RMA)) &&
	       (!takes_value(ep, r) || rdmamsg__has_credit(ep))) {
		if (unlikely(r->kind == RMA_MASKED)) {
			rdmamsg__masked_post(ep, r);
			break;		/* it may want another lane now */
		}
		post_next(ep, r);
	}
	if (r->notify && r->begun && !r->left && has_room(ep) &&
	    rdmamsg__has_credit(ep)) {
		r->notify = false;
		r->posted++;
		keep_value(ep, r);
		rdmamsg__tx_message(ep, PROTO_WRITTEN,
				    rdmamsg__tx_next_number(ep), r->value, op,
				    ep->send.can_inline ? NULL : op->msg, NULL,
				    0);
	}
	if (unlikely(r->proof == PROOF_DUE) && r->begun && !r->left &&
	    has_room(ep) &&
	    (!ep->lane.came || rdmamsg__may_read(ep, READ_RMA))) {
		r->proof = PROOF_POSTED;
		if (!r->posted++)
			r->proof = PROOF_AWAITED;
		if (ep->lane.came)
			rdmamsg__read_taken(ep, READ_RMA);
		rdmamsg__tx_proof(ep, op);
	}
	rdmamsg__tx_burst_end(ctx, idle);
	return r->begun && !r->left && !r->notify && r->proof != PROOF_DUE &&
	       ep->state < EP_DRAINING;
}

bool rdmamsg__rma_inline_now(struct rdmamsg_ep *ep, const struct rma *r)
{
	return rdmamsg__rma_fits_inline(ep, r) && !ep->send.queued && has_room(ep) &&
	       !rdmamsg__keeps(ep) &&
	       (!takes_value(ep, r) || rdmamsg__has_credit(ep));
}

static void await(struct rdmamsg_ep *ep, struct rma *r)
{
	r->after |= AFTER_ANSWER;
	ep->onesided.awaited++;
}

/*
 * With failover an answer may be lost with the lane. CLOSE waits for the answer,
 * because a peer that has closed answers no more.
 */
static bool must_await(const struct rdmamsg_ep *ep, const struct rma *r)
{
	return rdmamsg__keeps(ep) && rdmamsg__rma_is_read(r);
}

/*
 * Elsewhere the peer's device begins all answers before it has CLOSE, and may
 * repeat one after that; or CLOSE overtakes them, if completions prove nothing
 * but themselves, where each read is counted. A small read without a cookie is
 * not waited for: its completion may never come alone.
 */
void rdmamsg__rma_await(struct rdmamsg_ep *ep)
{
	const uint32_t count = ep->onesided.all ? rma_count(ep) : 0;

	for (struct rma *r = ep->onesided.all; r < ep->onesided.all + count; r++)
		if (r->posted && rdmamsg__rma_is_read(r) &&
		    (r->counted || r->op.cookie) && !(r->after & AFTER_ANSWER))
			await(ep, r);
}

static void answer_came(struct rdmamsg_ep *ep)
{
	ep->onesided.awaited--;
	rdmamsg__ep_touch(ep);
}

/* Returns true if the program learns of the end in another way. */
static bool __attribute__((noinline))
told_after(struct rdmamsg_ep *ep, struct rma *r, int status)
{
	const unsigned int after = r->after;

	r->after = 0;
	if (after & AFTER_ANSWER)
		answer_came(ep);
	if (!(after & AFTER_DEADLINE))
		return false;
	rdmamsg__deadline_stop(ep, r->op.cookie);
	rdmamsg__tell_late(ep, &r->op, status);
	return true;
}

/*
 * If a write completes before the peer has it, it may be lost with the lane, so
 * failover must know that the peer has it. So must the program that flushes.
 */
void rdmamsg__rma_suit(const struct rdmamsg_ep *ep, struct rma *r)
{
	r->counted = rdmamsg__rma_is_read(r) &&
		     (r->left > RMA_SMALL || ep->lane.came);
	/* without a cookie, a later operation proves the read */
	if (unlikely(ep->lane.doubts_reads) && rdmamsg__rma_is_read(r) &&
	    r->op.cookie)
		r->proof = PROOF_DUE;
	if (unlikely(ep->lane.came) && r->kind == RMA_WRITE &&
	    (r->flush || rdmamsg__keeps(ep)))
		r->proof = PROOF_DUE;
}

void rdmamsg__rma_start(struct rdmamsg_ep *ep, struct rma *r)
{
	if (must_await(ep, r))
		await(ep, r);
	rdmamsg__rma_suit(ep, r);
	if ((ep->send.queued || rdmamsg__holds_back(ep) ||
	     !rdmamsg__rma_pump(ep, &r->op)) &&
	    list_empty(&r->op.node))
		rdmamsg__tx_queue(ep, &r->op);
}

/* ---- the end ---------------------------------------------------------- */

/* If there is memory, the operation is free while the program is untold. */
static void __attribute__((noinline))
tell_late(struct rdmamsg_ep *ep, struct rma *r, int status)
{
	struct op *op = rdmamsg__op_get(ep);

	if (op) {
		op->kind = OP_EAGER;
		op->cookie = r->op.cookie;
		put(ep, r);
	} else {
		op = &r->op;
	}
	rdmamsg__tell_late(ep, op, status);
}

/* An atomic was executed, but the device has not written what it found. */
static bool result_lost(const struct rdmamsg_ep *ep, const struct rma *r)
{
	return unlikely(ep->lane.doubts_reads) && r->kind != RMA_MASKED &&
	       *rdmamsg__rma_result(ep, r) == rdmamsg__rma_no_result(ep);
}

/* Gives the program the result of an atomic. Returns the status. */
static int give_result(const struct rdmamsg_ep *ep, const struct rma *r)
{
	if (result_lost(ep, r))
		return RDMAMSG_IN_DOUBT;
	if (likely(r->kind < RMA_EMULATED))
		*(uint64_t *)r->result = *rdmamsg__rma_result(ep, r);
	else
		rdmamsg__masked_result(ep, r, rdmamsg__rma_result(ep, r));
	return 0;
}

static inline void end(struct rdmamsg_ep *ep, struct rma *r, int status)
{
	void *cookie = r->op.cookie;

	if (unlikely(r->op.status))
		status = r->op.status;
	if (unlikely(r->kind == RMA_BIND || r->kind == RMA_INVALIDATE))
		rdmamsg__window_done(r, status);
	if (r->result && !status)
		status = give_result(ep, r);
	if (unlikely(r->after) && told_after(ep, r, status))
		return;
	if (unlikely(ep->send.late) && cookie) {
		tell_late(ep, r, status);
		return;
	}
	put(ep, r);
	if (cookie)
		rdmamsg__tell(&ep->ctx->loop, ep->on.on_complete, ep, cookie,
			      status);
}

void rdmamsg__rma_end(struct rdmamsg_ep *ep, struct op *op, int status)
{
	end(ep, (struct rma *)op, status);
}

/*
 * The proof is the last request. Returns true if this is its completion, and
 * notes when it is all that is missing.
 */
static bool is_proof(struct rdmamsg_ep *ep, struct rma *r, int *status)
{
	if (r->proof < PROOF_POSTED)
		return false;
	if (r->posted == 2 && !*status)
		r->proof = PROOF_AWAITED;
	if (r->posted > 1)
		return false;
	/* the peer's CLOSE confirms ours, which was behind the proof */
	if (r->proof == PROOF_AWAITED && ep->close.confirmed)
		*status = 0;
	r->proof = PROOF_NONE;
	if (ep->lane.came) {
		ep->reads.free++;
		if (rdmamsg__rx_waits(ep))
			rdmamsg__ep_touch(ep);
	}
	return true;
}

/*
 * A try of an emulated atomic is done. Until the last try, and its proof, the
 * operation stays first in send.queue, and all later operations wait.
 */
static void __attribute__((noinline))
answered(struct rdmamsg_ep *ep, struct rma *r)
{
	rdmamsg__ep_touch(ep);
	if (unlikely(result_lost(ep, r)))
		r->op.status = RDMAMSG_IN_DOUBT;
	else if (!rdmamsg__masked_answer(r, *rdmamsg__rma_result(ep, r)))
		return;
	r->left = 0;
	if (r->proof == PROOF_DUE)
		return;
	list_del(&r->op.node);
	if (!--ep->send.queued)
		rdmamsg__ep_ready(ep);
	end(ep, r, 0);
}

/* The only request of an atomic was not executed: it begins anew. */
static void untake(struct rma *r)
{
	const uint64_t len = r->kind == RMA_MASKED ? r->masked.size :
			     sizeof(uint64_t);

	if (r->kind == RMA_FETCH_ADD || r->kind == RMA_COMPARE_SWAP)
		r->raddr -= len - r->left;
	if (r->kind != RMA_EMULATED)
		r->left = len;
	r->begun = false;
	r->again = true;
}

void rdmamsg__rma_request_done(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct rma *r = (struct rma *)op;
	bool proof;

	if (unlikely(status) && rdmamsg__lane_lost(ep)) {
		r->posted--;
		/* the peer's device has refused it */
		if (status == -EACCES && rdmamsg__rma_is_atomic(r) &&
		    !r->posted)
			untake(r);
		rdmamsg__lost_rma(ep, r);
		return;
	}
	proof = is_proof(ep, r, &status);
	if (!status && !proof && rdmamsg__rma_is_read(r))
		ep->lane.read_done = ep->lane.sq.done;
	r->posted--;
	if (unlikely(status)) {
		if (rdmamsg__rma_is_read(r))
			ep->close.lost_read = true;
		/* the peer's CLOSE confirms ours, so the peer has this write */
		else if (r->kind == RMA_WRITE && ep->close.confirmed)
			status = 0;
	}
	if (r->counted && !proof) {
		ep->reads.free++;
		if (rdmamsg__rx_waits(ep))
			rdmamsg__ep_touch(ep);
	}
	if (unlikely(status && !op->status))
		op->status = status;
	if (r->posted)
		return;
	if (likely(list_empty(&op->node)))
		end(ep, r, 0);
	else if (r->kind == RMA_EMULATED && !op->status)
		answered(ep, r);
}

void rdmamsg__rma_lost(struct rdmamsg_ep *ep, struct op *op)
{
	struct rma *r = (struct rma *)op;

	if (r->proof != PROOF_NONE)
		ep->close.lost_read = true;
	r->proof = PROOF_NONE;
	r->posted--;
	if (rdmamsg__lane_lost(ep) || rdmamsg__keeps(ep)) {
		if (rdmamsg__rma_is_atomic(r) && !r->posted)
			untake(r);
		rdmamsg__lost_rma(ep, r);
		return;
	}
	if (list_empty(&op->node))
		rdmamsg__tx_queue(ep, op);
}

void rdmamsg__rma_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	const struct op *op =
		ep->lane.sq.slots[(uint32_t)wc->wr_id & ep->lane.sq.mask];
	enum rdmamsg_who who = RDMAMSG_WHO_LOCAL;
	const char *what;

	if (wc->wr_id & 0x80000000u || !op || op->kind != OP_RMA)
		return;
	switch (wc->status) {
	case IBV_WC_LOC_PROT_ERR:
		what = "memory of this program, for";
		break;
	case IBV_WC_MW_BIND_ERR:
		what = "window of";
		break;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		what = "access to";
		who = RDMAMSG_WHO_PEER;
		break;
	default:
		return;
	}
	rdmamsg__ep_reason(ep, who, RDMAMSG_CAUSE_ACCESS, -EACCES,
			   "%s: %s region %llu%s: %s (%s, vendor 0x%x)",
			   rdmamsg__ep_operation(ep, wc), what,
			   (unsigned long long)
			   ((const struct rma *)op)->peer_region,
			   wc->status == IBV_WC_MW_BIND_ERR ? "" :
			   " of the peer", rdmamsg__wc_text(wc->status),
			   ibv_wc_status_str(wc->status), wc->vendor_err);
}

uint8_t rdmamsg__rma_kinds(const struct rdmamsg_ep *ep)
{
	uint8_t kinds = 1u << RMA_WRITE;

	if (!(ep->connect.features & PROTO_FEATURE_RMA))
		return 0;
	if (ep->lane.init_depth)
		kinds |= 1u << RMA_READ;
	if (ep->lane.init_depth &&
	    rdmamsg__atomic_scope(ep->lane.dev->device) != RDMAMSG_ATOMIC_NONE)
		kinds |= 1u << RMA_FETCH_ADD | 1u << RMA_COMPARE_SWAP;
	return kinds;
}
