/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pause before a subscriber asks for what it misses. Of many subscribers
 * that miss the same, few ask: the others hear the repair first. So most draw
 * the longest pause, and half as many each shorter one. The longest one grows
 * with the logarithm of their number: of all of them, one or two draw the
 * shortest, and it does not take long until somebody asks.
 */
#ifndef RDMAMSG_LIB_BACKOFF_H
#define RDMAMSG_LIB_BACKOFF_H

#include <stdint.h>

#include "wire/frame.h"

#define BACKOFF_STEPS	8u	/* of the longest pause, of hundreds */

/* Returns a number in [0, end), and advances the seed. */
static inline uint32_t rdmamsg__random_below(uint64_t *seed, uint32_t end)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % end;
}

/* Returns the steps of the longest pause. audience: as frames have it */
static inline uint32_t rdmamsg__backoff_steps(uint8_t audience)
{
	return audience && audience < FRAME_AUDIENCE_MANY ?
	       32 - (uint32_t)__builtin_clz(audience) : BACKOFF_STEPS;
}

/* Returns 1 to 'steps' steps. */
static inline uint32_t rdmamsg__backoff(uint64_t *seed, uint32_t steps)
{
	uint32_t bits = rdmamsg__random_below(seed, 1u << (steps - 1));

	return bits ? steps - (uint32_t)__builtin_ctz(bits) : 1;
}

#endif
