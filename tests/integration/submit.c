/* SPDX-License-Identifier: BSD-2-Clause */
/* Work from other threads: rdmamsg_submit(). */
#include "common.h"
#include "thread.h"

#include <sched.h>

static struct pair p;

#define SUBMITTERS	4
#define SUBMIT_EACH	25000

static struct submitter {
	pthread_t thread;
	struct rdmamsg *ctx;
	unsigned int id;
	uint32_t next;		/* next number to run */
} submitters[SUBMITTERS];

static void submitted(struct rdmamsg *ctx, void *arg)
{
	uintptr_t x = (uintptr_t)arg;
	struct submitter *s = &submitters[x >> 24];

	if (s->ctx != ctx || s->next++ != (x & 0xffffff))
		note("thread %u: function %u came as %u", s->id,
		     (unsigned int)x & 0xffffff, s->next - 1);
}

static void *submit_many_waiting(void *arg)
{
	struct submitter *s = arg;

	for (uintptr_t n = 0; n < SUBMIT_EACH; n++)
		if (rdmamsg_submit_wait(s->ctx, submitted, (void *)
					((uintptr_t)s->id << 24 | n), -1))
			note("rdmamsg_submit_wait: %s", rdmamsg_error());
	return NULL;
}

static void *submit_many(void *arg)
{
	struct submitter *s = arg;

	for (uintptr_t n = 0; n < SUBMIT_EACH; n++) {
		void *x = (void *)((uintptr_t)s->id << 24 | n);
		int ret;

		while ((ret = rdmamsg_submit(s->ctx, submitted, x)) == -EAGAIN)
			sched_yield();
		if (ret)
			note("rdmamsg_submit: %s", rdmamsg_error());
	}
	return NULL;
}

static uint32_t submitted_count(void)
{
	uint32_t n = 0;

	for (int i = 0; i < SUBMITTERS; i++)
		n += submitters[i].next;
	return n;
}

static void submit_from_threads(uint32_t depth, void *(*fn)(void *arg))
{
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .submit_depth = depth,
	};
	struct rdmamsg *ctx = test_open(&opts);

	memset(submitters, 0, sizeof(submitters));
	for (unsigned int i = 0; i < SUBMITTERS; i++) {
		struct submitter *s = &submitters[i];

		s->ctx = ctx;
		s->id = i;
		start_thread(&s->thread, fn, s);
	}
	while (submitted_count() < SUBMITTERS * SUBMIT_EACH) {
		if (rdmamsg_wait(ctx, WAIT_MS) <= 0)
			fail_msg("only %u have run", submitted_count());
		check_notes();
	}
	for (int i = 0; i < SUBMITTERS; i++)
		pthread_join(submitters[i].thread, NULL);
	assert_int_equal(rdmamsg_wait(ctx, 0), 0);
	assert_int_equal(submitted_count(), SUBMITTERS * SUBMIT_EACH);
	check_notes();
	test_close(ctx);
}

static void submit__from_4_threads_ALL_RUN_IN_ORDER(void **state)
{
	submit_from_threads(0, submit_many);
}

static void submit__from_4_threads_small_queue_ALL_RUN_IN_ORDER(void **state)
{
	submit_from_threads(8, submit_many);
}

static void submit_wait__from_4_threads_NONE_REFUSED(void **state)
{
	submit_from_threads(0, submit_many_waiting);
	submit_from_threads(2, submit_many_waiting);
}

static void submit__queue_full_EAGAIN(void **state)
{
	static const struct rdmamsg_options opts = {
		.size = sizeof(opts), .submit_depth = 4,
	};
	struct rdmamsg *ctx = test_open(&opts);

	memset(submitters, 0, sizeof(submitters));
	submitters[0].ctx = ctx;
	for (uintptr_t n = 0; n < 40; n += 4) {
		for (uintptr_t i = 0; i < 4; i++)
			assert_int_equal(rdmamsg_submit(ctx, submitted,
							(void *)(n + i)), 0);
		assert_error(rdmamsg_submit(ctx, submitted, NULL), -EAGAIN,
			     "submit_depth");
		WAIT_FOR(submitters[0].next == n + 4);
	}
}

static void submit_beyond(struct rdmamsg *ctx, void *arg)
{
	int ret = 0;

	while (!ret)
		ret = rdmamsg_submit_wait(ctx, submitted,
					  (void *)(uintptr_t)(*(int *)arg)++,
					  -1);
	if (ret != -EDEADLK || !strstr(rdmamsg_error(), "submit_depth"))
		note("rdmamsg_submit_wait: %d, %s", ret, rdmamsg_error());
}

static void submit_wait__queue_full_in_a_callback_EDEADLK(void **state)
{
	static const struct rdmamsg_options opts = {
		.size = sizeof(opts), .submit_depth = 4,
	};
	struct rdmamsg *ctx = test_open(&opts);
	int n = 0;

	texts_are_fine = true;
	memset(submitters, 0, sizeof(submitters));
	submitters[0].ctx = ctx;
	assert_int_equal(rdmamsg_submit(ctx, submit_beyond, &n), 0);
	WAIT_FOR(submitters[0].next == 4);
	assert_int_equal(n, 5);
}

static void submit_wait__nobody_runs_them_ETIMEDOUT(void **state)
{
	static const struct rdmamsg_options opts = {
		.size = sizeof(opts), .submit_depth = 4,
	};
	struct rdmamsg *ctx = test_open(&opts);

	memset(submitters, 0, sizeof(submitters));
	submitters[0].ctx = ctx;
	for (uintptr_t n = 0; n < 4; n++)
		assert_int_equal(rdmamsg_submit_wait(ctx, submitted, (void *)n,
						     0), 0);
	assert_error(rdmamsg_submit_wait(ctx, submitted, NULL, 0), -ETIMEDOUT,
		     "submit_depth");
	assert_error(rdmamsg_submit_wait(ctx, submitted, NULL, 20), -ETIMEDOUT,
		     "20 ms");
	WAIT_FOR(submitters[0].next == 4);
	assert_error(rdmamsg_submit_wait(ctx, NULL, NULL, 0), -EINVAL, "fn");
	assert_error(rdmamsg_submit_wait(NULL, submitted, NULL, 0), -EINVAL,
		     "context");
}

static void submit__still_queued_at_close_RUNS(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	memset(submitters, 0, sizeof(submitters));
	submitters[0].ctx = ctx;
	for (uintptr_t n = 0; n < 10; n++)
		assert_int_equal(rdmamsg_submit(ctx, submitted, (void *)n), 0);
	test_close(ctx);
	check_notes();
	assert_int_equal(submitters[0].next, 10);
}

static void submit_again(struct rdmamsg *ctx, void *arg)
{
	int *left = arg;

	if (--*left && rdmamsg_submit(ctx, submit_again, arg))
		note("rdmamsg_submit: %s", rdmamsg_error());
}

static void submit__from_what_was_submitted_RUNS(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	int left = 5000;

	assert_int_equal(rdmamsg_submit(ctx, submit_again, &left), 0);
	WAIT_FOR(!left);
	left = 10;
	assert_int_equal(rdmamsg_submit(ctx, submit_again, &left), 0);
	test_close(ctx);
	assert_int_equal(left, 0);
}

static void submit__without_a_function_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	assert_error(rdmamsg_submit(ctx, NULL, NULL), -EINVAL, "fn");
	assert_error(rdmamsg_submit(NULL, submitted, NULL), -EINVAL, "context");
}

/* Answers from another thread, as a server with workers gives them. */
static void answer(struct rdmamsg *ctx, void *arg)
{
	struct rdmamsg_msg *msg = arg;

	if (rdmamsg_msg_send(p.s.ep, msg, rdmamsg_msg_tag(msg), NULL))
		note("rdmamsg_msg_send: %s", rdmamsg_error());
}

static void *work(void *arg)
{
	struct rdmamsg_msg *msg = arg;

	if (rdmamsg_submit(p.s.ctx, answer, msg))
		note("rdmamsg_submit: %s", rdmamsg_error());
	return NULL;
}

static pthread_t answerers[50];
static int answerer_count;

static void to_worker(struct end *e, struct rdmamsg_msg *msg)
{
	start_thread(&answerers[answerer_count++], work, msg);
}

static void submit__answers_from_workers_ARRIVE(void **state)
{
	pair_init(&p, NULL);
	p.s.then_message = to_worker;
	p.c.expect_nothing = true;
	answerer_count = 0;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < ARRAY_SIZE(answerers); n++)
		end_send_all(&p.c, HOW_SEND, n * 100, n);
	WAIT_FOR(p.c.received == ARRAY_SIZE(answerers));
	for (int i = 0; i < answerer_count; i++)
		pthread_join(answerers[i], NULL);
	p.c.expected_count = p.c.received;
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(submit__from_4_threads_ALL_RUN_IN_ORDER),
		TEST(submit__from_4_threads_small_queue_ALL_RUN_IN_ORDER),
		TEST(submit_wait__from_4_threads_NONE_REFUSED),
		TEST(submit__queue_full_EAGAIN),
		TEST(submit_wait__queue_full_in_a_callback_EDEADLK),
		TEST(submit_wait__nobody_runs_them_ETIMEDOUT),
		TEST(submit__still_queued_at_close_RUNS),
		TEST(submit__from_what_was_submitted_RUNS),
		TEST(submit__answers_from_workers_ARRIVE),
		TEST(submit__without_a_function_EINVAL),
	};

	return test_main(tests, NULL, argc, argv);
}
