/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calculations on 64-bit elements. Each result depends on its two operands
 * only, so that all members of a team get the same bits.
 */
#include "chain/chain.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/chain.h>

typedef uint64_t fn(uint64_t a, uint64_t b);

/* Memory of the program may have any alignment. */
static inline __attribute__((always_inline)) void
each(uint8_t *dst, const uint8_t *a, const uint8_t *b, size_t count, fn *f)
{
	for (size_t i = 0; i < count * 8; i += 8) {
		uint64_t x, y;

		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		x = f(x, y);
		memcpy(dst + i, &x, 8);
	}
}

static inline double as_double(uint64_t x)
{
	double d;

	memcpy(&d, &x, 8);
	return d;
}

/*
 * Doubles that are no NaN have the order of these integers, with -0 below +0.
 */
static inline int64_t order_of(uint64_t x)
{
	return x >> 63 ? (int64_t)(x ^ (UINT64_MAX >> 1)) : (int64_t)x;
}

static inline int is_nan(uint64_t x)
{
	return (x & (UINT64_MAX >> 1)) > 0x7ffull << 52;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b;
}

/* Processors differ in which NaN they make. */
static uint64_t add_double(uint64_t a, uint64_t b)
{
	double sum = as_double(a) + as_double(b);
	uint64_t ret;

	if (is_nan(a))
		return a;
	if (is_nan(b))
		return b;
	memcpy(&ret, &sum, 8);
	return is_nan(ret) ? 0x7ff8ull << 48 : ret;
}

static uint64_t and(uint64_t a, uint64_t b)
{
	return a & b;
}

static uint64_t or(uint64_t a, uint64_t b)
{
	return a | b;
}

static uint64_t xor(uint64_t a, uint64_t b)
{
	return a ^ b;
}

static uint64_t min_int(uint64_t a, uint64_t b)
{
	return (int64_t)b < (int64_t)a ? b : a;
}

static uint64_t max_int(uint64_t a, uint64_t b)
{
	return (int64_t)b > (int64_t)a ? b : a;
}

static uint64_t min_uint(uint64_t a, uint64_t b)
{
	return b < a ? b : a;
}

static uint64_t max_uint(uint64_t a, uint64_t b)
{
	return b > a ? b : a;
}

static uint64_t min_double(uint64_t a, uint64_t b)
{
	if (is_nan(a) || is_nan(b))
		return is_nan(a) ? a : b;
	return order_of(b) < order_of(a) ? b : a;
}

static uint64_t max_double(uint64_t a, uint64_t b)
{
	if (is_nan(a) || is_nan(b))
		return is_nan(a) ? a : b;
	return order_of(b) > order_of(a) ? b : a;
}

/* The compiler makes one loop of each case. */
#define CASE(op, type, f) \
	case (op) * 3 + (type): \
		each(dst, a, b, count, f); \
		break
#define CASES(op, f) \
	CASE(op, RDMAMSG_CALC_INT, f); \
	CASE(op, RDMAMSG_CALC_UINT, f); \
	CASE(op, RDMAMSG_CALC_DOUBLE, f)

void rdmamsg__calc(enum rdmamsg_calc_op op, enum rdmamsg_calc_type type,
		   void *dst, const void *a, const void *b, size_t count)
{
	switch ((unsigned int)op * 3 + (unsigned int)type) {
	CASE(RDMAMSG_CALC_ADD, RDMAMSG_CALC_INT, add);
	CASE(RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT, add);
	CASE(RDMAMSG_CALC_ADD, RDMAMSG_CALC_DOUBLE, add_double);
	CASES(RDMAMSG_CALC_AND, and);
	CASES(RDMAMSG_CALC_OR, or);
	CASES(RDMAMSG_CALC_XOR, xor);
	CASE(RDMAMSG_CALC_MIN, RDMAMSG_CALC_INT, min_int);
	CASE(RDMAMSG_CALC_MIN, RDMAMSG_CALC_UINT, min_uint);
	CASE(RDMAMSG_CALC_MIN, RDMAMSG_CALC_DOUBLE, min_double);
	CASE(RDMAMSG_CALC_MAX, RDMAMSG_CALC_INT, max_int);
	CASE(RDMAMSG_CALC_MAX, RDMAMSG_CALC_UINT, max_uint);
	CASE(RDMAMSG_CALC_MAX, RDMAMSG_CALC_DOUBLE, max_double);
	}
}
