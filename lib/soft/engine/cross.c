/* SPDX-License-Identifier: BSD-2-Clause */
/* Cross-channel queue pairs: waits, enables and calculations. */
#include "soft/engine/cross.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "soft/verbs/access.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/cross.h"

/* ---- calculations ----------------------------------------------------- */

static uint64_t add_double(uint64_t a, uint64_t b)
{
	double x, y;

	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	x += y;
	memcpy(&a, &x, sizeof(a));
	return a;
}

static uint64_t combine(uint32_t calc, uint64_t a, uint64_t b)
{
	switch (calc) {
	case SOFT_CALC_ADD:
		return a + b;
	case SOFT_CALC_ADD_DOUBLE:
		return add_double(a, b);
	case SOFT_CALC_AND:
		return a & b;
	case SOFT_CALC_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* A retry sends the same result, because the request then has inline data. */
static void calculate(struct soft_qp *qp, struct soft_swqe *wqe, uint32_t calc)
{
	const uint32_t n = wqe->num_sge & ((1u << SOFT_CALC_SHIFT) - 1);
	uint64_t value = 0;
	__be64 one;

	wqe->num_sge = n;
	for (uint32_t i = 0; i < n; i++) {
		if (soft_gather(qp, wqe->sge, n, i * SOFT_CALC_OPERAND, &one,
				sizeof(one))) {
			wqe->status = IBV_WC_LOC_PROT_ERR;
			return;
		}
		value = i ? combine(calc, value, be64toh(one)) : be64toh(one);
	}
	one = htobe64(value);
	memcpy(wqe->data, &one, sizeof(one));
	wqe->inlined = true;
}

/* ---- waits and enables ------------------------------------------------ */

/* Returns true if the wait is over, or fails. */
static bool wait_over(struct soft_dev *dev, struct soft_qp *qp,
		      struct soft_swqe *wqe)
{
	struct soft_cq *cq = soft_cross_cq(dev, wqe->rkey);

	list_del(&qp->wait_node);
	if (!cq) {
		wqe->status = IBV_WC_LOC_QP_OP_ERR;
		return false;
	}
	if ((int32_t)(cq->produced - wqe->imm) >= 0)
		return true;
	qp->wait_index = wqe->imm;
	list_add_tail(&cq->waiters, &qp->wait_node);
	return false;
}

bool soft_cross_passes(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe)
{
	uint32_t calc;

	if (qp->create_flags & SOFT_MANAGED_SEND &&
	    (int32_t)(qp->sq_next - qp->sq_enabled) >= 0)
		return false;
	/* a retry does not wait again */
	if (wqe->op == SOFT_WR_WAIT && !wqe->done)
		return wait_over(dev, qp, wqe);
	calc = soft_calc_of(wqe);
	if (calc)
		calculate(qp, wqe, calc);
	return !wqe->status;
}

int soft_cross_do(struct soft_dev *dev, struct soft_qp *qp,
		  const struct soft_swqe *wqe)
{
	const bool send = wqe->op == SOFT_WR_SEND_ENABLE;
	struct soft_qp *to;
	int32_t more;

	if (wqe->op == SOFT_WR_WAIT)
		return 0;
	/* the target may have ended, or begun anew, after the request came */
	to = soft_cross_qp(dev, wqe->rkey,
			   send ? SOFT_MANAGED_SEND : SOFT_MANAGED_RECV);
	if (!to || !soft_cross_posted(to, wqe->op, wqe->imm))
		return -EINVAL;
	more = (int32_t)(wqe->imm - (send ? to->sq_enabled : to->rq.tail));
	if (more <= 0)
		return 0;
	if (!send) {
		to->rq.tail += (uint32_t)more;
		to->rq_held -= (uint32_t)more;
		return 0;
	}
	to->sq_enabled = wqe->imm;
	if (to != qp)
		soft_cross_wake(dev, to);
	return 0;
}
