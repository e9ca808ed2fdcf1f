/* SPDX-License-Identifier: BSD-2-Clause */
/* The receives of a lane without a shared receive queue: slots in a circle. */
#ifndef RDMAMSG_LIB_RING_H
#define RDMAMSG_LIB_RING_H

#include <stdint.h>

#include "lane/lane.h"

/*
 * Makes a ring of 'size' receives. Up to 'lazy' of them may wait to be posted
 * again together. Slots keep their buffers.
 */
void rdmamsg__ring_make(struct lane *l, uint32_t size, uint32_t lazy);
/*
 * Gives buffers to the next n slots, as far as possible. Returns the number of
 * slots that have one. The slots after them, up to 'missing', are not posted
 * now, so takes their buffers first.
 */
uint32_t rdmamsg__ring_fill(struct lane *l, uint32_t n, uint32_t missing);
/* Posts the next n slots, which must have buffers. Returns 0 or -errno. */
int rdmamsg__ring_post(struct lane *l, uint32_t n);

#endif
