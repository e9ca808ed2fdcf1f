/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pushes requests. A request stays in the send queue until it is answered:
 *
 *   sq_head            sq_next          sq_tail
 *      | pushed, wait for |  to be pushed  |
 *      | an answer        |                |
 */
#include "soft/engine/req.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/cross.h"
#include "soft/engine/dc.h"
#include "soft/engine/engine.h"
#include "soft/engine/eth.h"
#include "soft/engine/fate.h"
#include "soft/engine/linger.h"
#include "soft/engine/offer.h"
#include "soft/engine/order.h"
#include "soft/engine/stream.h"
#include "soft/engine/ud.h"
#include "soft/fabric/count.h"
#include "soft/fabric/push.h"
#include "soft/fabric/vm.h"
#include "soft/verbs/access.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/dc.h"
#include "soft/verbs/layout.h"
#include "soft/verbs/upward.h"

#define EARLY_BYTES	2048	/* of a record: copying takes time */
#define OVERTAKE_NS	1000000ull	/* wait for the overtaking request */

/* ---- completing requests ---------------------------------------------- */

void soft_req_fail(struct soft_dev *dev, struct soft_qp *qp, uint32_t i,
		   enum ibv_wc_status status)
{
	soft_vm_forget(dev, qp);
	while (qp->sq_head != i) {
		struct soft_swqe *wqe = wqe_at(qp, qp->sq_head++);
		bool done = !is_read(wqe) || wqe->done;

		soft_sq_complete(dev, qp, wqe, done ? IBV_WC_SUCCESS :
				 IBV_WC_WR_FLUSH_ERR);
	}
	if (qp->sq_head != qp->sq_tail)
		soft_sq_complete(dev, qp, wqe_at(qp, qp->sq_head++), status);
	if (qp->unreliable)
		soft_sq_error(dev, qp);
	else if (unlikely(qp->lingers))
		soft_linger_over(dev, qp);
	else if (!qp->dci || !soft_stream_survives(dev, qp, wqe_at(qp, i)))
		soft_qp_error(dev, qp);
}

/*
 * For an empty send queue. Starting over at entry 0 keeps the first entries in
 * the cache, instead of touching all entries in turn. A builder keeps its
 * entries.
 */
static inline void begin_anew(struct soft_qp *qp)
{
	if (likely(qp->state == IBV_QPS_RTS && !qp->ex_alone &&
		   !qp->ex_busy))
		qp->sq_head = qp->sq_next = qp->sq_tail = qp->begun = 0;
}

void soft_req_complete(struct soft_dev *dev, struct soft_qp *qp)
{
	uint32_t head = qp->sq_head;

	if (unlikely(dev->iwarp))
		soft_order_answered(dev, qp);
	while (qp->sq_head != qp->sq_next && likely(!dev->iwarp)) {
		struct soft_swqe *wqe = wqe_at(qp, qp->sq_head);

		if (is_read(wqe) ? !wqe->done :
		    !is_local(wqe) && !psn_before(soft_last_psn(wqe), qp->una))
			break;
		qp->sq_head++;
		soft_sq_complete(dev, qp, wqe, IBV_WC_SUCCESS);
	}
	if (qp->sq_head != head) {
		qp->retries = qp->attr.retry_cnt;
		qp->lost_ns = 0;
		qp->rnr_retries = qp->attr.rnr_retry;
	}
	soft_sq_drained(dev, qp);
	if (qp->sq_head == qp->sq_tail) {
		begin_anew(qp);
		return;
	}
	if (qp->sq_head == qp->sq_next && wqe_at(qp, qp->sq_head)->status)
		soft_req_fail(dev, qp, qp->sq_head,
			      wqe_at(qp, qp->sq_head)->status);
	else if (qp->sq_next != qp->sq_tail && !qp->waiting)
		soft_qp_pend(dev, qp);
}

/* ---- pushing ---------------------------------------------------------- */

static void fill(struct soft_rec *rec, const struct soft_qp *qp,
		 const struct soft_swqe *wqe, uint8_t op)
{
	memset(rec, 0, sizeof(*rec));
	rec->op = op;
	rec->flags = qp->path;
	rec->aux = qp->tries;
	rec->dst = qp->attr.dest_qp_num;
	rec->src = qp->ibv.qp_num;
	rec->psn = wqe->psn;
	rec->raddr = wqe->raddr;
	rec->rkey = wqe->rkey;
	rec->srqn = wqe->srqn;
	rec->total = wqe->length;
}

/*
 * Puts the next n bytes, or their address. Returns the length put, or -EACCES.
 */
static int put_payload(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe, void *at, uint32_t n)
{
	if (wqe->show)
		return soft_vm_show(dev, qp, wqe, n, at);
	if (wqe->inlined)
		memcpy(at, wqe->data + wqe->sent, n);
	else if (unlikely(wqe->told && wqe->taken))
		memcpy(at, wqe->taken + wqe->sent, n);
	else if (soft_gather(qp, wqe->sge, wqe->num_sge, wqe->sent, at, n))
		return -EACCES;
	return (int)n;
}

/* Pushes a SEND or WRITE. Returns false if the ring is full. */
static bool push_segments(struct soft_dev *dev, struct soft_qp *qp,
			  struct soft_swqe *wqe)
{
	bool write = wqe->op == IBV_WR_RDMA_WRITE ||
		     wqe->op == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct soft_wire *w = qp->wire;

	if (!wqe->sent)
		wqe->show = !wqe->push && !qp->unreliable && !wqe->inlined &&
			    !dev->iwarp &&
			    soft_vm_shows(w, wqe->length) &&
			    !soft_layout_in(dev, wqe->sge, wqe->num_sge);
	do {
		uint32_t n = min(wqe->length - wqe->sent, wqe->show ?
				 SOFT_SHOW_MAX : SOFT_SEGMENT);
		uint32_t room = wqe->show ? sizeof(struct soft_shown) : n;
		struct soft_rec *rec = soft_rec_new(dev, w, room);
		int bytes;

		if (!rec)
			return qp->unreliable &&
			       soft_give_up(dev, qp, w, SOFT_STALL_NS);
		w->full_since = 0;
		bytes = put_payload(dev, qp, wqe, rec + 1, n);
		if (bytes < 0) {
			wqe->status = IBV_WC_LOC_PROT_ERR;
			return true;
		}
		fill(rec, qp, wqe, write ? SOFT_WRITE : SOFT_SEND);
		rec->bytes = (uint32_t)bytes;
		if (wqe->show)
			rec->code = SOFT_SHOWN;
		rec->offset = wqe->sent;
		rec->imm = wqe->imm;
		wqe->sent += n;
		if (wqe->sent == wqe->length)
			rec->flags |= SOFT_F_LAST |
				      (wqe->signaled ? SOFT_F_ACK : 0);
		if (wqe->op == IBV_WR_SEND_WITH_IMM ||
		    wqe->op == IBV_WR_RDMA_WRITE_WITH_IMM)
			rec->flags |= SOFT_F_IMM;
		if (wqe->op == IBV_WR_SEND_WITH_INV)
			rec->flags |= SOFT_F_INV;
		if (wqe->flags & IBV_SEND_SOLICITED)
			rec->flags |= SOFT_F_SOLICITED;
		if (qp->unreliable)
			rec->flags |= SOFT_F_UNRELIABLE;
		soft_rec_commit(dev, w, (uint32_t)bytes);
		if (bytes >= EARLY_BYTES)
			soft_bell_early(w);
		soft_count_xmit(dev, qp->attr.port_num, n);
	} while (wqe->sent != wqe->length);
	return true;
}

static enum soft_op read_op(const struct soft_swqe *wqe)
{
	switch (wqe->op) {
	case IBV_WR_RDMA_READ:
		return SOFT_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return SOFT_CAS;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return SOFT_FAA;
	default:
		return SOFT_MASKED;
	}
}

/* Pushes a read or an atomic. Returns false if the ring is full. */
static bool push_read(struct soft_dev *dev, struct soft_qp *qp,
		      struct soft_swqe *wqe)
{
	const enum soft_op op = read_op(wqe);
	const uint64_t operands[2] = { wqe->compare_add, wqe->swap };
	const uint32_t bytes = op == SOFT_READ ? 0 :
			       op == SOFT_MASKED ? sizeof(struct masked) :
			       sizeof(operands);
	struct soft_rec *rec = soft_rec_new(dev, qp->wire, bytes);

	if (!rec)
		return false;
	fill(rec, qp, wqe, (uint8_t)op);
	rec->flags |= SOFT_F_LAST;
	if (op == SOFT_READ && wqe->length >= SOFT_SHOW_MIN &&
	    qp->wire->fetches && !wqe->push && !dev->iwarp &&
	    !soft_layout_in(dev, wqe->sge, wqe->num_sge))
		rec->code = SOFT_SHOWN;
	if (bytes) {
		rec->bytes = bytes;
		memcpy(rec + 1, op == SOFT_MASKED ?
		       (const void *)&qp->sq_masked[wqe - qp->sq] : operands,
		       bytes);
	}
	soft_rec_commit(dev, qp->wire, bytes);
	soft_count_xmit(dev, qp->attr.port_num, bytes);
	wqe->sent = 0;			/* received bytes of the answer */
	wqe->try = qp->tries;
	qp->reads_out++;
	return true;
}

/* Packets have a fate of their own: net/fate.c. */
static bool goes_far(const struct soft_qp *qp, const struct soft_swqe *wqe)
{
	return qp->far || (qp->ibv.qp_type == IBV_QPT_UD && wqe->ah->far &&
			   !wqe->ah->mcast);
}

/* Draws *fate. Returns true if the request at sq_next must wait. */
static bool held_up(struct soft_dev *dev, struct soft_qp *qp,
		    struct soft_swqe *wqe, enum soft_fate *fate)
{
	if (qp->reorder) {
		qp->reorder = false;
		*fate = SOFT_REORDER;
		return false;
	}
	*fate = soft_fate(dev, qp);
	switch (*fate) {
	case SOFT_LOSE:
		soft_count(dev, qp->attr.port_num, SOFT_XMIT_DISCARDS, 1);
		if (qp->unreliable)
			return false;
		soft_req_wait_for_ack(dev, qp);
		return true;
	case SOFT_DELAY:
		soft_req_wait(dev, qp, dev->faults.delay_us * 1000ull);
		return true;
	case SOFT_REORDER:
		if (wqe->done || qp->sq_next + 1 != qp->sq_tail)
			return false;
		/* wait for a request that can overtake */
		qp->reorder = true;
		soft_req_wait(dev, qp, OVERTAKE_NS);
		return true;
	default:
		return false;
	}
}

/* Returns true if the request at sq_next may start now. */
static bool may_start(struct soft_dev *dev, struct soft_qp *qp,
		      struct soft_swqe *wqe)
{
	/* in SQD, only requests that have begun before may start again */
	if (qp->state != IBV_QPS_RTS && (qp->state != IBV_QPS_SQD ||
					 (int32_t)(qp->drain_to -
						   qp->sq_next) <= 0))
		return false;
	if (wqe->flags & IBV_SEND_FENCE && qp->reads_out)
		return false;
	return !is_read(wqe) || qp->reads_out < max(qp->attr.max_rd_atomic, 1);
}

static void do_local(struct soft_dev *dev, struct soft_qp *qp,
		     struct soft_swqe *wqe)
{
	int err;

	/* a retry does not execute a local request twice */
	if (wqe->done)
		return;
	if (wqe->op == IBV_WR_BIND_MW)
		err = soft_mw_bind(dev, qp, wqe);
	else if (wqe->op == SOFT_WR_UMR)
		err = soft_layout_define(dev, qp, wqe);
	else if (wqe->op > SOFT_WR_UMR)
		err = soft_cross_do(dev, qp, wqe);
	else
		err = soft_mr_invalidate(dev, qp, wqe->imm, false);
	if (err)
		wqe->status = wqe->op > SOFT_WR_UMR ? IBV_WC_LOC_QP_OP_ERR :
			      IBV_WC_MW_BIND_ERR;
	else
		wqe->done = true;
}

static bool push_datagram(struct soft_dev *dev, struct soft_qp *qp,
			    struct soft_swqe *wqe)
{
	if (qp->ibv.qp_type == IBV_QPT_UD)
		return soft_ud_push(dev, qp, wqe);
	if (qp->raw)
		return soft_eth_push(dev, qp, wqe);
	return !qp->wire || qp->wire->dead || push_segments(dev, qp, wqe);
}

/*
 * Pushes a request of UC, UD or RAW_PACKET. The request is complete when it is pushed or
 * dropped. Returns false if the ring is full.
 */
static bool push_unreliable(struct soft_dev *dev, struct soft_qp *qp,
			    struct soft_swqe *wqe, enum soft_fate fate)
{
	struct soft_swqe *next = wqe_at(qp, qp->sq_next + 1);

	if (fate == SOFT_LOSE || wqe->done)
		return true;		/* done: pushed before its turn */
	if (fate == SOFT_REORDER && qp->sq_next + 1 != qp->sq_tail &&
	    !is_local(next) && !next->status) {
		if (!push_datagram(dev, qp, next)) {
			/* try again when the ring has room */
			qp->reorder = true;
			wqe->started = false;
			return false;
		}
		next->done = !next->status;
	}
	if (fate == SOFT_DUPLICATE)
		wqe->again = true;
	if (!push_datagram(dev, qp, wqe))
		return false;
	if (likely(!wqe->again) || wqe->status)
		return true;
	wqe->again = false;
	wqe->sent = 0;
	return push_datagram(dev, qp, wqe);
}

/*
 * Returns true if the request at sq_next of a cross-channel queue pair may be
 * pushed now. Ends a request that has failed.
 */
static bool passes_cross(struct soft_dev *dev, struct soft_qp *qp,
			 struct soft_swqe *wqe)
{
	if (soft_cross_passes(dev, qp, wqe))
		return true;
	if (!wqe->status)
		return false;
	soft_req_complete(dev, qp);
	if (qp->sq_head != qp->sq_next)
		soft_heed(dev);
	return false;
}

/* For the request at sq_next. */
static enum soft_pass pass_gate(struct soft_dev *dev, struct soft_qp *qp,
				struct soft_swqe *wqe)
{
	enum soft_pass pass = SOFT_PUSHES;

	if (qp->gate == SOFT_GATE_CROSS)
		return passes_cross(dev, qp, wqe) ? SOFT_PUSHES : SOFT_WAITS;
	if (qp->dci && qp->dci->streams)
		pass = soft_stream_enter(dev, qp, wqe);
	if (pass != SOFT_PUSHES || is_local(wqe))
		return pass;
	if (qp->gate == SOFT_GATE_AIM)
		return soft_dci_aim(dev, qp, wqe) ? SOFT_PUSHES : SOFT_WAITS;
	/* muted: the first record of the peer, or its RTR, opens the gate */
	return SOFT_WAITS;
}

void soft_req_push(struct soft_dev *dev, struct soft_qp *qp)
{
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	if (unlikely(dev->iwarp && qp->waiting && qp->lost))
		soft_order_lost(dev, qp);
	while (qp->sq_next != qp->sq_tail && !qp->waiting) {
		struct soft_swqe *wqe = wqe_at(qp, qp->sq_next);
		enum soft_pass pass = SOFT_PUSHES;
		enum soft_fate fate = SOFT_PASS;
		bool pushed, fresh;

		if (wqe->status)
			break;
		if (unlikely(wqe->told) && soft_order_has_arrived(qp, wqe)) {
			wqe->started = true;
			qp->sq_next++;
			continue;
		}
		if (unlikely(qp->gate))
			pass = pass_gate(dev, qp, wqe);
		if (unlikely(pass == SOFT_FLUSHED))
			continue;
		if (unlikely(pass == SOFT_WAITS))
			return;
		if (!wqe->started && !may_start(dev, qp, wqe))
			return;
		if (!qp->unreliable && likely(!qp->far) &&
		    unlikely(!qp->wire || qp->wire->dead) &&
		    !(qp->dci && is_local(wqe))) {
			soft_req_wire_down(dev, qp);
			return;
		}
		if (unlikely(!wqe->started && !is_local(wqe) &&
			     !goes_far(qp, wqe) &&
			     held_up(dev, qp, wqe, &fate)))
			return;
		wqe->started = true;
		fresh = (int32_t)(qp->sq_next - qp->begun) >= 0;
		if (fresh)
			qp->begun = qp->sq_next + 1;
		if (is_local(wqe)) {
			do_local(dev, qp, wqe);
			pushed = true;
		} else if (unlikely(qp->far)) {
			/* goes on when answers have come, or there is room */
			pushed = soft_verbs_up->far_push(dev, qp, wqe);
			if (!pushed)
				return;
		} else if (is_read(wqe)) {
			/* the peer may know the PSN of one that was pushed */
			pushed = (fresh && soft_offer_take(dev, qp, wqe)) ||
				 push_read(dev, qp, wqe);
		} else if (qp->unreliable) {
			pushed = push_unreliable(dev, qp, wqe, fate);
		} else {
			pushed = push_segments(dev, qp, wqe);
		}
		if (!pushed) {
			if (list_empty(&qp->pend_node))
				soft_count(dev, qp->attr.port_num,
					   SOFT_XMIT_WAIT, 1);
			soft_qp_pend(dev, qp);
			return;
		}
		if (!wqe->status)
			qp->sq_next++;
		if (unlikely(dev->iwarp) && !wqe->status && !is_local(wqe) &&
		    !is_read(wqe))
			soft_order_pushed(dev, qp);
		if (qp->unreliable && !wqe->status)
			qp->una = (wqe->psn + !is_local(wqe)) & SOFT_PSN_MASK;
		if (wqe->status || is_local(wqe) || qp->unreliable ||
		    wqe->done)
			soft_req_complete(dev, qp);
		/* its completion waits for the ACK of earlier requests */
		if ((wqe->status || is_local(wqe)) && !qp->unreliable &&
		    qp->sq_head != qp->sq_next)
			soft_heed(dev);
	}
}
