/* SPDX-License-Identifier: BSD-2-Clause */
/* The map of queue pair numbers, compared with a plain array. */
#include "base/qpmap.h"

#include <stdbool.h>
#include <stdint.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define NUMBERS	4096		/* in the 24 bits of a QP number */
#define STEPS	200000

static struct lane *ep_of(uint32_t i)
{
	return (struct lane *)(uintptr_t)(64 * (i + 1));
}

/* Half of the numbers are dense, the other half are 2^12 apart. */
static uint32_t number(uint32_t i)
{
	return i < NUMBERS / 2 ? i : (i << 12 & 0xffffff) | (i & 1);
}

static void check_all(const struct qpmap *map, const bool *there)
{
	for (uint32_t i = 0; i < NUMBERS; i++)
		assert_ptr_equal(rdmamsg__qpmap_find(map, number(i)),
				 there[i] ? ep_of(i) : NULL);
}

static void find__after_any_changes_IS_RIGHT(void **state)
{
	static bool there[NUMBERS];
	struct qpmap map = { .entries = NULL };
	uint32_t seed = 1;

	check_all(&map, there);
	for (int step = 0; step < STEPS; step++) {
		uint32_t i;

		seed = seed * 1664525 + 1013904223;
		i = seed >> 8 & (NUMBERS - 1);
		/* the map is sparse in the first half, dense in the second */
		if (step < STEPS / 2 && i % 8)
			continue;
		if (there[i])
			rdmamsg__qpmap_del(&map, number(i));
		else
			assert_int_equal(rdmamsg__qpmap_add(&map, number(i),
							    ep_of(i)), 0);
		there[i] = !there[i];
		if (step % 5000 < 8)
			check_all(&map, there);
	}
	check_all(&map, there);
	for (uint32_t i = 0; i < NUMBERS; i++)
		rdmamsg__qpmap_del(&map, number(i));
	assert_int_equal(map.used, 0);
	rdmamsg__qpmap_free(&map);
}

static void del__nothing_there_IS_FINE(void **state)
{
	struct qpmap map = { .entries = NULL };

	rdmamsg__qpmap_del(&map, 5);
	assert_int_equal(rdmamsg__qpmap_add(&map, 5, ep_of(0)), 0);
	rdmamsg__qpmap_del(&map, 69);
	assert_ptr_equal(rdmamsg__qpmap_find(&map, 5), ep_of(0));
	rdmamsg__qpmap_free(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__after_any_changes_IS_RIGHT),
		cmocka_unit_test(del__nothing_there_IS_FINE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
