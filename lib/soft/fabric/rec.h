/* SPDX-License-Identifier: BSD-2-Clause */
/* Records, which two nodes write into the rings of a wire. */
#ifndef SOFT_FABRIC_REC_H
#define SOFT_FABRIC_REC_H

#include <stdint.h>

#include "soft/fabric/limits.h"

enum soft_op {
	SOFT_SEND = 1,
	SOFT_WRITE,
	SOFT_READ,
	SOFT_CAS,
	SOFT_FAA,
	SOFT_ACK,
	SOFT_NAK,
	SOFT_READ_RESP,
	SOFT_ATOMIC_RESP,
	SOFT_DATAGRAM,
	SOFT_PATH,			/* code: enum ibv_mig_state */
	SOFT_MASKED,			/* payload: struct masked */
	SOFT_DC_CONNECT,		/* raddr: key; srqn: session */
	SOFT_DC_LEAVE,
	SOFT_FRAME,			/* Ethernet, to whom it may match */
	SOFT_PACKET,			/* of the network, for that process */
	SOFT_OFFER,			/* of a region, to be read: offer.h */
};

enum {
	SOFT_F_LAST = 1 << 0,		/* segment of its message */
	SOFT_F_IMM = 1 << 1,
	SOFT_F_INV = 1 << 2,
	SOFT_F_SOLICITED = 1 << 3,
	SOFT_F_UNRELIABLE = 1 << 4,	/* the responder sends no answer */
	SOFT_F_GRH = 1 << 5,
	SOFT_F_PATH = 1 << 6,		/* path in use: apm.c */
	SOFT_F_ACK = 1 << 7,		/* the requester sleeps until the ACK */
};

/* Why the responder refuses a request. */
enum soft_nak { SOFT_NAK_RNR = 1, SOFT_NAK_INV_REQ, SOFT_NAK_ACCESS,
		SOFT_NAK_OP,
		SOFT_NAK_LOST,		/* not received: retry after a time */
		SOFT_NAK_PUSH,		/* do not show; aux: never again */
		SOFT_NAK_FAULT };	/* no memory at the shown address */

struct soft_rec {
	uint32_t bytes;			/* payload behind this header */
	uint8_t op, flags, code;	/* code: enum soft_nak, or SOFT_SHOWN */
	uint8_t aux;			/* RNR timer, or number of the try */
	uint32_t dst, src;		/* queue pair numbers */
	uint32_t psn;			/* message number */
	uint32_t imm;			/* or rkey to invalidate, or 1: closed */
	uint64_t raddr;
	uint32_t rkey;
	uint32_t total;			/* length of the message */
	uint32_t offset;		/* of this segment in the message */
	uint32_t srqn;			/* XRC: shared receive queue */
};
_Static_assert(sizeof(struct soft_rec) == 48, "a multiple of the alignment");

/*
 * The code of SEND, WRITE, READ_RESP and OFFER whose payload is a struct
 * soft_shown.
 * In a READ the code permits the responder to answer so.
 */
#define SOFT_SHOWN	1

/*
 * A part of a payload that stays in the sender's memory. The bytes at addr are
 * the payload as long as withdrawn[counter] == value in that direction's ring.
 */
struct soft_range {
	uint64_t addr;
	uint32_t len;
	uint32_t counter, value;
	uint32_t pad;
};

struct soft_shown {
	uint32_t count, pad;
	struct soft_range range[SOFT_MAX_SGE];
};

#endif
