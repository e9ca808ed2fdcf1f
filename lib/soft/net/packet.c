/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/net/packet.h"

#include <string.h>

#include "soft/fabric/bytes.h"

#define BTH		12u
#define DETH		8u
#define RETH		16u
#define ATOMIC		28u
#define AETH		4u
#define ATOMIC_ACK	8u
#define IMM		4u
#define CNP		16u
#define BECN		(1u << 30)

#define FIRST	PACKET_F_FIRST
#define LAST	PACKET_F_LAST
#define ONLY	(FIRST | LAST)
#define ASKS	PACKET_F_REQUEST
#define DATA	PACKET_F_DATA

static const uint16_t flags_of[32] = {
	[PACKET_SEND_FIRST] = ASKS | DATA | FIRST,
	[PACKET_SEND_MIDDLE] = ASKS | DATA,
	[PACKET_SEND_LAST] = ASKS | DATA | LAST,
	[PACKET_SEND_LAST_IMM] = ASKS | DATA | LAST | PACKET_F_IMM,
	[PACKET_SEND_ONLY] = ASKS | DATA | ONLY,
	[PACKET_SEND_ONLY_IMM] = ASKS | DATA | ONLY | PACKET_F_IMM,
	[PACKET_WRITE_FIRST] = ASKS | DATA | FIRST | PACKET_F_RETH,
	[PACKET_WRITE_MIDDLE] = ASKS | DATA,
	[PACKET_WRITE_LAST] = ASKS | DATA | LAST,
	[PACKET_WRITE_LAST_IMM] = ASKS | DATA | LAST | PACKET_F_IMM,
	[PACKET_WRITE_ONLY] = ASKS | DATA | ONLY | PACKET_F_RETH,
	[PACKET_WRITE_ONLY_IMM] = ASKS | DATA | ONLY | PACKET_F_RETH |
				  PACKET_F_IMM,
	[PACKET_READ] = ASKS | ONLY | PACKET_F_RETH,
	[PACKET_READ_FIRST] = DATA | FIRST | PACKET_F_AETH,
	[PACKET_READ_MIDDLE] = DATA,
	[PACKET_READ_LAST] = DATA | LAST | PACKET_F_AETH,
	[PACKET_READ_ONLY] = DATA | ONLY | PACKET_F_AETH,
	[PACKET_ACK] = ONLY | PACKET_F_AETH,
	[PACKET_ATOMIC_ACK] = ONLY | PACKET_F_AETH | PACKET_F_ATOMIC_ACK,
	[PACKET_CAS] = ASKS | ONLY | PACKET_F_ATOMIC,
	[PACKET_FAA] = ASKS | ONLY | PACKET_F_ATOMIC,
	[PACKET_SEND_LAST_INV] = ASKS | DATA | LAST | PACKET_F_IMM,
	[PACKET_SEND_ONLY_INV] = ASKS | DATA | ONLY | PACKET_F_IMM,
};

unsigned int packet_flags(uint8_t opcode)
{
	const uint8_t op = opcode & PACKET_OP;

	if (opcode == PACKET_CNP)
		return PACKET_F_CNP;
	switch (opcode & PACKET_KIND) {
	case PACKET_RC:
		return flags_of[op];
	case PACKET_UC:
		return op <= PACKET_WRITE_ONLY_IMM ? flags_of[op] : 0;
	case PACKET_UD:
		return op == PACKET_SEND_ONLY || op == PACKET_SEND_ONLY_IMM ?
		       flags_of[op] | PACKET_F_DETH : 0;
	default:
		return 0;
	}
}

static uint8_t *put32(uint8_t *at, uint32_t v)
{
	soft_put32(at, v);
	return at + 4;
}

static uint8_t *put64(uint8_t *at, uint64_t v)
{
	soft_put64(at, v);
	return at + 8;
}

uint32_t packet_put(struct packet *p, uint8_t *at)
{
	uint8_t *to = at;

	p->flags = packet_flags(p->opcode);
	p->pad = (uint8_t)(-p->bytes & 3);
	to = put32(to, (uint32_t)p->opcode << 24 |
		   (uint32_t)p->solicited << 23 | (uint32_t)p->pad << 20 |
		   PACKET_PKEY);
	to = put32(to, (p->dst & 0xffffff) |
		   (p->flags & PACKET_F_CNP ? BECN : 0));
	to = put32(to, (uint32_t)p->ack << 31 | (p->psn & 0xffffff));
	if (p->flags & PACKET_F_DETH) {
		to = put32(to, p->qkey);
		to = put32(to, p->src & 0xffffff);
	}
	if (p->flags & PACKET_F_RETH) {
		to = put64(to, p->addr);
		to = put32(to, p->rkey);
		to = put32(to, p->length);
	}
	if (p->flags & PACKET_F_ATOMIC) {
		to = put64(to, p->addr);
		to = put32(to, p->rkey);
		to = put64(to, p->swap);
		to = put64(to, p->compare);
	}
	if (p->flags & PACKET_F_AETH)
		to = put32(to, (uint32_t)p->syndrome << 24 |
			   (p->msn & 0xffffff));
	if (p->flags & PACKET_F_ATOMIC_ACK)
		to = put64(to, p->value);
	if (p->flags & PACKET_F_IMM) {
		memcpy(to, &p->imm, IMM);
		to += IMM;
	}
	if (p->flags & PACKET_F_CNP) {
		memset(to, 0, CNP);
		to += CNP;
	}
	return (uint32_t)(to - at);
}

static uint32_t head_length(unsigned int flags)
{
	return BTH + (flags & PACKET_F_DETH ? DETH : 0) +
	       (flags & PACKET_F_RETH ? RETH : 0) +
	       (flags & PACKET_F_ATOMIC ? ATOMIC : 0) +
	       (flags & PACKET_F_AETH ? AETH : 0) +
	       (flags & PACKET_F_ATOMIC_ACK ? ATOMIC_ACK : 0) +
	       (flags & PACKET_F_IMM ? IMM : 0) +
	       (flags & PACKET_F_CNP ? CNP : 0);
}

/* 'at' has all headers that the flags name. */
static void get_more(struct packet *p, const uint8_t *at)
{
	at += BTH;
	if (p->flags & PACKET_F_DETH) {
		p->qkey = soft_get32(at);
		p->src = soft_get32(at + 4) & 0xffffff;
		at += DETH;
	}
	if (p->flags & (PACKET_F_RETH | PACKET_F_ATOMIC)) {
		p->addr = soft_get64(at);
		p->rkey = soft_get32(at + 8);
	}
	if (p->flags & PACKET_F_RETH) {
		p->length = soft_get32(at + 12);
		at += RETH;
	}
	if (p->flags & PACKET_F_ATOMIC) {
		p->swap = soft_get64(at + 12);
		p->compare = soft_get64(at + 20);
		at += ATOMIC;
	}
	if (p->flags & PACKET_F_AETH) {
		p->syndrome = *at;
		p->msn = soft_get32(at) & 0xffffff;
		at += AETH;
	}
	if (p->flags & PACKET_F_ATOMIC_ACK) {
		p->value = soft_get64(at);
		at += ATOMIC_ACK;
	}
	if (p->flags & PACKET_F_IMM)
		memcpy(&p->imm, at, IMM);
}

bool packet_get(struct packet *p, const uint8_t *at, uint32_t len)
{
	uint32_t head, first;

	memset(p, 0, sizeof(*p));
	p->at = at;
	p->length_all = len;
	if (len < BTH + PACKET_CRC || len > PACKET_MAX)
		return false;
	first = soft_get32(at);
	p->opcode = (uint8_t)(first >> 24);
	p->flags = packet_flags(p->opcode);
	head = head_length(p->flags);
	p->solicited = first >> 23 & 1;
	p->pad = first >> 20 & 3;
	p->pkey = first & 0xffff;
	/* the upper bit tells full members from limited ones */
	if (!p->flags || first >> 16 & 0xf ||
	    (p->pkey ^ PACKET_PKEY) & 0x7fff ||
	    len < head + p->pad + PACKET_CRC)
		return false;
	p->dst = soft_get32(at + 4) & 0xffffff;
	p->ack = at[8] >> 7;
	p->psn = soft_get32(at + 8) & 0xffffff;
	get_more(p, at);
	p->payload = at + head;
	p->bytes = len - head - p->pad - PACKET_CRC;
	return p->bytes <= 4096 && (p->bytes || !p->pad) &&
	       (!p->bytes || p->flags & PACKET_F_DATA);
}
