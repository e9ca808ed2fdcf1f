/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: messages that the liveness tick reads itself, and RNR retries
 * towards a peer that may lack receives.
 */
#include "base/ctx.h"
#include "base/timer.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "session/credit.h"
#include "session/ep.h"
#include "soft/control/soft_ctl.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

#define LARGE	((size_t)1 << 20)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static uint8_t large[LARGE];

/* The callback is slow, and answers with a large message. */
static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	const struct iovec iov = { large, sizeof(large) };
	struct side *s = rdmamsg_ep_user(ep);

	s->messages++;
	rdmamsg_msg_free(msg);
	if (s != &client)
		return;
	(void)poll(NULL, 0, 5);
	assert_int_equal(rdmamsg_sendv(ep, &iov, 1, 0, large), 0);
}

static void process(struct side *s)
{
	struct pollfd fd = { rdmamsg_fd(s->ctx), POLLIN, 0 };

	(void)poll(&fd, 1, 5);
	assert_true(rdmamsg_process(s->ctx) >= 0);
}

/*
 * The tick reads a message, whose callback announces another one after the tick
 * has read the clock.
 */
static void tick__announces_a_message_NOT_LATE_YET(void **state)
{
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	connect_anew(on_message, (struct rdmamsg_ep_options){
		.dead_after_ms = RDMAMSG_NONE,
	});
	assert_int_equal(rdmamsg_send(server.ep, "go", 2, 0, large), 0);
	/* once acknowledged, the message is in the client's completion queue */
	while (!server.sent) {
		assert_true(rdmamsg__now_ms() < end);
		process(&server);
	}
	assert_int_equal(client.messages, 0);
	client.ep->live.rx_seen = rdmamsg__rx_count(&client.ep->lane);
	client.ep->live.timer.fn(&client.ep->live.timer);
	assert_int_equal(client.messages, 1);
	WAIT_FOR(client.closed || (server.messages && client.sent));
	assert_false(client.closed);
	assert_int_equal(client.status, 0);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

/* The message was announced in the time by which the tick is late. */
static void tick__later_than_a_message_LIVES_ON(void **state)
{
	static const struct rdmamsg_ep_handlers handlers =
		END_HANDLERS(on_message);
	const struct iovec iov = { large, sizeof(large) };
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = RDMAMSG_NONE,
	};
	struct timer *t;

	clear_ends();
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	connect_ends(&opts);
	assert_int_equal(rdmamsg_sendv(client.ep, &iov, 1, 0, large), 0);
	t = &client.ep->live.timer;
	rdmamsg__timer_stop(&client.ctx->loop.timers, t);
	t->when = rdmamsg__now_ms() - 30000;
	client.ep->live.rx_seen = rdmamsg__rx_count(&client.ep->lane) - 1;
	t->fn(t);
	WAIT_FOR(client.closed || (server.messages && client.sent));
	assert_false(client.closed);
	assert_int_equal(client.status, 0);
	leave_soft(state);
}

/* ---- receives --------------------------------------------------------- */

static const struct rdmamsg_ep_handlers plain =
	END_HANDLERS(NULL);

static uint8_t rnr_retry_of(const struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(s->ep->lane.v->query_qp(s->ep->lane.hot.qp, &attr,
					    IBV_QP_RNR_RETRY, &init), 0);
	return attr.rnr_retry;
}

static void open_side(struct side *s, uint32_t overcommit)
{
	const struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .depth = 64, .floor = 1,
		.overcommit = overcommit,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .srq = overcommit ? &srq : NULL,
	};

	memset(s, 0, sizeof(*s));
	assert_int_equal(rdmamsg_open(&s->ctx, &opts), 0);
}

static void close_sides(void)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

static uint32_t dead_after_ms;		/* of both ends */

/* An overcommit of 0 means no shared receive queue. */
static void connect_sides(uint32_t client_overcommit,
			  uint32_t server_overcommit, bool oob)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &plain, .device = "soft0",
		.dead_after_ms = dead_after_ms,
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	open_side(&client, client_overcommit);
	open_side(&server, server_overcommit);
	if (oob)
		exchange_records(&opts);
	else
		listen_and_connect(&opts);
}

/* rnr_retry of each side follows the receives of its peer. */
static void rnr__peer_that_shares_receives_RETRIES_WITHOUT_END(void **state)
{
	for (int oob = 0; oob < 2; oob++) {
		connect_sides(0, 100, oob);
		assert_int_equal(rnr_retry_of(&client), 7);
		assert_int_equal(rnr_retry_of(&server), 6);
		close_sides();
		connect_sides(101, 0, oob);
		assert_int_equal(rnr_retry_of(&client), 6);
		assert_int_equal(rnr_retry_of(&server), 7);
		close_sides();
		connect_sides(0, 0, oob);
		assert_int_equal(rnr_retry_of(&client), 6);
		assert_int_equal(rnr_retry_of(&server), 6);
		close_sides();
	}
}

/* Without dead_after_ms, only finite RNR retries end the connection. */
static void rnr__shared_receives_without_dead_after_IS_FINITE(void **state)
{
	dead_after_ms = RDMAMSG_NONE;
	for (int oob = 0; oob < 2; oob++) {
		connect_sides(0, 101, oob);
		assert_int_equal(rnr_retry_of(&client), 6);
		close_sides();
	}
	dead_after_ms = 0;
}

/* Only the client's loop turns, so the server posts no receives. */
static void flood(uint32_t least)
{
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;
	uint32_t sent = 0;

	while (!client.closed) {
		assert_true(rdmamsg__now_ms() < end);
		sent += !rdmamsg_send(client.ep, "x", 1, 0, NULL);
		process(&client);
	}
	assert_true(sent >= least);
}

static void receives__none_of_an_over_committed_peer_CLOSES(void **state)
{
	const struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .depth = 16, .floor = 1000,
		.overcommit = 10000,
	};
	const struct rdmamsg_options copts = {
		.size = sizeof(copts), .srq = &srq,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &plain, .user = &server,
		.dead_after_ms = 1000,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;
	uint64_t since;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	open_side(&client, 0);
	memset(&server, 0, sizeof(server));
	assert_int_equal(rdmamsg_open(&server.ctx, &copts), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	connect_client(&opts);
	WAIT_FOR(server.ep);
	since = rdmamsg__now_ms();
	flood(17);
	assert_true(rdmamsg__now_ms() - since >= 1000);
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(client.why.error, -ETIMEDOUT);
	assert_non_null(strstr(client.why.text, "receives"));
	close_sides();
}

/* The peer grants more credits than it has receives. */
static void receives__fewer_than_credits_RNR_RETRY_EXC(void **state)
{
	connect_sides(0, 0, false);
	client.ep->credit.limit += 1000;
	rdmamsg__tx_room(client.ep);
	flood(33);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.wc_status, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_string_equal(client.why.operation, "send");
	close_sides();
}

#define TRIES_BY_SIX	7	/* the first, and 6 retries */

static uint64_t rnr_naks_of(const struct side *s)
{
	struct soft_rnr rnr;

	soft_rnr_naks(s->ep->lane.dev->device->verbs, s->ep->lane.hot.qp, &rnr);
	return rnr.received;
}

/*
 * A greedy peer ignores its credits and takes every shared receive, while the
 * server's loop does not turn. The message of another peer waits for one.
 */
static void receives__taken_by_a_greedy_peer_OTHERS_WAIT(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &plain, .device = "soft0",
	};
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;
	struct side greedy = { 0 };

	connect_sides(0, 100, false);
	opts.user = &greedy;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &opts, NULL), 0);
	WAIT_FOR(greedy.ep);
	greedy.ep->credit.limit += 1000;
	rdmamsg__tx_room(greedy.ep);
	while (!greedy.closed && !rnr_naks_of(&greedy)) {
		assert_true(rdmamsg__now_ms() < end);
		(void)rdmamsg_send(greedy.ep, "x", 1, 0, NULL);
		process(&client);
	}
	assert_int_equal(rdmamsg_send(client.ep, "y", 1, 0, large), 0);
	while (!client.closed && rnr_naks_of(&client) <= TRIES_BY_SIX) {
		assert_true(rdmamsg__now_ms() < end);
		process(&client);
	}
	assert_false(client.closed);
	WAIT_FOR(greedy.closed && client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(greedy.why.who, RDMAMSG_WHO_PEER);
	close_sides();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tick__announces_a_message_NOT_LATE_YET),
		cmocka_unit_test(tick__later_than_a_message_LIVES_ON),
		cmocka_unit_test(rnr__peer_that_shares_receives_RETRIES_WITHOUT_END),
		cmocka_unit_test(rnr__shared_receives_without_dead_after_IS_FINITE),
		cmocka_unit_test(
			receives__none_of_an_over_committed_peer_CLOSES),
		cmocka_unit_test(receives__fewer_than_credits_RNR_RETRY_EXC),
		cmocka_unit_test(receives__taken_by_a_greedy_peer_OTHERS_WAIT),
	};

	join_own_fabric("live");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
