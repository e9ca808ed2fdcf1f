/* SPDX-License-Identifier: BSD-2-Clause */
/* The timer heap, compared with a simple model under the test's own clock. */
#include "base/list.h"
#include "base/timer.h"

#include <stdbool.h>
#include <stdint.h>

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define TIMERS	64

static uint64_t now = 1000;

/* The linker (-Wl,--wrap) puts the test's clock in the library's place. */
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

struct one {
	struct timer t;
	uint64_t due;		/* the model: 0 if idle */
};

static struct timers ts;
static struct one ones[TIMERS];
static uint64_t last_fired;
static int fired;

static void on_fire(struct timer *t)
{
	struct one *o = list_entry(t, struct one, t);

	assert_true(o->due);
	assert_true(o->due <= now);
	assert_true(o->due >= last_fired);
	assert_int_equal(t->pos, -1);
	last_fired = o->due;
	o->due = 0;
	fired++;
}

static int set_up(void **state)
{
	now = 1000;
	last_fired = 0;
	fired = 0;
	ts = (struct timers){ 0 };
	if (rdmamsg__timers_init(&ts) ||
	    rdmamsg__timers_reserve(&ts, TIMERS))
		return -1;
	for (int i = 0; i < TIMERS; i++) {
		rdmamsg__timer_init(&ones[i].t, on_fire);
		ones[i].due = 0;
	}
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg__timers_fini(&ts);
	return 0;
}

static void set(int i, uint64_t ms)
{
	rdmamsg__timer_set(&ts, &ones[i].t, ms);
	ones[i].due = now + ms;
}

static void stop_timer(int i)
{
	rdmamsg__timer_stop(&ts, &ones[i].t);
	ones[i].due = 0;
}

static bool readable(void)
{
	struct pollfd fd = { ts.fd, POLLIN, 0 };

	return poll(&fd, 1, 0) == 1;
}

static void run__nothing_set_FIRES_NOTHING(void **state)
{
	assert_int_equal(rdmamsg__timers_run(&ts), 0);
	assert_false(readable());
}

static void run__before_and_at_the_time(void **state)
{
	set(0, 10);
	now += 9;
	assert_int_equal(rdmamsg__timers_run(&ts), 0);
	now += 1;
	assert_int_equal(rdmamsg__timers_run(&ts), 1);
	assert_int_equal(rdmamsg__timers_run(&ts), 0);
}

static void set__again_MOVES_IT(void **state)
{
	set(0, 10);
	set(0, 30);
	now += 20;
	assert_int_equal(rdmamsg__timers_run(&ts), 0);
	set(0, 1);
	now += 1;
	assert_int_equal(rdmamsg__timers_run(&ts), 1);
	assert_int_equal(ts.count, 0);
}

static void stop__idle_IS_HARMLESS(void **state)
{
	stop_timer(0);
	set(0, 1);
	stop_timer(0);
	stop_timer(0);
	now += 10;
	assert_int_equal(rdmamsg__timers_run(&ts), 0);
}

static void set__earlier_ARMS_EARLIER(void **state)
{
	set(0, 500);
	assert_int_equal(ts.armed, 1000 * (now + 500));
	set(1, 100);
	assert_int_equal(ts.armed, 1000 * (now + 100));
	/*
	 * the descriptor may stay armed for 100 ms: an early wake-up is
	 * harmless
	 */
	stop_timer(1);
	assert_true(ts.armed && ts.armed <= 1000 * (now + 500));
	now += 100;
	assert_int_equal(rdmamsg__timers_run(&ts), 0);
	assert_int_equal(ts.armed, 1000 * (now + 400));
}

static void fd__readable_WHEN_DUE(void **state)
{
	/* the descriptor uses the real clock, where time 1 is long past */
	set(0, 1);
	while (!readable())
		;
	now += 1;
	assert_int_equal(rdmamsg__timers_run(&ts), 1);
	assert_false(readable());
}

static void fire_sets(struct timer *t)
{
	on_fire(t);
	set(1, 0);		/* due at once: fires in the same run */
	set(0, 5);		/* the running timer, later */
	stop_timer(2);		/* another timer that is due in this run */
}

static void run__callbacks_MAY_SET_AND_STOP(void **state)
{
	ones[0].t.fn = fire_sets;
	set(0, 10);
	set(2, 11);
	now += 20;
	last_fired = 0;
	assert_int_equal(rdmamsg__timers_run(&ts), 2);
	assert_int_equal(ones[0].due, now + 5);
	assert_int_equal(ones[2].due, 0);
	assert_int_equal(ts.count, 1);
}

static void reserve__more_KEEPS_WHAT_RUNS(void **state)
{
	static struct one more[512];

	set(3, 7);
	assert_int_equal(rdmamsg__timers_reserve(&ts, 512), 0);
	for (int i = 0; i < 512; i++) {
		rdmamsg__timer_init(&more[i].t, on_fire);
		rdmamsg__timer_set(&ts, &more[i].t, 8);
		more[i].due = now + 8;
	}
	now += 8;
	assert_int_equal(rdmamsg__timers_run(&ts), 513);
	rdmamsg__timers_release(&ts, 512);
	assert_int_equal(ts.promised, TIMERS);
}

static int due_now(void)
{
	int n = 0;

	for (int i = 0; i < TIMERS; i++)
		n += ones[i].due && ones[i].due <= now;
	return n;
}

static void heap__random_AGREES_WITH_MODEL(void **state)
{
	srand(1);
	for (int round = 0; round < 20000; round++) {
		int i = rand() % TIMERS, due, running = 0;

		switch (rand() % 4) {
		case 0:
		case 1:
			set(i, (uint64_t)(rand() % 100));
			break;
		case 2:
			stop_timer(i);
			break;
		default:
			now += (uint64_t)(rand() % 10);
			due = due_now();
			last_fired = 0;
			assert_int_equal(rdmamsg__timers_run(&ts), due);
			assert_int_equal(due_now(), 0);
		}
		for (i = 0; i < TIMERS; i++) {
			running += !!ones[i].due;
			if (ones[i].due) {
				assert_ptr_equal(ts.heap[ones[i].t.pos],
						 &ones[i].t);
				assert_true(rdmamsg__timer_ms(ts.heap[0]) <=
					    ones[i].due);
			}
		}
		assert_int_equal(ts.count, running);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(run__nothing_set_FIRES_NOTHING),
		TEST(run__before_and_at_the_time),
		TEST(set__again_MOVES_IT),
		TEST(stop__idle_IS_HARMLESS),
		TEST(set__earlier_ARMS_EARLIER),
		TEST(fd__readable_WHEN_DUE),
		TEST(run__callbacks_MAY_SET_AND_STOP),
		TEST(reserve__more_KEEPS_WHAT_RUNS),
		TEST(heap__random_AGREES_WITH_MODEL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
