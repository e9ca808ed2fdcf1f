/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: which way messages go to a target. With RDMAMSG_DC_AUTO a sender
 * connects while it has an initiator for each address, and uses DC beyond that,
 * unless an option of either side needs connections.
 */
#include "config.h"

#include "../own_fabric.h"
#include "two.h"
#include "base/ctx.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/session.h"
#include "dc/visit.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "session/sessions.h"
#include "../../tuning.h"

#include <stdio.h>
#include <string.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define INITIATORS	2u
#define ADDRESSES	5u

static struct rdmamsg_dc_target *targets[ADDRESSES];
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *addresses[ADDRESSES];
static struct rdmamsg_ep_options near_ep, far_ep;	/* of the next start */
static uint32_t near_path, far_path;
static struct rdmamsg_options options;
static const char *host;			/* of the targets */
static unsigned int messages, completed, failed, gone;
static int status;

static void on_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		       uint64_t from)
{
	(void)t;
	(void)from;
	messages++;
	rdmamsg_msg_free(msg);
}

static void on_complete(struct rdmamsg_dc_sender *s,
			struct rdmamsg_dc_address *a, void *cookie, int ret)
{
	(void)s;
	(void)a;
	*(int *)cookie = ret;
	completed++;
}

static void on_failed(struct rdmamsg_dc_sender *s, struct rdmamsg_dc_address *a,
		      const struct rdmamsg_reason *why)
{
	(void)s;
	(void)a;
	print_message("%s\n", why->text);
	failed++;
}

static void on_target_destroyed(struct rdmamsg_dc_target *t)
{
	(void)t;
	gone++;
}

static void on_sender_destroyed(struct rdmamsg_dc_sender *s)
{
	(void)s;
	gone++;
}

static void add_address(unsigned int i, const char *at)
{
	char service[8];

	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_dc_target_port(targets[i]));
	assert_int_equal(rdmamsg_dc_address_create(sender, at, service, 0, NULL,
						   &addresses[i]), 0);
}

/* Opens all targets, and a sender without addresses. */
static void start(void)
{
	const struct rdmamsg_dc_target_options to = {
		.size = sizeof(to), .on_message = on_message, .path = far_path,
		.on_destroyed = on_target_destroyed, .ep = &far_ep,
	};
	const struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .on_complete = on_complete,
		.on_failed = on_failed, .path = near_path, .ep = &near_ep,
		.on_destroyed = on_sender_destroyed, .initiators = INITIATORS,
	};

	messages = completed = failed = gone = 0;
	assert_int_equal(rdmamsg_open(&near, &options), 0);
	assert_int_equal(rdmamsg_open(&far, &options), 0);
	for (unsigned int i = 0; i < ADDRESSES; i++)
		assert_int_equal(rdmamsg_dc_target_create(far, host, "0", &to,
							  &targets[i]), 0);
	assert_int_equal(rdmamsg_dc_sender_create(near, &so, &sender), 0);
}

static void close_all(void)
{
	assert_int_equal(failed, 0);
	rdmamsg_dc_sender_destroy(sender);
	for (unsigned int i = 0; i < ADDRESSES; i++)
		rdmamsg_dc_target_destroy(targets[i]);
	WAIT_FOR(gone == ADDRESSES + 1);
	rdmamsg_close(near);
	rdmamsg_close(far);
}

/* The next start() has defaults. */
static int reset(void **state)
{
	near_ep = far_ep = (struct rdmamsg_ep_options){
		.size = sizeof(near_ep),
	};
	options = (struct rdmamsg_options){ .size = sizeof(options) };
	near_path = far_path = RDMAMSG_DC_AUTO;
	host = "127.0.0.1";
	return 0;
}

static void deliver(struct rdmamsg_dc_address *a)
{
	const unsigned int before = completed, there = messages;

	assert_int_equal(rdmamsg_dc_send(a, "x", 1, 0, &status), 0);
	WAIT_FOR(completed == before + 1 && messages == there + 1);
	assert_int_equal(status, 0);
}

/* Returns the sessions after a message to each address. */
static uint32_t sessions_of(unsigned int count, const char *at)
{
	struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };

	for (unsigned int i = 0; i < count; i++)
		add_address(i, at);
	for (unsigned int i = 0; i < count; i++)
		deliver(addresses[i]);
	assert_int_equal(rdmamsg_dc_sender_query(sender, &a), 0);
	return a.sessions;
}

/* ---- the number of addresses ------------------------------------------- */

static void auto__an_initiator_for_each_CONNECTS(void **state)
{
	start();
	assert_int_equal(sessions_of(INITIATORS, "127.0.0.1"), 0);
	assert_int_equal(sender->open, INITIATORS);
	close_all();
}

static void auto__more_addresses_USES_DC(void **state)
{
	start();
	assert_int_equal(sessions_of(ADDRESSES, "127.0.0.1"), ADDRESSES);
	assert_int_equal(sender->connects, ADDRESSES);
	close_all();
}

/* One message to each address, all at once. */
static void deliver_all(void)
{
	const unsigned int before = completed;

	for (unsigned int i = 0; i < ADDRESSES; i++)
		assert_int_equal(rdmamsg_dc_send(addresses[i], "x", 1, 0,
						 &status), 0);
	WAIT_FOR(completed == before + ADDRESSES);
	assert_int_equal(status, 0);
}

/* Connections of before stay until sessions wait for their initiators. */
static void auto__addresses_come_later_CONNECTIONS_GO_AWAY(void **state)
{
	uint64_t connects;

	start();
	assert_int_equal(sessions_of(INITIATORS, "127.0.0.1"), 0);
	for (unsigned int i = INITIATORS; i < ADDRESSES; i++)
		add_address(i, "127.0.0.1");
	UNTIL_BY(deliver_all(), sender->session_count == ADDRESSES);
	assert_int_equal(sender->open, 0);
	connects = sender->connects;
	for (unsigned int n = 0; n < 20; n++)
		deliver_all();
	assert_int_equal(sender->connects, connects);
	close_all();
}

/* The answer comes when the sender would not ask any more. */
static void auto__addresses_go_while_it_asks_DELIVERED(void **state)
{
	start();
	for (unsigned int i = 0; i < INITIATORS + 1; i++)
		add_address(i, "127.0.0.1");
	assert_int_equal(rdmamsg_dc_send(addresses[0], "x", 1, 0, &status), 0);
	UNTIL(near, sender->open == 1);
	rdmamsg_dc_address_destroy(addresses[1]);
	rdmamsg_dc_address_destroy(addresses[2]);
	assert_int_equal(sender->address_count, 1);
	WAIT_FOR(completed == 1 && messages == 1);
	assert_int_equal(status, 0);
	assert_int_equal(sender->session_count, 1);
	close_all();
}

/* ---- what one of the two sides wants ----------------------------------- */

static void path__each_of_both_AS_ASKED(void **state)
{
	static const struct {
		uint32_t near, far;
		unsigned int count;
		uint32_t sessions;
	} cases[] = {
		{ RDMAMSG_DC_AUTO, RDMAMSG_DC_CONNECTIONS, ADDRESSES, 0 },
		{ RDMAMSG_DC_AUTO, RDMAMSG_DC_NATIVE, ADDRESSES, ADDRESSES },
		{ RDMAMSG_DC_AUTO, RDMAMSG_DC_NATIVE, 1, 0 },
		{ RDMAMSG_DC_CONNECTIONS, RDMAMSG_DC_AUTO, ADDRESSES, 0 },
		{ RDMAMSG_DC_NATIVE, RDMAMSG_DC_AUTO, 1, 1 },
		{ RDMAMSG_DC_NATIVE, RDMAMSG_DC_CONNECTIONS, 1, 0 },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		near_path = cases[i].near;
		far_path = cases[i].far;
		start();
		assert_int_equal(sessions_of(cases[i].count, "127.0.0.1"),
				 cases[i].sessions);
		close_all();
	}
}

static const struct rdmamsg_failover failover = { .size = sizeof(failover) };

static const struct rdmamsg_ep_options tuned[] = {
	{ .dead_after_ms = 30000 }, { .close_timeout_ms = 9000 },
	{ .flags = RDMAMSG_EP_CRC }, { .failover = &failover },
	{ .tuning = TUNING(.stall_after_ms = 6000) },
	{ .tuning = TUNING(.peer_timeout_ms = 60000) },
	{ .tuning = TUNING(.fetch_timeout_ms = 50000) },
	{ .tuning = TUNING(.responder_resources = 8) },
	{ .tuning = TUNING(.max_lent = 1 << 20) },
};

#define TUNED	(sizeof(tuned) / sizeof(tuned[0]))

/* Options that DC would ignore make connections, of either side. */
static void auto__options_of_connections_CONNECTS(void **state)
{
	for (unsigned int i = 0; i < 2 * TUNED; i++) {
		struct rdmamsg_ep_options *ep = i < TUNED ? &near_ep : &far_ep;

		/* both have a CRC or failover, or neither has */
		reset(state);
		*ep = tuned[i % TUNED];
		ep->size = sizeof(*ep);
		if (ep->flags || ep->failover)
			near_ep = far_ep = *ep;
		start();
		assert_int_equal(sessions_of(INITIATORS + 1, "127.0.0.1"), 0);
		close_all();
	}
}

/* RDMAMSG_NONE means the same as for a connection. */
static void options__none_AS_OF_ENDPOINTS(void **state)
{
	static struct rdmamsg_dc_sender s;
	static struct rdmamsg_dc_target t;
	static struct rdmamsg_ep_options ep;

	t.opts.ep = &ep;
	assert_int_equal(rdmamsg__dc_max_copy(&s), 65536);
	assert_int_equal(rdmamsg__visitor_max_msg(&t), 64 << 20);
	s.tuning.max_copy = RDMAMSG_NONE;
	ep.max_msg_size = RDMAMSG_NONE;
	assert_int_equal(rdmamsg__dc_max_copy(&s), 0);
	assert_int_equal(rdmamsg__visitor_max_msg(&t), 1);
	s.tuning.max_copy = ep.max_msg_size = 7;
	assert_int_equal(rdmamsg__dc_max_copy(&s), 7);
	assert_int_equal(rdmamsg__visitor_max_msg(&t), 7);
}

static const struct rdmamsg_path path = {
	.size = sizeof(path), .traffic_class = 8,
};

/* Options that both ways heed, or that only make a connection faster. */
static void auto__options_of_both_ways_USES_DC(void **state)
{
	const struct rdmamsg_ep_options heeded[] = {
		{ .max_msg_size = 1 << 20 }, { .timeout_ms = 5000 },
		{ .path = &path },
		{ .tuning = TUNING(.recv_depth = 32) },
		{ .tuning = TUNING(.max_copy = 1 << 15) },
		{ .tuning = TUNING(.send_depth = 64) },
		{ .tuning = TUNING(.inline_max = 64) },
		{ .tuning = TUNING(.ack_timeout = 18) },
		{ .tuning = TUNING(.retry_count = 6) },
		{ .tuning = TUNING(.rnr_retry_count = 6) },
		{ .tuning = TUNING(.min_rnr_timer = 11) },
		{ .tuning = TUNING(.initiator_depth = 8) },
		{ .tuning = TUNING(.tos = 8) },
		{ .tuning = TUNING(.retry_count = RDMAMSG_NONE) },
		{ .tuning = TUNING(.tos = RDMAMSG_NONE) },
		{ .tuning = TUNING(.min_rnr_timer = RDMAMSG_NONE) },
		{ .tuning = TUNING(.ack_timeout = RDMAMSG_NONE) },
	};

	for (unsigned int i = 0; i < sizeof(heeded) / sizeof(heeded[0]); i++) {
		near_ep = far_ep = heeded[i];
		near_ep.size = far_ep.size = sizeof(near_ep);
		start();
		assert_int_equal(sessions_of(INITIATORS + 1, "127.0.0.1"),
				 INITIATORS + 1);
		close_all();
	}
}

static void auto__pool_of_the_program_CONNECTS(void **state)
{
	struct rdmamsg_pool *pool;

	start();
	assert_int_equal(rdmamsg_pool_create(near, NULL, &pool), 0);
	sender->ep.send_pool = pool;
	assert_int_equal(sessions_of(INITIATORS + 1, "127.0.0.1"), 0);
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	rdmamsg_pool_destroy(pool);
	for (unsigned int i = 0; i < ADDRESSES; i++)
		rdmamsg_dc_target_destroy(targets[i]);
	WAIT_FOR(gone == ADDRESSES + 1);
	rdmamsg_close(near);
	rdmamsg_close(far);
}

/* Only the setup of a connection proves the key. */
static void native__pre_shared_key_CONNECTS(void **state)
{
	options.key = "0123456789abcdef";
	options.key_len = 16;
	near_path = far_path = RDMAMSG_DC_NATIVE;
	start();
	assert_int_equal(sessions_of(1, "127.0.0.1"), 0);
	close_all();
}

/* ---- the device of a target -------------------------------------------- */

/* The first request tells the device of a target at all addresses. */
static void target__at_any_address_USES_DC(void **state)
{
	near_path = RDMAMSG_DC_NATIVE;
	host = NULL;
	start();
	assert_int_equal(sessions_of(1, "127.0.0.1"), 1);
	close_all();
}

/* Its DCT is on one device. Senders of others connect. */
static void target__asked_on_another_device_CONNECTS(void **state)
{
	struct rdmamsg_dc_address *other, *same;
	struct rdmamsg_device *d;
	struct verbs_api another;
	const struct verbs_api *v;
	char service[8];

	near_path = RDMAMSG_DC_NATIVE;
	host = NULL;
	start();
	assert_int_equal(sessions_of(1, "127.0.0.1"), 1);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_dc_target_port(targets[0]));
	assert_int_equal(rdmamsg_dc_address_create(sender, "127.0.0.2", service,
						   0, NULL, &other), 0);
	assert_int_equal(rdmamsg_dc_address_create(sender, "127.0.0.1", service,
						   0, NULL, &same), 0);
	/* the device of 127.0.0.2 is not that of the target any more */
	d = targets[0]->dev->device;
	v = d->v;
	another = *v;
	d->v = &another;
	deliver(other);
	assert_int_equal(targets[0]->connections, 1);
	deliver(same);
	assert_int_equal(targets[0]->connections, 1);
	assert_int_equal(targets[0]->sessions, 2);
	d->v = v;
	close_all();
}

/* ---- the end ----------------------------------------------------------- */

static unsigned int writable, shut_down;

static void on_writable(struct rdmamsg_dc_sender *s)
{
	(void)s;
	assert_int_equal(shut_down, 0);
	writable++;
}

static void on_shutdown(struct rdmamsg *ctx, uint32_t ungraceful)
{
	(void)ctx;
	assert_int_equal(ungraceful, 0);
	shut_down++;
}

/* As if the sender had settled in this round, and had room again since. */
static void shut_down_with_a_due_sender(struct rdmamsg *ctx, void *arg)
{
	struct rdmamsg_dc_sender *s = arg;

	assert_int_equal(rdmamsg_shutdown(ctx, -1), 0);
	s->want_writable = true;
	rdmamsg__dc_sender_due(s);
	s->round = ctx->sessions->rounds + 1;
}

static void shutdown__callbacks_that_are_due_COME_BEFORE(void **state)
{
	const struct rdmamsg_dc_sender_options so = {
		.size = sizeof(so), .on_writable = on_writable,
	};
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_shutdown = on_shutdown,
	};
	struct rdmamsg_dc_sender *s;

	options.handlers = &on;
	writable = shut_down = 0;
	assert_int_equal(rdmamsg_open(&near, &options), 0);
	assert_int_equal(rdmamsg_open(&far, NULL), 0);
	assert_int_equal(rdmamsg_dc_sender_create(near, &so, &s), 0);
	assert_int_equal(rdmamsg_submit(near, shut_down_with_a_due_sender, s),
			 0);
	WAIT_FOR(shut_down && writable);
	rdmamsg_close(near);
	rdmamsg_close(far);
}

int main(void)
{
#ifndef HAVE_MLX5DV
	fprintf(stderr, "skip: built without infiniband/mlx5dv.h\n");
	return 77;
#endif
#define WITH(fn)	cmocka_unit_test_setup(fn, reset)
	const struct CMUnitTest tests[] = {
		WITH(auto__an_initiator_for_each_CONNECTS),
		WITH(auto__more_addresses_USES_DC),
		WITH(auto__addresses_come_later_CONNECTIONS_GO_AWAY),
		WITH(auto__addresses_go_while_it_asks_DELIVERED),
		WITH(path__each_of_both_AS_ASKED),
		WITH(auto__options_of_connections_CONNECTS),
		WITH(auto__options_of_both_ways_USES_DC),
		WITH(auto__pool_of_the_program_CONNECTS),
		WITH(options__none_AS_OF_ENDPOINTS),
		WITH(native__pre_shared_key_CONNECTS),
		WITH(target__at_any_address_USES_DC),
		WITH(target__asked_on_another_device_CONNECTS),
		WITH(shutdown__callbacks_that_are_due_COME_BEFORE),
	};

	join_own_fabric("way");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
