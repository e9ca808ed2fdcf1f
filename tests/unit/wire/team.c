/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: FAIL of a team, the records of a meeting and what members tell
 * each other when they connect: round trips, and bytes that are refused.
 */
#include "wire/team.h"

#include <errno.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const struct proto_team_fail sample = {
	.rank = 5, .error = ECONNRESET, .who = RDMAMSG_WHO_PEER,
	.cause = RDMAMSG_CAUSE_ABORTED, .text = "member 5: it was killed",
};

static void encode__then_decode_SAME(void **state)
{
	uint8_t buf[PROTO_TEAM_FAIL_MAX];
	struct proto_team_fail f;
	size_t len = rdmamsg__team_fail_encode(&sample, buf);

	assert_int_equal(len, PROTO_TEAM_FAIL_LEN + strlen(sample.text));
	assert_int_equal(rdmamsg__team_fail_decode(&f, buf, len), 0);
	/* without the padding */
	assert_memory_equal(&f, &sample, offsetof(struct proto_team_fail,
						  text) + sizeof(f.text));
	/* a longer body is that of a later version */
	assert_int_equal(rdmamsg__team_fail_decode(&f, buf, sizeof(buf)), 0);
	/* a text that is too long, or not printable */
	memset(f.text, '\n', sizeof(f.text));
	len = rdmamsg__team_fail_encode(&f, buf);
	assert_int_equal(len, PROTO_TEAM_FAIL_MAX);
	assert_int_equal(rdmamsg__team_fail_decode(&f, buf, len), 0);
	assert_int_equal(strlen(f.text), sizeof(f.text) - 1);
	assert_int_equal(f.text[0], '?');
}

static void decode__wrong_bytes_EPROTO(void **state)
{
	static const struct { size_t at; uint8_t value; } wrong[] = {
		{ 4, 0 }, { 5, 0x10 }, { 8, RDMAMSG_WHO_DEVICE + 1 },
		{ 9, RDMAMSG_CAUSE_CRC + 1 }, { 10, 192 }, { 11, 1 },
		{ 12, '\n' }, { 13, 0x80 },
	};
	uint8_t good[PROTO_TEAM_FAIL_MAX], buf[PROTO_TEAM_FAIL_MAX];
	struct proto_team_fail f = { .rank = 77 };
	size_t len = rdmamsg__team_fail_encode(&sample, good);

	for (size_t i = 0; i < len; i++)
		assert_int_equal(rdmamsg__team_fail_decode(&f, good, i),
				 -EPROTO);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(buf, good, len);
		buf[wrong[i].at] = wrong[i].value;
		assert_int_equal(rdmamsg__team_fail_decode(&f, buf, len),
				 -EPROTO);
	}
	assert_int_equal(f.rank, 77);
}

static void meet__encode_then_decode_SAME(void **state)
{
	static const struct proto_team_meet samples[] = {
		{ .can = false }, { .can = true },
		{ .can = true, .qp_num = 0xffffff, .psn = 0xfffffe },
	};

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		uint8_t buf[PROTO_TEAM_MEET_LEN + 1] = { 0 };
		struct proto_team_meet m;

		rdmamsg__team_meet_encode(&samples[i], buf);
		/* a longer body is that of a later version */
		assert_int_equal(rdmamsg__team_meet_decode(&m, buf,
							   sizeof(buf)), 0);
		assert_int_equal(m.can, samples[i].can);
		assert_int_equal(m.qp_num, samples[i].qp_num);
		assert_int_equal(m.psn, samples[i].psn);
	}
}

static void meet__wrong_bytes_EPROTO(void **state)
{
	static const struct { size_t at; uint8_t value; } wrong[] = {
		{ 0, 2 }, { 3, 1 }, { 7, 1 }, { 11, 1 },
	};
	static const struct proto_team_meet offer = {
		.can = true, .qp_num = 17, .psn = 18,
	};
	uint8_t good[PROTO_TEAM_MEET_LEN], buf[PROTO_TEAM_MEET_LEN];
	struct proto_team_meet m = { .qp_num = 77 };

	rdmamsg__team_meet_encode(&offer, good);
	for (size_t i = 0; i < sizeof(good); i++)
		assert_int_equal(rdmamsg__team_meet_decode(&m, good, i),
				 -EPROTO);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(buf, good, sizeof(buf));
		buf[wrong[i].at] = wrong[i].value;
		assert_int_equal(rdmamsg__team_meet_decode(&m, buf,
							   sizeof(buf)),
				 -EPROTO);
	}
	assert_int_equal(m.qp_num, 77);
}

static void hello__encode_then_decode_SAME(void **state)
{
	static const struct proto_team_hello us = { .size = 5, .rank = 4 };
	uint8_t buf[PROTO_TEAM_HELLO_LEN + 1] = { 0 };
	struct proto_team_hello h = { 0 };

	rdmamsg__team_hello_encode(&us, buf);
	assert_int_equal(rdmamsg__team_hello_decode(&h, buf,
						    PROTO_TEAM_HELLO_LEN), 0);
	assert_int_equal(h.size, 5);
	assert_int_equal(h.rank, 4);
	for (size_t len = 0; len <= sizeof(buf); len++)
		if (len != PROTO_TEAM_HELLO_LEN)
			assert_int_equal(rdmamsg__team_hello_decode(&h, buf,
								    len),
					 -EPROTO);
	buf[3] = 'm';
	assert_int_equal(rdmamsg__team_hello_decode(&h, buf,
						    PROTO_TEAM_HELLO_LEN),
			 -EPROTO);
}

static void hello__rank_is_beyond_EPROTO(void **state)
{
	static const struct proto_team_hello wrong[] = {
		{ .size = 0, .rank = 0 }, { .size = 5, .rank = 5 },
		{ .size = 5, .rank = UINT32_MAX },
	};
	uint8_t buf[PROTO_TEAM_HELLO_LEN];
	struct proto_team_hello h;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		rdmamsg__team_hello_encode(&wrong[i], buf);
		assert_int_equal(rdmamsg__team_hello_decode(&h, buf,
							    sizeof(buf)),
				 -EPROTO);
	}
}

static void tag__parts_are_APART(void **state)
{
	assert_int_equal(rdmamsg__team_tag(PROTO_TEAM_ALLREDUCE, 0x1f, 0x1ff),
			 0xffff);
	assert_int_equal(rdmamsg__team_tag(PROTO_TEAM_BARRIER, 0, 0x200),
			 0x4000);
	assert_int_equal(rdmamsg__team_tag(PROTO_TEAM_BROADCAST, 33, 1),
			 0x8201);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(encode__then_decode_SAME),
		cmocka_unit_test(decode__wrong_bytes_EPROTO),
		cmocka_unit_test(meet__encode_then_decode_SAME),
		cmocka_unit_test(meet__wrong_bytes_EPROTO),
		cmocka_unit_test(hello__encode_then_decode_SAME),
		cmocka_unit_test(hello__rank_is_beyond_EPROTO),
		cmocka_unit_test(tag__parts_are_APART),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
