/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The effect of injected faults on a work request that is pushed for the first
 * time. A port that is down, and a black hole, lose all requests of the path in
 * use.
 */
#ifndef SOFT_ENGINE_FATE_H
#define SOFT_ENGINE_FATE_H

#include <stdbool.h>

#include "base/util.h"
#include "soft/fabric/dev.h"

struct soft_qp;

/* DUPLICATE and REORDER occur only on UC and UD. */
enum soft_fate { SOFT_PASS, SOFT_LOSE, SOFT_DELAY, SOFT_DUPLICATE,
		 SOFT_REORDER };

enum soft_fate soft_fate_drawn(struct soft_dev *dev, struct soft_qp *qp);

/* iWARP: returns true if the request just pushed completes at once. L */
bool soft_fate_early(const struct soft_dev *dev, struct soft_qp *qp);
/* iWARP: returns true if the answer to a read is late. L */
bool soft_fate_late(const struct soft_dev *dev, struct soft_qp *qp);

/* L */
static inline enum soft_fate soft_fate(struct soft_dev *dev, struct soft_qp *qp)
{
	return likely(!dev->faulty) ? SOFT_PASS : soft_fate_drawn(dev, qp);
}

#endif
