/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the requester share: req.c pushes, req_answer.c hears. */
#ifndef SOFT_REQ_H
#define SOFT_REQ_H

#include "priv.h"

static inline struct soft_swqe *wqe_at(struct soft_qp *qp, uint32_t i)
{
	return &qp->sq[i & qp->sq_mask];
}

static inline bool is_read(const struct soft_swqe *wqe)
{
	return wqe->op == IBV_WR_RDMA_READ ||
	       wqe->op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool is_local(const struct soft_swqe *wqe)
{
	return wqe->op == IBV_WR_LOCAL_INV || wqe->op == IBV_WR_BIND_MW;
}

/* Whether a comes before b. */
static inline bool psn_before(uint32_t a, uint32_t b)
{
	return ((a - b) & SOFT_PSN_MASK) > SOFT_PSN_MASK / 2;
}

/* What comes before request i is done; it fails, the rest is flushed. L */
void soft_req_fail(struct soft_dev *dev, struct soft_qp *qp, uint32_t i,
		   enum ibv_wc_status status);
/* What is answered, in order. L */
void soft_req_complete(struct soft_dev *dev, struct soft_qp *qp);
/* Nothing is pushed for so long. L */
void soft_req_wait(struct soft_dev *dev, struct soft_qp *qp, uint64_t ns);
/* For one that is not going to come: the timer costs a retry. L */
void soft_req_wait_for_ack(struct soft_dev *dev, struct soft_qp *qp);

#endif
