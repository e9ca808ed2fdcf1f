/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel queue pairs: queues that wait for completions, queues whose
 * requests another queue enables, and requests that send a calculation.
 *
 * All indices count from the creation of the completion queue, or from the last
 * reset of the queue pair, and wrap at 32 bits.
 */
#ifndef SOFT_VERBS_CROSS_H
#define SOFT_VERBS_CROSS_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/verbs/qp.h"

/* Create flags of Linux, include/rdma/ib_verbs.h, enum ib_qp_create_flags. */
#define SOFT_CROSS_CHANNEL	(1u << 2)
#define SOFT_MANAGED_SEND	(1u << 3)
#define SOFT_MANAGED_RECV	(1u << 4)
#define SOFT_CROSS_FLAGS	(SOFT_CROSS_CHANNEL | SOFT_MANAGED_SEND | \
				 SOFT_MANAGED_RECV)

/*
 * A wait or an enable has the index in imm, and the number of the queue in
 * rkey. A calculation is in the upper half of num_sge until it is done.
 */
#define SOFT_CALC_SHIFT		16
#define SOFT_CALC_OPERAND	8u	/* bytes */

enum soft_calc {			/* opmod of libmlx5 */
	SOFT_CALC_ADD = 1,
	SOFT_CALC_ADD_DOUBLE = 2,
	SOFT_CALC_AND = 4,
	SOFT_CALC_OR = 5,
	SOFT_CALC_XOR = 6,
};

/* Returns the calculation that a request has still to do, or 0. */
static inline uint32_t soft_calc_of(const struct soft_swqe *wqe)
{
	return soft_is_local(wqe) ? 0 : wqe->num_sge >> SOFT_CALC_SHIFT;
}

/* Makes the queue pair push, at the latest in soft_unlock(). L */
void soft_cross_wake(struct soft_dev *dev, struct soft_qp *qp);
/* Wakes the queues that have waited for this many completions. L */
void soft_cross_woken(struct soft_dev *dev, struct soft_cq *cq);

/* Return the queue, or NULL if there is none that the request may name. L */
struct soft_cq *soft_cross_cq(struct soft_dev *dev, uint32_t num);
struct soft_qp *soft_cross_qp(struct soft_dev *dev, uint32_t qpn,
			      uint32_t managed);
/*
 * Returns true if what the request names exists and, if managed, has posted the
 * requests: libmlx5 of MLNX_OFED refuses the others when they are posted. True
 * for requests that name no queue. L
 */
bool soft_cross_names(struct soft_dev *dev, const struct soft_swqe *wqe);
/* Returns true if the target has posted all requests below the index. L */
bool soft_cross_posted(const struct soft_qp *qp, uint8_t op, uint32_t index);

/*
 * Posted receives that are not enabled are behind the tail of the queue.
 * Posting and flushing show them, and posting hides them again. All L
 */
void soft_cross_show(struct soft_qp *qp);
void soft_cross_hide(struct soft_qp *qp, uint32_t tail);

#endif
