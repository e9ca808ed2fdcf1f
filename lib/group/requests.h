/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What subscribers have asked a publisher to repeat, collected for a moment, so
 * that a loss that many have seen is repaired once and for all of them. It does
 * no I/O and has no clock.
 */
#ifndef RDMAMSG_LIB_REQUESTS_H
#define RDMAMSG_LIB_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "group/carrier.h"
#include "wire/frame.h"

#define REQUESTS_MAX	256u	/* different ones at a time */

struct request {
	struct frame_range range;	/* what is left of it */
	struct carrier_peer by;
	struct carrier_to to;		/* the way back, once it was looked for */
	bool several;			/* others have asked as well */
};

struct requests {
	struct request at[REQUESTS_MAX];
	uint32_t count;
	uint64_t dropped;		/* for want of room */
};

void rdmamsg__requests_add(struct requests *r, const struct frame_range *range,
			   const struct carrier_peer *by);

#endif
