/* SPDX-License-Identifier: BSD-2-Clause */
/* Executes the requests of cross-channel queue pairs. All L. */
#ifndef SOFT_ENGINE_CROSS_H
#define SOFT_ENGINE_CROSS_H

#include <stdbool.h>

struct soft_dev;
struct soft_qp;
struct soft_swqe;

/*
 * Returns true if the request at sq_next may be pushed now. Otherwise another
 * queue wakes this one, or the request has failed and has a status. Replaces
 * the operands of a calculation by the result.
 */
bool soft_cross_passes(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe);
/* Executes a wait, which has passed, or an enable. Returns 0 or -EINVAL. */
int soft_cross_do(struct soft_dev *dev, struct soft_qp *qp,
		  const struct soft_swqe *wqe);

#endif
