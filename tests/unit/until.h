/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for a condition, with a bound. */
#ifndef TESTS_UNIT_UNTIL_H
#define TESTS_UNIT_UNTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdmamsg/rdmamsg.h>

#include "base/base.h"

#define WAIT_MS	60000		/* longer than any step takes */

/* Repeats 'step', which waits a little, until the condition holds. */
#define UNTIL_BY(step, condition) \
	do { \
		uint64_t end_ = rdmamsg__now_ms() + WAIT_MS; \
		while (!(condition)) { \
			if (rdmamsg__now_ms() > end_) \
				fail_msg("waited in vain for %s", #condition); \
			step; \
		} \
	} while (0)

/* Lets one context work. */
#define UNTIL(ctx, condition) \
	UNTIL_BY(assert_true(rdmamsg_wait(ctx, 10) >= 0), condition)

#endif
