/* SPDX-License-Identifier: BSD-2-Clause */
/* Why an endpoint ends: whose doing, and what of it to tell. */
#include "internal.h"

#include <stdarg.h>
#include <string.h>

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

void rdmamsg__ep_device_failed(struct rdmamsg_ep *ep, int err, const char *what)
{
	if (err == -EIO && rdmamsg__device_lost(ep->dev->device)) {
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
	if (status == IBV_WC_WR_FLUSH_ERR &&
	    rdmamsg__device_lost(ep->dev->device)) {
		rdmamsg__ep_removed(ep);
		return;
	}
	/* on a receive it is Soft-RoCE's word for a message too large for it */
	if (status == IBV_WC_LOC_QP_OP_ERR && wc->wr_id & 0x80000000u)
		status = IBV_WC_LOC_LEN_ERR;
	/* and for a message that was to invalidate what is no window */
	if (status == IBV_WC_REM_INV_REQ_ERR && wc->wr_id & 0x80000000u)
		status = IBV_WC_WR_FLUSH_ERR;
	rdmamsg__rma_refused(ep, wc);
	rdmamsg__window_refused(ep, wc);
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
