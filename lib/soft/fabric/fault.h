/* SPDX-License-Identifier: BSD-2-Clause */
/* Injected faults: port states, shares of work requests, refused objects. */
#ifndef SOFT_FABRIC_FAULT_H
#define SOFT_FABRIC_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/fabric/limits.h"

struct soft_dev;

/*
 * A port that is DOWN or ARMED reports that state and carries nothing. A black
 * hole reports an active port and carries nothing.
 */
enum soft_port { SOFT_PORT_UP, SOFT_PORT_DOWN, SOFT_PORT_ARMED,
		 SOFT_PORT_BLACK_HOLE };

/* Kinds of objects whose creation can be refused. */
enum soft_object {
	SOFT_OBJ_CONTEXT, SOFT_OBJ_PD, SOFT_OBJ_MR, SOFT_OBJ_MW, SOFT_OBJ_CQ,
	SOFT_OBJ_CHANNEL, SOFT_OBJ_QP, SOFT_OBJ_SRQ, SOFT_OBJ_AH,
	SOFT_OBJ_XRCD, SOFT_OBJ_ID, SOFT_OBJECTS
};

#define SOFT_SHARE_ALL	1000000u	/* shares are in millionths */
#define SOFT_DELAY_MAX	10000000u	/* us */

/*
 * The faults of one node. Every process of the fabric can write this memory. A
 * reader copies the struct and clamps each field before it uses the copy.
 */
struct soft_faults {
	uint32_t port[SOFT_PORTS_MAX];	/* enum soft_port */
	uint32_t drop, delay;		/* shares of work requests */
	uint32_t duplicate, reorder;	/* UC, UD: shares of work requests */
	uint32_t delay_us;
	uint32_t seed;
};

/* Counts of RNR NAKs. */
struct soft_rnr {
	uint64_t sent, received;
};

/* Returns true if queries and events report such a port as active. */
static inline bool soft_port_seems_up(uint32_t state)
{
	return state == SOFT_PORT_UP || state == SOFT_PORT_BLACK_HOLE;
}

enum soft_port soft_port_state(const struct soft_dev *dev, int port);
/* Returns true if work requests pass through the port. L */
bool soft_port_carries(const struct soft_dev *dev, uint8_t port);
/* Returns true if this creation is to be refused. L */
bool soft_refused(struct soft_dev *dev, enum soft_object what);
/* Copies this node's faults from the fabric, and reports changed ports. L */
void soft_faults_take(struct soft_dev *dev);

#endif
