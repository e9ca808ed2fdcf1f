/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: headers, keys and large messages on the wire, with the same
 * kinds of cases as hello.c.
 */
#include "wire.h"

DEFINE_REFUSED(key)
DEFINE_REFUSED(rndv)

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

/* Encodes a valid body of two keys, for the caller to damage. */
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

static void rndv_encode__with_a_CRC_BEHIND_THE_KEYS(void **state)
{
	uint8_t out[PROTO_RNDV_MAX];
	struct proto_rndv r, got;
	size_t len;

	for (uint32_t n = 1; n <= PROTO_KEYS_MAX; n++) {
		rndv_fill(&r, n);
		r.has_crc = true;
		r.crc = 0x04030201;
		len = rdmamsg__rndv_encode(&r, out);
		assert_int_equal(len, PROTO_RNDV_LEN + n * PROTO_KEY_LEN + 4);
		assert_memory_equal(out + len - 4, "\1\2\3\4", 4);
		assert_int_equal(rdmamsg__rndv_decode(&got, out, len), 0);
		assert_true(got.has_crc);
		assert_int_equal(got.crc, 0x04030201);
		/* cut off: as from a side that has none */
		assert_int_equal(rdmamsg__rndv_decode(&got, out, len - 1), 0);
		assert_false(got.has_crc);
		assert_rndv_equal(&got, &r);
	}
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

/* The body is valid except for a key too many. */
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

/* The sums equal the total only modulo 2^32 or 2^64. */
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

/* random */

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

DEFINE_DAMAGED(rndv, PROTO_RNDV_MAX)

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(rndv_encode__with_a_CRC_BEHIND_THE_KEYS),
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
		cmocka_unit_test_setup(rndv__random_SAME, seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
