/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: made, connected, closed.
 *
 *   RESOLVING -> REQUESTED -> SETUP -> OPEN -> CLOSING -> DRAINING -> CLOSED
 *       ^           |                   |
 *       +- BACKOFF -+     any state before DRAINING goes there when it fails
 *
 * Nothing ends inside a callback: rdmamsg__ep_kill() only starts the end, the
 * loop finishes it in rdmamsg__ep_progress_close().
 */
#include "internal.h"

#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DRAIN_MS	1000	/* devices that lose a flush exist */
#define EP_TIMERS	2
#define EP_FLAGS	(RDMAMSG_EP_SIGNAL_ALL | RDMAMSG_EP_OWN_CQ)

int rdmamsg__ep_check(const struct rdmamsg_ep *ep)
{
	if (likely(ep && ep->ctx))
		return 0;
	if (!ep)
		return rdmamsg__fail(-EINVAL, "the endpoint is NULL");
	return rdmamsg__fail(-ECHILD, "this process was forked from the one that "
			     "opened the context, which cannot be used here");
}

/* ---- options ---------------------------------------------------------- */

#define RANGE(field, def, none, lowest, highest) \
	{ #field, offsetof(struct rdmamsg_ep_options, field), \
	  (def), (none), (lowest), (highest) }

static const struct range ranges[] = {
	RANGE(timeout_ms, 10000, 0, 1, 86400000),
	RANGE(max_msg_size, RDMAMSG_MSG_MAX, 1, 1, RDMAMSG_MSG_MAX),
	RANGE(max_copy, 65536, 0, 0, RDMAMSG_MSG_MAX),
	RANGE(inline_max, 240, 0, 0, TX_STAGE),
	RANGE(eager_max, PROTO_RECV_MIN - PROTO_HDR_LEN, 0, 0, 1u << 20),
	RANGE(recv_depth, 64, 0, 1, 1u << 16),
	RANGE(send_depth, 128, 0, 1, 1u << 16),
	RANGE(send_queue, 0, 0, 0, 1u << 16),
	RANGE(dead_after_ms, 20000, RDMAMSG_NONE, 10, 86400000),
	RANGE(stall_after_ms, 5000, RDMAMSG_NONE, 10, 86400000),
	RANGE(peer_timeout_ms, RDMAMSG_NONE, RDMAMSG_NONE, 10, 86400000),
	RANGE(fetch_timeout_ms, 60000, RDMAMSG_NONE, 10, 86400000),
	RANGE(close_timeout_ms, 10000, 0, 1, 86400000),
	RANGE(ack_timeout, 0, 0, 0, 31),
	RANGE(retry_count, 7, 0, 0, 7),
	RANGE(rnr_retry_count, 7, 0, 0, 7),
	RANGE(min_rnr_timer, 12, 0, 0, 31),
	RANGE(responder_resources, 16, 0, 1, 255),
	RANGE(initiator_depth, 16, 0, 1, 255),
	RANGE(tos, RDMAMSG_NONE, 0, 0, 255),
	RANGE(comp_vector, 0, 0, 0, 1u << 16),
};

int rdmamsg__set_ranges(void *opts, const struct range *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct range *r = &list[i];
		uint32_t *field = (uint32_t *)((char *)opts + r->offset);

		if (!*field) {
			*field = r->def;
			continue;
		}
		if (*field == RDMAMSG_NONE)
			*field = r->none;
		if (*field == RDMAMSG_NONE)
			continue;
		if (*field < r->lowest || *field > r->highest)
			return rdmamsg__fail(-EINVAL, "%s %u: must be %u to %u",
					     r->name, *field, r->lowest,
					     r->highest);
	}
	return 0;
}

static int set_ranges(struct rdmamsg_ep_options *o)
{
	if (o->flags & ~(uint32_t)EP_FLAGS)
		return rdmamsg__fail(-EINVAL, "flags 0x%x: unknown bits",
				     o->flags);
	return rdmamsg__set_ranges(o, ranges,
				   sizeof(ranges) / sizeof(ranges[0]));
}

int rdmamsg__ep_options_set(struct rdmamsg_ep_options *o,
			    const struct rdmamsg_ep_options *opts)
{
	int ret = rdmamsg__opts_copy(o, sizeof(*o), opts, "rdmamsg_ep_options");

	return ret ? ret : set_ranges(o);
}

int rdmamsg__ep_options_check(const struct rdmamsg_ep_options *opts)
{
	struct rdmamsg_ep_options o = *opts;

	return set_ranges(&o);
}

static int copy_string(char **dst, const char *src)
{
	if (!src)
		return 0;
	*dst = strdup(src);
	return *dst ? 0 : rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
}

static int set_data(struct rdmamsg_ep *ep)
{
	struct rdmamsg_ep_options *o = &ep->opts;

	if (o->hello_data_len > RDMAMSG_HELLO_DATA_MAX ||
	    (o->hello_data_len && !o->hello_data))
		return rdmamsg__fail(-EINVAL, "hello_data_len %zu: at most %d, "
				     "with hello_data", o->hello_data_len,
				     RDMAMSG_HELLO_DATA_MAX);
	if (o->setup_data_len > RDMAMSG_SETUP_DATA_MAX ||
	    (o->setup_data_len && !o->setup_data))
		return rdmamsg__fail(-EINVAL, "setup_data_len %zu: at most %d, "
				     "with setup_data", o->setup_data_len,
				     RDMAMSG_SETUP_DATA_MAX);
	if (o->hello_data_len)
		memcpy(ep->hello_data, o->hello_data, o->hello_data_len);
	if (o->setup_data_len) {
		ep->setup_data = malloc(o->setup_data_len);
		if (!ep->setup_data)
			return rdmamsg__fail(-ENOMEM, "no memory for setup_data");
		memcpy(ep->setup_data, o->setup_data, o->setup_data_len);
	}
	return 0;
}

static int set_options(struct rdmamsg_ep *ep,
		       const struct rdmamsg_ep_options *opts)
{
	int ret = rdmamsg__ep_options_set(&ep->opts, opts);

	if (!ret)
		ret = rdmamsg__opts_copy(&ep->on, sizeof(ep->on),
					 ep->opts.handlers, "rdmamsg_handlers");
	if (!ret)
		ret = rdmamsg__srq_options_check(ep->ctx, ep->opts.srq);
	if (!ret)
		ret = rdmamsg__userpools_check(ep->ctx, &ep->opts);
	if (!ret)
		ret = set_data(ep);
	if (!ret)
		ret = copy_string(&ep->source, ep->opts.source);
	if (!ret)
		ret = copy_string(&ep->device, ep->opts.device);
	ep->user = ep->opts.user;
	return ret;
}

/* ---- life ------------------------------------------------------------- */

static void deadline(struct timer *t);

void rdmamsg__ep_drop_inbox(struct rdmamsg_ep *ep)
{
	while (ep->inbox) {
		struct rdmamsg_msg *msg = ep->inbox;

		ep->inbox = msg->next;
		rdmamsg_msg_free(msg);
	}
	ep->inbox_tail = &ep->inbox;
}

static void ep_free(struct rdmamsg_ep *ep)
{
	list_del(&ep->node);
	rdmamsg__ep_drop_inbox(ep);
	free(ep->setup_data);
	free(ep->peer_data);
	free(ep->source);
	free(ep->device);
	free(ep->oob);
	free(ep->host);
	free(ep->service);
	rdmamsg__object_free(ep, sizeof(*ep));
}

int rdmamsg__ep_new(struct rdmamsg *ctx, const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep = rdmamsg__object_new(sizeof(*ep));
	int ret;

	if (!ep)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	ep->ctx = ctx;
	ep->owner.kind = CM_EP;
	ep->refs = 1;
	ep->state = EP_RESOLVING;
	list_init(&ep->node);
	list_init(&ep->dirty_node);
	list_init(&ep->starved_node);
	list_init(&ep->queue);
	list_init(&ep->rndv_out);
	list_init(&ep->arriving);
	list_init(&ep->windows);
	ep->inbox_tail = &ep->inbox;
	rdmamsg__timer_init(&ep->timer, deadline);
	rdmamsg__timer_init(&ep->live, NULL);
	ret = set_options(ep, opts);
	if (!ret && rdmamsg__timers_reserve(&ctx->timers, EP_TIMERS))
		ret = rdmamsg__fail(-ENOMEM, "no memory for a timer");
	if (ret) {
		ep_free(ep);
		return ret;
	}
	(void)!getrandom(ep->session, sizeof(ep->session), GRND_NONBLOCK);
	ctx->ep_count++;
	list_add_tail(&ctx->eps, &ep->node);
	ep->deadline = rdmamsg__now_ms() + ep->opts.timeout_ms;
	rdmamsg__timer_set(&ctx->timers, &ep->timer, ep->opts.timeout_ms);
	if (!ep->opts.srq && !ep->opts.recv_pool)
		ep->opts.srq = ctx->srq;
	rdmamsg__srq_hold(ep->opts.srq);
	rdmamsg__userpools_hold(&ep->opts);
	/* what the peer may send before it has our SETUP */
	ep->announced = ep->opts.srq ? ep->opts.srq->opts.floor :
			ep->opts.recv_depth;
	ep->hot.hdr.type = PROTO_DATA;
	memcpy(&ep->rx_head, &ep->hot.hdr, sizeof(ep->rx_head));
	ep->hot.hdr.credit = htole32(ep->announced);
	*ret_ep = ep;
	return 0;
}

void rdmamsg_ep_hold(struct rdmamsg_ep *ep)
{
	if (!rdmamsg__ep_check(ep))
		ep->refs++;
}

void rdmamsg_ep_rele(struct rdmamsg_ep *ep)
{
	if (rdmamsg__ep_check(ep))
		return;
	if (!--ep->refs)
		ep_free(ep);
}

void rdmamsg__ep_touch(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	if (ep->dirty || ep->state == EP_CLOSED)
		return;
	ep->dirty = true;
	/* called by the program, not by us: nobody will settle before sleep */
	if (!ctx->busy && !ctx->in_callback && list_empty(&ctx->dirty))
		rdmamsg__kick(ctx);
	ctx->work = true;
	list_add_tail(&ctx->dirty, &ep->dirty_node);
}

void rdmamsg__ep_ready(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->hot;
	bool open = ep->state == EP_OPEN;
	uint32_t end;

	rdmamsg__tx_room(ep);
	end = open && !ep->queued && ep->can_inline ? ep->inline_max + 1 : 0;
	/* the batch asks for one completion */
	ep->send_end = h->signal_every > 1 ? end : 0;
	/* and an inline must not overtake it */
	h->len_end = ep->ctx->tx.ep == ep ? 0 : end;
	ep->rx_end = open && ep->on.on_message && list_empty(&ep->arriving) ?
		     ep->rx_max + 1 : 0;
}

/* Both SETUPs are through. */
void rdmamsg__ep_connected(struct rdmamsg_ep *ep)
{
	ep->state = EP_OPEN;
	ep->connected_told = true;
	rdmamsg__timer_stop(&ep->ctx->timers, &ep->timer);
	rdmamsg__live_start(ep);
	rdmamsg__ep_ready(ep);
	if (ep->oob)
		rdmamsg__oob_connected(ep);
	log_info("ep %p qp 0x%x connected on %s", (void *)ep,
		 ep->hot.qp->qp_num, ep->dev->device->name);
	if (ep->on.on_connected) {
		ep->ctx->in_callback++;
		ep->on.on_connected(ep);
		ep->ctx->in_callback--;
	}
}

/* ---- the end ---------------------------------------------------------- */

void rdmamsg__ep_reason(struct rdmamsg_ep *ep, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error,
			const char *fmt, ...)
{
	struct rdmamsg_reason *r = &ep->reason;
	bool failed_close = r->cause == RDMAMSG_CAUSE_CLOSED &&
			    cause != RDMAMSG_CAUSE_CLOSED &&
			    !(ep->close_done && ep->close_seen);
	va_list ap;

	/* closing was the reason until something came in between */
	if (ep->reason_set && !failed_close)
		return;
	ep->reason_set = true;
	r->size = sizeof(*r);
	r->who = who;
	r->cause = cause;
	r->error = error;
	if (!r->cm_event)
		r->cm_event = -1;
	va_start(ap, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, ap);
	va_end(ap);
}

void rdmamsg__ep_protocol(struct rdmamsg_ep *ep, const char *fmt, ...)
{
	char what[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
			   -EPROTO, "the peer broke the protocol: %s", what);
	rdmamsg__ep_kill(ep);
}

/* Our CLOSE, and so nothing before it. */
static bool is_close(const struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	const struct op *op = ep->sq_slots[wc->wr_id & ep->sq_mask];

	return op && op->kind == OP_CTRL && op->ctrl == PROTO_CLOSE;
}

void rdmamsg__ep_removed(struct rdmamsg_ep *ep)
{
	ep->reason_set = false;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_REMOVED,
			   -ENODEV, "device %s was removed",
			   rdmamsg_device_name(ep));
	if (ep->dev)
		rdmamsg__dev_removed(ep->dev);
	rdmamsg__ep_kill(ep);
}

/* A device that goes refuses and flushes before it has said so. */
static bool is_removed(const struct rdmamsg_ep *ep)
{
	struct ibv_port_attr port;

	return rdmamsg__verbs_ret(ep->v->query_port(ep->dev->device->verbs, 1,
						    &port)) == -EIO;
}

void rdmamsg__ep_device_failed(struct rdmamsg_ep *ep, int err, const char *what)
{
	if (err == -EIO && is_removed(ep)) {
		rdmamsg__ep_removed(ep);
		return;
	}
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_TRANSPORT, err,
			   "%s failed: %s", what, strerror(-err));
	rdmamsg__ep_kill(ep);
}

void rdmamsg__ep_wc_error(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	enum rdmamsg_who who = RDMAMSG_WHO_NETWORK;
	enum rdmamsg_cause cause = RDMAMSG_CAUSE_TRANSPORT;
	int error = -ECONNRESET, status = wc->status;

	ep->failed = true;
	if (ep->state >= EP_DRAINING)
		return;
	/* the peer has closed and, without a CM, does not wait for this */
	if (ep->oob && ep->close_seen && status == IBV_WC_RETRY_EXC_ERR &&
	    is_close(ep, wc)) {
		ep->close_done = true;
		rdmamsg__ep_kill(ep);
		return;
	}
	if (status == IBV_WC_WR_FLUSH_ERR && is_removed(ep)) {
		rdmamsg__ep_removed(ep);
		return;
	}
	/* on a receive it is Soft-RoCE's word for a message too large for it */
	if (status == IBV_WC_LOC_QP_OP_ERR && wc->wr_id & 0x80000000u)
		status = IBV_WC_LOC_LEN_ERR;
	switch (status) {
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_LOC_PROT_ERR:
		rdmamsg__rma_refused(ep, wc);
		/* fall through */
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_WR_FLUSH_ERR:
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_ACCESS;
		error = -EACCES;
		break;
	case IBV_WC_RETRY_EXC_ERR:
		error = -ETIMEDOUT;
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		ep->st.rnr_errors++;
		who = RDMAMSG_WHO_PEER;
		break;
	case IBV_WC_LOC_QP_OP_ERR:
		/* all that Soft-RoCE means by it is that a packet has no way */
		if (ep->dev->device->kind != KIND_SOFT_ROCE)
			who = RDMAMSG_WHO_DEVICE;
		error = -ENETDOWN;
		break;
	case IBV_WC_REM_OP_ERR:
		/* of a peer that dies while we read: no fault of its own */
		who = RDMAMSG_WHO_PEER;
		break;
	case IBV_WC_LOC_LEN_ERR:
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_PROTOCOL;
		error = -EPROTO;
		break;
	default:
		break;
	}
	ep->reason.wc_status = wc->status;
	ep->reason.vendor_err = wc->vendor_err;
	rdmamsg__ep_reason(ep, who, cause, error, "%s (%s, vendor 0x%x)",
			   rdmamsg__wc_text(status),
			   ibv_wc_status_str(wc->status), wc->vendor_err);
	rdmamsg__ep_kill(ep);
}

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
				 r->wc_status == IBV_WC_REM_OP_ERR)) {
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

void rdmamsg__ep_unborn(struct rdmamsg_ep *ep)
{
	rdmamsg__dial_stop(ep);
	tear_down(ep);
	ep_free(ep);
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
				   -ECANCELED, "closed before it was connected");
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

static void deadline(struct timer *t)
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
		rdmamsg__ep_reason(ep, ep->state == EP_SETUP ? RDMAMSG_WHO_PEER :
				   RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TIMEOUT,
				   -ETIMEDOUT, "not connected after %u ms "
				   "(timeout_ms): still %s",
				   ep->opts.timeout_ms, ep->state == EP_BACKOFF ?
				   "rejected as stale" : step[ep->state]);
		rdmamsg__ep_kill(ep);
		break;
	case EP_OPEN:
	case EP_CLOSED:
		break;
	}
}

/* ---- what there is to know -------------------------------------------- */

enum rdmamsg_state rdmamsg_ep_state(const struct rdmamsg_ep *ep)
{
	switch (ep->state) {
	case EP_OPEN:
		return RDMAMSG_CONNECTED;
	case EP_CLOSING:
	case EP_DRAINING:
		return RDMAMSG_CLOSING;
	case EP_CLOSED:
		return RDMAMSG_CLOSED;
	default:
		return RDMAMSG_CONNECTING;
	}
}

const struct rdmamsg_reason *rdmamsg_ep_reason(const struct rdmamsg_ep *ep)
{
	return ep->state == EP_CLOSED ? &ep->reason : NULL;
}

struct rdmamsg *rdmamsg_ep_ctx(const struct rdmamsg_ep *ep)
{
	return ep->ctx;
}

void *rdmamsg_ep_user(const struct rdmamsg_ep *ep)
{
	return ep->user;
}

void rdmamsg_ep_set_user(struct rdmamsg_ep *ep, void *user)
{
	ep->user = user;
}

const void *rdmamsg_ep_peer_data(const struct rdmamsg_ep *ep, size_t *ret_len)
{
	if (ret_len)
		*ret_len = ep->peer_data_len;
	return ep->peer_data;
}

const char *rdmamsg_device_name(const struct rdmamsg_ep *ep)
{
	return ep->dev && ep->dev->device ? ep->dev->device->name :
	       ep->device_name;
}
