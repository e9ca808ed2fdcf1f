/* SPDX-License-Identifier: BSD-2-Clause */
/* Closing: in every state, inside of every callback, in any order. */
#include "clock.h"
#include "common.h"
#include "request.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

static struct pair p;

enum when { RESOLVING, ROUTING, REQUESTED, SETUP, OPEN, CLOSING, TIMES };
enum act { CLOSE, ABORT, CLOSE_TWICE, CLOSE_ABORT, ACTS };

static void act_on(struct end *e, enum act act)
{
	/*
	 * the endpoint lives until its on_closed returns, after these callbacks
	 */
	if (act != ABORT)
		rdmamsg_ep_close(e->ep);
	if (act == CLOSE_TWICE)
		rdmamsg_ep_close(e->ep);
	if (act == ABORT || act == CLOSE_ABORT)
		rdmamsg_ep_abort(e->ep);
}

static void get_to(enum when when)
{
	const char *host = when == RESOLVING ? test_name() : test_addr();

	listen_put_off(&p);
	if (rdmamsg_connect(p.c.ctx, host, p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	if (when <= ROUTING)
		return;
	WAIT_FOR(waiting_count);
	if (when == REQUESTED)
		return;
	assert_int_equal(rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep),
			 0);
	if (when == SETUP) {
		/*
		 * the client needs time to learn of it, which this side cannot
		 * see
		 */
		for (int i = 0; i < 200; i++) {
			rdmamsg_process(p.c.ctx);
			usleep(1000);
		}
		assert_int_equal(p.c.connected + p.s.connected, 0);
		return;
	}
	WAIT_FOR(p.c.connected && p.s.connected);
	if (when == CLOSING) {
		rdmamsg_ep_close(p.c.ep);
		rdmamsg_ep_close(p.s.ep);
	}
}

static void end_in(enum when when, enum act act, bool server)
{
	struct end *e = server ? &p.s : &p.c;

	get_to(when);
	act_on(e, act);
	assert_int_equal(e->closed, 0);
	WAIT_FOR(e->closed);
	if (when < OPEN || act == ABORT || act == CLOSE_ABORT)
		assert_int_equal(e->why.cause, RDMAMSG_CAUSE_ABORTED);
	else
		assert_int_equal(e->why.cause, RDMAMSG_CAUSE_CLOSED);
	if (when < CLOSING)
		assert_int_equal(e->why.who, RDMAMSG_WHO_LOCAL);
	if (when >= SETUP) {
		WAIT_FOR(p.c.closed && p.s.closed);
	} else if (waiting_count) {
		(void)rdmamsg_request_reject(waiting[0], NULL, 0);
	}
	pair_fini(&p);
}

static void close__in_every_state_of_the_client_ENDS(void **state)
{
	for (enum when when = 0; when < TIMES; when++)
		for (enum act act = 0; act < ACTS; act++)
			end_in(when, act, false);
}

static void close__in_every_state_of_the_server_ENDS(void **state)
{
	for (enum when when = SETUP; when < TIMES; when++)
		for (enum act act = 0; act < ACTS; act++)
			end_in(when, act, true);
}

static void close__context_in_every_state_ENDS(void **state)
{
	for (enum when when = 0; when < TIMES; when++)
		for (int server = 0; server < 2; server++) {
			get_to(when);
			test_close(server ? p.s.ctx : p.c.ctx);
			check_notes();
			assert_int_equal(server ? p.s.closed : p.c.closed,
					 server ? when >= SETUP : 1);
			test_close(server ? p.c.ctx : p.s.ctx);
			check_notes();
			end_fini(&p.c);
			end_fini(&p.s);
		}
}

static enum act act_now;

static void act_here(struct end *e)
{
	act_on(e, act_now);
}

static void act_message(struct end *e, struct rdmamsg_msg *msg)
{
	act_on(e, act_now);
	rdmamsg_msg_free(msg);
}

static void act_once(struct end *e)
{
	if (e->sent_ok + e->sent_failed == 1)
		act_on(e, act_now);
}

static void prepare(enum act act)
{
	act_now = act;
	pair_init(&p, NULL);
	p.c.expect_nothing = p.s.expect_nothing = true;
	pair_listen(&p);
}

static void finish(void)
{
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	end_check_cookies(&p.s);
	pair_fini(&p);
}

static void send_and_finish(void)
{
	for (uint32_t n = 0; n < 10; n++)
		assert_int_equal(end_send(&p.c, HOW_SENDV, n % 3 * 50000, n),
				 0);
	finish();
}

static void close__inside_every_callback_ENDS(void **state)
{
	for (enum act act = 0; act < ACTS; act++) {
		prepare(act);
		p.c.then_connected = act_here;
		dial(&p.c, test_addr(), p.port, WAIT_MS);
		WAIT_FOR(p.c.closed && (p.s.closed || !p.s.ep));
		pair_fini(&p);

		prepare(act);
		p.s.then_connected = act_here;
		dial(&p.c, test_addr(), p.port, WAIT_MS);
		finish();

		prepare(act);
		p.s.then_message = act_message;
		pair_connect(&p);
		send_and_finish();

		prepare(act);
		p.c.then_sent = act_once;
		pair_connect(&p);
		send_and_finish();

		prepare(act);
		p.c.then_writable = act_here;
		pair_connect(&p);
		for (uint32_t n = 0; !end_send(&p.c, HOW_SEND, 10, n); n++)
			;
		finish();

		prepare(act);
		p.c.then_closed = act_here;
		p.s.then_closed = act_here;
		pair_connect(&p);
		rdmamsg_ep_close(p.c.ep);
		finish();
	}
}

static void close_listener_here(struct end *e)
{
	rdmamsg_listener_close(p.listener);
}

static void close__order_of_freeing_DOES_NOT_MATTER(void **state)
{
	struct rdmamsg_ep *ep;

	/* the listener closes before its endpoints, and in their callback */
	pair_open(&p);
	rdmamsg_listener_close(p.listener);
	pair_close(&p);
	pair_fini(&p);
	pair_init(&p, NULL);
	p.s.then_closed = close_listener_here;
	pair_listen(&p);
	pair_connect(&p);
	pair_close(&p);
	pair_fini(&p);
	/* a held endpoint outlives its context */
	pair_open(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	rdmamsg_ep_hold(ep);
	test_close(p.c.ctx);
	assert_int_equal(rdmamsg_ep_state(ep), RDMAMSG_CLOSED);
	assert_int_equal(rdmamsg_ep_reason(ep)->cause, RDMAMSG_CAUSE_ABORTED);
	rdmamsg_ep_release(ep);
	rdmamsg_ep_release(ep);
	test_close(p.s.ctx);
	check_notes();
	end_fini(&p.c);
	end_fini(&p.s);
	rdmamsg_close(NULL);
}

static void close_context_here(struct end *e)
{
	rdmamsg_close(e->ctx);
}

static void close__context_in_a_callback_IS_IGNORED(void **state)
{
	errors_are_fine = true;
	pair_init(&p, NULL);
	p.c.then_connected = close_context_here;
	pair_listen(&p);
	pair_connect(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void close__peer_never_reads_ABORTS_IN_TIME(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.close_timeout_ms = 15000;
	pair_listen(&p);
	pair_connect(&p);
	rdmamsg_ep_close(p.c.ep);
	/* only the client's loop turns */
	for (uint64_t end = now_ms() + WAIT_MS; !p.c.closed; usleep(1000)) {
		assert_true(now_ms() < end);
		clock_pass(100);
		rdmamsg_process(p.c.ctx);
	}
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(p.c.why.error, -ETIMEDOUT);
	WAIT_PASSING(p.s.closed);
	pair_fini(&p);
}

enum load { IDLE, SMALL, MANY, LARGE, LOADS };

/* Sends what the peer's program does not take. */
static void send_load(enum load load)
{
	p.s.expect_nothing = true;
	if (load == SMALL)
		(void)end_send(&p.c, HOW_SEND, 10, 0);
	if (load == LARGE)
		(void)end_send(&p.c, HOW_SENDV, 1 << 20, 0);
	for (uint32_t i = 0; load == MANY && i < 100; i++)
		(void)end_send(&p.c, HOW_SEND, 10, i);
}

/*
 * Only the client's loop turns, and time passes when the peer's device has all.
 * Nothing tells that: a kernel that does it needs the processor.
 */
static void close_alone(void)
{
	const int turns = test_on_soft() ? 100 : 1000;

	rdmamsg_ep_close(p.c.ep);
	for (int i = 0; i < turns; i++) {
		rdmamsg_process(p.c.ctx);
		usleep(1000);
	}
	UNTIL_BY((clock_pass(100), rdmamsg_process(p.c.ctx)), p.c.closed);
}

/*
 * The peer's program is stopped, and its device works. On iWARP nothing tells
 * whether it does. On siw it may look so: the clock of the test passes while a
 * PING waits in the kernel for the processor.
 */
static bool is_of_the_stopped(enum rdmamsg_who who)
{
	return (who == RDMAMSG_WHO_NETWORK && test_iwarp()) ||
	       (who == RDMAMSG_WHO_PEER && (!test_iwarp() || test_on_siw()));
}

static void close__peer_is_stopped_IS_OF_THE_PEER(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};

	for (int n = 0; n < 2 * LOADS; n++) {
		pair_init(&p, NULL);
		p.c.opts.close_timeout_ms = 15000;
		p.c.opts.send_queue = 100;
		if (n >= LOADS)
			p.c.opts.failover = p.s.opts.failover = &failover;
		pair_listen(&p);
		pair_connect(&p);
		send_load(n % LOADS);
		close_alone();
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_TIMEOUT);
		assert_true(is_of_the_stopped(p.c.why.who));
		WAIT_PASSING(p.s.closed);
		pair_fini(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(close__in_every_state_of_the_client_ENDS),
		TEST(close__in_every_state_of_the_server_ENDS),
		TEST(close__context_in_every_state_ENDS),
		TEST(close__inside_every_callback_ENDS),
		TEST(close__order_of_freeing_DOES_NOT_MATTER),
		TEST(close__context_in_a_callback_IS_IGNORED),
		TEST(close__peer_never_reads_ABORTS_IN_TIME),
		TEST(close__peer_is_stopped_IS_OF_THE_PEER),
	};

	return test_main(tests, NULL, argc, argv);
}
