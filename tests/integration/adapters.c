/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapters, each in its loop. Nothing but the loop drives the contexts, and
 * most tests have no timer in it: a wake-up that is lost ends the test by its
 * alarm.
 */
#define _GNU_SOURCE
#include "adapters.h"
#include "common.h"
#include "thread.h"
#include "zeros.h"

#include <semaphore.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MESSAGES	100
#define PAIRS		4
#define FLOOD		3000
#define IN_FLIGHT	16
#define TICK_MS		10
#define QUIET_TICKS	50	/* without another turn: the contexts sleep */
/* Work that is left, keepalives. A loop that spins has thousands. */
#define TURNS_MAX	200
#define SUBMITS		1000

/* ---- a loop with contexts --------------------------------------------- */

struct running {
	const struct loop_kind *kind;
	void *loop;
	void *s, *c;		/* adapters of a pair */
};

static struct running r;
static struct pair p;

#define TURNS_UNTIL(condition)	UNTIL_BY(r.kind->turn(r.loop), condition)

static void *start_in(void *loop, struct rdmamsg *ctx)
{
	void *adapter;
	int ret = r.kind->start(loop, ctx, &adapter);

	if (ret)
		fail_msg("%s: start: %d", r.kind->name, ret);
	return adapter;
}

static void loop_open(void **state)
{
	memset(&r, 0, sizeof(r));
	r.kind = *state;
	r.loop = r.kind->make();
	assert_non_null(r.loop);
}

static void loop_open_pair(void **state)
{
	loop_open(state);
	pair_init(&p, NULL);
	r.s = start_in(r.loop, p.s.ctx);
	r.c = start_in(r.loop, p.c.ctx);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	TURNS_UNTIL(p.c.connected && p.s.connected);
}

static void loop_close_pair(void)
{
	rdmamsg_ep_close(p.c.ep);
	TURNS_UNTIL(p.c.closed && p.s.closed);
	pair_check_graceful(&p);
	r.kind->stop(r.s);
	r.kind->stop(r.c);
	r.kind->end(r.loop);
	pair_fini(&p);
}

static size_t path_size(uint32_t n)
{
	return n % 10 == 3 ? 100000 + n : n % 5 == 2 ? 5000 : n % 240;
}

static void send_one(struct end *e, uint32_t n)
{
	enum how how = n % 10 == 3 ? HOW_SENDV : HOW_SEND;
	int ret;

	while ((ret = end_send(e, how, path_size(n), n)) == -EAGAIN) {
		e->writable = 0;
		TURNS_UNTIL(e->writable);
	}
	if (ret)
		fail_msg("%s: %s", e->name, rdmamsg_error());
}

static void send_some(struct end *e, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++)
		send_one(e, n);
}

/* ---- one loop, one or many contexts ----------------------------------- */

static void exchange__all_paths_in_one_loop_WORK(void **state)
{
	loop_open_pair(state);
	for (uint32_t n = 0; n < MESSAGES; n++) {
		send_one(&p.c, n);
		send_one(&p.s, n);
	}
	TURNS_UNTIL(p.s.received == MESSAGES && p.c.received == MESSAGES);
	loop_close_pair();
}

static bool all_received(const struct pair *pairs, size_t count)
{
	for (int i = 0; i < PAIRS; i++)
		if (pairs[i].s.received != count || pairs[i].c.received != count)
			return false;
	return true;
}

static void contexts__many_in_one_loop_WORK(void **state)
{
	static struct pair pairs[PAIRS];
	void *adapters[2 * PAIRS];

	loop_open(state);
	for (int i = 0; i < PAIRS; i++) {
		pair_open(&pairs[i]);
		adapters[2 * i] = start_in(r.loop, pairs[i].s.ctx);
		adapters[2 * i + 1] = start_in(r.loop, pairs[i].c.ctx);
	}
	for (int i = 0; i < PAIRS; i++) {
		send_some(&pairs[i].c, MESSAGES);
		send_some(&pairs[i].s, MESSAGES);
	}
	TURNS_UNTIL(all_received(pairs, MESSAGES));
	for (int i = 0; i < 2 * PAIRS; i++)
		r.kind->stop(adapters[i]);
	r.kind->end(r.loop);
	for (int i = 0; i < PAIRS; i++)
		pair_fini(&pairs[i]);
}

/* ---- beside what the loop has of its own ------------------------------ */

static unsigned int ticks;

static void count_tick(void *arg)
{
	ticks++;
}

/* A message goes back at once, so that the contexts always have work. */
static void send_back(struct end *e, struct rdmamsg_msg *msg)
{
	if (e->received <= FLOOD - IN_FLIGHT &&
	    rdmamsg_msg_send(e->ep, msg, rdmamsg_msg_tag(msg), NULL) == 0)
		return;
	rdmamsg_msg_free(msg);
}

static void timer__beside_a_flood_TICKS(void **state)
{
	void *timer;

	ticks = 0;
	loop_open_pair(state);
	p.s.expect_nothing = p.c.expect_nothing = true;
	p.s.then_message = p.c.then_message = send_back;
	for (int i = 0; i < IN_FLIGHT; i++)
		assert_int_equal(rdmamsg_send(p.c.ep, "x", 1, 1, NULL), 0);
	timer = r.kind->timer(r.loop, 1, count_tick, NULL);
	TURNS_UNTIL(p.s.received >= FLOOD - IN_FLIGHT && ticks);
	r.kind->timer_stop(timer);
	p.s.then_message = p.c.then_message = NULL;
	r.kind->stop(r.s);
	r.kind->stop(r.c);
	r.kind->end(r.loop);
	pair_fini(&p);
}

static void send_tick(void *arg)
{
	if (++ticks <= MESSAGES)
		send_one(&p.c, ticks);
}

static void send__from_the_loops_timer_ARRIVES(void **state)
{
	void *timer;

	ticks = 0;
	loop_open_pair(state);
	timer = r.kind->timer(r.loop, 1, send_tick, NULL);
	TURNS_UNTIL(p.s.received == MESSAGES);
	r.kind->timer_stop(timer);
	loop_close_pair();
}

/* ---- wake-ups --------------------------------------------------------- */

static sem_t done;

static void post_done(struct rdmamsg *ctx, void *arg)
{
	++*(unsigned int *)arg;
	sem_post(&done);
}

/* Each waits for the one before, so that the loop sleeps before each. */
static void *submit_all(void *arg)
{
	for (int i = 0; i < SUBMITS; i++) {
		if (rdmamsg_submit_wait(p.c.ctx, post_done, arg, WAIT_MS))
			abort();
		while (sem_wait(&done))
			;
	}
	return NULL;
}

static void submit__from_a_thread_WAKES_EACH_TIME(void **state)
{
	unsigned int ran = 0;
	pthread_t thread;

	sem_init(&done, 0, 0);
	loop_open_pair(state);
	start_thread(&thread, submit_all, &ran);
	TURNS_UNTIL(ran == SUBMITS);
	pthread_join(thread, NULL);
	loop_close_pair();
	sem_destroy(&done);
}

/* Turns of the loop that no timer caused, until there was none for a while. */
static unsigned int turns_until_quiet(void)
{
	void *timer = r.kind->timer(r.loop, TICK_MS, count_tick, NULL);
	unsigned int turns = 0, quiet = 0, before;

	while (quiet < QUIET_TICKS) {
		before = ticks;
		r.kind->turn(r.loop);
		check_notes();
		if (ticks != before) {
			quiet++;
			continue;
		}
		quiet = 0;
		if (++turns > TURNS_MAX)
			fail_msg("%s: %u turns without work", r.kind->name,
				 turns);
	}
	r.kind->timer_stop(timer);
	return turns;
}

static void idle__contexts_with_a_connection_SLEEP(void **state)
{
	loop_open_pair(state);
	(void)turns_until_quiet();
	send_some(&p.c, MESSAGES);
	TURNS_UNTIL(p.s.received == MESSAGES);
	(void)turns_until_quiet();
	loop_close_pair();
}

/* rdmamsg_process() fails from then on, and the peer's messages still come. */
static void descriptor__closed_by_the_program_DOES_NOT_SPIN(void **state)
{
	loop_open_pair(state);
	texts_are_fine = errors_are_fine = true;
	p.c.expect_nothing = p.s.expect_nothing = true;
	for (int i = 0; i < IN_FLIGHT; i++)
		assert_int_equal(rdmamsg_send(p.c.ep, "x", 1, 1, NULL), 0);
	close(rdmamsg_fd(p.s.ctx));
	(void)turns_until_quiet();
	r.kind->stop(r.s);
	r.kind->stop(r.c);
	r.kind->end(r.loop);
	test_close(p.s.ctx);
	test_close(p.c.ctx);
	texts_are_fine = errors_are_fine = false;
}

/* ---- starting and stopping at any moment ------------------------------ */

static void stop_server(struct end *e, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
	r.kind->stop(r.s);
	r.s = NULL;
}

static void stop__in_a_callback_ENDS_IT(void **state)
{
	size_t received;

	loop_open_pair(state);
	p.s.then_message = stop_server;
	send_one(&p.c, 0);
	TURNS_UNTIL(!r.s);
	p.s.then_message = NULL;
	received = p.s.received;
	send_one(&p.c, 1);
	(void)turns_until_quiet();
	assert_int_equal(p.s.received, received);

	r.s = start_in(r.loop, p.s.ctx);
	TURNS_UNTIL(p.s.received == 2);
	loop_close_pair();
}

static void restart(struct end *e, struct rdmamsg_msg *msg)
{
	void **adapter = e == &p.s ? &r.s : &r.c;

	rdmamsg_msg_free(msg);
	r.kind->stop(*adapter);
	*adapter = start_in(r.loop, e->ctx);
}

static void restart__in_each_callback_LOSES_NOTHING(void **state)
{
	loop_open_pair(state);
	p.s.then_message = p.c.then_message = restart;
	for (uint32_t n = 0; n < MESSAGES; n++) {
		send_one(&p.c, n);
		send_one(&p.s, n);
	}
	TURNS_UNTIL(p.s.received == MESSAGES && p.c.received == MESSAGES);
	loop_close_pair();
}

/* The client's adapter in callbacks of the server, and the other way round. */
static void restart_peer(struct end *e, struct rdmamsg_msg *msg)
{
	void **adapter = e == &p.s ? &r.c : &r.s;

	rdmamsg_msg_free(msg);
	r.kind->stop(*adapter);
	*adapter = start_in(r.loop, e->peer->ctx);
}

static void restart__by_the_other_context_LOSES_NOTHING(void **state)
{
	loop_open_pair(state);
	p.s.then_message = p.c.then_message = restart_peer;
	for (uint32_t n = 0; n < MESSAGES; n++) {
		send_one(&p.c, n);
		send_one(&p.s, n);
	}
	TURNS_UNTIL(p.s.received == MESSAGES && p.c.received == MESSAGES);
	loop_close_pair();
}

static void start__work_is_there_already_WAKES(void **state)
{
	loop_open_pair(state);
	r.kind->stop(r.s);
	send_some(&p.c, IN_FLIGHT);
	TURNS_UNTIL(p.c.sent_ok || !p.c.sent);
	r.s = start_in(r.loop, p.s.ctx);
	TURNS_UNTIL(p.s.received == IN_FLIGHT);
	loop_close_pair();
}

/* ---- ends ------------------------------------------------------------- */

static void quit(struct end *e, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
	r.kind->quit(r.loop);
}

static void quit__in_a_callback_AND_RUN_AGAIN(void **state)
{
	loop_open_pair(state);
	p.s.then_message = quit;
	for (uint32_t n = 0; n < MESSAGES; n++) {
		send_one(&p.c, n);
		while (p.s.received <= n)
			r.kind->run(r.loop);
	}
	p.s.then_message = NULL;
	loop_close_pair();
}

static void loop__another_takes_over_LOSES_NOTHING(void **state)
{
	loop_open_pair(state);
	send_some(&p.c, MESSAGES);
	TURNS_UNTIL(p.s.received);
	for (int i = 0; i < 10; i++) {
		r.kind->stop(r.s);
		r.kind->stop(r.c);
		r.kind->end(r.loop);
		r.loop = r.kind->make();
		r.s = start_in(r.loop, p.s.ctx);
		r.c = start_in(r.loop, p.c.ctx);
		send_some(&p.s, 1);
		TURNS_UNTIL(p.c.received == (size_t)i + 1);
	}
	TURNS_UNTIL(p.s.received == MESSAGES);
	loop_close_pair();
}

/* Another context gets the numbers of the descriptors that were closed. */
static void stop__after_the_context_closed_HARMS_NO_OTHER(void **state)
{
	struct rdmamsg *ctx;
	void *old;

	loop_open(state);
	ctx = test_open(NULL);
	old = start_in(r.loop, ctx);
	test_close(ctx);
	pair_init(&p, NULL);
	r.s = start_in(r.loop, p.s.ctx);
	r.c = start_in(r.loop, p.c.ctx);
	r.kind->stop(old);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	TURNS_UNTIL(p.c.connected && p.s.connected);
	send_some(&p.c, MESSAGES);
	TURNS_UNTIL(p.s.received == MESSAGES);
	loop_close_pair();
}

static struct rdmamsg *closing;

static void close_on_tick(void *arg)
{
	if (!closing)
		return;
	test_close(closing);
	closing = NULL;
	r.kind->stop(r.s);
}

/* The loop has found the descriptor readable when the timer's callback runs. */
static void close__by_the_loops_timer_IS_THE_END(void **state)
{
	void *timer;

	loop_open_pair(state);
	closing = p.s.ctx;
	timer = r.kind->timer(r.loop, 1, close_on_tick, NULL);
	for (uint32_t n = 0; closing; n++) {
		if (p.c.ep && !p.c.closed)
			(void)rdmamsg_send(p.c.ep, &n, sizeof(n), n, NULL);
		p.s.expect_nothing = true;
		r.kind->turn(r.loop);
	}
	TURNS_UNTIL(p.c.closed);
	assert_int_equal(p.s.closed, 1);
	r.kind->timer_stop(timer);
	r.kind->stop(r.c);
	r.kind->end(r.loop);
	test_close(p.c.ctx);
}

/* ---- arguments -------------------------------------------------------- */

static void start__wrong_arguments_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	void *ret = &r;

	texts_are_fine = true;
	loop_open(state);
	assert_int_equal(r.kind->start(r.loop, NULL, &ret), -EINVAL);
	assert_int_equal(r.kind->start(r.loop, ctx, NULL), -EINVAL);
	/* GLib has a loop of its own for NULL */
	if (strcmp(r.kind->name, "glib"))
		assert_int_equal(r.kind->start(NULL, ctx, &ret), -EINVAL);
	assert_ptr_equal(ret, &r);
	r.kind->stop(NULL);
	r.kind->end(r.loop);
	texts_are_fine = false;
}

static void exports__with_zeros_ANSWER(void **state)
{
	static const struct zeros_answer answers[] = {
		{ "rdmamsg_ev_stop", ZEROS_NOTHING },
		{ "rdmamsg_glib_stop", ZEROS_NOTHING },
		{ "rdmamsg_libevent_stop", ZEROS_NOTHING },
		{ "rdmamsg_uv_handle", ZEROS_NULL },
		{ "rdmamsg_uv_stop", ZEROS_NOTHING },
		{ NULL, ZEROS_EINVAL }
	};
	const struct loop_kind *kind = *state;

	assert_true(zeros_all(kind->symbol, answers) >= 2);
}

static void start__no_descriptor_left_EMFILE(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rlimit before, none;
	void *ret = &r;
	int got;

	loop_open(state);
	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	none.rlim_cur = 4;	/* all in use */
	setrlimit(RLIMIT_NOFILE, &none);
	got = r.kind->start(r.loop, ctx, &ret);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(got, -EMFILE);
	assert_ptr_equal(ret, &r);
	r.kind->end(r.loop);
}

static void start__in_a_forked_process_ECHILD(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	int status;
	pid_t pid;

	loop_open(state);
	pid = fork();
	if (!pid)
		_exit(r.kind->start(r.loop, ctx, &r.s) == -ECHILD ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	r.kind->end(r.loop);
}

static void stop__each_time_LEAVES_NO_DESCRIPTOR(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	int fds;

	loop_open(state);
	r.kind->stop(start_in(r.loop, ctx));
	fds = open_fds();
	for (int i = 0; i < 100; i++)
		r.kind->stop(start_in(r.loop, ctx));
	assert_int_equal(open_fds(), fds);
	r.kind->end(r.loop);
}

/* ---- main ------------------------------------------------------------- */

static const struct {
	const char *name;
	CMUnitTestFunction fn;
} cases[] = {
#define CASE(fn)	{ #fn, fn }
	CASE(exchange__all_paths_in_one_loop_WORK),
	CASE(contexts__many_in_one_loop_WORK),
	CASE(timer__beside_a_flood_TICKS),
	CASE(send__from_the_loops_timer_ARRIVES),
	CASE(submit__from_a_thread_WAKES_EACH_TIME),
	CASE(idle__contexts_with_a_connection_SLEEP),
	CASE(descriptor__closed_by_the_program_DOES_NOT_SPIN),
	CASE(stop__in_a_callback_ENDS_IT),
	CASE(restart__in_each_callback_LOSES_NOTHING),
	CASE(restart__by_the_other_context_LOSES_NOTHING),
	CASE(start__work_is_there_already_WAKES),
	CASE(quit__in_a_callback_AND_RUN_AGAIN),
	CASE(loop__another_takes_over_LOSES_NOTHING),
	CASE(stop__after_the_context_closed_HARMS_NO_OTHER),
	CASE(close__by_the_loops_timer_IS_THE_END),
	CASE(start__wrong_arguments_EINVAL),
	CASE(exports__with_zeros_ANSWER),
	CASE(start__no_descriptor_left_EMFILE),
	CASE(start__in_a_forked_process_ECHILD),
	CASE(stop__each_time_LEAVES_NO_DESCRIPTOR),
};

#define CASES	ARRAY_SIZE(cases)

static void fill(struct CMUnitTest *tests)
{
	static char names[LOOP_KINDS_MAX * CASES][80];
	size_t n = 0;

	for (const struct loop_kind *k = loop_kinds; k->name; k++)
		for (size_t i = 0; i < CASES; i++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s_%s", k->name,
				 cases[i].name);
			tests[n] = (struct CMUnitTest){
				names[n], cases[i].fn, test_setup,
				test_teardown, (void *)(uintptr_t)k,
			};
		}
}

static size_t kinds(void)
{
	size_t n = 0;

	while (loop_kinds[n].name)
		n++;
	return n;
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[kinds() * CASES + 1];

	if (!kinds()) {
		fprintf(stderr, "skip: built without any adapter\n");
		return 77;
	}
	fill(tests);
	if (test_is_child(argc, argv))
		return 1;
	need_rdma();
	cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests("adapters", tests, kinds() * CASES,
				       NULL, NULL) ? 1 : 0;
}
