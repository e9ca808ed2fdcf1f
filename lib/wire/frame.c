/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/frame.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct wire_frame {
	uint32_t magic;
	uint8_t version;
	uint8_t type;
	uint8_t flags;
	uint8_t audience;
	uint64_t sender;
	uint32_t number;
	uint32_t oldest;
	uint32_t length;
	uint16_t size;
	uint16_t index;
};

struct wire_range {
	uint32_t number;
	uint32_t count;
	uint16_t first;
	uint16_t last;
};

struct wire_report {
	uint64_t id;
	uint32_t rtt;
	uint32_t lost;
};

struct wire_wish {
	uint64_t nonce;
	uint32_t messages;
	uint32_t bytes;
	uint32_t ms;
	uint32_t zero;
};

struct wire_parity {
	uint32_t first;
	uint32_t number;
	uint32_t length;
	uint16_t count;
	uint16_t first_index;
	uint16_t last_index;
	uint16_t index;
	uint32_t zero;
};

struct wire_offer {
	uint64_t nonce;
	uint32_t first;
	uint8_t granted;
	uint8_t less;
	uint16_t zero;
};

_Static_assert(sizeof(struct wire_frame) == FRAME_HDR_LEN, "wire frame");
_Static_assert(sizeof(struct wire_range) == FRAME_RANGE_LEN, "wire range");
_Static_assert(sizeof(struct wire_report) == FRAME_REPORT_LEN, "wire report");
_Static_assert(sizeof(struct wire_wish) == FRAME_WISH_LEN, "wire wish");
_Static_assert(sizeof(struct wire_parity) == FRAME_PARITY_LEN, "wire parity");
_Static_assert(sizeof(struct wire_offer) == FRAME_OFFER_LEN, "wire offer");

void rdmamsg__frame_encode(const struct frame *f,
			   uint8_t out[static FRAME_HDR_LEN])
{
	const struct wire_frame w = {
		.magic = htole32(FRAME_MAGIC),
		.version = f->sealed ? FRAME_SEALED : FRAME_VERSION,
		.type = (uint8_t)f->type, .flags = f->flags,
		.audience = f->audience,
		.sender = htole64(f->sender), .number = htole32(f->number),
		.oldest = htole32(f->oldest), .length = htole32(f->length),
		.size = htole16(f->size), .index = htole16(f->index),
	};

	memcpy(out, &w, sizeof(w));
}

static bool has_challenge(const struct frame *f)
{
	return f->type == FRAME_REPORT ||
	       (f->type == FRAME_HEARTBEAT && f->flags & FRAME_ANSWER);
}

uint32_t rdmamsg__challenge_encode(const struct frame *f,
				   uint8_t out[static FRAME_CHALLENGE_LEN])
{
	const uint64_t w = htole64(f->challenge);

	if (!f->sealed || !has_challenge(f))
		return 0;
	memcpy(out, &w, sizeof(w));
	return sizeof(w);
}

/* Takes challenge and seal from the payload. */
static int cut_seal(struct frame *f)
{
	uint64_t w;

	if (f->data_len < FRAME_SEAL_LEN)
		return -EPROTO;
	f->data_len -= FRAME_SEAL_LEN;
	if (!has_challenge(f))
		return 0;
	if (f->data_len < sizeof(w))
		return -EPROTO;
	f->data_len -= sizeof(w);
	memcpy(&w, f->data + f->data_len, sizeof(w));
	f->challenge = le64toh(w);
	return 0;
}

bool rdmamsg__fragment_len(const struct frame *f, uint32_t *ret)
{
	uint32_t count;

	if (!f->size)
		return false;
	count = rdmamsg__frame_count(f->length, f->size);
	if (count > FRAME_COUNT_MAX || f->index >= count)
		return false;
	*ret = f->index + 1u < count ? f->size :
	       f->length - (uint32_t)f->index * f->size;
	return true;
}

static bool fragment_fits(const struct frame *f)
{
	uint32_t len;

	return rdmamsg__fragment_len(f, &len) && f->data_len == len;
}

int rdmamsg__frame_decode(struct frame *f, const void *buf, size_t len)
{
	struct wire_frame w;

	if (len < sizeof(w) || len - sizeof(w) > UINT16_MAX)
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (le32toh(w.magic) != FRAME_MAGIC ||
	    (w.version != FRAME_VERSION && w.version != FRAME_SEALED))
		return -EPROTO;
	*f = (struct frame){
		.type = w.type, .flags = w.flags, .audience = w.audience,
		.sealed = w.version == FRAME_SEALED,
		.sender = le64toh(w.sender), .number = le32toh(w.number),
		.oldest = le32toh(w.oldest), .length = le32toh(w.length),
		.size = le16toh(w.size), .index = le16toh(w.index),
		.data = (const uint8_t *)buf + sizeof(w),
		.data_len = (uint32_t)(len - sizeof(w)),
	};
	if (f->sealed && cut_seal(f))
		return -EPROTO;
	switch (f->type) {
	case FRAME_DATA:
		return fragment_fits(f) ? 0 : -EPROTO;
	case FRAME_HEARTBEAT:
	case FRAME_END:
		return 0;
	case FRAME_NACK:
		return f->length && f->length <= f->data_len / FRAME_RANGE_LEN ?
		       0 : -EPROTO;
	case FRAME_REPORT:
		return f->data_len >= FRAME_REPORT_LEN ? 0 : -EPROTO;
	case FRAME_PARITY:
		return f->data_len >= FRAME_PARITY_LEN ? 0 : -EPROTO;
	}
	return -EPROTO;
}

void rdmamsg__range_encode(const struct frame_range *r,
			   uint8_t out[static FRAME_RANGE_LEN])
{
	const struct wire_range w = {
		.number = htole32(r->number), .count = htole32(r->count),
		.first = htole16(r->first), .last = htole16(r->last),
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__range_decode(struct frame_range *r, const struct frame *nack,
			  uint32_t at)
{
	struct wire_range w;

	memcpy(&w, nack->data + (size_t)at * sizeof(w), sizeof(w));
	*r = (struct frame_range){
		.number = le32toh(w.number), .count = le32toh(w.count),
		.first = le16toh(w.first), .last = le16toh(w.last),
	};
	if (!r->count || r->first > r->last ||
	    (r->count > 1 && (r->first || r->last != FRAME_TO_END)))
		return -EPROTO;
	return 0;
}

void rdmamsg__report_encode(const struct frame_report *r,
			    uint8_t out[static FRAME_REPORT_LEN])
{
	const struct wire_report w = {
		.id = htole64(r->id), .rtt = htole32(r->rtt),
		.lost = htole32(r->lost),
	};

	memcpy(out, &w, sizeof(w));
}

static uint64_t tag_of(const struct frame *report)
{
	const uint32_t at = FRAME_REPORT_LEN +
			    (report->flags & FRAME_WISH ? FRAME_WISH_LEN : 0);
	uint64_t w;

	if (!(report->flags & FRAME_TAGGED) ||
	    report->data_len < at + sizeof(w))
		return 0;
	memcpy(&w, report->data + at, sizeof(w));
	return le64toh(w);
}

struct frame_report rdmamsg__report_decode(const struct frame *report)
{
	struct wire_report w;

	memcpy(&w, report->data, sizeof(w));
	return (struct frame_report){
		.id = le64toh(w.id), .rtt = le32toh(w.rtt),
		.lost = le32toh(w.lost), .tag = tag_of(report),
		.before = report->oldest, .receives = report->size,
	};
}

void rdmamsg__tag_encode(uint64_t tag, uint8_t out[static FRAME_TAG_LEN])
{
	const uint64_t w = htole64(tag);

	memcpy(out, &w, sizeof(w));
}

void rdmamsg__wish_encode(const struct frame_wish *v,
			  uint8_t out[static FRAME_WISH_LEN])
{
	const struct wire_wish w = {
		.nonce = htole64(v->nonce), .messages = htole32(v->messages),
		.bytes = htole32(v->bytes), .ms = htole32(v->ms),
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__wish_decode(struct frame_wish *v, const struct frame *report)
{
	struct wire_wish w;

	if (!(report->flags & FRAME_WISH) ||
	    report->data_len < FRAME_REPORT_LEN + sizeof(w))
		return -EPROTO;
	memcpy(&w, report->data + FRAME_REPORT_LEN, sizeof(w));
	*v = (struct frame_wish){
		.nonce = le64toh(w.nonce), .messages = le32toh(w.messages),
		.bytes = le32toh(w.bytes), .ms = le32toh(w.ms),
	};
	return 0;
}

void rdmamsg__offer_encode(const struct frame_offer *o,
			   uint8_t out[static FRAME_OFFER_LEN])
{
	const struct wire_offer w = {
		.nonce = htole64(o->nonce), .first = htole32(o->first),
		.granted = o->granted, .less = o->less,
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__offer_decode(struct frame_offer *o, const struct frame *answer)
{
	struct wire_offer w;

	if (!(answer->flags & FRAME_WISH) || answer->data_len < sizeof(w))
		return -EPROTO;
	memcpy(&w, answer->data, sizeof(w));
	*o = (struct frame_offer){
		.nonce = le64toh(w.nonce), .first = le32toh(w.first),
		.granted = w.granted, .less = w.less,
	};
	return 0;
}

void rdmamsg__parity_encode(const struct frame_parity *p,
			    uint8_t out[static FRAME_PARITY_LEN])
{
	const struct wire_parity w = {
		.first = htole32(p->first), .number = htole32(p->number),
		.length = htole32(p->length), .count = htole16(p->count),
		.first_index = htole16(p->first_index),
		.last_index = htole16(p->last_index),
		.index = htole16(p->index),
	};

	memcpy(out, &w, sizeof(w));
}

void rdmamsg__parity_decode(struct frame_parity *p, const struct frame *f)
{
	struct wire_parity w;

	memcpy(&w, f->data, sizeof(w));
	*p = (struct frame_parity){
		.first = le32toh(w.first), .number = le32toh(w.number),
		.length = le32toh(w.length), .count = le16toh(w.count),
		.first_index = le16toh(w.first_index),
		.last_index = le16toh(w.last_index),
		.index = le16toh(w.index),
	};
}
