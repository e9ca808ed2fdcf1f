/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: callbacks that do not return. */
#include "common.h"

#include <setjmp.h>

#include <rdmamsg/flow.h>
#include <rdmamsg/group.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/timer.h>

static struct pair p;

static jmp_buf out;

static void leave(struct end *e, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
	e->then_message = NULL;
	/* a call in a callback is still refused, and does not repair */
	assert_error(rdmamsg_process(e->ctx), -EDEADLK, "callback");
	longjmp(out, 1);
}

/* Calls the library from one place, as the loop of a program. */
static int __attribute__((noinline)) call_one(struct rdmamsg *ctx, int how)
{
	/* no tail call, so that the library returns to here */
	volatile int ret = how == 0 ? rdmamsg_process(ctx) :
			   how == 1 ? rdmamsg_poll(ctx) :
			   how == 2 ? rdmamsg_wait(ctx, 100) :
			   rdmamsg_run(ctx);

	return ret;
}

/* Calls the library from a frame that is deeper than the one that was left. */
static int __attribute__((noinline)) call_deep(struct rdmamsg *ctx, int depth)
{
	volatile char room[4096];

	room[0] = (char)depth;
	return depth ? call_deep(ctx, depth - 1) + room[0] - (char)depth :
	       rdmamsg_process(ctx);
}

static bool run_once;		/* on_closed ends rdmamsg_run() */

static void stop(struct end *e)
{
	rdmamsg_stop(e->ctx);
}

/* The server's on_message jumps out of the call 'how'. */
static void leave_a_callback(int how, bool again)
{
	pair_open(&p);
	p.s.then_message = leave;
	p.s.then_closed = run_once ? stop : NULL;
	end_send_all(&p.c, HOW_SEND, 100, 1);
	if (!setjmp(out))
		for (;;)
			(void)call_one(p.s.ctx, how);
	if (again)
		assert_true(call_one(p.s.ctx, how) >= 0);
}

static void ended(const struct end *e)
{
	assert_int_equal(e->closed, 1);
	assert_int_equal(e->why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(e->why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_non_null(strstr(e->why.text, "longjmp"));
}

static void begin_again(struct end *e)
{
	const char *name = e->name;
	struct rdmamsg *ctx = e->ctx;

	end_fini(e);
	end_init(e, name, ctx);
}

static void callback__left_THE_NEXT_CALL_REPAIRS(void **state)
{
	for (int how = 0; how < 12; how++) {
		/* from elsewhere, from deeper, and from the same place */
		run_once = how == 11;
		leave_a_callback(how % 4, how / 4 == 2);
		if (how / 4 == 0)
			assert_true(rdmamsg_process(p.s.ctx) >= 0);
		else if (how / 4 == 1)
			assert_true(call_deep(p.s.ctx, 10) >= 0);
		WAIT_FOR(p.s.closed && p.c.closed);
		ended(&p.s);
		assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
		/* the context goes on with others */
		rdmamsg_listener_close(p.listener);
		begin_again(&p.s);
		begin_again(&p.c);
		p.s.peer = &p.c;
		p.c.peer = &p.s;
		pair_listen(&p);
		pair_connect(&p);
		end_send_all(&p.c, HOW_SEND, 100, 2);
		pair_close(&p);
		pair_fini(&p);
	}
}

static void callback__left_CLOSE_CLOSES(void **state)
{
	leave_a_callback(0, false);
	test_close(p.s.ctx);
	ended(&p.s);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	test_close(p.c.ctx);
	end_fini(&p.s);
	end_fini(&p.c);
}

static unsigned int farewells;

static void leave_on_closed(struct rdmamsg_group *group,
			    const struct rdmamsg_reason *why)
{
	if (!farewells++)
		longjmp(out, 1);
}

static struct rdmamsg_msg *shared;

static void share_and_leave(struct end *e, struct rdmamsg_msg *msg)
{
	e->then_message = NULL;
	if (rdmamsg_msg_ref(msg))
		note("rdmamsg_msg_ref: %s", rdmamsg_error());
	rdmamsg_msg_free(msg);
	shared = msg;
	longjmp(out, 1);
}

static struct rdmamsg_srq *srq;

/*
 * The message is in the slot of its receive, and the program has it. The server
 * may share its receives.
 */
static void share_in_a_callback(bool shares)
{
	static const struct rdmamsg_srq_options opts = { .size = sizeof(opts) };

	pair_init(&p, NULL);
	srq = NULL;
	if (shares)
		assert_int_equal(rdmamsg_srq_create(p.s.ctx, &opts, &srq), 0);
	p.s.opts.srq = srq;
	pair_listen(&p);
	pair_connect(&p);
	p.s.then_message = share_and_leave;
	end_send_all(&p.c, HOW_SEND, 100, 1);
	if (!setjmp(out))
		for (;;)
			(void)call_one(p.s.ctx, 0);
}

static void check_shared(void)
{
	assert_memory_equal(rdmamsg_msg_data(shared), pattern(1), 100);
	rdmamsg_msg_free(shared);
}

/* No receive is promised to an endpoint that has ended. */
static void check_promised(void)
{
	struct rdmamsg_srq_stats s = { .size = sizeof(s) };

	WAIT_PASSING(p.s.closed && p.c.closed);
	if (!srq)
		return;
	assert_int_equal(rdmamsg_srq_get_stats(srq, &s), 0);
	assert_int_equal(s.endpoints, 0);
	assert_int_equal(s.promised, 0);
}

static void message__shared_in_a_callback_left_STAYS(void **state)
{
	for (int round = 0; round < 6; round++) {
		share_in_a_callback(round % 2);
		if (round / 2 == 0)
			check_shared();
		if (round / 2 < 2)
			check_promised();
		if (round / 2 == 1)
			check_shared();
		pair_fini(&p);
		if (round / 2 == 2)
			check_shared();
	}
}

/* The second of three messages is being delivered when the call is left. */
static void leave_second(struct end *e, struct rdmamsg_msg *msg)
{
	if (e->received == 2)
		leave(e, msg);
	rdmamsg_msg_free(msg);
}

static void leave_with_srq(void)
{
	p.s.opts.srq = srq;
	pair_listen(&p);
	pair_connect(&p);
	p.s.then_message = leave_second;
	for (uint32_t n = 1; n <= 3; n++)
		end_send_all(&p.c, HOW_SEND, 100, n);
	if (!setjmp(out))
		for (;;)
			(void)call_one(p.s.ctx, 0);
	assert_true(rdmamsg_process(p.s.ctx) >= 0);
	WAIT_PASSING(p.s.closed && p.c.closed);
	rdmamsg_listener_close(p.listener);
	begin_again(&p.s);
	begin_again(&p.c);
	p.s.peer = &p.c;
	p.c.peer = &p.s;
}

/* The receives of the lost completions come back, too. */
static void callback__left_often_shared_receives_REMAIN(void **state)
{
	static const struct rdmamsg_srq_options opts = {
		.size = sizeof(opts), .depth = 16,
	};

	pair_init(&p, NULL);
	assert_int_equal(rdmamsg_srq_create(p.s.ctx, &opts, &srq), 0);
	for (int round = 0; round < 20; round++)
		leave_with_srq();
	p.s.opts.srq = srq;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 1; n <= 50; n++)
		end_send_all(&p.c, HOW_SEND, 100, n);
	pair_close(&p);
	pair_fini(&p);
}

static void on_closed_of_a_group__left_IS_CALLED_ONCE(void **state)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_closed = leave_on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.device = test_device(),
	};
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_group *group;
	volatile bool left = false;

	farewells = 0;
	/* on iWARP on_closed follows, too */
	assert_int_equal(rdmamsg_group_join(ctx, "239.3.5.7", &opts, &group),
			 0);
	if (!setjmp(out)) {
		rdmamsg_group_leave(group);
		WAIT_FOR(farewells);
	} else {
		left = true;
	}
	assert_true(left);
	for (int i = 0; i < 3; i++)
		if (rdmamsg_process(ctx) < 0)
			fail_msg("rdmamsg_process: %s", rdmamsg_error());
	test_close(ctx);
	assert_int_equal(farewells, 1);
}

static void jump_canceled(struct end *e)
{
	if (!e->sent_failed)
		return;
	e->then_sent = NULL;
	longjmp(out, 1);
}

/* Sends until three wait for the server, which does nothing. */
static void fill_queue(void)
{
	struct rdmamsg_ep_flow_attr flow = { .size = sizeof(flow) };

	for (uint32_t n = 1; flow.queued < 3; n++) {
		assert_int_equal(end_send(&p.c, HOW_SEND, 100, n), 0);
		assert_int_equal(rdmamsg_ep_flow_query(p.c.ep, &flow), 0);
	}
}

static void on_complete__left_OTHERS_CANCELED_ARE_TOLD(void **state)
{
	struct cookie *c;

	pair_init(&p, NULL);
	p.c.opts.send_queue = 64;
	p.s.expect_nothing = true;
	pair_listen(&p);
	pair_connect(&p);
	fill_queue();
	c = p.c.cookies;
	for (int i = 0; i < 3; i++, c = c->next)
		assert_int_equal(rdmamsg_ep_cancel(p.c.ep, c), 0);
	p.c.then_sent = jump_canceled;
	if (!setjmp(out))
		for (;;)
			(void)call_one(p.c.ctx, 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	pair_fini(&p);
}

/* The endpoint is being taken apart. */
static void on_complete__left_at_the_end_REST_IS_TOLD(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.send_queue = 64;
	p.s.expect_nothing = true;
	pair_listen(&p);
	pair_connect(&p);
	fill_queue();
	rdmamsg_ep_abort(p.c.ep);
	p.c.then_sent = jump_canceled;
	if (!setjmp(out))
		for (;;)
			(void)call_one(p.c.ctx, 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	pair_fini(&p);
}

static bool expired;

static void jump(struct rdmamsg_timer *timer, void *user)
{
	longjmp(out, 1);
}

static void expire(struct rdmamsg_timer *timer, void *user)
{
	expired = true;
}

/* Nothing else of the context makes the loop look at its timers. */
static void on_timer__left_LATER_TIMERS_EXPIRE(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_timer *first, *second;

	expired = false;
	assert_int_equal(rdmamsg_timer_create(ctx, jump, NULL, &first), 0);
	assert_int_equal(rdmamsg_timer_create(ctx, expire, NULL, &second), 0);
	assert_int_equal(rdmamsg_timer_start(first, 1, 0), 0);
	assert_int_equal(rdmamsg_timer_start(second, 2, 0), 0);
	if (!setjmp(out))
		for (;;)
			(void)call_one(ctx, 2);
	WAIT_FOR(expired);
	test_close(ctx);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(callback__left_THE_NEXT_CALL_REPAIRS),
		TEST(callback__left_CLOSE_CLOSES),
		TEST(message__shared_in_a_callback_left_STAYS),
		TEST(callback__left_often_shared_receives_REMAIN),
		TEST(on_closed_of_a_group__left_IS_CALLED_ONCE),
		TEST(on_complete__left_OTHERS_CANCELED_ARE_TOLD),
		TEST(on_complete__left_at_the_end_REST_IS_TOLD),
		TEST(on_timer__left_LATER_TIMERS_EXPIRE),
	};

	return test_main(tests, NULL, argc, argv);
}
