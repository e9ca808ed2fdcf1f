/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an accepted SETUP is in range, survives a round trip, and the
 * rules on further items hold for it.
 */
#include "wire/proto.h"

#include <stdlib.h>

#define UNKNOWN	0x7ffe

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void must_be_equal_paths(const struct proto_path *a,
				const struct proto_path *b)
{
	uint8_t x[PROTO_PATH_LEN], y[PROTO_PATH_LEN];

	rdmamsg__path_encode(a, x);
	rdmamsg__path_encode(b, y);
	must(!memcmp(x, y, sizeof(x)));
}

static void must_be_equal(const struct proto_setup *a,
			  const struct proto_setup *b)
{
	must(a->recv_size == b->recv_size);
	must(a->recv_depth == b->recv_depth);
	must(a->max_msg == b->max_msg);
	must(a->dead_after_ms == b->dead_after_ms);
	must(a->pieces == b->pieces);
	must(!memcmp(a->session, b->session, sizeof(a->session)));
	must(a->refused == b->refused);
	must(!a->refused || a->limit == b->limit);
	must(a->data_len == b->data_len);
	must(a->path.offer == b->path.offer);
	if (a->path.offer)
		must_be_equal_paths(&a->path, &b->path);
	must(a->has_nonce == b->has_nonce);
	must(!memcmp(a->nonce, b->nonce, sizeof(a->nonce)));
	if (a->data_len)
		must(!memcmp(a->data, b->data, a->data_len));
}

static void must_be_equal_addresses(const struct proto_addresses *a,
				    const struct proto_addresses *b)
{
	must(a->count == b->count);
	for (uint32_t i = 0; i < a->count; i++)
		must(rdmamsg__address_is_same(&a->at[i], &b->at[i]));
}

static void check_addresses(const uint8_t *data, size_t size)
{
	static uint8_t out[PROTO_ADDRESSES_LEN];
	struct proto_addresses a, got;
	size_t len;

	rdmamsg__setup_addresses(&a, data, size);
	must(a.count <= PROTO_ADDRESSES_MAX);
	for (uint32_t i = 0; i < a.count; i++)
		must(rdmamsg__address_is_sane(&a.at[i]));
	len = rdmamsg__addresses_encode(&a, out);
	must(len == a.count * PROTO_ADDRESS_LEN);
	if (!len)
		return;
	must(!rdmamsg__addresses_decode(&got, out, len));
	must_be_equal_addresses(&got, &a);
}

static void check_range(const struct proto_setup *s, const uint8_t *data,
			size_t size)
{
	must(s->recv_size >= PROTO_RECV_MIN && s->recv_size <= PROTO_MSG_MAX);
	must(s->recv_depth >= 1 && s->recv_depth <= 0x7fffffff);
	must(s->max_msg >= 1 && s->max_msg <= PROTO_MSG_MAX);
	must(s->data_len <= PROTO_SETUP_DATA_MAX);
	if (s->data_len) {
		must(s->data >= data);
		must(s->data + s->data_len <= data + size);
	}
}

static void check_round_trip(const struct proto_setup *s)
{
	static uint8_t out[PROTO_SETUP_MAX], again[PROTO_SETUP_MAX];
	size_t len = rdmamsg__setup_encode(s, out);
	struct proto_setup got;

	must(len <= PROTO_SETUP_MAX && len % 4 == 0);
	must(!rdmamsg__setup_decode(&got, out, len));
	must_be_equal(&got, s);
	must(rdmamsg__setup_encode(&got, again) == len);
	must(!memcmp(out, again, len));
}

/* Returns the decoder's result for the input with one more, empty item. */
static int decode_with(struct proto_setup *s, uint16_t type,
		       const uint8_t *data, size_t size)
{
	uint16_t item[2] = { htole16(type), 0 };
	/* Decode at an odd address. */
	uint8_t *mem = malloc(size + sizeof(item) + 1);
	int err;

	must(mem != NULL);
	memcpy(mem + 1, data, size);
	memcpy(mem + 1 + size, item, sizeof(item));
	err = rdmamsg__setup_decode(s, mem + 1, size + sizeof(item));
	if (!err && s->data_len)
		s->data = data + (s->data - (mem + 1));
	free(mem);
	return err;
}

static void check_extension(const struct proto_setup *s, const uint8_t *data,
			    size_t size)
{
	struct proto_setup got;

	must(!decode_with(&got, UNKNOWN, data, size));
	must_be_equal(&got, s);
	must(decode_with(&got, UNKNOWN | PROTO_SETUP_MUST_KNOW, data, size));
	must(decode_with(&got, PROTO_SETUP_SESSION, data, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proto_setup s;

	if (rdmamsg__setup_decode(&s, data, size))
		return 0;
	check_range(&s, data, size);
	check_addresses(data, size);
	check_round_trip(&s);
	check_extension(&s, data, size);
	return 0;
}
