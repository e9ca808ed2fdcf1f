/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the table gives each number to one object, reuses numbers as
 * late as possible, and finds objects by number.
 */
#include "base/handles.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static int objects[200];

static void numbers__are_given_ONCE_UP_TO_THE_END(void **state)
{
	struct handles h = { .at = NULL };
	uint32_t number;

	for (uint32_t i = 3; i < 100; i++) {
		assert_int_equal(rdmamsg__handle_give(&h, &objects[i], 3, 100,
						      &number), 0);
		assert_int_equal(number, i);
	}
	assert_int_equal(rdmamsg__handle_give(&h, objects, 3, 100, &number),
			 -EMFILE);
	for (uint32_t i = 0; i < 200; i++)
		assert_ptr_equal(rdmamsg__handle_of(&h, i),
				 i < 3 || i >= 100 ? NULL : &objects[i]);
	rdmamsg__handles_free(&h);
	assert_null(rdmamsg__handle_of(&h, 3));
}

static void number__given_back_IS_THE_LAST_TO_COME(void **state)
{
	struct handles h = { .at = NULL };
	uint32_t first, number, turns = 0;

	assert_int_equal(rdmamsg__handle_give(&h, objects, 0, 64, &first), 0);
	rdmamsg__handle_take(&h, objects, first);
	do {
		assert_int_equal(rdmamsg__handle_give(&h, objects, 0, 64,
						      &number), 0);
		rdmamsg__handle_take(&h, objects, number);
		turns++;
	} while (number != first);
	assert_int_equal(turns, h.size);
	rdmamsg__handles_free(&h);
}

static void number__of_another_object_STAYS(void **state)
{
	struct handles h = { .at = NULL };
	uint32_t number;

	rdmamsg__handle_take(&h, &objects[1], 7);
	assert_int_equal(rdmamsg__handle_give(&h, objects, 0, 8, &number), 0);
	rdmamsg__handle_take(&h, &objects[1], number);
	assert_ptr_equal(rdmamsg__handle_of(&h, number), objects);
	rdmamsg__handles_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers__are_given_ONCE_UP_TO_THE_END),
		cmocka_unit_test(number__given_back_IS_THE_LAST_TO_COME),
		cmocka_unit_test(number__of_another_object_STAYS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
