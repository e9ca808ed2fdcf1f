/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A token bucket, which limits the datagrams of a publisher. It reads no clock.
 * Times are nanoseconds of any clock that does not go back.
 */
#ifndef RDMAMSG_LIB_PACE_H
#define RDMAMSG_LIB_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint32_t rate;			/* tokens a second; 0: no limit */
	uint32_t burst;			/* largest number of tokens */
	uint32_t tokens;
	uint64_t when;			/* ns, when tokens was computed */
};

/*
 * The burst is the tokens of two milliseconds, because a timer of the loop has
 * a resolution of one.
 */
void rdmamsg__pace_init(struct pace *p, uint32_t rate, uint64_t now);
/* Adds the tokens since the last call. Returns true if there is a token. */
bool rdmamsg__pace_refill(struct pace *p, uint64_t now);
/* Returns the microseconds until half a burst is there, at least 1. */
uint32_t rdmamsg__pace_wait(const struct pace *p);

/* Takes tokens, more than there are as well: then none come for longer. */
void rdmamsg__pace_owe(struct pace *p, uint32_t count);
static inline void rdmamsg__pace_take(struct pace *p, uint32_t count)
{
	if (!p->rate)
		return;
	if (p->tokens >= count)
		p->tokens -= count;
	else
		rdmamsg__pace_owe(p, count - p->tokens);
}

#endif
