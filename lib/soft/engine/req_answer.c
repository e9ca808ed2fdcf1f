/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Takes answers, and retries requests.
 *
 * A ring loses nothing, so no timer runs while the peer works. A timer runs
 * after an RNR NAK, after a LOST NAK and after an injected loss. When it
 * expires, all unanswered requests are pushed again. A timer also runs when
 * the peer's process has ended. When it expires, the oldest request fails. A
 * stopped peer keeps its wire and causes no error: see rdmamsg-soft(7).
 */
#include "soft/engine/req.h"

#include <errno.h>

#include "base/util.h"
#include "soft/engine/apm.h"
#include "soft/engine/engine.h"
#include "soft/engine/linger.h"
#include "soft/engine/order.h"
#include "soft/fabric/count.h"
#include "soft/fabric/wire.h"
#include "soft/verbs/access.h"
#include "soft/verbs/dc.h"

#define DIAL_NS		10000000ull
#define AGAIN_NS	4000000ull	/* a request that is lost goes out again */

/* ---- retries ---------------------------------------------------------- */

/* Pushes all requests from i on again. */
static void rewind_to(struct soft_qp *qp, uint32_t i)
{
	for (uint32_t at = i; at != qp->sq_tail; at++) {
		struct soft_swqe *wqe = wqe_at(qp, at);

		if (!wqe->started)
			break;
		if (is_read(wqe) && !wqe->done && at != qp->sq_next)
			qp->reads_out--;
		if (!is_local(wqe))
			wqe->started = wqe->done = false;
		wqe->sent = 0;
	}
	qp->sq_next = i;
	qp->tries++;
}

void soft_req_wait(struct soft_dev *dev, struct soft_qp *qp, uint64_t ns)
{
	qp->waiting = true;
	qp->lost = false;
	soft_timer_set(dev, &qp->timer, ns);
}

static uint64_t ack_ns(const struct soft_qp *qp)
{
	return 4096ull << qp->attr.timeout;
}

/*
 * A loss is known at once, and round trips are short. So the request goes out
 * again after a small part of the ack timeout, then after twice as long, as on
 * cards with adaptive retransmission (Linux, mlx5_ifc.h, roce_adp_retrans_en).
 * Once these waits have made up an ack timeout, a retry is used up.
 */
void soft_req_wait_for_ack(struct soft_dev *dev, struct soft_qp *qp)
{
	const uint64_t all = max(ack_ns(qp), 1000000ull);
	const uint64_t left = all > qp->lost_ns ? all - qp->lost_ns : 0;
	const uint64_t ns = min(qp->lost_ns + AGAIN_NS, left);

	soft_req_wait(dev, qp, ns);
	qp->lost = true;
	qp->lost_ns += ns;
	if (unlikely(dev->iwarp))
		soft_order_lost(dev, qp);
}

/* Returns true if a whole ack timeout has passed since the loss. */
static bool uses_up_try(struct soft_qp *qp)
{
	if (!qp->lost || qp->lost_ns < ack_ns(qp))
		return false;
	qp->lost_ns = 0;
	return true;
}

void soft_req_timer(struct soft_dev *dev, struct soft_timer *t)
{
	struct soft_qp *qp = list_entry(t, struct soft_qp, timer);
	bool over = qp->wire ? qp->wire->dead : !qp->dials && !qp->far;

	qp->waiting = false;
	if (qp->unreliable) {
		soft_req_push(dev, qp);
		return;
	}
	if (qp->lost)
		soft_count(dev, qp->attr.port_num, SOFT_ACK_TIMEOUTS, 1);
	/*
	 * With timeout 0 the retries never end. Neither do those of TCP in
	 * iWARP, because they take a quarter of an hour.
	 */
	if (uses_up_try(qp) && qp->attr.timeout && !dev->iwarp &&
	    !qp->retries--)
		over = true;
	if (over && qp->sq_head != qp->sq_tail && !soft_apm_retry(dev, qp))
		soft_req_fail(dev, qp, qp->sq_head, IBV_WC_RETRY_EXC_ERR);
	else
		soft_req_push(dev, qp);
}

void soft_req_anew(struct soft_qp *qp)
{
	qp->retries = qp->attr.retry_cnt;
	qp->lost_ns = 0;
	if (!qp->waiting || !qp->lost)
		return;
	soft_timer_stop(&qp->timer);
	qp->waiting = false;
}

/*
 * The backlog of the peer's name is full, which every user of the host can
 * bring about. Dials again for as long as the retries would take. Returns false
 * if the peer is absent.
 */
static bool dials(struct soft_dev *dev, struct soft_qp *qp)
{
	const uint64_t ns = ack_ns(qp) * (qp->retries + 1);
	int ret = soft_wire_get(dev, qp->attr.dest_qp_num >> SOFT_QPN_BITS,
				&qp->wire);

	if (!qp->dial_until)
		qp->dial_until = qp->attr.timeout ? soft_now() + ns :
						    UINT64_MAX;
	qp->dials = ret == -EAGAIN && soft_now() < qp->dial_until;
	if (!qp->dials)
		qp->dial_until = 0;
	if (ret && !qp->dials)
		return false;
	soft_req_wait(dev, qp, ret ? DIAL_NS : 1);
	return true;
}

/* Each retry left takes a full ack timeout, and so does the current try. */
void soft_req_wire_down(struct soft_dev *dev, struct soft_qp *qp)
{
	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) ||
	    qp->sq_head == qp->sq_tail)
		return;
	if (qp->unreliable) {
		soft_qp_pend(dev, qp);
		return;
	}
	rewind_to(qp, qp->sq_head);
	if (!qp->wire && qp->dials && dials(dev, qp))
		return;
	if (!qp->attr.timeout) {
		qp->waiting = true;	/* for ever */
		soft_timer_stop(&qp->timer);
		return;
	}
	soft_req_wait(dev, qp, ack_ns(qp) * (qp->retries + 1));
}

void soft_req_wires_down(struct soft_dev *dev, const struct soft_wire *w)
{
	for (uint32_t i = 0; i < SOFT_QPS; i++)
		if (dev->qps[i] && dev->qps[i]->wire == w)
			soft_req_wire_down(dev, dev->qps[i]);
}

/* RNR timers by the code in min_rnr_timer, in units of 10 us. */
static const uint16_t rnr_10us[32] = {
	65536 - 1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256,
	384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
	24576, 32768, 49152,
};

void soft_req_rnr(struct soft_dev *dev, struct soft_qp *qp, uint32_t i,
		  uint8_t timer)
{
	dev->rnr.received++;
	qp->rnr.received++;
	soft_count(dev, qp->attr.port_num, SOFT_RNR_NAKS, 1);
	if (!qp->rnr_retries) {
		soft_req_fail(dev, qp, i, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	if (qp->attr.rnr_retry != 7)	/* 7: without limit */
		qp->rnr_retries--;
	/* to a far peer, only the packets behind the refused one go again */
	if (likely(!qp->far))
		rewind_to(qp, i);
	soft_req_complete(dev, qp);
	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
		soft_req_wait(dev, qp, rnr_10us[timer & 31] * 10000ull);
}

static void on_lost(struct soft_dev *dev, struct soft_qp *qp,
		    const struct soft_rec *rec)
{
	/* both ends have closed */
	if (unlikely(qp->lingers) && rec->imm) {
		soft_linger_over(dev, qp);
		return;
	}
	if (rec->aux != qp->tries || qp->waiting || qp->sq_head == qp->sq_tail)
		return;
	/* the target may have lost the record that connects */
	if (qp->dci)
		qp->dci->connected = false;
	rewind_to(qp, qp->sq_head);
	soft_req_wait_for_ack(dev, qp);
}

/* ---- answers ---------------------------------------------------------- */

/* Finds the pushed request with this PSN. Returns false if there is none. */
static bool find(struct soft_qp *qp, uint32_t psn, uint32_t *ret)
{
	uint32_t i;

	if (qp->sq_head == qp->sq_tail)
		return false;
	i = (psn - wqe_at(qp, qp->sq_head)->psn) & SOFT_PSN_MASK;
	if (i >= qp->sq_next + 1 - qp->sq_head)
		return false;
	/* a local request has the PSN of its successor, so search on */
	for (i += qp->sq_head; i != qp->sq_next + 1 && i != qp->sq_tail; i++) {
		struct soft_swqe *wqe = wqe_at(qp, i);

		if (wqe->psn == psn && !is_local(wqe) && wqe->started) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static uint32_t psn_to_push(const struct soft_qp *qp)
{
	return qp->sq_next == qp->sq_tail ? qp->psn_next :
	       qp->sq[qp->sq_next & qp->sq_mask].psn;
}

static void on_ack(struct soft_dev *dev, struct soft_qp *qp, uint32_t psn)
{
	uint32_t out = (psn_to_push(qp) - qp->una) & SOFT_PSN_MASK;

	if (((psn - qp->una) & SOFT_PSN_MASK) >= out)
		return;
	qp->una = (psn + 1) & SOFT_PSN_MASK;
	soft_req_complete(dev, qp);
}

/*
 * The peer cannot fetch the payload of request i or, if 'always', of any
 * request.
 */
static void on_push(struct soft_dev *dev, struct soft_qp *qp, uint32_t i,
		    bool always)
{
	struct soft_swqe *wqe = wqe_at(qp, i);

	if (!wqe->show) {
		soft_req_fail(dev, qp, i, IBV_WC_REM_OP_ERR);
		return;
	}
	wqe->push = true;
	if (always)
		qp->wire->shows = false;
	rewind_to(qp, i);
	soft_req_complete(dev, qp);
}

static void on_nak(struct soft_dev *dev, struct soft_qp *qp,
		   const struct soft_rec *rec)
{
	uint32_t i;

	if (rec->code == SOFT_NAK_LOST) {
		on_lost(dev, qp, rec);
		return;
	}
	if (!find(qp, rec->psn, &i))
		return;
	qp->una = rec->psn;
	switch (rec->code) {
	case SOFT_NAK_RNR:
		soft_req_rnr(dev, qp, i, rec->aux);
		break;
	case SOFT_NAK_INV_REQ:
		soft_req_fail(dev, qp, i, IBV_WC_REM_INV_REQ_ERR);
		break;
	case SOFT_NAK_ACCESS:
		soft_req_fail(dev, qp, i, IBV_WC_REM_ACCESS_ERR);
		break;
	case SOFT_NAK_PUSH:
		on_push(dev, qp, i, rec->aux);
		break;
	case SOFT_NAK_FAULT:
		soft_req_fail(dev, qp, i, IBV_WC_LOC_PROT_ERR);
		break;
	default:
		soft_req_fail(dev, qp, i, IBV_WC_REM_OP_ERR);
	}
}

/*
 * On iWARP the answer to a read is a write by the peer into the memory of the
 * read, so that memory must permit remote writes: RFC 5040, 5.2 and 7.2.
 */
static bool sink_permits(struct soft_dev *dev, const struct soft_qp *qp,
			 const struct soft_swqe *wqe, uint32_t bytes)
{
	return !bytes || soft_mr_at(dev, &qp->pd->ibv, wqe->sge[0].lkey,
				    wqe->sge[0].addr + wqe->sent, bytes,
				    IBV_ACCESS_LOCAL_WRITE |
				    IBV_ACCESS_REMOTE_WRITE);
}

/*
 * Writes the payload of an answer. On failure, fails or repeats the request and
 * returns false.
 */
static bool land(struct soft_dev *dev, struct soft_qp *qp, uint32_t i,
		 const struct soft_rec *rec, const void *payload)
{
	struct soft_swqe *wqe = wqe_at(qp, i);
	int err;

	if (unlikely(qp->lingers))
		return true;		/* the memory may be gone */
	if (unlikely(dev->iwarp) && !sink_permits(dev, qp, wqe, rec->bytes)) {
		/* Linux, c4iw_poll_cq_one(): T4_ERR_ACCESS, T4_ERR_STAG */
		soft_req_fail(dev, qp, i, IBV_WC_LOC_ACCESS_ERR);
		return false;
	}
	if (likely(rec->code != SOFT_SHOWN))
		err = soft_scatter(qp, wqe->sge, wqe->num_sge, wqe->sent,
				   payload, rec->bytes);
	else
		err = soft_vm_scatter(dev, &qp->pd->ibv, wqe->sge,
				      wqe->num_sge, wqe->sent, payload,
				      rec->bytes);
	switch (err) {
	case 0:
		return true;
	case -EACCES:
		soft_req_fail(dev, qp, i, IBV_WC_LOC_PROT_ERR);
		return false;
	case -EFAULT:
		soft_req_fail(dev, qp, i, IBV_WC_REM_OP_ERR);
		return false;
	default:
		wqe->push = true;
		rewind_to(qp, i);
		soft_qp_pend(dev, qp);
		return false;
	}
}

static void on_data(struct soft_dev *dev, struct soft_qp *qp,
		    const struct soft_rec *rec, const void *payload)
{
	const bool atomic = rec->op == SOFT_ATOMIC_RESP;
	struct soft_swqe *wqe;
	uint32_t i;

	if (!find(qp, rec->psn, &i))
		return;
	wqe = wqe_at(qp, i);
	/* a stale answer, because the current try asks again */
	if (is_read(wqe) && rec->aux != wqe->try)
		return;
	if (!is_read(wqe) || wqe->done || i == qp->sq_next ||
	    atomic != (wqe->op != IBV_WR_RDMA_READ) ||
	    rec->offset != wqe->sent ||
	    rec->bytes > wqe->length - wqe->sent ||
	    (rec->code == SOFT_SHOWN && (atomic || wqe->push)) ||
	    (atomic && rec->bytes != wqe->length)) {
		soft_req_fail(dev, qp, i, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (!land(dev, qp, i, rec, payload))
		return;
	wqe->sent += rec->bytes;
	if (wqe->sent != wqe->length)
		return;
	wqe->done = true;
	qp->reads_out--;
	/* an answer acknowledges all earlier requests, too */
	if (psn_before(qp->una, (rec->psn + 1) & SOFT_PSN_MASK))
		qp->una = (rec->psn + 1) & SOFT_PSN_MASK;
	soft_req_complete(dev, qp);
}

void soft_req_answer(struct soft_dev *dev, struct soft_qp *qp,
		     const struct soft_rec *rec, const void *payload)
{
	if (qp->state == IBV_QPS_RTR)
		return;
	switch (rec->op) {
	case SOFT_ACK:
		on_ack(dev, qp, rec->psn);
		break;
	case SOFT_NAK:
		on_nak(dev, qp, rec);
		break;
	case SOFT_READ_RESP:
	case SOFT_ATOMIC_RESP:
		on_data(dev, qp, rec, payload);
		break;
	default:
		break;
	}
}
