/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: the subscribers that a publisher counts, within its bounds. */
#include "group/audience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct subscriber room[AUDIENCE_MAX];
static struct audience a;

static int set_up(void **state)
{
	a = (struct audience){ .members = room };
	return 0;
}

static struct carrier_peer place(uint32_t n)
{
	return (struct carrier_peer){ .qpn = n };
}

static struct subscriber *hear(uint32_t n, uint64_t now)
{
	const struct carrier_peer at = place(n);
	struct subscriber *s = rdmamsg__audience_place(&a, &at);

	if (s)
		s->heard = now;
	return s;
}

static void count__the_same_again_IS_ONE(void **state)
{
	assert_int_equal(rdmamsg__audience_announced(&a), 0);
	assert_false(rdmamsg__audience_is_few(0));
	for (uint32_t n = 0; n < AUDIENCE_FEW; n++) {
		assert_ptr_equal(hear(n, 1), hear(n, 2));
		assert_int_equal(rdmamsg__audience_announced(&a), n + 1);
		assert_true(rdmamsg__audience_is_few((uint8_t)(n + 1)));
	}
	assert_false(rdmamsg__audience_is_few(AUDIENCE_FEW + 1));
}

static void count__beyond_the_room_IS_MANY(void **state)
{
	for (uint32_t n = 0; n < AUDIENCE_MAX; n++)
		assert_non_null(hear(n, 1));
	assert_int_equal(rdmamsg__audience_announced(&a), AUDIENCE_MAX);
	assert_null(hear(AUDIENCE_MAX, 1));
	assert_int_equal(rdmamsg__audience_announced(&a), FRAME_AUDIENCE_MANY);
	assert_int_equal(a.count, AUDIENCE_MAX);
	/* those that are known still report */
	assert_non_null(hear(0, 2));
}

/* They were told to report seldom, and some are not known. */
static void count__one_of_more_goes_STAY_MANY(void **state)
{
	const uint64_t many = 4ull * rdmamsg__audience_pause(
							FRAME_AUDIENCE_MANY);

	for (uint32_t n = 0; n < AUDIENCE_MAX; n++)
		assert_non_null(hear(n, 1000));
	assert_null(hear(AUDIENCE_MAX, 1000));
	assert_null(rdmamsg__audience_gone(&a, 1000));
	rdmamsg__audience_forget(&a, &a.members[0]);
	assert_int_equal(rdmamsg__audience_announced(&a), FRAME_AUDIENCE_MANY);
	assert_null(rdmamsg__audience_gone(&a, 1000 + many / 2));
	for (uint32_t n = 1; n < AUDIENCE_MAX; n++)
		assert_non_null(hear(n, 1000 + many));
	assert_null(rdmamsg__audience_gone(&a, 1000 + many));
	assert_int_equal(rdmamsg__audience_announced(&a), AUDIENCE_MAX - 1);
}

static void gone__silent_for_pauses_IS_FORGOTTEN(void **state)
{
	const uint32_t pause = rdmamsg__audience_pause(2);
	struct subscriber *s;
	struct carrier_peer at = place(1);

	hear(1, 1000);
	hear(2, 1000 + pause);
	/* one lost report, or two, is no reason */
	assert_null(rdmamsg__audience_gone(&a, 1000 + 3 * pause));
	s = rdmamsg__audience_gone(&a, 1001 + 4 * pause);
	assert_non_null(s);
	assert_int_equal(s->at.qpn, 1);
	rdmamsg__audience_forget(&a, s);
	assert_null(rdmamsg__audience_find(&a, &at));
	at = place(2);
	assert_non_null(rdmamsg__audience_find(&a, &at));
	assert_null(rdmamsg__audience_gone(&a, 1001 + 4 * pause));
	assert_int_equal(rdmamsg__audience_announced(&a), 1);
}

static void pause__of_many_IS_LONGER(void **state)
{
	uint32_t last = 0;

	for (uint32_t n = 0; n <= FRAME_AUDIENCE_MANY; n++) {
		uint32_t ms = rdmamsg__audience_pause((uint8_t)n);

		assert_true(ms >= last);
		/* what a publisher hears is no load: at most 100 a second */
		assert_true(n * 1000 / ms < 100);
		last = ms;
	}
}

static void rtt__of_all_IS_THE_LONGEST(void **state)
{
	assert_int_equal(rdmamsg__audience_rtt(&a), 0);
	hear(1, 1)->last.rtt = 20;
	hear(2, 1)->last.rtt = 70;
	hear(3, 1)->last.rtt = 30;
	assert_int_equal(rdmamsg__audience_rtt(&a), 70);
}

#define TEST(fn) cmocka_unit_test_setup(fn, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(count__the_same_again_IS_ONE),
		TEST(count__beyond_the_room_IS_MANY),
		TEST(count__one_of_more_goes_STAY_MANY),
		TEST(gone__silent_for_pauses_IS_FORGOTTEN),
		TEST(pause__of_many_IS_LONGER),
		TEST(rtt__of_all_IS_THE_LONGEST),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
