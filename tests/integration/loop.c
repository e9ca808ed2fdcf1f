/* SPDX-License-Identifier: BSD-2-Clause */
/* The ways to drive a context, and what comes in from other threads. */
#include "common.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

static struct pair p;

static void start_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	assert_int_equal(pthread_create(thread, NULL, fn, arg), 0);
}

/* ---- one exchange, driven in different ways --------------------------- */

enum method { FD, POLL, WAIT, MIXED };

static void drive(struct rdmamsg *ctx, enum method how)
{
	struct pollfd fd = { .fd = rdmamsg_fd(ctx), .events = POLLIN };
	static unsigned int turn;
	int ret = 0;

	if (how == MIXED)
		how = (enum method)(turn++ / 3 % MIXED);
	switch (how) {
	case FD:
		if (poll(&fd, 1, 10) > 0)
			ret = rdmamsg_process(ctx);
		break;
	case POLL:
		ret = rdmamsg_poll(ctx);
		break;
	default:
		ret = rdmamsg_wait(ctx, 10);
	}
	if (ret < 0)
		fail_msg("method %d: %s", how, rdmamsg_error());
}

#define DRIVE_UNTIL(how, condition) \
	do { \
		uint64_t end_ = now_ms() + WAIT_MS; \
		while (!(condition)) { \
			if (now_ms() > end_) \
				fail_msg("%s:%d: waited in vain for %s", \
					 __FILE__, __LINE__, #condition); \
			drive(p.s.ctx, how); \
			drive(p.c.ctx, how); \
			check_notes(); \
		} \
	} while (0)

static size_t path_size(uint32_t n)
{
	return n % 10 == 3 ? 100000 + n : n % 5 == 2 ? 5000 : n % 240;
}

static void send_driven(struct end *e, enum method how, uint32_t n)
{
	enum how kind = n % 10 == 3 ? HOW_SENDV : (enum how)(n % HOW_COUNT);
	int ret;

	while ((ret = end_send(e, kind, path_size(n), n)) == -EAGAIN) {
		e->writable = 0;
		DRIVE_UNTIL(how, e->writable);
	}
	if (ret)
		fail_msg("%s: %s", e->name, rdmamsg_error());
}

static void exchange(enum method how, uint32_t spin_us)
{
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .spin_us = spin_us,
	};

	pair_init(&p, &opts);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	DRIVE_UNTIL(how, p.c.connected && p.s.connected);
	for (uint32_t n = 0; n < 100; n++) {
		send_driven(&p.c, how, n);
		send_driven(&p.s, how, n);
	}
	DRIVE_UNTIL(how, p.s.received == 100 && p.c.received == 100);
	rdmamsg_ep_close(p.c.ep);
	DRIVE_UNTIL(how, p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	end_check_cookies(&p.c);
	end_check_cookies(&p.s);
	pair_fini(&p);
}

static void drive__poll_2_and_process_WORKS(void **state)
{
	exchange(FD, 0);
}

static void drive__rdmamsg_poll_only_WORKS(void **state)
{
	exchange(POLL, 0);
}

static void drive__wait_WORKS(void **state)
{
	exchange(WAIT, 0);
}

static void drive__wait_that_spins_WORKS(void **state)
{
	exchange(WAIT, 300);
}

static void drive__all_of_them_in_turn_WORKS(void **state)
{
	exchange(MIXED, 50);
}

static void process__nothing_there_0(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	assert_int_equal(rdmamsg_process(ctx), 0);
	assert_int_equal(rdmamsg_poll(ctx), 0);
	assert_int_equal(rdmamsg_wait(ctx, 0), 0);
}

static void wait__nothing_there_SLEEPS_ITS_TIME(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	uint64_t start = now_ms();

	assert_int_equal(rdmamsg_wait(ctx, 300), 0);
	assert_true(now_ms() - start >= 299);
}

/* ---- from polling to sleeping ----------------------------------------- */

static void sleep_until_received(struct end *e, size_t count)
{
	struct pollfd fd = { .fd = rdmamsg_fd(e->ctx), .events = POLLIN };

	while (e->received < count) {
		if (poll(&fd, 1, WAIT_MS) != 1)
			fail_msg("asleep with a message there");
		assert_true(rdmamsg_process(e->ctx) >= 0);
	}
}

static void sleep__after_polling_LOSES_NOTHING(void **state)
{
	pair_open(&p);
	for (uint32_t n = 0; n < 300; n++) {
		end_send_all(&p.c, HOW_SENDV, path_size(n), n);
		for (uint32_t k = n * 7 % 40; k; k--)
			assert_true(rdmamsg_poll(p.s.ctx) >= 0);
		sleep_until_received(&p.s, p.s.expected_count);
		test_drive(p.c.ctx);
		check_notes();
	}
	pair_close(&p);
	pair_fini(&p);
}

static void sleep__after_wait_without_time_LOSES_NOTHING(void **state)
{
	pair_open(&p);
	for (uint32_t n = 0; n < 300; n++) {
		for (uint32_t k = n % 3; k; k--)
			assert_true(rdmamsg_wait(p.s.ctx, 0) >= 0);
		end_send_all(&p.c, HOW_SENDV, path_size(n), n);
		for (uint32_t k = n % 5; k; k--)
			assert_true(rdmamsg_wait(p.s.ctx, 0) >= 0);
		sleep_until_received(&p.s, p.s.expected_count);
		test_drive(p.c.ctx);
	}
	pair_close(&p);
	pair_fini(&p);
}

/* Nobody drains the descriptor half: it stays readable until process has. */
static void fd__work_to_do_IS_READABLE(void **state)
{
	struct pollfd fd;

	pair_open(&p);
	test_drive(p.c.ctx);
	test_drive(p.s.ctx);
	fd.fd = rdmamsg_fd(p.s.ctx);
	fd.events = POLLIN;
	end_send_all(&p.c, HOW_SEND, 10, 1);
	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_true(rdmamsg_process(p.s.ctx) > 0);
	assert_int_equal(p.s.received, 1);
	test_drive(p.s.ctx);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(rdmamsg_process(p.s.ctx), 0);
	/* a poller in between takes what the event was about */
	end_send_all(&p.c, HOW_SEND, 10, 2);
	for (uint64_t end = now_ms() + WAIT_MS; p.s.received < 2; ) {
		assert_true(now_ms() < end);
		assert_true(rdmamsg_poll(p.s.ctx) >= 0);
	}
	test_drive(p.s.ctx);
	assert_int_equal(poll(&fd, 1, 0), 0);
	end_send_all(&p.c, HOW_SEND, 10, 3);
	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- a context in a thread -------------------------------------------- */

struct worker {
	pthread_t thread;
	struct rdmamsg *ctx;
	struct rdmamsg_listener *listener;
	char port[8];
	struct rdmamsg_handlers on;
	struct rdmamsg_ep_options opts;
	unsigned int connected, echoed, closed;	/* read when it has ended */
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	int ret = rdmamsg_run(w->ctx);

	if (ret)
		note("rdmamsg_run: %d, %s", ret, rdmamsg_error());
	return NULL;
}

static void check_thread(const struct worker *w)
{
	if (!pthread_equal(w->thread, pthread_self()))
		note("a callback in the wrong thread");
}

static void worker_connected(struct rdmamsg_ep *ep)
{
	struct worker *w = rdmamsg_ep_user(ep);

	check_thread(w);
	w->connected++;
}

static void worker_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct worker *w = rdmamsg_ep_user(ep);

	check_thread(w);
	w->echoed++;
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL)) {
		note("echo: %s", rdmamsg_error());
		rdmamsg_msg_free(msg);
	}
}

static void worker_closed(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why)
{
	struct worker *w = rdmamsg_ep_user(ep);

	check_thread(w);
	w->closed++;
	if (why->error)
		note("worker: %s", why->text);
}

static void worker_open(struct worker *w, const struct rdmamsg_options *opts)
{
	memset(w, 0, sizeof(*w));
	w->on = (struct rdmamsg_handlers) {
		.size = sizeof(w->on), .on_connected = worker_connected,
		.on_message = worker_message, .on_closed = worker_closed,
	};
	w->opts = (struct rdmamsg_ep_options) {
		.size = sizeof(w->opts), .user = w, .handlers = &w->on,
		.send_queue = 1000, .timeout_ms = WAIT_MS,
		.close_timeout_ms = WAIT_MS,
	};
	if (rdmamsg_open(&w->ctx, opts))
		fail_msg("rdmamsg_open: %s", rdmamsg_error());
}

static void worker_listen(struct worker *w)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &w->opts,
	};

	if (rdmamsg_listen(w->ctx, test_addr(), "0", &opts, &w->listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(w->listener, w->port);
}

static void worker_start(struct worker *w)
{
	start_thread(&w->thread, worker_main, w);
}

static void worker_end(struct worker *w)
{
	rdmamsg_stop(w->ctx);
	pthread_join(w->thread, NULL);
	/* callbacks of the rest are ours now */
	w->thread = pthread_self();
	rdmamsg_close(w->ctx);
	check_notes();
}

static void connect_to(const char *port)
{
	if (rdmamsg_connect(p.c.ctx, test_addr(), port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.connected || p.c.closed);
	if (p.c.closed)
		fail_msg("not connected: %s", p.c.why.text);
}

/* Whoever answers sends back what it gets. */
static void echo(enum how how, size_t len, uint32_t tag)
{
	int ret;

	/* the pair's server is not the peer */
	while ((ret = end_send(&p.c, how, len, tag)) == -EAGAIN)
		test_pump(100);
	assert_int_equal(ret, 0);
	end_expect(&p.c, len, tag);
}

static void close_client(void)
{
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed);
	if (p.c.why.error)
		fail_msg("closed: %s", p.c.why.text);
	assert_int_equal(p.c.received, p.c.expected_count);
	p.c.closed = p.c.connected = 0;
	p.c.received = p.c.expected_count = 0;
}

static void sleep__beside_another_thread_LOSES_NOTHING(void **state)
{
	static const struct rdmamsg_options opts = {
		.size = sizeof(opts), .spin_us = 100,
	};
	struct worker w;

	worker_open(&w, &opts);
	worker_listen(&w);
	worker_start(&w);
	pair_init(&p, NULL);
	connect_to(w.port);
	for (uint32_t n = 0; n < 500; n++) {
		echo(HOW_SEND, n % 64, n);
		for (uint32_t k = n * 13 % 50; k; k--)
			assert_true(rdmamsg_poll(p.c.ctx) >= 0);
		sleep_until_received(&p.c, p.c.expected_count);
		check_notes();
	}
	close_client();
	pair_fini(&p);
	worker_end(&w);
	assert_int_equal(w.echoed, 500);
}

/* ---- run and stop ----------------------------------------------------- */

static void run__stop_from_another_thread_RETURNS(void **state)
{
	struct worker w;

	worker_open(&w, NULL);
	for (int i = 0; i < 30; i++) {
		worker_start(&w);
		if (i % 3)
			usleep((useconds_t)(1000 * (i % 7)));
		rdmamsg_stop(w.ctx);
		pthread_join(w.thread, NULL);
		check_notes();
	}
	rdmamsg_close(w.ctx);
}

static void run__stopped_before_RETURNS_AT_ONCE(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	for (int i = 0; i < 3; i++) {
		rdmamsg_stop(ctx);
		assert_int_equal(rdmamsg_run(ctx), 0);
	}
	/* several are one */
	rdmamsg_stop(ctx);
	rdmamsg_stop(ctx);
	assert_int_equal(rdmamsg_run(ctx), 0);
	assert_int_equal(rdmamsg_process(ctx), 0);
}

static void stop_it(struct rdmamsg *ctx, void *arg)
{
	rdmamsg_stop(ctx);
}

static void run__stop_from_a_callback_RETURNS(void **state)
{
	struct rdmamsg_options opts = { .size = sizeof(opts) };

	for (opts.spin_us = 0; opts.spin_us <= 1000; opts.spin_us += 500) {
		struct rdmamsg *ctx = test_open(&opts);

		assert_int_equal(rdmamsg_submit(ctx, stop_it, NULL), 0);
		assert_int_equal(rdmamsg_run(ctx), 0);
	}
}

static void stop_while_connected(const struct rdmamsg_options *opts)
{
	struct worker w;

	worker_open(&w, opts);
	worker_listen(&w);
	worker_start(&w);
	pair_init(&p, NULL);
	connect_to(w.port);
	for (int i = 0; i < 10; i++) {
		echo(HOW_SEND, 10, (uint32_t)i);
		WAIT_FOR(p.c.received == p.c.expected_count);
		rdmamsg_stop(w.ctx);
		pthread_join(w.thread, NULL);
		worker_start(&w);
	}
	close_client();
	pair_fini(&p);
	worker_end(&w);
}

static void run__stopped_and_run_again_WORKS_ON(void **state)
{
	static const struct rdmamsg_options spin = {
		.size = sizeof(spin), .spin_us = 1000,
	};

	stop_while_connected(NULL);
	stop_while_connected(&spin);
}

static void on_signal(int sig)
{
}

static _Atomic bool signalled;

static void *send_signals(void *arg)
{
	while (!signalled) {
		usleep(20000);
		pthread_kill(*(pthread_t *)arg, SIGUSR1);
	}
	return NULL;
}

static void wait__signal_EINTR(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct rdmamsg *ctx = test_open(NULL);
	pthread_t thread, self = pthread_self();

	sigaction(SIGUSR1, &sa, NULL);
	signalled = false;
	start_thread(&thread, send_signals, &self);
	assert_int_equal(rdmamsg_wait(ctx, WAIT_MS), -EINTR);
	signalled = true;
	pthread_join(thread, NULL);
}

/* ---- submit ----------------------------------------------------------- */

#define SUBMITTERS	4
#define SUBMIT_EACH	25000

static struct submitter {
	pthread_t thread;
	struct rdmamsg *ctx;
	unsigned int id;
	uint32_t next;		/* to run */
} submitters[SUBMITTERS];

static void submitted(struct rdmamsg *ctx, void *arg)
{
	uintptr_t x = (uintptr_t)arg;
	struct submitter *s = &submitters[x >> 24];

	if (s->ctx != ctx || s->next++ != (x & 0xffffff))
		note("thread %u: function %u came as %u", s->id,
		     (unsigned int)x & 0xffffff, s->next - 1);
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

static void submit_from_threads(uint32_t depth)
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
		start_thread(&s->thread, submit_many, s);
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
	submit_from_threads(0);
}

static void submit__from_4_threads_small_queue_ALL_RUN_IN_ORDER(void **state)
{
	submit_from_threads(8);
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
	assert_error(rdmamsg_submit(NULL, stop_it, NULL), -EINVAL, "context");
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

/* ---- in a callback ---------------------------------------------------- */

static void expect_deadlock(int ret, const char *what)
{
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
	expect_deadlock(rdmamsg_accept_wait(own_listener, NULL, 1, &other),
			"rdmamsg_accept_wait");
	if (ep) {
		expect_deadlock(rdmamsg_send_wait(ep, "x", 1, 0, 1),
				"rdmamsg_send_wait");
		expect_deadlock(rdmamsg_recv_wait(ep, 1, &msg),
				"rdmamsg_recv_wait");
		expect_deadlock(rdmamsg_close_wait(ep, 1),
				"rdmamsg_close_wait");
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
	/* the stop was not taken by what was refused */
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
	char port[8];
};

static void *serve_blocking(void *arg)
{
	struct blocking *b = arg;
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_accept_wait(b->listener, NULL, WAIT_MS, &ep);

	if (ret) {
		note("rdmamsg_accept_wait: %s", rdmamsg_error());
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
	ret = rdmamsg_close_wait(ep, WAIT_MS);
	if (ret)
		note("rdmamsg_close_wait: %d, %s", ret, rdmamsg_error());
	return NULL;
}

static void blocking_start(struct blocking *b)
{
	b->ctx = NULL;
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

	blocking_start(&server);
	assert_int_equal(rdmamsg_connect_wait(ctx, test_addr(), server.port,
					      NULL, WAIT_MS, &ep), 0);
	assert_int_equal(rdmamsg_ep_state(ep), RDMAMSG_CONNECTED);
	assert_error(rdmamsg_recv_wait(ep, 0, &msg), -ETIMEDOUT, "no message");
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
	assert_int_equal(rdmamsg_close_wait(ep, WAIT_MS), 0);
	blocking_end(&server);
}

static void *send_and_close(void *arg)
{
	struct blocking *b = arg;
	struct rdmamsg_ep *ep;

	if (rdmamsg_accept_wait(b->listener, NULL, WAIT_MS, &ep)) {
		note("rdmamsg_accept_wait: %s", rdmamsg_error());
		return NULL;
	}
	for (uint32_t n = 0; n < ARRAY_SIZE(wait_sizes); n++)
		if (rdmamsg_send_wait(ep, pattern(n), wait_sizes[n], n,
				      WAIT_MS))
			note("rdmamsg_send_wait: %s", rdmamsg_error());
	if (rdmamsg_close_wait(ep, WAIT_MS))
		note("rdmamsg_close_wait: %s", rdmamsg_error());
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
	assert_int_equal(rdmamsg_close_wait(ep, WAIT_MS), 0);
	blocking_end(&b);
}

static void accept_wait__nobody_there_ETIMEDOUT(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_listen(ctx, test_addr(), "0", NULL, &l), 0);
	assert_error(rdmamsg_accept_wait(l, NULL, 0, &ep), -ETIMEDOUT,
		     "nobody");
	assert_error(rdmamsg_accept_wait(l, NULL, 100, &ep), -ETIMEDOUT,
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
	assert_error(rdmamsg_accept_wait(l, NULL, WAIT_MS, &ep), -ESHUTDOWN,
		     "closed");
}

static void accept_wait__listener_that_accepts_itself_EINVAL(void **state)
{
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	pair_listen(&p);
	assert_error(rdmamsg_accept_wait(p.listener, NULL, 0, &ep), -EINVAL,
		     "by itself");
	pair_fini(&p);
}

static void connect_wait__nobody_answers_SAYS_WHY(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;
	char port[8];

	assert_error(rdmamsg_connect_wait(ctx, test_addr(), "1", NULL, WAIT_MS,
					  &ep), -ECONNREFUSED, "listens");
	/* this one does not look at its requests */
	assert_int_equal(rdmamsg_listen(test_open(NULL), test_addr(), "0", NULL,
					&l), 0);
	assert_error(rdmamsg_connect_wait(ctx, test_addr(),
					  listener_service(l, port), NULL, 300,
					  &ep), -ETIMEDOUT, "in time");
	/* nothing is left of it */
	for (int i = 0; i < 5; i++)
		test_pump(50);
}

/* The peer's context is not driven: no reads, and at last no credits. */
static void send_wait__peer_that_does_not_look_ETIMEDOUT_AND_ABORTED(void **state)
{
	for (int large = 0; large < 2; large++) {
		int ret = 0;

		pair_init(&p, NULL);
		p.s.expect_nothing = true;
		p.s.opts.recv_depth = 4;
		pair_listen(&p);
		pair_connect(&p);
		for (int n = 0; !ret && n < 100; n++)
			ret = rdmamsg_send_wait(p.c.ep, pattern(0),
						large ? 200000 : 10, 0, 200);
		assert_int_equal(ret, -ETIMEDOUT);
		WAIT_FOR(p.c.closed && p.s.closed);
		assert_int_equal(p.c.why.who, RDMAMSG_WHO_LOCAL);
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
		pair_fini(&p);
	}
}

static void wait__peer_ends_ITS_ERROR(void **state)
{
	struct rdmamsg_msg *msg;

	/* aborted */
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
		/* what came before is still there */
		assert_int_equal(rdmamsg_recv_wait(ep, WAIT_MS, &msg), 0);
		rdmamsg_msg_free(msg);
		assert_error(rdmamsg_recv_wait(ep, WAIT_MS, &msg), -ECONNRESET,
			     "");
		assert_int_equal(rdmamsg_send_wait(ep, "x", 1, 0, WAIT_MS),
				 -ESHUTDOWN);
		assert_error(rdmamsg_close_wait(ep, WAIT_MS), -ECONNRESET, "");
	}
	pair_fini(&p);
	/* refused */
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

static void close_wait__peer_that_does_not_look_ETIMEDOUT(void **state)
{
	struct rdmamsg_ep *ep;

	pair_open(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);	/* as those of the helpers are */
	assert_error(rdmamsg_close_wait(ep, 300), -ETIMEDOUT, "300 ms");
	assert_int_equal(p.c.closed, 1);
	WAIT_FOR(p.s.closed);
	pair_fini(&p);
}

static void recv_wait__with_on_message_EINVAL(void **state)
{
	struct rdmamsg_msg *msg;

	pair_open(&p);
	assert_error(rdmamsg_recv_wait(p.c.ep, 0, &msg), -EINVAL, "on_message");
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
	assert_error(rdmamsg_accept_wait(l, NULL, 0, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_recv_wait(p.c.ep, 0, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_send_wait(p.c.ep, NULL, 1, 0, 0), -EINVAL, "NULL");
	pair_close(&p);
	pair_fini(&p);
}

/* ---- requests moved to other threads ---------------------------------- */

static void accept_moved(struct rdmamsg *ctx, struct rdmamsg_request *req,
			 void *arg)
{
	struct worker *w = arg;

	check_thread(w);
	if (ctx != w->ctx)
		note("moved to the wrong context");
	if (rdmamsg_accept(req, &w->opts, NULL))
		note("rdmamsg_accept: %s", rdmamsg_error());
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
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &next, .on_request = move_request,
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
		connect_to(p.port);
		for (uint32_t n = 0; n < 50; n++)
			echo(HOW_SENDV, path_size(n), n);
		WAIT_FOR(p.c.received == p.c.expected_count);
		close_client();
	}
	for (int i = 0; i < 2; i++) {
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

	while (!(ret = rdmamsg_submit(w->ctx, stop_it, NULL)))
		;
	if (ret != -EAGAIN)
		note("rdmamsg_submit: %s", rdmamsg_error());
	ret = rdmamsg_request_move(req, w->ctx, NULL, w);
	if (ret != -EINVAL)
		note("rdmamsg_request_move to nobody: %d", ret);
	ret = rdmamsg_request_move(req, w->ctx, accept_moved, w);
	if (ret != -EAGAIN)
		note("rdmamsg_request_move to a full queue: %d", ret);
	/* it is still ours */
	if (rdmamsg_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

static void move__queue_there_full_STAYS(void **state)
{
	static const struct rdmamsg_options small = {
		.size = sizeof(small), .submit_depth = 2,
	};
	struct worker w;
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &w, .on_request = fill_and_move,
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
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &next, .on_request = move_request,
	};
	bool told = false;

	/* its loop does not run */
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(drive__poll_2_and_process_WORKS),
		TEST(drive__rdmamsg_poll_only_WORKS),
		TEST(drive__wait_WORKS),
		TEST(drive__wait_that_spins_WORKS),
		TEST(drive__all_of_them_in_turn_WORKS),
		TEST(process__nothing_there_0),
		TEST(wait__nothing_there_SLEEPS_ITS_TIME),
		TEST(sleep__after_polling_LOSES_NOTHING),
		TEST(sleep__after_wait_without_time_LOSES_NOTHING),
		TEST(sleep__beside_another_thread_LOSES_NOTHING),
		TEST(fd__work_to_do_IS_READABLE),
		TEST(run__stop_from_another_thread_RETURNS),
		TEST(run__stopped_before_RETURNS_AT_ONCE),
		TEST(run__stop_from_a_callback_RETURNS),
		TEST(run__stopped_and_run_again_WORKS_ON),
		TEST(wait__signal_EINTR),
		TEST(submit__from_4_threads_ALL_RUN_IN_ORDER),
		TEST(submit__from_4_threads_small_queue_ALL_RUN_IN_ORDER),
		TEST(submit__queue_full_EAGAIN),
		TEST(submit__still_queued_at_close_RUNS),
		TEST(submit__from_what_was_submitted_RUNS),
		TEST(submit__answers_from_workers_ARRIVE),
		TEST(submit__without_a_function_EINVAL),
		TEST(callback__calls_that_wait_EDEADLK),
		TEST(wait_helpers__both_sides_TALK),
		TEST(recv_wait__peer_has_closed_LAST_ONE_THEN_ESHUTDOWN),
		TEST(accept_wait__nobody_there_ETIMEDOUT),
		TEST(accept_wait__listener_closed_meanwhile_ESHUTDOWN),
		TEST(accept_wait__listener_that_accepts_itself_EINVAL),
		TEST(connect_wait__nobody_answers_SAYS_WHY),
		TEST(send_wait__peer_that_does_not_look_ETIMEDOUT_AND_ABORTED),
		TEST(wait__peer_ends_ITS_ERROR),
		TEST(close_wait__peer_that_does_not_look_ETIMEDOUT),
		TEST(recv_wait__with_on_message_EINVAL),
		TEST(wait_helpers__nowhere_to_put_it_EINVAL),
		TEST(move__to_contexts_of_other_threads_TALK_THERE),
		TEST(move__queue_there_full_STAYS),
		TEST(move__closed_before_it_ran_IS_REJECTED),
	};

	return test_main(tests, NULL, argc, argv);
}
