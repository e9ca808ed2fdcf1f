/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ten senders and one receiver behind a link that all of them share: how much
 * its queue loses, how much arrives, and how even the shares are. As netsim.h,
 * with many queue pairs of one device, and bottleneck.c as the network.
 */
#ifndef RDMAMSG_TESTS_INCAST_H
#define RDMAMSG_TESTS_INCAST_H

#include "netsim.h"

#define SENDERS		10u
#define QUEUE		64u		/* full packets that the link holds */

/* The link of a schedule, by its seed. Times are in ns. */
struct shared_link {
	uint32_t each;			/* for a packet that is full */
	uint32_t base;			/* in one direction, without a queue */
	uint32_t jitter;		/* of the hosts, at most */
	uint32_t marks;			/* from so many in the queue on; or 0 */
};

struct shared_counts {
	uint64_t sent, lost, marked;
};

extern struct shared_link shared_link;
extern struct shared_counts shared_counts;

/* Returns true if the queue pair is one of the receiver's. */
bool incast_receives(uint32_t qpn);
/* Forgets all packets. */
void bottleneck_begin(void);
/* Returns when the next packet arrives, or SIM_NEVER. */
uint64_t bottleneck_next(void);

#endif
