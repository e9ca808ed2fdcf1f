/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: frames of DC: round trips, and bytes that are refused. */
#include "wire/dc.h"
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const struct dc_place place = {
	.dctn = 0x123456, .lid = 0x789a, .mtu = 5, .link = PROTO_OOB_ETHERNET,
	.gid = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
};

static void header__round_trip_SAME(void **state)
{
	static const uint8_t bytes[DCF_LEN] = {
		DCF_CREDIT, 2, 0, 0, 4, 3, 2, 1,
		8, 7, 6, 5, 12, 11, 10, 9, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11,
	};
	uint8_t buf[DCF_LEN];
	struct dc_frame f;

	assert_int_equal(rdmamsg__dcf_decode(&f, bytes, sizeof(bytes)), 0);
	assert_int_equal(f.type, DCF_CREDIT);
	assert_true(f.token == 0x1122334455667788);
	assert_int_equal(f.handle, 0x01020304);
	assert_int_equal(f.number, 0x05060708);
	assert_int_equal(f.tag, 0x090a0b0c);
	rdmamsg__dcf_encode(&f, buf);
	assert_memory_equal(buf, bytes, sizeof(buf));
}

static void header__wrong_EPROTO(void **state)
{
	const struct dc_frame good = { .type = DCF_DATA };
	uint8_t buf[DCF_LEN];
	struct dc_frame f;

	rdmamsg__dcf_encode(&good, buf);
	for (size_t i = 0; i < DCF_LEN; i++)
		assert_int_equal(rdmamsg__dcf_decode(&f, buf, i), -EPROTO);
	buf[0] = 0;
	assert_int_equal(rdmamsg__dcf_decode(&f, buf, DCF_LEN), -EPROTO);
	buf[0] = DCF_TYPE_MAX + 1;
	assert_int_equal(rdmamsg__dcf_decode(&f, buf, DCF_LEN), -EPROTO);
	buf[0] = DCF_TYPE_MAX;
	assert_int_equal(rdmamsg__dcf_decode(&f, buf, DCF_LEN), 0);
	buf[3] = 1;
	assert_int_equal(rdmamsg__dcf_decode(&f, buf, DCF_LEN), -EPROTO);
	buf[3] = 0;
	for (int version = 0; version < 256; version++) {
		buf[1] = (uint8_t)version;
		assert_int_equal(rdmamsg__dcf_decode(&f, buf, DCF_LEN),
				 version == 2 ? 0 : -EPROTONOSUPPORT);
	}
	/* the whole header of version 1 */
	buf[1] = 1;
	assert_int_equal(rdmamsg__dcf_decode(&f, buf, 16), -EPROTONOSUPPORT);
}

static void answer__round_trip_SAME_OR_EPROTO(void **state)
{
	static const struct { size_t at; uint8_t value; } wrong[] = {
		{ 0, 0 }, { 1, 0 }, { 7, 0x20 }, { 7, 0x26 }, { 7, 0x05 },
		{ 7, 0x35 },
	};
	const struct dc_answer right = {
		.place = place, .ticket = 0x1122334455667788,
	};
	uint8_t good[DCA_LEN], buf[DCA_LEN + 1] = { 0 };
	struct dc_answer p;

	rdmamsg__dca_encode(&right, good);
	assert_int_equal(rdmamsg__dca_decode(&p, good, sizeof(good)), 0);
	assert_memory_equal(&p.place, &place, sizeof(place));
	assert_true(p.ticket == right.ticket);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(buf, good, sizeof(good));
		buf[wrong[i].at] = wrong[i].value;
		assert_int_equal(rdmamsg__dca_decode(&p, buf, DCA_LEN),
				 -EPROTO);
	}
	memcpy(buf, good, sizeof(good));
	memset(buf + 4, 0, 3);		/* no DCT has this number */
	assert_int_equal(rdmamsg__dca_decode(&p, buf, DCA_LEN), -EPROTO);
	assert_int_equal(rdmamsg__dca_decode(&p, good, DCA_LEN - 1), -EPROTO);
	assert_int_equal(rdmamsg__dca_decode(&p, buf, DCA_LEN + 1), -EPROTO);
}

static void hello__round_trip_SAME_OR_EPROTO(void **state)
{
	const struct dc_hello_frame h = {
		.sender = 0x1122334455667788, .key = 0x99aabbccddeeff00,
		.handle = 77, .token = 0xfedcba9876543210, .place = place,
	};
	const struct dc_frame f = { .type = DCF_HELLO };
	uint8_t buf[DCF_HELLO_LEN];
	struct dc_hello_frame got;

	rdmamsg__dcf_encode(&f, buf);
	rdmamsg__dcf_hello_encode(&h, buf);
	assert_int_equal(rdmamsg__dcf_hello_decode(&got, buf, sizeof(buf)), 0);
	assert_true(got.sender == h.sender && got.key == h.key);
	assert_int_equal(got.handle, 77);
	assert_true(got.token == h.token);
	assert_memory_equal(&got.place, &place, sizeof(place));
	assert_int_equal(rdmamsg__dcf_hello_decode(&got, buf, 79), -EPROTO);
	buf[54] = 1;			/* reserved */
	assert_int_equal(rdmamsg__dcf_hello_decode(&got, buf, sizeof(buf)),
			 -EPROTO);
}

static void welcome__round_trip_SAME_OR_EPROTO(void **state)
{
	const struct dc_welcome w = {
		.handle = 5, .token = 6, .eager = DCF_EAGER_MAX,
		.max_msg = PROTO_MSG_MAX,
	};
	uint8_t buf[DCF_WELCOME_LEN] = { DCF_WELCOME, 2 };
	struct dc_welcome got;

	rdmamsg__dcf_welcome_encode(&w, buf);
	assert_int_equal(rdmamsg__dcf_welcome_decode(&got, buf, sizeof(buf)),
			 0);
	assert_int_equal(got.handle, 5);
	assert_true(got.token == 6);
	assert_int_equal(got.eager, DCF_EAGER_MAX);
	assert_int_equal(got.max_msg, PROTO_MSG_MAX);
	assert_int_equal(rdmamsg__dcf_welcome_decode(&got, buf, 47), -EPROTO);
	buf[36]++;
	assert_int_equal(rdmamsg__dcf_welcome_decode(&got, buf, sizeof(buf)),
			 -EPROTO);
	buf[36]--;
	buf[43] |= 0x80;
	assert_int_equal(rdmamsg__dcf_welcome_decode(&got, buf, sizeof(buf)),
			 -EPROTO);
}

/* Only the magic tells whether a sender asks for DC. */
static void request__asks_OR_NOT(void **state)
{
	struct dc_hello h = { .access_key = 1, .sender = 2, .asks = true };
	uint8_t buf[DC_HELLO_LEN];

	for (int i = 0; i < 2; i++) {
		rdmamsg__dc_hello_encode(&h, buf);
		assert_int_equal(buf[4], i ? '0' : '2');
		h = (struct dc_hello){ .asks = i };
		assert_true(rdmamsg__dc_hello_decode(&h, buf, sizeof(buf)));
		assert_int_equal(h.asks, !i);
		assert_int_equal(h.access_key, 1);
		assert_int_equal(h.sender, 2);
		assert_false(h.old);
		h.asks = false;
	}
	/* a sender with frames of version 1 asks, too */
	buf[3] = buf[4] = '1';
	assert_true(rdmamsg__dc_hello_decode(&h, buf, sizeof(buf)));
	assert_true(h.old);
	assert_false(h.asks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header__round_trip_SAME),
		cmocka_unit_test(header__wrong_EPROTO),
		cmocka_unit_test(answer__round_trip_SAME_OR_EPROTO),
		cmocka_unit_test(hello__round_trip_SAME_OR_EPROTO),
		cmocka_unit_test(welcome__round_trip_SAME_OR_EPROTO),
		cmocka_unit_test(request__asks_OR_NOT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
