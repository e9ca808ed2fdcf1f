/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of ports. Each node adds to its own row of the fabric's memory, so
 * that two processes never write the same word. The counter of a port is the
 * sum over all rows. A row stays when its node ends and the next node continues
 * it, so a counter never decreases while the fabric exists.
 */
#ifndef SOFT_FABRIC_COUNT_H
#define SOFT_FABRIC_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

#include "soft/fabric/dev.h"

/* Adds to a counter of a port of this node. L */
static inline void soft_count(struct soft_dev *dev, uint8_t port,
			      enum soft_counter what, uint64_t n)
{
	_Atomic uint64_t *at = &dev->count[(port - 1u) % SOFT_PORTS_MAX][what];

	/* only this node writes the row, and the lock orders its threads */
	atomic_store_explicit(at, atomic_load_explicit(at,
			      memory_order_relaxed) + n, memory_order_relaxed);
}

/*
 * Counts a record and its payload in octets. Acknowledgements are not counted,
 * because each message has one. L
 */
static inline void soft_count_xmit(struct soft_dev *dev, uint8_t port,
				   uint64_t octets)
{
	soft_count(dev, port, SOFT_XMIT_PACKETS, 1);
	soft_count(dev, port, SOFT_XMIT_DATA, octets);
}

static inline void soft_count_rcv(struct soft_dev *dev, uint8_t port,
				  uint64_t octets)
{
	soft_count(dev, port, SOFT_RCV_PACKETS, 1);
	soft_count(dev, port, SOFT_RCV_DATA, octets);
}

/*
 * Returns the sum over all nodes, 0 for a port that cannot exist. Any process
 * of the fabric can write any number, so use the sum only to show it.
 */
uint64_t soft_count_sum(const struct soft_dev *dev, unsigned int port,
			enum soft_counter what);

#endif
