/* SPDX-License-Identifier: BSD-2-Clause */
/* Work submitted by other threads: order, full queues, wake-ups. No device. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/stack.h"
#include "base/submit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define THREADS		4
#define EACH		20000

static struct rdmamsg *open_ctx(uint32_t depth)
{
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .submit_depth = depth,
	};
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, &opts), 0);
	return ctx;
}

static bool readable(const struct rdmamsg *ctx)
{
	struct pollfd fd = { rdmamsg_fd(ctx), POLLIN, 0 };

	return poll(&fd, 1, 0) == 1;
}

static int order[128], ran;

static void note(struct rdmamsg *ctx, void *arg)
{
	order[ran++] = (int)(intptr_t)arg;
}

static int set_up(void **state)
{
	ran = 0;
	return 0;
}

static void submit__some_RUN_ONCE_IN_ORDER(void **state)
{
	struct rdmamsg *ctx = open_ctx(16);

	assert_false(readable(ctx));
	for (intptr_t i = 0; i < 10; i++)
		assert_int_equal(rdmamsg_submit(ctx, note, (void *)i), 0);
	assert_int_equal(ran, 0);
	assert_true(readable(ctx));
	assert_int_equal(rdmamsg_process(ctx), 10);
	for (int i = 0; i < 10; i++)
		assert_int_equal(order[i], i);
	assert_int_equal(rdmamsg_process(ctx), 0);
	assert_false(readable(ctx));
	rdmamsg_close(ctx);
	assert_int_equal(ran, 10);
}

/*
 * A queue takes at least depth entries, refuses more when full, and runs all.
 */
static void submit__depth_IS_KEPT(void **state)
{
	for (uint32_t depth = 1; depth <= 33; depth++) {
		struct rdmamsg *ctx = open_ctx(depth);

		for (int lap = 0; lap < 5; lap++) {
			intptr_t n = 0;

			ran = 0;
			while (n < 128 && !rdmamsg_submit(ctx, note, (void *)n))
				n++;
			assert_in_range(n, depth, 64);
			assert_int_equal(rdmamsg_submit(ctx, note, NULL),
					 -EAGAIN);
			rdmamsg_process(ctx);
			assert_int_equal(ran, n);
			for (int i = 0; i < n; i++)
				assert_int_equal(order[i], i);
		}
		rdmamsg_close(ctx);
	}
}

static void submit__bad_arguments_EINVAL(void **state)
{
	struct rdmamsg *ctx = open_ctx(0);

	assert_int_equal(rdmamsg_submit(ctx, NULL, NULL), -EINVAL);
	assert_int_equal(rdmamsg_submit(NULL, note, NULL), -EINVAL);
	rdmamsg_close(ctx);
}

static void submit__left_RUN_AT_CLOSE(void **state)
{
	struct rdmamsg *ctx = open_ctx(0);

	for (intptr_t i = 0; i < 20; i++)
		assert_int_equal(rdmamsg_submit(ctx, note, (void *)i), 0);
	rdmamsg_close(ctx);
	assert_int_equal(ran, 20);
}

static void again(struct rdmamsg *ctx, void *arg)
{
	ran++;
	if (ran < 1000)
		assert_int_equal(rdmamsg_submit(ctx, again, NULL), 0);
	/* this code runs in a callback, so waiting is impossible */
	assert_int_equal(rdmamsg_process(ctx), -EDEADLK);
	assert_int_equal(rdmamsg_wait(ctx, 0), -EDEADLK);
	rdmamsg_close(ctx);	/* no effect in a callback */
}

static void submit__from_a_callback_DOES_NOT_STARVE(void **state)
{
	struct rdmamsg *ctx = open_ctx(8);
	int before;

	assert_int_equal(rdmamsg_submit(ctx, again, NULL), 0);
	while (readable(ctx)) {
		before = ran;
		/*
		 * the last wake-up may find no work, because the work has run
		 */
		assert_true(rdmamsg_process(ctx) > 0 || before == 1000);
		assert_true(ran > before || before == 1000);
		assert_true(ran - before <= 16);
	}
	assert_int_equal(ran, 1000);
	rdmamsg_close(ctx);
}

static void stop_it(struct rdmamsg *ctx, void *arg)
{
	rdmamsg_stop(ctx);
}

static void run__stopped_before_RETURNS(void **state)
{
	struct rdmamsg *ctx = open_ctx(0);

	rdmamsg_stop(ctx);
	assert_int_equal(rdmamsg_run(ctx), 0);
	assert_int_equal(rdmamsg_submit(ctx, stop_it, NULL), 0);
	assert_int_equal(rdmamsg_run(ctx), 0);
	rdmamsg_close(ctx);
}

static void wait__nothing_TIMES_OUT(void **state)
{
	struct rdmamsg *ctx = open_ctx(0);
	uint64_t start = rdmamsg__now_ms();

	assert_int_equal(rdmamsg_wait(ctx, 30), 0);
	assert_true(rdmamsg__now_ms() - start >= 30);
	assert_int_equal(rdmamsg_wait(ctx, 0), 0);
	rdmamsg_close(ctx);
}

/* ---- threads ---------------------------------------------------------- */

struct producer {
	pthread_t thread;
	struct rdmamsg *ctx;
	int id;
	int next;		/* the number that the reader expects next */
};

static struct producer producers[THREADS];
static int total;
static bool waiting;		/* rdmamsg_submit_wait() */

static void take(struct rdmamsg *ctx, void *arg)
{
	struct producer *p = &producers[(uintptr_t)arg % THREADS];

	assert_int_equal((uintptr_t)arg / THREADS, p->next);
	p->next++;
	if (++total == THREADS * EACH)
		rdmamsg_stop(ctx);
}

static void *produce(void *arg)
{
	struct producer *p = arg;

	for (uintptr_t i = 0; i < EACH; i++) {
		uintptr_t what = i * THREADS + (uintptr_t)p->id;

		if (waiting && rdmamsg_submit_wait(p->ctx, take, (void *)what,
						   -1))
			return NULL;
		while (!waiting && rdmamsg_submit(p->ctx, take, (void *)what) ==
		       -EAGAIN)
			sched_yield();
	}
	return NULL;
}

/* The reader sleeps in poll(), so a lost wake-up hangs the test. */
static void four_threads(uint32_t depth)
{
	struct rdmamsg *ctx = open_ctx(depth);

	total = 0;
	for (int i = 0; i < THREADS; i++) {
		producers[i] = (struct producer){ .ctx = ctx, .id = i };
		assert_int_equal(pthread_create(&producers[i].thread, NULL,
						produce, &producers[i]), 0);
	}
	assert_int_equal(rdmamsg_run(ctx), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(producers[i].thread, NULL);
		assert_int_equal(producers[i].next, EACH);
	}
	rdmamsg_close(ctx);
}

static void submit__four_threads_LOSE_NOTHING(void **state)
{
	waiting = false;
	four_threads(64);
}

/* The writers sleep, too. */
static void submit_wait__four_threads_LOSE_NOTHING(void **state)
{
	waiting = true;
	four_threads(64);
	four_threads(2);
}

struct letter {
	struct mail mail;
	int id;
};

static void open_letter(struct rdmamsg *ctx, struct mail *mail)
{
	struct letter *l = list_entry(mail, struct letter, mail);

	order[ran++] = l->id;
	free(l);
}

static void post(struct rdmamsg *ctx, int id)
{
	struct letter *l = calloc(1, sizeof(*l));

	l->mail.fn = open_letter;
	l->id = id;
	list_init(&l->mail.node);
	rdmamsg__mail_post(&ctx->loop, &l->mail);
}

static void mail__posted_ARRIVES_IN_ORDER(void **state)
{
	struct rdmamsg *ctx = open_ctx(0);

	post(ctx, 1);
	post(ctx, 2);
	assert_true(readable(ctx));
	assert_int_equal(rdmamsg_process(ctx), 2);
	assert_int_equal(order[0], 1);
	assert_int_equal(order[1], 2);
	post(ctx, 3);
	rdmamsg_close(ctx);	/* runs letter 3 */
	assert_int_equal(ran, 3);
}

/* ---- who may wait ------------------------------------------------------ */

static void fill(struct rdmamsg *ctx)
{
	while (!rdmamsg_submit(ctx, note, NULL))
		;
}

static void submit_wait__nobody_has_run_them_opener_EDEADLK(void **state)
{
	struct rdmamsg *ctx = open_ctx(4);

	ctx->loop.submit.own_ms = 20;
	fill(ctx);
	assert_int_equal(rdmamsg_submit_wait(ctx, note, NULL, -1), -EDEADLK);
	assert_int_equal(rdmamsg_submit_wait(ctx, note, NULL, 1000000),
			 -EDEADLK);
	assert_int_equal(rdmamsg_submit_wait(ctx, note, NULL, 10), -ETIMEDOUT);
	rdmamsg_close(ctx);
}

/* Becomes the context's thread when the other one waits already. */
static void *take_over(void *arg)
{
	struct rdmamsg *ctx = arg;

	while (!atomic_load(&ctx->loop.submit.waiting))
		sched_yield();
	return (void *)(intptr_t)rdmamsg_process(ctx);
}

static void wait_for_another(struct rdmamsg *ctx)
{
	pthread_t thread;

	fill(ctx);
	assert_int_equal(pthread_create(&thread, NULL, take_over, ctx), 0);
	assert_int_equal(rdmamsg_submit_wait(ctx, note, NULL, -1), 0);
	pthread_join(thread, NULL);
	rdmamsg_close(ctx);
}

static void submit_wait__opened_here_runs_there_WAITS(void **state)
{
	wait_for_another(open_ctx(4));
}

static void submit_wait__ran_here_runs_there_WAITS(void **state)
{
	struct rdmamsg *ctx = open_ctx(4);

	assert_int_equal(rdmamsg_submit(ctx, note, NULL), 0);
	assert_int_equal(rdmamsg_process(ctx), 1);
	wait_for_another(ctx);
}

static void *nothing(void *arg)
{
	return arg;
}

/* As if the call that runs this function had not handled an event before. */
static void wait_inside(struct rdmamsg *ctx, void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
	atomic_store(&ctx->loop.submit.reader, thread);
	fill(ctx);
	*(int *)arg = rdmamsg_submit_wait(ctx, note, NULL, -1);
	pthread_join(thread, NULL);
}

static void submit_wait__in_a_callback_EDEADLK_AT_ONCE(void **state)
{
	struct rdmamsg *ctx;
	int ret = 0;

	if (!rdmamsg__on_this_stack(&ret, &ret)) {
		print_message("skip: nothing tells the bounds of the stack, as "
			      "in an emulator\n");
		skip();
	}
	ctx = open_ctx(4);
	assert_int_equal(rdmamsg_submit(ctx, wait_inside, &ret), 0);
	assert_true(rdmamsg_process(ctx) > 0);
	assert_int_equal(ret, -EDEADLK);
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(submit__some_RUN_ONCE_IN_ORDER, set_up),
		cmocka_unit_test_setup(submit__depth_IS_KEPT, set_up),
		cmocka_unit_test_setup(submit__bad_arguments_EINVAL, set_up),
		cmocka_unit_test_setup(submit__left_RUN_AT_CLOSE, set_up),
		cmocka_unit_test_setup(submit__from_a_callback_DOES_NOT_STARVE,
				       set_up),
		cmocka_unit_test_setup(run__stopped_before_RETURNS, set_up),
		cmocka_unit_test_setup(wait__nothing_TIMES_OUT, set_up),
		cmocka_unit_test_setup(submit__four_threads_LOSE_NOTHING,
				       set_up),
		cmocka_unit_test_setup(submit_wait__four_threads_LOSE_NOTHING,
				       set_up),
		cmocka_unit_test_setup(
			submit_wait__nobody_has_run_them_opener_EDEADLK,
			set_up),
		cmocka_unit_test_setup(
			submit_wait__opened_here_runs_there_WAITS, set_up),
		cmocka_unit_test_setup(submit_wait__ran_here_runs_there_WAITS,
				       set_up),
		cmocka_unit_test_setup(
			submit_wait__in_a_callback_EDEADLK_AT_ONCE, set_up),
		cmocka_unit_test_setup(mail__posted_ARRIVES_IN_ORDER, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
