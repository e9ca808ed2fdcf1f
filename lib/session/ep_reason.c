/* SPDX-License-Identifier: BSD-2-Clause */
/* The reason of the end of an endpoint. */
#include "base/base.h"
#include "device/async.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/region.h"
#include "session/door.h"
#include "session/ep.h"
#include "session/live.h"
#include "session/resume.h"
#include "session/rma.h"
#include "session/window.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

void rdmamsg__ep_reason(struct rdmamsg_ep *ep, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error,
			const char *fmt, ...)
{
	struct rdmamsg_reason *r = &ep->close.reason;
	bool failed_close = r->cause == RDMAMSG_CAUSE_CLOSED &&
			    cause != RDMAMSG_CAUSE_CLOSED;
	va_list ap;

	/* a failed close replaces the reason CLOSED */
	if (ep->close.reason_set && !failed_close)
		return;
	ep->close.reason_set = true;
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

void rdmamsg__ep_reason_forget(struct rdmamsg_ep *ep)
{
	const struct rdmamsg_reason old = ep->close.reason;
	struct rdmamsg_reason *r = &ep->close.reason;

	memset(r, 0, sizeof(*r));
	if (ep->close.has_word) {
		r->code = old.code;
		r->data = old.data;
		r->data_len = old.data_len;
	}
	ep->close.reason_set = false;
}

/* TCP and programs carry records across users, namespaces and fabrics. */
const char *rdmamsg__apart_text(const struct rdmamsg_ep *ep)
{
	return ep->connect.oob && ep->state == EP_SETUP &&
	       !ep->connect.setup_seen && rdmamsg__is_soft(ep->lane.v) ?
	       ", or on the soft HCA has another user, network namespace or "
	       "RDMAMSG_SOFT_FABRIC" : "";
}

const char *rdmamsg__peer_gone_text(const struct rdmamsg_ep *ep)
{
	if (ep->close.seen)
		return "the peer closed, and went away before this side had "
		       "closed: its close_timeout_ms was over, or it was killed";
	if (rdmamsg__live_was_away(ep))
		return "the peer ended the connection without closing it: this "
		       "program has not come back into the library for about "
		       "dead_after_ms of the peer";
	if (ep->live.asks_program)
		return "the peer ended the connection without closing it: "
		       "aborted, crashed or killed, or this program has not "
		       "answered it for dead_after_ms";
	return "the peer ended the connection without closing it: aborted, "
	       "crashed or killed";
}

const char *rdmamsg__unsent_text(void)
{
	return "a request could not be sent: the connection has ended, or the "
	       "device has failed";
}

const char *rdmamsg__limit_text(uint32_t limit)
{
	switch (limit) {
	case PROTO_LIMIT_REQUESTS:
		return "connections that its program has not answered "
		       "(max_requests)";
	case PROTO_LIMIT_HALF_OPEN:
		return "connections that have not sent SETUP (max_half_open)";
	case PROTO_LIMIT_SLOWED:
		return "connections from an address that used a wrong key or "
		       "broke the protocol (slow_ms)";
	case PROTO_LIMIT_ENDPOINTS:
		return "its connections (max_endpoints)";
	case PROTO_LIMIT_SOURCE:
		return "its connections from one address (max_per_source)";
	case PROTO_LIMIT_MEMORY:
		return "the memory for connections from one address "
		       "(max_per_source)";
	case PROTO_LIMIT_DRAINING:
		return "new connections, because it is draining";
	default:
		return "its connections";
	}
}

static bool is_unproven(uint32_t code)
{
	return code == PROTO_REJECT_UNKEYED || code == PROTO_REJECT_KEYED ||
	       code == PROTO_REJECT_PROOF;
}

/* The side that lacks the key is the peer or this side. */
static void unproven(struct rdmamsg_ep *ep, uint32_t code, bool peer_lacks)
{
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_AUTH, -EACCES,
			   "%s", code == PROTO_REJECT_PROOF ?
			   "the peer has another key: give both sides the same "
			   "key or key_file" : peer_lacks ?
			   "the peer has no key, and this side requires one: "
			   "give the peer the same key or key_file" :
			   "the peer requires a key, and this side has none: "
			   "set the peer's key or key_file here");
}

void rdmamsg__ep_refuses(struct rdmamsg_ep *ep, enum proto_reject code)
{
	unproven(ep, code, code == PROTO_REJECT_UNKEYED);
}

void rdmamsg__ep_refused(struct rdmamsg_ep *ep, uint32_t code, uint32_t limit)
{
	if (is_unproven(code))
		unproven(ep, code, code == PROTO_REJECT_KEYED);
	else if (code == PROTO_REJECT_LIMIT)
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER,
				   RDMAMSG_CAUSE_RESOURCES, -ENOBUFS,
				   "the peer limits %s: try again later",
				   rdmamsg__limit_text(limit));
	else
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER,
				   RDMAMSG_CAUSE_RESOURCES, -ENOBUFS,
				   "the peer has no memory or device resources "
				   "for another connection");
}

void rdmamsg__ep_offended(struct rdmamsg_ep *ep)
{
	/*
	 * After our CLOSE the program revokes keys that the peer may still use,
	 * which is no offence. After its own CLOSE the peer uses no keys.
	 */
	if (ep->state > EP_CLOSING ||
	    (ep->state == EP_CLOSING && !ep->close.by_peer))
		return;
	rdmamsg__visitor_offends(&ep->connect.visitor);
}

void rdmamsg__ep_protocol(struct rdmamsg_ep *ep, const char *fmt, ...)
{
	char what[128];
	va_list ap;

	rdmamsg__ep_offended(ep);
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
			   -EPROTO, "the peer broke the protocol: %s", what);
	rdmamsg__ep_kill(ep);
}

void rdmamsg__ep_removed(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_reason_forget(ep);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_REMOVED,
			   -ENODEV, "device %s was removed",
			   rdmamsg_ep_device_name(ep));
	if (ep->lane.dev)
		rdmamsg__dev_removed(ep->lane.dev);
	rdmamsg__ep_kill(ep);
}

/* siw refuses requests of a connection that ends, before anything tells. */
static bool is_ended_here(const struct rdmamsg_ep *ep, int err)
{
	return err == -ENOTCONN && ep->lane.dev &&
	       rdmamsg__quirks(ep->lane.dev->device)->ends_as_local_error;
}

void rdmamsg__ep_device_failed(struct rdmamsg_ep *ep, int err, const char *what)
{
	if (err == -EIO && ep->lane.dev &&
	    rdmamsg__device_lost(ep->lane.dev->device)) {
		rdmamsg__ep_removed(ep);
		return;
	}
	if (is_ended_here(ep, err))
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK,
				   RDMAMSG_CAUSE_TRANSPORT, -ECONNRESET, "%s",
				   rdmamsg__unsent_text());
	/* the first reason counts */
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_TRANSPORT, err,
			   "%s failed: %s", what, strerror(-err));
	rdmamsg__ep_kill(ep);
}

/*
 * If the first completion with an error is flushed, or is a receive, the peer
 * has used a wrong key. If the peer's device refuses a request of ours, our
 * program may have used a wrong key. Or the peer was killed: the kernel frees
 * its regions before its queue pairs.
 */
static bool is_peers_fault(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_WR_FLUSH_ERR || wc->wr_id & 0x80000000u;
}

/*
 * Returns true if the end of the connection has flushed the queue pair. On
 * iWARP the peer's end does so, and no request has failed before. Our device
 * also ends the connection if the peer's request is bad: then there is an
 * event.
 */
static bool was_ended(const struct rdmamsg_ep *ep)
{
	struct rdmamsg_device *d = ep->lane.dev->device;

	if (!rdmamsg__quirks(d)->cm_only)
		return false;
	rdmamsg__async_read(ep->ctx, d);
	return !ep->lane.refused_peer;
}

/* Returns true if the n-th request without a completion is a small read. */
static bool is_silent_read(const struct lane *l, uint32_t n)
{
	const struct op *op = l->sq.slots[(l->sq.done + n) & l->sq.mask];

	return op && op->kind == OP_RMA &&
	       ((const struct rma *)op)->kind == RMA_READ &&
	       !((const struct rma *)op)->counted;
}

/*
 * Returns true if the queue pair was flushed directly behind a read whose
 * success is doubtful: then the read has failed. Small reads have succeeded
 * without a completion if a request behind them is flushed.
 */
static bool is_behind_doubt(const struct rdmamsg_ep *ep,
			    const struct ibv_wc *wc)
{
	const struct lane *l = &ep->lane;
	uint32_t n = ((uint32_t)wc->wr_id - l->sq.done) & 0x7fffffffu;

	if (!l->doubts_reads)
		return false;
	if (wc->wr_id & 0x80000000u) {
		/* a receive does not tell how many requests have succeeded */
		for (n = 0; n < rdmamsg__sq_used(l); n++)
			if (is_silent_read(l, n))
				return true;
		n = 0;
	}
	return n ? is_silent_read(l, n - 1) : l->read_done == l->sq.done;
}

/*
 * Returns true if a request may have failed on this side, and the device says
 * that it was flushed.
 */
static bool may_be_ours(const struct rdmamsg_ep *ep, int status)
{
	return status == IBV_WC_WR_FLUSH_ERR && ep->lane.flushes_failures &&
	       rdmamsg__sq_used(&ep->lane);
}

static const char *rma_operation(const struct rma *r)
{
	switch (r->kind) {
	case RMA_WRITE:
		return "write";
	case RMA_BIND:
		return "window bind";
	case RMA_INVALIDATE:
		return "invalidation";
	case RMA_READ:
		return "read";
	case RMA_FETCH_ADD:
		return "fetch-and-add";
	case RMA_COMPARE_SWAP:
		return "compare-and-swap";
	case RMA_EMULATED:
	case RMA_MASKED:
		return "masked atomic";
	}
	return NULL;
}

const char *rdmamsg__ep_operation(const struct rdmamsg_ep *ep,
				  const struct ibv_wc *wc)
{
	const struct op *op;

	/* flushed: another operation has failed */
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return NULL;
	if (wc->wr_id & 0x80000000u)
		return "receive";
	op = ep->lane.sq.slots[(uint32_t)wc->wr_id & ep->lane.sq.mask];
	/* a short message that nothing waits for, control messages included */
	if (!op)
		return "send";
	switch (op->kind) {
	case OP_EAGER:
		return "send";
	case OP_RNDV:
		return "announcement of a large message";
	case OP_READ:
		return "read of a large message";
	case OP_PROOF:
		return "proof of a read";
	case OP_CTRL:
		return op->ctrl ? "control message" : "keepalive";
	case OP_RMA:
		return rma_operation((const struct rma *)op);
	}
	return NULL;
}

/* Returns true if another lane shall show whether a wrong key was used. */
static bool is_forgiven(struct rdmamsg_ep *ep, const struct ibv_wc *wc,
			int status)
{
	struct op *op;

	if (status == IBV_WC_WR_FLUSH_ERR)
		return rdmamsg__resume_forgives(ep, NULL);
	if (status != IBV_WC_REM_ACCESS_ERR || wc->wr_id & 0x80000000u)
		return false;
	op = ep->lane.sq.slots[(uint32_t)wc->wr_id & ep->lane.sq.mask];
	return op && rdmamsg__resume_forgives(ep, op);
}

static void connection_ended(struct rdmamsg_ep *ep)
{
	ep->close.disconnected = true;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
			   -ECONNRESET, "%s", rdmamsg__peer_gone_text(ep));
	rdmamsg__ep_kill(ep);
}

/*
 * Returns true if the connection manager has the reason. On iWARP a rejection
 * flushes the receives before its event.
 */
static bool is_told_by_cm(const struct rdmamsg_ep *ep, int status)
{
	return status == IBV_WC_WR_FLUSH_ERR && ep->state < EP_SETUP &&
	       rdmamsg__quirks(ep->lane.dev->device)->cm_only;
}

void rdmamsg__ep_wc_error(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	enum rdmamsg_who who = RDMAMSG_WHO_NETWORK;
	enum rdmamsg_cause cause = RDMAMSG_CAUSE_TRANSPORT;
	const char *operation = rdmamsg__ep_operation(ep, wc);
	int error = -ECONNRESET, status = wc->status;
	char regions[64];
	bool forgiven;

	ep->lane.failed = true;
	if (ep->state >= EP_DRAINING || rdmamsg__lane_lost(ep) ||
	    rdmamsg__ep_is_over(ep))
		return;
	if (status == IBV_WC_WR_FLUSH_ERR &&
	    rdmamsg__device_lost(ep->lane.dev->device)) {
		rdmamsg__ep_removed(ep);
		return;
	}
	if (is_told_by_cm(ep, status))
		return;
	/* Soft-RoCE: on a receive, the message is too large for it */
	if (status == IBV_WC_LOC_QP_OP_ERR && wc->wr_id & 0x80000000u)
		status = IBV_WC_LOC_LEN_ERR;
	/* Soft-RoCE: on a receive, the key to invalidate is of no window */
	if (status == IBV_WC_REM_INV_REQ_ERR && wc->wr_id & 0x80000000u)
		status = IBV_WC_WR_FLUSH_ERR;
	if (status == IBV_WC_WR_FLUSH_ERR && is_behind_doubt(ep, wc)) {
		status = IBV_WC_GENERAL_ERR;
		rdmamsg__ep_reason(ep, who, cause, error,
				   "a read failed that device %s had called "
				   "successful: packets were lost",
				   ep->lane.dev->device->name);
	}
	if (status == IBV_WC_LOC_QP_OP_ERR &&
	    rdmamsg__quirks(ep->lane.dev->device)->ends_as_local_error)
		rdmamsg__ep_reason(ep, who, cause, error, "%s",
				   rdmamsg__unsent_text());
	if (status == IBV_WC_WR_FLUSH_ERR && was_ended(ep)) {
		connection_ended(ep);
		return;
	}
	if (may_be_ours(ep, status) && rdmamsg__sends_fail(ep))
		status = IBV_WC_LOC_QP_OP_ERR;
	forgiven = is_forgiven(ep, wc, status);
	if (!forgiven) {
		rdmamsg__rma_refused(ep, wc);
		rdmamsg__window_refused(ep, wc);
	}
	switch (status) {
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_MW_BIND_ERR:
		who = RDMAMSG_WHO_LOCAL;
		cause = RDMAMSG_CAUSE_ACCESS;
		error = -EACCES;
		break;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_WR_FLUSH_ERR:
		who = RDMAMSG_WHO_PEER;
		if (forgiven)
			break;
		cause = RDMAMSG_CAUSE_ACCESS;
		error = -EACCES;
		if (is_peers_fault(wc))
			rdmamsg__ep_offended(ep);
		break;
	case IBV_WC_RETRY_EXC_ERR:
		error = -ETIMEDOUT;
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		ep->st.rnr_errors++;
		who = RDMAMSG_WHO_PEER;
		break;
	case IBV_WC_LOC_QP_OP_ERR:
		if (!rdmamsg__quirks(ep->lane.dev->device)->fails_without_route)
			who = RDMAMSG_WHO_DEVICE;
		error = -ENETDOWN;
		break;
	case IBV_WC_REM_OP_ERR:
		/* the peer died during our read, which is no offence */
		who = RDMAMSG_WHO_PEER;
		break;
	case IBV_WC_LOC_LEN_ERR:
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_PROTOCOL;
		error = -EPROTO;
		rdmamsg__ep_offended(ep);
		break;
	default:
		break;
	}
	ep->close.reason.wc_status = wc->status;
	ep->close.reason.vendor_err = wc->vendor_err;
	ep->close.reason.operation = operation;
	if (may_be_ours(ep, status))
		rdmamsg__ep_reason(
			ep, who, cause, error,
			"the peer asked for memory that it may not reach%s, or "
			"a request of this side failed, for its memory or its "
			"route: %s does not tell (%s)",
			rdmamsg__region_guess(ep->lane.dev, ep->key, regions,
					      sizeof(regions)),
			ep->lane.dev->device->name,
			ibv_wc_status_str(wc->status));
	else if (status == IBV_WC_WR_FLUSH_ERR)
		rdmamsg__ep_reason(
			ep, who, cause, error,
			"the peer asked for "
			"memory that it may not reach%s, or broke "
			"the rules of the transport (%s, vendor "
			"0x%x)",
			rdmamsg__region_guess(ep->lane.dev, ep->key, regions,
					      sizeof(regions)),
			ibv_wc_status_str(wc->status), wc->vendor_err);
	else
		rdmamsg__ep_reason(ep, who, cause, error,
				   "%s%s%s (%s, vendor 0x%x)",
				   operation ? operation : "",
				   operation ? ": " : "",
				   rdmamsg__wc_text(status),
				   ibv_wc_status_str(wc->status),
				   wc->vendor_err);
	rdmamsg__ep_kill(ep);
}
