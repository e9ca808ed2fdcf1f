/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the wire codecs: layouts byte by byte, every rejection, input
 * from newer and older peers, and random structs and damage.
 *
 * SEED=number repeats a run of the random part; a failure prints it.
 */
#include "proto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define ROUNDS		20000
#define FILL		0xa5	/* what a failed decode must leave alone */

/*
 * Input in memory of exactly its size, at an odd address, so that the address
 * sanitizer sees an overrun and the undefined one an aligned access.
 */
struct input {
	uint8_t *mem;
	uint8_t *bytes;
};

static struct input input_new(const void *bytes, size_t len)
{
	struct input in = { .mem = malloc(len + 1) };

	assert_non_null(in.mem);
	in.bytes = in.mem + 1;
	if (len)
		memcpy(in.bytes, bytes, len);
	return in;
}

static void assert_untouched(const void *obj, size_t len)
{
	const uint8_t *p = obj;

	while (len--)
		assert_int_equal(*p++, FILL);
}

static void put16(uint8_t *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

#define DEFINE_REFUSED(object)						\
static void object##_refused(const uint8_t *bytes, size_t len)		\
{									\
	struct input in = input_new(bytes, len);			\
	struct proto_##object x;					\
									\
	memset(&x, FILL, sizeof(x));					\
	assert_int_equal(rdmamsg__##object##_decode(&x, in.bytes, len),	\
			 -EPROTO);					\
	assert_untouched(&x, sizeof(x));				\
	free(in.mem);							\
}

DEFINE_REFUSED(hello)
DEFINE_REFUSED(key)
DEFINE_REFUSED(rndv)
DEFINE_REFUSED(setup)

/* hello */

static const struct proto_hello a_hello = {
	.lowest = 1, .highest = 3, .features = 0x01020304, .credits = 0x1122,
	.reject = PROTO_REJECT_APP, .data = (const uint8_t *)"hi!",
	.data_len = 3,
};

static const uint8_t a_hello_wire[] = {
	'R', 'M', 'S', 'G', 1, 3, 24, 3, 4, 3, 2, 1, 0x22, 0x11, 1, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 'h', 'i', '!',
};

static void assert_hello_equal(const struct proto_hello *a,
			       const struct proto_hello *b)
{
	assert_int_equal(a->lowest, b->lowest);
	assert_int_equal(a->highest, b->highest);
	assert_int_equal(a->features, b->features);
	assert_int_equal(a->credits, b->credits);
	assert_int_equal(a->reject, b->reject);
	assert_int_equal(a->data_len, b->data_len);
	if (a->data_len)
		assert_memory_equal(a->data, b->data, a->data_len);
}

static void hello_accepted(const uint8_t *bytes, size_t len,
			   const struct proto_hello *want)
{
	struct input in = input_new(bytes, len);
	struct proto_hello got;

	assert_int_equal(rdmamsg__hello_decode(&got, in.bytes, len), 0);
	assert_hello_equal(&got, want);
	assert_true(got.data >= in.bytes);
	assert_true(got.data + got.data_len <= in.bytes + len);
	free(in.mem);
}

static void hello_encode__any_LAYOUT(void **state)
{
	uint8_t out[PROTO_HELLO_MAX];
	size_t len = rdmamsg__hello_encode(&a_hello, out);

	assert_int_equal(len, sizeof(a_hello_wire));
	assert_memory_equal(out, a_hello_wire, len);
}

static void hello_encode__no_data_SHORTEST(void **state)
{
	struct proto_hello h = { .lowest = 1, .highest = 1 };
	uint8_t out[PROTO_HELLO_MAX];

	assert_int_equal(rdmamsg__hello_encode(&h, out), PROTO_HELLO_LEN);
	hello_accepted(out, PROTO_HELLO_LEN, &h);
}

static void hello_encode__most_data_LONGEST(void **state)
{
	uint8_t data[PROTO_HELLO_DATA_MAX] = { 1, 2, 3 };
	struct proto_hello h = {
		.data = data, .data_len = sizeof(data),
	};
	uint8_t out[PROTO_HELLO_MAX];

	assert_int_equal(rdmamsg__hello_encode(&h, out), PROTO_HELLO_MAX);
	hello_accepted(out, PROTO_HELLO_MAX, &h);
}

static void hello_decode__exact_OK(void **state)
{
	hello_accepted(a_hello_wire, sizeof(a_hello_wire), &a_hello);
}

static void hello_decode__zero_padding_OK(void **state)
{
	uint8_t in[196] = { 0 };

	memcpy(in, a_hello_wire, sizeof(a_hello_wire));
	hello_accepted(in, PROTO_HELLO_MAX, &a_hello);
	hello_accepted(in, sizeof(in), &a_hello);
}

static void hello_decode__newer_and_longer_OK(void **state)
{
	uint8_t in[PROTO_HELLO_MAX] = { 0 };
	struct proto_hello want = a_hello;

	memcpy(in, a_hello_wire, PROTO_HELLO_LEN);
	in[5] = want.highest = 200;
	in[6] = 41;
	memset(in + PROTO_HELLO_LEN, 0xee, 41 - PROTO_HELLO_LEN);
	memcpy(in + 41, "hi!", 3);
	hello_accepted(in, 44, &want);
	hello_accepted(in, sizeof(in), &want);
	hello_refused(in, 43);
}

static void hello_decode__reserved_set_SKIPPED(void **state)
{
	uint8_t in[sizeof(a_hello_wire)];

	memcpy(in, a_hello_wire, sizeof(in));
	memset(in + 16, 0xff, 8);
	hello_accepted(in, sizeof(in), &a_hello);
}

static void hello_decode__unknown_reject_OK(void **state)
{
	uint8_t in[sizeof(a_hello_wire)];
	struct proto_hello want = a_hello;

	memcpy(in, a_hello_wire, sizeof(in));
	put16(in + 14, 0xabcd);
	want.reject = 0xabcd;
	hello_accepted(in, sizeof(in), &want);
}

static void hello_decode__truncated_EPROTO(void **state)
{
	size_t len;

	for (len = 0; len < sizeof(a_hello_wire); len++)
		hello_refused(a_hello_wire, len);
}

static void hello_decode__nothing_EPROTO(void **state)
{
	struct proto_hello h;

	assert_int_equal(rdmamsg__hello_decode(&h, NULL, 0), -EPROTO);
}

static void hello_decode__magic_EPROTO(void **state)
{
	uint8_t in[PROTO_HELLO_MAX] = { 0 };
	int i;

	hello_refused(in, sizeof(in));
	for (i = 0; i < 4; i++) {
		memcpy(in, a_hello_wire, sizeof(a_hello_wire));
		in[i] ^= 0x20;
		hello_refused(in, sizeof(in));
	}
}

static void hello_decode__own_length_EPROTO(void **state)
{
	uint8_t in[PROTO_HELLO_MAX] = { 0 };
	int len;

	memcpy(in, a_hello_wire, sizeof(a_hello_wire));
	for (len = 0; len < 256; len++) {
		if (len >= PROTO_HELLO_LEN && len <= PROTO_HELLO_MAX - 3)
			continue;
		in[6] = len;
		hello_refused(in, sizeof(in));
	}
}

static void hello_decode__data_length_EPROTO(void **state)
{
	uint8_t in[512] = { 0 };

	memcpy(in, a_hello_wire, sizeof(a_hello_wire));
	in[7] = PROTO_HELLO_DATA_MAX + 1;
	hello_refused(in, sizeof(in));
	in[7] = 255;
	hello_refused(in, sizeof(in));
}

static void hello_decode__both_lengths_EPROTO(void **state)
{
	uint8_t in[PROTO_HELLO_MAX] = { 0 };

	memcpy(in, a_hello_wire, sizeof(a_hello_wire));
	in[6] = PROTO_HELLO_LEN + 1;
	in[7] = PROTO_HELLO_DATA_MAX;
	hello_refused(in, sizeof(in));
	/* Their sum must not be taken modulo 256. */
	in[6] = 255;
	in[7] = 1;
	hello_refused(in, sizeof(in));
}

static int version(uint8_t lowest, uint8_t highest)
{
	struct proto_hello peer = { .lowest = lowest, .highest = highest };

	return rdmamsg__hello_version(&peer);
}

static void hello_version__in_common_HIGHEST(void **state)
{
	assert_int_equal(version(1, PROTO_VERSION), PROTO_VERSION);
	assert_int_equal(version(PROTO_VERSION, PROTO_VERSION), PROTO_VERSION);
	assert_int_equal(version(1, PROTO_VERSION + 1), PROTO_VERSION);
	assert_int_equal(version(0, 255), PROTO_VERSION);
	assert_int_equal(version(PROTO_VERSION, 255), PROTO_VERSION);
}

static void hello_version__too_new_EPROTONOSUPPORT(void **state)
{
	assert_int_equal(version(PROTO_VERSION + 1, 255), -EPROTONOSUPPORT);
	assert_int_equal(version(255, 255), -EPROTONOSUPPORT);
}

static void hello_version__too_old_EPROTONOSUPPORT(void **state)
{
	assert_int_equal(version(0, 0), -EPROTONOSUPPORT);
}

static void hello_version__empty_range_EPROTONOSUPPORT(void **state)
{
	assert_int_equal(version(1, 0), -EPROTONOSUPPORT);
	assert_int_equal(version(PROTO_VERSION + 1, PROTO_VERSION),
			 -EPROTONOSUPPORT);
	assert_int_equal(version(255, 0), -EPROTONOSUPPORT);
}

/* header */

static void hdr_encode__any_LAYOUT(void **state)
{
	static const uint8_t wire[PROTO_HDR_LEN] = {
		2, 0x80, 0x22, 0x11, 4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9,
	};
	struct proto_hdr h = {
		.type = PROTO_RNDV, .flags = 0x80, .seen = 0x1122,
		.credit = 0x01020304, .number = 0x05060708, .tag = 0x090a0b0c,
	};
	struct input in = input_new(wire, sizeof(wire));
	struct proto_hdr got;

	rdmamsg__hdr_decode(&got, in.bytes);
	assert_memory_equal(&got, &h, sizeof(h));
	memset(in.bytes, FILL, sizeof(wire));
	rdmamsg__hdr_encode(&h, in.bytes);
	assert_memory_equal(in.bytes, wire, sizeof(wire));
	free(in.mem);
}

/* key */

static const struct proto_key a_key = {
	.access = PROTO_KEY_READ | PROTO_KEY_ATOMIC, .rkey = 0x01020304,
	.region = 0x1112131415161718, .addr = 0x2122232425262728,
	.len = 0x3132,
};

static const uint8_t a_key_wire[PROTO_KEY_LEN] = {
	1, 5, 0, 0, 4, 3, 2, 1,
	0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
	0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
	0x32, 0x31, 0, 0, 0, 0, 0, 0,
};

static void assert_key_equal(const struct proto_key *a,
			     const struct proto_key *b)
{
	assert_int_equal(a->access, b->access);
	assert_int_equal(a->rkey, b->rkey);
	assert_int_equal(a->region, b->region);
	assert_int_equal(a->addr, b->addr);
	assert_int_equal(a->len, b->len);
}

static void key_accepted(const uint8_t *bytes, size_t len,
			 const struct proto_key *want)
{
	struct input in = input_new(bytes, len);
	struct proto_key got;

	assert_int_equal(rdmamsg__key_decode(&got, in.bytes, len), 0);
	assert_key_equal(&got, want);
	free(in.mem);
}

static void key_encode__any_LAYOUT(void **state)
{
	uint8_t out[PROTO_KEY_LEN];

	rdmamsg__key_encode(&a_key, out);
	assert_memory_equal(out, a_key_wire, sizeof(out));
}

static void key_decode__exact_OK(void **state)
{
	key_accepted(a_key_wire, sizeof(a_key_wire), &a_key);
}

static void key_decode__longer_TAIL_SKIPPED(void **state)
{
	uint8_t in[PROTO_KEY_LEN + 5];

	memset(in, 0xff, sizeof(in));
	memcpy(in, a_key_wire, PROTO_KEY_LEN);
	key_accepted(in, sizeof(in), &a_key);
}

static void key_decode__truncated_EPROTO(void **state)
{
	size_t len;

	for (len = 0; len < PROTO_KEY_LEN; len++)
		key_refused(a_key_wire, len);
}

static void key_decode__version_EPROTO(void **state)
{
	uint8_t in[PROTO_KEY_LEN];
	int i;

	memcpy(in, a_key_wire, sizeof(in));
	for (i = 0; i < 256; i++) {
		in[0] = i;
		if (i != PROTO_KEY_VERSION)
			key_refused(in, sizeof(in));
	}
}

static void key_decode__unknown_access_EPROTO(void **state)
{
	uint8_t in[PROTO_KEY_LEN];
	int i;

	memcpy(in, a_key_wire, sizeof(in));
	for (i = 8; i < 256; i++) {
		in[1] = i;
		key_refused(in, sizeof(in));
	}
}

static void key_decode__reserved_set_EPROTO(void **state)
{
	uint8_t in[PROTO_KEY_LEN];

	memcpy(in, a_key_wire, sizeof(in));
	in[2] = 1;
	key_refused(in, sizeof(in));
	in[2] = 0;
	in[3] = 1;
	key_refused(in, sizeof(in));
}

static void key_decode__range_wraps_EPROTO(void **state)
{
	uint8_t in[PROTO_KEY_LEN];

	memcpy(in, a_key_wire, sizeof(in));
	put64(in + 16, UINT64_MAX);
	put64(in + 24, 1);
	key_refused(in, sizeof(in));
	put64(in + 24, UINT64_MAX);
	key_refused(in, sizeof(in));
	put64(in + 16, 1);
	key_refused(in, sizeof(in));
}

static void key_decode__range_at_the_end_OK(void **state)
{
	struct proto_key want = a_key;
	uint8_t in[PROTO_KEY_LEN];

	memcpy(in, a_key_wire, sizeof(in));
	put64(in + 16, want.addr = UINT64_MAX);
	put64(in + 24, want.len = 0);
	key_accepted(in, sizeof(in), &want);
	put64(in + 16, want.addr = 0);
	put64(in + 24, want.len = UINT64_MAX);
	key_accepted(in, sizeof(in), &want);
}

/* rndv */

static void rndv_fill(struct proto_rndv *r, uint32_t count)
{
	uint32_t i;

	*r = (struct proto_rndv) { .count = count };
	for (i = 0; i < count; i++) {
		r->keys[i] = a_key;
		r->keys[i].rkey += i;
		r->keys[i].len = 1000 + i;
		r->total += r->keys[i].len;
	}
}

/* A valid body of two keys, to be damaged. */
static size_t rndv_bytes(uint8_t out[static PROTO_RNDV_MAX])
{
	struct proto_rndv r;

	rndv_fill(&r, 2);
	return rdmamsg__rndv_encode(&r, out);
}

static uint8_t *rndv_key(uint8_t *body, int i)
{
	return body + PROTO_RNDV_LEN + i * PROTO_KEY_LEN;
}

static void assert_rndv_equal(const struct proto_rndv *a,
			      const struct proto_rndv *b)
{
	uint32_t i;

	assert_int_equal(a->total, b->total);
	assert_int_equal(a->count, b->count);
	for (i = 0; i < a->count; i++)
		assert_key_equal(&a->keys[i], &b->keys[i]);
}

static void rndv_accepted(const uint8_t *bytes, size_t len,
			  const struct proto_rndv *want)
{
	struct input in = input_new(bytes, len);
	struct proto_rndv got;

	assert_int_equal(rdmamsg__rndv_decode(&got, in.bytes, len), 0);
	assert_rndv_equal(&got, want);
	free(in.mem);
}

static void rndv_encode__any_LAYOUT(void **state)
{
	struct proto_rndv r = {
		.total = 0x3132, .count = 1, .keys = { a_key },
	};
	uint8_t out[PROTO_RNDV_MAX];

	assert_int_equal(rdmamsg__rndv_encode(&r, out), 40);
	assert_memory_equal(out, "\1\0\0\0\x32\x31\0\0", 8);
	assert_memory_equal(out + 8, a_key_wire, PROTO_KEY_LEN);
}

static void rndv_decode__every_count_OK(void **state)
{
	uint8_t out[PROTO_RNDV_MAX];
	struct proto_rndv r;
	uint32_t n;
	size_t len;

	for (n = 1; n <= PROTO_KEYS_MAX; n++) {
		rndv_fill(&r, n);
		len = rdmamsg__rndv_encode(&r, out);
		assert_int_equal(len, PROTO_RNDV_LEN + n * PROTO_KEY_LEN);
		rndv_accepted(out, len, &r);
	}
}

static void rndv_decode__largest_OK(void **state)
{
	uint8_t out[PROTO_RNDV_MAX];
	struct proto_rndv r;
	size_t len;

	rndv_fill(&r, 1);
	r.total = r.keys[0].len = PROTO_MSG_MAX;
	len = rdmamsg__rndv_encode(&r, out);
	rndv_accepted(out, len, &r);
}

static void rndv_decode__longer_TAIL_SKIPPED(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	struct proto_rndv r;

	memset(in, 0xff, sizeof(in));
	rndv_fill(&r, 2);
	(void)rdmamsg__rndv_encode(&r, in);
	rndv_accepted(in, sizeof(in), &r);
}

static void rndv_decode__truncated_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	size_t len, full = rndv_bytes(in);

	for (len = 0; len < full; len++)
		rndv_refused(in, len);
}

static void rndv_decode__count_EPROTO(void **state)
{
	static const uint32_t bad[] = {
		0, PROTO_KEYS_MAX + 1, 0x08000000, 0x08000002, UINT32_MAX,
	};
	uint8_t in[PROTO_RNDV_MAX + PROTO_KEY_LEN] = { 0 };
	size_t i;

	(void)rndv_bytes(in);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		put32(in, bad[i]);
		rndv_refused(in, sizeof(in));
	}
}

/* Wrong in nothing but being one too many. */
static void rndv_decode__seventeen_keys_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX + PROTO_KEY_LEN];
	struct proto_rndv r;

	rndv_fill(&r, PROTO_KEYS_MAX);
	(void)rdmamsg__rndv_encode(&r, in);
	rdmamsg__key_encode(&a_key, rndv_key(in, PROTO_KEYS_MAX));
	put32(in, PROTO_KEYS_MAX + 1);
	put32(in + 4, r.total + a_key.len);
	rndv_refused(in, sizeof(in));
}

static void rndv_decode__no_keys_no_bytes_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_LEN] = { 0 };

	rndv_refused(in, sizeof(in));
}

static void rndv_decode__total_differs_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	size_t len = rndv_bytes(in);

	put32(in + 4, 2000);
	rndv_refused(in, len);
	put32(in + 4, 2002);
	rndv_refused(in, len);
	put32(in + 4, 1000);
	rndv_refused(in, len);
	put32(in + 4, 0);
	rndv_refused(in, len);
}

static void rndv_decode__total_too_large_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	size_t len = rndv_bytes(in);

	put32(in + 4, PROTO_MSG_MAX + 1);
	put64(rndv_key(in, 0) + 24, PROTO_MSG_MAX);
	put64(rndv_key(in, 1) + 24, 1);
	rndv_refused(in, len);
}

/* Sums that only modulo 2^32 or 2^64 are the total. */
static void rndv_decode__sum_wraps_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	size_t len = rndv_bytes(in);

	put32(in + 4, 1000);
	put64(rndv_key(in, 0) + 16, 0);
	put64(rndv_key(in, 1) + 16, 0);
	put64(rndv_key(in, 0) + 24, 0x80000000);
	put64(rndv_key(in, 1) + 24, 0x80000000 + 1000);
	rndv_refused(in, len);
	put64(rndv_key(in, 0) + 24, 0x8000000000000000);
	put64(rndv_key(in, 1) + 24, 0x8000000000000000 + 1000);
	rndv_refused(in, len);
	put64(rndv_key(in, 0) + 24, 1);
	put64(rndv_key(in, 1) + 24, 0x100000000 + 999);
	rndv_refused(in, len);
}

static void rndv_decode__empty_key_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	size_t len = rndv_bytes(in);

	put32(in + 4, 1001);
	put64(rndv_key(in, 0) + 24, 0);
	rndv_refused(in, len);
	put32(in + 4, 1000);
	put64(rndv_key(in, 0) + 24, 1000);
	put64(rndv_key(in, 1) + 24, 0);
	rndv_refused(in, len);
}

static void rndv_decode__not_readable_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	size_t len = rndv_bytes(in);

	rndv_key(in, 1)[1] = PROTO_KEY_WRITE;
	rndv_refused(in, len);
	rndv_key(in, 1)[1] = 0;
	rndv_refused(in, len);
}

static void rndv_decode__bad_key_EPROTO(void **state)
{
	uint8_t in[PROTO_RNDV_MAX];
	size_t len = rndv_bytes(in);

	rndv_key(in, 1)[0] = PROTO_KEY_VERSION + 1;
	rndv_refused(in, len);
	rndv_key(in, 1)[0] = PROTO_KEY_VERSION;
	put64(rndv_key(in, 1) + 16, UINT64_MAX);
	rndv_refused(in, len);
}

/* setup */

/* Room for one item more than we ever send. */
#define SETUP_IN_MAX	(PROTO_SETUP_MAX + 8192)

static const struct proto_setup a_setup = {
	.recv_size = 0x10203, .recv_depth = 0x102, .max_msg = 0x1020304,
	.dead_after_ms = 0x4e20,
	.session = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
	.data = (const uint8_t *)"hello", .data_len = 5,
};

static const uint8_t a_setup_wire[] = {
	1, 0, 4, 0, 3, 2, 1, 0,
	2, 0, 4, 0, 2, 1, 0, 0,
	3, 0, 4, 0, 4, 3, 2, 1,
	4, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	5, 0, 4, 0, 0x20, 0x4e, 0, 0,
	6, 0, 5, 0, 'h', 'e', 'l', 'l', 'o', 0, 0, 0,
};

/* Where the items are in that. */
enum {
	AT_RECV_SIZE = 0, AT_RECV_DEPTH = 8, AT_MAX_MSG = 16, AT_SESSION = 24,
	AT_DEAD_AFTER = 44, AT_DATA = 52, AT_END = 64,
};

static const uint8_t item_at[] = {
	AT_RECV_SIZE, AT_RECV_DEPTH, AT_MAX_MSG, AT_SESSION, AT_DEAD_AFTER,
	AT_DATA, AT_END,
};

_Static_assert(sizeof(a_setup_wire) == AT_END, "items");

struct body {
	size_t len;
	uint8_t bytes[SETUP_IN_MAX];
};

static void add(struct body *b, const void *bytes, size_t len)
{
	assert_true(b->len + len <= sizeof(b->bytes));
	memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
}

static void add_item(struct body *b, uint16_t type, size_t len, uint8_t fill)
{
	static uint8_t value[8192];
	uint8_t head[4];

	put16(head, type);
	put16(head + 2, len);
	memset(value, 0, sizeof(value));
	memset(value, fill, len);
	add(b, head, sizeof(head));
	add(b, value, (len + 3) & ~(size_t)3);
}

static void body_init(struct body *b)
{
	b->len = 0;
	add(b, a_setup_wire, sizeof(a_setup_wire));
}

/* The body without the item at from, which ends where the next one starts. */
static void body_init_without(struct body *b, size_t from, size_t to)
{
	b->len = 0;
	add(b, a_setup_wire, from);
	add(b, a_setup_wire + to, AT_END - to);
}

static void assert_setup_equal(const struct proto_setup *a,
			       const struct proto_setup *b)
{
	assert_int_equal(a->recv_size, b->recv_size);
	assert_int_equal(a->recv_depth, b->recv_depth);
	assert_int_equal(a->max_msg, b->max_msg);
	assert_int_equal(a->dead_after_ms, b->dead_after_ms);
	assert_memory_equal(a->session, b->session, sizeof(a->session));
	assert_int_equal(a->data_len, b->data_len);
	if (a->data_len)
		assert_memory_equal(a->data, b->data, a->data_len);
}

static void setup_accepted(const uint8_t *bytes, size_t len,
			   const struct proto_setup *want)
{
	struct input in = input_new(bytes, len);
	struct proto_setup got;

	assert_int_equal(rdmamsg__setup_decode(&got, in.bytes, len), 0);
	assert_setup_equal(&got, want);
	free(in.mem);
}

static void setup_encode__any_LAYOUT(void **state)
{
	uint8_t out[PROTO_SETUP_MAX];
	size_t len = rdmamsg__setup_encode(&a_setup, out);

	assert_int_equal(len, sizeof(a_setup_wire));
	assert_memory_equal(out, a_setup_wire, len);
}

static void setup_encode__most_data_FITS(void **state)
{
	static uint8_t data[PROTO_SETUP_DATA_MAX];
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	memset(data, 'x', sizeof(data));
	s.data = data;
	s.data_len = sizeof(data);
	len = rdmamsg__setup_encode(&s, out);
	assert_true(len <= PROTO_SETUP_MAX);
	setup_accepted(out, len, &s);
}

static void setup_encode__optional_LEFT_OUT(void **state)
{
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];

	s.dead_after_ms = s.data_len = 0;
	assert_int_equal(rdmamsg__setup_encode(&s, out), AT_DEAD_AFTER);
	setup_accepted(out, AT_DEAD_AFTER, &s);
}

static void setup_decode__every_padding_OK(void **state)
{
	struct proto_setup s = a_setup;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len;

	for (s.data_len = 1; s.data_len <= 5; s.data_len++) {
		len = rdmamsg__setup_encode(&s, out);
		assert_int_equal(len % 4, 0);
		setup_accepted(out, len, &s);
	}
}

static void setup_decode__any_order_OK(void **state)
{
	struct body b = { .len = 0 };
	int i;

	for (i = 5; i >= 0; i--)
		add(&b, a_setup_wire + item_at[i], item_at[i + 1] - item_at[i]);
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__empty_data_OK(void **state)
{
	struct proto_setup want = a_setup;
	struct body b;

	body_init_without(&b, AT_DATA, AT_END);
	add_item(&b, PROTO_SETUP_DATA, 0, 0);
	want.data_len = 0;
	setup_accepted(b.bytes, b.len, &want);
}

static void setup_decode__unknown_SKIPPED(void **state)
{
	struct body b = { .len = 0 };

	add_item(&b, 0, 0, 0);
	add_item(&b, 7, 0, 0);
	add_item(&b, 31, 1, 0xff);
	add_item(&b, 32, 2, 0xff);
	add_item(&b, 33, 3, 0xff);
	add_item(&b, 0x7fff, 8000, 0xff);
	add(&b, a_setup_wire, sizeof(a_setup_wire));
	add_item(&b, 0x100, 5, 0xff);
	setup_accepted(b.bytes, b.len, &a_setup);
}

/* A newer protocol may let them repeat; we cannot know. */
static void setup_decode__unknown_repeated_SKIPPED(void **state)
{
	struct body b;

	body_init(&b);
	add_item(&b, 7, 4, 1);
	add_item(&b, 7, 4, 2);
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__unknown_must_know_EPROTO(void **state)
{
	static const uint16_t types[] = { 0, 7, 31, 32, 33, 38, 0x7fff };
	struct body b;
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
		body_init(&b);
		add_item(&b, types[i] | PROTO_SETUP_MUST_KNOW, 4, 1);
		setup_refused(b.bytes, b.len);
	}
}

static void setup_decode__known_must_know_OK(void **state)
{
	struct body b;
	int i;

	body_init(&b);
	for (i = 0; i < 6; i++)
		b.bytes[item_at[i] + 1] = PROTO_SETUP_MUST_KNOW >> 8;
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__known_longer_TAIL_SKIPPED(void **state)
{
	struct body b = { .len = 0 };
	uint8_t item[4 + 16 + 8];
	int i;

	for (i = 0; i < 5; i++) {
		size_t len = item_at[i + 1] - item_at[i];

		memset(item, 0xff, sizeof(item));
		memcpy(item, a_setup_wire + item_at[i], len);
		put16(item + 2, len - 4 + 8);
		add(&b, item, len + 8);
	}
	add(&b, a_setup_wire + AT_DATA, AT_END - AT_DATA);
	setup_accepted(b.bytes, b.len, &a_setup);
}

static void setup_decode__known_shorter_EPROTO(void **state)
{
	struct body b;
	size_t len;
	int i;

	for (i = 0; i < 5; i++) {
		for (len = 0; len < a_setup_wire[item_at[i] + 2]; len++) {
			body_init_without(&b, item_at[i], item_at[i + 1]);
			add_item(&b, i + 1, len, 1);
			setup_refused(b.bytes, b.len);
		}
	}
}

static void setup_decode__repeated_EPROTO(void **state)
{
	struct body b;
	int i;

	for (i = 0; i < 6; i++) {
		body_init(&b);
		add(&b, a_setup_wire + item_at[i], item_at[i + 1] - item_at[i]);
		setup_refused(b.bytes, b.len);
		b.bytes[AT_END + 1] = PROTO_SETUP_MUST_KNOW >> 8;
		setup_refused(b.bytes, b.len);
	}
}

static void setup_decode__repeated_empty_data_EPROTO(void **state)
{
	struct body b;

	body_init_without(&b, AT_DATA, AT_END);
	add_item(&b, PROTO_SETUP_DATA, 0, 0);
	add_item(&b, PROTO_SETUP_DATA, 0, 0);
	setup_refused(b.bytes, b.len);
}

static void setup_decode__required_missing_EPROTO(void **state)
{
	struct body b;
	int i;

	for (i = 0; i < 4; i++) {
		body_init_without(&b, item_at[i], item_at[i + 1]);
		setup_refused(b.bytes, b.len);
	}
	setup_refused(NULL, 0);
}

static void setup_decode__optional_missing_OK(void **state)
{
	struct proto_setup want = a_setup;
	struct body b;

	want.dead_after_ms = 0;
	body_init_without(&b, AT_DEAD_AFTER, AT_DATA);
	setup_accepted(b.bytes, b.len, &want);
	want = a_setup;
	want.data_len = 0;
	body_init_without(&b, AT_DATA, AT_END);
	setup_accepted(b.bytes, b.len, &want);
}

/* Cut anywhere but between optional items. */
static void setup_decode__truncated_EPROTO(void **state)
{
	size_t len;

	for (len = 0; len < AT_END; len++)
		if (len != AT_DEAD_AFTER && len != AT_DATA)
			setup_refused(a_setup_wire, len);
}

static void setup_decode__trailing_bytes_EPROTO(void **state)
{
	struct body b;
	int i;

	body_init(&b);
	for (i = 1; i < 4; i++) {
		add(&b, "", 1);
		setup_refused(b.bytes, b.len);
	}
}

static void setup_decode__item_overruns_EPROTO(void **state)
{
	struct body b;

	body_init(&b);
	put16(b.bytes + AT_DATA + 2, 9);
	setup_refused(b.bytes, b.len);
	put16(b.bytes + AT_DATA + 2, 0xffff);
	setup_refused(b.bytes, b.len);
	put16(b.bytes + AT_RECV_SIZE + 2, 0xfffd);
	setup_refused(b.bytes, b.len);
}

static void setup_decode__padding_set_EPROTO(void **state)
{
	struct body b;
	int i;

	for (i = 1; i <= 3; i++) {
		body_init(&b);
		b.bytes[AT_END - i] = 1;
		setup_refused(b.bytes, b.len);
	}
	body_init(&b);
	add_item(&b, 7, 1, 1);
	b.bytes[b.len - 1] = 1;
	setup_refused(b.bytes, b.len);
}

static void setup_decode__too_much_data_EPROTO(void **state)
{
	struct body b;

	body_init_without(&b, AT_DATA, AT_END);
	add_item(&b, PROTO_SETUP_DATA, PROTO_SETUP_DATA_MAX + 1, 1);
	setup_refused(b.bytes, b.len);
}

static void setup_value(size_t at, uint32_t value, int ok)
{
	struct proto_setup got;
	struct body b;

	body_init(&b);
	put32(b.bytes + at + 4, value);
	if (!ok)
		setup_refused(b.bytes, b.len);
	else
		assert_int_equal(rdmamsg__setup_decode(&got, b.bytes, b.len),
				 0);
}

static void setup_decode__recv_size_RANGE(void **state)
{
	setup_value(AT_RECV_SIZE, 0, 0);
	setup_value(AT_RECV_SIZE, PROTO_RECV_MIN - 1, 0);
	setup_value(AT_RECV_SIZE, PROTO_RECV_MIN, 1);
	setup_value(AT_RECV_SIZE, PROTO_MSG_MAX, 1);
	setup_value(AT_RECV_SIZE, PROTO_MSG_MAX + 1, 0);
	setup_value(AT_RECV_SIZE, UINT32_MAX, 0);
}

static void setup_decode__recv_depth_RANGE(void **state)
{
	setup_value(AT_RECV_DEPTH, 0, 0);
	setup_value(AT_RECV_DEPTH, 1, 1);
	setup_value(AT_RECV_DEPTH, PROTO_DEPTH_MAX, 1);
	setup_value(AT_RECV_DEPTH, PROTO_DEPTH_MAX + 1, 0);
	setup_value(AT_RECV_DEPTH, UINT32_MAX, 0);
}

static void setup_decode__max_msg_RANGE(void **state)
{
	setup_value(AT_MAX_MSG, 0, 0);
	setup_value(AT_MAX_MSG, 1, 1);
	setup_value(AT_MAX_MSG, PROTO_MSG_MAX, 1);
	setup_value(AT_MAX_MSG, PROTO_MSG_MAX + 1, 0);
	setup_value(AT_MAX_MSG, UINT32_MAX, 0);
}

static void setup_decode__dead_after_ANY(void **state)
{
	setup_value(AT_DEAD_AFTER, 0, 1);
	setup_value(AT_DEAD_AFTER, UINT32_MAX, 1);
}

/* random */

static uint64_t rng;

static uint64_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* Edges are where the bugs are: powers of two and their neighbours. */
static uint64_t rnd_edgy(uint64_t low, uint64_t high)
{
	uint64_t v = rnd();

	if (v & 1)
		v = (UINT64_C(1) << (rnd() & 63)) + (v >> 1) % 3 - 1;
	if (v < low || v > high)
		v = high - low == UINT64_MAX ? v : low + v % (high - low + 1);
	return v;
}

static void rnd_bytes(uint8_t *p, size_t len)
{
	while (len--)
		*p++ = rnd();
}

static void rnd_hello(struct proto_hello *h, uint8_t *data)
{
	rnd_bytes(data, PROTO_HELLO_DATA_MAX);
	*h = (struct proto_hello) {
		.lowest = rnd(), .highest = rnd(), .features = rnd(),
		.credits = rnd(), .reject = rnd(), .data = data,
		.data_len = rnd_edgy(0, PROTO_HELLO_DATA_MAX),
	};
}

static void rnd_key(struct proto_key *k, uint64_t len)
{
	*k = (struct proto_key) {
		.access = PROTO_KEY_READ | (rnd() & 7), .rkey = rnd(),
		.region = rnd(), .addr = rnd_edgy(0, UINT64_MAX - len),
		.len = len,
	};
}

static void rnd_rndv(struct proto_rndv *r)
{
	uint32_t i;

	*r = (struct proto_rndv) { .count = rnd_edgy(1, PROTO_KEYS_MAX) };
	for (i = 0; i < r->count; i++) {
		rnd_key(&r->keys[i],
			rnd_edgy(1, PROTO_MSG_MAX / PROTO_KEYS_MAX));
		r->total += r->keys[i].len;
	}
}

static void rnd_setup(struct proto_setup *s, uint8_t *data)
{
	*s = (struct proto_setup) {
		.recv_size = rnd_edgy(PROTO_RECV_MIN, PROTO_MSG_MAX),
		.recv_depth = rnd_edgy(1, PROTO_DEPTH_MAX),
		.max_msg = rnd_edgy(1, PROTO_MSG_MAX),
		.dead_after_ms = rnd_edgy(0, UINT32_MAX), .data = data,
		.data_len = rnd_edgy(0, PROTO_SETUP_DATA_MAX),
	};
	rnd_bytes(s->session, sizeof(s->session));
	rnd_bytes(data, s->data_len);
}

/* Overwrite a few bytes, and sometimes cut; returns the new length. */
static size_t damage(uint8_t *p, size_t len)
{
	int n = 1 + rnd() % 3;

	while (n--)
		p[rnd() % len] = rnd() & 1 ? rnd() : 1u << (rnd() & 7);
	return rnd() % 8 ? len : rnd() % len;
}

/*
 * Whatever is accepted after the damage is something we could have sent: it
 * survives another round trip unchanged.
 */
#define DEFINE_DAMAGED(object, max)					\
static void object##_damaged(uint8_t *bytes, size_t len)		\
{									\
	struct proto_##object x, y;					\
	struct input in;						\
	uint8_t out[max];						\
									\
	len = damage(bytes, len);					\
	in = input_new(bytes, len);					\
	memset(&x, FILL, sizeof(x));					\
	if (rdmamsg__##object##_decode(&x, in.bytes, len)) {		\
		assert_untouched(&x, sizeof(x));			\
	} else {							\
		len = rdmamsg__##object##_encode(&x, out);		\
		assert_true(len <= max);				\
		assert_int_equal(rdmamsg__##object##_decode(&y, out,	\
							    len), 0);	\
		assert_##object##_equal(&x, &y);			\
	}								\
	free(in.mem);							\
}

DEFINE_DAMAGED(hello, PROTO_HELLO_MAX)
DEFINE_DAMAGED(rndv, PROTO_RNDV_MAX)
DEFINE_DAMAGED(setup, PROTO_SETUP_MAX)

static int seed(void **state)
{
	const char *s = getenv("SEED");

	rng = s ? strtoull(s, NULL, 0) : 0;
	rng = rng ? rng : UINT64_C(0x9e3779b97f4a7c15);
	fprintf(stderr, "SEED=%llu\n", (unsigned long long)rng);
	return 0;
}

static void hello__random_SAME(void **state)
{
	uint8_t data[PROTO_HELLO_DATA_MAX];
	uint8_t out[PROTO_HELLO_MAX];
	struct proto_hello h;
	size_t len;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		rnd_hello(&h, data);
		len = rdmamsg__hello_encode(&h, out);
		hello_accepted(out, len, &h);
		hello_damaged(out, len);
	}
}

static void rndv__random_SAME(void **state)
{
	uint8_t out[PROTO_RNDV_MAX];
	struct proto_rndv r;
	size_t len;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		rnd_rndv(&r);
		len = rdmamsg__rndv_encode(&r, out);
		rndv_accepted(out, len, &r);
		rndv_damaged(out, len);
	}
}

static void setup__random_SAME(void **state)
{
	static uint8_t data[PROTO_SETUP_DATA_MAX];
	uint8_t out[PROTO_SETUP_MAX];
	struct proto_setup s;
	size_t len;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		rnd_setup(&s, data);
		len = rdmamsg__setup_encode(&s, out);
		setup_accepted(out, len, &s);
		setup_damaged(out, len);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_encode__any_LAYOUT),
		cmocka_unit_test(hello_encode__no_data_SHORTEST),
		cmocka_unit_test(hello_encode__most_data_LONGEST),
		cmocka_unit_test(hello_decode__exact_OK),
		cmocka_unit_test(hello_decode__zero_padding_OK),
		cmocka_unit_test(hello_decode__newer_and_longer_OK),
		cmocka_unit_test(hello_decode__reserved_set_SKIPPED),
		cmocka_unit_test(hello_decode__unknown_reject_OK),
		cmocka_unit_test(hello_decode__truncated_EPROTO),
		cmocka_unit_test(hello_decode__nothing_EPROTO),
		cmocka_unit_test(hello_decode__magic_EPROTO),
		cmocka_unit_test(hello_decode__own_length_EPROTO),
		cmocka_unit_test(hello_decode__data_length_EPROTO),
		cmocka_unit_test(hello_decode__both_lengths_EPROTO),
		cmocka_unit_test(hello_version__in_common_HIGHEST),
		cmocka_unit_test(hello_version__too_new_EPROTONOSUPPORT),
		cmocka_unit_test(hello_version__too_old_EPROTONOSUPPORT),
		cmocka_unit_test(hello_version__empty_range_EPROTONOSUPPORT),
		cmocka_unit_test(hdr_encode__any_LAYOUT),
		cmocka_unit_test(key_encode__any_LAYOUT),
		cmocka_unit_test(key_decode__exact_OK),
		cmocka_unit_test(key_decode__longer_TAIL_SKIPPED),
		cmocka_unit_test(key_decode__truncated_EPROTO),
		cmocka_unit_test(key_decode__version_EPROTO),
		cmocka_unit_test(key_decode__unknown_access_EPROTO),
		cmocka_unit_test(key_decode__reserved_set_EPROTO),
		cmocka_unit_test(key_decode__range_wraps_EPROTO),
		cmocka_unit_test(key_decode__range_at_the_end_OK),
		cmocka_unit_test(rndv_encode__any_LAYOUT),
		cmocka_unit_test(rndv_decode__every_count_OK),
		cmocka_unit_test(rndv_decode__largest_OK),
		cmocka_unit_test(rndv_decode__longer_TAIL_SKIPPED),
		cmocka_unit_test(rndv_decode__truncated_EPROTO),
		cmocka_unit_test(rndv_decode__count_EPROTO),
		cmocka_unit_test(rndv_decode__seventeen_keys_EPROTO),
		cmocka_unit_test(rndv_decode__no_keys_no_bytes_EPROTO),
		cmocka_unit_test(rndv_decode__total_differs_EPROTO),
		cmocka_unit_test(rndv_decode__total_too_large_EPROTO),
		cmocka_unit_test(rndv_decode__sum_wraps_EPROTO),
		cmocka_unit_test(rndv_decode__empty_key_EPROTO),
		cmocka_unit_test(rndv_decode__not_readable_EPROTO),
		cmocka_unit_test(rndv_decode__bad_key_EPROTO),
		cmocka_unit_test(setup_encode__any_LAYOUT),
		cmocka_unit_test(setup_encode__most_data_FITS),
		cmocka_unit_test(setup_encode__optional_LEFT_OUT),
		cmocka_unit_test(setup_decode__every_padding_OK),
		cmocka_unit_test(setup_decode__any_order_OK),
		cmocka_unit_test(setup_decode__empty_data_OK),
		cmocka_unit_test(setup_decode__unknown_SKIPPED),
		cmocka_unit_test(setup_decode__unknown_repeated_SKIPPED),
		cmocka_unit_test(setup_decode__unknown_must_know_EPROTO),
		cmocka_unit_test(setup_decode__known_must_know_OK),
		cmocka_unit_test(setup_decode__known_longer_TAIL_SKIPPED),
		cmocka_unit_test(setup_decode__known_shorter_EPROTO),
		cmocka_unit_test(setup_decode__repeated_EPROTO),
		cmocka_unit_test(setup_decode__repeated_empty_data_EPROTO),
		cmocka_unit_test(setup_decode__required_missing_EPROTO),
		cmocka_unit_test(setup_decode__optional_missing_OK),
		cmocka_unit_test(setup_decode__truncated_EPROTO),
		cmocka_unit_test(setup_decode__trailing_bytes_EPROTO),
		cmocka_unit_test(setup_decode__item_overruns_EPROTO),
		cmocka_unit_test(setup_decode__padding_set_EPROTO),
		cmocka_unit_test(setup_decode__too_much_data_EPROTO),
		cmocka_unit_test(setup_decode__recv_size_RANGE),
		cmocka_unit_test(setup_decode__recv_depth_RANGE),
		cmocka_unit_test(setup_decode__max_msg_RANGE),
		cmocka_unit_test(setup_decode__dead_after_ANY),
		cmocka_unit_test_setup(hello__random_SAME, seed),
		cmocka_unit_test_setup(rndv__random_SAME, seed),
		cmocka_unit_test_setup(setup__random_SAME, seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
