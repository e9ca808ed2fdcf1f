/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests move to contexts of other threads. */
#include "common.h"
#include "harm.h"
#include "request.h"
#include "thread.h"

#include <poll.h>
#include <stdatomic.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>

static struct pair p;

static void nothing(struct rdmamsg *ctx, void *arg)
{
}

static void accept_moved(struct rdmamsg *ctx, struct rdmamsg_request *req,
			 void *arg)
{
	struct worker *w = arg;

	worker_check(w);
	if (ctx != w->ctx)
		note("moved to the wrong context");
	if (rdmamsg_request_accept(req, &w->opts, NULL))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void move_request(struct rdmamsg_listener *l,
			 struct rdmamsg_request *req)
{
	struct worker **next = rdmamsg_listener_user(l);

	if (rdmamsg_request_move(req, (*next)->ctx, accept_moved, *next))
		note("rdmamsg_request_move: %s", rdmamsg_error());
}

static void move__to_contexts_of_other_threads_TALK_THERE(void **state)
{
	struct worker w[2], *next;
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = move_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &next, .handlers = &on,
	};

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	for (int i = 0; i < 2; i++) {
		worker_open(&w[i], NULL);
		worker_start(&w[i]);
	}
	for (int i = 0; i < 6; i++) {
		next = &w[i % 2];
		client_connect(&p.c, p.port);
		for (uint32_t n = 0; n < 50; n++)
			client_echo(&p.c, HOW_SENDV, mixed_size(n), n);
		WAIT_FOR(p.c.received == p.c.expected_count);
		client_close(&p.c);
	}
	for (int i = 0; i < 2; i++) {
		worker_wait_closed(&w[i], 3);
		worker_end(&w[i]);
		assert_int_equal(w[i].connected, 3);
		assert_int_equal(w[i].echoed, 150);
		assert_int_equal(w[i].closed, 3);
	}
	pair_fini(&p);
}

static void fill_and_move(struct rdmamsg_listener *l,
			  struct rdmamsg_request *req)
{
	struct worker *w = rdmamsg_listener_user(l);
	int ret;

	texts_are_fine = true;
	while (!(ret = rdmamsg_submit(w->ctx, nothing, NULL)))
		;
	if (ret != -EAGAIN)
		note("rdmamsg_submit: %s", rdmamsg_error());
	ret = rdmamsg_request_move(req, w->ctx, NULL, w);
	if (ret != -EINVAL)
		note("rdmamsg_request_move to nobody: %d", ret);
	ret = rdmamsg_request_move(req, w->ctx, accept_moved, w);
	if (ret != -EAGAIN)
		note("rdmamsg_request_move to a full queue: %d", ret);
	/* the failed move leaves the request here */
	if (rdmamsg_request_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void move__queue_there_full_STAYS(void **state)
{
	static const struct rdmamsg_options small = {
		.size = sizeof(small), .submit_depth = 2,
	};
	struct worker w;
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = fill_and_move,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &w, .handlers = &on,
	};

	worker_open(&w, &small);
	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SEND, 100, 1);
	pair_close(&p);
	pair_fini(&p);
	rdmamsg_close(w.ctx);
}

static void move__closed_before_it_ran_IS_REJECTED(void **state)
{
	struct worker w, *next = &w;
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = move_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &next, .handlers = &on,
	};
	bool told = false;

	/* the worker's loop does not run yet */
	worker_open(&w, NULL);
	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	while (!told) {
		struct pollfd fd = {
			.fd = rdmamsg_fd(w.ctx), .events = POLLIN,
		};

		test_pump(100);
		told = poll(&fd, 1, 0) > 0;
	}
	rdmamsg_close(w.ctx);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REJECTED);
	pair_fini(&p);
}

/* The context of another thread, which takes over requests. */
static struct rdmamsg *other;
static pthread_t other_thread;

static void *run_other(void *arg)
{
	rdmamsg_run(other);
	rdmamsg_close(other);
	return NULL;
}

static void accept_there(struct rdmamsg *ctx, struct rdmamsg_request *req,
			 void *arg)
{
	if (ctx != other || arg != &p || !pthread_equal(pthread_self(),
							other_thread))
		note("moved, but not there");
	if (rdmamsg_request_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
	if (rdmamsg_ep_ctx(p.s.ep) != other)
		note("the endpoint is in another context");
}

static void move_there(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_move(req, other, accept_there, &p))
		note("rdmamsg_request_move: %s", rdmamsg_error());
}

static void send_back(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(e->ep, msg, rdmamsg_msg_tag(msg), NULL))
		note("echo: %s", rdmamsg_error());
}

static void move__to_another_thread_IS_SERVED_THERE(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = move_there,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	pair_init(&p, NULL);
	p.s.then_message = send_back;
	p.s.expect_nothing = true;
	assert_int_equal(rdmamsg_open(&other, NULL), 0);
	pthread_create(&other_thread, NULL, run_other, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(&p.c, test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	WAIT_FOR(p.c.connected || p.c.closed);
	assert_int_equal(p.c.closed, 0);
	for (uint32_t n = 0; n < 20; n++) {
		/*
		 * the other thread's end has no list, so expect the echo here
		 */
		end_expect(&p.c, 1000 * n, n);
		assert_int_equal(rdmamsg_sendv(p.c.ep, &(struct iovec) {
			(void *)(uintptr_t)pattern(n), 1000 * n }, 1, n, NULL),
			0);
		WAIT_FOR(p.c.received == n + 1);
	}
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	rdmamsg_stop(other);
	pthread_join(other_thread, NULL);
	assert_int_equal(p.s.closed, 1);
	assert_int_equal(p.s.received, 20);
	pair_fini(&p);
}

static void move__to_a_full_queue_EAGAIN_AND_STAYS(void **state)
{
	const struct rdmamsg_options one = {
		.size = sizeof(one), .submit_depth = 2,
	};
	struct rdmamsg *full;

	listen_put_off(&p);
	full = test_open(&one);
	while (!rdmamsg_submit(full, nothing, NULL))
		;
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	while (!waiting_count) {
		rdmamsg_process(p.s.ctx);
		rdmamsg_process(p.c.ctx);
	}
	assert_error(rdmamsg_request_move(waiting[0], full, accept_there, NULL),
		     -EAGAIN, "");
	assert_int_equal(rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep),
			 0);
	pair_exchange(&p);
	test_close(full);
	pair_fini(&p);
}

/* ---- a device that is removed meanwhile ------------------------------- */

#define MANY	12

static unsigned int many_closed;

static void many_on_closed(struct rdmamsg_ep *ep,
			   const struct rdmamsg_reason *why)
{
	many_closed++;
}

static void quiet_on_closed(struct rdmamsg_ep *ep,
			    const struct rdmamsg_reason *why)
{
	struct worker *w = rdmamsg_ep_user(ep);

	worker_check(w);
	w->closed++;
}

static atomic_uint accepted, refused;

/* Runs once for each moved request, accepts it if possible, and ends it. */
static void accept_or_not(struct rdmamsg *ctx, struct rdmamsg_request *req,
			  void *arg)
{
	struct worker *w = arg;

	worker_check(w);
	if (rdmamsg_request_accept(req, &w->opts, NULL))
		refused++;
	else
		accepted++;
}

static unsigned int asked, stayed;

static void move_or_not(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct worker *w = rdmamsg_listener_user(l);

	asked++;
	if (!rdmamsg_request_move(req, w->ctx, accept_or_not, w))
		return;
	stayed++;
	(void)rdmamsg_request_reject(req, NULL, 0);
}

static void connect_many(void)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_closed = many_on_closed,
	};
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .handlers = &on, .timeout_ms = 20000,
	};

	many_closed = 0;
	for (int i = 0; i < MANY; i++)
		if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &o, NULL))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
}

static void move__device_removed_meanwhile_NONE_IS_LOST(void **state)
{
	struct worker w;
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = move_or_not,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &w, .handlers = &on,
	};

	harm_find();
	texts_are_fine = true;	/* move_or_not() */
	for (unsigned int round = 0; round < 6; round++) {
		pair_init(&p, NULL);
		worker_open(&w, NULL);
		w.on.on_closed = quiet_on_closed;
		accepted = refused = 0;
		asked = stayed = 0;
		WAIT_FOR(!rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts,
					 &p.listener));
		listener_service(p.listener, p.port);
		worker_start(&w);
		connect_many();
		/* the removal comes earlier or later in each round */
		WAIT_FOR(asked >= round || many_closed == MANY);
		harm_remove();
		WAIT_FOR(many_closed == MANY);
		WAIT_FOR(accepted + refused + stayed == asked);
		WAIT_FOR(harm_removed());
		harm_add();
		worker_end(&w);
		assert_int_equal(w.closed, accepted);
		pair_fini(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(move__to_another_thread_IS_SERVED_THERE),
		TEST(move__to_a_full_queue_EAGAIN_AND_STAYS),
		TEST(move__to_contexts_of_other_threads_TALK_THERE),
		TEST(move__queue_there_full_STAYS),
		TEST(move__closed_before_it_ran_IS_REJECTED),
		TEST(move__device_removed_meanwhile_NONE_IS_LOST),
	};

	return test_main(tests, NULL, argc, argv);
}
