/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/proto.h"

#include <assert.h>
#include <errno.h>

struct wire_hello {
	uint32_t magic;
	uint8_t lowest;
	uint8_t highest;
	uint8_t len;
	uint8_t data_len;
	uint32_t features;
	uint16_t credits;
	uint16_t reject;
	uint32_t epoch;
	uint32_t limit;
};

_Static_assert(sizeof(struct wire_hello) == PROTO_HELLO_LEN, "wire hello");
_Static_assert(PROTO_VERSION_LOWEST <= PROTO_VERSION, "versions");

/* internal */

size_t rdmamsg__hello_encode(const struct proto_hello *h,
			     uint8_t out[static PROTO_HELLO_MAX])
{
	struct wire_hello w = {
		.magic = htole32(PROTO_MAGIC),
		.lowest = h->lowest, .highest = h->highest,
		.len = sizeof(w), .data_len = h->data_len,
		.features = htole32(h->features),
		.credits = htole16(h->credits), .reject = htole16(h->reject),
		.epoch = htole32(h->epoch), .limit = htole32(h->limit),
	};

	assert(h->data_len <= PROTO_HELLO_DATA_MAX);
	memcpy(out, &w, sizeof(w));
	if (h->data_len)
		memcpy(out + sizeof(w), h->data, h->data_len);
	return sizeof(w) + h->data_len;
}

int rdmamsg__hello_decode(struct proto_hello *h, const void *buf, size_t len)
{
	struct wire_hello w;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (le32toh(w.magic) != PROTO_MAGIC || w.len < sizeof(w) ||
	    w.data_len > PROTO_HELLO_DATA_MAX ||
	    (size_t)w.len + w.data_len > len)
		return -EPROTO;

	/* an unknown reject code is still a reject, so do not check it */
	*h = (struct proto_hello) {
		.lowest = w.lowest, .highest = w.highest,
		.features = le32toh(w.features),
		.credits = le16toh(w.credits), .reject = le16toh(w.reject),
		.epoch = le32toh(w.epoch), .limit = le32toh(w.limit),
		.data = (const uint8_t *)buf + w.len, .data_len = w.data_len,
	};
	return 0;
}

int rdmamsg__hello_version(const struct proto_hello *peer)
{
	unsigned int version = PROTO_VERSION;

	if (peer->highest < version)
		version = peer->highest;
	/* this refuses a peer with an empty range, too */
	if (version < peer->lowest || version < PROTO_VERSION_LOWEST)
		return -EPROTONOSUPPORT;
	return version;
}
