/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of a team. Each is a data message whose tag names the operation:
 *
 *  bits 14-15 enum proto_team_kind   9-13 argument   0-8 operation number
 *
 * argument: all-reduce: operation << 2 | type; broadcast: root modulo 32;
 * barrier: 0. Elements of an all-reduce are in the order of the host.
 *
 * Body of PROTO_TEAM_FAIL, with PROTO_TEAM_FAIL_TAG:
 *
 *  0 u32 rank of the member that has failed   4 u32 errno, 1..4095
 *  8 u8 who   9 u8 cause   10 u16 length of the text   12 text, at most 191
 *
 * Two members that connect for rdmamsg_team_connect() tell each other, in the
 * program's data of HELLO, of SETUP or of a reject:
 *
 *  0 "TEAM"   4 u32 size of the team   8 u32 rank of who says it
 *
 * The members of a team that asks for native runs meet before the first
 * operation. Each sends to each other one a message with PROTO_TEAM_MEET_TAG,
 * and, if all can, one with PROTO_TEAM_MET_TAG when its channels are connected:
 *
 *  0 u32 1: it can, 0: it cannot   4 u32 number of its queue pair that sends
 *  8 u32 first PSN                12 u32 number of the one that receives
 */
#ifndef RDMAMSG_LIB_TEAM_WIRE_H
#define RDMAMSG_LIB_TEAM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proto_team_kind {
	PROTO_TEAM_FAIL,
	PROTO_TEAM_BARRIER,
	PROTO_TEAM_BROADCAST,
	PROTO_TEAM_ALLREDUCE,
};

#define PROTO_TEAM_FAIL_TAG	0x3fffu
#define PROTO_TEAM_FAIL_LEN	12	/* before the text */
#define PROTO_TEAM_FAIL_MAX	(PROTO_TEAM_FAIL_LEN + 191)

#define PROTO_TEAM_MEET_TAG	0x3ffeu
#define PROTO_TEAM_MET_TAG	0x3ffdu
#define PROTO_TEAM_MEET_LEN	16
#define PROTO_TEAM_HELLO_LEN	12

/* In PROTO_TEAM_MET_TAG, all but 'can' is 0. */
struct proto_team_meet {
	bool can;
	uint32_t qp_num, psn;		/* of what sends to the receiver */
	uint32_t recv_qp_num;		/* for what the receiver sends */
};

struct proto_team_hello {
	uint32_t size, rank;
};

struct proto_team_fail {
	uint32_t rank;
	uint32_t error;			/* positive errno */
	uint8_t who;			/* enum rdmamsg_who */
	uint8_t cause;			/* enum rdmamsg_cause */
	char text[192];
};

static inline uint32_t rdmamsg__team_tag(enum proto_team_kind kind,
					 uint32_t argument, uint32_t number)
{
	return (uint32_t)kind << 14 | (argument & 0x1f) << 9 |
	       (number & 0x1ff);
}

/* Returns true if both tags are of the operation with the same number. */
static inline bool rdmamsg__team_same_number(uint32_t a, uint32_t b)
{
	return a >> 14 && b >> 14 && !((a ^ b) & 0x1ff);
}

/* Returns the length. */
size_t rdmamsg__team_fail_encode(const struct proto_team_fail *f,
				 uint8_t out[static PROTO_TEAM_FAIL_MAX]);
/*
 * -EPROTO: too short, an error, who or cause out of range, or a text that is
 * too long or has other characters than printable ASCII.
 */
int rdmamsg__team_fail_decode(struct proto_team_fail *f, const void *buf,
			      size_t len);
void rdmamsg__team_meet_encode(const struct proto_team_meet *m,
			       uint8_t out[static PROTO_TEAM_MEET_LEN]);
/* -EPROTO: too short, or a value is out of range: numbers have 24 bits. */
int rdmamsg__team_meet_decode(struct proto_team_meet *m, const void *buf,
			      size_t len);
void rdmamsg__team_hello_encode(const struct proto_team_hello *h,
				uint8_t out[static PROTO_TEAM_HELLO_LEN]);
/* -EPROTO: of another length, not of a team, or the rank is beyond its size. */
int rdmamsg__team_hello_decode(struct proto_team_hello *h, const void *buf,
			       size_t len);

#endif
