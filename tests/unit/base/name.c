/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of enumerators and of the release. */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const char *who(int n)
{
	return rdmamsg_who_name((enum rdmamsg_who)n);
}

static const char *cause(int n)
{
	return rdmamsg_cause_name((enum rdmamsg_cause)n);
}

static const char *ep_state(int n)
{
	return rdmamsg_state_name((enum rdmamsg_state)n);
}

/* Values from first to last have distinct names; their neighbours have none. */
static void check(const char *(*name)(int n), int first, int last)
{
	for (int n = first; n <= last; n++) {
		assert_string_not_equal(name(n), "unknown");
		for (const char *c = name(n); *c; c++)
			assert_true(islower(*c));
		for (int m = first; m < n; m++)
			assert_string_not_equal(name(n), name(m));
	}
	assert_string_equal(name(first - 1), "unknown");
	assert_string_equal(name(last + 1), "unknown");
	assert_string_equal(name(1 << 30), "unknown");
}

static void name__of_each_enumerator_IS_ITS_OWN(void **state)
{
	check(who, RDMAMSG_WHO_NONE, RDMAMSG_WHO_DEVICE);
	check(cause, RDMAMSG_CAUSE_NONE, RDMAMSG_CAUSE_CRC);
	check(ep_state, RDMAMSG_CONNECTING, RDMAMSG_CLOSED);
	assert_string_equal(cause(RDMAMSG_CAUSE_REFUSED), "refused");
	assert_string_equal(who(RDMAMSG_WHO_PEER), "peer");
	assert_string_equal(ep_state(RDMAMSG_CONNECTED), "connected");
}

static void version__of_the_library_IS_THE_PACKAGE_S(void **state)
{
	assert_string_equal(rdmamsg_version(), PACKAGE_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name__of_each_enumerator_IS_ITS_OWN),
		cmocka_unit_test(version__of_the_library_IS_THE_PACKAGE_S),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
