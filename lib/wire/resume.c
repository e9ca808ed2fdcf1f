/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/proto.h"
#include "wire/resume.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire_resumable {
	uint8_t nonce[32];
	uint32_t window;
};

struct wire_resume {
	uint32_t next;
	uint8_t more;
	uint8_t zero;
	uint16_t count;
	uint16_t keys;
	uint16_t zero16;
};

struct wire_renewed {
	uint64_t region;
	uint32_t given;
	uint32_t rkey;
	uint32_t state;
} __attribute__((packed));

struct wire_entry {
	uint32_t number;
	uint32_t len;
};

_Static_assert(sizeof(struct wire_resumable) == PROTO_RESUMABLE_LEN, "item");
_Static_assert(sizeof(struct wire_resume) == PROTO_RESUME_LEN, "body");
_Static_assert(sizeof(struct wire_renewed) == PROTO_RENEWED_LEN, "key");
_Static_assert(sizeof(struct wire_entry) == PROTO_RESUME_ENTRY_LEN, "entry");

void rdmamsg__resumable_encode(const struct proto_resumable *r,
			       uint8_t out[static PROTO_RESUMABLE_LEN])
{
	struct wire_resumable w = { .window = htole32(r->window) };

	memcpy(w.nonce, r->nonce, sizeof(w.nonce));
	memcpy(out, &w, sizeof(w));
}

int rdmamsg__resumable_decode(struct proto_resumable *r, const void *buf,
			      size_t len)
{
	struct wire_resumable w;
	uint32_t window;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	window = le32toh(w.window);
	if (!window || window > PROTO_WINDOW_MAX)
		return -EPROTO;
	memcpy(r->nonce, w.nonce, sizeof(r->nonce));
	r->window = window;
	return 0;
}

void rdmamsg__resume_encode(const struct proto_resume *r,
			    uint8_t out[static PROTO_RESUME_LEN])
{
	const struct wire_resume w = {
		.next = htole32(r->next), .more = r->more,
		.count = htole16(r->count), .keys = htole16(r->keys),
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__resume_decode(struct proto_resume *r, const void *buf, size_t len)
{
	struct wire_resume w;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (w.zero || w.zero16 || w.more > 1)
		return -EPROTO;
	*r = (struct proto_resume){
		.next = le32toh(w.next), .more = w.more,
		.count = le16toh(w.count), .keys = le16toh(w.keys),
	};
	return 0;
}

void rdmamsg__renewed_encode(const struct proto_renewed *k,
			     uint8_t out[static PROTO_RENEWED_LEN])
{
	const struct wire_renewed w = {
		.region = htole64(k->region), .given = htole32(k->given),
		.rkey = htole32(k->rkey), .state = htole32(k->state),
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__renewed_decode(struct proto_renewed *k, const void *buf,
			    size_t len)
{
	struct wire_renewed w;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (le32toh(w.state) > PROTO_KEY_REVOKED)
		return -EPROTO;
	*k = (struct proto_renewed){
		.region = le64toh(w.region), .given = le32toh(w.given),
		.rkey = le32toh(w.rkey), .state = le32toh(w.state),
	};
	return 0;
}

size_t rdmamsg__resume_entry_encode(uint32_t number,
				    const struct proto_rndv *r, uint8_t *out)
{
	size_t len = rdmamsg__rndv_encode(r, out + PROTO_RESUME_ENTRY_LEN);
	const struct wire_entry w = {
		.number = htole32(number), .len = htole32((uint32_t)len),
	};

	memcpy(out, &w, sizeof(w));
	return PROTO_RESUME_ENTRY_LEN + len;
}

int rdmamsg__resume_entry_decode(uint32_t *number, struct proto_rndv *r,
				 const void *buf, size_t len)
{
	struct wire_entry w;
	uint32_t n;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	n = le32toh(w.len);
	if (n > PROTO_RNDV_MAX || n > len - sizeof(w) ||
	    rdmamsg__rndv_decode(r, (const uint8_t *)buf + sizeof(w), n))
		return -EPROTO;
	*number = le32toh(w.number);
	return (int)(sizeof(w) + n);
}
