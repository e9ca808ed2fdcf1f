/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests: checks them, copies them into their queue, and pushes them if
 * there is room.
 */
#include "soft/verbs/qp.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/util.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cross.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/flow.h"
#include "soft/verbs/upward.h"

int soft_rq_post(struct soft_rq *rq, const struct ibv_recv_wr *wr)
{
	struct soft_rwqe *wqe;

	if (unlikely(rq->tail - rq->head >= rq->room))
		return ENOMEM;
	if (unlikely(wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge))
		return EINVAL;
	wqe = &rq->wqe[rq->tail & rq->mask];
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	wqe->length = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		wqe->length += wr->sg_list[i].length;
	}
	rq->tail++;
	return 0;
}

int soft_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad)
{
	struct soft_qp *qp = soft_qp(ibv);
	struct soft_dev *dev = soft_dev_of(ibv->context);
	const bool managed = qp->create_flags & SOFT_MANAGED_RECV;
	uint32_t enabled;
	int ret = 0;

	soft_lock(dev);
	enabled = qp->rq.tail;
	if (unlikely(managed))
		soft_cross_show(qp);
	if (qp->state == IBV_QPS_RESET || qp->srq || !qp->ibv.recv_cq)
		ret = EINVAL;
	else if (unlikely(qp->state == IBV_QPS_ERR &&
			  soft_ctx(ibv->context)->removed))
		ret = EIO;
	for (; wr && !ret; wr = wr->next) {
		ret = soft_rq_post(&qp->rq, wr);
		if (ret)
			break;
	}
	if (unlikely(managed))
		soft_cross_hide(qp, enabled);
	if (unlikely(qp->state == IBV_QPS_ERR))
		soft_qp_error(dev, qp);
	soft_unlock(dev);
	if (unlikely(ret))
		*bad = wr;
	return ret;
}

/* ---- sends ------------------------------------------------------------ */

static bool op_ok(const struct soft_qp *qp, enum ibv_wr_opcode op)
{
	if (qp->raw)
		return op == IBV_WR_SEND || (op == IBV_WR_TSO &&
					     qp->raw->max_header);
	/* no request of ibv_post_send() has the address that DC needs */
	if (qp->addressed)
		return (op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM) &&
		       qp->ibv.qp_type == IBV_QPT_UD;
	if (qp->unreliable &&
	    (op == IBV_WR_RDMA_READ || op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	     op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_SEND_WITH_INV))
		return false;
	switch (op) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return true;
	default:
		return false;
	}
}

/*
 * iWARP has neither immediate data nor atomics, and a read goes to one place:
 * Linux, siw_post_send().
 */
static bool iwarp_ok(const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return false;
	case IBV_WR_RDMA_READ:
		return wr->num_sge <= 1;
	default:
		return true;
	}
}

static int copy_data(struct soft_qp *qp, struct soft_swqe *wqe,
		     const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (unlikely(length > SOFT_MAX_MSG))
		return EINVAL;
	wqe->length = (uint32_t)length;
	wqe->num_sge = (uint32_t)wr->num_sge;
	wqe->inlined = wr->send_flags & IBV_SEND_INLINE;
	if (!wqe->inlined) {
		for (int i = 0; i < wr->num_sge; i++)
			wqe->sge[i] = wr->sg_list[i];
		return 0;
	}
	if (unlikely(length > qp->cap.max_inline_data))
		return EINVAL;
	length = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(wqe->data + length,
		       (const void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		length += wr->sg_list[i].length;
	}
	return 0;
}

/* To a far peer, each packet has a PSN, and each packet of an answer. */
static void count_packets(const struct soft_qp *qp, struct soft_swqe *wqe)
{
	wqe->packets = max((wqe->length + qp->far_mtu - 1) / qp->far_mtu, 1u);
	wqe->asked = 0;
	wqe->part = 0;
}

void soft_sq_commit(struct soft_qp *qp, struct soft_swqe *wqe)
{
	wqe->psn = qp->psn_next;
	wqe->packets = 1;
	wqe->show = wqe->shown = wqe->push = wqe->went = false;
	if (unlikely(qp->far_mtu))
		count_packets(qp, wqe);
	if (!soft_is_local(wqe))
		qp->psn_next = (qp->psn_next + wqe->packets) & SOFT_PSN_MASK;
	qp->sq_tail++;
}

static int take_bind(struct soft_swqe *wqe, const struct ibv_send_wr *wr,
		     enum ibv_mw_type binds)
{
	if (!wr->bind_mw.mw || wr->bind_mw.mw->type != binds)
		return EINVAL;
	return soft_mw_prepare(wqe, wr->bind_mw.mw, wr->bind_mw.rkey,
			       &wr->bind_mw.bind_info);
}

/* rdma-core, mlx5/qp.c: a frame has a whole header. */
static int take_frame(struct soft_qp *qp, struct soft_swqe *wqe,
		      const struct ibv_send_wr *wr)
{
	if (wr->opcode != IBV_WR_TSO)
		return wqe->length < FRAME_HEADER ? EINVAL : 0;
	if (!wqe->length || wqe->length > SOFT_MAX_TSO)
		return EINVAL;
	return soft_tso_take(qp, wqe, wr->tso.hdr, wr->tso.hdr_sz,
			     wr->tso.mss);
}

static int post_one(struct soft_qp *qp, const struct ibv_send_wr *wr,
		    enum ibv_mw_type binds)
{
	struct soft_swqe *wqe = &qp->sq[qp->sq_tail & qp->sq_mask];
	bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	bool rdma = wr->opcode == IBV_WR_RDMA_WRITE ||
		    wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
		    wr->opcode == IBV_WR_RDMA_READ;
	int ret;

	if (unlikely(soft_sq_used(qp) >= qp->cap.max_send_wr))
		return ENOMEM;
	if (unlikely(soft_dev_of(qp->ibv.context)->iwarp && !iwarp_ok(wr)))
		return EINVAL;
	if (unlikely(!op_ok(qp, wr->opcode) || wr->num_sge < 0 ||
		     (uint32_t)wr->num_sge > qp->cap.max_send_sge))
		return EINVAL;
	wqe->status = IBV_WC_SUCCESS;
	ret = wr->opcode == IBV_WR_BIND_MW ? take_bind(wqe, wr, binds) :
	      copy_data(qp, wqe, wr);
	if (unlikely(ret))
		return ret;
	if (unlikely(atomic && wqe->length != 8))
		return EINVAL;
	if (unlikely(qp->raw)) {
		ret = take_frame(qp, wqe, wr);
		if (ret)
			return ret;
	}
	if (qp->ibv.qp_type == IBV_QPT_UD) {
		struct soft_ah *ah = (struct soft_ah *)wr->wr.ud.ah;

		if (unlikely(!ah || ah->ibv.pd != qp->ibv.pd))
			return EINVAL;
		ah->users++;
		wqe->ah = ah;
		wqe->dest_qpn = wr->wr.ud.remote_qpn & 0xffffff;
		wqe->qkey = wr->wr.ud.remote_qkey;
	}
	wqe->wr_id = wr->wr_id;
	wqe->op = (uint8_t)wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->signaled = qp->sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	wqe->started = wqe->done = wqe->again = wqe->told = false;
	wqe->sent = 0;
	if (wr->opcode != IBV_WR_BIND_MW)
		wqe->imm = wr->imm_data;
	if (atomic) {
		wqe->raddr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else if (wr->opcode != IBV_WR_BIND_MW) {
		/* of a Send this may be a cache line that nobody has read */
		wqe->raddr = rdma ? wr->wr.rdma.remote_addr : 0;
		wqe->rkey = rdma ? wr->wr.rdma.rkey : 0;
	}
	wqe->srqn = qp->ibv.qp_type == IBV_QPT_XRC_SEND ?
		    wr->qp_type.xrc.remote_srqn : 0;
	soft_sq_commit(qp, wqe);
	return 0;
}

int soft_sq_may_post(const struct soft_qp *qp)
{
	if (unlikely(qp->state < IBV_QPS_RTS || !qp->ibv.send_cq))
		return EINVAL;
	if (unlikely(qp->state == IBV_QPS_ERR &&
		     soft_ctx(qp->ibv.context)->removed))
		return EIO;
	return 0;
}

void soft_sq_kick(struct soft_dev *dev, struct soft_qp *qp)
{
	if (likely(qp->state == IBV_QPS_RTS))
		soft_verbs_up->push(dev, qp);
	else if (qp->state == IBV_QPS_ERR)
		soft_qp_error(dev, qp);
	else if (qp->state == IBV_QPS_SQE)
		soft_sq_error(dev, qp);
}

/* The builder holds ex_lock until its last call. */
static bool __attribute__((noinline))
wait_for_builder(struct soft_dev *dev, struct soft_qp *qp)
{
	soft_unlock(dev);
	(void)pthread_mutex_lock(&qp->ex_lock);
	soft_lock(dev);
	return true;
}

bool soft_sq_lock(struct soft_dev *dev, struct soft_qp *qp)
{
	if (unlikely(qp->ex_alone)) {
		(void)pthread_mutex_lock(&qp->ex_lock);
		soft_lock(dev);
		return true;
	}
	soft_lock(dev);
	return unlikely(qp->ex_busy) && wait_for_builder(dev, qp);
}

void soft_sq_unlock(struct soft_dev *dev, struct soft_qp *qp, bool both)
{
	soft_unlock(dev);
	if (unlikely(both))
		(void)pthread_mutex_unlock(&qp->ex_lock);
}

int soft_post_send_any(struct ibv_qp *ibv, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad, enum ibv_mw_type binds)
{
	struct soft_qp *qp = soft_qp(ibv);
	struct soft_dev *dev = soft_dev_of(ibv->context);
	const bool both = soft_sq_lock(dev, qp);
	int ret = soft_sq_may_post(qp);

	for (; wr && !ret; wr = wr->next) {
		ret = post_one(qp, wr, binds);
		if (unlikely(ret))
			break;
	}
	soft_sq_kick(dev, qp);
	soft_sq_unlock(dev, qp, both);
	if (unlikely(ret))
		*bad = wr;
	return ret;
}

int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad)
{
	return soft_post_send_any(qp, wr, bad, IBV_MW_TYPE_2);
}
