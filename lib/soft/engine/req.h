/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester: req.c pushes requests, req_answer.c takes answers. All L. */
#ifndef SOFT_ENGINE_REQ_H
#define SOFT_ENGINE_REQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "soft/fabric/limits.h"
#include "soft/fabric/rec.h"
#include "soft/verbs/qp.h"

/* ---- for the rest of the engine ---------------------------------------- */

void soft_req_push(struct soft_dev *dev, struct soft_qp *qp);
void soft_req_answer(struct soft_dev *dev, struct soft_qp *qp,
		     const struct soft_rec *rec, const void *payload);
void soft_req_timer(struct soft_dev *dev, struct soft_timer *t);
/* A wire died: all requests of its queue pairs wait for the ack timeout. */
void soft_req_wires_down(struct soft_dev *dev, const struct soft_wire *w);
/* After migration: restores all retries, and stops the ack timer. */
void soft_req_anew(struct soft_qp *qp);

/* ---- between req.c and req_answer.c ------------------------------------ */

static inline struct soft_swqe *wqe_at(struct soft_qp *qp, uint32_t i)
{
	return &qp->sq[i & qp->sq_mask];
}

static inline bool is_read(const struct soft_swqe *wqe)
{
	return wqe->op == IBV_WR_RDMA_READ ||
	       wqe->op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->op == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       wqe->op == SOFT_WR_MASKED;
}

static inline bool is_local(const struct soft_swqe *wqe)
{
	return soft_is_local(wqe);
}

/* Returns true if PSN a comes before PSN b. */
static inline bool psn_before(uint32_t a, uint32_t b)
{
	return ((a - b) & SOFT_PSN_MASK) > SOFT_PSN_MASK / 2;
}

/* Returns the PSN of the last packet of a request. */
static inline uint32_t soft_last_psn(const struct soft_swqe *wqe)
{
	return (wqe->psn + wqe->packets - 1) & SOFT_PSN_MASK;
}

/* Completes the requests before i, fails request i, flushes the rest. */
void soft_req_fail(struct soft_dev *dev, struct soft_qp *qp, uint32_t i,
		   enum ibv_wc_status status);
/* Completes all answered requests, in order. */
void soft_req_complete(struct soft_dev *dev, struct soft_qp *qp);
/* Pushes no request for the next 'ns' nanoseconds. */
void soft_req_wait(struct soft_dev *dev, struct soft_qp *qp, uint64_t ns);
/* Pushes no request until the ack timeout, which then uses up a retry. */
void soft_req_wait_for_ack(struct soft_dev *dev, struct soft_qp *qp);
/* The peer has no receive for request i: an RNR NAK with this timer. */
void soft_req_rnr(struct soft_dev *dev, struct soft_qp *qp, uint32_t i,
		  uint8_t timer);
/* The peer's process has ended: waits until all retries would be used up. */
void soft_req_wire_down(struct soft_dev *dev, struct soft_qp *qp);

#endif
