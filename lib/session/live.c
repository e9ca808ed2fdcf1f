/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Liveness, at two levels. For the transport, a keepalive (an empty write) asks
 * the peer's device, which answers without the peer's program. dead.c has the
 * clock. For the program, a PING asks the peer's library, which answers from
 * the loop of its program. One timer serves both. The data path only counts.
 * Where the completion of a write tells nothing of the peer, the PING is the
 * keepalive as well.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/cq.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/poll.h"
#include "session/tx.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#define NUDGE_MS	100	/* the first; then twice as long each time */

static bool wants_ping(const struct rdmamsg_ep *ep)
{
	return (ep->on.on_stalled &&
		ep->tuning.stall_after_ms != RDMAMSG_NONE) ||
	       ep->tuning.peer_timeout_ms != RDMAMSG_NONE ||
	       !list_empty(&ep->rndv.out);
}

/* The longest time between two ticks. */
static uint32_t period(const struct rdmamsg_ep *ep)
{
	uint32_t ms = ep->opts.dead_after_ms == RDMAMSG_NONE ? RDMAMSG_NONE :
		      rdmamsg__dead_period(ep);

	if (wants_ping(ep)) {
		if (ep->on.on_stalled &&
		    ep->tuning.stall_after_ms != RDMAMSG_NONE)
			ms = min(ms, ep->tuning.stall_after_ms / 2);
		if (ep->tuning.peer_timeout_ms != RDMAMSG_NONE)
			ms = min(ms, ep->tuning.peer_timeout_ms / 2);
	}
	if (ep->tuning.fetch_timeout_ms != RDMAMSG_NONE)
		ms = min(ms, ep->tuning.fetch_timeout_ms / 4);
	return max(ms, 1u);
}

static uint32_t interval(const struct rdmamsg_ep *ep)
{
	return max(min(period(ep), rdmamsg__dead_ms(ep)), 1u);
}

/*
 * Returns for how long this process did not run, or did not come back into the
 * library. A tick that is late by little is late for no such reason.
 */
static uint32_t stood_still(const struct rdmamsg_ep *ep)
{
	return ep->live.late_ms > period(ep) / 4 ? ep->live.late_ms : 0;
}

/* That time is not the peer's. */
static void skip(struct rdmamsg_ep *ep, uint32_t stood)
{
	uint64_t since = ep->live.fetched;

	if (likely(!stood))
		return;
	ep->live.heard += stood;
	if (!list_empty(&ep->rndv.out))
		since = max(since, list_first(&ep->rndv.out, struct op,
					      node)->rndv->since);
	/* the message may have been announced in that time */
	ep->live.fetched = min(since + stood, rdmamsg__now_ms());
}

static void told_silent(struct rdmamsg_ep *ep, uint64_t silent)
{
	if (!ep->live.stalled && ep->on.on_stalled &&
	    silent >= ep->tuning.stall_after_ms) {
		ep->live.stalled = true;
		ep->st.stalls++;
		ep_info(ep, "the peer's program has been silent for %llu ms",
			(unsigned long long)silent);
		probe(stalled, ep, silent);
		rdmamsg__record(ep->recorder, EVENT_SILENT, (uint32_t)silent,
				0);
		rdmamsg__tell(&ep->ctx->loop, ep->on.on_stalled, ep,
			      (uint32_t)silent);
	}
	if (ep->tuning.peer_timeout_ms != RDMAMSG_NONE &&
	    silent >= ep->tuning.peer_timeout_ms) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_SILENT,
				   -ETIMEDOUT, "the peer's program has not "
				   "answered for %llu ms (peer_timeout_ms is "
				   "%u): stopped, or stuck in a callback",
				   (unsigned long long)silent,
				   ep->tuning.peer_timeout_ms);
		rdmamsg__ep_kill(ep);
	}
}

void rdmamsg__live_heard(struct rdmamsg_ep *ep)
{
	ep->live.heard = rdmamsg__now_ms();
	if (!ep->live.stalled)
		return;
	ep->live.stalled = false;
	ep_info(ep, "the peer's program answers again");
	probe(resumed, ep);
	rdmamsg__record(ep->recorder, EVENT_HEARD, 0, 0);
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_resumed, ep);
}

void rdmamsg__live_asked(struct rdmamsg_ep *ep)
{
	ep->live.ping_out = true;
	ep->live.ping_seq = (uint32_t)ep->lane.hot.sq_posted - 1;
}

/* Returns by how much the last tick is late, which may be due now. */
static uint32_t late_ms(const struct rdmamsg_ep *ep)
{
	const struct timer *t = &ep->live.timer;
	uint64_t now = rdmamsg__now_ms(), when = rdmamsg__timer_ms(t);

	return t->pos >= 0 && now > when ?
	       max((uint32_t)(now - when), ep->live.late_ms) :
	       ep->live.late_ms;
}

bool rdmamsg__live_was_away(const struct rdmamsg_ep *ep)
{
	const uint32_t patience = ep->connect.peer.dead_after_ms;

	return ep->live.asks_program && patience &&
	       late_ms(ep) >= patience / 2;
}

/*
 * Ends the connection if a live peer does not fetch a large message, because
 * the message holds memory of this side. The PONGs of the peer tell whether it
 * reads messages or waits for its own memory. In both cases the time begins
 * anew. The time of a stopped peer does not count, because it is not heard.
 */
static void check_rndv(struct rdmamsg_ep *ep)
{
	/* read the clock after callbacks, which may have announced messages */
	uint64_t now = rdmamsg__now_ms(), since, patience;
	struct rndv_out *r;

	if (ep->live.fetches)
		ep->live.fetched = now;
	ep->live.fetches = false;
	if (list_empty(&ep->rndv.out) ||
	    ep->tuning.fetch_timeout_ms == RDMAMSG_NONE)
		return;
	r = list_first(&ep->rndv.out, struct op, node)->rndv;
	since = max(r->since, ep->live.fetched);
	patience = ep->tuning.fetch_timeout_ms + r->total / 1000;
	if (now - since >= patience / 2 && !ep->live.ping_out)
		ep->ctrl.due |= CTRL_PING;
	if (now - since < patience)
		return;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
			   -ETIMEDOUT, "the peer has not fetched a message of "
			   "%u bytes in %llu ms (fetch_timeout_ms is %u)",
			   r->total, (unsigned long long)(now - r->since),
			   ep->tuning.fetch_timeout_ms);
	rdmamsg__ep_kill(ep);
}

static void tick(struct timer *t)
{
	struct rdmamsg_ep *ep = list_entry(t, struct rdmamsg_ep, live.timer);
	uint64_t began = rdmamsg__now_ms(), when = rdmamsg__timer_ms(t);
	uint32_t stood;
	bool heard;

	ep->live.late_ms = began > when ? (uint32_t)(began - when) : 0;
	stood = stood_still(ep);
	skip(ep, stood);
	/* if this process was stopped or busy, completions are not read yet */
	if (rdmamsg__rx_count(&ep->lane) == ep->live.rx_seen ||
	    ep->lane.sq.done == ep->live.dead.done)
		rdmamsg__cq_poll(ep->ctx, 1 << 20);
	if ((ep->state != EP_OPEN && ep->state != EP_CLOSING) ||
	    rdmamsg__lane_lost(ep))
		return;
	heard = rdmamsg__rx_count(&ep->lane) != ep->live.rx_seen;
	ep->live.rx_seen = rdmamsg__rx_count(&ep->lane);
	rdmamsg__record_credit(ep->recorder, ep->send.queued ||
			       ep->send.want_writable, ep->credit.limit,
			       rdmamsg__tx_number(ep));
	if (!rdmamsg__dead_tick(ep, heard, began, stood))
		return;
	if (heard) {
		rdmamsg__live_heard(ep);
	} else if (wants_ping(ep) && ep->state == EP_OPEN) {
		/* the peer is silent only if it has an unanswered PING */
		if (ep->live.ping_out)
			told_silent(ep, rdmamsg__now_ms() - ep->live.heard);
		else if (!ep->live.dead.port_down)
			ep->ctrl.due |= CTRL_PING;
	}
	if (heard)
		check_rndv(ep);
	rdmamsg__ep_touch(ep);
	if ((ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
	    !rdmamsg__lane_lost(ep))
		rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->live.timer,
				   interval(ep));
}

/* ---- a peer's device that may not have noticed the first message ---------- */

static void nudge(struct timer *t)
{
	struct rdmamsg_ep *ep = list_entry(t, struct rdmamsg_ep, live.timer);

	if (ep->state != EP_SETUP || ep->connect.setup_seen ||
	    rdmamsg__lane_lost(ep) ||
	    rdmamsg__sq_used(&ep->lane) >= ep->lane.sq.total)
		return;
	ep_debug(ep, "no answer to SETUP; writing nothing to wake the peer's "
		 "device");
	rdmamsg__tx_empty(ep, NULL);
	rdmamsg__tx_flush(ep->ctx);
	if (ep->state != EP_SETUP)
		return;
	ep->live.nudge_ms *= 2;
	rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->live.timer,
			   ep->live.nudge_ms);
}

void rdmamsg__live_nudge(struct rdmamsg_ep *ep)
{
	ep->live.nudge_ms = NUDGE_MS;
	ep->live.timer.fn = nudge;
	rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->live.timer, NUDGE_MS);
}

void rdmamsg__live_stop(struct rdmamsg_ep *ep)
{
	ep->live.late_ms = late_ms(ep);
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &ep->live.timer);
}

void rdmamsg__live_start(struct rdmamsg_ep *ep)
{
	ep->live.asks_program = ep->lane.came;
	ep->live.late_ms = 0;
	ep->live.heard = rdmamsg__now_ms();
	ep->live.dead.done = ep->lane.sq.done;
	ep->live.timer.fn = tick;
	rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->live.timer,
			   interval(ep));
}
