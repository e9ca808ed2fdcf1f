/* SPDX-License-Identifier: BSD-2-Clause */
/* Records on a wire between two nodes. */
#ifndef SOFT_REC_H
#define SOFT_REC_H

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
	/* later: DC */
};

enum {
	SOFT_F_LAST = 1 << 0,		/* segment of its message */
	SOFT_F_IMM = 1 << 1,
	SOFT_F_INV = 1 << 2,
	SOFT_F_SOLICITED = 1 << 3,
	SOFT_F_UNRELIABLE = 1 << 4,	/* nobody is told what becomes of it */
	SOFT_F_GRH = 1 << 5,
	SOFT_F_PATH = 1 << 6,		/* which path it takes: apm.c */
	SOFT_F_ACK = 1 << 7,		/* who asks sleeps until it is told */
};

/* Why a request was not done. LOST: as if it had never arrived. */
enum soft_nak { SOFT_NAK_RNR = 1, SOFT_NAK_INV_REQ, SOFT_NAK_ACCESS,
		SOFT_NAK_OP, SOFT_NAK_LOST,
		SOFT_NAK_PUSH,		/* not to be fetched; aux: never */
		SOFT_NAK_FAULT };	/* nothing where it was shown */

struct soft_rec {
	uint32_t bytes;			/* payload behind this header */
	uint8_t op, flags, code;	/* of NAK: enum soft_nak; SOFT_SHOWN */
	uint8_t aux;			/* RNR timer; or which try this is */
	uint32_t dst, src;		/* queue pair numbers */
	uint32_t psn;			/* number of the message */
	uint32_t imm;			/* or the key to invalidate */
	uint64_t raddr;
	uint32_t rkey;
	uint32_t total;			/* length of the message */
	uint32_t offset;		/* of this segment in it */
	uint32_t srqn;			/* XRC: for whose receives */
};
_Static_assert(sizeof(struct soft_rec) == 48, "a multiple of the alignment");

/* Of SEND, WRITE and READ_RESP; and READ: that it may be answered so. */
#define SOFT_SHOWN	1		/* code */

/*
 * In place of a payload, where it lies in the process that sends the record.
 * What lies there is the payload as long as the counter that a range names, of
 * that direction of the wire, has the value that it names.
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
