/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A token bucket: how many datagrams a publisher may send now. It reads no
 * clock; times are nanoseconds of any clock that does not go back.
 */
#ifndef RDMAMSG_LIB_PACE_H
#define RDMAMSG_LIB_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint32_t rate;			/* tokens a second, 0: any number */
	uint32_t burst;			/* tokens that are kept at most */
	uint32_t tokens;
	uint64_t when;			/* ns: the tokens are of this time */
};

/*
 * The burst is what comes in two milliseconds, because a timer of the loop is
 * exact to one.
 */
void rdmamsg__pace_init(struct pace *p, uint32_t rate, uint64_t now);
/* Adds what has come since the last time. Returns whether there is a token. */
bool rdmamsg__pace_refill(struct pace *p, uint64_t now);
/* Milliseconds until half of a burst has come, at least 1. */
uint32_t rdmamsg__pace_wait(const struct pace *p);

static inline void rdmamsg__pace_take(struct pace *p)
{
	if (p->tokens)
		p->tokens--;
}

#endif
