/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: of many subscribers that miss the same message, few ask before
 * the first one's repair is heard.
 */
#include "base/util.h"
#include "group/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define REPAIR_STEPS	3	/* from a request until all hear the repair */
#define ROUNDS		200

/* Returns how many of 'subscribers' ask, on average. */
static uint32_t asking(uint32_t subscribers)
{
	const uint32_t steps = rdmamsg__backoff_steps(
		(uint8_t)min(subscribers, FRAME_AUDIENCE_MANY + 0u));
	uint64_t seed = 1;
	uint32_t asked = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t at[BACKOFF_STEPS + 1] = { 0 }, first = 1;

		for (uint32_t i = 0; i < subscribers; i++)
			at[rdmamsg__backoff(&seed, steps)]++;
		while (!at[first])
			first++;
		for (uint32_t step = first; step <= BACKOFF_STEPS &&
		     step < first + REPAIR_STEPS; step++)
			asked += at[step];
	}
	return asked / ROUNDS;
}

static void backoff__IS_IN_ITS_BOUNDS(void **state)
{
	uint64_t seed = 7;
	uint32_t seen[BACKOFF_STEPS + 2] = { 0 };

	for (int i = 0; i < 100000; i++) {
		uint32_t step = rdmamsg__backoff(&seed, BACKOFF_STEPS);

		assert_in_range(step, 1, BACKOFF_STEPS);
		seen[step]++;
	}
	for (uint32_t step = 1; step <= BACKOFF_STEPS; step++)
		assert_true(seen[step] > 0);
	assert_in_range(seen[BACKOFF_STEPS], 45000, 55000);
}

static void steps__OF_THE_LOGARITHM_OR_ALL(void **state)
{
	uint64_t seed = 7;

	for (uint32_t n = 1; n < FRAME_AUDIENCE_MANY; n++) {
		const uint32_t steps = rdmamsg__backoff_steps((uint8_t)n);

		assert_in_range(n, 1u << (steps - 1), (1u << steps) - 1);
		for (int i = 0; i < 1000; i++)
			assert_in_range(rdmamsg__backoff(&seed, steps), 1,
					steps);
	}
	assert_int_equal(rdmamsg__backoff_steps(0), BACKOFF_STEPS);
	assert_int_equal(rdmamsg__backoff_steps(FRAME_AUDIENCE_MANY),
			 BACKOFF_STEPS);
}

static void subscribers__many_that_miss_the_same_FEW_ASK(void **state)
{
	for (uint32_t n = 1; n < FRAME_AUDIENCE_MANY; n++)
		assert_true(asking(n) <= min(n, 20u));
	assert_true(asking(500) <= 40);
	assert_true(asking(1000) <= 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backoff__IS_IN_ITS_BOUNDS),
		cmocka_unit_test(steps__OF_THE_LOGARITHM_OR_ALL),
		cmocka_unit_test(subscribers__many_that_miss_the_same_FEW_ASK),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
