/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room in a full send queue, for a call inside a callback. The loop handles no
 * completion before the callback returns. So the call itself takes those that
 * tell of sent messages: from the completions that the loop was handling when
 * it came to this callback, and from the queue. Callbacks that become due wait:
 * the completion stays early, and when the loop comes to it, on_complete is
 * called (op.c, rdmamsg__tell_untold()). Datagrams of groups: group/datagram.c,
 * rdmamsg__carrier_early(). All others stay early, too.
 */
#include "base/ctx.h"
#include "base/handles.h"
#include "base/util.h"
#include "device/cq.h"
#include "device/early.h"
#include "lane/lane.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/send.h"
#include "session/sessions.h"
#include "session/tx.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#define ROOMS_MAX	1024	/* for one-sided operations, in a round */

/*
 * Returns the endpoint of a request that was sent well, or NULL. If a request
 * before it has failed, the loop learns of that first: where completions come
 * in any order, the later request waits for those before it.
 */
static struct rdmamsg_ep *sender_of(struct rdmamsg *ctx,
				    const struct ibv_wc *wc)
{
	const uint32_t key = (uint32_t)(wc->wr_id >> 32);
	struct rdmamsg_ep *ep;

	if (wc->status != IBV_WC_SUCCESS || wc->wr_id & 0x80000000u)
		return NULL;
	ep = rdmamsg__handle_of(&ctx->sessions->table, key >> 8);
	return ep && ep->key == key && ep->state == EP_OPEN &&
	       !rdmamsg__lane_lost(ep) ? ep : NULL;
}

/* Handles the completion. Returns false if the program is still to be told. */
static bool handle(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	const struct op *untold = ep->send.untold;

	ep->send.late |= LATE_CALL;
	rdmamsg__tx_done(ep, (uint32_t)wc->wr_id, 0);
	ep->send.late &= (uint8_t)~LATE_CALL;
	return ep->send.untold == untold;
}

static bool is_of_group(const struct ibv_wc *wc)
{
	return wc->wr_id >> 32 == GROUP_KEY;
}

/* Those that were polled together with the one that has led to the callback. */
static void handle_polled(struct rdmamsg *ctx)
{
	for (int i = 0; i < ctx->handled_count; i++) {
		const struct ibv_wc *wc = &ctx->handled[i];
		struct rdmamsg_ep *ep = sender_of(ctx, wc);

		if (is_of_group(wc))
			ctx->group_early(ctx, NULL, wc);
		if (!ep || !rdmamsg__early_reserve(ep->lane.cq) ||
		    handle(ep, wc))
			continue;
		/* the loop counts it, and then its copy */
		rdmamsg__early_keep(ctx, ep->lane.cq, wc);
		ep->st.completions--;
	}
}

static void handle_new(struct rdmamsg *ctx, struct cq *cq,
		       const struct ibv_wc *wc, int n)
{
	for (; n; n--, wc++) {
		struct rdmamsg_ep *ep = sender_of(ctx, wc);

		if (is_of_group(wc))
			ctx->group_early(ctx, cq, wc);
		else if (ep && handle(ep, wc))
			ep->st.completions++;
		else
			rdmamsg__early_keep(ctx, cq, wc);
	}
}

static bool is_full(void *arg)
{
	struct rdmamsg_ep *ep = arg;

	return ep->send.queued || !rdmamsg__sq_fits(&ep->lane, 1);
}

static bool lacks_operation(void *arg)
{
	struct rdmamsg_ep *ep = arg;

	return !ep->onesided.free;
}

/* Posts all that was accepted. Returns true if completions may make room. */
static bool post_all(struct rdmamsg_ep *ep)
{
	if (!ep->ctx->loop.in_callback)
		return false;
	rdmamsg__tx_flush(ep->ctx);
	return ep->state == EP_OPEN && !rdmamsg__lane_lost(ep);
}

void rdmamsg__take_completions(struct rdmamsg *ctx, struct cq *cq,
			       bool (*lacks)(void *arg), void *arg)
{
	struct ibv_wc *wc;
	int got;

	handle_polled(ctx);
	do {
		got = rdmamsg__early_poll(cq, &wc);
		handle_new(ctx, cq, wc, got);
	} while (got == EARLY_POLL && lacks(arg));
}

static void take_completions(struct rdmamsg_ep *ep,
			     bool (*lacks)(void *arg))
{
	rdmamsg__take_completions(ep->ctx, ep->lane.cq, lacks, ep);
	if (ep->send.queued && !rdmamsg__holds_back(ep)) {
		rdmamsg__pump_queue(ep);
		rdmamsg__ep_ready(ep);
	}
}

bool rdmamsg__make_room(struct rdmamsg_ep *ep)
{
	/* credit comes with a message, which the loop takes */
	if (!post_all(ep) || !rdmamsg__has_credit(ep))
		return false;
	take_completions(ep, is_full);
	return true;
}

/*
 * No credit ends a loop that calls until it is refused, so the number of times
 * does. A refused call leads to another round.
 */
static bool in_bounds(struct sessions *s)
{
	if (s->rooms_round != s->rounds) {
		s->rooms_round = s->rounds;
		s->rooms = 0;
	}
	return s->rooms++ < ROOMS_MAX;
}

void rdmamsg__make_rma_room(struct rdmamsg_ep *ep)
{
	if (post_all(ep) && in_bounds(ep->ctx->sessions))
		take_completions(ep, lacks_operation);
}
