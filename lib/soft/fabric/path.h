/* SPDX-License-Identifier: BSD-2-Clause */
/* The way of packets to another host. */
#ifndef SOFT_FABRIC_PATH_H
#define SOFT_FABRIC_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct soft_path {
	uint8_t to[16], from[16];	/* GIDs */
	uint32_t scope;			/* interface of a link-local address */
	uint32_t mtu;			/* bytes of IP there; 0: unknown */
};

/* Counts of the packets of a process. */
struct soft_packets {
	uint64_t sent;
	uint64_t retransmits;		/* of a request, of those */
	uint64_t received;		/* also those of other processes */
	uint64_t bad;			/* no packet, or another CRC */
	uint64_t passed_on;		/* to the process that each is for */
	uint64_t duplicates;		/* requests that had arrived before */
	uint64_t naks_sent, naks_received; /* without those of RNR */
	uint64_t marked;		/* by a router: congestion */
	uint64_t cnps_sent, cnps_received; /* notifications of such */
};

/* Returns true for an address that only its link knows. */
static inline bool soft_path_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/*
 * Returns the largest enum ibv_mtu whose packets pass where IP has so many
 * bytes, or 0. What stands around a payload is counted as Linux does:
 * RXE_MAX_HDR_LENGTH.
 */
static inline int soft_path_mtu(uint32_t bytes)
{
	int mtu = 5;			/* IBV_MTU_4096 */

	while (mtu && (128u << mtu) + 80 > bytes)
		mtu--;
	return mtu;
}

static inline bool soft_path_same(const struct soft_path *a,
				  const struct soft_path *b)
{
	return !memcmp(a->to, b->to, 16) && !memcmp(a->from, b->from, 16) &&
	       a->scope == b->scope;
}

#endif
