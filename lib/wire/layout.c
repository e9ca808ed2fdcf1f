/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/layout.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define ACCESS_ALL	(PROTO_KEY_READ | PROTO_KEY_WRITE | PROTO_KEY_ATOMIC)

struct wire_layout {
	uint8_t version;
	uint8_t access;
	uint16_t zero;
	uint32_t bytes;
	uint64_t id;
	uint32_t sources;
	uint32_t groups;
	uint64_t len;
};

struct wire_group {
	uint32_t parts;
	uint32_t zero;
	uint64_t rounds;
};

struct wire_part {
	uint32_t index;
	uint16_t nested;
	uint16_t dims;
	uint64_t offset;
	uint64_t len;
	uint64_t step;
	uint64_t count[LAYOUT_DIMS];
	uint64_t stride[LAYOUT_DIMS];
};

_Static_assert(sizeof(struct wire_layout) == PROTO_LAYOUT_LEN, "wire layout");
_Static_assert(sizeof(struct wire_group) == PROTO_LAYOUT_GROUP_LEN,
	       "wire group");
_Static_assert(sizeof(struct wire_part) == PROTO_LAYOUT_PART_LEN, "wire part");
_Static_assert(PROTO_LAYOUT_MAX <= PROTO_MSG_MAX, "one message");

size_t rdmamsg__layout_bytes(const struct layout *l)
{
	return PROTO_LAYOUT_LEN + (size_t)l->sources * PROTO_KEY_LEN +
	       (size_t)l->groups * PROTO_LAYOUT_GROUP_LEN +
	       (size_t)l->parts * PROTO_LAYOUT_PART_LEN;
}

static uint8_t *put(uint8_t *out, const void *src, size_t len)
{
	memcpy(out, src, len);
	return out + len;
}

void rdmamsg__layout_encode(const struct layout *l, uint8_t *out)
{
	const struct wire_layout head = {
		.version = PROTO_LAYOUT_VERSION, .access = l->access,
		.bytes = htole32((uint32_t)rdmamsg__layout_bytes(l)),
		.id = htole64(l->id), .sources = htole32(l->sources),
		.groups = htole32(l->groups), .len = htole64(l->len),
	};

	out = put(out, &head, sizeof(head));
	for (uint32_t i = 0; i < l->sources; i++, out += PROTO_KEY_LEN) {
		const struct layout_source *s = &l->source[i];
		const struct proto_key key = {
			.access = s->access, .rkey = s->rkey,
			.region = s->region, .addr = s->addr, .len = s->len,
		};

		rdmamsg__key_encode(&key, out);
	}
	for (uint32_t i = 0; i < l->groups; i++) {
		const struct wire_group w = {
			.parts = htole32(l->group[i].parts),
			.rounds = htole64(l->group[i].rounds),
		};

		out = put(out, &w, sizeof(w));
	}
	for (uint32_t i = 0; i < l->parts; i++) {
		const struct layout_part *p = &l->part[i];
		struct wire_part w = {
			.index = htole32(p->index),
			.nested = htole16(p->nested),
			.dims = htole16(p->dims), .offset = htole64(p->offset),
			.len = htole64(p->len), .step = htole64(p->step),
		};

		for (uint32_t d = 0; d < LAYOUT_DIMS; d++) {
			w.count[d] = htole64(p->count[d]);
			w.stride[d] = htole64(p->stride[d]);
		}
		out = put(out, &w, sizeof(w));
	}
}

int rdmamsg__layout_head(struct layout *l, const void *buf, size_t len,
			 uint64_t *ret_len)
{
	struct wire_layout w;
	uint64_t fixed, bytes;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	bytes = le32toh(w.bytes);
	l->sources = le32toh(w.sources);
	l->groups = le32toh(w.groups);
	if (w.version != PROTO_LAYOUT_VERSION || w.zero || !w.access ||
	    (w.access & ~ACCESS_ALL) || bytes > len ||
	    !l->sources || l->sources > LAYOUT_SOURCES ||
	    !l->groups || l->groups > LAYOUT_GROUPS)
		return -EPROTO;
	fixed = PROTO_LAYOUT_LEN + (uint64_t)l->sources * PROTO_KEY_LEN +
		(uint64_t)l->groups * PROTO_LAYOUT_GROUP_LEN;
	if (bytes < fixed || (bytes - fixed) % PROTO_LAYOUT_PART_LEN ||
	    (bytes - fixed) / PROTO_LAYOUT_PART_LEN > LAYOUT_PARTS)
		return -EPROTO;
	l->parts = (uint32_t)((bytes - fixed) / PROTO_LAYOUT_PART_LEN);
	l->access = w.access;
	l->id = le64toh(w.id);
	*ret_len = le64toh(w.len);
	return 0;
}

static int decode_part(struct layout_part *p, const uint8_t *buf)
{
	struct wire_part w;

	memcpy(&w, buf, sizeof(w));
	if (le16toh(w.nested) > 1)
		return -EPROTO;
	*p = (struct layout_part){
		.index = le32toh(w.index), .nested = w.nested != 0,
		.dims = le16toh(w.dims), .offset = le64toh(w.offset),
		.len = le64toh(w.len), .step = le64toh(w.step),
	};
	for (uint32_t i = 0; i < LAYOUT_DIMS; i++) {
		p->count[i] = le64toh(w.count[i]);
		p->stride[i] = le64toh(w.stride[i]);
	}
	return 0;
}

static int decode_sources(struct layout *l, const uint8_t *at)
{
	for (uint32_t i = 0; i < l->sources; i++, at += PROTO_KEY_LEN) {
		struct proto_key key;
		int err = rdmamsg__key_decode(&key, at, PROTO_KEY_LEN);

		if (err)
			return err;
		if (l->access & ~key.access)
			return -EPROTO;
		l->source[i] = (struct layout_source){
			.access = key.access, .rkey = key.rkey,
			.region = key.region, .addr = key.addr, .len = key.len,
		};
	}
	return 0;
}

/* head() has checked that the bytes are there. */
int rdmamsg__layout_decode(struct layout *l, const void *buf, size_t len)
{
	const uint8_t *at = (const uint8_t *)buf + PROTO_LAYOUT_LEN;
	int err;

	if (len < rdmamsg__layout_bytes(l))
		return -EPROTO;
	err = decode_sources(l, at);
	at += (size_t)l->sources * PROTO_KEY_LEN;
	for (uint32_t i = 0; i < l->groups && !err; i++) {
		struct wire_group w;

		memcpy(&w, at, sizeof(w));
		at += sizeof(w);
		l->group[i] = (struct layout_group){
			.parts = le32toh(w.parts), .rounds = le64toh(w.rounds),
		};
		err = w.zero ? -EPROTO : 0;
	}
	for (uint32_t i = 0; i < l->parts && !err; i++) {
		err = decode_part(&l->part[i], at);
		at += PROTO_LAYOUT_PART_LEN;
	}
	return err;
}
