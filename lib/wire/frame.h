/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames, which groups send in datagrams. The functions are pure: no I/O, no
 * allocation. The decoders check every field.
 * A frame of a group with a key has another version, and ends with its seal:
 * the first bytes of an HMAC of all that is before it.
 *
 *  0 u32 magic  4 u8 version  5 u8 type  6 u8 flags  7 u8 audience
 *  8 u64 sender  16 u32 number  20 u32 oldest
 * 24 u32 length  28 u16 size  30 u16 index
 * 32 payload
 */
#ifndef RDMAMSG_LIB_FRAME_H
#define RDMAMSG_LIB_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC	0x46474d52u	/* "RMGF" */
#define FRAME_VERSION	1
#define FRAME_SEALED	2	/* the version with a seal */
#define FRAME_HDR_LEN	32
#define FRAME_RANGE_LEN	12
#define FRAME_REPORT_LEN	16
#define FRAME_WISH_LEN	24		/* behind a REPORT's payload */
#define FRAME_OFFER_LEN	16
#define FRAME_TAG_LEN	8		/* behind all else of a REPORT */
#define FRAME_PARITY_LEN	24	/* before the data */
#define FRAME_SEAL_LEN	16
#define FRAME_CHALLENGE_LEN	8	/* of REPORT and ANSWER, if sealed */
#define FRAME_COUNT_MAX	65536u	/* fragments of a message: 16 bits */

enum frame_type {
	FRAME_DATA = 1,			/* a fragment of a message */
	FRAME_HEARTBEAT,		/* number of the next message */
	FRAME_END,			/* as HEARTBEAT, but the last frame */
	FRAME_NACK,			/* ranges that a subscriber misses */
	FRAME_REPORT,			/* of a subscriber, to a publisher */
	FRAME_PARITY,			/* of the fragments before it */
};

/* The fragment is a repetition. */
#define FRAME_REPEATED	1u
/* The sender answers NACKs. */
#define FRAME_REPAIRS	2u
/* HEARTBEAT: the answer to a REPORT, for the subscriber that has sent it. */
#define FRAME_ANSWER	4u
/*
 * HEARTBEAT: subscribers report at once, and once they were given all below its
 * number. DATA: once they were given the message.
 */
#define FRAME_ASKS	8u
/* REPORT: the subscriber leaves. */
#define FRAME_LEFT	16u
/* REPORT: with a wish for older messages. Its ANSWER: with an offer. */
#define FRAME_WISH	32u
/* REPORT: 8 bytes more, behind a wish if it has one: the tag. */
#define FRAME_TAGGED	64u
/* REPORT, if sealed: the receiver asks for an answer, and for no repairs. */
#define FRAME_PROVES	128u

/* More subscribers than a publisher counts. */
#define FRAME_AUDIENCE_MANY	UINT8_MAX

/*
 * A message of 'length' bytes is cut into fragments of 'size' bytes. The last
 * fragment may be shorter. An empty message is one empty fragment.
 */
struct frame {
	enum frame_type type;
	uint8_t flags;
	bool sealed;
	uint8_t audience;		/* subscribers; 0: none has reported */
	uint64_t sender;		/* NACK, REPORT: the sender meant */
	uint32_t number;		/* REPORT: the one that is due */
	/* oldest message it can repeat. REPORT: reports before it */
	uint32_t oldest;
	/* NACK: number of ranges. ANSWER, REPORT: the receiver's token, or 0 */
	uint32_t length;
	uint16_t size;			/* REPORT: receives, as in its struct */
	uint16_t index;			/* of this fragment */
	const uint8_t *data;		/* decode: points into the input */
	uint32_t data_len;		/* without challenge and seal */
	/* of a sealed REPORT, and the same of its ANSWER */
	uint64_t challenge;
};

/*
 * Missing messages, or missing fragments of one message. If count > 1, first is
 * 0 and last is FRAME_TO_END.
 */
struct frame_range {
	uint32_t number;
	uint32_t count;			/* messages, at least 1 */
	uint16_t first, last;		/* fragments */
};

#define FRAME_TO_END	UINT16_MAX

struct frame_report {
	uint64_t id;			/* random, of the subscriber */
	uint32_t rtt;			/* us, to the publisher; 0: not known */
	uint32_t lost;			/* messages in gaps */
	/* the decoder alone knows them: */
	uint64_t tag;			/* 0: none */
	uint32_t before;		/* reports */
	uint16_t receives;		/* free, at most 65535; 0: not known */
};

/* The wish of a subscriber for messages below the REPORT's number. */
struct frame_wish {
	uint64_t nonce;			/* of an offer; 0: not known */
	uint32_t messages, bytes, ms;	/* at most; 0: any */
};

struct frame_offer {
	/* a wish with this nonce comes from where the offer was sent to */
	uint64_t nonce;
	uint32_t first;			/* if granted, the messages from here */
	bool granted;
	bool less;			/* older ones are not kept any more */
};

/* Of the fragments of a block, of which the last is of the frame's message. */
struct frame_parity {
	uint16_t count;			/* fragments */
	uint32_t first;			/* message of the first one */
	uint16_t first_index, last_index;
	/* these of all, and behind them the data, XORed */
	uint16_t index;
	uint32_t number, length;
};

static inline uint32_t rdmamsg__frame_count(uint32_t length, uint16_t size)
{
	return length ? (length - 1) / size + 1 : 1;
}

/* Encodes the header. The payload follows it, and if it is sealed the rest. */
void rdmamsg__frame_encode(const struct frame *f,
			   uint8_t out[static FRAME_HDR_LEN]);
/*
 * Encodes what is between the payload and the seal. Returns its length, 0 or
 * FRAME_CHALLENGE_LEN.
 */
uint32_t rdmamsg__challenge_encode(const struct frame *f,
				   uint8_t out[static FRAME_CHALLENGE_LEN]);
/* -EPROTO: no frame, another version, or lengths that do not fit. */
int rdmamsg__frame_decode(struct frame *f, const void *buf, size_t len);

void rdmamsg__range_encode(const struct frame_range *r,
			   uint8_t out[static FRAME_RANGE_LEN]);
/* Decodes range 'at' of a NACK, at < nack->length. -EPROTO: invalid range. */
int rdmamsg__range_decode(struct frame_range *r, const struct frame *nack,
			  uint32_t at);

void rdmamsg__report_encode(const struct frame_report *r,
			    uint8_t out[static FRAME_REPORT_LEN]);
/* Decodes the payload of a REPORT. */
struct frame_report rdmamsg__report_decode(const struct frame *report);

void rdmamsg__tag_encode(uint64_t tag, uint8_t out[static FRAME_TAG_LEN]);

/*
 * Returns false if there is no such fragment of f->length, f->size and f->index;
 * else *ret is the number of its bytes.
 */
bool rdmamsg__fragment_len(const struct frame *f, uint32_t *ret);

void rdmamsg__parity_encode(const struct frame_parity *p,
			    uint8_t out[static FRAME_PARITY_LEN]);
/* Decodes the payload of a PARITY. */
void rdmamsg__parity_decode(struct frame_parity *p, const struct frame *f);

void rdmamsg__wish_encode(const struct frame_wish *w,
			  uint8_t out[static FRAME_WISH_LEN]);
/* -EPROTO: the REPORT has none. */
int rdmamsg__wish_decode(struct frame_wish *w, const struct frame *report);

void rdmamsg__offer_encode(const struct frame_offer *o,
			   uint8_t out[static FRAME_OFFER_LEN]);
/* -EPROTO: the ANSWER has none. */
int rdmamsg__offer_decode(struct frame_offer *o, const struct frame *answer);

#endif
