/* SPDX-License-Identifier: BSD-2-Clause */
/* Progress: records in, requests and answers out. All L. */
#ifndef SOFT_ENGINE_ENGINE_H
#define SOFT_ENGINE_ENGINE_H

#include <stdbool.h>

struct soft_dev;
struct soft_qp;

/*
 * Consumes records, and pushes for pending queue pairs. Returns true if there
 * were any.
 */
bool soft_progress(struct soft_dev *dev);
/*
 * Pushes for queue pairs that a completion has woken, and for those that they
 * wake. Leaves a long row of them to the thread.
 */
void soft_push_woken(struct soft_dev *dev);
/* Makes soft_progress() push for this queue pair. */
void soft_qp_pend(struct soft_dev *dev, struct soft_qp *qp);

#endif
