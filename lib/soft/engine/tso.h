/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments of TCP that the device makes of one request. */
#ifndef SOFT_ENGINE_TSO_H
#define SOFT_ENGINE_TSO_H

#include <stdint.h>

#include "soft/fabric/frame.h"

struct soft_qp;
struct soft_swqe;

/* Returns the number of segments. */
uint32_t soft_tso_count(const struct soft_swqe *wqe);
/*
 * Writes segment i. Returns the length of its frame, or 0 if the program's
 * memory cannot be read. L
 */
uint32_t soft_tso_build(struct soft_qp *qp, const struct soft_swqe *wqe,
			uint32_t i, uint8_t frame[FRAME_MAX]);

#endif
