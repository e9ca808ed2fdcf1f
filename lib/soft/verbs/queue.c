/* SPDX-License-Identifier: BSD-2-Clause */
/* The two queues of a queue pair: memory, completions, flushing. */
#include "soft/verbs/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/wire.h"
#include "soft/verbs/access.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/cross.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/upward.h"

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* ---- memory ----------------------------------------------------------- */

int soft_rq_init(struct soft_rq *rq, uint32_t wr, uint32_t sge)
{
	uint32_t size = pow2(max(wr, 1u));

	sge = max(sge, 1u);
	rq->wqe = calloc(size, sizeof(*rq->wqe));
	rq->sges = calloc((size_t)size * sge, sizeof(*rq->sges));
	if (!rq->wqe || !rq->sges)
		return -ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		rq->wqe[i].sge = rq->sges + (size_t)i * sge;
	rq->mask = size - 1;
	rq->room = wr;
	rq->max_sge = sge;
	return 0;
}

void soft_rq_fini(struct soft_rq *rq)
{
	free(rq->wqe);
	free(rq->sges);
}

int soft_sq_init(struct soft_qp *qp)
{
	/* with iWARP, as many again that have completed early */
	uint32_t size = pow2(max(qp->cap.max_send_wr, 1u)) <<
			soft_dev_of(qp->ibv.context)->iwarp;
	uint32_t sge = max(qp->cap.max_send_sge, 1u);
	uint32_t inl = (qp->cap.max_inline_data + 15) & ~15u;

	qp->sq = calloc(size, sizeof(*qp->sq));
	qp->sq_sges = calloc((size_t)size * sge, sizeof(*qp->sq_sges));
	qp->sq_inline = malloc((size_t)size * inl + 1);
	if (!qp->sq || !qp->sq_sges || !qp->sq_inline)
		return -ENOMEM;
	for (uint32_t i = 0; i < size; i++) {
		qp->sq[i].sge = qp->sq_sges + (size_t)i * sge;
		qp->sq[i].data = qp->sq_inline + (size_t)i * inl;
	}
	qp->sq_mask = size - 1;
	return 0;
}

void soft_sq_fini(struct soft_qp *qp)
{
	free(qp->sq);
	free(qp->sq_sges);
	free(qp->sq_inline);
	free(qp->sq_masked);
}

/* ---- completions ------------------------------------------------------ */

static enum ibv_wc_opcode wc_opcode(uint8_t op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case SOFT_WR_MASKED:
		return SOFT_WC_MASKED;
	case SOFT_WR_UMR:
		return SOFT_WC_UMR;
	case SOFT_WR_WAIT:
	case SOFT_WR_SEND_ENABLE:
	case SOFT_WR_RECV_ENABLE:
		return SOFT_WC_RAW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_TSO:
		return IBV_WC_TSO;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_SEND;
	}
}

/* A request leaves the queue that has completed early. */
static void end_told(struct soft_qp *qp, const struct soft_swqe *wqe)
{
	qp->told--;
	if (!wqe->taken)
		return;
	free(wqe->taken);
	qp->taken -= wqe->length;
}

void soft_sq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_swqe *wqe, enum ibv_wc_status status)
{
	struct ibv_wc wc = {
		.wr_id = wqe->wr_id, .status = status,
		.opcode = wc_opcode(wqe->op), .qp_num = qp->ibv.qp_num,
		.byte_len = wqe->length,
	};

	if (unlikely(wqe->told)) {
		end_told(qp, wqe);
		return;
	}
	if (qp->addressed)
		soft_ah_put(wqe->ah);
	if (unlikely(status != IBV_WC_SUCCESS))
		soft_mw_drop(dev, wqe);
	else if (!wqe->signaled)
		return;
	soft_cq_add(dev, soft_cq(qp->ibv.send_cq), &wc, false);
}

static struct soft_cq *recv_cq(const struct soft_qp *qp)
{
	return qp->ibv.qp_type == IBV_QPT_XRC_RECV ? qp->srq->cq :
	       soft_cq(qp->ibv.recv_cq);
}

void soft_rq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      struct ibv_wc *wc, bool solicited)
{
	struct soft_rq *rq = &qp->rq;

	wc->wr_id = rq->wqe[rq->head++ & rq->mask].wr_id;
	if (rq->mask)
		soft_rq_prefetch(rq, 1);
	wc->qp_num = qp->ibv.qp_num;
	soft_cq_add(dev, recv_cq(qp), wc, solicited);
}

/* ---- flushing --------------------------------------------------------- */

void soft_sq_error(struct soft_dev *dev, struct soft_qp *qp)
{
	qp->state = IBV_QPS_SQE;
	soft_timer_stop(&qp->timer);
	soft_timer_stop(&qp->late);
	while (qp->sq_head != qp->sq_tail)
		soft_sq_complete(dev, qp, &qp->sq[qp->sq_head++ & qp->sq_mask],
				 IBV_WC_WR_FLUSH_ERR);
	qp->sq_next = qp->sq_tail;
}

void soft_qp_error(struct soft_dev *dev, struct soft_qp *qp)
{
	if (qp->state == IBV_QPS_RESET)
		return;
	qp->state = IBV_QPS_ERR;
	/* before its requests are flushed, because some have to arrive */
	if (unlikely(qp->cm_id))
		soft_verbs_up->hang_up(dev, qp);
	soft_vm_forget(dev, qp);
	soft_timer_stop(&qp->timer);
	soft_timer_stop(&qp->late);
	qp->waiting = qp->in_message = qp->recv_taken = false;
	qp->reads_late = false;
	qp->reads_out = 0;
	list_del(&qp->wait_node);
	soft_cross_show(qp);
	while (qp->sq_head != qp->sq_tail)
		soft_sq_complete(dev, qp, &qp->sq[qp->sq_head++ & qp->sq_mask],
				 IBV_WC_WR_FLUSH_ERR);
	qp->sq_next = qp->sq_tail;
	while (qp->rq.head != qp->rq.tail) {
		struct ibv_wc wc = {
			.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV,
		};

		soft_rq_complete(dev, qp, &wc, true);
	}
	/*
	 * No further receive of the shared queue completes here. On iWARP no
	 * event tells so.
	 */
	if (qp->ibv.srq && !qp->last_wqe_told && !dev->iwarp) {
		qp->last_wqe_told = true;
		soft_async_qp(dev, qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	if (unlikely(qp->dci || qp->dct))
		soft_verbs_up->dc_over(dev, qp);
}

void soft_qp_reset(struct soft_dev *dev, struct soft_qp *qp)
{
	qp->state = soft_qp_first_state(dev);
	/* those of another peer, soon */
	free(qp->offers);
	qp->offers = NULL;
	if (unlikely(qp->cm_id))
		soft_verbs_up->hang_up(dev, qp);
	if (unlikely(qp->dci || qp->dct))
		soft_verbs_up->dc_over(dev, qp);
	soft_vm_forget(dev, qp);
	soft_timer_stop(&qp->timer);
	soft_timer_stop(&qp->late);
	list_del(&qp->pend_node);
	list_del(&qp->wait_node);
	if (qp->ibv.send_cq)
		soft_cq_clean(soft_cq(qp->ibv.send_cq), qp->ibv.qp_num);
	if (qp->ibv.recv_cq)
		soft_cq_clean(soft_cq(qp->ibv.recv_cq), qp->ibv.qp_num);
	qp->last_wqe_told = false;
	while (qp->sq_head != qp->sq_tail) {
		const struct soft_swqe *wqe =
			&qp->sq[qp->sq_head++ & qp->sq_mask];

		if (wqe->told) {
			end_told(qp, wqe);
			continue;
		}
		if (qp->addressed)
			soft_ah_put(wqe->ah);
		soft_mw_drop(dev, wqe);
	}
	qp->sq_head = qp->sq_next = qp->sq_tail = qp->begun = 0;
	qp->ex_head = qp->told = 0;
	qp->rq.head = qp->rq.tail = qp->rq_held = 0;
	qp->sq_enabled = 0;
	qp->waiting = qp->in_message = qp->recv_taken = qp->dropping = false;
	qp->decided = qp->reorder = qp->reads_late = false;
	qp->path = 0;
	qp->path_due = qp->path_failed = false;
	qp->gate = qp->dci ? SOFT_GATE_AIM :
		   qp->create_flags & SOFT_CROSS_FLAGS ? SOFT_GATE_CROSS :
		   SOFT_GATE_OPEN;
	memset(qp->rd, 0, sizeof(qp->rd));
	qp->ack_due = qp->ack_asked = false;
	qp->nak_due = 0;
	qp->rd_head = qp->rd_tail = qp->reads_out = qp->offset = 0;
	memset(&qp->attr, 0, sizeof(qp->attr));
	soft_verbs_up->far_down(dev, qp);
	soft_wire_put(dev, qp->wire);
	qp->wire = NULL;
}

void soft_sq_drained(struct soft_dev *dev, struct soft_qp *qp)
{
	if (qp->state != IBV_QPS_SQD || qp->drained_told ||
	    qp->sq_head != qp->drain_to)
		return;
	qp->drained_told = true;
	if (qp->attr.en_sqd_async_notify)
		soft_async_qp(dev, qp, IBV_EVENT_SQ_DRAINED);
}
