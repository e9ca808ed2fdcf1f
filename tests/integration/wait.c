/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting calls: without a loop, and refused in a callback. */
#include "clock.h"
#include "common.h"
#include "thread.h"

#include <rdmamsg/endpoint.h>

static struct pair p;

/* ---- in a callback ---------------------------------------------------- */

static void expect_deadlock(int ret, const char *what)
{
	texts_are_fine = true;
	if (ret != -EDEADLK)
		note("%s in a callback: %d", what, ret);
	else if (!strstr(rdmamsg_error(), "callback"))
		note("%s in a callback: '%s'", what, rdmamsg_error());
}

static struct rdmamsg_listener *own_listener;

static void try_everything(struct rdmamsg *ctx, struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *other;

	expect_deadlock(rdmamsg_process(ctx), "rdmamsg_process");
	expect_deadlock(rdmamsg_poll(ctx), "rdmamsg_poll");
	expect_deadlock(rdmamsg_wait(ctx, 0), "rdmamsg_wait");
	expect_deadlock(rdmamsg_wait(ctx, -1), "rdmamsg_wait");
	expect_deadlock(rdmamsg_run(ctx), "rdmamsg_run");
	expect_deadlock(rdmamsg_connect_wait(ctx, test_addr(), "1", NULL, 1,
					     &other), "rdmamsg_connect_wait");
	expect_deadlock(rdmamsg_listener_accept_wait(own_listener, NULL, 1,
						     &other),
			"rdmamsg_listener_accept_wait");
	expect_deadlock(rdmamsg_shutdown_wait(ctx, 1), "rdmamsg_shutdown_wait");
	if (ep) {
		expect_deadlock(rdmamsg_send_wait(ep, "x", 1, 0, 1),
				"rdmamsg_send_wait");
		expect_deadlock(rdmamsg_recv_wait(ep, 1, &msg),
				"rdmamsg_recv_wait");
		expect_deadlock(rdmamsg_ep_meet_wait(ep, 1, 1),
				"rdmamsg_ep_meet_wait");
		expect_deadlock(rdmamsg_ep_close_wait(ep, 1),
				"rdmamsg_ep_close_wait");
	}
	errors_are_fine = true;
	rdmamsg_close(ctx);
	errors_are_fine = false;
}

static void try_in_end(struct end *e)
{
	try_everything(e->ctx, e->ep);
}

static void try_in_submitted(struct rdmamsg *ctx, void *arg)
{
	rdmamsg_stop(ctx);
	try_everything(ctx, NULL);
	*(bool *)arg = true;
}

static void callback__calls_that_wait_EDEADLK(void **state)
{
	bool done = false;

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.c.ctx, test_addr(), "0", NULL, &own_listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	p.c.on.on_message = NULL;
	p.c.then_connected = p.c.then_sent = p.c.then_closed = try_in_end;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SEND, 100, 1);
	end_send_all(&p.c, HOW_SENDV, 100000, 2);
	WAIT_FOR(p.c.sent_ok == 2);
	assert_int_equal(rdmamsg_submit(p.c.ctx, try_in_submitted, &done), 0);
	/* the refused calls have not consumed the stop */
	assert_int_equal(rdmamsg_run(p.c.ctx), 0);
	assert_true(done);
	check_notes();
	pair_close(&p);
	pair_fini(&p);
}

/* ---- without a loop --------------------------------------------------- */

static const size_t wait_sizes[] = { 0, 1, 240, 241, 5000, 70000, 3 << 20 };

struct blocking {
	pthread_t thread;
	struct rdmamsg *ctx;
	struct rdmamsg_listener *listener;
	const struct rdmamsg_ep_options *opts;
	char port[8];
};

static void *serve_blocking(void *arg)
{
	struct blocking *b = arg;
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_listener_accept_wait(b->listener, b->opts, WAIT_MS,
					       &ep);

	if (ret) {
		note("rdmamsg_listener_accept_wait: %s", rdmamsg_error());
		return NULL;
	}
	while (!(ret = rdmamsg_recv_wait(ep, WAIT_MS, &msg))) {
		ret = rdmamsg_send_wait(ep, rdmamsg_msg_data(msg),
					rdmamsg_msg_len(msg),
					rdmamsg_msg_tag(msg), WAIT_MS);
		if (ret)
			note("rdmamsg_send_wait: %s", rdmamsg_error());
		rdmamsg_msg_free(msg);
	}
	if (ret != -ESHUTDOWN)
		note("rdmamsg_recv_wait: %d, %s", ret, rdmamsg_error());
	ret = rdmamsg_ep_close_wait(ep, WAIT_MS);
	if (ret)
		note("rdmamsg_ep_close_wait: %d, %s", ret, rdmamsg_error());
	return NULL;
}

static void blocking_start(struct blocking *b,
			   const struct rdmamsg_ep_options *opts)
{
	b->ctx = NULL;
	b->opts = opts;
	if (rdmamsg_open(&b->ctx, NULL) ||
	    rdmamsg_listen(b->ctx, test_addr(), "0", NULL, &b->listener))
		fail_msg("listening: %s", rdmamsg_error());
	listener_service(b->listener, b->port);
	start_thread(&b->thread, serve_blocking, b);
}

static void blocking_end(struct blocking *b)
{
	pthread_join(b->thread, NULL);
	rdmamsg_close(b->ctx);
	check_notes();
}

static void wait_helpers__both_sides_TALK(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct blocking server;
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;

	blocking_start(&server, NULL);
	assert_int_equal(rdmamsg_connect_wait(ctx, test_addr(), server.port,
					      NULL, WAIT_MS, &ep), 0);
	assert_int_equal(rdmamsg_ep_state(ep), RDMAMSG_CONNECTED);
	assert_error(rdmamsg_recv_wait(ep, 0, &msg), -ETIMEDOUT, "no message");
	assert_int_equal(rdmamsg_ep_reason(ep)->cause, RDMAMSG_CAUSE_NONE);
	assert_error(rdmamsg_recv_wait(ep, 50, &msg), -ETIMEDOUT, "50 ms");
	for (uint32_t n = 0; n < ARRAY_SIZE(wait_sizes); n++) {
		size_t len = wait_sizes[n];

		assert_int_equal(rdmamsg_send_wait(ep, pattern(n), len, n,
						   WAIT_MS), 0);
		assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
		assert_int_equal(rdmamsg_msg_len(msg), len);
		assert_int_equal(rdmamsg_msg_tag(msg), n);
		assert_memory_equal(rdmamsg_msg_data(msg), pattern(n), len);
		rdmamsg_msg_free(msg);
	}
	assert_int_equal(rdmamsg_ep_close_wait(ep, WAIT_MS), 0);
	blocking_end(&server);
}

static void *send_and_close(void *arg)
{
	struct blocking *b = arg;
	struct rdmamsg_ep *ep;

	if (rdmamsg_listener_accept_wait(b->listener, NULL, WAIT_MS, &ep)) {
		note("rdmamsg_listener_accept_wait: %s", rdmamsg_error());
		return NULL;
	}
	for (uint32_t n = 0; n < ARRAY_SIZE(wait_sizes); n++)
		if (rdmamsg_send_wait(ep, pattern(n), wait_sizes[n], n,
				      WAIT_MS))
			note("rdmamsg_send_wait: %s", rdmamsg_error());
	if (rdmamsg_ep_close_wait(ep, WAIT_MS))
		note("rdmamsg_ep_close_wait: %s", rdmamsg_error());
	return NULL;
}

static void recv_wait__peer_has_closed_LAST_ONE_THEN_ESHUTDOWN(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct blocking b;
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;

	if (rdmamsg_open(&b.ctx, NULL) ||
	    rdmamsg_listen(b.ctx, test_addr(), "0", NULL, &b.listener))
		fail_msg("listening: %s", rdmamsg_error());
	start_thread(&b.thread, send_and_close, &b);
	assert_int_equal(rdmamsg_connect_wait(ctx, test_addr(),
					      listener_service(b.listener,
							       b.port),
					      NULL, WAIT_MS, &ep), 0);
	for (uint32_t n = 0; n < ARRAY_SIZE(wait_sizes); n++) {
		assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
		assert_int_equal(rdmamsg_msg_tag(msg), n);
		assert_int_equal(rdmamsg_msg_len(msg), wait_sizes[n]);
		rdmamsg_msg_free(msg);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg),
				 -ESHUTDOWN);
	assert_error(rdmamsg_send_wait(ep, "x", 1, 0, WAIT_MS), -ESHUTDOWN,
		     "clos");
	assert_int_equal(rdmamsg_ep_close_wait(ep, WAIT_MS), 0);
	blocking_end(&b);
}

/* The peer has closed and does not wait for an answer: nothing is lost. */
static void recv_wait__peer_gone_after_its_close_ESHUTDOWN(void **state)
{
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;
	int ret;

	pair_init(&p, NULL);
	p.c.on.on_message = NULL;
	p.s.opts.close_timeout_ms = 300;
	pair_listen(&p);
	pair_connect(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	for (uint32_t n = 0; n < 3; n++)
		assert_int_equal(end_send(&p.s, HOW_SEND, 10, n), 0);
	rdmamsg_ep_close(p.s.ep);
	for (uint64_t end = now_ms() + WAIT_MS; !p.s.closed; usleep(1000)) {
		assert_true(now_ms() < end);
		rdmamsg_process(p.s.ctx);
	}
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	for (uint32_t n = 0; n < 3; n++) {
		assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
		assert_int_equal(rdmamsg_msg_tag(msg), n);
		rdmamsg_msg_free(msg);
	}
	assert_error(rdmamsg_recv_wait(ep, WAIT_MS, &msg), -ESHUTDOWN,
		     "the peer has closed");
	WAIT_PASSING(p.c.closed);
	assert_error(rdmamsg_recv_wait(ep, WAIT_MS, &msg), -ESHUTDOWN,
		     "the peer has closed");
	assert_error(rdmamsg_send_wait(ep, "x", 1, 0, WAIT_MS), -ESHUTDOWN,
		     "the peer");
	/* the result depends on what this side has seen */
	ret = rdmamsg_ep_close_wait(ep, WAIT_MS);
	if (ret)
		assert_error(ret, -ECONNRESET, "the peer closed");
	pair_fini(&p);
}

static void accept_wait__nobody_there_ETIMEDOUT(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_listen(ctx, test_addr(), "0", NULL, &l), 0);
	assert_error(rdmamsg_listener_accept_wait(l, NULL, 0, &ep), -ETIMEDOUT,
		     "nobody");
	assert_error(rdmamsg_listener_accept_wait(l, NULL, 100, &ep),
		     -ETIMEDOUT,
		     "nobody");
}

static void close_listener(struct rdmamsg *ctx, void *arg)
{
	rdmamsg_listener_close(arg);
}

static void accept_wait__listener_closed_meanwhile_ESHUTDOWN(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_listen(ctx, test_addr(), "0", NULL, &l), 0);
	assert_int_equal(rdmamsg_submit(ctx, close_listener, l), 0);
	assert_error(rdmamsg_listener_accept_wait(l, NULL, WAIT_MS, &ep),
		     -ESHUTDOWN,
		     "closed");
}

static void accept_wait__listener_that_accepts_itself_EINVAL(void **state)
{
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	pair_listen(&p);
	assert_error(rdmamsg_listener_accept_wait(p.listener, NULL, 0, &ep),
		     -EINVAL,
		     "by itself");
	pair_fini(&p);
}

/* Checks that a waiting call has ended the endpoint at its timeout. */
static void expect_timeout(const struct end *e, const char *text)
{
	assert_int_equal(e->why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(e->why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(e->why.error, -ETIMEDOUT);
	if (!strstr(e->why.text, text))
		fail_msg("no '%s' in '%s'", text, e->why.text);
}

/* on_closed is due at once, and rdmamsg_wait() counts it as an event. */
static void wait__ended_at_once_RETURNS(void **state)
{
	pair_init(&p, NULL);
	if (rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	rdmamsg_ep_abort(p.c.ep);
	assert_true(rdmamsg_wait(p.c.ctx, 20000) > 0);
	assert_true(p.c.closed);
	pair_fini(&p);
}

static void connect_wait__nobody_answers_SAYS_WHY(void **state)
{
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;
	char port[8];

	pair_init(&p, NULL);
	assert_error(rdmamsg_connect_wait(p.c.ctx, test_addr(), "1", NULL,
					  WAIT_MS, &ep), -ECONNREFUSED,
		     "listens");
	/* the server does not answer requests while the client waits */
	assert_int_equal(rdmamsg_listen(p.s.ctx, test_addr(), "0", NULL, &l),
			 0);
	assert_error(rdmamsg_connect_wait(p.c.ctx, test_addr(),
					  listener_service(l, port), &p.c.opts,
					  300, &ep), -ETIMEDOUT, "300 ms");
	assert_non_null(strstr(rdmamsg_error(), "not connected"));
	WAIT_FOR(p.c.closed);
	expect_timeout(&p.c, "rdmamsg_connect_wait: 300 ms");
	pair_fini(&p);
}

/* The peer's context does not run: it reads nothing and grants no credits. */
static void send_wait__peer_does_not_look_ETIMEDOUT_AND_ABORTED(void **state)
{
	for (int large = 0; large < 2; large++) {
		int ret = 0;

		pair_init(&p, NULL);
		p.s.expect_nothing = true;
		p.s.tuning.recv_depth = 4;
		pair_listen(&p);
		pair_connect(&p);
		for (int n = 0; !ret && n < 100; n++)
			ret = rdmamsg_send_wait(p.c.ep, pattern(0),
						large ? 200000 : 10, 0, 200);
		assert_error(ret, -ETIMEDOUT, "rdmamsg_send_wait: 200 ms");
		WAIT_FOR(p.c.closed && p.s.closed);
		expect_timeout(&p.c, "rdmamsg_send_wait: 200 ms");
		pair_fini(&p);
	}
}

static void say_busy(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_reject(req, "busy", 4))
		note("rdmamsg_request_reject: %s", rdmamsg_error());
}

static void *run(void *ctx)
{
	if (rdmamsg_run(ctx))
		note("rdmamsg_run: %s", rdmamsg_error());
	return NULL;
}

static void connect_wait__rejected_REASON_HAS_THE_DATA(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = say_busy,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg *c = test_open(NULL), *s = NULL;
	const struct rdmamsg_reason *why = rdmamsg_wait_reason(c);
	struct rdmamsg_listener *l = NULL;
	struct rdmamsg_ep *ep;
	pthread_t thread;
	char port[8];
	int ret;

	assert_int_equal(why->cause, RDMAMSG_CAUSE_NONE);
	assert_int_equal(rdmamsg_wait_reason(NULL)->cause, RDMAMSG_CAUSE_NONE);
	if (rdmamsg_open(&s, NULL) ||
	    rdmamsg_listen(s, test_addr(), "0", &opts, &l))
		fail_msg("listening: %s", rdmamsg_error());
	listener_service(l, port);
	start_thread(&thread, run, s);
	ret = rdmamsg_connect_wait(c, test_addr(), port, NULL, WAIT_MS, &ep);
	rdmamsg_stop(s);
	pthread_join(thread, NULL);
	rdmamsg_close(s);
	why = rdmamsg_wait_reason(c);
	assert_error(ret, why->error, why->text);
	assert_int_equal(why->who, RDMAMSG_WHO_PEER);
	assert_int_equal(why->cause, RDMAMSG_CAUSE_REJECTED);
	assert_int_equal(why->data_len, 4);
	assert_memory_equal(why->data, "busy", 4);
	/* an error that ended no connection */
	assert_int_equal(rdmamsg_connect_wait(c, test_addr(), "x", NULL,
					      WAIT_MS, &ep), -EINVAL);
	why = rdmamsg_wait_reason(c);
	assert_int_equal(why->cause, RDMAMSG_CAUSE_NONE);
	assert_int_equal(why->error, -EINVAL);
	assert_int_equal(why->data_len, 0);
	assert_non_null(strstr(why->text, "service"));
	check_notes();
}

static int refuse(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		  struct rdmamsg_buffer *dst)
{
	return -ENOBUFS;
}

static void send_wait__peer_refuses_SAYS_SO(void **state)
{
	struct blocking b;
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;
	struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_incoming = refuse,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	blocking_start(&b, &opts);
	assert_int_equal(rdmamsg_connect_wait(test_open(NULL), test_addr(),
					      b.port, NULL, WAIT_MS, &ep), 0);
	assert_error(rdmamsg_send_wait(ep, pattern(0), 1 << 20, 0, WAIT_MS),
		     -ECANCELED, "refused");
	/* the endpoint is still connected, and the peer answers */
	assert_int_equal(rdmamsg_send_wait(ep, "x", 1, 0, WAIT_MS), 0);
	assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
	rdmamsg_msg_free(msg);
	assert_int_equal(rdmamsg_ep_close_wait(ep, WAIT_MS), 0);
	blocking_end(&b);
}

static void wait__peer_ends_ITS_ERROR(void **state)
{
	struct rdmamsg_msg *msg;

	/* the peer aborts */
	pair_init(&p, NULL);
	p.c.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	rdmamsg_ep_hold(p.c.ep);
	{
		struct rdmamsg_ep *ep = p.c.ep;

		end_send_all(&p.s, HOW_SEND, 5, 1);
		WAIT_FOR(p.s.sent_ok == 1);
		rdmamsg_ep_abort(p.s.ep);
		WAIT_FOR(p.s.closed);
		/* messages from before the abort are still there */
		assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
		rdmamsg_msg_free(msg);
		assert_error(rdmamsg_recv_wait(ep, WAIT_MS, &msg), -ECONNRESET,
			     "");
		assert_int_equal(rdmamsg_send_wait(ep, "x", 1, 0, WAIT_MS),
				 -ESHUTDOWN);
		assert_error(rdmamsg_ep_close_wait(ep, WAIT_MS), -ECONNRESET,
			     "");
	}
	pair_fini(&p);
	/* the peer rejects */
	pair_init(&p, NULL);
	pair_listen(&p);
	rdmamsg_listener_close(p.listener);
	{
		struct rdmamsg_ep *ep;

		assert_error(rdmamsg_connect_wait(p.c.ctx, test_addr(), p.port,
						  NULL, WAIT_MS, &ep),
			     -ECONNREFUSED, p.port);
	}
	pair_fini(&p);
}

/* After the peer's close every call reports it, before on_closed and after. */
static void send__after_the_peer_has_closed_SAYS_SO(void **state)
{
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	p.c.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	rdmamsg_ep_close(p.s.ep);
	assert_int_equal(rdmamsg_ep_reason(p.s.ep)->cause,
			 RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(rdmamsg_ep_reason(p.s.ep)->who, RDMAMSG_WHO_LOCAL);
	for (int closed = 0; closed < 2; closed++) {
		WAIT_FOR(rdmamsg_ep_state(ep) > (closed ? RDMAMSG_CLOSING :
						 RDMAMSG_CONNECTED));
		assert_int_equal(rdmamsg_ep_reason(ep)->cause,
				 RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(rdmamsg_ep_reason(ep)->who, RDMAMSG_WHO_PEER);
		assert_error(rdmamsg_send(ep, "x", 1, 0, NULL), -ESHUTDOWN,
			     "closed by the peer");
		assert_error(rdmamsg_msg_alloc(ep, 1, &msg), -ESHUTDOWN,
			     "closed by the peer");
		assert_error(rdmamsg_send_wait(ep, "x", 1, 0, WAIT_MS),
			     -ESHUTDOWN, "closed by the peer");
		assert_error(rdmamsg_recv_wait(ep, WAIT_MS, &msg), -ESHUTDOWN,
			     "the peer has closed");
	}
	assert_int_equal(rdmamsg_ep_close_wait(ep, WAIT_MS), 0);
	pair_fini(&p);
}

/* This side closes first. The peer's messages before its close arrive. */
static void recv_wait__after_our_close_LAST_ONE_THEN_ESHUTDOWN(void **state)
{
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	p.c.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	assert_int_equal(end_send(&p.s, HOW_SEND, 10, 7), 0);
	rdmamsg_ep_close(ep);
	WAIT_FOR(p.c.closed);
	assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
	assert_int_equal(rdmamsg_msg_tag(msg), 7);
	rdmamsg_msg_free(msg);
	assert_error(rdmamsg_recv_wait(ep, WAIT_MS, &msg), -ESHUTDOWN,
		     "the peer has closed");
	assert_int_equal(rdmamsg_ep_close_wait(ep, WAIT_MS), 0);
	pair_fini(&p);
}

static void close_wait__peer_that_does_not_look_ETIMEDOUT(void **state)
{
	struct rdmamsg_ep *ep;

	pair_open(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);	/* as rdmamsg_connect_wait() does */
	assert_error(rdmamsg_ep_close_wait(ep, 300), -ETIMEDOUT,
		     "rdmamsg_ep_close_wait: 300 ms");
	assert_int_equal(p.c.closed, 1);
	expect_timeout(&p.c, "rdmamsg_ep_close_wait: 300 ms");
	WAIT_PASSING(p.s.closed);
	pair_fini(&p);
}

/*
 * A dead peer gives another error than -ETIMEDOUT, after which a loop may
 * retry.
 */
static void recv_wait__peer_that_went_silent_ECONNRESET(void **state)
{
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	p.c.on.on_message = NULL;
	p.c.tuning.peer_timeout_ms = 300;
	pair_listen(&p);
	pair_connect(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	for (int i = 0; i < 2; i++) {
		assert_error(rdmamsg_recv_wait(ep, WAIT_MS, &msg), -ECONNRESET,
			     "peer_timeout_ms");
		assert_int_equal(rdmamsg_wait_reason(p.c.ctx)->error,
				 -ETIMEDOUT);
	}
	assert_int_equal(rdmamsg_ep_close_wait(ep, WAIT_MS), -ETIMEDOUT);
	WAIT_FOR(p.s.closed);
	pair_fini(&p);
}

/* ---- a rendezvous ----------------------------------------------------- */

#define POINTS	5u

static _Atomic uint32_t reached;	/* the server's point */

static void expect_meet(struct rdmamsg_ep *ep, uint32_t point, int want)
{
	int ret = rdmamsg_ep_meet_wait(ep, point, WAIT_MS);

	if (ret != want)
		note("rdmamsg_ep_meet_wait(%u): %d, %s", point, ret,
		     rdmamsg_error());
}

/* Meets at each point, is at a wrong one, and sends where it should meet. */
static void *serve_meetings(void *arg)
{
	struct blocking *b = arg;
	struct rdmamsg_ep *ep;

	if (rdmamsg_listener_accept_wait(b->listener, b->opts, WAIT_MS, &ep)) {
		note("rdmamsg_listener_accept_wait: %s", rdmamsg_error());
		return NULL;
	}
	for (uint32_t i = 1; i <= POINTS; i++) {
		reached = i;
		expect_meet(ep, i, 0);
	}
	expect_meet(ep, 8, -EPROTO);
	expect_meet(ep, 10, 0);
	if (rdmamsg_send_wait(ep, "words", 5, 3, WAIT_MS))
		note("rdmamsg_send_wait: %s", rdmamsg_error());
	expect_meet(ep, 11, 0);
	reached = 11;
	if (rdmamsg_ep_close_wait(ep, WAIT_MS))
		note("rdmamsg_ep_close_wait: %s", rdmamsg_error());
	return NULL;
}

static void meet__at_each_point_RETURNS_AT_BOTH(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct blocking server = { .opts = NULL };
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;

	reached = 0;
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, test_addr(), "0", NULL,
					&server.listener), 0);
	listener_service(server.listener, server.port);
	start_thread(&server.thread, serve_meetings, &server);
	assert_int_equal(rdmamsg_connect_wait(ctx, test_addr(), server.port,
					      NULL, WAIT_MS, &ep), 0);
	for (uint32_t i = 1; i <= POINTS; i++) {
		assert_int_equal(rdmamsg_ep_meet_wait(ep, i, WAIT_MS), 0);
		assert_true(reached >= i);
	}
	assert_error(rdmamsg_ep_meet_wait(ep, 9, WAIT_MS), -EPROTO,
		     "at point 9, the peer's at point 8");
	/* the connection goes on */
	assert_int_equal(rdmamsg_ep_meet_wait(ep, 10, WAIT_MS), 0);
	assert_error(rdmamsg_ep_meet_wait(ep, 11, WAIT_MS), -EPROTO,
		     "a message of 5 bytes with tag 3");
	assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
	assert_int_equal(rdmamsg_msg_len(msg), 5);
	rdmamsg_msg_free(msg);
	/* once this side has begun to close, the server cannot meet */
	WAIT_FOR(reached == 11);
	assert_int_equal(rdmamsg_ep_close_wait(ep, WAIT_MS), 0);
	blocking_end(&server);
	test_close(ctx);
}

static void meet__nobody_comes_ETIMEDOUT(void **state)
{
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	p.c.on.on_message = p.s.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	assert_error(rdmamsg_ep_meet_wait(ep, 1, 20), -ETIMEDOUT,
		     "20 ms (its timeout_ms) have passed: the peer has not "
		     "come");
	WAIT_FOR(p.c.closed && p.s.closed);
	rdmamsg_ep_release(ep);
	pair_fini(&p);
}

static void recv_wait__with_on_message_EINVAL(void **state)
{
	struct rdmamsg_msg *msg;

	pair_open(&p);
	assert_error(rdmamsg_recv_wait(p.c.ep, 0, &msg), -EINVAL, "on_message");
	assert_error(rdmamsg_ep_meet_wait(p.c.ep, 1, 0), -EINVAL, "on_message");
	assert_error(rdmamsg_ep_meet_wait(NULL, 1, 0), -EINVAL, "NULL");
	pair_close(&p);
	pair_fini(&p);
}

static void wait_helpers__nowhere_to_put_it_EINVAL(void **state)
{
	struct rdmamsg_listener *l;

	pair_init(&p, NULL);
	p.c.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", NULL, &l))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	assert_error(rdmamsg_connect_wait(p.c.ctx, test_addr(), p.port, NULL, 0,
					  NULL), -EINVAL, "ret");
	assert_error(rdmamsg_listener_accept_wait(l, NULL, 0, NULL), -EINVAL,
		     "ret");
	assert_error(rdmamsg_recv_wait(p.c.ep, 0, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_send_wait(p.c.ep, NULL, 1, 0, 0), -EINVAL, "NULL");
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(callback__calls_that_wait_EDEADLK),
		TEST(wait_helpers__both_sides_TALK),
		TEST(recv_wait__peer_has_closed_LAST_ONE_THEN_ESHUTDOWN),
		TEST(recv_wait__peer_gone_after_its_close_ESHUTDOWN),
		TEST(accept_wait__nobody_there_ETIMEDOUT),
		TEST(accept_wait__listener_closed_meanwhile_ESHUTDOWN),
		TEST(accept_wait__listener_that_accepts_itself_EINVAL),
		TEST(wait__ended_at_once_RETURNS),
		TEST(connect_wait__nobody_answers_SAYS_WHY),
		TEST(connect_wait__rejected_REASON_HAS_THE_DATA),
		TEST(send_wait__peer_does_not_look_ETIMEDOUT_AND_ABORTED),
		TEST(send_wait__peer_refuses_SAYS_SO),
		TEST(wait__peer_ends_ITS_ERROR),
		TEST(send__after_the_peer_has_closed_SAYS_SO),
		TEST(recv_wait__after_our_close_LAST_ONE_THEN_ESHUTDOWN),
		TEST(close_wait__peer_that_does_not_look_ETIMEDOUT),
		TEST(recv_wait__peer_that_went_silent_ECONNRESET),
		TEST(recv_wait__with_on_message_EINVAL),
		TEST(meet__at_each_point_RETURNS_AT_BOTH),
		TEST(meet__nobody_comes_ETIMEDOUT),
		TEST(wait_helpers__nowhere_to_put_it_EINVAL),
	};

	return test_main(tests, NULL, argc, argv);
}
