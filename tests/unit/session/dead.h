/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a connection with dead_after_ms, on a device that can be cut and
 * against the test's own clock, and activities of the connection. For dead.c and
 * alone.c.
 */
#ifndef TESTS_UNIT_SESSION_DEAD_H
#define TESTS_UNIT_SESSION_DEAD_H

#include "base/ctx.h"
#include "base/timer.h"
#include "session/ep.h"
#include "../two_ends.h"
#include "../../fake/nulldev_objects.h"

#include <stdlib.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rma.h>

#define ROOM		((size_t)1 << 16)
#define LARGE		((size_t)3 << 20) /* three reads of a rendezvous */
#define SLACK_MS	5

/* ---- the clock -------------------------------------------------------- */

static uint64_t now;

/* The linker (-Wl,--wrap) puts the test's clock in the library's place. */
uint64_t __wrap_rdmamsg__now_ms(void);
uint64_t __wrap_rdmamsg__now_ms(void)
{
	return now;
}

uint64_t __wrap_rdmamsg__now_us(void);
uint64_t __wrap_rdmamsg__now_us(void)
{
	return now * 1000;
}

/* The timers' descriptor uses the real clock, so run due timers directly. */
static inline void run(struct side *s)
{
	struct timers *ts = &s->ctx->loop.timers;

	if (ts->count && rdmamsg__timer_ms(ts->heap[0]) <= now) {
		rdmamsg__enter(s->ctx);
		rdmamsg__timers_run(ts);
		rdmamsg__settle(s->ctx);
		rdmamsg__leave(s->ctx);
	}
	assert_true(rdmamsg_poll(s->ctx) >= 0);
}

/* ---- both ends -------------------------------------------------------- */

struct activity {
	const char *name;
	void (*act)(void);		/* runs in each step, if not NULL */
	bool answers;			/* the server answers each message */
};

static const struct activity *activity;
static struct rdmamsg_ep_options opts;	/* of both ends */
static struct rdmamsg_ep_tuning tuning;
static struct rdmamsg_key key;		/* of the server's memory */
static uint8_t *large;
static uint64_t step, next_act;
static void (*in_message)(void);	/* called by the next on_message */

static inline void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	void (*fn)(void) = in_message;

	s->messages++;
	rdmamsg_msg_free(msg);
	in_message = NULL;
	if (fn)
		fn();
	if (s == &server && activity->answers)
		(void)rdmamsg_send(ep, "answer", 6, 0, NULL);
}

static inline struct rdmamsg_sge memory(void)
{
	return (struct rdmamsg_sge){
		.data = client.mem, .len = ROOM, .region = client.region,
	};
}

static inline bool is_free(void)
{
	return !client.closed && client.sent == client.writable;
}

/* Counts in 'writable' the requests accepted with a cookie. */
static inline void given(int ret)
{
	assert_true(!ret || ret == -EAGAIN || ret == -ESHUTDOWN);
	client.writable += !ret;
}

static inline void send_unsignaled(void)
{
	if (!client.closed)
		(void)rdmamsg_send(client.ep, "x", 1, 0, NULL);
}

/* Sends so rarely that an unsignalled request is always outstanding. */
static inline void send_rarely(void)
{
	if (now < next_act)
		return;
	next_act = now + opts.dead_after_ms / 5;
	send_unsignaled();
}

static inline void send_signaled(void)
{
	if (is_free())
		given(rdmamsg_send(client.ep, "x", 1, 0, large));
}

static inline void send_large(void)
{
	const struct iovec iov = { large, LARGE };

	if (is_free())
		given(rdmamsg_sendv(client.ep, &iov, 1, 0, large));
}

static inline void read_some(void)
{
	const struct rdmamsg_sge s = memory();

	if (is_free())
		given(rdmamsg_read(client.ep, &s, 1, &key, 0, 0, large));
}

static inline void write_some(void)
{
	const struct rdmamsg_sge s = memory();

	if (!client.closed)
		(void)rdmamsg_write(client.ep, &s, 1, &key, 0, 0, NULL);
}

static inline void write_signaled(void)
{
	const struct rdmamsg_sge s = memory();

	if (is_free())
		given(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, large));
}

static inline void hear_only(void)
{
	if (!server.closed)
		(void)rdmamsg_send(server.ep, "x", 1, 0, NULL);
}

static const struct activity activities[] = {
	{ "idle", NULL }, { "unsignaled sends", send_unsignaled },
	{ "a send now and then", send_rarely },
	{ "signaled sends", send_signaled },
	{ "ping-pong", send_unsignaled, true },
	{ "rendezvous", send_large }, { "reads", read_some },
	{ "unsignaled writes", write_some },
	{ "signaled writes", write_signaled }, { "receives", hear_only },
};
#define ACTIVITIES	(sizeof(activities) / sizeof(activities[0]))

static inline void side_memory(struct side *s, uint32_t access)
{
	s->mem = calloc(1, ROOM);
	assert_int_equal(rdmamsg_region_create(s->ctx, s->mem, ROOM, access,
					       &s->region), 0);
	assert_int_equal(rdmamsg_region_register(s->region, s->ep), 0);
}

static inline void set_options(const struct activity *what, uint32_t dead_after_ms)
{
	static const struct rdmamsg_ep_handlers handlers =
		END_HANDLERS(on_message);

	activity = what;
	in_message = NULL;
	opts.size = sizeof(opts);
	opts.handlers = &handlers;
	opts.tuning = &tuning;
	tuning.size = sizeof(tuning);
	opts.dead_after_ms = dead_after_ms;
	step = dead_after_ms == RDMAMSG_NONE ? 20 :
	       max(dead_after_ms / 1000, 1u);
	next_act = 0;
}

static inline void start(const struct activity *what, uint32_t dead_after_ms)
{
	set_options(what, dead_after_ms);
	connect_ends(&opts);
	side_memory(&client, RDMAMSG_ACCESS_LOCAL_WRITE);
	side_memory(&server, RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE);
	assert_int_equal(rdmamsg_region_get_key(server.region, server.ep, &key),
			 0);
}

static struct rdmamsg_reason last_why;	/* why the client closed last */

static inline void close_both(void)
{
	last_why = client.why;
	nulldev_cut(false);
	if (client.ctx)
		rdmamsg_close(client.ctx);
	if (server.ctx)
		rdmamsg_close(server.ctx);
	free(client.mem);
	free(server.mem);
	clear_ends();
}

static inline void stop_all(void)
{
	close_both();
	assert_int_equal(nulldev_counts.qps, 0);
}

static inline void one_step(void)
{
	now += step;
	if (activity->act)
		activity->act();
	run(&client);
	run(&server);
}

static inline void steps(uint64_t ms)
{
	for (uint64_t end = now + ms; now < end; )
		one_step();
}

/* Only this side's program turns; the peer's device takes and answers all. */
static inline void client_steps(uint64_t ms)
{
	for (uint64_t end = now + ms; now < end; ) {
		now += step;
		if (activity->act)
			activity->act();
		run(&client);
	}
}

static inline void check_open(const char *when)
{
	if (client.closed || server.closed)
		fail_msg("%s, %s: %s", activity->name, when,
			 client.closed ? client.why.text : server.why.text);
}

/* Steps until the side closes, and checks that the time is in the range. */
static inline void check_closes(struct side *s, uint64_t since, uint64_t least,
			 uint64_t most)
{
	while (!s->closed && now <= since + 4 * most)
		one_step();
	if (!s->closed || now < since + least || now > since + most)
		fail_msg("%s of %u ms: the %s closed %d after %u ms, not %u to "
			 "%u: %s", activity->name, opts.dead_after_ms,
			 s == &client ? "client" : "server", s->closed,
			 (unsigned int)(now - since), (unsigned int)least,
			 (unsigned int)most, s->closed ? s->why.text : "");
	assert_int_equal(s->why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(s->why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(s->why.error, -ETIMEDOUT);
}

/* ---- cuts ------------------------------------------------------------- */

static inline void cut_for_good(struct side *which)
{
	uint64_t dead = opts.dead_after_ms, at;

	nulldev_cut(true);
	at = now;
	check_closes(which, at, dead, dead + dead / 4 + SLACK_MS + 2 * step);
}

/* phase: when the cut comes, in 16ths of a tick of dead / 8 */
static inline void meet_a_cut(const struct activity *what, uint32_t dead,
		       uint32_t phase)
{
	for (int which = 0; which < 2; which++) {
		start(what, dead);
		steps(2 * dead + dead * phase / 128);
		check_open("before the cut");
		cut_for_good(which ? &client : &server);
		stop_all();
	}
}

/* The connection is idle when the cut begins, and the new request waits. */
static inline void cut_then_send(void)
{
	start(&activities[0], 1000);
	steps(3000);
	nulldev_cut(true);
	steps(50);
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	check_closes(&client, now - 50, 1000, 1252 + SLACK_MS);
	stop_all();
}

static inline void meet_a_short_cut(const struct activity *what, uint32_t dead,
			     uint32_t length, uint32_t phase)
{
	unsigned int had;

	start(what, dead);
	steps(2 * dead + dead * phase / 128);
	nulldev_cut(true);
	steps(length);
	check_open("at the end of the cut");
	nulldev_cut(false);
	steps(dead);
	check_open("after the cut");
	had = server.messages;
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	steps(2 * step);
	assert_true(server.messages > had);
	stop_all();
}

/* ---- closing without the CM ------------------------------------------- */

static inline void connect_oob(uint32_t dead, uint32_t close_timeout_ms)
{
	set_options(&activities[0], dead);
	opts.device = NULLDEV_NAME;
	opts.close_timeout_ms = close_timeout_ms;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	exchange_records(&opts);
	steps(100);
	assert_int_equal(rdmamsg_ep_state(client.ep), RDMAMSG_CONNECTED);
	opts.device = NULL;
	opts.close_timeout_ms = 0;
}

/* The client has received CLOSE, but its own CLOSE is never acknowledged. */
static inline void close_in_a_cut(uint32_t dead, uint32_t close_timeout_ms, bool send)
{
	connect_oob(dead, close_timeout_ms);
	rdmamsg_ep_close(server.ep);
	run(&server);
	nulldev_cut(true);
	if (send)
		assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	steps(min(dead, close_timeout_ms) * 3 / 2);
	assert_true(client.closed);
	stop_all();
}

/* ---- the tests -------------------------------------------------------- */

static inline int set_up(void **state)
{
	memset(&opts, 0, sizeof(opts));
	now = 1000;
	nulldev_vendor = 1;
	nulldev_port = IBV_PORT_ACTIVE;
	nulldev_device.transport_type = IBV_TRANSPORT_IB;
	nulldev_takes = 0;
	rdmamsg__verbs = &nulldev_verbs;
	large = calloc(1, LARGE);
	return !large;
}

static inline int tear_down(void **state)
{
	/* a failed test leaves both contexts open */
	close_both();
	free(large);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/*
 * Both sides are stopped, and the client goes on first: the peer, whose silence
 * has lasted for 300 ms, has the rest of the time. Of each stop, at most the
 * time between two ticks counts, an eighth of dead_after_ms.
 */
static inline void both_stopped(void)
{
	for (size_t i = 0; i < ACTIVITIES; i++)
		for (uint32_t phase = 0; phase < 32; phase += 9) {
			start(&activities[i], 1000);
			steps(2000 + 1000 * phase / 128);
			nulldev_cut(true);
			steps(300);
			now += 10000;
			client_steps(500);
			check_open("when one of two goes on");
			nulldev_cut(false);
			steps(3000);
			check_open("after both were stopped");
			stop_all();
		}
}

#endif
