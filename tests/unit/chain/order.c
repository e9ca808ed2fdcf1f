/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: chains without endpoints: their order is refused if a run could
 * not end, and otherwise waits, enabled queues and calculations happen in it.
 */
#include "base/base.h"
#include "chain/chain.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <rdmamsg/chain.h>

static struct rdmamsg *ctx;
static struct rdmamsg_chain *chain;
static unsigned int ended;
static struct rdmamsg_chain_end end;
static uint64_t x[4];

static void on_done(struct rdmamsg_chain *c, const struct rdmamsg_chain_end *e)
{
	assert_ptr_equal(c, chain);
	ended++;
	end = *e;
}

static int open_chain(void **state)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};
	const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	(void)state;
	ended = 0;
	memset(x, 0, sizeof(x));
	return rdmamsg_open(&ctx, NULL) ||
	       rdmamsg_chain_create(ctx, &opts, &chain);
}

static int close_chain(void **state)
{
	(void)state;
	rdmamsg_chain_destroy(chain);
	rdmamsg_close(ctx);
	return 0;
}

/* x[i] += by, as a step of the queue */
static void add(uint32_t queue, uint32_t i, const uint64_t *by)
{
	assert_true(rdmamsg_chain_calc(chain, queue, RDMAMSG_CALC_ADD,
				       RDMAMSG_CALC_UINT, &x[i], &x[i], by, 1)
		    >= 0);
}

static void check_refused(const char *text)
{
	assert_int_equal(rdmamsg__chain_check(chain), -EDEADLK);
	assert_int_equal(rdmamsg_chain_post(chain), -EDEADLK);
	assert_non_null(strstr(rdmamsg_error(), text));
	assert_int_equal(ended, 0);
}

static void two_queues__WAIT_FOR_EACH_OTHER(void **state)
{
	(void)state;
	assert_int_equal(rdmamsg_chain_wait(chain, 0, 1, 1), 0);
	assert_int_equal(rdmamsg_chain_wait(chain, 1, 0, 1), 1);
	check_refused("step 0");
}

static void wait__for_more_steps_THAN_THERE_ARE(void **state)
{
	static const uint64_t one = 1;

	(void)state;
	add(1, 0, &one);
	assert_int_equal(rdmamsg_chain_wait(chain, 0, 1, 2), 1);
	check_refused("step 1");
	assert_true(!x[0]);
	/* one more step, and the run ends */
	add(1, 0, &one);
	assert_int_equal(rdmamsg__chain_check(chain), 0);
	assert_int_equal(rdmamsg_chain_run(chain, 1000), 0);
	assert_true(x[0] == 2);
}

/* Queue 1 is managed. Its second step is never enabled. */
static void enabled__TOO_FEW(void **state)
{
	static const uint64_t one = 1;

	(void)state;
	add(1, 0, &one);
	add(1, 0, &one);
	assert_int_equal(rdmamsg_chain_enable(chain, 0, 1, 1), 2);
	check_refused("step 1");
}

/* Queue 0 adds x[0], then lets queue 1 add the sum to x[1], then x[2]. */
static void run__IN_ORDER_AND_AGAIN(void **state)
{
	static const uint64_t five = 5;

	(void)state;
	add(1, 1, &x[0]);
	add(0, 0, &five);
	assert_int_equal(rdmamsg_chain_enable(chain, 0, 1, 0), 2);
	assert_int_equal(rdmamsg_chain_wait(chain, 0, 1, 1), 3);
	add(0, 2, &x[1]);
	assert_int_equal(rdmamsg_chain_run(chain, 1000), 0);
	assert_true(x[0] == 5 && x[1] == 5 && x[2] == 5);
	assert_int_equal(rdmamsg_chain_run(chain, 1000), 0);
	assert_true(x[0] == 10 && x[1] == 15 && x[2] == 20);
	assert_int_equal(ended, 2);
	assert_int_equal(end.status, 0);
	assert_int_equal(end.step, RDMAMSG_NONE);
	assert_string_equal(end.text, "");
}

static void empty__ENDS_AT_ONCE(void **state)
{
	(void)state;
	assert_int_equal(rdmamsg_chain_run(chain, 1000), 0);
	assert_int_equal(ended, 1);
}

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, open_chain, close_chain)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(two_queues__WAIT_FOR_EACH_OTHER),
		TEST(wait__for_more_steps_THAN_THERE_ARE),
		TEST(enabled__TOO_FEW),
		TEST(run__IN_ORDER_AND_AGAIN),
		TEST(empty__ENDS_AT_ONCE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
