/* SPDX-License-Identifier: BSD-2-Clause */
/* Received messages stay in the receive queue, are lent, or are sent on. */
#include "../../fake/nulldev.h"
#include "../../tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <rdmamsg/fast.h>

#define DEPTH	16
#define KEEP	40

enum what { FREE_IT, KEEP_IT, PASS_IT, MIX };

struct side {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	enum what what;
	uint32_t received, passed, closed;
	struct rdmamsg_msg *kept[KEEP];
	int keeps;
	int nested;		/* result of rdmamsg_poll() in the callback */
};

static struct side client, server;

static void on_connected(struct rdmamsg_ep *ep)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->ep = ep;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	uint32_t n = s->received++;
	enum what what = s->what == MIX ? n % 3 : s->what;

	/* messages come whole and in order, wherever their buffers have been */
	assert_int_equal(rdmamsg_msg_tag(msg), n);
	assert_int_equal(rdmamsg_msg_len(msg), n % 64);
	for (uint32_t i = 0; i < n % 64; i++)
		assert_int_equal(((uint8_t *)rdmamsg_msg_data(msg))[i],
				 (uint8_t)n);
	s->nested = rdmamsg_fast_poll(s->ctx);
	if (what == KEEP_IT && s->keeps < KEEP) {
		s->kept[s->keeps++] = msg;
	} else if (what == PASS_IT &&
		   !rdmamsg_msg_send(ep, msg, s->passed, NULL)) {
		s->passed++;
		/* not owned any more: only logged */
		rdmamsg_msg_free(msg);
	} else {
		rdmamsg_msg_free(msg);
	}
}

static void on_passed(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_int_equal(rdmamsg_msg_tag(msg), s->received++);
	rdmamsg_msg_free(msg);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_int_equal(why->error, 0);
	s->closed++;
}

static void both(void)
{
	assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_true(rdmamsg_process(server.ctx) >= 0);
}

static uint32_t recv_depth = DEPTH, send_depth;
/* if set, both ends use these */
static const struct rdmamsg_ep_handlers *handlers;

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers at_server = {
		.size = sizeof(at_server), .on_connected = on_connected,
		.on_message = on_message, .on_closed = on_closed,
	}, at_client = {
		.size = sizeof(at_client), .on_connected = on_connected,
		.on_message = on_passed, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &at_server, .user = &server,
		.tuning = TUNING(.recv_depth = recv_depth,
				 .send_depth = send_depth),
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;
	char port[8];

	if (handlers)
		opts.handlers = handlers;
	rdmamsg__verbs = &nulldev_verbs;
	memset(&client, 0, sizeof(client));
	memset(&server, 0, sizeof(server));
	if (rdmamsg_open(&client.ctx, NULL) ||
	    rdmamsg_open(&server.ctx, NULL) ||
	    rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts, &l))
		return -1;
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	opts.user = &client;
	opts.handlers = handlers ? handlers : &at_client;
	if (rdmamsg_connect(client.ctx, "127.0.0.1", port, &opts, NULL))
		return -1;
	while (!client.ep || !server.ep)
		both();
	return 0;
}

static int tear_down(void **state)
{
	if (!client.closed)
		rdmamsg_ep_close(client.ep);
	while (!client.closed || !server.closed)
		both();
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return nulldev_counts.mrs || nulldev_counts.qps || nulldev_counts.cqs ?
	       -1 : 0;
}

/*
 * Sends 'count' messages in bunches, and waits until the server has them all.
 */
static void pour(uint32_t count)
{
	uint8_t data[64];
	uint32_t sent = server.received, end = sent + count;

	while (server.received < end) {
		while (sent < end) {
			memset(data, (int)sent, sizeof(data));
			if (rdmamsg_fast_send(client.ep, data, sent % 64, sent))
				break;
			sent++;
		}
		assert_true(rdmamsg_fast_poll(server.ctx) >= 0);
		assert_true(rdmamsg_fast_poll(client.ctx) >= 0);
	}
}

static struct rdmamsg_stats stats_of(const struct side *s)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_get_stats(s->ctx, &st), 0);
	return st;
}

static void free_kept(void)
{
	while (server.keeps)
		rdmamsg_msg_free(server.kept[--server.keeps]);
}

static void check(uint32_t count)
{
	struct rdmamsg_stats c = stats_of(&client), s = stats_of(&server);

	assert_int_equal(s.msgs_received, count);
	assert_int_equal(c.msgs_sent, count);
	assert_int_equal(c.sent_inline, count);
	assert_int_equal(c.bytes_sent, s.bytes_received);
	assert_int_equal(s.msgs_lent, server.keeps);
	assert_int_equal(s.msgs_sent, server.passed);
	assert_int_equal(client.received, server.passed);
	assert_int_equal(c.rnr_errors + s.rnr_errors, 0);
}

static void message__freed_in_its_callback_STAYS(void **state)
{
	uint64_t registered = stats_of(&server).bytes_registered;

	pour(5000);
	check(5000);
	assert_int_equal(stats_of(&server).bytes_registered, registered);
}

static void message__kept_IS_LENT_AND_COMES_BACK(void **state)
{
	for (int i = 0; i < 10; i++) {
		server.what = KEEP_IT;
		pour(100);
		assert_int_equal(server.keeps, KEEP);
		check(100 * (uint32_t)(i + 1));
		for (uint32_t k = 0; k < KEEP; k++)
			assert_int_equal(rdmamsg_msg_tag(server.kept[k]),
					 100 * (uint32_t)i + k);
		free_kept();
		check(100 * (uint32_t)(i + 1));
	}
}

static void message__kept_at_the_end_OUTLIVES_ITS_ENDPOINT(void **state)
{
	server.what = KEEP_IT;
	pour(KEEP);
	rdmamsg_ep_close(client.ep);
	while (!client.closed || !server.closed)
		both();
	for (uint32_t k = 0; k < KEEP; k++)
		assert_int_equal(rdmamsg_msg_len(server.kept[k]), k % 64);
	assert_int_equal(stats_of(&server).msgs_lent, KEEP);
	free_kept();
	assert_int_equal(stats_of(&server).msgs_lent, 0);
}

static void message__passed_on_in_its_callback_ARRIVES(void **state)
{
	server.what = PASS_IT;
	pour(1000);
	while (client.received < server.passed)
		both();
	assert_true(server.passed > 500);
	check(1000);
}

static void message__this_and_that_ARRIVES(void **state)
{
	server.what = MIX;
	for (uint32_t n = 1; n <= 20; n++) {
		pour(n);
		free_kept();
	}
	while (client.received < server.passed)
		both();
	check(210);
}

static void poll__in_a_callback_EDEADLK(void **state)
{
	pour(1);
	assert_int_equal(server.nested, -EDEADLK);
	pour(100);
	check(101);
}

/* ---- little room ------------------------------------------------------ */

static uint32_t to_send;

static void pour_back(struct rdmamsg_ep *ep)
{
	struct side *s = rdmamsg_ep_user(ep);

	while (s->passed < to_send &&
	       !rdmamsg_fast_send(ep, "abc", 3, s->passed))
		s->passed++;
}

static void flood(uint32_t recv, uint32_t send)
{
	static const struct rdmamsg_ep_handlers h = {
		.size = sizeof(h), .on_connected = on_connected,
		.on_message = on_passed, .on_writable = pour_back,
		.on_closed = on_closed,
	};

	recv_depth = recv;
	send_depth = send;
	handlers = &h;
	assert_int_equal(set_up(NULL), 0);
	to_send = 300;
	pour_back(client.ep);
	pour_back(server.ep);
	for (int i = 0; i < 100000 && (client.received < to_send ||
				       server.received < to_send); i++) {
		assert_true(rdmamsg_fast_poll(server.ctx) >= 0);
		assert_true(rdmamsg_fast_poll(client.ctx) >= 0);
	}
	assert_int_equal(client.received, to_send);
	assert_int_equal(server.received, to_send);
	assert_int_equal(tear_down(NULL), 0);
	recv_depth = DEPTH;
	send_depth = 0;
	handlers = NULL;
}

static void flood__with_little_room_ARRIVES(void **state)
{
	for (uint32_t n = 1; n <= 40; n++) {
		flood(n, 0);
		flood(0, n);
		flood(n, n + 1);
		flood(n + 1, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(message__freed_in_its_callback_STAYS),
		T(message__kept_IS_LENT_AND_COMES_BACK),
		T(message__kept_at_the_end_OUTLIVES_ITS_ENDPOINT),
		T(message__passed_on_in_its_callback_ARRIVES),
		T(message__this_and_that_ARRIVES),
		T(poll__in_a_callback_EDEADLK),
		cmocka_unit_test(flood__with_little_room_ARRIVES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
