/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of endpoints. rdmamsg__ep_kill() only marks an endpoint. The loop
 * acts on the mark in rdmamsg__ep_progress_close(), outside of callbacks. A
 * call of the program also starts draining at once.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/timer.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/pd.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "lane/qp.h"
#include "lane/srq.h"
#include "session/tx.h"
#include "memory/layout_ask.h"
#include "memory/pool.h"
#include "session/auth.h"
#include "session/ctrl.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/poll.h"
#include "session/recv.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/word.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define DRAIN_MS	1000	/* some devices lose a flushed completion */
#define SAY_MS		1000	/* longest wait for the last message */
#define GONE_MS		2000	/* longest wait after the peer's disconnect */
#define LINGER_MS	5000	/* longer than a try of a peer, TRY_MS */

static bool is_ending(const struct rdmamsg_ep *ep)
{
	return ep->state >= EP_DRAINING && ep->state != EP_BACKOFF;
}

/* For the program, one that is to be dialled again still connects. */
static bool has_ended(const struct rdmamsg_ep *ep)
{
	return is_ending(ep) && !ep->connect.redials;
}

void rdmamsg__ep_kill(struct rdmamsg_ep *ep)
{
	if (is_ending(ep) || rdmamsg__resume_instead(ep))
		return;
	rdmamsg__ep_enter(ep, EP_DRAINING);
	rdmamsg__record_reason(ep->recorder, EVENT_ENDS, &ep->close.reason,
			       NULL);
	ep->close.failing = true;
	rdmamsg__ep_ready(ep);
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &ep->timer);
	rdmamsg__live_stop(ep);
	rdmamsg__layout_asks_drop(ep->ctx, ep);
	rdmamsg__ep_touch(ep);
}

/* The peer's device shall have ABORT before the queue pair fails. */
static bool still_says(struct rdmamsg_ep *ep)
{
	if (!ep->close.saying || ep->close.disconnected || ep->lane.failed)
		return false;
	if (ep->ctx->tx->lane == &ep->lane)
		rdmamsg__tx_flush(ep->ctx);
	return true;
}

/* Acts on the mark of rdmamsg__ep_kill(): stops dialling, drains the lane. */
static void start_draining(struct rdmamsg_ep *ep)
{
	if (!ep->close.failing || still_says(ep))
		return;
	ep->close.failing = ep->close.saying = false;
	if (ep->ctx->tx->lane == &ep->lane)
		rdmamsg__tx_flush(ep->ctx);
	if (ep->connect.redials)
		ep->connect.by->stop(ep);
	else
		ep->connect.by->cancel(ep);
	if (!ep->lane.hot.qp)
		return;
	if (rdmamsg__lane_error(&ep->lane))
		ep->lane.drained = true;	/* no flush will come */
	else
		rdmamsg__tx_mark_end(ep);
	ep->connect.by->disconnect(ep);
	rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->timer, DRAIN_MS);
}

/*
 * Returns true if both sides have sent CLOSE and each has all messages of the
 * other. Then the close is graceful, however the connection ends after that.
 */
static bool is_agreed(const struct rdmamsg_ep *ep)
{
	return ep->close.sent && ep->close.seen && !ep->close.lost_read &&
	       !ep->close.undelivered && !ep->close.aborted_by_peer &&
	       (ep->close.confirmed || !ep->close.lost);
}

bool rdmamsg__ep_is_over(const struct rdmamsg_ep *ep)
{
	return ep->state == EP_CLOSING && rdmamsg__rx_waits(ep) &&
	       ep->close.confirmed && is_agreed(ep);
}

static void set_closed(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_reason_forget(ep);
	rdmamsg__ep_reason(ep, ep->close.by_peer ? RDMAMSG_WHO_PEER :
			   RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED, 0, "%s",
			   ep->close.by_peer ? "closed by the peer" : "closed");
}

static void log_line(void *arg, const char *text)
{
	ep_warn(arg, "%s", text);
}

/* The connection has failed in spite of failover: tells how. */
static void log_history(const struct rdmamsg_ep *ep)
{
	const struct rdmamsg_reason *r = &ep->close.reason;

	if (!ep->recorder || !ep->connect.told ||
	    r->cause == RDMAMSG_CAUSE_CLOSED || r->who == RDMAMSG_WHO_LOCAL)
		return;
	ep_warn(ep, "its last events, in seconds since it was made:");
	rdmamsg__recorder_print(ep->recorder, log_line, (void *)ep);
}

/* Other lanes were tried in vain: says so behind the reason. */
static void add_tries(struct rdmamsg_ep *ep)
{
	char *text = ep->close.reason.text;
	size_t len = strlen(text);

	if (ep->resume)
		(void)snprintf(text + len, sizeof(ep->close.reason.text) - len,
			       "%s", ep->resume->more);
}

static void tell_closed(struct rdmamsg_ep *ep)
{
	struct rdmamsg_reason *r = &ep->close.reason;

	/*
	 * If a peer aborts or is killed, outstanding requests may fail like
	 * those of a failed network or device. If the peer has disconnected,
	 * the cause is the peer.
	 */
	if (ep->close.disconnected && !ep->close.unanswered &&
	    ((r->who == RDMAMSG_WHO_NETWORK && r->cause != RDMAMSG_CAUSE_CRC) ||
	     (r->wc_status == IBV_WC_REM_OP_ERR &&
	      r->cause == RDMAMSG_CAUSE_TRANSPORT))) {
		r->who = RDMAMSG_WHO_PEER;
		r->cause = RDMAMSG_CAUSE_ABORTED;
		r->error = -ECONNRESET;
		snprintf(r->text, sizeof(r->text), "%s",
			 rdmamsg__peer_gone_text(ep));
	}
	add_tries(ep);
	if (is_agreed(ep) && !ep->close.aborted)
		set_closed(ep);
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_ABORTED, -ECANCELED,
				   "aborted");
	rdmamsg__ep_stats_ended(ep);
	ep_info(ep, "closed (%s, %s): %s",
		rdmamsg_name(RDMAMSG_NAME_WHO, r->who),
		rdmamsg_name(RDMAMSG_NAME_CAUSE, r->cause), r->text);
	log_history(ep);
	if (ep->connect.told && !ep->connect.carrier)
		rdmamsg__ctx_ended(ep->ctx, r->error);
	probe(closed, ep, r->who, r->cause, r->error,
	      (const char *)r->text);
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_closed, ep, r);
}

/* Frees the lane and all other resources. The order matters. */
static void tear_down(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	rdmamsg__timer_stop(&ctx->loop.timers, &ep->live.timer);
	rdmamsg__failover_end(ep);
	rdmamsg__resume_end(ep);
	/* first the queue pair, so that the device uses no memory any more */
	rdmamsg__lane_destroy_qp(&ep->lane);
	if (ep->lane.dev || ep->resume) {
		rdmamsg__tx_cancel(ep, -ECANCELED);
		rdmamsg__rx_discard(ep);
	}
	if (ep->lane.dev)
		snprintf(ep->lane.device_name, sizeof(ep->lane.device_name),
			 "%s", ep->lane.dev->device->name);
	rdmamsg__layout_asks_end(ctx, ep);
	rdmamsg__rndv_end(ep);
	rdmamsg__ep_resources_free(ep);
	/* a session without a lane still has these */
	rdmamsg__max_msg_forget(ep);
	rdmamsg__rma_free(ep);
	rdmamsg__ops_free(ep);
	rdmamsg__srq_rele(ep->opts.srq);
	ep->opts.srq = NULL;
	rdmamsg__userpools_rele(&ep->opts, &ep->tuning);
	rdmamsg__pd_rele(ep->opts.pd);
	ep->opts.pd = NULL;
	ep->connect.by->release(ep);
	rdmamsg__visitor_leave(&ep->connect.visitor);
	rdmamsg__ep_enter(ep, EP_CLOSED);
	list_del(&ep->dirty_node);
	ep->dirty = false;
	rdmamsg__timer_stop(&ctx->loop.timers, &ep->timer);
	rdmamsg__timers_release(&ctx->loop.timers, EP_TIMERS);
	list_del(&ep->node);
	ctx->sessions->ep_count -= !ep->connect.carrier;
	if (ctx->closing)
		rdmamsg__ep_drop_inbox(ep);
}

static void finish(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	/* deliver its messages while the number of the queue pair is known */
	if (ep->lane.srq)
		rdmamsg__cq_drain(ctx, ep->lane.srq->cq);
	else if (ep->lane.cq && ep->close.reason.who == RDMAMSG_WHO_DEVICE)
		rdmamsg__cq_drain(ctx, ep->lane.cq);
	/* finishes it, if a callback does not return */
	rdmamsg__timer_set(&ctx->loop.timers, &ep->timer, DRAIN_MS);
	tear_down(ep);
	rdmamsg__ep_stats_add(&ctx->sessions->st, ep);
	list_add_tail(&ctx->sessions->dead, &ep->node);
	ctx->loop.work = true;
	tell_closed(ep);
}

/* Does not dial again after all. */
static void stop_redialling(struct rdmamsg_ep *ep)
{
	if (!ep->connect.redials)
		return;
	ep->connect.redials = false;
	ep->connect.by->cancel(ep);
}

static void drained(struct rdmamsg_ep *ep)
{
	if (ep->connect.redials && !ep->ctx->closing &&
	    ep->connect.by->refused(ep)) {
		ep->connect.redials = false;
		return;
	}
	stop_redialling(ep);
	finish(ep);
}

int rdmamsg__ep_made(struct rdmamsg_ep *ep, int ret, struct rdmamsg_ep **ret_ep)
{
	if (!ret) {
		if (ret_ep)
			*ret_ep = ep;
		return 0;
	}
	ep->connect.by->cancel(ep);
	tear_down(ep);
	rdmamsg__ep_free(ep);
	return ret;
}

static void progress_setup(struct rdmamsg_ep *ep)
{
	if (ep->connect.passive && ep->connect.setup_seen &&
	    ep->connect.setup_sent && !ep->connect.refused)
		rdmamsg__ep_connected(ep);
}

/*
 * CLOSE is due when our messages are delivered, even if others still arrive. If
 * our CLOSE was sent before the peer's came, a second CLOSE confirms that.
 */
static bool close_is_due(struct rdmamsg_ep *ep)
{
	if (ep->ctrl.due & CTRL_CLOSE || ep->send.queued || ep->rndv.count ||
	    rdmamsg__holds_back(ep))
		return false;
	rdmamsg__rma_await(ep);
	if (ep->onesided.awaited)
		return false;
	return !ep->close.sent || (ep->close.seen && !ep->close.asserted);
}

/*
 * Returns true if each side has the other's CLOSE. The acknowledgement of our
 * confirming CLOSE proves that, because the peer's device acknowledges requests
 * in order. With failover, that CLOSE must not be lost with the lane before the
 * peer has read it, so wait for the peer's confirmation; likewise if completions
 * tell nothing of the peer.
 */
static bool is_said(const struct rdmamsg_ep *ep)
{
	return ep->close.seen && ep->close.asserted_done &&
	       ((!rdmamsg__keeps(ep) && !ep->lane.came) ||
		ep->close.confirmed) &&
	       !rdmamsg__rx_waits(ep);
}

static void progress_closing(struct rdmamsg_ep *ep)
{
	if (close_is_due(ep)) {
		ep->ctrl.due |= CTRL_CLOSE;
		rdmamsg__ep_touch(ep);
		return;
	}
	if (is_said(ep)) {
		ep->connect.by->disconnect(ep);
		/*
		 * keep the queue pair until the peer has sent its last CLOSE
		 */
		if (ep->connect.by->ends_unseen && ep->close.confirmed)
			ep->close.disconnect_sent = ep->close.disconnected =
				true;
	}
	/* the peer is gone and acknowledges no more requests */
	if (ep->close.disconnected &&
	    (ep->close.disconnect_sent || ep->close.confirmed) &&
	    !rdmamsg__rx_waits(ep) && !rdmamsg__resume_goes_on(ep))
		rdmamsg__ep_kill(ep);
}

void rdmamsg__ep_progress_close(struct rdmamsg_ep *ep)
{
	if (ep->state == EP_SETUP)
		progress_setup(ep);
	if (unlikely(ep->resume) && !rdmamsg__resume_progress(ep))
		return;
	if (ep->state == EP_CLOSING)
		progress_closing(ep);
	if (ep->state != EP_DRAINING)
		return;
	start_draining(ep);
	if (!ep->close.failing && rdmamsg__lane_is_drained(&ep->lane))
		drained(ep);
}

static void start_closing(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_enter(ep, EP_CLOSING);
	rdmamsg__ep_ready(ep);
	ep->send.want_writable = false;
	ep->deadline = rdmamsg__now_ms() + ep->opts.close_timeout_ms;
	rdmamsg__ep_timeout(ep);
	rdmamsg__ep_touch(ep);
}

void rdmamsg__ep_peer_closes(struct rdmamsg_ep *ep)
{
	ep->close.by_peer = true;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_CLOSED, 0,
			   "closed by the peer");
	start_closing(ep);
}

static const char unconnected[] = "closed before it was connected";

void rdmamsg_ep_close(struct rdmamsg_ep *ep)
{
	if (rdmamsg_ep_resume(ep))
		return;
	if (ep->connect.redials) {
		rdmamsg__ep_reason_forget(ep);
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
				   -ECANCELED, "%s", unconnected);
		stop_redialling(ep);
	} else if (ep->state < EP_OPEN || ep->state == EP_BACKOFF) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
				   -ECANCELED, "%s", unconnected);
		rdmamsg__ep_kill(ep);
		start_draining(ep);
	} else if (ep->state == EP_OPEN) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED,
				   0, "closed");
		start_closing(ep);
	}
}

void rdmamsg__ep_abort(struct rdmamsg_ep *ep, enum rdmamsg_cause cause,
		       int error, const char *text)
{
	if (has_ended(ep))
		return;
	stop_redialling(ep);
	/* an abort during a graceful close replaces its reason */
	ep->close.aborted = cause == RDMAMSG_CAUSE_ABORTED;
	rdmamsg__ep_reason_forget(ep);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, cause, error, "%s", text);
	rdmamsg__ep_kill(ep);
	start_draining(ep);
}

void rdmamsg_ep_abort(struct rdmamsg_ep *ep)
{
	if (!rdmamsg__ep_check(ep))
		rdmamsg__ep_abort(ep, RDMAMSG_CAUSE_ABORTED, -ECANCELED,
				  "aborted by this program");
}

static int check_word(const struct rdmamsg_ep *ep, const char *name,
		      const void *data, size_t len)
{
	int ret = rdmamsg__ep_check(ep);

	return ret ? ret : rdmamsg__word_check(name, data, len);
}

int rdmamsg_ep_close_with(struct rdmamsg_ep *ep, uint32_t code,
			  const void *data, size_t len)
{
	int ret = check_word(ep, __func__, data, len);

	if (ret)
		return ret;
	if (ep->state == EP_CLOSING || has_ended(ep))
		return rdmamsg__fail(-ESHUTDOWN, "the endpoint is closing");
	if (ep->state == EP_OPEN)
		rdmamsg__word_keep(ep, code, data, len);
	rdmamsg_ep_close(ep);
	return 0;
}

int rdmamsg_ep_abort_with(struct rdmamsg_ep *ep, uint32_t code,
			  const void *data, size_t len)
{
	int ret = check_word(ep, __func__, data, len);

	if (ret)
		return ret;
	if (has_ended(ep))
		return rdmamsg__fail(-ESHUTDOWN, "the endpoint is ending");
	if (ep->state == EP_OPEN || ep->state == EP_CLOSING) {
		rdmamsg__word_keep(ep, code, data, len);
		ep->close.saying = rdmamsg__ctrl_abort(ep);
	}
	rdmamsg_ep_abort(ep);
	if (ep->close.saying)
		rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->timer, SAY_MS);
	return 0;
}

void rdmamsg__ep_peer_gone(struct rdmamsg_ep *ep)
{
	const bool answered = ep->close.disconnected && !ep->close.unanswered;
	uint32_t ms = GONE_MS;

	if (rdmamsg__resume_goes_on(ep))
		ms = LINGER_MS + (answered ? 0 : rdmamsg__resume_notice_ms(ep));
	if (!rdmamsg__rx_waits(ep) &&
	    rdmamsg__timer_ms(&ep->timer) > rdmamsg__now_ms() + ms)
		rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->timer, ms);
	rdmamsg__ep_touch(ep);
}

static void paused_too_long(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_TIMEOUT,
			   -ETIMEDOUT, "paused for %u ms (close_timeout_ms) "
			   "since the peer closed: the messages that wait are "
			   "lost", ep->opts.close_timeout_ms);
}

/* The peer's device is there, and its program takes no messages. */
static bool takes_nothing(const struct rdmamsg_ep *ep)
{
	return (ep->send.queued || ep->rndv.count) && !ep->close.disconnected &&
	       !rdmamsg__lane_lost(ep) && rdmamsg__dead_acked(ep);
}

/*
 * Returns true if the peer has our CLOSE. Where its completion does not tell
 * that, something must have come since.
 */
static bool peer_has_close(const struct rdmamsg_ep *ep)
{
	return ep->close.done &&
	       (!ep->lane.came ||
		(uint32_t)rdmamsg__rx_count(&ep->lane) != ep->close.rx);
}

/* The first reason counts. */
static void closing_timed_out(struct rdmamsg_ep *ep)
{
	bool deaf = takes_nothing(ep), has_close = peer_has_close(ep);

	ep->close.reason_set = false;
	if (ep->recv.paused && rdmamsg__rx_waits(ep))
		paused_too_long(ep);
	rdmamsg__ep_reason(ep, has_close || deaf ? RDMAMSG_WHO_PEER :
			   RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TIMEOUT,
			   -ETIMEDOUT, "closing took longer than %u ms "
			   "(close_timeout_ms): %s", ep->opts.close_timeout_ms,
			   has_close ? "the peer did not finish" : deaf ?
			   "the peer's program has not taken all messages: it "
			   "is stopped, has paused, or keeps the ones before" :
			   "not everything could be delivered");
	rdmamsg__ep_kill(ep);
}

const char *rdmamsg__ep_waits_for(const struct rdmamsg_ep *ep)
{
	switch (ep->state) {
	case EP_RESOLVING:
		return ep->connect.resolve ? "resolving the name" :
		       ep->connect.by->waits;
	case EP_REQUESTED:
		return "waiting for the peer to accept";
	case EP_SETUP:
		return ep->connect.setup_seen ? "waiting for the peer's proof" :
		       "waiting for the peer's SETUP";
	case EP_BACKOFF:
		return ep->connect.unanswered ? "resolving the address" :
		       ep->connect.tries ? "trying again" :
		       ep->connect.limit ? "rejected by a limit of the peer" :
		       "rejected as stale";
	default:
		return "ending";
	}
}

static void setup_timed_out(struct rdmamsg_ep *ep)
{
	rdmamsg__door_timed_out(ep->connect.visitor.door);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_TIMEOUT,
			   -ETIMEDOUT, "the peer has not sent %s in %u ms "
			   "(setup_timeout_ms of the listener)%s",
			   ep->connect.setup_seen ? "its proof" : "SETUP",
			   rdmamsg__door_setup_ms(ep->connect.visitor.door),
			   rdmamsg__apart_text(ep));
	rdmamsg__ep_kill(ep);
}

/* Returns true if the peer has not sent SETUP, or not yet proven its key. */
static bool is_stranger(const struct rdmamsg_ep *ep)
{
	return !ep->connect.setup_seen || rdmamsg__auth_wants_proof(ep);
}

/*
 * Returns true if the peer's last answer to this attempt was a limit. The time
 * may end in back-off, or while the next request is not answered yet.
 */
static bool was_limited(const struct rdmamsg_ep *ep)
{
	return ep->connect.limit && !ep->connect.passive &&
	       (ep->state == EP_BACKOFF || ep->state == EP_RESOLVING ||
		ep->state == EP_REQUESTED);
}

void rdmamsg__ep_tried(struct rdmamsg_ep *ep)
{
	const struct tries *tries = ep->connect.tries;
	char met[112];
	bool unlike;

	if (!tries)
		return;
	unlike = rdmamsg__met_text(tries->met, met, sizeof(met)) > 1;
	rdmamsg__ep_reason_forget(ep);
	ep->close.reason.cm_event = tries->last.cm_event;
	ep->close.reason.cm_status = tries->last.cm_status;
	rdmamsg__ep_reason(ep, tries->last.who, tries->last.cause,
			   tries->last.error,
			   "%u tries in %u ms (timeout_ms)%s%s%s: %s",
			   tries->count, ep->opts.timeout_ms,
			   unlike ? ", " : "", unlike ? met : "",
			   unlike ? "; the last" : "", tries->last.text);
}

/* Some devices lose a flushed completion; others never flush late requests. */
static void not_drained(struct rdmamsg_ep *ep)
{
	const uint32_t sends = rdmamsg__sq_used(&ep->lane);
	const uint32_t receives = rdmamsg__rq_posted(&ep->lane);

	if (ep->lane.dev && rdmamsg__quirks(ep->lane.dev->device)->keeps_sends)
		ep_debug(ep, "device %s keeps %u sends and %u receives",
			 ep->lane.dev->device->name, sends, receives);
	else
		ep_warn(ep, "%u sends and %u receives were not flushed in %d "
			"ms", sends, receives, DRAIN_MS);
	ep->lane.drained = true;
}

void rdmamsg__ep_deadline(struct timer *t)
{
	struct rdmamsg_ep *ep = list_entry(t, struct rdmamsg_ep, timer);
	bool no_way;	/* the address does not answer */

	switch (ep->state) {
	case EP_DRAINING:
		if (!ep->close.saying)
			not_drained(ep);
		ep->close.saying = false;
		rdmamsg__ep_touch(ep);
		break;
	case EP_CLOSING:
		closing_timed_out(ep);
		break;
	case EP_BACKOFF:
		if (rdmamsg__now_ms() < ep->deadline) {
			ep->connect.by->again(ep);
			break;
		}
		/* fall through */
	case EP_RESOLVING:
	case EP_REQUESTED:
	case EP_SETUP:
		if (ep->connect.crowded) {
			rdmamsg__ctrl_let_in(ep);
			rdmamsg__ep_touch(ep);
			break;
		}
		if (ep->connect.visitor.door && is_stranger(ep) &&
		    rdmamsg__now_ms() < ep->deadline) {
			setup_timed_out(ep);
			break;
		}
		/* the first reason stays */
		if (was_limited(ep))
			rdmamsg__ep_refused(ep, PROTO_REJECT_LIMIT,
					    ep->connect.limit);
		else if (ep->state != EP_SETUP)
			rdmamsg__ep_tried(ep);
		no_way = ep->state == EP_BACKOFF ? ep->connect.unanswered :
			ep->state == EP_RESOLVING && !ep->connect.resolve;
		rdmamsg__ep_reason(ep, ep->state == EP_SETUP ?
				   RDMAMSG_WHO_PEER :
				   RDMAMSG_WHO_NETWORK, no_way ?
				   RDMAMSG_CAUSE_UNREACHABLE :
				   RDMAMSG_CAUSE_TIMEOUT, no_way ?
				   -EHOSTUNREACH : -ETIMEDOUT,
				   "%s: not connected after %u ms "
				   "(timeout_ms): still %s%s",
				   ep->connect.host ? ep->connect.host :
				   "the peer", ep->opts.timeout_ms,
				   rdmamsg__ep_waits_for(ep),
				   rdmamsg__apart_text(ep));
		rdmamsg__ep_kill(ep);
		break;
	case EP_OPEN:
	case EP_CLOSED:
		break;
	}
}
