/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the hello on the wire: layout byte by byte, every rejection,
 * input from newer and older peers, random structs and damage.
 */
#include "wire.h"

DEFINE_REFUSED(hello)

static const struct proto_hello a_hello = {
	.lowest = 1, .highest = 3, .features = 0x01020304, .credits = 0x1122,
	.reject = PROTO_REJECT_APP, .limit = 0x0a0b0c0d, .data = (const uint8_t *)"hi!",
	.data_len = 3,
};

static const uint8_t a_hello_wire[] = {
	'R', 'M', 'S', 'G', 1, 3, 24, 3, 4, 3, 2, 1, 0x22, 0x11, 1, 0,
	0, 0, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a, 'h', 'i', '!',
};

static void assert_hello_equal(const struct proto_hello *a,
			       const struct proto_hello *b)
{
	assert_int_equal(a->lowest, b->lowest);
	assert_int_equal(a->highest, b->highest);
	assert_int_equal(a->features, b->features);
	assert_int_equal(a->credits, b->credits);
	assert_int_equal(a->reject, b->reject);
	assert_int_equal(a->limit, b->limit);
	assert_int_equal(a->data_len, b->data_len);
	if (a->data_len)
		assert_memory_equal(a->data, b->data, a->data_len);
}

static void hello_accepted(const uint8_t *bytes, size_t len,
			   const struct proto_hello *want)
{
	struct input in = input_new(bytes, len);
	struct proto_hello got = { .data = NULL };

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
	memset(in + 16, 0xff, 4);
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
	/* version 1 is gone, and no hello announces it */
	assert_int_equal(version(1, 1), -EPROTONOSUPPORT);
}

static void hello_version__empty_range_EPROTONOSUPPORT(void **state)
{
	assert_int_equal(version(1, 0), -EPROTONOSUPPORT);
	assert_int_equal(version(PROTO_VERSION + 1, PROTO_VERSION),
			 -EPROTONOSUPPORT);
	assert_int_equal(version(255, 0), -EPROTONOSUPPORT);
}

/* random */

static void rnd_hello(struct proto_hello *h, uint8_t *data)
{
	rnd_bytes(data, PROTO_HELLO_DATA_MAX);
	*h = (struct proto_hello) {
		.lowest = rnd(), .highest = rnd(), .features = rnd(),
		.credits = rnd(), .reject = rnd(), .limit = rnd(),
		.data = data,
		.data_len = rnd_edgy(0, PROTO_HELLO_DATA_MAX),
	};
}

DEFINE_DAMAGED(hello, PROTO_HELLO_MAX)

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
		cmocka_unit_test_setup(hello__random_SAME, seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
