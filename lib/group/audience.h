/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subscribers that report to a publisher. Frames tell how many there are:
 * a few ask for what they miss at once, and are answered at once; of many, most
 * wait until they have heard the repair for another. Strangers can report as
 * well, which costs at most that: the pauses of a large group. The functions do
 * no I/O and read no clock.
 */
#ifndef RDMAMSG_LIB_AUDIENCE_H
#define RDMAMSG_LIB_AUDIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "group/carrier.h"
#include "wire/frame.h"

#define WAY_US		16000000u	/* for so long a way is believed */
#define AUDIENCE_FEW	8u
#define REPORT_SPREAD_US 20u	/* for each subscriber, if many are asked */
#define AUDIENCE_MAX	(FRAME_AUDIENCE_MANY - 1u)

struct subscriber {
	struct carrier_peer at;
	struct carrier_to way;		/* no ah: not known */
	struct frame_report last;
	uint32_t due;			/* number that it waits for */
	uint32_t lag;			/* messages, when it has reported */
	uint32_t reports;		/* that were answered */
	uint64_t way_at;		/* us, when the way was found */
	uint64_t heard;			/* ms; or nothing could be heard */
	uint64_t reported, answered;	/* ms */
	uint32_t farthest;		/* most that 'due' was */
	uint64_t advanced;		/* us, when it was less */
	bool is_laggard;
	uint32_t token;			/* likewise, in groups without multicast */
	bool proved;			/* it has returned that */
	uint64_t nonce;			/* to prove its address; 0: none */
	bool granted;			/* a backlog, from here on: */
	uint32_t first, end;		/* below this one */
	bool less;			/* than it has wished for */
};

struct audience {
	struct subscriber *members;	/* room for AUDIENCE_MAX */
	uint32_t count;
	bool more;			/* than there is room for */
	bool refused;			/* one of them, lately */
	uint64_t many_until;		/* ms */
	uint64_t looked;		/* ms, the last time */
};

/* Returns for how long a subscriber pauses between reports, in ms. */
uint32_t rdmamsg__audience_pause(uint8_t announced);
/* The count for frames: 0 is an audience of unknown size. */
uint8_t rdmamsg__audience_announced(const struct audience *a);
static inline bool rdmamsg__audience_is_few(uint8_t announced)
{
	return announced && announced <= AUDIENCE_FEW;
}

/* Returns the subscriber at this place, or NULL. */
struct subscriber *rdmamsg__audience_find(const struct audience *a,
					  const struct carrier_peer *at);
/* Returns a place for its report, or NULL: there is no room. */
struct subscriber *rdmamsg__audience_place(struct audience *a,
					   const struct carrier_peer *at);
/*
 * Returns a subscriber that has not reported for long, or NULL. The caller
 * drops its address handle, then calls rdmamsg__audience_forget().
 */
struct subscriber *rdmamsg__audience_gone(struct audience *a, uint64_t now);
void rdmamsg__audience_forget(struct audience *a, struct subscriber *s);
/* Returns the longest round trip to one of them, in us, or 0: not known. */
uint32_t rdmamsg__audience_rtt(const struct audience *a);

#endif
