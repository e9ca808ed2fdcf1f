/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire format of a session that goes on over another lane, see
 * rdmamsg-proto(7). The rules of wire/proto.h apply.
 *
 * A connection request for another lane has PROTO_FEATURE_LANE in its hello, an
 * epoch, and as its data the session and the proof of the initiator. The answer
 * has the same epoch, and the proof of the responder. Each try of the initiator
 * has a higher epoch than all tries before it.
 *
 * The session secret is the HMAC-SHA256, under the pre-shared key or 32 bytes
 * of zeros, of PROTO_LANE_SECRET, the session, the initiator's nonce and the
 * responder's nonce, both from SETUP. A proof has the first 16 bytes of the
 * HMAC-SHA256, under the session secret, of PROTO_LANE_INITIATOR or
 * PROTO_LANE_RESPONDER, the session and the epoch (u32).
 *
 * On the lane AUTH follows, under the pre-shared key of the session, or with
 * PROTO_FEATURE_LANE_AUTH under its secret.
 */
#ifndef RDMAMSG_LIB_RESUME_WIRE_H
#define RDMAMSG_LIB_RESUME_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proto_rndv;

#define PROTO_LANE_SECRET	"rdmamsg session secret"
#define PROTO_LANE_INITIATOR	"rdmamsg lane initiator"
#define PROTO_LANE_RESPONDER	"rdmamsg lane responder"
#define PROTO_LANE_PROOF_LEN	16
#define PROTO_LANE_DATA_LEN	(16 + PROTO_LANE_PROOF_LEN)

/*
 * Item of SETUP: the sender can continue the session.
 *
 *  0 nonce  32 u32 window
 *
 * window: the sender never grants credit beyond the number that it expects next
 * plus the window. So a credit tells which messages it has.
 */
#define PROTO_RESUMABLE_LEN	36
#define PROTO_WINDOW_MAX	65536u

struct proto_resumable {
	uint8_t nonce[32];
	uint32_t window;		/* 1 to PROTO_WINDOW_MAX */
};

void rdmamsg__resumable_encode(const struct proto_resumable *r,
			       uint8_t out[static PROTO_RESUMABLE_LEN]);
/* -EPROTO: too short, or a window out of range. */
int rdmamsg__resumable_decode(struct proto_resumable *r, const void *buf,
			      size_t len);

/*
 * Body of RESUME, the first messages of both sides on another lane after SETUP.
 * The sender's former lane takes no more messages.
 *
 *  0 u32 next  4 u8 more  5 u8 0  6 u16 count  8 u16 keys  10 u16 0
 * 12 'count' entries, then 'keys' renewed keys
 *
 * next: the sender expects this number. more: another RESUME follows. Each
 * entry is an announcement that the sender has made before, with new keys: u32
 * number, u32 length, and so many bytes of a body of RNDV.
 */
#define PROTO_RESUME_LEN	12
#define PROTO_RESUME_ENTRY_LEN	8

struct proto_resume {
	uint32_t next;
	bool more;
	uint16_t count;
	uint16_t keys;
};

/*
 * A key that the sender has given to the receiver before:
 *
 *  0 u64 region id  8 u32 rkey in it  12 u32 rkey now  16 u32 state
 */
#define PROTO_RENEWED_LEN	20

struct proto_renewed {
	uint64_t region;
	uint32_t given;
	uint32_t rkey;
	enum { PROTO_KEY_VALID, PROTO_KEY_REVOKED } state;
};

void rdmamsg__renewed_encode(const struct proto_renewed *k,
			     uint8_t out[static PROTO_RENEWED_LEN]);
/* -EPROTO: too short, or an unknown state. */
int rdmamsg__renewed_decode(struct proto_renewed *k, const void *buf,
			    size_t len);

void rdmamsg__resume_encode(const struct proto_resume *r,
			    uint8_t out[static PROTO_RESUME_LEN]);
/* -EPROTO: too short, or a reserved byte is not 0. */
int rdmamsg__resume_decode(struct proto_resume *r, const void *buf,
			   size_t len);
/* Returns the length of the entry. */
size_t rdmamsg__resume_entry_encode(uint32_t number,
				    const struct proto_rndv *r, uint8_t *out);
/* Returns the length of the entry, or -EPROTO. */
int rdmamsg__resume_entry_decode(uint32_t *number, struct proto_rndv *r,
				 const void *buf, size_t len);

#endif
