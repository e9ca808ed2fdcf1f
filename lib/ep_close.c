/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of endpoints. None comes inside a callback: rdmamsg__ep_kill() only
 * starts it, the loop finishes it in rdmamsg__ep_progress_close().
 */
#include "internal.h"

#define DRAIN_MS	1000	/* devices that lose a flush exist */

static void cm_disconnect(struct rdmamsg_ep *ep)
{
	if (!ep->id || ep->disconnect_sent || !ep->established)
		return;
	ep->disconnect_sent = true;
	/* it has its own retries; a failure shows as the deadline */
	(void)ep->v->disconnect(ep->id);
}

/*
 * What went well without a completion of its own is told by the next one: by
 * this, which is flushed.
 */
static void mark_end(struct rdmamsg_ep *ep)
{
	if (!rdmamsg__sq_used(ep) || rdmamsg__sq_used(ep) >= ep->sq_total)
		return;
	rdmamsg__tx_keepalive(ep, NULL);
	rdmamsg__tx_flush(ep->ctx);
}

void rdmamsg__ep_kill(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	if (ep->state >= EP_DRAINING && ep->state != EP_BACKOFF)
		return;
	if (ctx->tx.ep == ep)
		rdmamsg__tx_flush(ctx);
	if (ep->state >= EP_DRAINING && ep->state != EP_BACKOFF)
		return;
	rdmamsg__dial_stop(ep);
	ep->state = EP_DRAINING;
	rdmamsg__ep_ready(ep);
	rdmamsg__timer_stop(&ctx->timers, &ep->live);
	if (ep->hot.qp) {
		if (rdmamsg__qp_error(ep))
			ep->drained = true;	/* nothing will come */
		else
			mark_end(ep);
		cm_disconnect(ep);
		rdmamsg__timer_set(&ctx->timers, &ep->timer, DRAIN_MS);
	}
	rdmamsg__ep_touch(ep);
}

/* Those that do not (Linux 6.1: rxe, siw) would cost us the deadline. */
static bool tells_last_wqe(enum device_kind kind)
{
	return kind != KIND_SOFT_ROCE && kind != KIND_IWARP;
}

/*
 * Soft-RoCE accepts receives on a queue pair that has failed and never
 * flushes them (rdma-core v44.0, providers/rxe/rxe.c:1668), and we learn of
 * the failure later than we post: there only the sends are counted.
 */
static bool is_drained(const struct rdmamsg_ep *ep)
{
	if (!ep->hot.qp || ep->drained)
		return true;
	if (ep->srq && !ep->last_wqe && tells_last_wqe(ep->dev->device->kind))
		return false;
	return !rdmamsg__sq_used(ep) &&
	       (!rdmamsg__rq_posted(ep) ||
		ep->dev->device->kind == KIND_SOFT_ROCE);
}

static void tell_closed(struct rdmamsg_ep *ep)
{
	struct rdmamsg_reason *r = &ep->reason;

	/*
	 * A peer that closes in a hurry, or is killed, looks like a failure of
	 * the network or of its device to what was still under way; its
	 * disconnect tells better.
	 */
	if (ep->disconnected && (r->who == RDMAMSG_WHO_NETWORK ||
				 (r->wc_status == IBV_WC_REM_OP_ERR &&
				  r->cause == RDMAMSG_CAUSE_TRANSPORT))) {
		r->who = RDMAMSG_WHO_PEER;
		r->cause = RDMAMSG_CAUSE_ABORTED;
		r->error = -ECONNRESET;
		snprintf(r->text, sizeof(r->text), "the peer ended the "
			 "connection without closing it: aborted, crashed or "
			 "killed");
	}
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
			   -ECANCELED, "aborted");
	log_info("ep %p closed: %s", (void *)ep, r->text);
	if (ep->on.on_closed) {
		ep->ctx->in_callback++;
		ep->on.on_closed(ep, r);
		ep->ctx->in_callback--;
	}
}

/* Everything below the endpoint, in the only order that works. */
static void tear_down(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	rdmamsg__timer_stop(&ctx->timers, &ep->timer);
	rdmamsg__timer_stop(&ctx->timers, &ep->live);
	/* first the queue pair: nothing is read or written any more */
	rdmamsg__qp_destroy(ep);
	if (ep->dev) {
		rdmamsg__tx_cancel(ep, -ECANCELED);
		rdmamsg__rx_discard(ep);
	}
	snprintf(ep->device_name, sizeof(ep->device_name), "%s",
		 ep->dev ? ep->dev->device->name : "");
	rdmamsg__ep_resources_free(ep);
	rdmamsg__srq_rele(ep->opts.srq);
	ep->opts.srq = NULL;
	rdmamsg__userpools_rele(&ep->opts);
	rdmamsg__pd_rele(ep->opts.pd);
	ep->opts.pd = NULL;
	if (ep->id)
		rdmamsg__cm_id_free(ep->v, ep->id);
	ep->id = NULL;
	ep->state = EP_CLOSED;
	list_del(&ep->dirty_node);
	ep->dirty = false;
	rdmamsg__timers_release(&ctx->timers, EP_TIMERS);
	list_del(&ep->node);
	ctx->ep_count--;
	if (ctx->closing)
		rdmamsg__ep_drop_inbox(ep);
}

static void finish(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	/* what it has received still has its number on it */
	if (ep->srq)
		rdmamsg__cq_drain(ctx, ep->srq->cq);
	tear_down(ep);
	rdmamsg__ep_stats_add(&ctx->st, ep);
	list_add_tail(&ctx->dead, &ep->node);
	ctx->work = true;
	tell_closed(ep);
}

int rdmamsg__ep_made(struct rdmamsg_ep *ep, int ret, struct rdmamsg_ep **ret_ep)
{
	if (!ret) {
		if (ret_ep)
			*ret_ep = ep;
		return 0;
	}
	rdmamsg__dial_stop(ep);
	tear_down(ep);
	rdmamsg__ep_free(ep);
	return ret;
}

static void progress_setup(struct rdmamsg_ep *ep)
{
	if (ep->passive && ep->setup_seen && ep->setup_sent)
		rdmamsg__ep_connected(ep);
}

static void progress_closing(struct rdmamsg_ep *ep)
{
	if (!ep->close_sent && !(ep->ctrl_due & CTRL_CLOSE) && !ep->queued &&
	    !ep->rndv_count && list_empty(&ep->arriving)) {
		ep->ctrl_due |= CTRL_CLOSE;
		rdmamsg__ep_touch(ep);
		return;
	}
	if (ep->close_done && ep->close_seen) {
		cm_disconnect(ep);
		/* no CM: all is said and acknowledged, that is the end */
		if (ep->oob)
			ep->disconnect_sent = ep->disconnected = true;
	}
	if (ep->disconnect_sent && ep->disconnected) {
		ep->graceful = true;
		rdmamsg__ep_kill(ep);
	}
}

void rdmamsg__ep_progress_close(struct rdmamsg_ep *ep)
{
	if (ep->state == EP_SETUP)
		progress_setup(ep);
	if (ep->state == EP_CLOSING)
		progress_closing(ep);
	if (ep->state == EP_DRAINING && is_drained(ep))
		finish(ep);
}

static void start_closing(struct rdmamsg_ep *ep)
{
	ep->state = EP_CLOSING;
	rdmamsg__ep_ready(ep);
	ep->want_writable = false;
	rdmamsg__timer_set(&ep->ctx->timers, &ep->timer,
			   ep->opts.close_timeout_ms);
	rdmamsg__ep_touch(ep);
}

void rdmamsg__ep_peer_closes(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_CLOSED, 0,
			   "closed by the peer");
	start_closing(ep);
}

void rdmamsg_ep_close(struct rdmamsg_ep *ep)
{
	if (rdmamsg__ep_check(ep))
		return;
	if (ep->state < EP_OPEN || ep->state == EP_BACKOFF) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
				   -ECANCELED,
				   "closed before it was connected");
		rdmamsg__ep_kill(ep);
	} else if (ep->state == EP_OPEN) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED,
				   0, "closed");
		start_closing(ep);
	}
}

void rdmamsg_ep_abort(struct rdmamsg_ep *ep)
{
	if (rdmamsg__ep_check(ep) || ep->state >= EP_DRAINING)
		if (!ep || !ep->ctx || ep->state != EP_BACKOFF)
			return;
	/* an abort during a graceful close is what it became */
	ep->reason_set = false;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
			   -ECANCELED, "aborted by this program");
	rdmamsg__ep_kill(ep);
}

static void closing_timed_out(struct rdmamsg_ep *ep)
{
	/* all is said and acknowledged, only the farewell got lost */
	if (ep->close_done && ep->close_seen) {
		ep->graceful = true;
		rdmamsg__ep_kill(ep);
		return;
	}
	ep->reason_set = false;
	rdmamsg__ep_reason(ep, ep->close_done ? RDMAMSG_WHO_PEER :
			   RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TIMEOUT,
			   -ETIMEDOUT, "closing took longer than %u ms "
			   "(close_timeout_ms): %s", ep->opts.close_timeout_ms,
			   ep->close_done ? "the peer did not finish" :
			   "not everything could be delivered");
	rdmamsg__ep_kill(ep);
}

void rdmamsg__ep_deadline(struct timer *t)
{
	struct rdmamsg_ep *ep = list_entry(t, struct rdmamsg_ep, timer);
	static const char *const step[] = {
		[EP_RESOLVING] = "resolving the address",
		[EP_REQUESTED] = "waiting for the peer to accept",
		[EP_SETUP] = "waiting for the peer's SETUP",
	};

	switch (ep->state) {
	case EP_DRAINING:
		log_warn("ep %p: %u sends and %u receives were not flushed in "
			 "%d ms", (void *)ep, rdmamsg__sq_used(ep),
			 rdmamsg__rq_posted(ep), DRAIN_MS);
		ep->drained = true;
		rdmamsg__ep_touch(ep);
		break;
	case EP_CLOSING:
		closing_timed_out(ep);
		break;
	case EP_BACKOFF:
		if (rdmamsg__now_ms() < ep->deadline) {
			rdmamsg__dial_again(ep);
			break;
		}
		/* fall through */
	case EP_RESOLVING:
	case EP_REQUESTED:
	case EP_SETUP:
		rdmamsg__ep_reason(ep, ep->state == EP_SETUP ?
				   RDMAMSG_WHO_PEER :
				   RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TIMEOUT,
				   -ETIMEDOUT, "not connected after %u ms "
				   "(timeout_ms): still %s",
				   ep->opts.timeout_ms,
				   ep->state == EP_BACKOFF ?
				   "rejected as stale" : step[ep->state]);
		rdmamsg__ep_kill(ep);
		break;
	case EP_OPEN:
	case EP_CLOSED:
		break;
	}
}
