/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a callback sends more than the send queue holds. The device has
 * done with the messages at once, so the send queue is never the limit, only
 * the credits of the peers are. No call runs a callback, and each callback that
 * has become due comes once and in order.
 */
#include "device/verbs_api.h"
#include "session/ep.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "../two_ends.h"

#include "../../fake/nulldev.h"

#define DEPTH	16		/* send_depth */
#define CREDITS	512		/* recv_depth */
#define PEERS	8
#define LARGE	2000		/* not inline */

/* An end of a connection. */
struct end {
	struct rdmamsg_ep *ep;
	uint32_t sent;		/* accepted; also the tag of the next */
	uint32_t received, completed, refused;
	bool closed;
};

static struct end clients[PEERS], servers[PEERS];
static uint32_t accepted;	/* connections */
static bool in_call, bad;	/* a callback in a call, or a wrong one */
static void (*burst)(struct end *from);	/* sends, in a callback */
static void (*done_sends)(struct rdmamsg_ep *ep);
static uint8_t data[LARGE];

static void on_open(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (rdmamsg_ep_ctx(ep) == server.ctx)
		rdmamsg_ep_set_user(ep, e = &servers[accepted++]);
	e->ep = ep;
}

/* The first message of a client lets the server send. */
static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct end *e = rdmamsg_ep_user(ep);

	bad |= in_call || rdmamsg_msg_tag(msg) != e->received++;
	rdmamsg_msg_free(msg);
	if (burst && rdmamsg_ep_ctx(ep) == server.ctx && e->received == 1)
		burst(e);
}

/* Cookies are numbers of messages, from 1. */
static void on_done(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = rdmamsg_ep_user(ep);

	bad |= in_call || status || (uintptr_t)cookie <= e->completed;
	e->completed = (uint32_t)(uintptr_t)cookie;
	if (done_sends)
		done_sends(ep);
}

static void on_end(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct end *e = rdmamsg_ep_user(ep);

	bad |= in_call;
	e->closed = true;
}

static unsigned int writables;

static void on_room(struct rdmamsg_ep *ep)
{
	writables++;
}

static int send_one(struct end *e, size_t len, bool cookie)
{
	int ret;

	in_call = true;
	ret = rdmamsg_send(e->ep, data, len, e->sent, cookie ?
			   (void *)(uintptr_t)(e->sent + 1) : NULL);
	in_call = false;
	e->sent += !ret;
	e->refused += ret == -EAGAIN;
	bad |= ret && ret != -EAGAIN;
	return ret;
}

static void until_refused(struct end *e, size_t len, bool cookie)
{
	while (!send_one(e, len, cookie))
		;
}

/* ---- connections ------------------------------------------------------- */

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_tuning tuning;

static int begin(enum ibv_transport_type type)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_open,
		.on_complete = on_done, .on_message = on_message,
		.on_closed = on_end, .on_writable = on_room,
	};

	tuning = (struct rdmamsg_ep_tuning){
		.size = sizeof(tuning), .send_depth = DEPTH,
		.recv_depth = CREDITS,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers, .tuning = &tuning,
	};
	memset(clients, 0, sizeof(clients));
	memset(servers, 0, sizeof(servers));
	accepted = 0;
	in_call = bad = false;
	burst = NULL;
	done_sends = NULL;
	clear_ends();
	nulldev_device.transport_type = type;
	rdmamsg__verbs = &nulldev_verbs;
	return 0;
}

static int set_up(void **state)
{
	return begin(IBV_TRANSPORT_IB);
}

static int set_up_iwarp(void **state)
{
	return begin(IBV_TRANSPORT_IWARP);
}

static int tear_down(void **state)
{
	nulldev_cut(false);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	nulldev_device.transport_type = IBV_TRANSPORT_IB;
	return nulldev_counts.qps || nulldev_counts.cqs || nulldev_counts.mrs ||
	       nulldev_counts.ids ? -1 : 0;
}

static void connect_all(uint32_t n)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	for (uint32_t i = 0; i < n; i++) {
		opts.user = &clients[i];
		assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1",
						 service, &opts, NULL), 0);
		WAIT_FOR(clients[i].ep && accepted == i + 1);
	}
}

/* The first client sends, and the server answers in the callback. */
static void run(void (*fn)(struct end *from))
{
	burst = fn;
	assert_int_equal(send_one(&clients[0], 1, false), 0);
	WAIT_FOR(servers[0].received == clients[0].sent);
	burst = NULL;
}

static void expect_all(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		WAIT_FOR(clients[i].received == servers[i].sent);
	assert_false(bad);
}

/* Each refusal was for want of credit. */
static void expect_no_credit(const struct end *e)
{
	struct rdmamsg_stats c = { .size = sizeof(c) };

	assert_int_equal(rdmamsg_ep_get_stats(e->ep, &c), 0);
	assert_int_equal(c.sends_refused, e->refused);
	assert_int_equal(c.credit_stalls, e->refused);
}

/* ---- one peer ---------------------------------------------------------- */

static void many_small(struct end *e)
{
	until_refused(e, 8, false);
}

static void send__small_in_a_callback_ONLY_CREDITS(void **state)
{
	connect_all(1);
	run(many_small);
	assert_int_equal(servers[0].sent, CREDITS);
	assert_int_equal(servers[0].refused, 1);
	expect_all(1);
	expect_no_credit(&servers[0]);
}

static void many_large(struct end *e)
{
	until_refused(e, LARGE, false);
}

static void send__copied_in_a_callback_ONLY_CREDITS(void **state)
{
	connect_all(1);
	run(many_large);
	assert_int_equal(servers[0].sent, CREDITS);
	expect_all(1);
	expect_no_credit(&servers[0]);
}

static void many_cookies(struct end *e)
{
	until_refused(e, 8, true);
	bad |= e->completed != 0;
}

static void send__with_cookies_TOLD_LATER_IN_ORDER(void **state)
{
	connect_all(1);
	run(many_cookies);
	assert_int_equal(servers[0].sent, CREDITS);
	WAIT_FOR(servers[0].completed == CREDITS);
	expect_all(1);
	expect_no_credit(&servers[0]);
}

/* A few of the operations have a cookie, and some are copied. */
static void many_mixed(struct end *e)
{
	while (!send_one(e, e->sent % 5 ? 8 : LARGE, e->sent % 7 == 0))
		;
}

static void send__of_all_kinds_TOLD_LATER_IN_ORDER(void **state)
{
	connect_all(1);
	run(many_mixed);
	assert_int_equal(servers[0].sent, CREDITS);
	expect_all(1);
	WAIT_FOR(servers[0].completed == CREDITS - (CREDITS - 1) % 7);
	expect_no_credit(&servers[0]);
}

/* ---- a device that is behind ------------------------------------------- */

static void while_cut(struct end *e)
{
	nulldev_cut(true);
	until_refused(e, 8, e->sent % 2);
	bad |= e->sent != DEPTH + opts.send_queue;
	until_refused(e, 8, false);
	nulldev_cut(false);
	until_refused(e, 8, false);
}

static void send__while_the_device_is_behind_EAGAIN(void **state)
{
	connect_all(1);
	run(while_cut);
	assert_int_equal(servers[0].refused, 3);
	assert_int_equal(servers[0].sent, CREDITS);
	expect_all(1);
}

static void send__behind_the_queue_KEEPS_THE_ORDER(void **state)
{
	opts.send_queue = 40;
	connect_all(1);
	run(while_cut);
	/* the last ones wait for credit */
	assert_int_equal(servers[0].sent, CREDITS + opts.send_queue);
	expect_all(1);
}

static unsigned int posts_seen;

static void few(struct end *e)
{
	unsigned long before = nulldev_counts.doorbells;

	for (int i = 0; i < DEPTH; i++)
		(void)send_one(e, 8, false);
	posts_seen = (unsigned int)(nulldev_counts.doorbells - before);
}

static void send__with_room_ONE_BATCH(void **state)
{
	connect_all(1);
	run(few);
	assert_int_equal(posts_seen, 0);
	expect_all(1);
}

/* ---- what the queue has besides ---------------------------------------- */

/* The client has sent more, which the server's calls find and keep. */
static void run_with_receives(void)
{
	uint32_t n = 100;

	while (n--)
		assert_int_equal(send_one(&clients[0], 8, false), 0);
}

static void send__among_receives_DELIVERED_IN_ORDER(void **state)
{
	tuning.send_depth = 128;
	connect_all(1);
	run_with_receives();
	run(many_mixed);
	expect_all(1);
	assert_int_equal(servers[0].received, 101);
	assert_int_equal(servers[0].sent, CREDITS);
}

static void send__with_the_inline_poll_DELIVERED_IN_ORDER(void **state)
{
	uint32_t left = 1000;

	tuning.send_depth = 128;
	connect_all(1);
	run_with_receives();
	burst = many_mixed;
	while (left-- && (servers[0].received < 100 ||
			  clients[0].received < servers[0].sent)) {
		assert_true(rdmamsg_fast_poll(server.ctx) >= 0);
		assert_true(rdmamsg_fast_poll(client.ctx) >= 0);
	}
	assert_int_equal(servers[0].received, 100);
	assert_int_equal(servers[0].sent, CREDITS);
	expect_all(1);
}

/*
 * The completions come with the message in one poll, and the send queue is full
 * before.
 */
static void with_the_message(bool cookies)
{
	connect_all(1);
	assert_int_equal(send_one(&clients[0], 1, false), 0);
	until_refused(&servers[0], 8, cookies);
	assert_int_equal(servers[0].sent, DEPTH);
	burst = cookies ? many_cookies : many_small;
	assert_int_equal(rdmamsg_process(server.ctx) > 0, 1);
	assert_int_equal(servers[0].received, 1);
	assert_int_equal(servers[0].sent, CREDITS);
	expect_all(1);
}

static void send__polled_with_the_message_ONLY_CREDITS(void **state)
{
	with_the_message(false);
}

static void send__polled_with_cookies_TOLD_LATER_IN_ORDER(void **state)
{
	with_the_message(true);
	WAIT_FOR(servers[0].completed == CREDITS);
	assert_false(bad);
}

/* An on_complete sends, and so do those of the messages that it sends. */
static void send_from_done(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	for (int i = 0; i < 3 && !send_one(e, 8, true); i++)
		;
}

static void send__in_on_complete_TOLD_IN_ORDER(void **state)
{
	connect_all(1);
	done_sends = send_from_done;
	assert_int_equal(send_one(&servers[0], 8, true), 0);
	WAIT_FOR(servers[0].refused);
	done_sends = NULL;
	WAIT_FOR(servers[0].completed == servers[0].sent);
	assert_true(servers[0].sent >= CREDITS);
	expect_all(1);
}

/* The queue pair is polled no more, except by the call that sends. */
static void send__and_sleep_WOKEN(void **state)
{
	tuning.send_depth = 128;
	connect_all(1);
	run_with_receives();
	burst = many_cookies;
	UNTIL(server.ctx, servers[0].received == 100);
	UNTIL(server.ctx, servers[0].completed == CREDITS);
	expect_all(1);
}

static void send__between_cork_and_uncork_ONLY_CREDITS(void **state)
{
	connect_all(1);
	assert_int_equal(rdmamsg_cork(server.ctx), 0);
	until_refused(&servers[0], 8, true);
	assert_int_equal(servers[0].sent, CREDITS);
	assert_int_equal(servers[0].completed, 0);
	assert_int_equal(rdmamsg_uncork(server.ctx), 0);
	WAIT_FOR(servers[0].completed == CREDITS);
	expect_all(1);
}

static struct rdmamsg_region *here, *there;
static struct rdmamsg_sge source = { data, 64, NULL };
static struct rdmamsg_key key;
static uint32_t writes;
static uint8_t target[64];

static int write_one(struct end *e, void *cookie)
{
	int ret;

	in_call = true;
	ret = rdmamsg_write(e->ep, &source, 1, &key, 0, 0, cookie);
	in_call = false;
	bad |= ret && ret != -EAGAIN;
	writes += !ret;
	return ret;
}

/* A write before each message, as far as there is credit for messages. */
static void writes_and_sends(struct end *e)
{
	while (e->sent < CREDITS &&
	       !write_one(e, (void *)(uintptr_t)(e->sent + 1)))
		bad |= send_one(e, 8, false) != 0;
	until_refused(e, 8, false);
}

/* The server can write to the client. */
static void connect_to_write(void)
{
	connect_all(1);
	writes = 0;
	assert_int_equal(rdmamsg_region_create(client.ctx, target, 64,
					       RDMAMSG_ACCESS_WRITE, &there),
			 0);
	assert_int_equal(rdmamsg_region_get_key(there, clients[0].ep, &key), 0);
	assert_int_equal(rdmamsg_region_create(server.ctx, data, 64,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &here), 0);
	assert_int_equal(rdmamsg_region_register(here, servers[0].ep), 0);
	source.region = here;
}

/* The end of a write proves those before it. */
static void no_more_writes(void)
{
	const uintptr_t last = servers[0].completed + 1u;

	assert_int_equal(write_one(&servers[0], (void *)last), 0);
	WAIT_FOR(servers[0].completed == last);
	assert_false(bad);
	assert_int_equal(rdmamsg_region_destroy(here), 0);
	assert_int_equal(rdmamsg_region_destroy(there), 0);
}

static void send__among_writes_TOLD_LATER_IN_ORDER(void **state)
{
	tuning.send_depth = 64;
	connect_to_write();
	run(writes_and_sends);
	assert_int_equal(writes, CREDITS);
	assert_int_equal(servers[0].sent, CREDITS);
	expect_all(1);
	WAIT_FOR(servers[0].completed == writes);
	no_more_writes();
}

static void many_writes(struct end *e)
{
	while (writes < 500 && !write_one(e, NULL))
		;
}

static void write__in_a_callback_ALL_ACCEPTED(void **state)
{
	connect_to_write();
	run(many_writes);
	assert_int_equal(writes, 500);
	no_more_writes();
}

static void many_writes_with_cookies(struct end *e)
{
	while (writes < 500 && !write_one(e, (void *)(uintptr_t)(writes + 1)))
		;
	bad |= e->completed != 0;
}

static void write__with_cookies_in_a_callback_TOLD_LATER_IN_ORDER(void **state)
{
	connect_to_write();
	run(many_writes_with_cookies);
	assert_int_equal(writes, 500);
	WAIT_FOR(servers[0].completed == writes);
	no_more_writes();
}

static void writes_while_cut(struct end *e)
{
	nulldev_cut(true);
	while (!write_one(e, NULL))
		;
	bad |= writes != DEPTH;
	nulldev_cut(false);
	bad |= write_one(e, NULL) != 0;
}

static void write__while_the_device_is_behind_EAGAIN(void **state)
{
	connect_to_write();
	run(writes_while_cut);
	no_more_writes();
}

static void writes_until_refused(struct end *e)
{
	while (!write_one(e, NULL))
		;
}

/* A program that writes until it is refused does not stay in its callback. */
static void write__without_end_in_a_callback_EAGAIN_ONCE_A_ROUND(void **state)
{
	connect_to_write();
	writables = 0;
	run(writes_until_refused);
	WAIT_FOR(writables);
	no_more_writes();
}

static void cookies_then_cancel(struct end *e)
{
	until_refused(e, 8, true);
	bad |= rdmamsg_ep_cancel(e->ep, (void *)1) != -EBUSY;
	bad |= rdmamsg_ep_cancel(e->ep, (void *)(uintptr_t)(CREDITS + 1)) !=
	       -ENOENT;
}

static void cancel__a_message_that_is_sent_EBUSY(void **state)
{
	connect_all(1);
	run(cookies_then_cancel);
	expect_all(1);
}

static void cookies_then_abort(struct end *e)
{
	until_refused(e, 8, true);
	rdmamsg_ep_abort(e->ep);
}

/* The device had done with all of them: each is told with status 0. */
static void abort__behind_the_messages_TOLD_BEFORE(void **state)
{
	connect_all(1);
	run(cookies_then_abort);
	WAIT_FOR(servers[0].closed);
	assert_int_equal(servers[0].completed, CREDITS);
	assert_false(bad);
}

/* ---- many peers -------------------------------------------------------- */

static void to_all(struct end *from)
{
	for (uint32_t round = 0; round < CREDITS / DEPTH; round++)
		for (uint32_t i = 0; i < PEERS; i++)
			for (uint32_t n = 0; n < DEPTH; n++)
				(void)send_one(&servers[i], 8, n == 3);
}

static void send__to_many_peers_NONE_REFUSED(void **state)
{
	connect_all(PEERS);
	run(to_all);
	for (uint32_t i = 0; i < PEERS; i++) {
		assert_int_equal(servers[i].sent, CREDITS);
		assert_int_equal(servers[i].refused, 0);
	}
	expect_all(PEERS);
	for (uint32_t i = 0; i < PEERS; i++)
		WAIT_FOR(servers[i].completed == CREDITS - DEPTH + 4);
}

/* One of the peers is gone, and the server does not know it yet. */
static void send__beside_a_peer_that_is_gone_NONE_REFUSED(void **state)
{
	connect_all(PEERS);
	rdmamsg_ep_abort(clients[PEERS - 1].ep);
	run(to_all);
	for (uint32_t i = 0; i + 1 < PEERS; i++) {
		assert_int_equal(servers[i].sent, CREDITS);
		assert_int_equal(servers[i].refused, 0);
	}
	WAIT_FOR(servers[PEERS - 1].closed);
	for (uint32_t i = 0; i + 1 < PEERS; i++)
		WAIT_FOR(clients[i].received == servers[i].sent);
	assert_false(in_call);
}

#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, set_up, tear_down), \
	cmocka_unit_test_setup_teardown(fn, set_up_iwarp, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(send__small_in_a_callback_ONLY_CREDITS),
		TEST(send__copied_in_a_callback_ONLY_CREDITS),
		TEST(send__with_cookies_TOLD_LATER_IN_ORDER),
		TEST(send__of_all_kinds_TOLD_LATER_IN_ORDER),
		TEST(send__while_the_device_is_behind_EAGAIN),
		TEST(send__behind_the_queue_KEEPS_THE_ORDER),
		TEST(send__with_room_ONE_BATCH),
		TEST(send__among_receives_DELIVERED_IN_ORDER),
		TEST(send__with_the_inline_poll_DELIVERED_IN_ORDER),
		TEST(send__polled_with_the_message_ONLY_CREDITS),
		TEST(send__polled_with_cookies_TOLD_LATER_IN_ORDER),
		TEST(send__in_on_complete_TOLD_IN_ORDER),
		TEST(send__and_sleep_WOKEN),
		TEST(send__between_cork_and_uncork_ONLY_CREDITS),
		TEST(send__among_writes_TOLD_LATER_IN_ORDER),
		TEST(write__in_a_callback_ALL_ACCEPTED),
		TEST(write__with_cookies_in_a_callback_TOLD_LATER_IN_ORDER),
		TEST(write__while_the_device_is_behind_EAGAIN),
		TEST(write__without_end_in_a_callback_EAGAIN_ONCE_A_ROUND),
		TEST(cancel__a_message_that_is_sent_EBUSY),
		TEST(abort__behind_the_messages_TOLD_BEFORE),
		TEST(send__to_many_peers_NONE_REFUSED),
		TEST(send__beside_a_peer_that_is_gone_NONE_REFUSED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
