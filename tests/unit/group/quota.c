/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an address is sent again at most a small multiple of what it can
 * have received, however often it asks, and addresses that ask for more do not
 * take the part of others. The time is the test's.
 */
#include "group/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct quota quota;
static struct quota_sent sent;

static int begin(void **state)
{
	memset(&quota, 0, sizeof(quota));
	sent = (struct quota_sent){ .now = 5000 };
	return 0;
}

static struct asker *at(uint32_t address)
{
	struct carrier_peer p = { .qpn = 1 };

	memcpy(p.gid.raw, &address, sizeof(address));
	return rdmamsg__quota_of(&quota, &p, &sent);
}

/* Takes all that there is, in each of so many steps of time. */
static uint64_t drain(uint32_t address, uint32_t steps, uint32_t ms)
{
	uint64_t got = 0;

	while (steps--) {
		struct asker *a = at(address);

		got += a->left;
		a->left = 0;
		sent.now += ms;
	}
	return got;
}

static void publish(uint32_t datagrams)
{
	sent.published += datagrams;
	sent.recent += datagrams;
	sent.kept += datagrams;
}

static void asker__of_a_quiet_publisher_GETS_LITTLE(void **state)
{
	publish(10000);
	sent.recent = 0;
	assert_int_equal(drain(1, 1, 0), QUOTA_LEAST);
	assert_int_equal(drain(1, 1000, 0), 0);
	/* a minute, asked every 1 or 7 or 1000 ms */
	assert_in_range(drain(1, 60000, 1), 59 * QUOTA_LEAST, 60 * QUOTA_LEAST);
	assert_in_range(drain(1, 60000 / 7, 7), 59 * QUOTA_LEAST,
			61 * QUOTA_LEAST);
	assert_in_range(drain(1, 60, 1000), 59 * QUOTA_LEAST, 60 * QUOTA_LEAST);
	/* nothing is saved up for long */
	sent.now += 3600000;
	assert_int_equal(drain(1, 1, 0), QUOTA_LEAST);
}

static void asker__gets_a_multiple_OF_WHAT_WAS_PUBLISHED(void **state)
{
	publish(1000);
	assert_int_equal(drain(1, 1, 0), 4000 + QUOTA_LEAST);
	assert_int_equal(drain(1, 1000, 0), 0);
	for (int i = 0; i < 100; i++) {
		publish(10);
		assert_int_equal(drain(1, 10, 0), 40);
	}
	/* not more than a multiple of what it can ask for */
	publish(1000000);
	sent.kept = 500;
	assert_int_equal(drain(1, 1, 0), 2000 + QUOTA_LEAST);
}

/* Each lost datagram was published, and is lost again every other time. */
static void asker__that_loses_much_IS_REPAIRED(void **state)
{
	uint64_t lacks = 0;

	for (int i = 0; i < 1000; i++) {
		struct asker *a;

		publish(100);
		lacks += 50;
		for (a = at(1); a->left && lacks; a->left--)
			lacks -= a->left % 2;
		sent.now++;
	}
	assert_int_equal(lacks, 0);
}

static void askers__too_many_SHARE_ONE(void **state)
{
	for (uint32_t i = 1; i <= QUOTA_ASKERS; i++)
		assert_int_equal(drain(i, 1, 0), QUOTA_LEAST);
	assert_int_equal(drain(1, 1, 0), 0);
	/* one part for all others */
	assert_int_equal(drain(10001, 1, 0), QUOTA_LEAST);
	for (uint32_t i = 10002; i < 20000; i++)
		assert_int_equal(drain(i, 1, 0), 0);
	/* and no address has its budget anew by that */
	assert_int_equal(drain(1, 1, 0), 0);
	/* the first still asks, and the second has left */
	sent.now += 500;
	(void)drain(1, 1, 0);
	sent.now += 600;
	assert_int_equal(drain(20000, 1, 0), QUOTA_LEAST);
	assert_in_range(drain(1, 1, 0), 1, QUOTA_LEAST - 1);
}

static void asker__without_an_address_IS_ITS_LID(void **state)
{
	struct carrier_peer p = { .slid = 7 };

	rdmamsg__quota_of(&quota, &p, &sent)->left = 0;
	p.qpn = 8;
	assert_int_equal(rdmamsg__quota_of(&quota, &p, &sent)->left, 0);
	p.slid = 9;
	assert_int_equal(rdmamsg__quota_of(&quota, &p, &sent)->left,
			 QUOTA_LEAST);
}

static void all__have_one_BUDGET(void **state)
{
	publish(100);
	assert_int_equal(rdmamsg__quota_of_all(&quota, &sent)->left,
			 400 + QUOTA_LEAST);
	rdmamsg__quota_of_all(&quota, &sent)->left = 0;
	assert_int_equal(rdmamsg__quota_of_all(&quota, &sent)->left, 0);
	publish(1);
	assert_int_equal(rdmamsg__quota_of_all(&quota, &sent)->left, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(asker__of_a_quiet_publisher_GETS_LITTLE,
				       begin),
		cmocka_unit_test_setup(
			asker__gets_a_multiple_OF_WHAT_WAS_PUBLISHED, begin),
		cmocka_unit_test_setup(asker__that_loses_much_IS_REPAIRED,
				       begin),
		cmocka_unit_test_setup(askers__too_many_SHARE_ONE, begin),
		cmocka_unit_test_setup(asker__without_an_address_IS_ITS_LID,
				       begin),
		cmocka_unit_test_setup(all__have_one_BUDGET, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
