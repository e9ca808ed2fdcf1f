/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the out-of-band record, byte by byte, with every field out of
 * range and every length. The corpus of tests/fuzz has further records.
 */
#include "wire/proto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static const struct proto_oob sample = {
	.kind = PROTO_OOB_OFFER, .link = PROTO_OOB_ETHERNET, .mtu = 3,
	.has_gid = 1, .qp_num = 0x123456, .psn = 0xabcdef, .lid = 0x7788,
	.resp_res = 5, .init_depth = 9, .pkey = 0x8001,
	.roce = 2,
	.gid = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 },
	.token = { 1, 2, 3 }, .hello_len = PROTO_HELLO_LEN,
};

static size_t encode(uint8_t out[static PROTO_OOB_MAX])
{
	struct proto_oob r = sample;
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.credits = 64,
	};

	(void)rdmamsg__hello_encode(&h, r.hello);
	memset(out, 0xa5, PROTO_OOB_MAX);
	return rdmamsg__oob_encode(&r, out);
}

static void encode__sample_IS_AS_DOCUMENTED(void **state)
{
	static const uint8_t want[] = {
		'R', 'M', 'O', 'B', 1, 0, 88, 0, 1, 2, 3, 1,
		0x56, 0x34, 0x12, 0, 0xef, 0xcd, 0xab, 0, 0x88, 0x77, 5, 9,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1,
		1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 0x80, 64, 0, 24, 0, 2, 0, 'R', 'M', 'S', 'G',
	};
	uint8_t out[PROTO_OOB_MAX];

	assert_int_equal(encode(out), 88);
	assert_memory_equal(out, want, sizeof(want));
	assert_int_equal(out[88], 0xa5);
}

static void decode__sample_GIVES_IT_BACK(void **state)
{
	uint8_t out[PROTO_OOB_MAX];
	size_t len = encode(out);
	struct proto_oob r;

	assert_int_equal(rdmamsg__oob_decode(&r, out, len), 0);
	memset(r.hello, 0, sizeof(r.hello));
	assert_memory_equal(&r, &sample, sizeof(r));
}

static void decode__one_field_off_EPROTO(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		int error;
	} bad[] = {
		{ 0, 'r', -EPROTO }, { 3, 0, -EPROTO },
		{ 4, 2, -EPROTONOSUPPORT }, { 5, 1, -EPROTONOSUPPORT },
		{ 6, 63, -EPROTO }, { 6, 87, -EPROTO }, { 6, 89, -EPROTO },
		{ 7, 1, -EPROTO }, { 8, 0, -EPROTO }, { 8, 4, -EPROTO },
		{ 9, 0, -EPROTO }, { 9, 3, -EPROTO }, { 10, 0, -EPROTO },
		{ 10, 6, -EPROTO }, { 11, 0, -EPROTO }, { 15, 1, -EPROTO },
		{ 19, 1, -EPROTO }, { 58, 63, -EPROTO }, { 58, 65, -EPROTO },
		{ 59, 255, -EPROTO }, { 60, 23, -EPROTO }, { 60, 25, -EPROTO },
		{ 61, 1, -EPROTO }, { 64, 0, -EPROTO },
	};
	uint8_t out[PROTO_OOB_MAX];
	struct proto_oob r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t len = encode(out);

		out[bad[i].at] = bad[i].value;
		if (rdmamsg__oob_decode(&r, out, len) != bad[i].error)
			fail_msg("byte %zu as %u", bad[i].at, bad[i].value);
	}
}

static void length__of_a_beginning_IS_KNOWN_FROM_8_BYTES(void **state)
{
	uint8_t out[PROTO_OOB_MAX];
	size_t len = encode(out);
	struct proto_oob r;

	for (size_t n = 0; n < len; n++) {
		assert_int_equal(rdmamsg__oob_length(out, n), n < 8 ? 0 : 88);
		assert_int_equal(rdmamsg__oob_decode(&r, out, n), -EPROTO);
	}
	assert_int_equal(rdmamsg__oob_decode(&r, out, len + 1), -EPROTO);
}

/* An InfiniBand record without a GID needs a LID; a reject needs neither. */
static void decode__without_a_way_EPROTO(void **state)
{
	uint8_t out[PROTO_OOB_MAX];
	size_t len = encode(out);
	struct proto_oob r;

	out[9] = PROTO_OOB_IB;
	out[11] = 0;
	assert_int_equal(rdmamsg__oob_decode(&r, out, len), 0);
	out[20] = out[21] = 0;
	assert_int_equal(rdmamsg__oob_decode(&r, out, len), -EPROTO);
	out[8] = PROTO_OOB_REJECT;
	memset(out + 9, 0, 31);
	assert_int_equal(rdmamsg__oob_decode(&r, out, len), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encode__sample_IS_AS_DOCUMENTED),
		cmocka_unit_test(decode__sample_GIVES_IT_BACK),
		cmocka_unit_test(decode__one_field_off_EPROTO),
		cmocka_unit_test(length__of_a_beginning_IS_KNOWN_FROM_8_BYTES),
		cmocka_unit_test(decode__without_a_way_EPROTO),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
