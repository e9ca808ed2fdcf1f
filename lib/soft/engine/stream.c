/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes streams of a DC initiator one after the other, in the order of the
 * send queue. So all requests under way belong to one stream, apart from local
 * ones. If a request fails, its successors under way are flushed with it, and
 * no request of another stream can execute twice.
 *
 *   sq_head      failed            sq_next        sq_tail
 *      | stream 5   | 5  5  5  5      | 2  5  0      |
 *        succeed      fails, flushed    2 and 0 go on
 */
#include "soft/engine/stream.h"

#include "base/util.h"
#include "soft/engine/dc.h"
#include "soft/engine/engine.h"
#include "soft/engine/req.h"
#include "soft/verbs/dc.h"
#include "soft/verbs/stream.h"

/* Flushes the request at sq_next, when it is the oldest. */
static enum soft_pass flush(struct soft_dev *dev, struct soft_qp *qp,
			    const struct soft_swqe *wqe)
{
	if (!is_local(wqe)) {
		qp->una = (wqe->psn + 1) & SOFT_PSN_MASK;
		/* the target would miss the PSN, so a new session begins */
		soft_dci_leave(dev, qp);
	}
	qp->sq_next = ++qp->sq_head;
	soft_sq_complete(dev, qp, wqe, IBV_WC_WR_FLUSH_ERR);
	return SOFT_FLUSHED;
}

enum soft_pass soft_stream_enter(struct soft_dev *dev, struct soft_qp *qp,
				 const struct soft_swqe *wqe)
{
	struct soft_streams *s = qp->dci->streams;
	const uint16_t stream = soft_stream_of(wqe);
	const bool idle = qp->sq_head == qp->sq_next;

	/* a local request that has executed before does not fail now */
	if (wqe->done)
		return SOFT_PUSHES;
	if (idle && soft_stream_is_errored(s, stream))
		return flush(dev, qp, wqe);
	if (!idle && (soft_stream_is_errored(s, stream) ||
		      (stream != s->now && !is_local(wqe)))) {
		soft_heed(dev);
		return SOFT_WAITS;
	}
	if (!is_local(wqe))
		s->now = stream;
	return SOFT_PUSHES;
}

/* No request is under way any more. */
static void rewind_all(struct soft_qp *qp)
{
	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		struct soft_swqe *wqe = wqe_at(qp, i);

		if (!wqe->started)
			break;
		if (!is_local(wqe))
			wqe->done = false;
		wqe->started = wqe->done;
		wqe->status = IBV_WC_SUCCESS;
		wqe->sent = 0;
	}
	qp->sq_next = qp->sq_head;
	qp->tries++;
	qp->reads_out = 0;
	qp->waiting = qp->lost = false;
	soft_timer_stop(&qp->timer);
	qp->retries = qp->attr.retry_cnt;
	qp->lost_ns = 0;
	qp->rnr_retries = qp->attr.rnr_retry;
}

bool soft_stream_survives(struct soft_dev *dev, struct soft_qp *qp,
			  const struct soft_swqe *failed)
{
	if (!qp->dci->streams ||
	    !soft_stream_fail(qp->dci->streams, soft_stream_of(failed)))
		return false;
	if (!is_local(failed))
		qp->una = (failed->psn + 1) & SOFT_PSN_MASK;
	rewind_all(qp);
	/* the responder may be in error, or amid the failed message */
	soft_dci_leave(dev, qp);
	if (qp->sq_head != qp->sq_tail)
		soft_qp_pend(dev, qp);
	return true;
}
