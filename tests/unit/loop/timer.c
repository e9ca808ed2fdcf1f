/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: timers of a program, under the test's own clock: not early, no
 * drift, and what a callback may do.
 */
#include "base/base.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <rdmamsg/timer.h>

static uint64_t now;
static struct rdmamsg *ctx;
static struct rdmamsg_timer *timer;
static int count;
static int next_status;

uint64_t __wrap_rdmamsg__now_ms(void);
uint64_t __wrap_rdmamsg__now_ms(void)
{
	return now;
}

uint64_t __wrap_rdmamsg__now_us(void);
uint64_t __wrap_rdmamsg__now_us(void)
{
	return now * 1000;
}

static void on_timer(struct rdmamsg_timer *t, void *user)
{
	assert_ptr_equal(user, &count);
	count++;
}

/* The kernel's timer is due already, as this clock is behind. */
static void pass(uint32_t ms)
{
	struct rdmamsg *c = ctx;

	now += ms;
	for (int i = 0; i < 4; i++)
		(void)rdmamsg_wait(c, 0);
}

static void create(void (*fn)(struct rdmamsg_timer *t, void *user))
{
	assert_int_equal(rdmamsg_timer_create(ctx, fn, &count, &timer), 0);
}

static int set_up(void **state)
{
	now = 1000;
	count = 0;
	next_status = 0;
	return rdmamsg_open(&ctx, NULL);
}

static int tear_down(void **state)
{
	rdmamsg_close(ctx);
	ctx = NULL;
	return 0;
}

static void once__delay_passed_EXPIRES_ONCE(void **state)
{
	create(on_timer);
	pass(1000);
	assert_int_equal(count, 0);
	assert_int_equal(rdmamsg_timer_start(timer, 5, 0), 0);
	/* of the ms in which it began, only a part had passed */
	pass(5);
	assert_int_equal(count, 0);
	pass(1);
	assert_int_equal(count, 1);
	pass(1000);
	assert_int_equal(count, 1);
}

static void once__no_delay_EXPIRES_IN_THE_NEXT_CALL(void **state)
{
	create(on_timer);
	assert_int_equal(rdmamsg_timer_start(timer, 0, 0), 0);
	assert_int_equal(count, 0);
	pass(0);
	assert_int_equal(count, 1);
}

static void start__again_BEGINS_ANEW(void **state)
{
	create(on_timer);
	assert_int_equal(rdmamsg_timer_start(timer, 5, 0), 0);
	pass(4);
	assert_int_equal(rdmamsg_timer_start(timer, 5, 0), 0);
	pass(4);
	assert_int_equal(count, 0);
	pass(2);
	assert_int_equal(count, 1);
}

static void stop__running_EXPIRES_NEVER(void **state)
{
	create(on_timer);
	assert_int_equal(rdmamsg_timer_start(timer, 5, 5), 0);
	assert_int_equal(rdmamsg_timer_stop(timer), 0);
	assert_int_equal(rdmamsg_timer_stop(timer), 0);
	pass(100);
	assert_int_equal(count, 0);
}

static void repeat__late_calls_NO_DRIFT(void **state)
{
	create(on_timer);
	assert_int_equal(rdmamsg_timer_start(timer, 9, 10), 0);
	for (int i = 1; i <= 20; i++) {
		/* 3 ms after 1010, 1020, ... */
		now = 1000 + 10 * (uint64_t)i + 3;
		pass(0);
		assert_int_equal(count, i);
	}
	now = 1209;
	pass(0);
	assert_int_equal(count, 20);
	pass(1);
	assert_int_equal(count, 21);
}

static void repeat__times_missed_ONE_CALL(void **state)
{
	create(on_timer);
	assert_int_equal(rdmamsg_timer_start(timer, 9, 10), 0);
	pass(75);
	assert_int_equal(count, 1);
	now = 1079;
	pass(0);
	assert_int_equal(count, 1);
	pass(1);
	assert_int_equal(count, 2);
}

static void stop_itself(struct rdmamsg_timer *t, void *user)
{
	count++;
	next_status = rdmamsg_timer_stop(t);
}

static void callback__stops_ITS_OWN_REPEAT(void **state)
{
	create(stop_itself);
	assert_int_equal(rdmamsg_timer_start(timer, 1, 1), 0);
	pass(10);
	pass(10);
	assert_int_equal(count, 1);
	assert_int_equal(next_status, 0);
}

static void destroy_itself(struct rdmamsg_timer *t, void *user)
{
	count++;
	rdmamsg_timer_destroy(t);
}

static void callback__destroys_ITSELF(void **state)
{
	create(destroy_itself);
	assert_int_equal(rdmamsg_timer_start(timer, 1, 1), 0);
	pass(10);
	pass(10);
	assert_int_equal(count, 1);
}

static void start_itself(struct rdmamsg_timer *t, void *user)
{
	count++;
	assert_int_equal(rdmamsg_timer_start(t, 0, 0), 0);
}

static void callback__starts_itself_at_once_ONE_CALL_PER_TURN(void **state)
{
	create(start_itself);
	assert_int_equal(rdmamsg_timer_start(timer, 0, 0), 0);
	pass(0);
	assert_int_equal(count, 1);
	pass(1);
	assert_int_equal(count, 2);
}

static void wait_in_callback(struct rdmamsg_timer *t, void *user)
{
	count++;
	next_status = rdmamsg_wait(ctx, 0);
}

static void callback__waits_EDEADLK(void **state)
{
	create(wait_in_callback);
	assert_int_equal(rdmamsg_timer_start(timer, 1, 0), 0);
	pass(10);
	assert_int_equal(count, 1);
	assert_int_equal(next_status, -EDEADLK);
}

static void at_close(struct rdmamsg *c, void *arg)
{
	struct rdmamsg_timer *another;

	assert_int_equal(rdmamsg_timer_start(timer, 0, 0), -ECANCELED);
	assert_int_equal(rdmamsg_timer_create(c, on_timer, NULL, &another),
			 -ECANCELED);
	count += 100;
}

static void close__timers_run_STOPPED_AND_FREED(void **state)
{
	create(on_timer);
	assert_int_equal(rdmamsg_timer_start(timer, 1, 1), 0);
	assert_int_equal(rdmamsg_submit(ctx, at_close, NULL), 0);
	now += 10;
	rdmamsg_close(ctx);
	ctx = NULL;
	assert_int_equal(count, 100);
}

static void fork__child_ECHILD(void **state)
{
	pid_t pid;
	int status;

	create(on_timer);
	pid = fork();
	if (!pid) {
		bool good = rdmamsg_timer_start(timer, 1, 0) == -ECHILD &&
			    rdmamsg_timer_stop(timer) == -ECHILD;

		rdmamsg_timer_destroy(timer);
		_exit(!good);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void arguments__wrong_EINVAL(void **state)
{
	struct rdmamsg_timer *t;

	create(on_timer);
	assert_int_equal(rdmamsg_timer_create(NULL, on_timer, NULL, &t),
			 -EINVAL);
	assert_int_equal(rdmamsg_timer_create(ctx, NULL, NULL, &t), -EINVAL);
	assert_int_equal(rdmamsg_timer_create(ctx, on_timer, NULL, NULL),
			 -EINVAL);
	assert_int_equal(rdmamsg_timer_start(timer, RDMAMSG_NONE, 0), -EINVAL);
	assert_int_equal(rdmamsg_timer_start(timer, 0, RDMAMSG_NONE), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "at most 2147483647"));
	assert_int_equal(rdmamsg_timer_start(NULL, 1, 0), -EINVAL);
	assert_int_equal(rdmamsg_timer_stop(NULL), -EINVAL);
	rdmamsg_timer_destroy(NULL);
}

int main(void)
{
#define T(fn)	cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(once__delay_passed_EXPIRES_ONCE),
		T(once__no_delay_EXPIRES_IN_THE_NEXT_CALL),
		T(start__again_BEGINS_ANEW),
		T(stop__running_EXPIRES_NEVER),
		T(repeat__late_calls_NO_DRIFT),
		T(repeat__times_missed_ONE_CALL),
		T(callback__stops_ITS_OWN_REPEAT),
		T(callback__destroys_ITSELF),
		T(callback__starts_itself_at_once_ONE_CALL_PER_TURN),
		T(callback__waits_EDEADLK),
		T(close__timers_run_STOPPED_AND_FREED),
		T(fork__child_ECHILD),
		T(arguments__wrong_EINVAL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
