/* SPDX-License-Identifier: BSD-2-Clause */
/* The ways to drive a context, sleeping and stopping. */
#include "common.h"
#include "thread.h"

#include <poll.h>
#include <signal.h>

static struct pair p;

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

static void drive_both(enum method how)
{
	drive(p.s.ctx, how);
	drive(p.c.ctx, how);
}

#define DRIVE_UNTIL(how, condition)	UNTIL_BY(drive_both(how), condition)

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
	client_connect(&p.c, w.port);
	for (uint32_t n = 0; n < 500; n++) {
		client_echo(&p.c, HOW_SEND, n % 64, n);
		for (uint32_t k = n * 13 % 50; k; k--)
			assert_true(rdmamsg_poll(p.c.ctx) >= 0);
		sleep_until_received(&p.c, p.c.expected_count);
		check_notes();
	}
	client_close(&p.c);
	worker_wait_closed(&w, 1);
	pair_fini(&p);
	worker_end(&w);
	assert_int_equal(w.echoed, 500);
}

/* A device may complete earlier sends at any later time. */
static void drive_until_quiet(struct rdmamsg *ctx, struct pollfd *fd)
{
	uint64_t end = now_ms() + WAIT_MS;

	do {
		assert_true(now_ms() < end);
		test_drive(ctx);
	} while (poll(fd, 1, 0) || rdmamsg_process(ctx));
}

/* The descriptor stays readable until rdmamsg_process() has done all work. */
static void fd__work_to_do_IS_READABLE(void **state)
{
	struct pollfd fd;

	pair_open(&p);
	test_drive(p.c.ctx);
	test_drive(p.s.ctx);
	fd.fd = rdmamsg_fd(p.s.ctx);
	fd.events = POLLIN;
	end_send_all(&p.c, HOW_SEND, 10, 1);
	while (!p.s.received) {
		assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
		assert_int_equal(poll(&fd, 1, 0), 1);
		assert_true(rdmamsg_process(p.s.ctx) > 0);
	}
	drive_until_quiet(p.s.ctx, &fd);
	/* a poll in between consumes the work behind the event */
	end_send_all(&p.c, HOW_SEND, 10, 2);
	for (uint64_t end = now_ms() + WAIT_MS; p.s.received < 2; ) {
		assert_true(now_ms() < end);
		assert_true(rdmamsg_poll(p.s.ctx) >= 0);
	}
	drive_until_quiet(p.s.ctx, &fd);
	end_send_all(&p.c, HOW_SEND, 10, 3);
	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	pair_close(&p);
	pair_fini(&p);
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
	/* several stops count as one */
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
	client_connect(&p.c, w.port);
	for (int i = 0; i < 10; i++) {
		client_echo(&p.c, HOW_SEND, 10, (uint32_t)i);
		WAIT_FOR(p.c.received == p.c.expected_count);
		rdmamsg_stop(w.ctx);
		pthread_join(w.thread, NULL);
		worker_start(&w);
	}
	client_close(&p.c);
	worker_wait_closed(&w, 1);
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
	};

	return test_main(tests, NULL, argc, argv);
}
