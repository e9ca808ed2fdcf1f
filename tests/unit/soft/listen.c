/* SPDX-License-Identifier: BSD-2-Clause */
/* Which addresses may listen together: as in Linux, cma_check_port(). */
#include "soft/soft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../own_fabric.h"

static struct rdma_event_channel *ch;

static int setup(void **state)
{
	ch = soft_cma_create_event_channel();
	return ch ? 0 : -1;
}

static int teardown(void **state)
{
	soft_cma_destroy_event_channel(ch);
	return 0;
}

static struct rdma_cm_id *new_id(int afonly)
{
	struct rdma_cm_id *id;

	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	if (afonly >= 0)
		assert_int_equal(soft_cma_set_option(id, RDMA_OPTION_ID,
				 RDMA_OPTION_ID_AFONLY, &afonly,
				 sizeof(afonly)), 0);
	return id;
}

/* 0 or errno */
static int bind_to(struct rdma_cm_id *id, const char *addr, __be16 port)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = port,
	};
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = port };
	struct sockaddr *sa = (struct sockaddr *)&in;

	if (!inet_pton(AF_INET, addr, &in.sin_addr)) {
		assert_int_equal(inet_pton(AF_INET6, addr, &in6.sin6_addr), 1);
		sa = (struct sockaddr *)&in6;
	}
	return soft_cma_bind_addr(id, sa) ? errno : 0;
}

/* Expects 'want' when the second address is bound, in either order. */
static void expect_pair(const char *a, const char *b, int afonly, int want)
{
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *first = new_id(afonly);
		struct rdma_cm_id *second = new_id(afonly);
		__be16 port;

		assert_int_equal(bind_to(first, i ? b : a, 0), 0);
		port = soft_cma_get_src_port(first);
		assert_int_equal(bind_to(second, i ? a : b, port), want);
		assert_int_equal(soft_cma_destroy_id(first), 0);
		/* and nothing is left of the first */
		if (want)
			assert_int_equal(bind_to(second, i ? a : b, port), 0);
		assert_int_equal(soft_cma_destroy_id(second), 0);
	}
}

static void bind__all_and_one_address_EADDRNOTAVAIL(void **state)
{
	expect_pair("0.0.0.0", "127.0.0.1", -1, EADDRNOTAVAIL);
	expect_pair("::", "127.0.0.1", -1, EADDRNOTAVAIL);
	expect_pair("::", "::1", -1, EADDRNOTAVAIL);
	expect_pair("::", "::1", 1, EADDRNOTAVAIL);
}

static void bind__two_addresses_BOTH(void **state)
{
	expect_pair("127.0.0.1", "127.0.0.2", -1, 0);
	expect_pair("127.0.0.1", "::1", -1, 0);
	expect_pair("127.0.0.1", "127.0.0.1", -1, EADDRINUSE);
}

static void bind__families_apart_BOTH(void **state)
{
	expect_pair("0.0.0.0", "::1", 1, 0);
	expect_pair("::", "127.0.0.1", 1, 0);
	expect_pair("0.0.0.0", "::", 1, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bind__all_and_one_address_EADDRNOTAVAIL),
		TEST(bind__two_addresses_BOTH),
		TEST(bind__families_apart_BOTH),
	};

	join_own_fabric("listen");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
