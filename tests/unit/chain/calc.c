/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: calculations of chains: wrapping integers, bits, order of signed,
 * unsigned and double elements, zeros, NaN, and memory of any alignment.
 */
#include "chain/chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t bits(double d)
{
	uint64_t x;

	memcpy(&x, &d, sizeof(x));
	return x;
}

static uint64_t calc(enum rdmamsg_calc_op op, enum rdmamsg_calc_type type,
		     uint64_t a, uint64_t b)
{
	uint64_t ret = 0x5555;

	rdmamsg__calc(op, type, &ret, &a, &b, 1);
	return ret;
}

#define INT(op, a, b)	calc(RDMAMSG_CALC_ ## op, RDMAMSG_CALC_INT, a, b)
#define UINT(op, a, b)	calc(RDMAMSG_CALC_ ## op, RDMAMSG_CALC_UINT, a, b)
#define DOUBLE(op, a, b) \
	calc(RDMAMSG_CALC_ ## op, RDMAMSG_CALC_DOUBLE, bits(a), bits(b))

static void integers__WRAP_AND_HAVE_A_SIGN(void **state)
{
	const uint64_t minus = UINT64_MAX;

	(void)state;
	assert_true(INT(ADD, minus, 2) == 1);
	assert_true(UINT(ADD, minus, 2) == 1);
	assert_true(INT(ADD, INT64_MAX, 1) == (uint64_t)INT64_MIN);
	assert_true(INT(MIN, minus, 1) == minus);
	assert_true(UINT(MIN, minus, 1) == 1);
	assert_true(INT(MAX, minus, 1) == 1);
	assert_true(UINT(MAX, minus, 1) == minus);
}

static void bits__OF_EVERY_TYPE(void **state)
{
	(void)state;
	for (uint32_t type = 0; type <= RDMAMSG_CALC_DOUBLE; type++) {
		const enum rdmamsg_calc_type t = (enum rdmamsg_calc_type)type;

		assert_true(calc(RDMAMSG_CALC_AND, t, 0xf0f0, 0xff00) ==
			    0xf000);
		assert_true(calc(RDMAMSG_CALC_OR, t, 0xf0f0, 0xff00) == 0xfff0);
		assert_true(calc(RDMAMSG_CALC_XOR, t, 0xf0f0, 0xff00) == 0xff0);
	}
}

static void doubles__ZEROS_AND_NAN_IN_EITHER_PLACE(void **state)
{
	const uint64_t nan1 = 0x7ff8000000000001, nan2 = 0xfff8000000000002;

	(void)state;
	assert_true(DOUBLE(ADD, 1.5, -4.0) == bits(-2.5));
	assert_true(DOUBLE(MIN, -1.5, -4.0) == bits(-4.0));
	assert_true(DOUBLE(MAX, -1.5, -4.0) == bits(-1.5));
	assert_true(DOUBLE(MIN, 0.0, -0.0) == bits(-0.0));
	assert_true(DOUBLE(MAX, -0.0, 0.0) == bits(0.0));
	assert_true(DOUBLE(MAX, -INFINITY, 1.0) == bits(1.0));
	/* processors have other NaN for this */
	assert_true(DOUBLE(ADD, INFINITY, -INFINITY) == 0x7ff8ull << 48);
	for (uint32_t op = RDMAMSG_CALC_MIN; op <= RDMAMSG_CALC_MAX; op++) {
		const enum rdmamsg_calc_op o = (enum rdmamsg_calc_op)op;

		assert_true(calc(o, RDMAMSG_CALC_DOUBLE, nan1, nan2) == nan1);
		assert_true(calc(o, RDMAMSG_CALC_DOUBLE, bits(1.0), nan2) ==
			    nan2);
		assert_true(calc(o, RDMAMSG_CALC_DOUBLE, nan2, bits(1.0)) ==
			    nan2);
	}
	assert_true(calc(RDMAMSG_CALC_ADD, RDMAMSG_CALC_DOUBLE, bits(1.0),
			 nan2) == nan2);
}

static void elements__IN_PLACE_AND_AT_ODD_ADDRESSES(void **state)
{
	uint64_t a[5] = { 1, 2, 3, 4, 5 }, b[5] = { 10, 20, 30, 40, 50 };
	uint8_t odd[sizeof(a) + 2];

	(void)state;
	memset(odd, 0xee, sizeof(odd));
	memcpy(odd + 1, a, sizeof(a));
	rdmamsg__calc(RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT, odd + 1, odd + 1, b,
		      5);
	rdmamsg__calc(RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT, b, a, b, 5);
	assert_memory_equal(odd + 1, b, sizeof(b));
	assert_true(b[4] == 55);
	assert_int_equal(odd[0], 0xee);
	assert_int_equal(odd[sizeof(odd) - 1], 0xee);
	rdmamsg__calc(RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT, a, a, b, 0);
	assert_true(a[0] == 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers__WRAP_AND_HAVE_A_SIGN),
		cmocka_unit_test(bits__OF_EVERY_TYPE),
		cmocka_unit_test(doubles__ZEROS_AND_NAN_IN_EITHER_PLACE),
		cmocka_unit_test(elements__IN_PLACE_AND_AT_ODD_ADDRESSES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
