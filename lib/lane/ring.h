/* SPDX-License-Identifier: BSD-2-Clause */
/* The receives of a lane that has its own: slots in a circle, in order. */
#ifndef RDMAMSG_LIB_RING_H
#define RDMAMSG_LIB_RING_H

#include <stdint.h>

#include "lane/lane.h"

/*
 * A ring of so many receives, of which 'lazy' may wait to be posted again with
 * others. Slots keep the buffers that they have.
 */
void rdmamsg__ring_make(struct lane *l, uint32_t size, uint32_t lazy);
/*
 * Gives a buffer to as many of the next n slots as it can. Returns how many.
 * The slots behind them, up to 'missing', are not to be posted now: their
 * buffers go first.
 */
uint32_t rdmamsg__ring_fill(struct lane *l, uint32_t n, uint32_t missing);
/* Posts the next n slots, which have buffers. 0, -errno */
int rdmamsg__ring_post(struct lane *l, uint32_t n);

#endif
