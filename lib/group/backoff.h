/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pause before a subscriber asks for what it misses. Of many subscribers
 * that miss the same, few ask: the others hear the repair first. So most draw
 * the longest pause, half as many each shorter one, and of hundreds only a few
 * draw the shortest.
 */
#ifndef RDMAMSG_LIB_BACKOFF_H
#define RDMAMSG_LIB_BACKOFF_H

#include <stdint.h>

#define BACKOFF_STEPS	8u	/* of the longest pause */

/* Returns a number in [0, end), and advances the seed. */
static inline uint32_t rdmamsg__random_below(uint64_t *seed, uint32_t end)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % end;
}

/* Returns 1 to BACKOFF_STEPS steps. */
static inline uint32_t rdmamsg__backoff(uint64_t *seed)
{
	uint32_t bits = rdmamsg__random_below(seed, 1u << (BACKOFF_STEPS - 1));

	return bits ? BACKOFF_STEPS - (uint32_t)__builtin_ctz(bits) : 1;
}

#endif
