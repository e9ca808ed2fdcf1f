/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions of receives, and the fast path of messages: from the completion
 * to on_message.
 */
#include "base/ctx.h"
#include "base/handles.h"
#include "base/util.h"
#include "lane/srq.h"
#include "session/close.h"
#include "session/ep.h"
#include "session/recv.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

/*
 * The next receive has completed successfully. Fast path: a compact message
 * that grants nothing. In a state in which messages cannot be delivered at
 * once, recv.end is 0.
 */
static inline __attribute__((always_inline)) void
rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg, const struct ibv_wc *wc)
{
	const uint32_t imm = le32toh((uint32_t)wc->imm_data);

	if (unlikely(!(wc->wc_flags & IBV_WC_WITH_IMM) ||
		     (imm & PROTO_IMM_MASK) !=
		     (ep->recv.next & PROTO_NUMBER_MASK) ||
		     wc->byte_len >= ep->recv.end ||
		     ep->recv.next == ep->credit.announced)) {
		rdmamsg__rx_other(ep, msg, wc);
		return;
	}
	ep->recv.next++;
	msg->tag = imm >> 16;
	msg->len = wc->byte_len;
	msg->data = msg->buf;
	rdmamsg__deliver_in_place(ep, msg);
}

static inline void rx_take(struct rdmamsg_ep *ep, struct rx_slot *slot,
			   const struct ibv_wc *wc)
{
	struct rdmamsg_msg *msg = slot->msg;

	ep->lane.rq.head = (struct rx_slot *)slot->wr.next;
	rx_msg(ep, msg, wc);
}

void rdmamsg__rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc)
{
	rx_msg(ep, msg, wc);
}

/* Few receives are left. False: none was posted, the device is broken. */
static bool running_low(struct rdmamsg_ep *ep)
{
	if (ep->lane.rq.spare < -(int32_t)ep->lane.rq.low) {
		ep->lane.rq.spare++;
		return false;
	}
	/* refill later: one post for several receives, and credits can wait */
	if (!ep->dirty)
		rdmamsg__ep_touch(ep);
	return true;
}

static void __attribute__((noinline))
rx_take_low(struct rdmamsg_ep *ep, struct rx_slot *slot,
	    const struct ibv_wc *wc)
{
	if (running_low(ep))
		rx_take(ep, slot, wc);
}

static inline void rx_done(struct rdmamsg_ep *ep, struct rx_slot *slot,
			   const struct ibv_wc *wc)
{
	if (likely(--ep->lane.rq.spare >= 0))
		rx_take(ep, slot, wc);
	else
		rx_take_low(ep, slot, wc);
}

/* ---- completions ------------------------------------------------------ */

/* A wr_id that no receive has: an endpoint would need 2^31 receives. */
static struct rx_slot no_slot = { .wr.wr_id = UINT64_MAX };
struct rdmamsg_ep rdmamsg__nobody = { .lane.rq.head = &no_slot };

/* A receive has failed. Its buffer stays in the slot. */
static void rx_failed(struct rdmamsg_ep *ep)
{
	if (--ep->lane.rq.spare < 0 && !running_low(ep))
		return;
	ep->lane.rq.head = (struct rx_slot *)ep->lane.rq.head->wr.next;
	ep->st.msgs_received--;		/* not a message */
	rdmamsg__ep_touch(ep);
}

/* A Write with immediate data has used the next receive. */
static void written_imm(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	struct rx_slot *slot = ep->lane.rq.head;

	if (--ep->lane.rq.spare < 0 && !running_low(ep))
		return;
	ep->lane.rq.head = (struct rx_slot *)slot->wr.next;
	rdmamsg__rx_imm(ep, slot->msg, wc);
}

/*
 * Returns true if a Send has filled the receive. An RDMA Write with immediate
 * data also uses up a receive, but does not write its buffer, which may have a
 * message of another peer. Only the opcode differs.
 */
static inline bool is_send(const struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	_Static_assert(offsetof(struct ibv_wc, opcode) -
		       offsetof(struct ibv_wc, status) ==
		       offsetof(struct wc_kind, opcode),
		       "both in one comparison");
	return !memcmp((const char *)wc + offsetof(struct ibv_wc, status),
		       &ctx->received, sizeof(ctx->received));
}

/* Handles completions other than receives of ctx->last. */
static void __attribute__((noinline))
other_done(struct rdmamsg *ctx, const struct ibv_wc *wc,
	   const struct ibv_wc *end)
{
	uint32_t key = (uint32_t)(wc->wr_id >> 32), seq = (uint32_t)wc->wr_id;
	struct rdmamsg_ep *ep =
		rdmamsg__handle_of(&ctx->sessions->table, key >> 8);
	int status = 0;

	if (unlikely(!ep || ep->key != key)) {
		if (key == SRQ_KEY)
			rdmamsg__srq_done(ctx, wc, end);
		else if (key == GROUP_KEY)
			ctx->group_done(ctx, wc);
		else if (key == DC_KEY)
			ctx->dc_done(ctx, wc);
		else if (key == CHAIN_KEY)
			ctx->chain_done(ctx, wc);
		return;		/* the endpoint is gone */
	}
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		status = wc->status == IBV_WC_REM_ACCESS_ERR ? -EACCES :
			 -ECANCELED;
		rdmamsg__ep_lost(ep, seq);
		rdmamsg__ep_wc_error(ep, wc);
	}
	if (!(seq & 0x80000000u)) {
		ep->st.completions++;
		rdmamsg__tx_done(ep, seq, status);
		return;
	}
	if (unlikely(wc->wr_id != ep->lane.rq.head->wr.wr_id))
		return;		/* not the next: a broken device */
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		rx_failed(ep);
		return;
	}
	if (unlikely(!is_send(ctx, wc))) {
		written_imm(ep, wc);
		return;
	}
	ctx->last = ep;
	rx_done(ep, ep->lane.rq.head, wc);
	/* prefetch for the next receive, which comes after some others */
	__builtin_prefetch(ep->lane.rq.head->msg, 1);
	__builtin_prefetch(ep->lane.rq.head + 1);
}

static inline __attribute__((always_inline)) void
dispatch_one(struct rdmamsg *ctx, const struct ibv_wc *wc,
	     const struct ibv_wc *end)
{
	struct rdmamsg_ep *ep = ctx->last;
	struct rx_slot *slot = ep->lane.rq.head;

	if (likely(wc->wr_id == slot->wr.wr_id && is_send(ctx, wc)))
		rx_done(ep, slot, wc);
	else
		other_done(ctx, wc, end);
}

static inline __attribute__((always_inline)) void
dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n)
{
	const struct ibv_wc *end = wc + n;

	do
		dispatch_one(ctx, wc, end);
	while (unlikely(++wc != end));
}

/* Those that are left can be handled early: see room.c. */
static inline __attribute__((always_inline)) void
several(struct rdmamsg *ctx, const struct ibv_wc *wc, int n)
{
	ctx->handled = wc;
	ctx->handled_count = n;
	dispatch(ctx, wc, n);
	ctx->handled_count = 0;
}

void rdmamsg__dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n)
{
	if (n <= 0)
		return;
	ctx->loop.in_callback++;
	if (n == 1)
		dispatch_one(ctx, wc, wc + 1);
	else
		several(ctx, wc, n);
	ctx->loop.in_callback--;
}

/* completions take longer than empty polls: they count for more */
#define POLLS_EACH	4

static void __attribute__((noinline))
several_completed(struct rdmamsg *ctx, int n)
{
	ctx->hot.polls -= HOT_INSIDE + POLLS_EACH * n;
	ctx->loop.in_callback = 1;
	several(ctx, ctx->hot.wc, n);
	ctx->loop.in_callback = 0;
	ctx->hot.polls += HOT_INSIDE;
	rdmamsg__settle(ctx);
}

/*
 * Not called inside another call, because hot.polls is 0 there. It notes no
 * frame for lib/loop/left.c, which would cost each message ten instructions. A
 * single completion needs no loop, which saves it another ten.
 */
void rdmamsg_fast_completed(struct rdmamsg *ctx, int n)
{
	if (unlikely(!ctx))
		return;
	if (n != 1) {
		several_completed(ctx, n);
		return;
	}
	ctx->hot.polls -= HOT_INSIDE + POLLS_EACH;
	ctx->loop.in_callback = 1;
	dispatch_one(ctx, ctx->hot.wc, ctx->hot.wc + 1);
	ctx->loop.in_callback = 0;
	ctx->hot.polls += HOT_INSIDE;
	rdmamsg__settle(ctx);
}
