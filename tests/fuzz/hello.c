/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an accepted hello survives a round trip, in spite of padding by
 * the CM. Both sides speak its version.
 */
#include "wire/proto.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void must_be_equal(const struct proto_hello *a,
			  const struct proto_hello *b)
{
	must(a->lowest == b->lowest && a->highest == b->highest);
	must(a->features == b->features);
	must(a->credits == b->credits && a->reject == b->reject);
	must(a->limit == b->limit);
	must(a->data_len == b->data_len);
	must(!memcmp(a->data, b->data, a->data_len));
}

static void check_round_trip(const struct proto_hello *h)
{
	uint8_t out[PROTO_HELLO_MAX], again[PROTO_HELLO_MAX];
	size_t len = rdmamsg__hello_encode(h, out);
	struct proto_hello got;

	must(len == (size_t)PROTO_HELLO_LEN + h->data_len);
	must(!rdmamsg__hello_decode(&got, out, len));
	must_be_equal(&got, h);
	must(rdmamsg__hello_encode(&got, again) == len);
	must(!memcmp(out, again, len));
	must(rdmamsg__hello_decode(&got, out, len - 1));
}

static void check_padding(const struct proto_hello *h, const uint8_t *data,
			  size_t size)
{
	struct proto_hello got;
	uint8_t *padded = calloc(1, size + 57);

	/* Decode at an odd address, too. */
	must(padded != NULL);
	memcpy(padded + 1, data, size);
	must(!rdmamsg__hello_decode(&got, padded + 1, size + 56));
	must_be_equal(&got, h);
	free(padded);
}

static void check_version(const struct proto_hello *h)
{
	int version = rdmamsg__hello_version(h);

	if (version >= 0) {
		must(version >= h->lowest && version <= h->highest);
		must(version >= PROTO_VERSION_LOWEST &&
		     version <= PROTO_VERSION);
	} else {
		must(h->lowest > PROTO_VERSION ||
		     h->highest < PROTO_VERSION_LOWEST ||
		     h->lowest > h->highest);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proto_hello h;

	if (rdmamsg__hello_decode(&h, data, size))
		return 0;
	must(h.data_len <= PROTO_HELLO_DATA_MAX);
	must(h.data >= data + PROTO_HELLO_LEN);
	must(h.data + h.data_len <= data + size);
	check_round_trip(&h);
	check_padding(&h, data, size);
	check_version(&h);
	return 0;
}
