/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames of raw queue pairs: where their headers are. */
#ifndef SOFT_FABRIC_FRAME_H
#define SOFT_FABRIC_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/fabric/limits.h"

#define FRAME_MAC	6u	/* bytes of an address */
#define FRAME_HEADER	14u	/* addresses and EtherType */
#define FRAME_TAG	4u	/* of a VLAN, 802.1Q */
#define FRAME_FCS	4u	/* frame check sequence */
#define FRAME_MAX	(SOFT_MTU + FRAME_HEADER + FRAME_TAG)

#define FRAME_TCP	6	/* IP protocols */
#define FRAME_UDP	17
#define FRAME_ESP	50

/*
 * Describes the frame of 'len' bytes at 'at'. A header that is absent or cut
 * off is NULL. Headers are at least as long as their fixed part.
 */
struct soft_frame {
	const uint8_t *at, *end;
	bool tagged;		/* by a VLAN */
	uint16_t tci;		/* of its tag */
	uint16_t type;		/* EtherType, behind the tag */
	uint8_t ip;		/* 4, 6 or 0 */
	uint8_t proto;		/* IP protocol */
	const uint8_t *l3;
	/* of TCP, UDP or ESP, in a packet that is no fragment */
	const uint8_t *l4;
};

static inline uint16_t frame_be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static inline void frame_put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* len is at least FRAME_HEADER. */
void soft_frame_parse(struct soft_frame *f, const uint8_t *at, uint32_t len);
/* Describes the frame inside a VXLAN tunnel. Returns false if there is none. */
bool soft_frame_inner(const struct soft_frame *f, struct soft_frame *ret);

#endif
