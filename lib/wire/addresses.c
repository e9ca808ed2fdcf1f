/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/addresses.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

struct wire_address {
	uint8_t kind;
	uint8_t zero;		/* sent as zero, ignored */
	uint16_t port;
	uint8_t ip[16];
};

_Static_assert(sizeof(struct wire_address) == PROTO_ADDRESS_LEN, "address");

static size_t ip_len(const struct proto_address *a)
{
	return a->kind == 4 ? 4 : 16;
}

/* Returns true for :: and for ::ffff:0:0/96, which has the IPv4 addresses. */
static bool is_none_or_mapped(const uint8_t *ip)
{
	static const uint8_t zeros[16], mapped[12] = {
		[10] = 0xff, [11] = 0xff,
	};

	return !memcmp(ip, zeros, sizeof(zeros)) ||
	       !memcmp(ip, mapped, sizeof(mapped));
}

/* internal */

bool rdmamsg__address_is_sane(const struct proto_address *a)
{
	const uint8_t *ip = a->ip;

	if (!a->port)
		return false;
	if (a->kind == 4)
		return ip[0] && ip[0] < 224;
	return a->kind == 6 && ip[0] != 0xff &&
	       !(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80) &&
	       !is_none_or_mapped(ip);
}

bool rdmamsg__address_is_same(const struct proto_address *a,
			      const struct proto_address *b)
{
	return a->kind == b->kind && a->port == b->port &&
	       !memcmp(a->ip, b->ip, ip_len(a));
}

size_t rdmamsg__addresses_encode(const struct proto_addresses *a,
				 uint8_t out[static PROTO_ADDRESSES_LEN])
{
	assert(a->count <= PROTO_ADDRESSES_MAX);
	for (uint32_t i = 0; i < a->count; i++) {
		struct wire_address w = {
			.kind = a->at[i].kind,
			.port = htole16(a->at[i].port),
		};

		assert(rdmamsg__address_is_sane(&a->at[i]));
		memcpy(w.ip, a->at[i].ip, ip_len(&a->at[i]));
		memcpy(out + i * sizeof(w), &w, sizeof(w));
	}
	return a->count * sizeof(struct wire_address);
}

int rdmamsg__addresses_decode(struct proto_addresses *a, const void *buf,
			      size_t len)
{
	struct proto_addresses d = { .count = 0 };
	struct wire_address w;

	if (!len || len % sizeof(w))
		return -EPROTO;
	for (size_t i = 0; i < len / sizeof(w) && i < PROTO_ADDRESSES_MAX;
	     i++) {
		struct proto_address *at = &d.at[d.count];

		memcpy(&w, (const uint8_t *)buf + i * sizeof(w), sizeof(w));
		if (w.kind != 4 && w.kind != 6)
			continue;
		at->kind = w.kind;
		at->port = le16toh(w.port);
		memcpy(at->ip, w.ip, ip_len(at));
		if (!rdmamsg__address_is_sane(at))
			return -EPROTO;
		d.count++;
	}
	*a = d;
	return 0;
}
