/* SPDX-License-Identifier: BSD-2-Clause */
/* Every accepted operation completes exactly once, however it ends. */
#include "common.h"

#include <signal.h>
#include <sys/wait.h>

#define LARGE	((size_t)16 << 20)

static struct pair p;

/* Starts operations of every kind until one is refused. */
static void fill(struct end *e)
{
	for (uint32_t n = 0; n < 60; n++) {
		int ret = end_send(e, n % HOW_COUNT, mixed_size(n), n);

		if (ret == -EAGAIN)
			break;
		if (ret)
			fail_msg("%s: %s", e->name, rdmamsg_error());
	}
	assert_true(e->sent > 0);
}

static void start_filled(uint32_t send_queue)
{
	pair_init(&p, NULL);
	p.c.tuning.max_copy = p.s.tuning.max_copy = LARGE;
	p.c.opts.send_queue = p.s.opts.send_queue = send_queue;
	pair_listen(&p);
	pair_connect(&p);
	fill(&p.c);
	fill(&p.s);
}

static void cookies__graceful_close_in_flight_ALL_DELIVERED(void **state)
{
	start_filled(0);
	pair_close(&p);
	pair_fini(&p);
	/* the queue needs credits while both sides are closing */
	pair_init(&p, NULL);
	p.c.opts.send_queue = p.s.opts.send_queue = 200;
	p.c.tuning.recv_depth = p.s.tuning.recv_depth = 4;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < 150; n++) {
		assert_int_equal(end_send(&p.c, HOW_SENDV, mixed_size(n) % 9000,
					  n), 0);
		assert_int_equal(end_send(&p.s, HOW_SENDV, mixed_size(n) % 9000,
					  n), 0);
	}
	pair_close(&p);
	pair_fini(&p);
}

static void cookies__both_close_in_flight_ALL_DELIVERED(void **state)
{
	start_filled(100);
	rdmamsg_ep_close(p.s.ep);
	pair_close(&p);
	pair_fini(&p);
}

/* Sends as long as the endpoint allows. */
static void stream(struct end *e)
{
	static const size_t sizes[] = { 200000, 50, 9000, 700000, 1000 };
	size_t *n = e->arg;
	int ret;

	while (!(ret = end_send(e, *n % 2 ? HOW_SENDV : HOW_MSG,
				sizes[*n % ARRAY_SIZE(sizes)], (uint32_t)*n)))
		++*n;
	if (ret == -ESHUTDOWN)
		texts_are_fine = true;
	else if (ret != -EAGAIN)
		note("%s: %s", e->name, rdmamsg_error());
}

static void close_at(struct end *e, struct rdmamsg_msg *msg)
{
	if (e->received == 20)
		rdmamsg_ep_close(e->ep);
	rdmamsg_msg_free(msg);
}

/* The closing side does not wait for a peer that has not heard of the close. */
static void cookies__close_while_the_peer_streams_ALL_DELIVERED(void **state)
{
	for (int i = 0; i < 20; i++) {
		size_t c = 0, s = 0;

		pair_init(&p, NULL);
		p.c.arg = &c;
		p.s.arg = &s;
		p.c.then_writable = p.s.then_writable = stream;
		p.c.then_sent = p.s.then_sent = stream;
		if (i % 2)
			p.s.then_message = close_at;
		else
			p.c.then_message = close_at;
		/* if the peer streams on, the close fails at this deadline */
		p.c.opts.close_timeout_ms = p.s.opts.close_timeout_ms = 20000;
		pair_listen(&p);
		pair_connect(&p);
		stream(&p.c);
		stream(&p.s);
		WAIT_FOR(p.c.closed && p.s.closed);
		pair_check_graceful(&p);
		pair_fini(&p);
	}
}

static void cookies__abort_in_flight_EACH_ONCE(void **state)
{
	for (uint32_t queue = 0; queue <= 100; queue += 100) {
		start_filled(queue);
		p.c.expect_nothing = p.s.expect_nothing = true;
		rdmamsg_ep_abort(p.c.ep);
		/* on_closed waits for the loop */
		assert_int_equal(p.c.closed, 0);
		WAIT_FOR(p.c.closed && p.s.closed);
		end_check_cookies(&p.c);
		end_check_cookies(&p.s);
		assert_true(p.c.sent_failed > 0);
		assert_int_equal(p.c.why.who, RDMAMSG_WHO_LOCAL);
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
		assert_int_equal(p.s.why.who, RDMAMSG_WHO_PEER);
		assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ABORTED);
		pair_fini(&p);
	}
}

static void abort_now(struct end *e)
{
	rdmamsg_ep_abort(e->ep);
}

static void cookies__abort_in_on_complete_EACH_ONCE(void **state)
{
	pair_init(&p, NULL);
	p.c.then_sent = abort_now;
	p.c.tuning.max_copy = LARGE;
	pair_listen(&p);
	pair_connect(&p);
	fill(&p.c);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	pair_fini(&p);
}

static void cookies__context_closed_in_flight_EACH_ONCE(void **state)
{
	start_filled(100);
	test_close(p.c.ctx);
	check_notes();
	assert_int_equal(p.c.closed, 1);
	end_check_cookies(&p.c);
	WAIT_FOR(p.s.closed);
	end_check_cookies(&p.s);
	test_close(p.s.ctx);
	check_notes();
	end_fini(&p.c);
	end_fini(&p.s);
}

static int receive_for_ever(int argc, char **argv)
{
	static struct pair q;

	pair_init(&q, NULL);
	q.s.expect_nothing = true;
	pair_listen(&q);
	say("%s\n", q.port);
	for (;;)
		test_pump(1000);
	return 0;
}

static void cookies__peer_killed_in_flight_EACH_ONCE(void **state)
{
	struct child child;

	child_start(&child, "receiver", NULL);
	pair_init(&p, NULL);
	p.c.tuning.max_copy = LARGE;
	p.c.opts.send_queue = 100;
	child_line(&child, p.port, sizeof(p.port));
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.connected);
	fill(&p.c);
	WAIT_FOR(p.c.sent_ok > 2);
	kill(child.pid, SIGKILL);
	WAIT_FOR(p.c.closed);
	end_check_cookies(&p.c);
	if (!end_tells_death(&p.c.why))
		fail_msg("%d, %d, %s", p.c.why.who, p.c.why.cause,
			 p.c.why.text);
	assert_true(WIFSIGNALED(child_wait(&child)));
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "receiver", receive_for_ever }, { NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(cookies__graceful_close_in_flight_ALL_DELIVERED),
		TEST(cookies__both_close_in_flight_ALL_DELIVERED),
		TEST(cookies__close_while_the_peer_streams_ALL_DELIVERED),
		TEST(cookies__abort_in_flight_EACH_ONCE),
		TEST(cookies__abort_in_on_complete_EACH_ONCE),
		TEST(cookies__context_closed_in_flight_EACH_ONCE),
		TEST(cookies__peer_killed_in_flight_EACH_ONCE),
	};

	return test_main(tests, roles, argc, argv);
}
