/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: dead_after_ms on a device that can be cut, against the test's
 * own clock. A cut of dead_after_ms ends the connection, and a shorter cut does
 * not, whatever the connection is doing.
 */
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
#define LARGE ((size_t)3 << 20) /* three reads of a rendezvous */
#define SOFT_ROCE	0xffffffu		/* vendor ids of the devices */
#define SOFT		0x50f7cau
#define SLACK_MS	5

/* ---- the clock -------------------------------------------------------- */

static uint64_t now;

/* The linker (-Wl,--wrap) puts the test's clock in the library's place. */
uint64_t __wrap_rdmamsg__now_ms(void);
uint64_t __wrap_rdmamsg__now_ms(void)
{
	return now;
}

/* The timers' descriptor uses the real clock, so run due timers directly. */
static void run(struct side *s)
{
	struct timers *ts = &s->ctx->loop.timers;

	if (ts->count && ts->heap[0]->when <= now) {
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
static struct rdmamsg_key key;		/* of the server's memory */
static uint8_t *large;
static uint64_t step, next_act;
static void (*in_message)(void);	/* called by the next on_message */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
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

static struct rdmamsg_sge memory(void)
{
	return (struct rdmamsg_sge){
		.data = client.mem, .len = ROOM, .region = client.region,
	};
}

static bool is_free(void)
{
	return !client.closed && client.sent == client.writable;
}

/* Counts in 'writable' the requests accepted with a cookie. */
static void given(int ret)
{
	assert_true(!ret || ret == -EAGAIN || ret == -ESHUTDOWN);
	client.writable += !ret;
}

static void send_unsignaled(void)
{
	if (!client.closed)
		(void)rdmamsg_send(client.ep, "x", 1, 0, NULL);
}

/* Sends so rarely that an unsignalled request is always outstanding. */
static void send_rarely(void)
{
	if (now < next_act)
		return;
	next_act = now + opts.dead_after_ms / 5;
	send_unsignaled();
}

static void send_signaled(void)
{
	if (is_free())
		given(rdmamsg_send(client.ep, "x", 1, 0, large));
}

static void send_large(void)
{
	const struct iovec iov = { large, LARGE };

	if (is_free())
		given(rdmamsg_sendv(client.ep, &iov, 1, 0, large));
}

static void read_some(void)
{
	const struct rdmamsg_sge s = memory();

	if (is_free())
		given(rdmamsg_read(client.ep, &s, 1, &key, 0, 0, large));
}

static void write_some(void)
{
	const struct rdmamsg_sge s = memory();

	if (!client.closed)
		(void)rdmamsg_write(client.ep, &s, 1, &key, 0, 0, NULL);
}

static void write_signaled(void)
{
	const struct rdmamsg_sge s = memory();

	if (is_free())
		given(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, large));
}

static void hear_only(void)
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

static void side_memory(struct side *s, uint32_t access)
{
	s->mem = calloc(1, ROOM);
	assert_int_equal(rdmamsg_region_create(s->ctx, s->mem, ROOM, access,
					       &s->region), 0);
	assert_int_equal(rdmamsg_region_register(s->region, s->ep), 0);
}

static void set_options(const struct activity *what, uint32_t dead_after_ms)
{
	static const struct rdmamsg_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_message = on_message,
		.on_closed = on_closed,
	};

	activity = what;
	in_message = NULL;
	opts.size = sizeof(opts);
	opts.handlers = &handlers;
	opts.dead_after_ms = dead_after_ms;
	step = dead_after_ms == RDMAMSG_NONE ? 20 :
	       max(dead_after_ms / 1000, 1u);
	next_act = 0;
}

static void start(const struct activity *what, uint32_t dead_after_ms)
{
	set_options(what, dead_after_ms);
	connect_ends(&opts);
	side_memory(&client, RDMAMSG_ACCESS_LOCAL_WRITE);
	side_memory(&server, RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE);
	assert_int_equal(rdmamsg_region_get_key(server.region, server.ep, &key),
			 0);
}

static struct rdmamsg_reason last_why;	/* why the client closed last */

static void close_both(void)
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

static void stop_all(void)
{
	close_both();
	assert_int_equal(nulldev_counts.qps, 0);
}

static void one_step(void)
{
	now += step;
	if (activity->act)
		activity->act();
	run(&client);
	run(&server);
}

static void steps(uint64_t ms)
{
	for (uint64_t end = now + ms; now < end; )
		one_step();
}

static void check_open(const char *when)
{
	if (client.closed || server.closed)
		fail_msg("%s, %s: %s", activity->name, when,
			 client.closed ? client.why.text : server.why.text);
}

/* Steps until the side closes, and checks that the time is in the range. */
static void check_closes(struct side *s, uint64_t since, uint64_t least,
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

static void cut_for_good(struct side *which)
{
	uint64_t dead = opts.dead_after_ms, at;

	nulldev_cut(true);
	at = now;
	check_closes(which, at, dead, dead + dead / 4 + SLACK_MS + 2 * step);
}

/* phase: when the cut comes, in 16ths of a tick of dead / 8 */
static void meet_a_cut(const struct activity *what, uint32_t dead,
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

static void cut__for_good_CLOSES_IN_BOUNDS(void **state)
{
	for (size_t i = 0; i < ACTIVITIES; i++) {
		for (uint32_t phase = 0; phase < 32; phase += 5)
			meet_a_cut(&activities[i], 1000, phase);
		meet_a_cut(&activities[i], 10, 3);
		meet_a_cut(&activities[i], 3000, 7);
		meet_a_cut(&activities[i], 20000, 11);
	}
}

/* The connection is idle when the cut begins, and the new request waits. */
static void cut__then_one_send_CLOSES_IN_BOUNDS(void **state)
{
	start(&activities[0], 1000);
	steps(3000);
	nulldev_cut(true);
	steps(50);
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	check_closes(&client, now - 50, 1000, 1252 + SLACK_MS);
	stop_all();
}

static void meet_a_short_cut(const struct activity *what, uint32_t dead,
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

static void cut__shorter_LIVES_ON(void **state)
{
	for (size_t i = 0; i < ACTIVITIES; i++)
		for (uint32_t phase = 0; phase < 32; phase += 9) {
			meet_a_short_cut(&activities[i], 1000, 500, phase);
			meet_a_short_cut(&activities[i], 1000, 990, phase);
			meet_a_short_cut(&activities[i], 20000, 19800, phase);
		}
}

/* Each of the requests takes almost dead_after_ms. */
static void slow__but_progress_LIVES_ON(void **state)
{
	start(&activities[0], 1000);
	nulldev_cut(true);
	activity = &activities[8];
	for (int i = 0; i < 20; i++)
		write_signaled();
	for (int i = 0; i < 20; i++) {
		steps(800);
		nulldev_pass(1);
		check_open("while it goes on");
	}
	activity = &activities[0];
	check_closes(&client, now, 0, 1252 + SLACK_MS);
	stop_all();
}

static void none__NEVER_CLOSES(void **state)
{
	start(&activities[1], RDMAMSG_NONE);
	steps(1000);
	nulldev_cut(true);
	steps(1000000);
	check_open("without dead_after_ms");
	assert_int_equal(client.ep->st.keepalives, 0);
	stop_all();
}

/* ---- closing without the CM ------------------------------------------- */

static void connect_oob(uint32_t dead, uint32_t close_timeout_ms)
{
	uint8_t record[RDMAMSG_OOB_MAX];
	int len;

	set_options(&activities[0], dead);
	opts.device = NULLDEV_NAME;
	opts.close_timeout_ms = close_timeout_ms;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	opts.user = &client;
	assert_int_equal(rdmamsg_oob_offer(client.ctx, &opts, &client.ep), 0);
	len = rdmamsg_oob_record(client.ep, record, sizeof(record));
	assert_true(len > 0);
	opts.user = &server;
	assert_int_equal(rdmamsg_oob_answer(server.ctx, record, (size_t)len,
					    &opts, &server.ep), 0);
	len = rdmamsg_oob_record(server.ep, record, sizeof(record));
	assert_int_equal(rdmamsg_oob_finish(client.ep, record, (size_t)len), 0);
	steps(100);
	assert_int_equal(rdmamsg_ep_state(client.ep), RDMAMSG_CONNECTED);
	opts.device = NULL;
	opts.close_timeout_ms = 0;
}

/* The client has received CLOSE, but its own CLOSE is never acknowledged. */
static void close_in_a_cut(uint32_t dead, uint32_t close_timeout_ms, bool send)
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

static void close__only_its_end_is_lost_CLOSED(void **state)
{
	close_in_a_cut(1000, 100000, false);
	assert_int_equal(last_why.cause, RDMAMSG_CAUSE_CLOSED);
	close_in_a_cut(20000, 1000, false);
	assert_int_equal(last_why.cause, RDMAMSG_CAUSE_CLOSED);
}

static void close__a_message_is_lost_FAILS(void **state)
{
	close_in_a_cut(1000, 100000, true);
	assert_int_equal(last_why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(last_why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(last_why.error, -ETIMEDOUT);
	close_in_a_cut(20000, 1000, true);
	assert_int_equal(last_why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(last_why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(last_why.error, -ETIMEDOUT);
}

/* ---- a stopped program ------------------------------------------------ */

static void stopped__acknowledged_meanwhile_LIVES_ON(void **state)
{
	for (size_t i = 0; i < ACTIVITIES; i++) {
		start(&activities[i], 1000);
		steps(2100);
		nulldev_cut(true);
		steps(300);
		nulldev_cut(false);
		now += 10000;
		steps(3000);
		check_open("after it was stopped");
		stop_all();
	}
}

/* The device runs in this process and stops with it. */
static void stopped__with_its_device_LIVES_ON(void **state)
{
	for (size_t i = 0; i < ACTIVITIES; i++) {
		start(&activities[i], 1000);
		steps(2100);
		nulldev_cut(true);
		steps(300);
		now += 10000;
		steps(1);
		check_open("right after it was stopped");
		nulldev_cut(false);
		steps(3000);
		check_open("after it was stopped");
		stop_all();
	}
}

static void stopped__while_the_peer_died_CLOSES(void **state)
{
	for (size_t i = 0; i < ACTIVITIES; i++) {
		start(&activities[i], 1000);
		steps(2100);
		nulldev_cut(true);
		steps(300);
		now += 10000;
		check_closes(&client, now, 0, 1252 + SLACK_MS);
		stop_all();
	}
}

static void wake_up_late(void)
{
	now += 5000;
	nulldev_cut(false);
}

/* The client has a request held by the cut, and an unread message. */
static void start_with_both(void)
{
	start(&activities[0], 1000);
	steps(1000);
	nulldev_cut(true);
	given(rdmamsg_send(client.ep, "x", 1, 0, large));
	steps(600);
	check_open("before the callback");
	null_is_cut = false;
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	null_is_cut = true;
	in_message = wake_up_late;
}

/* The acknowledgement arrives while the callback runs. */
static void callback__takes_long_LIVES_ON(void **state)
{
	start_with_both();
	assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_null(in_message);
	steps(2000);
	check_open("after the callback");
	stop_all();

	/* the tick runs the callback */
	start_with_both();
	client.ep->live.timer.fn(&client.ep->live.timer);
	assert_null(in_message);
	steps(2000);
	check_open("after the callback");
	stop_all();
}

/* ---- devices whose completions tell nothing of the peer ---------------- */

/* The device takes so many requests of each queue pair without the peer. */
static void completions_alone(uint32_t takes)
{
	nulldev_device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
	nulldev_takes = takes;
}

static const uint32_t takes[] = { 0, 3, 100000 };
#define TAKES	(sizeof(takes) / sizeof(takes[0]))

static void alone__cut_for_good_CLOSES_IN_BOUNDS(void **state)
{
	for (size_t t = 0; t < TAKES; t++) {
		completions_alone(takes[t]);
		for (size_t i = 0; i < ACTIVITIES; i++) {
			meet_a_cut(&activities[i], 100, 0);
			meet_a_cut(&activities[i], 100, 11);
			meet_a_cut(&activities[i], 10, 3);
		}
		cut__then_one_send_CLOSES_IN_BOUNDS(state);
	}
}

static void alone__cut_shorter_LIVES_ON(void **state)
{
	for (size_t t = 0; t < TAKES; t++) {
		completions_alone(takes[t]);
		for (size_t i = 0; i < ACTIVITIES; i++)
			meet_a_short_cut(&activities[i], 200, 190, 11);
	}
}

/*
 * The queue goes out slowly, with the PING behind it, and nothing comes back.
 * The other side hears nothing either, so that only one side has a clock.
 */
static void alone__slow_but_progress_LIVES_ON(void **state)
{
	completions_alone(1);
	start(&activities[0], 1000);
	server.ep->opts.dead_after_ms = RDMAMSG_NONE;
	nulldev_cut(true);
	for (int i = 0; i < 30; i++)
		write_some();
	for (int i = 0; i < 20; i++) {
		steps(800);
		nulldev_pass(1);
		check_open("while it goes on");
	}
	check_closes(&client, now, 0, 1252 + SLACK_MS);
	stop_all();
}

static void alone__none_NEVER_CLOSES(void **state)
{
	completions_alone(100000);
	start(&activities[1], RDMAMSG_NONE);
	steps(1000);
	nulldev_cut(true);
	steps(1000000);
	check_open("without dead_after_ms");
	assert_int_equal(client.ep->st.pings, 0);
	stop_all();
}

static void alone__close_in_a_cut_ENDS(void **state)
{
	completions_alone(100000);
	close_in_a_cut(1000, 100000, false);
	assert_int_equal(last_why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(last_why.error, -ETIMEDOUT);
}

/* Only this side's program turns; the peer's device takes and answers all. */
static void client_steps(uint64_t ms)
{
	for (uint64_t end = now + ms; now < end; ) {
		now += step;
		if (activity->act)
			activity->act();
		run(&client);
	}
}

/* An activity whose requests the peer's device answers without its program. */
static bool has_answers(const struct activity *a)
{
	return a->act == read_some;
}

static void alone__busy_peer_shorter_LIVES_ON(void **state)
{
	completions_alone(100000);
	for (size_t i = 0; i < ACTIVITIES; i++) {
		if (activities[i].act == hear_only)
			continue;
		start(&activities[i], 1000);
		steps(2100);
		client_steps(990);
		check_open("while the peer was busy");
		steps(3000);
		check_open("after the peer was busy");
		stop_all();
	}
}

static void alone__busy_peer_longer_CLOSES(void **state)
{
	completions_alone(100000);
	for (size_t i = 0; i < ACTIVITIES; i++) {
		if (activities[i].act == hear_only)
			continue;
		start(&activities[i], 1000);
		steps(2100);
		client_steps(2000);
		assert_int_equal(client.closed, !has_answers(&activities[i]));
		if (client.closed) {
			assert_int_equal(client.why.error, -ETIMEDOUT);
			assert_non_null(strstr(client.why.text, "program"));
			/* the peer gets to know why */
			for (int n = 0; n < 10 && !server.closed; n++)
				assert_true(rdmamsg_process(server.ctx) >= 0);
			assert_true(server.closed);
			assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
			assert_non_null(strstr(server.why.text,
					       "not come back"));
		}
		stop_all();
	}
}

static void alone__idle_SENDS_PINGS(void **state)
{
	completions_alone(100000);
	start(&activities[0], 1200);
	steps(12000);
	check_open("idle");
	assert_int_equal(client.ep->st.keepalives, 0);
	assert_int_equal(server.ep->st.keepalives, 0);
	/* a side that hears the other's PING sends none */
	assert_in_range(client.ep->st.pings + server.ep->st.pings, 30, 120);
	stop_all();
}

static void alone__answered_SENDS_NO_PING(void **state)
{
	uint64_t had[2];

	completions_alone(100000);
	start(&activities[4], 1200);
	steps(1000);
	had[0] = client.ep->st.pings;
	had[1] = server.ep->st.pings;
	steps(12000);
	assert_int_equal(client.ep->st.pings, had[0]);
	assert_int_equal(server.ep->st.pings, had[1]);
	stop_all();
}

/*
 * All requests have completions, so that none more is needed to confirm them.
 * Linux's siw does not flush what a program posts to a failed queue pair.
 */
static void alone__at_the_end_POSTS_NOTHING(void **state)
{
	unsigned long had;

	completions_alone(0);
	start(&activities[0], 1000);
	steps(100);
	nulldev_cut(true);
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	had = nulldev_counts.sends;
	rdmamsg_ep_abort(client.ep);
	steps(10);
	assert_true(client.closed);
	assert_int_equal(nulldev_counts.sends, had);
	stop_all();
}

static void alone__by_default_WAITS_LONGER(void **state)
{
	start(&activities[0], 0);
	assert_int_equal(client.ep->connect.peer.dead_after_ms, 20000);
	stop_all();
	completions_alone(100000);
	set_options(&activities[0], 0);
	start(&activities[0], 0);
	assert_int_equal(client.ep->connect.peer.dead_after_ms, 60000);
	opts.dead_after_ms = 60000;
	step = 20;
	cut_for_good(&client);
	stop_all();
}

/* ---- Soft-RoCE with its port down ------------------------------------- */

static void port__down_on_soft_roce_SENDS_NO_KEEPALIVE(void **state)
{
	uint64_t had, at;

	nulldev_vendor = SOFT_ROCE;
	start(&activities[0], 1000);
	steps(2010);
	nulldev_port = IBV_PORT_DOWN;
	had = client.ep->st.keepalives;
	steps(990);
	assert_int_equal(client.ep->st.keepalives, had);
	nulldev_port = IBV_PORT_ACTIVE;
	steps(2000);
	check_open("after the port was down");
	assert_true(client.ep->st.keepalives > had);

	nulldev_port = IBV_PORT_DOWN;
	nulldev_cut(true);
	at = now;
	check_closes(&client, at, 1000, 1252 + SLACK_MS);
	assert_non_null(strstr(client.why.text, "port"));
	stop_all();
}

/* ---- the transport ---------------------------------------------------- */

static struct ibv_qp_attr transport(uint32_t vendor)
{
	nulldev_vendor = vendor;
	start(&activities[0], opts.dead_after_ms);
	stop_all();
	return nulldev_rts;
}

static uint64_t tries_ns(const struct ibv_qp_attr *a)
{
	return (a->retry_cnt + 1ull) * (4096ull << a->timeout);
}

static const uint32_t deads[] = { 10, 500, 1000, 6000, 20000, 3600000 };

static void transport__of_hardware_LASTS_AS_LONG(void **state)
{
	static const uint32_t vendors[] = { 1, SOFT };

	for (size_t i = 0; i < sizeof(deads) / sizeof(deads[0]); i++)
		for (int v = 0; v < 2; v++)
			for (uint32_t n = 1; n <= 7; n += 3) {
				struct ibv_qp_attr a;
				uint64_t ns = deads[i] * 1000000ull;

				opts.dead_after_ms = deads[i];
				opts.retry_count = n;
				a = transport(vendors[v]);
				assert_int_equal(a.retry_cnt, n);
				assert_true(tries_ns(&a) >= ns);
				/* the total stays below twice the minimum */
				assert_true(tries_ns(&a) < 2 * ns);
			}
	opts.retry_count = 0;
}

static void transport__of_soft_roce_TRIES_WITHOUT_END(void **state)
{
	struct ibv_qp_attr a;

	for (size_t i = 0; i < sizeof(deads) / sizeof(deads[0]); i++) {
		opts.dead_after_ms = deads[i];
		a = transport(SOFT_ROCE);
		assert_int_equal(a.retry_cnt, 7);
		/* the device tries several times, each time briefly */
		assert_true(8 * (4096ull << a.timeout) <=
			    deads[i] * 1000000ull);
		assert_true(a.timeout >= 1 && a.timeout <= 16);
		opts.retry_count = 3;
		a = transport(SOFT_ROCE);
		assert_int_equal(a.retry_cnt, 3);
		assert_true(tries_ns(&a) >= deads[i] * 1000000ull);
		opts.retry_count = 0;
	}
	/* without dead_after_ms, only finite retries end the connection */
	opts.dead_after_ms = RDMAMSG_NONE;
	a = transport(SOFT_ROCE);
	assert_int_equal(a.retry_cnt, 6);
	assert_int_equal(a.timeout, 18);
}

static void transport__as_given_IS_TAKEN(void **state)
{
	static const uint32_t vendors[] = { 1, SOFT, SOFT_ROCE };

	opts.dead_after_ms = 20000;
	opts.ack_timeout = 9;
	for (int v = 0; v < 3; v++) {
		struct ibv_qp_attr a;

		opts.retry_count = 2;
		a = transport(vendors[v]);
		assert_int_equal(a.timeout, 9);
		assert_int_equal(a.retry_cnt, 2);
		opts.retry_count = RDMAMSG_NONE;
		assert_int_equal(transport(vendors[v]).retry_cnt, 0);
		opts.retry_count = 0;
	}
	opts.ack_timeout = 0;
}

static void rnr__of_a_peer_with_receives_IS_FINITE(void **state)
{
	assert_int_equal(transport(1).rnr_retry, 6);
	opts.rnr_retry_count = 7;
	assert_int_equal(transport(1).rnr_retry, 7);
	opts.rnr_retry_count = 3;
	assert_int_equal(transport(1).rnr_retry, 3);
	opts.rnr_retry_count = RDMAMSG_NONE;
	assert_int_equal(transport(1).rnr_retry, 0);
	opts.rnr_retry_count = 0;
}

static int set_up(void **state)
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

static int tear_down(void **state)
{
	/* a failed test leaves both contexts open */
	close_both();
	free(large);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cut__for_good_CLOSES_IN_BOUNDS),
		TEST(cut__then_one_send_CLOSES_IN_BOUNDS),
		TEST(cut__shorter_LIVES_ON),
		TEST(slow__but_progress_LIVES_ON),
		TEST(none__NEVER_CLOSES),
		TEST(close__only_its_end_is_lost_CLOSED),
		TEST(close__a_message_is_lost_FAILS),
		TEST(stopped__acknowledged_meanwhile_LIVES_ON),
		TEST(stopped__with_its_device_LIVES_ON),
		TEST(stopped__while_the_peer_died_CLOSES),
		TEST(callback__takes_long_LIVES_ON),
		TEST(alone__cut_for_good_CLOSES_IN_BOUNDS),
		TEST(alone__cut_shorter_LIVES_ON),
		TEST(alone__slow_but_progress_LIVES_ON),
		TEST(alone__none_NEVER_CLOSES),
		TEST(alone__close_in_a_cut_ENDS),
		TEST(alone__busy_peer_shorter_LIVES_ON),
		TEST(alone__busy_peer_longer_CLOSES),
		TEST(alone__idle_SENDS_PINGS),
		TEST(alone__answered_SENDS_NO_PING),
		TEST(alone__at_the_end_POSTS_NOTHING),
		TEST(alone__by_default_WAITS_LONGER),
		TEST(port__down_on_soft_roce_SENDS_NO_KEEPALIVE),
		TEST(transport__of_hardware_LASTS_AS_LONG),
		TEST(transport__of_soft_roce_TRIES_WITHOUT_END),
		TEST(transport__as_given_IS_TAKEN),
		TEST(rnr__of_a_peer_with_receives_IS_FINITE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
