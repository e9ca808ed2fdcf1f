/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmocka, whose assertions here tell the compiler that a failure does not
 * return. Otherwise a variable that a call fills in on success may seem to be
 * uninitialised behind them: with -flto the compiler sees into the call.
 */
#ifndef RDMAMSG_TESTS_CMOCKA_H
#define RDMAMSG_TESTS_CMOCKA_H

#include_next <cmocka.h>

#undef assert_int_equal
#define assert_int_equal(a, b) \
	({ \
		const uintmax_t is_ = (uintmax_t)(a), want_ = (uintmax_t)(b); \
\
		if (is_ != want_) { \
			_assert_int_equal(is_, want_, __FILE__, __LINE__); \
			__builtin_unreachable(); \
		} \
	})

#define assert_so_(so, text) \
	({ \
		if (!(so)) { \
			_assert_true(0, text, __FILE__, __LINE__); \
			__builtin_unreachable(); \
		} \
	})
#undef assert_true
#define assert_true(c)		assert_so_((c), #c)
#undef assert_false
#define assert_false(c)		assert_so_(!(c), #c)
#undef assert_non_null
#define assert_non_null(c)	assert_so_((c), #c)
#undef assert_null
#define assert_null(c)		assert_so_(!(c), #c)

#endif
