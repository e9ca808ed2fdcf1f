/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers of a context, in a loop of the program's own on rdmamsg_fd() and in
 * rdmamsg_wait(). Only what comes too early is wrong: late is a busy machine.
 */
#include "common.h"

#include <poll.h>
#include <rdmamsg/timer.h>

#define SOON	10	/* ms */
#define LATER	40
#define TIMES	5
#define MESSAGES 20

static struct rdmamsg *ctx;

/* Calls of on_timer() so far, of all timers. */
static unsigned int calls;

struct alarm {
	struct rdmamsg_timer *timer;
	unsigned int expired;
	unsigned int last;	/* number of its last call among all */
	void (*then)(struct alarm *a);
	struct alarm *other;
};

static void on_timer(struct rdmamsg_timer *timer, void *user)
{
	struct alarm *a = user;

	if (timer != a->timer)
		note("on_timer of another timer");
	a->expired++;
	a->last = ++calls;
	if (a->then)
		a->then(a);
}

static void create(struct alarm *a, void (*then)(struct alarm *a))
{
	*a = (struct alarm){ .then = then };
	if (rdmamsg_timer_create(ctx, on_timer, a, &a->timer))
		fail_msg("rdmamsg_timer_create: %s", rdmamsg_error());
}

static void start(struct alarm *a, uint32_t delay_ms, uint32_t repeat_ms)
{
	if (rdmamsg_timer_start(a->timer, delay_ms, repeat_ms))
		fail_msg("rdmamsg_timer_start: %s", rdmamsg_error());
}

/* ---- two kinds of loops ----------------------------------------------- */

/* Nothing but the timer makes the descriptor readable. */
static void by_descriptor(void)
{
	struct pollfd p = { rdmamsg_fd(ctx), POLLIN, 0 };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(rdmamsg_process(ctx) >= 0);
}

static void by_wait(void)
{
	assert_true(rdmamsg_wait(ctx, WAIT_MS) >= 0);
}

static void (*const loops[])(void) = { by_descriptor, by_wait };

/* For each loop: a new context, and its end, which frees the timers. */
#define IN_EACH_LOOP(body) \
	for (size_t i_ = 0; i_ < ARRAY_SIZE(loops); i_++) { \
		ctx = test_open(NULL); \
		calls = 0; \
		body(loops[i_]); \
		test_close(ctx); \
		check_notes(); \
	}

/* Returns when both are due, and neither was called. */
static void let_expire(struct alarm *a, uint32_t ms_a, struct alarm *b,
		       uint32_t ms_b)
{
	uint64_t end = now_ms() + (ms_a > ms_b ? ms_a : ms_b) + 5;

	start(a, ms_a, 0);
	start(b, ms_b, 0);
	while (now_ms() < end)
		(void)poll(NULL, 0, 1);
	assert_int_equal(a->expired + b->expired, 0);
}

/* Another timer, started now, expires after all that was due before. */
static void outlast(void (*turn)(void))
{
	struct alarm last;

	create(&last, NULL);
	start(&last, LATER, 0);
	UNTIL_BY(turn(), last.expired);
	rdmamsg_timer_destroy(last.timer);
}

/* ---- expiring --------------------------------------------------------- */

static void once(void (*turn)(void))
{
	struct alarm a;
	uint64_t began;

	create(&a, NULL);
	began = now_ms();
	start(&a, SOON, 0);
	UNTIL_BY(turn(), a.expired);
	assert_true(now_ms() - began >= SOON);
	outlast(turn);
	assert_int_equal(a.expired, 1);
	/* the same timer, started anew */
	start(&a, 0, 0);
	UNTIL_BY(turn(), a.expired > 1);
	assert_int_equal(a.expired, 2);
}

static void timer__without_repeat_EXPIRES_ONCE(void **state)
{
	IN_EACH_LOOP(once);
}

static void repeat(void (*turn)(void))
{
	struct alarm a;
	uint64_t began;

	create(&a, NULL);
	began = now_ms();
	start(&a, SOON, SOON);
	UNTIL_BY(turn(), a.expired >= TIMES);
	assert_true(now_ms() - began >= TIMES * SOON);
	assert_int_equal(rdmamsg_timer_stop(a.timer), 0);
	a.expired = 0;
	outlast(turn);
	assert_int_equal(a.expired, 0);
}

static void timer__with_repeat_EXPIRES_UNTIL_STOPPED(void **state)
{
	IN_EACH_LOOP(repeat);
}

static void order(void (*turn)(void))
{
	struct alarm late, early;

	create(&late, NULL);
	create(&early, NULL);
	let_expire(&late, 2 * SOON, &early, SOON);
	UNTIL_BY(turn(), late.expired && early.expired);
	assert_int_equal(early.last, 1);
	assert_int_equal(late.last, 2);
}

static void timers__two_are_due_THE_EARLIER_FIRST(void **state)
{
	IN_EACH_LOOP(order);
}

/* ---- in callbacks ----------------------------------------------------- */

static void stop_itself(struct alarm *a)
{
	if (rdmamsg_timer_stop(a->timer))
		note("rdmamsg_timer_stop: %s", rdmamsg_error());
}

static void stop_other(struct alarm *a)
{
	stop_itself(a->other);
}

static void destroy_itself(struct alarm *a)
{
	rdmamsg_timer_destroy(a->timer);
}

static void destroy_other(struct alarm *a)
{
	rdmamsg_timer_destroy(a->other->timer);
}

static void start_again(struct alarm *a)
{
	if (a->expired < TIMES && rdmamsg_timer_start(a->timer, 1, 0))
		note("rdmamsg_timer_start: %s", rdmamsg_error());
}

static void end_itself(void (*turn)(void))
{
	static void (*const ways[])(struct alarm *a) = {
		stop_itself, destroy_itself,
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct alarm a;

		create(&a, ways[i]);
		start(&a, SOON, 1);
		UNTIL_BY(turn(), a.expired);
		outlast(turn);
		assert_int_equal(a.expired, 1);
	}
}

static void timer__ended_in_its_callback_EXPIRES_NO_MORE(void **state)
{
	IN_EACH_LOOP(end_itself);
}

/* Both are due in the same call; the first ends the second. */
static void end_other(void (*turn)(void))
{
	static void (*const ways[])(struct alarm *a) = {
		stop_other, destroy_other,
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct alarm first, second;

		create(&first, ways[i]);
		create(&second, NULL);
		first.other = &second;
		let_expire(&first, SOON, &second, 2 * SOON);
		UNTIL_BY(turn(), first.expired);
		outlast(turn);
		assert_int_equal(first.expired, 1);
		assert_int_equal(second.expired, 0);
	}
}

static void timer__ended_in_anothers_callback_EXPIRES_NEVER(void **state)
{
	IN_EACH_LOOP(end_other);
}

static void restart(void (*turn)(void))
{
	struct alarm a;

	create(&a, start_again);
	start(&a, 1, 0);
	UNTIL_BY(turn(), a.expired == TIMES);
	outlast(turn);
	assert_int_equal(a.expired, TIMES);
}

static void timer__started_in_its_callback_EXPIRES_AGAIN(void **state)
{
	IN_EACH_LOOP(restart);
}

/* ---- beside connections ----------------------------------------------- */

static struct pair p;

static void send_one(struct alarm *a)
{
	static const size_t len = 1000;

	if (p.c.sent < MESSAGES &&
	    end_send(&p.c, HOW_SENDV, len, (uint32_t)p.c.sent) == -EINVAL)
		note("rdmamsg_sendv: %s", rdmamsg_error());
}

/* The context of the client ends with its timer running. */
static void timer__beside_a_connection_SENDS(void **state)
{
	struct alarm a;

	pair_open(&p);
	ctx = p.c.ctx;
	calls = 0;
	create(&a, send_one);
	start(&a, 1, 1);
	WAIT_FOR(p.s.received == MESSAGES);
	pair_close(&p);
	a.then = NULL;
	WAIT_FOR(a.expired > MESSAGES + 2);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(timer__without_repeat_EXPIRES_ONCE),
		TEST(timer__with_repeat_EXPIRES_UNTIL_STOPPED),
		TEST(timers__two_are_due_THE_EARLIER_FIRST),
		TEST(timer__ended_in_its_callback_EXPIRES_NO_MORE),
		TEST(timer__ended_in_anothers_callback_EXPIRES_NEVER),
		TEST(timer__started_in_its_callback_EXPIRES_AGAIN),
		TEST(timer__beside_a_connection_SENDS),
	};

	return test_main(tests, NULL, argc, argv);
}
