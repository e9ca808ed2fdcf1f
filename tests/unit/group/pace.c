/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: a publisher sends as many datagrams a second as it may. */
#include "group/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define MS	1000000u	/* ns */

static uint32_t take_all(struct pace *p, uint64_t now)
{
	uint32_t count = 0;

	while (p->tokens || rdmamsg__pace_refill(p, now)) {
		rdmamsg__pace_take(p, 1);
		count++;
	}
	return count;
}

static void rate__over_a_second_IS_KEPT(void **state)
{
	static const uint32_t rates[] = { 100, 25000, 200000, 100000000 };

	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
		uint64_t now = 12345, count = 0;
		struct pace p;

		rdmamsg__pace_init(&p, rates[i], now);
		assert_int_equal(take_all(&p, now), p.burst);
		for (uint32_t ms = 0; ms < 1000; ms++)
			count += take_all(&p, now += MS);
		assert_in_range(count, rates[i] - 1, rates[i]);
	}
}

static void pause__however_long_GIVES_ONE_BURST(void **state)
{
	struct pace p;

	rdmamsg__pace_init(&p, 50000, 0);
	assert_int_equal(take_all(&p, 0), 100);
	assert_int_equal(take_all(&p, 3600000ull * MS), 100);
	assert_int_equal(take_all(&p, UINT64_MAX), 100);
}

static void wait__until_half_a_burst_IS_ENOUGH(void **state)
{
	struct pace p;
	uint32_t us;

	rdmamsg__pace_init(&p, 1000, 0);
	(void)take_all(&p, 0);
	us = rdmamsg__pace_wait(&p);
	assert_in_range(us, 1000 * (p.burst / 2), 1000 * (p.burst / 2) + 1);
	assert_int_equal(take_all(&p, (uint64_t)us * 1000), us / 1000);
}

/* Copies to all are sent together, and paid for afterwards. */
static void tokens__that_are_owed_COME_LATER(void **state)
{
	struct pace p;

	rdmamsg__pace_init(&p, 1000, 0);
	rdmamsg__pace_take(&p, 10);
	assert_int_equal(p.tokens, p.burst - 10);
	rdmamsg__pace_take(&p, p.burst - 10 + 500);
	for (uint64_t ms = 0; ms <= 500; ms++)
		assert_int_equal(take_all(&p, ms * MS), 0);
	assert_int_equal(take_all(&p, 501 * MS), 1);
	assert_int_equal(take_all(&p, 511 * MS), 10);
}

static void rate__none_IS_NO_LIMIT(void **state)
{
	struct pace p;

	rdmamsg__pace_init(&p, 0, 0);
	for (int i = 0; i < 1000; i++) {
		assert_true(p.tokens || rdmamsg__pace_refill(&p, 0));
		rdmamsg__pace_take(&p, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate__over_a_second_IS_KEPT),
		cmocka_unit_test(pause__however_long_GIVES_ONE_BURST),
		cmocka_unit_test(wait__until_half_a_burst_IS_ENOUGH),
		cmocka_unit_test(tokens__that_are_owed_COME_LATER),
		cmocka_unit_test(rate__none_IS_NO_LIMIT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
