/* SPDX-License-Identifier: BSD-2-Clause */
/* When a lane is lost, when another is tried, and when it takes over. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/cq.h"
#include "lane/qp.h"
#include "session/connector.h"
#include "session/ep.h"
#include "session/failover.h"
#include "session/poll.h"
#include "session/recv.h"
#include "session/resume.h"
#include "session/rma.h"
#include "session/tx.h"
#include "lane/srq.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#define LOOKS		8	/* in timeout_ms of the failover */
#define DRAIN_MS	1000	/* a device may lose a flushed completion */
/* All messages that a conforming peer sends before the last RESUME. */
#define ENTRIES_MAX	(RNDV_MAX * (PROTO_RESUME_ENTRY_LEN + PROTO_RNDV_MAX))

/* ---- what the program sees -------------------------------------------- */

void rdmamsg__path_tell(struct rdmamsg_ep *ep,
			const struct rdmamsg_path_event *ev)
{
	ep_info(ep, "path %s: %s",
		rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, ev->change), ev->text);
	probe(path, ep, ev->change, ev->text);
	ep->ctx->loop.told = true;
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_path, ep, ev);
}

void rdmamsg__resume_tell(struct rdmamsg_ep *ep,
			  enum rdmamsg_path_change change, const char *text)
{
	char copy[sizeof(ep->resume->why.text)];
	const struct rdmamsg_path_event ev = {
		.size = sizeof(ev), .change = change, .port = ep->lane.port,
		.text = copy,
	};

	snprintf(copy, sizeof(copy), "%s", text);
	rdmamsg__path_tell(ep, &ev);
}

bool rdmamsg__resume_stands_by(const struct resume *r)
{
	return r->lane == LANE_UP && !r->down && r->carrier &&
	       r->carrier->state == EP_OPEN;
}

/* ---- losing a lane ---------------------------------------------------- */

/* Returns true if the reason concerns the lane and not the session. */
static bool is_of_lane(const struct rdmamsg_reason *r)
{
	switch (r->cause) {
	case RDMAMSG_CAUSE_TRANSPORT:
	case RDMAMSG_CAUSE_REMOVED:
		return r->who != RDMAMSG_WHO_LOCAL;
	case RDMAMSG_CAUSE_ABORTED:
		/* the peer may have lost its lane, and so disconnected */
		return r->who == RDMAMSG_WHO_PEER;
	default:
		return false;
	}
}

/* A graceful close that was interrupted goes on with its own reason. */
static void forget_reason(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_reason_forget(ep);
	if (ep->state == EP_CLOSING)
		rdmamsg__ep_reason(ep, ep->close.by_peer ? RDMAMSG_WHO_PEER :
				   RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED, 0,
				   ep->close.by_peer ? "closed by the peer" :
				   "closed");
}

void rdmamsg__resume_wake(struct rdmamsg_ep *ep)
{
	ep->ctrl.due |= CTRL_LANE;
	rdmamsg__ep_touch(ep);
}

/*
 * The first try goes to another address than that of the lost lane. But if only
 * the peer's word tells of another, and the network has not failed, the same
 * address comes first. Not twice in succession: the peer may be the side that
 * notices a network which loses packets.
 */
static uint32_t first_target(struct resume *r)
{
	r->stayed = !r->host && r->why.who != RDMAMSG_WHO_NETWORK &&
		    r->lane_target != TARGET_NONE && !r->stayed;
	return r->stayed ? r->lane_target :
			   rdmamsg__target_next(r, r->lane_target);
}

static void lose(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	r->lane = LANE_FAILING;
	ep->st.lanes_lost++;
	r->since = rdmamsg__now_ms();
	r->again_at = r->since;
	r->wait_ms = WAIT_FIRST_MS;
	r->tries = 0;
	if (!r->carrier)
		r->target = first_target(r);
	r->denied = r->tried = 0;
	memset(r->met, 0, sizeof(r->met));
	rdmamsg__record_reason(ep->recorder, EVENT_LOST, &r->why,
			       rdmamsg_ep_device_name(ep));
	if (r->moving)
		rdmamsg__record(ep->recorder, EVENT_MOVE, MOVE_FAILED, 0);
	r->moving = r->moved = r->ask_move = false;
	rdmamsg__live_stop(ep);
	/* give a close its whole time, even if the peer has disconnected */
	if (ep->state == EP_CLOSING)
		rdmamsg__ep_timeout(ep);
	if (ep->state == EP_CLOSING && rdmamsg__resume_lingers(ep))
		rdmamsg__ep_peer_gone(ep);
	rdmamsg__ep_ready(ep);
	rdmamsg__resume_wake(ep);
}

/*
 * Returns true if closing needs no lane any more: each side has the CLOSE of
 * the other, and knows that the other has its own. Our confirming CLOSE has
 * arrived if its request is acknowledged (asserted_done), or if this side has
 * sent only one, because the peer's CLOSE then confirms it. Otherwise the peer
 * may have lost the lane as well, and would look for this side in vain.
 */
static bool has_closed(const struct rdmamsg_ep *ep)
{
	return ep->close.seen && ep->close.confirmed && !ep->close.lost_read &&
	       (ep->close.asserted_done || ep->close.once);
}

/* Only the program is missing, which has paused the endpoint. */
static bool waits_for_program(const struct rdmamsg_ep *ep)
{
	const struct resume *r = ep->resume;

	return r && r->agreed && !r->over && !ep->ctx->closing &&
	       ep->state == EP_CLOSING && has_closed(ep) &&
	       rdmamsg__rx_waits(ep);
}

bool rdmamsg__resume_lingers(const struct rdmamsg_ep *ep)
{
	return ep->connect.passive && ep->close.seen && ep->close.confirmed;
}

bool rdmamsg__resume_goes_on(const struct rdmamsg_ep *ep)
{
	const struct resume *r = ep->resume;

	return r && r->agreed && !r->over && !ep->ctx->closing &&
	       (ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
	       !has_closed(ep);
}

/* An event and a completion may tell of the same wrong key. */
static bool forgives_peer(struct resume *r)
{
	if (!r->forgiven)
		r->forgiven = r->lanes + 1;
	return r->forgiven == r->lanes + 1;
}

/*
 * The kernel frees the regions of a process before its queue pairs, if the
 * process is killed or the device removed. So a peer that dies may refuse a
 * request first. A peer that lives refuses the same request again over the next
 * lane. Until then it forgives this side one wrong key in a session, so that
 * there is a next lane.
 */
bool rdmamsg__resume_forgives(struct rdmamsg_ep *ep, struct op *op)
{
	bool *before;

	if (!rdmamsg__resume_goes_on(ep))
		return false;
	if (!op)
		return forgives_peer(ep->resume);
	if (op->kind == OP_READ)
		before = &op->in->refused;
	else if (op->kind == OP_RMA)
		before = &((struct rma *)op)->refused;
	else
		return false;
	if (*before)
		return false;
	*before = true;
	return true;
}

bool rdmamsg__resume_instead(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	if (ep->close.aborted_by_peer ||
	    (!rdmamsg__resume_goes_on(ep) && !waits_for_program(ep)) ||
	    !is_of_lane(&ep->close.reason))
		return false;
	if (r->lane == LANE_UP) {
		r->why = ep->close.reason;
		lose(ep);
	}
	forget_reason(ep);
	return true;
}

static bool same_port(const struct lane *a, const struct lane *b)
{
	return a->dev == b->dev && a->port == b->port;
}

void rdmamsg__resume_port_down(struct rdmamsg_ep *ep)
{
	const struct resume *r = ep->resume;

	if (!rdmamsg__resume_goes_on(ep) || !rdmamsg__resume_stands_by(r) ||
	    same_port(&r->carrier->lane, &ep->lane))
		return;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TRANSPORT,
			   -ENETDOWN, "port %u of %s is down", ep->lane.port,
			   rdmamsg_ep_device_name(ep));
	rdmamsg__ep_kill(ep);
}

void rdmamsg__resume_timer(struct timer *t)
{
	struct resume *r = list_entry(t, struct resume, timer);

	if (r->lane == LANE_DRAINING) {
		ep_warn(r->ep, "the device has not flushed %u sends and %u "
			"receives of the lost connection in %d ms",
			rdmamsg__sq_used(&r->ep->lane),
			rdmamsg__rq_posted(&r->ep->lane), DRAIN_MS);
		r->ep->lane.drained = true;
	}
	rdmamsg__resume_wake(r->ep);
}


static void drain(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	if (ep->ctx->tx->lane == &ep->lane)
		rdmamsg__tx_flush(ep->ctx);
	r->lane = LANE_DRAINING;
	if (rdmamsg__lane_error(&ep->lane))
		ep->lane.drained = true;	/* no flush will come */
	else
		rdmamsg__tx_mark_end(ep);
	ep->lane.sq.data = ep->lane.sq.total = ep->lane.sq.more = 0;
	rdmamsg__ep_ready(ep);
	ep->connect.by->disconnect(ep);
	rdmamsg__timer_set(&ep->ctx->loop.timers, &r->timer, DRAIN_MS);
	rdmamsg__failover_down(ep);
	r->down = true;
	rdmamsg__resume_tell(ep, RDMAMSG_PATH_CHANGE_DOWN, r->why.text);
}

/* ---- taking over ------------------------------------------------------ */

static void take_over(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	struct rdmamsg_ep *c = r->carrier;
	struct rdmamsg_path_event ev = {
		.size = sizeof(ev), .change = RDMAMSG_PATH_CHANGE_RESUMED,
	};
	char text[128];

	/* the former lane may have confirmed more than this RESUME */
	if ((int32_t)(r->peer_next - r->keep.first) < 0) {
		rdmamsg__ep_protocol(c, "RESUME from message %u, it has "
				     "confirmed those before %u", r->peer_next,
				     r->keep.first);
		return;
	}
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &r->timer);
	rdmamsg__carrier_give(ep);
	rdmamsg__carrier_forget(r);
	if (ep->state >= EP_DRAINING)
		return;
	r->resumes++;
	ep->st.lanes_resumed++;
	r->down = false;
	rdmamsg__targets_learn(ep);
	r->wait_ms = WAIT_FIRST_MS;
	r->again_at = 0;
	/* dial no further lane before the peer has read our RESUME */
	r->answered = false;
	if (!ep->connect.passive && !ep->live.ping_out)
		ep->ctrl.due |= CTRL_PING;
	ev.port = ep->lane.port;
	ev.ms = (uint32_t)(rdmamsg__now_ms() - r->since);
	ev.repeated = r->keep.end - r->keep.at;
	ep->st.msgs_repeated += ev.repeated;
	ev.text = text;
	rdmamsg__record_device(ep->recorder, EVENT_RESUMED,
			       rdmamsg_ep_device_name(ep), ev.ms);
	if (r->moved)
		rdmamsg__record(ep->recorder, EVENT_MOVE, MOVE_DONE, 0);
	r->moved = false;
	if (ev.repeated)
		rdmamsg__record(ep->recorder, EVENT_REPLAY, r->keep.at,
				ev.repeated);
	snprintf(text, sizeof(text), "over %s after %u ms, %u messages are sent "
		 "again", rdmamsg_ep_device_name(ep), ev.ms, ev.repeated);
	rdmamsg__path_tell(ep, &ev);
}

static bool is_open(const struct rdmamsg_ep *carrier)
{
	return carrier && carrier->state == EP_OPEN;
}

/* Makes another lane, and leaves the present one for it. */
static void move(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	ep->ctrl.due &= ~CTRL_LANE;
	if (!r->answered)
		return;
	if (is_open(r->carrier)) {
		r->why = (struct rdmamsg_reason){
			.size = sizeof(r->why), .who = RDMAMSG_WHO_LOCAL,
			.cause = RDMAMSG_CAUSE_TRANSPORT, .error = -ETIMEDOUT,
			.cm_event = -1, .text = "a planned move",
		};
		r->moving = false;
		lose(ep);
		r->moved = true;
		return;
	}
	if (r->carrier)
		return;
	r->target = rdmamsg__target_next(r, r->lane_target);
	if (rdmamsg__try(rdmamsg__redial(ep)))
		rdmamsg__redial_in_vain(ep, rdmamsg__text());
}

/* Makes another lane in advance. */
static void stand_by(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	uint64_t now = rdmamsg__now_ms();

	ep->ctrl.due &= ~CTRL_LANE;
	if (!(r->opts.rungs & RDMAMSG_RUNG_STANDBY) || ep->connect.passive ||
	    ep->state != EP_OPEN || r->carrier || !r->agreed || !r->answered)
		return;
	if (now >= r->again_at) {
		r->target = rdmamsg__target_apart(r, r->target);
		rdmamsg__redial_now(ep);
	}
	if (!r->carrier)
		rdmamsg__timer_set(&ep->ctx->loop.timers, &r->timer,
				   r->again_at > now ? r->again_at - now : 1);
}

void rdmamsg__resume_answered(struct rdmamsg_ep *ep)
{
	if (ep->resume->answered)
		return;
	ep->resume->answered = true;
	rdmamsg__resume_wake(ep);
}

void rdmamsg__resume_start(struct rdmamsg_ep *ep)
{
	if (rdmamsg__keeps(ep)) {
		ep->resume->answered = true;
		ep->resume->wait_ms = WAIT_FIRST_MS;
		rdmamsg__resume_wake(ep);
	}
}

/*
 * A late timer shows for how long this process did not run. That is not the
 * peer's time: if both sides were stopped, one of them goes on first.
 */
static void skip_stop(struct rdmamsg_ep *ep, uint64_t now)
{
	struct resume *r = ep->resume;
	const uint64_t due = rdmamsg__timer_ms(&r->timer);

	if (due < r->since || now <= due + rdmamsg__resume_ms(ep) / LOOKS)
		return;
	r->since += now - due;
	/* so that the timer is late no longer */
	rdmamsg__timer_set(&ep->ctx->loop.timers, &r->timer, 1);
}

static void progress_down(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	uint64_t now = rdmamsg__now_ms(), end;

	skip_stop(ep, now);
	end = r->since + rdmamsg__resume_ms(ep);
	if (has_closed(ep)) {
		if (!rdmamsg__rx_waits(ep))
			rdmamsg__ep_kill(ep);
		return;
	}
	if (now >= end) {
		rdmamsg__redial_over(ep);
		return;
	}
	if (!r->carrier && !ep->connect.passive && now >= r->again_at)
		rdmamsg__redial_now(ep);
	/* the carrier's own clock may be slower than timeout_ms */
	if (r->said && !ep->connect.passive && now >= r->said_at + TRY_MS) {
		ep_info(ep, "try %u for another connection: no RESUME from "
			"the peer in %u ms", r->tries, TRY_MS);
		rdmamsg__carrier_drop(r);
		rdmamsg__redial_later(r);
	}
	if (is_open(r->carrier) && !r->said) {
		r->said = rdmamsg__carrier_say(ep);
		r->said_at = now;
		if (r->said)
			rdmamsg__record(ep->recorder, EVENT_RESUME_SENT,
					ep->recv.next, ep->rndv.count);
	}
	if (r->said && r->heard) {
		take_over(ep);
		return;
	}
	if (!ep->connect.passive && r->said)
		end = min(end, r->said_at + TRY_MS);
	else if (!ep->connect.passive && !r->carrier)
		end = min(end, r->again_at);
	end = min(end, now + rdmamsg__resume_ms(ep) / LOOKS);
	rdmamsg__timer_set(&ep->ctx->loop.timers, &r->timer,
			   end > now ? end - now : 1);
}

bool rdmamsg__resume_progress(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	if (!r || (ep->state != EP_OPEN && ep->state != EP_CLOSING))
		return true;
	if (r->lane == LANE_UP && !rdmamsg__holds_back(ep)) {
		if (r->moving && ep->state == EP_OPEN)
			move(ep);
		else
			stand_by(ep);
	}
	if (r->lane == LANE_UP)
		return true;
	if (r->lane == LANE_FAILING)
		drain(ep);
	if (r->lane == LANE_DRAINING && rdmamsg__lane_is_drained(&ep->lane)) {
		/* take all that came: the peer may have completed it */
		rdmamsg__cq_drain(ep->ctx, ep->lane.srq ? ep->lane.srq->cq :
				  ep->lane.cq);
		if (ep->state >= EP_DRAINING)
			return true;
		r->lane = LANE_DOWN;
		rdmamsg__lane_down(ep);
		rdmamsg__record(ep->recorder, EVENT_DOWN,
				(uint32_t)(rdmamsg__now_ms() - r->since), 0);
	}
	if (r->lane == LANE_DOWN)
		progress_down(ep);
	return r->lane == LANE_UP;
}

/* Checks the entries, and appends them to those of earlier parts. */
static int take_entries(struct resume *r, const struct proto_resume *h,
			const uint8_t *buf, size_t len)
{
	struct proto_rndv rndv;
	size_t used = 0;
	uint32_t number;
	uint8_t *p;

	for (uint32_t i = 0; i < h->count; i++) {
		int n = rdmamsg__resume_entry_decode(&number, &rndv, buf + used,
						     len - used);

		if (n < 0)
			return n;
		used += (size_t)n;
	}
	for (uint32_t i = 0; i < h->keys; i++) {
		struct proto_renewed k;
		size_t at = used + i * PROTO_RENEWED_LEN;
		int err = at > len ? -EPROTO :
			  rdmamsg__renewed_decode(&k, buf + at, len - at);

		if (!err)
			err = rdmamsg__renew_take(r, &k);
		if (err)
			return err;
	}
	if (!used)
		return 0;
	if (r->entries_len + used > ENTRIES_MAX)
		return -EPROTO;
	p = realloc(r->entries, r->entries_len + used);
	if (!p)
		return -ENOMEM;
	memcpy(p + r->entries_len, buf, used);
	r->entries = p;
	r->entries_len += used;
	return 0;
}

void rdmamsg__resume_take(struct rdmamsg_ep *carrier, const void *buf,
			  size_t len)
{
	struct rdmamsg_ep *ep = carrier->carries;
	struct resume *r = ep ? ep->resume : NULL;
	struct proto_resume h;
	int err;

	if (!r || r->carrier != carrier || r->heard) {
		rdmamsg__ep_protocol(carrier, "RESUME out of turn");
		return;
	}
	/* the endpoint ends, and the carrier with it */
	if (ep->state >= EP_DRAINING)
		return;
	err = rdmamsg__resume_decode(&h, buf, len);
	if (!err)
		err = take_entries(r, &h, (const uint8_t *)buf +
				   PROTO_RESUME_LEN, len - PROTO_RESUME_LEN);
	if (err == -ENOMEM) {
		rdmamsg__ep_abort(carrier, RDMAMSG_CAUSE_RESOURCES, err,
				  "no memory to resume");
		return;
	}
	if (err || (int32_t)(h.next - r->keep.first) < 0 ||
	    (int32_t)(r->keep.end - h.next) < 0) {
		rdmamsg__ep_protocol(carrier, "a broken RESUME");
		return;
	}
	r->peer_next = h.next;
	r->heard = !h.more;
	if (!r->heard)
		return;
	rdmamsg__record(ep->recorder, EVENT_RESUME_TAKEN, h.next, 0);
	if (r->lane == LANE_UP) {
		r->why = (struct rdmamsg_reason){
			.size = sizeof(r->why), .who = RDMAMSG_WHO_PEER,
			.cause = RDMAMSG_CAUSE_TRANSPORT, .error = -ECONNRESET,
			.cm_event = -1, .text = "the peer has lost the connection",
		};
		lose(ep);
	}
	/* not later: messages may follow in the same batch of completions */
	if (r->said)
		take_over(ep);
	else
		rdmamsg__resume_wake(ep);
}
