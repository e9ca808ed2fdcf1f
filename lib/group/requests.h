/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects what subscribers ask a publisher to repeat. So a loss that many have
 * seen is repaired once for all of them. An address has at most twice as many
 * of the requests as it leaves to all others. The functions do no I/O and read
 * no clock.
 */
#ifndef RDMAMSG_LIB_REQUESTS_H
#define RDMAMSG_LIB_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "group/carrier.h"
#include "wire/frame.h"

#define REQUESTS_MAX	256u	/* different requests at a time */

struct request {
	struct frame_range range;	/* the rest to repeat */
	struct carrier_peer by;
	struct carrier_to to;		/* the way back, if known */
	bool several;			/* others have asked, too */
};

struct requests {
	struct request at[REQUESTS_MAX];
	uint32_t count;
	uint32_t turn;			/* at[turn] is answered next */
	uint64_t dropped;		/* for lack of room, or of a budget */
	bool apart;			/* each asker has its own */
};

void rdmamsg__requests_add(struct requests *r, const struct frame_range *range,
			   const struct carrier_peer *by);
/*
 * Removes the request of the turn, or keeps it. Then another address has its
 * turn, if it has asked for something.
 */
void rdmamsg__requests_next(struct requests *r, bool remove);

#endif
