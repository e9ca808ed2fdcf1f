/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Async events of a device that several contexts have: each context is told
 * once, whichever of them is driven, and none waits for one that is idle.
 */
#include "common.h"
#include "harm.h"
#include "thread.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>

#define WORKERS		4
#define TOGGLES		5
#define LIVES		20	/* of each context that comes and goes */

static struct pair p;

/* ---- a context that nobody drives ------------------------------------- */

struct told {
	atomic_uint down, up;
};

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	struct told *told = rdmamsg_user(ctx);

	if (ev->type == IBV_EVENT_PORT_ERR)
		told->down++;
	else if (ev->type == IBV_EVENT_PORT_ACTIVE)
		told->up++;
}

static struct rdmamsg *open_told(struct told *told)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .user = told, .handlers = &on,
	};
	struct rdmamsg *ctx;

	if (rdmamsg_open(&ctx, &opts))
		fail_msg("rdmamsg_open: %s", rdmamsg_error());
	return ctx;
}

static void on_connected(struct rdmamsg_ep *ep)
{
	(*(unsigned int *)rdmamsg_ep_user(ep))++;
}

/* Has the context use the device: it connects to itself, and stays so. */
static void take_device(struct rdmamsg *ctx)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
	};
	unsigned int connected = 0;
	const struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &on, .user = &connected,
		.dead_after_ms = RDMAMSG_NONE, .timeout_ms = WAIT_MS,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	uint64_t end = now_ms() + WAIT_MS;
	struct rdmamsg_listener *l;
	char port[8];

	if (rdmamsg_listen(ctx, test_addr(), "0", &lo, &l) ||
	    rdmamsg_connect(ctx, test_addr(), listener_service(l, port), &eo,
			    NULL))
		fail_msg("to itself: %s", rdmamsg_error());
	while (connected < 2 && now_ms() < end)
		rdmamsg_wait(ctx, 100);
	assert_int_equal(connected, 2);
	rdmamsg_listener_close(l);
}

static unsigned int late_flushes;

static void on_warning(void *arg, enum rdmamsg_log_level level,
		       const char *line)
{
	late_flushes += strstr(line, "not flushed") != NULL;
}

/* The idle context opens the device first, so it could read all events. */
static void idle__has_the_device_too_CLOSE_DOES_NOT_WAIT(void **state)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 128,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .srq = &so,
	};
	struct told told = { 0 };
	struct rdmamsg *idle = open_told(&told);

	take_device(idle);
	pair_init(&p, &opts);
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SEND, 100, 1);
	late_flushes = 0;
	rdmamsg_set_log(on_warning, NULL, RDMAMSG_LOG_WARN);
	pair_close(&p);
	assert_int_equal(late_flushes, 0);
	pair_fini(&p);
	rdmamsg_close(idle);
}

/*
 * The soft HCA raises one event for each change. Soft-RoCE sometimes raises two
 * when its interface goes down.
 */
static void check_count(unsigned int count, unsigned int expected)
{
	if (test_on_soft())
		assert_int_equal(count, expected);
	else
		assert_true(count >= expected);
}

static void idle__has_the_device_too_OTHERS_ARE_TOLD(void **state)
{
	struct told idle_told = { 0 }, told = { 0 };
	struct rdmamsg *idle, *ctx;

	harm_find();
	idle = open_told(&idle_told);
	take_device(idle);
	ctx = open_told(&told);
	take_device(ctx);
	for (unsigned int n = 1; n <= TOGGLES; n++) {
		uint64_t end = now_ms() + WAIT_MS;

		harm_link(false);
		while (told.down < n && now_ms() < end)
			rdmamsg_wait(ctx, 100);
		harm_link(true);
		while (told.up < n && now_ms() < end)
			rdmamsg_wait(ctx, 100);
		check_count(told.down, n);
		check_count(told.up, n);
	}
	/* the events read for the idle context wait until it runs its loop */
	assert_int_equal(idle_told.down + idle_told.up, 0);
	test_drive(idle);
	check_count(idle_told.down, TOGGLES);
	check_count(idle_told.up, TOGGLES);
	rdmamsg_close(ctx);
	rdmamsg_close(idle);
}

/* ---- many ------------------------------------------------------------- */

struct runner {
	pthread_t thread;
	struct rdmamsg *ctx;
	struct told told;
};

static void *run_context(void *arg)
{
	struct runner *r = arg;

	rdmamsg_run(r->ctx);
	return NULL;
}

static void runner_start(struct runner *r)
{
	memset(r, 0, sizeof(*r));
	r->ctx = open_told(&r->told);
	take_device(r->ctx);
	start_thread(&r->thread, run_context, r);
}

static void runner_end(struct runner *r)
{
	rdmamsg_stop(r->ctx);
	pthread_join(r->thread, NULL);
	rdmamsg_close(r->ctx);
}

static void wait_for(atomic_uint *count, unsigned int until)
{
	uint64_t end = now_ms() + WAIT_MS;

	while (*count < until && now_ms() < end)
		usleep(1000);
	check_count(*count, until);
}

static void toggle_and_count(struct runner *runners, unsigned int count)
{
	for (unsigned int n = 1; n <= TOGGLES; n++) {
		harm_link(false);
		for (unsigned int i = 0; i < count; i++)
			wait_for(&runners[i].told.down, n);
		harm_link(true);
		for (unsigned int i = 0; i < count; i++)
			wait_for(&runners[i].told.up, n);
	}
}

static void threads__each_its_context_TOLD_ONCE(void **state)
{
	static struct runner runners[WORKERS];

	harm_find();
	for (int i = 0; i < WORKERS; i++)
		runner_start(&runners[i]);
	toggle_and_count(runners, WORKERS);
	for (int i = 0; i < WORKERS; i++)
		runner_end(&runners[i]);
}

static atomic_bool enough;

/* Opens contexts, uses the device for a moment, and closes them. */
static void *come_and_go(void *arg)
{
	unsigned int *lives = arg;

	while (!enough || *lives < LIVES) {
		struct told told = { 0 };
		struct rdmamsg *ctx = open_told(&told);

		take_device(ctx);
		rdmamsg_process(ctx);
		rdmamsg_close(ctx);
		++*lives;
	}
	return NULL;
}

static void threads__contexts_come_and_go_THOSE_THAT_STAY_ARE_TOLD(void **state)
{
	static struct runner stays;
	unsigned int lives[2] = { 0 };
	pthread_t threads[2];

	if (!test_on_soft())
		skip_because("without its link Soft-RoCE connects nobody");
	harm_find();
	runner_start(&stays);
	enough = false;
	for (int i = 0; i < 2; i++)
		start_thread(&threads[i], come_and_go, &lives[i]);
	/* no connection uses port 2 */
	for (unsigned int n = 1; n <= TOGGLES; n++) {
		harm_port(2, false);
		wait_for(&stays.told.down, n);
		harm_port(2, true);
		wait_for(&stays.told.up, n);
	}
	enough = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	runner_end(&stays);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(idle__has_the_device_too_CLOSE_DOES_NOT_WAIT),
		TEST(idle__has_the_device_too_OTHERS_ARE_TOLD),
		TEST(threads__each_its_context_TOLD_ONCE),
		TEST(threads__contexts_come_and_go_THOSE_THAT_STAY_ARE_TOLD),
	};

	return test_main(tests, NULL, argc, argv);
}
