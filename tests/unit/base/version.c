/* SPDX-License-Identifier: BSD-2-Clause */
/* The version of the release. */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <rdmamsg/diag.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void version__of_the_library_IS_THE_PACKAGE_S(void **state)
{
	assert_string_equal(rdmamsg_version(), PACKAGE_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version__of_the_library_IS_THE_PACKAGE_S),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
