/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: contexts and endpoints begin with a cache line, with many
 * different ones, and their whole memory is zero, usable and given back.
 */
#include "base/base.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE	((size_t)sysconf(_SC_PAGESIZE))
#define LINE	64u
#define MANY	200u

static void *begin_of(void *object)
{
	return (char *)object - (uintptr_t)object % PAGE;
}

static bool is_mapped(void *page)
{
	return !msync(page, 1, MS_ASYNC) || errno != ENOMEM;
}

static void objects__of_one_size_BEGIN_AT_MANY_LINES(void **state)
{
	const size_t size = PAGE - 10 * LINE;
	static const uint8_t zeros[LINE];
	unsigned int begun[10 + 1] = { 0 };
	uint8_t *objects[MANY];

	for (unsigned int i = 0; i < MANY; i++) {
		uint8_t *o = rdmamsg__object_new(size);
		size_t at = (uintptr_t)o % PAGE;

		assert_non_null(o);
		assert_int_equal(at % LINE, 0);
		assert_in_range(at / LINE, 0, 10);
		begun[at / LINE]++;
		assert_memory_equal(o, zeros, LINE);
		assert_memory_equal(o + size - LINE, zeros, LINE);
		memset(o, 1, size);
		objects[i] = o;
	}
	for (unsigned int i = 0; i <= 10; i++)
		assert_in_range(begun[i], MANY / 11, MANY / 11 + 1);
	for (unsigned int i = 0; i < MANY; i++) {
		rdmamsg__object_free(objects[i], size);
		assert_false(is_mapped(begin_of(objects[i])));
	}
}

static void object__that_fills_its_pages_BEGINS_THERE(void **state)
{
	uint8_t *o = rdmamsg__object_new(2 * PAGE);

	assert_non_null(o);
	assert_ptr_equal(o, begin_of(o));
	memset(o, 1, 2 * PAGE);
	rdmamsg__object_free(o, 2 * PAGE);
	assert_false(is_mapped(o));
	assert_false(is_mapped(o + PAGE));
	rdmamsg__object_free(NULL, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects__of_one_size_BEGIN_AT_MANY_LINES),
		cmocka_unit_test(object__that_fills_its_pages_BEGINS_THERE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
