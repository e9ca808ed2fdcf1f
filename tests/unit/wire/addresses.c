/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: addresses in SETUP: layout, bounds, and what is refused. */
#include "wire/proto.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct proto_addresses two = {
	.count = 2,
	.at = {
		{ .kind = 4, .port = 0x1234, .ip = { 10, 0, 0, 1 } },
		{ .kind = 6, .port = 7, .ip = { 0xfd, [15] = 1 } },
	},
};

static const uint8_t two_wire[2 * PROTO_ADDRESS_LEN] = {
	4, 0, 0x34, 0x12, 10, 0, 0, 1,
	[20] = 6, 0, 7, 0, 0xfd, [39] = 1,
};

static void encode__two_LAYOUT(void **state)
{
	uint8_t out[PROTO_ADDRESSES_LEN];

	assert_int_equal(rdmamsg__addresses_encode(&two, out),
			 sizeof(two_wire));
	assert_memory_equal(out, two_wire, sizeof(two_wire));
}

static void decode__two_SAME(void **state)
{
	struct proto_addresses got;

	assert_int_equal(rdmamsg__addresses_decode(&got, two_wire,
						   sizeof(two_wire)), 0);
	assert_int_equal(got.count, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(rdmamsg__address_is_same(&got.at[i], &two.at[i]));
}

static void decode__too_many_FIRST_EIGHT(void **state)
{
	uint8_t wire[3000 * PROTO_ADDRESS_LEN];
	struct proto_addresses got;

	/* those behind the eighth are not even looked at */
	memset(wire, 4, sizeof(wire));
	assert_int_equal(rdmamsg__addresses_decode(&got, wire, sizeof(wire)),
			 0);
	assert_int_equal(got.count, PROTO_ADDRESSES_MAX);
}

static void decode__unknown_kind_SKIPPED(void **state)
{
	uint8_t wire[sizeof(two_wire)];
	struct proto_addresses got;

	memcpy(wire, two_wire, sizeof(wire));
	wire[0] = 5;
	assert_int_equal(rdmamsg__addresses_decode(&got, wire, sizeof(wire)),
			 0);
	assert_int_equal(got.count, 1);
	assert_true(rdmamsg__address_is_same(&got.at[0], &two.at[1]));
}

static void decode__bad_length_EPROTO(void **state)
{
	struct proto_addresses got = { .count = 7 };

	for (size_t len = 0; len < sizeof(two_wire); len++)
		if (len != PROTO_ADDRESS_LEN)
			assert_int_equal(rdmamsg__addresses_decode(&got,
					 two_wire, len), -EPROTO);
	assert_int_equal(got.count, 7);
}

static void decode__garbage_EPROTO(void **state)
{
	static const struct proto_address bad[] = {
		{ .kind = 4, .port = 0, .ip = { 10, 0, 0, 1 } },
		{ .kind = 4, .port = 1, .ip = { 0, 0, 0, 0 } },
		{ .kind = 4, .port = 1, .ip = { 224, 0, 0, 1 } },
		{ .kind = 4, .port = 1, .ip = { 255, 255, 255, 255 } },
		{ .kind = 6, .port = 1, .ip = { 0 } },
		{ .kind = 6, .port = 1, .ip = { 0xff, 2, [15] = 1 } },
		{ .kind = 6, .port = 1, .ip = { 0xfe, 0x80, [15] = 1 } },
		{ .kind = 6, .port = 1, .ip = { [10] = 0xff, 0xff, 10, 0, 0,
						1 } },
		{ .kind = 6, .port = 0, .ip = { 0xfd, [15] = 1 } },
	};
	struct proto_addresses got;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t wire[PROTO_ADDRESS_LEN] = {
			bad[i].kind, 0, (uint8_t)bad[i].port,
		};

		memcpy(wire + 4, bad[i].ip, sizeof(bad[i].ip));
		assert_int_equal(rdmamsg__addresses_decode(&got, wire,
							   sizeof(wire)),
				 -EPROTO);
		assert_false(rdmamsg__address_is_sane(&bad[i]));
	}
}

static void setup__with_addresses_SAME(void **state)
{
	static const struct proto_setup s = {
		.recv_size = 8192, .recv_depth = 1, .max_msg = 1,
	};
	uint8_t out[PROTO_SETUP_MAX];
	struct proto_addresses got;
	struct proto_setup decoded;
	size_t len = rdmamsg__setup_encode(&s, out), more;

	more = rdmamsg__setup_add_addresses(out, len, &two);
	assert_int_equal(more, len + 4 + sizeof(two_wire));
	assert_int_equal(rdmamsg__setup_decode(&decoded, out, more), 0);
	rdmamsg__setup_addresses(&got, out, more);
	assert_int_equal(got.count, 2);
	rdmamsg__setup_addresses(&got, out, len);
	assert_int_equal(got.count, 0);
	assert_int_equal(rdmamsg__setup_add_addresses(out, len, &got), len);
	/* a port of 0 */
	out[len + 6] = out[len + 7] = 0;
	assert_int_equal(rdmamsg__setup_decode(&decoded, out, more), -EPROTO);
}

/* Types 13 to 15 are unknown, and skipped. */
static void setup__types_before_addresses_SKIPPED(void **state)
{
	static const struct proto_setup s = {
		.recv_size = 8192, .recv_depth = 1, .max_msg = 1,
	};
	uint8_t out[PROTO_SETUP_MAX + 4];
	struct proto_setup decoded;
	size_t len = rdmamsg__setup_encode(&s, out);

	memset(out + len, 0, 4);
	for (uint8_t type = PROTO_SETUP_PROOF + 1;
	     type < PROTO_SETUP_ADDRESSES; type++) {
		out[len] = type;
		assert_int_equal(rdmamsg__setup_decode(&decoded, out, len + 4),
				 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(encode__two_LAYOUT),
		cmocka_unit_test(decode__two_SAME),
		cmocka_unit_test(decode__too_many_FIRST_EIGHT),
		cmocka_unit_test(decode__unknown_kind_SKIPPED),
		cmocka_unit_test(decode__bad_length_EPROTO),
		cmocka_unit_test(decode__garbage_EPROTO),
		cmocka_unit_test(setup__with_addresses_SAME),
		cmocka_unit_test(setup__types_before_addresses_SKIPPED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
