/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: a rate for all groups of a context, besides that of each. */
#include "../own_fabric.h"
#include "base/base.h"
#include "device/verbs_api.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdmamsg/group.h>

#define GROUPS	2
#define RATE	200u			/* datagrams a second */
#define COUNT	60u			/* messages to each group */
#define BURST	16u			/* at once, and as much saved before */

static struct rdmamsg *ctx;
static struct rdmamsg_group *groups[GROUPS];
static unsigned int joined;

static void on_joined(struct rdmamsg_group *group)
{
	joined++;
}

static void join(int i, const char *address)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on, .rate = RDMAMSG_NONE,
		.flags = RDMAMSG_GROUP_PUBLISH,
	};

	assert_int_equal(rdmamsg_group_join(ctx, address, &opts, &groups[i]),
			 0);
}

static uint64_t datagrams(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < GROUPS; i++) {
		struct rdmamsg_group_stats st = { .size = sizeof(st) };

		assert_int_equal(rdmamsg_group_get_stats(groups[i], &st), 0);
		sum += st.sent_datagrams;
	}
	return sum;
}

/* Whatever the time that this takes, no more than that are sent in it. */
static void groups__of_a_context_SHARE_ITS_RATE(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .group_rate = RATE,
	};
	uint32_t sent[GROUPS] = { 0 };
	uint64_t begin, before, us;

	assert_int_equal(rdmamsg_open(&ctx, &opts), 0);
	join(0, "239.1.2.3");
	join(1, "239.1.2.4");
	while (joined < GROUPS)
		assert_true(rdmamsg_wait(ctx, 10) >= 0);
	before = datagrams();
	begin = rdmamsg__now_us();
	while (sent[0] < COUNT || sent[1] < COUNT) {
		for (int i = 0; i < GROUPS; i++) {
			int ret = sent[i] == COUNT ? -EAGAIN :
				  rdmamsg_group_publish(groups[i], "x", 1);

			assert_true(!ret || ret == -EAGAIN);
			sent[i] += !ret;
		}
		assert_true(rdmamsg_wait(ctx, 1) >= 0);
		us = rdmamsg__now_us() - begin;
		assert_true(datagrams() - before <=
			    us * RATE / 1000000 + 2 * BURST + 1);
	}
	rdmamsg_close(ctx);
}

static void rate__of_no_use_EINVAL(void **state)
{
	struct rdmamsg_options opts = { .size = sizeof(opts), .group_rate = 99 };

	assert_int_equal(rdmamsg_open(&ctx, &opts), -EINVAL);
	opts.group_rate = 100000001;
	assert_int_equal(rdmamsg_open(&ctx, &opts), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups__of_a_context_SHARE_ITS_RATE),
		cmocka_unit_test(rate__of_no_use_EINVAL),
	};

	join_own_fabric("group-rate");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
