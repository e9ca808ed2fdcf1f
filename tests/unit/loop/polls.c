/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: how often a program that only polls looks for events, which is a
 * system call, under the test's own clock.
 */
#include "base/base.h"

#include <stdint.h>
#include <sys/epoll.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define BUSY_NS		40u		/* an empty poll */
#define SLOW_NS		20000000u	/* with a turn of other programs */
#define EACH_NS		50000u		/* from one look to the next */

static uint64_t now;
static uint32_t looks;
static struct rdmamsg *ctx;

uint64_t __wrap_rdmamsg__now_ns(void);
uint64_t __wrap_rdmamsg__now_ns(void)
{
	return now;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int room, int ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int room, int ms)
{
	looks++;
	return 0;
}

static int set_up(void **state)
{
	now = 1000000000u;
	return rdmamsg_open(&ctx, NULL);
}

static int tear_down(void **state)
{
	rdmamsg_close(ctx);
	return 0;
}

/* Returns the number of looks in so many polls. */
static uint32_t polls(uint32_t n, uint32_t ns)
{
	const uint32_t before = looks;

	while (n--) {
		now += ns;
		assert_int_equal(rdmamsg_poll(ctx), 0);
	}
	return looks - before;
}

static void polls__without_end_LOOK_EACH_50_US(void **state)
{
	const uint32_t n = 1000000, most = n / (EACH_NS / BUSY_NS) + 1;

	assert_in_range(polls(n, BUSY_NS), most / 2, most);
}

/* A program that gives its processor away on a busy host. */
static void polls__seldom_LOOK_EACH_TIME(void **state)
{
	assert_int_equal(polls(100, SLOW_NS), 100);
}

static void polls__become_seldom_LOOK_SOON(void **state)
{
	(void)polls(100000, BUSY_NS);
	assert_true(polls(520, SLOW_NS) > 0);
	assert_int_equal(polls(100, SLOW_NS), 100);
}

static void polls__become_frequent_SPARE_LOOKS(void **state)
{
	(void)polls(100, SLOW_NS);
	assert_in_range(polls(100000, BUSY_NS), 40, 81);
}

/* A call that waits looks anyway, and need not do so before. */
static void wait__nothing_there_LOOKS_ONCE(void **state)
{
	const uint32_t before = looks;

	for (uint32_t i = 0; i < 100; i++) {
		now += SLOW_NS;
		assert_int_equal(rdmamsg_wait(ctx, 0), 0);
	}
	assert_int_equal(looks - before, 100);
}

static void clock__stands_LOOK_ALL_THE_SAME(void **state)
{
	assert_true(polls(1100, 0) >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(polls__without_end_LOOK_EACH_50_US),
		T(polls__seldom_LOOK_EACH_TIME),
		T(polls__become_seldom_LOOK_SOON),
		T(polls__become_frequent_SPARE_LOOKS),
		T(wait__nothing_there_LOOKS_ONCE),
		T(clock__stands_LOOK_ALL_THE_SAME),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
