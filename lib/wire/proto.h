/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire format, see rdmamsg-proto(7). The functions are pure: no I/O, no
 * allocation. Decoders return -EPROTO on malformed input.
 *
 * All integers are little-endian. Decoders accept longer input from newer
 * peers and skip unknown parts. They write their result on success only.
 * Encoders trust their arguments, except for a few assertions.
 */
#ifndef RDMAMSG_LIB_PROTO_H
#define RDMAMSG_LIB_PROTO_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/addresses.h"
#include "wire/path.h"
#include "wire/resume.h"

#define PROTO_VERSION		2
#define PROTO_VERSION_LOWEST	2	/* that this library speaks */
#define PROTO_MAGIC		0x47534d52u	/* "RMSG" on the wire */
#define PROTO_HELLO_LEN		24
#define PROTO_HELLO_DATA_MAX	32
#define PROTO_HELLO_MAX		(PROTO_HELLO_LEN + PROTO_HELLO_DATA_MAX)
#define PROTO_HDR_LEN		16
#define PROTO_KEY_LEN		32
#define PROTO_KEYS_MAX		16
#define PROTO_RNDV_LEN		8		/* before the keys */
#define PROTO_CRC_LEN		4
#define PROTO_RNDV_MAX		(PROTO_RNDV_LEN + \
				 PROTO_KEYS_MAX * PROTO_KEY_LEN + \
				 PROTO_CRC_LEN)
#define PROTO_NONCE_LEN		32
#define PROTO_PROOF_LEN		32		/* HMAC-SHA256 */
#define PROTO_AUTH_LEN		(PROTO_PROOF_LEN + PROTO_NONCE_LEN)
#define PROTO_SETUP_DATA_MAX	4096
#define PROTO_SETUP_MAX		(PROTO_SETUP_DATA_MAX + 512)
#define PROTO_RECV_MIN		8192		/* smallest receive buffer */
#define PROTO_MSG_MAX		0x7fffffffu
/*
 * Messages in flight. Numbers and credits are compared modulo 2^32, so this
 * must be far below 2^31.
 */
#define PROTO_DEPTH_MAX		(1 << 20)

/*
 * Hello: private data of the CM request, reply and reject. The CM pads private
 * data with zeros, so only the lengths inside the hello count.
 *
 *  0 u32 magic            8 u32 features       16 u32 epoch, see resume.h
 *  4 u8  lowest version  12 u16 first credits  20 u32 limit
 *  5 u8  highest version 14 u16 reject code
 *  6 u8  own length (>= 24: application data starts there)
 *  7 u8  application data length
 */
enum proto_reject {
	PROTO_REJECT_NONE,
	PROTO_REJECT_APP,		/* the program has rejected */
	PROTO_REJECT_VERSION,		/* no common version */
	PROTO_REJECT_PROTOCOL,		/* not this protocol, or malformed */
	PROTO_REJECT_RESOURCES,		/* out of memory, QPs, ... */
	PROTO_REJECT_LIMIT,		/* a limit of the listener */
	/* After a SETUP: */
	PROTO_REJECT_UNKEYED,		/* the peer has no pre-shared key */
	PROTO_REJECT_KEYED,		/* this side has none, the peer has */
	PROTO_REJECT_PROOF,		/* the peer's proof is wrong */
	/* For another lane: */
	PROTO_REJECT_SESSION,		/* this process has no such session */
	PROTO_REJECT_CRC,		/* this side needs PROTO_FEATURE_CRC */
};

/* The limit that PROTO_REJECT_LIMIT names. The first three pass with time. */
enum proto_limit {
	PROTO_LIMIT_NONE,
	PROTO_LIMIT_REQUESTS,		/* requests without an answer */
	PROTO_LIMIT_HALF_OPEN,		/* endpoints without the peer's SETUP */
	PROTO_LIMIT_SLOWED,		/* an offence of this address */
	PROTO_LIMIT_ENDPOINTS,		/* endpoints of the listener */
	PROTO_LIMIT_SOURCE,		/* endpoints of one address */
	PROTO_LIMIT_MEMORY,		/* memory for one address */
	PROTO_LIMIT_DRAINING,		/* the listener accepts no more */
	PROTO_LIMITS,
};

static inline bool rdmamsg__limit_passes(uint32_t limit)
{
	return limit >= PROTO_LIMIT_REQUESTS && limit <= PROTO_LIMIT_SLOWED;
}

/*
 * A feature is in use if both sides have set it. OVERCOMMIT needs only one
 * side.
 */
#define PROTO_FEATURE_RMA	1u		/* WRITTEN, keys of programs */
#define PROTO_FEATURE_INVALIDATE 2u		/* INVALIDATE */
/*
 * This side may lack receives for a while, although the peer has credits: it
 * over-commits a shared receive queue, or another peer has ignored its credits.
 */
#define PROTO_FEATURE_OVERCOMMIT 4u
/* This side sends and takes immediate data: compact messages, WRITE_IMM. */
#define PROTO_FEATURE_IMM	8u
/* This side wants alternate paths. Its retries leave time for a migration. */
#define PROTO_FEATURE_PATH	16u
/* The device executes masked atomics of 4, 8, 16 and 32 bytes. */
#define PROTO_FEATURE_MASKED	32u
/* This side keeps messages until the peer has them, to repeat them. */
#define PROTO_FEATURE_RESUME	64u
/* Only in a hello: for another lane of a session, see wire/resume.h. */
#define PROTO_FEATURE_LANE	128u
/* This side sends and checks a CRC-32C of each message of the program. */
#define PROTO_FEATURE_CRC	256u
/* The device executes masked atomics of 4 and 8 bytes. */
#define PROTO_FEATURE_MASKED_SMALL 512u
/* Each lane of a session without a pre-shared key is proven by AUTH as well. */
#define PROTO_FEATURE_LANE_AUTH	1024u
/* CLOSE may have a body, and ABORT may come: see wire/word.h. */
#define PROTO_FEATURE_WORD	2048u

struct proto_hello {
	uint8_t lowest;
	uint8_t highest;
	uint32_t features;
	uint16_t credits;		/* credits until SETUP arrives */
	uint16_t reject;		/* enum proto_reject */
	uint32_t epoch;			/* 0 without PROTO_FEATURE_LANE */
	uint32_t limit;			/* enum proto_limit; may be unknown */
	const uint8_t *data;		/* decode: points into the input */
	uint8_t data_len;
};

/* Returns the length, at most PROTO_HELLO_MAX. */
size_t rdmamsg__hello_encode(const struct proto_hello *h,
			     uint8_t out[static PROTO_HELLO_MAX]);
/*
 * -EPROTO: no hello, or lengths that do not fit. Does not check the versions,
 * not even for an empty range, nor the reject code.
 */
int rdmamsg__hello_decode(struct proto_hello *h, const void *buf, size_t len);
/* Returns the highest common version, or -EPROTONOSUPPORT. */
int rdmamsg__hello_version(const struct proto_hello *peer);

/*
 * A message has a compact or a full form. In compact form the message is its
 * payload alone, sent with immediate data (little-endian):
 *
 *  31..16 tag   15..6 new credits   5..4 new CREDITs seen   3..0 number
 *
 * 'New' means since the sender's last message of either form. The transport
 * delivers in order, so the last four bits of the number are enough to notice a
 * message that the transport has lost or doubled.
 */
#define PROTO_TAG_MAX		0xffffu		/* of a compact message */
#define PROTO_GRANT_MAX		0x3ffu		/* credits in one of them */
#define PROTO_NUMBER_MASK	0xfu
#define PROTO_IMM_MASK		0xffffu		/* all but the tag */

/* Bits 15 to 4. */
static inline uint32_t rdmamsg__grant_encode(uint32_t credits, uint32_t seen)
{
	return (credits < PROTO_GRANT_MAX ? credits : PROTO_GRANT_MAX) << 6 |
	       seen << 4;
}
static inline uint32_t rdmamsg__grant_credits(uint32_t imm)
{
	return imm >> 6 & PROTO_GRANT_MAX;
}
static inline uint32_t rdmamsg__grant_seen(uint32_t imm)
{
	return imm >> 4 & 3;
}

/*
 * With PROTO_FEATURE_CRC, the CRC-32C of the message follows the payload of
 * DATA, INVALIDATE, the last MORE, and of a compact message, as a u32. The CRC
 * covers the payload of all pieces, but no header and no immediate data. RNDV
 * has it behind its keys.
 */

/*
 * Message header, at the start of each message in full form.
 *
 *  0 u8 type  1 u8 flags  2 u16 seen  4 u32 credit  8 u32 number  12 u32 tag
 *
 * credit: the receiver may send data messages with number < credit, modulo
 * 2^32.
 * seen: CREDIT messages that the sender has processed, modulo 2^16.
 */
#define PROTO_PING_MOVE		1u	/* tag: please connect another lane */

enum proto_type {
	PROTO_DATA = 1,		/* number, tag; payload */
	PROTO_RNDV,		/* number, tag; keys to read it, see below */
	PROTO_DONE,		/* number of the RNDV; tag: enum proto_done */
	PROTO_CREDIT,		/* header only */
	PROTO_PING,		/* the PONG has its tag; or PROTO_PING_MOVE */
	PROTO_PONG,
	PROTO_CLOSE,		/* no data follows; control may */
	PROTO_SETUP,		/* first message of each side */
	PROTO_WRITTEN,		/* number, tag: the written data may be read */
	PROTO_INVALIDATE,	/* number, tag, payload: invalidates a window */
	PROTO_PATH,		/* a PING with the sender's alternate path */
	PROTO_AUTH,		/* between the SETUPs; tag: enum proto_reject */
	PROTO_FIRST,		/* number, tag; first piece, see below */
	PROTO_MORE,		/* number, index as the tag; a further piece */
	PROTO_RESUME,		/* on another lane, see wire/resume.h */
	PROTO_ABORT,		/* a word, see wire/word.h; nothing follows */
	PROTO_TYPE_MAX = PROTO_ABORT,
};

enum proto_done {
	PROTO_DONE_OK,
	PROTO_DONE_REFUSED,	/* the program does not take it */
};

struct proto_hdr {
	uint8_t type;
	uint8_t flags;
	uint16_t seen;
	uint32_t credit;
	uint32_t number;
	uint32_t tag;
};

_Static_assert(sizeof(struct proto_hdr) == PROTO_HDR_LEN, "wire header");

/* On a little-endian machine both compile to single moves. */
static inline void rdmamsg__hdr_encode(const struct proto_hdr *h, void *out)
{
	struct proto_hdr w = {
		.type = h->type, .flags = h->flags, .seen = htole16(h->seen),
		.credit = htole32(h->credit), .number = htole32(h->number),
		.tag = htole32(h->tag),
	};

	memcpy(out, &w, sizeof(w));
}

static inline void rdmamsg__hdr_decode(struct proto_hdr *h, const void *buf)
{
	memcpy(h, buf, sizeof(*h));
	h->seen = le16toh(h->seen);
	h->credit = le32toh(h->credit);
	h->number = le32toh(h->number);
	h->tag = le32toh(h->tag);
}

/*
 * Key: gives a peer access to memory.
 *
 *  0 u8 version (1)  1 u8 access  2 u16 0  4 u32 rkey
 *  8 u64 region id  16 u64 base address  24 u64 length
 */
#define PROTO_KEY_VERSION	1
#define PROTO_KEY_READ		1u
#define PROTO_KEY_WRITE		2u
#define PROTO_KEY_ATOMIC	4u

struct proto_key {
	uint8_t access;
	uint32_t rkey;
	uint64_t region;
	uint64_t addr;
	uint64_t len;
};

void rdmamsg__key_encode(const struct proto_key *k,
			 uint8_t out[static PROTO_KEY_LEN]);
/*
 * -EPROTO: too short, unknown version or access, reserved field not zero, or
 * addr + len >= 2^64.
 */
int rdmamsg__key_decode(struct proto_key *k, const void *buf, size_t len);

/*
 * Body of RNDV: u32 count of keys (1..16), u32 total length, the keys. The
 * lengths of the keys add up to the total, at most PROTO_MSG_MAX. No key is
 * empty. Each key has READ. Behind the keys: u32 CRC-32C of the message, with
 * PROTO_FEATURE_CRC.
 */
struct proto_rndv {
	uint32_t total;
	uint32_t count;
	struct proto_key keys[PROTO_KEYS_MAX];
	bool has_crc;			/* decode: 4 bytes follow the keys */
	uint32_t crc;
};

/* Returns the length. */
size_t rdmamsg__rndv_encode(const struct proto_rndv *r,
			    uint8_t out[static PROTO_RNDV_MAX]);
int rdmamsg__rndv_decode(struct proto_rndv *r, const void *buf, size_t len);

/*
 * A message in pieces: the data messages of one run. Body of FIRST: u32 total
 * length, then payload. The further pieces have the index 1, 2, ... as their
 * tag: MORE, or in compact form the payload alone. Each piece has payload, and
 * together they have the total. CLOSE and other data messages come before or
 * after a run, control messages at any time.
 */
#define PROTO_FIRST_LEN		4		/* before the payload */
#define PROTO_PIECES_MAX	(1u << 20)	/* largest total */

/*
 * Body of SETUP: items of u16 type, u16 length, value, and zero padding to four
 * bytes, after the last item too. Bit 15 of the type field is a flag and not
 * part of the type. An unknown type is skipped if the flag is clear, and an
 * error if it is set. A repeated known item is an error. If a known item is
 * longer than expected, its tail is ignored.
 */
enum proto_setup_type {
	PROTO_SETUP_RECV_SIZE = 1,	/* u32: largest SEND, header included */
	PROTO_SETUP_RECV_DEPTH,		/* u32: first credit, absolute */
	PROTO_SETUP_MAX_MSG,		/* u32: largest message */
	PROTO_SETUP_SESSION,		/* 16 bytes */
	PROTO_SETUP_DEAD_AFTER,		/* u32 milliseconds */
	PROTO_SETUP_DATA,		/* application data, at most 4096 */
	PROTO_SETUP_REFUSED,		/* u32: enum proto_reject, u32: limit */
	PROTO_SETUP_PATH,		/* struct proto_path */
	PROTO_SETUP_NONCE,		/* 32 bytes: the initiator has a key */
	PROTO_SETUP_PIECES,		/* u32: largest message in pieces */
	PROTO_SETUP_RESUME,		/* struct proto_resumable */
	PROTO_SETUP_PROOF,		/* struct proto_proof */
	PROTO_SETUP_ADDRESSES = 16,	/* struct proto_addresses */
	PROTO_SETUP_MUST_KNOW = 0x8000,
};

/*
 * Memory of the sender, PROTO_PROOF_BYTES, that may be read, for proofs: a read
 * that completes proves that the peer's device has the requests before it.
 *
 *  0 u64 address, not 0  8 u32 rkey
 */
#define PROTO_PROOF_ITEM_LEN	12
#define PROTO_PROOF_BYTES	8u

/* Each endpoint keeps one, so it has no padding. */
struct proto_proof {
	uint32_t low, high;		/* of the address; 0: no item */
	uint32_t rkey;
};

struct proto_setup {
	uint32_t recv_size;
	uint32_t recv_depth;
	uint32_t max_msg;
	uint32_t dead_after_ms;
	uint8_t session[16];
	const uint8_t *data;		/* decode: points into the input */
	uint32_t data_len;
	uint32_t refused;		/* enum proto_reject; 0: accepted */
	uint32_t limit;			/* enum proto_limit */
	struct proto_path path;		/* offer 0: none */
	bool has_nonce;
	uint8_t nonce[PROTO_NONCE_LEN];
	uint32_t pieces;		/* 0: no message in pieces */
	struct proto_resumable resume;	/* window 0: none */
	struct proto_proof proof;
};

/* Returns the length, at most PROTO_SETUP_MAX. */
size_t rdmamsg__setup_encode(const struct proto_setup *s,
			     uint8_t out[static PROTO_SETUP_MAX]);
/*
 * -EPROTO: malformed, or a required item is missing (all but DEAD_AFTER, DATA,
 * REFUSED, PATH, NONCE, PIECES, RESUME, PROOF and ADDRESSES are required), or
 * out of range: recv_size PROTO_RECV_MIN..2^31-1, max_msg 1..2^31-1, recv_depth
 * 1..PROTO_DEPTH_MAX, refused not 0.
 */
int rdmamsg__setup_decode(struct proto_setup *s, const void *buf, size_t len);
/*
 * Appends the item ADDRESSES to an encoded SETUP of 'len' bytes, if 'a' has
 * any. Returns the new length. An endpoint keeps its struct proto_setup, but
 * not this item, which few peers send.
 */
size_t rdmamsg__setup_add_addresses(uint8_t out[static PROTO_SETUP_MAX],
				    size_t len,
				    const struct proto_addresses *a);
/* Gives that item of a SETUP which rdmamsg__setup_decode() has accepted. */
void rdmamsg__setup_addresses(struct proto_addresses *ret, const void *buf,
			      size_t len);

/*
 * Body of AUTH, if its tag is 0. The initiator's AUTH has no nonce, because the
 * nonce was in its SETUP.
 *
 *  0 proof of the sender  32 nonce of the responder
 *
 * The proof is the HMAC-SHA256, under the key that PROTO_AUTH_KEY names, of
 * these bytes: PROTO_AUTH_INITIATOR or PROTO_AUTH_RESPONDER, the session, the
 * initiator's nonce, the responder's nonce.
 */
#define PROTO_AUTH_KEY		"rdmamsg pre-shared key"
#define PROTO_AUTH_INITIATOR	"rdmamsg initiator"
#define PROTO_AUTH_RESPONDER	"rdmamsg responder"

struct proto_auth {
	uint8_t proof[PROTO_PROOF_LEN];
	bool has_nonce;			/* from the responder */
	uint8_t nonce[PROTO_NONCE_LEN];
};

/* Returns the length, at most PROTO_AUTH_LEN. */
size_t rdmamsg__auth_encode(const struct proto_auth *a,
			    uint8_t out[static PROTO_AUTH_LEN]);
/* has_nonce: the responder is the sender. -EPROTO: too short. */
int rdmamsg__auth_decode(struct proto_auth *a, bool has_nonce, const void *buf,
			 size_t len);

/*
 * Out-of-band record, which both sides exchange to connect without the CM.
 *
 *  0 u32 magic          4 u16 version        6 u16 own length
 *  8 u8  kind           9 u8  link layer    10 u8  largest MTU code
 * 11 u8  flags: bit 0, there is a GID       12 u32 queue pair number
 * 16 u32 first PSN     20 u16 LID           22 u8  reads served
 * 23 u8  reads issued  24 GID               40 token, of the offer
 * 56 u16 P_Key         58 u16 hello's offset   60 u16 its length
 * 62 u8  RoCE version of the GID               63 u8  0
 */
#define PROTO_OOB_MAGIC		0x424f4d52u	/* "RMOB" */
#define PROTO_OOB_VERSION	1
#define PROTO_OOB_LEN		64		/* before the hello */
#define PROTO_OOB_MAX		256		/* newer peers may send more */

enum proto_oob_kind {
	PROTO_OOB_OFFER = 1,
	PROTO_OOB_ANSWER,	/* has the token of the offer */
	PROTO_OOB_REJECT,	/* has it too; only the hello counts */
};

enum proto_oob_link { PROTO_OOB_IB = 1, PROTO_OOB_ETHERNET };

struct proto_oob {
	uint8_t kind;
	uint8_t link;
	uint8_t mtu;			/* 1: 256 bytes, to 5: 4096 */
	uint8_t has_gid;
	uint32_t qp_num;
	uint32_t psn;
	uint16_t lid;
	uint8_t resp_res;
	uint8_t init_depth;
	uint8_t gid[16];
	uint8_t token[16];
	uint16_t pkey;
	uint8_t roce;			/* version, 1 or 2; 0: unknown */
	uint8_t hello[PROTO_HELLO_MAX];
	uint8_t hello_len;
};

/* Returns the length, at most PROTO_OOB_LEN + PROTO_HELLO_MAX. */
size_t rdmamsg__oob_encode(const struct proto_oob *r,
			   uint8_t out[static PROTO_OOB_MAX]);
/*
 * Returns the length of the record from its first bytes, 0 if it needs more
 * bytes, -EPROTO if this is no record, -EPROTONOSUPPORT if its version is
 * unknown.
 */
int rdmamsg__oob_length(const void *buf, size_t len);
/* Same errors. -EPROTO if anything is missing, out of range or does not fit. */
int rdmamsg__oob_decode(struct proto_oob *r, const void *buf, size_t len);

#endif
