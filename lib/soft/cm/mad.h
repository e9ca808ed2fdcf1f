/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between connection managers as they go over a network: IBTA volume
 * 1, chapter 12.6 and annex A11; offsets as in Linux, rdma/ibta_vol1_c12.h.
 */
#ifndef SOFT_CM_MAD_H
#define SOFT_CM_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/cm/id.h"

#define MAD_LENGTH	256u
#define MAD_QKEY	0x80010000u

enum mad_kind {
	MAD_REQ = 0x10, MAD_MRA, MAD_REJ, MAD_REP, MAD_RTU, MAD_DREQ, MAD_DREP,
	MAD_SIDR_REQ, MAD_SIDR_REP,
};

/* A message, with what those of shared memory do not have. */
struct mad {
	struct soft_cm_msg m;		/* its type decides which it is */
	bool ud;			/* SIDR, not a connection */
	bool delay;			/* an MRA: the answer takes longer */
	uint64_t tid, guid;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t from[16], to[16];	/* GIDs */
};

void mad_put(const struct mad *mad, uint8_t at[MAD_LENGTH]);
/*
 * Reads a message. Returns false for one that is none, or is not for the CM.
 * The ports and addresses of a request are those that its private data begins
 * with.
 */
bool mad_get(struct mad *mad, const uint8_t at[MAD_LENGTH]);

#endif
