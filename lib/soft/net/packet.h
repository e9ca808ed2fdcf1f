/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of RoCE v2, from the BTH on: IBTA volume 1, chapter 9 and annex A17;
 * Linux, rxe_hdr.h and rxe_opcode.h. Fields are in host order here.
 */
#ifndef SOFT_NET_PACKET_H
#define SOFT_NET_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#define PACKET_PORT	4791		/* of UDP */
#define PACKET_PKEY	0xffffu
#define PACKET_CRC	4u		/* bytes behind the padding */
#define PACKET_HEAD	40u		/* most: BTH and AtomicETH */
/* A payload of 4,096 bytes, and all that stands around it. */
#define PACKET_MAX	(PACKET_HEAD + 4096u + PACKET_CRC)

/* The kind of a queue pair, in the upper three bits of an opcode. */
enum packet_kind {
	PACKET_RC = 0x00, PACKET_UC = 0x20, PACKET_UD = 0x60,
	PACKET_KIND = 0xe0,
};

/* An opcode of its own: a congestion notification packet. */
#define PACKET_CNP	0x81u

/* The operation of a packet, in the lower five bits of an opcode. */
enum packet_op {
	PACKET_SEND_FIRST = 0x00, PACKET_SEND_MIDDLE, PACKET_SEND_LAST,
	PACKET_SEND_LAST_IMM, PACKET_SEND_ONLY, PACKET_SEND_ONLY_IMM,
	PACKET_WRITE_FIRST, PACKET_WRITE_MIDDLE, PACKET_WRITE_LAST,
	PACKET_WRITE_LAST_IMM, PACKET_WRITE_ONLY, PACKET_WRITE_ONLY_IMM,
	PACKET_READ, PACKET_READ_FIRST, PACKET_READ_MIDDLE, PACKET_READ_LAST,
	PACKET_READ_ONLY, PACKET_ACK, PACKET_ATOMIC_ACK, PACKET_CAS,
	PACKET_FAA,
	PACKET_SEND_LAST_INV = 0x16, PACKET_SEND_ONLY_INV,
	PACKET_OP = 0x1f,
};

/* Flags of a packet: its headers, and its place in its message. */
enum {
	PACKET_F_RETH = 1 << 0, PACKET_F_AETH = 1 << 1,
	PACKET_F_ATOMIC = 1 << 2, PACKET_F_ATOMIC_ACK = 1 << 3,
	PACKET_F_IMM = 1 << 4,		/* or the key to invalidate */
	PACKET_F_DETH = 1 << 5,
	PACKET_F_FIRST = 1 << 6, PACKET_F_LAST = 1 << 7,
	PACKET_F_REQUEST = 1 << 8,
	PACKET_F_DATA = 1 << 9,		/* may have a payload */
	PACKET_F_CNP = 1 << 10,		/* 16 bytes without a meaning */
};

struct packet {
	uint8_t opcode;
	bool solicited, ack;		/* ack: asked for */
	uint8_t pad;
	uint16_t pkey;
	uint32_t dst;			/* queue pair */
	uint32_t psn;
	unsigned int flags;		/* by the opcode */
	/* RETH, or AtomicETH without length */
	uint64_t addr;
	uint32_t rkey, length;
	uint64_t swap, compare;		/* swap: what to add */
	/* AETH */
	uint8_t syndrome;
	uint32_t msn;
	uint64_t value;			/* of an atomic, before it */
	uint32_t imm;			/* network order, as in verbs */
	/* DETH */
	uint32_t qkey, src;
	const uint8_t *payload;
	uint32_t bytes;			/* without padding */
	/* of a packet that has arrived */
	const uint8_t *at;		/* all of it, with the CRC */
	uint32_t length_all;
	bool forwarded;			/* by another process of this host */
	bool marked;			/* congestion: CE of RFC 3168 */
	uint32_t waited;		/* ms for a listener, which may be late */
};

/* The upper three bits of a syndrome, and the codes of a NAK. */
enum {
	PACKET_ACKS = 0x00, PACKET_RNR = 0x20, PACKET_NAK = 0x60,
	PACKET_SYNDROME = 0x60,
	PACKET_NO_CREDITS = 0x1f,	/* an ACK that tells none */
	PACKET_NAK_PSN = 0, PACKET_NAK_INVALID, PACKET_NAK_ACCESS,
	PACKET_NAK_OP,
};

/* Returns the flags of an opcode, or 0 if there is no such packet. */
unsigned int packet_flags(uint8_t opcode);
/*
 * Writes the headers of 'p', whose opcode decides which. Returns their length,
 * at most PACKET_HEAD. Sets p->flags and, from p->bytes, p->pad.
 */
uint32_t packet_put(struct packet *p, uint8_t *at);
/*
 * Reads the packet of len bytes at 'at', the CRC among them. Returns false for
 * one that is none, or has another P_Key.
 */
bool packet_get(struct packet *p, const uint8_t *at, uint32_t len);

#endif
