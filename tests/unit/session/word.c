/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the word of a program that ends a connection, where the peer
 * knows no words, where a lane is lost, and where there is no room.
 */
#include "base/ctx.h"
#include "lanes.h"
#include "wire/word.h"

#define CODE	0x12345678u

static const char data[PROTO_WORD_DATA_MAX + 1] =
	"no more than thirty-two of these";

static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
};

static struct rdmamsg_ep_options opts;
static char told[2][PROTO_WORD_DATA_MAX];	/* to the client, the server */

static void on_end(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	on_closed(ep, why);
	if (why->data_len)
		memcpy(told[rdmamsg_ep_user(ep) == &server], why->data,
		       why->data_len);
}

static void connect_both(bool lanes)
{
	static struct rdmamsg_ep_handlers on;

	on = handlers;
	on.on_closed = on_end;
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &on,
		.failover = lanes ? &failover : NULL,
	};
	connect_ends(&opts);
}

static void check_told(const struct side *s, uint32_t code, size_t len)
{
	assert_int_equal(s->why.code, code);
	assert_int_equal(s->why.data_len, len);
	assert_memory_equal(told[s == &server], data, len);
}

/*
 * The wait of an abort for its word has a bound in time, so that side stands
 * still until the other one has ended.
 */
static void abort_with(struct side *s)
{
	struct side *other = s == &client ? &server : &client;

	assert_int_equal(rdmamsg_ep_abort_with(s->ep, CODE, data, 9), 0);
	assert_true(s->ep->close.saying);
	UNTIL_BY(assert_true(rdmamsg_process(other->ctx) >= 0), other->closed);
	WAIT_FOR(s->closed);
	assert_int_equal(s->why.cause, RDMAMSG_CAUSE_ABORTED);
}

/* This side knows of no words at the peer, which would take one. */
static void close__to_an_older_peer_HAS_NO_WORD(void **state)
{
	connect_both(false);
	client.ep->connect.features &= ~PROTO_FEATURE_WORD;
	assert_int_equal(rdmamsg_ep_close_with(client.ep, CODE, data, 9), 0);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	check_told(&server, 0, 0);
}

/* An older peer would call ABORT an error. */
static void abort__to_an_older_peer_HAS_NO_WORD(void **state)
{
	connect_both(false);
	client.ep->connect.features &= ~PROTO_FEATURE_WORD;
	server.ep->connect.features &= ~PROTO_FEATURE_WORD;
	assert_int_equal(rdmamsg_ep_abort_with(client.ep, CODE, data, 9), 0);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_ABORTED);
	check_told(&server, 0, 0);
}

/* With no feature in use the body of CLOSE is an unknown part. */
static void close__word_was_not_agreed_IS_SKIPPED(void **state)
{
	connect_both(false);
	server.ep->connect.features &= ~PROTO_FEATURE_WORD;
	assert_int_equal(rdmamsg_ep_close_with(client.ep, CODE, data, 9), 0);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	check_told(&server, 0, 0);
}

static void abort__was_not_agreed_PROTOCOL(void **state)
{
	connect_both(false);
	server.ep->connect.features &= ~PROTO_FEATURE_WORD;
	abort_with(&client);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	check_told(&server, 0, 0);
}

/* There is no room for a message, so the abort does not wait. */
static void abort__no_room_HAS_NO_WORD(void **state)
{
	uint32_t total;

	connect_both(false);
	total = client.ep->lane.sq.total;
	client.ep->lane.sq.total = 0;
	assert_int_equal(rdmamsg_ep_abort_with(client.ep, CODE, data, 9), 0);
	client.ep->lane.sq.total = total;
	assert_false(client.ep->close.saying);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
	check_told(&server, 0, 0);
}

/* After the second CLOSE the peer keeps no receive for ABORT. */
static void abort__both_have_closed_IS_NOT_SAID(void **state)
{
	connect_both(false);
	rdmamsg_ep_close(server.ep);
	UNTIL_BY(both(), client.ep->close.asserted);
	assert_int_equal(rdmamsg_ep_abort_with(client.ep, CODE, data, 9), 0);
	assert_false(client.ep->close.saying);
	WAIT_FOR(client.closed && server.closed);
	check_told(&server, 0, 0);
}

/* The one that aborts has not taken the other's CLOSE, nor what came before. */
static void abort__other_has_closed_too_IS_NOT_GRACEFUL(void **state)
{
	connect_both(false);
	rdmamsg_ep_close(client.ep);
	UNTIL_BY(rdmamsg_process(client.ctx), client.ep->close.sent);
	UNTIL_BY(rdmamsg_process(server.ctx), server.ep->close.sent);
	abort_with(&client);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
	check_told(&server, CODE, 9);
}

/* The last CLOSE of each side counts, on whichever lane. */
static void close_in(unsigned int wait, bool by_both)
{
	connect_both(true);
	flows[0].end = flows[1].end = 30;
	while (flows[0].sent < 30 || flows[1].sent < 30) {
		send_some(&client, 10);
		send_some(&server, 10);
		both();
	}
	assert_int_equal(rdmamsg_ep_close_with(client.ep, CODE, data, 32), 0);
	if (by_both)
		assert_int_equal(rdmamsg_ep_close_with(server.ep, ~CODE, data,
						       7), 0);
	for (unsigned int i = 0; i < wait && !client.closed; i++)
		(void)rdmamsg_process(i & 1 ? client.ctx : server.ctx);
	if (!client.closed)
		lose(&client);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	check_told(&server, CODE, 32);
	check_told(&client, by_both ? ~CODE : 0, by_both ? 7 : 0);
	assert_true(is_done(&flows[0]) && is_done(&flows[1]));
}

static void close__lane_lost_IS_IN_THE_REASON(void **state)
{
	for (unsigned int wait = 0; wait < 24; wait++) {
		(void)set_up(state);
		memset(told, 0, sizeof(told));
		close_in(wait / 2, wait % 2);
		(void)tear_down(state);
	}
	(void)set_up(state);
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
}

/* There is no lane, so the abort does not wait. */
static void abort__lane_is_lost_HAS_NO_WORD(void **state)
{
	connect_both(true);
	lose(&client);
	assert_int_equal(rdmamsg_ep_abort_with(client.ep, CODE, data, 9), 0);
	assert_false(client.ep->close.saying);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(server.closed);
	check_told(&server, 0, 0);
}

/* The word ends the session: the peer does not look for another lane. */
static void abort__with_failover_ENDS_AT_ONCE(void **state)
{
	for (int by_server = 0; by_server < 2; by_server++) {
		struct side *s = by_server ? &server : &client;
		struct side *other = by_server ? &client : &server;

		(void)set_up(state);
		connect_both(true);
		abort_with(s);
		assert_int_equal(other->why.cause, RDMAMSG_CAUSE_ABORTED);
		assert_int_equal(other->why.who, RDMAMSG_WHO_PEER);
		check_told(other, CODE, 9);
		assert_int_equal(down[0] + down[1], 0);
		(void)tear_down(state);
	}
	(void)set_up(state);
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(close__to_an_older_peer_HAS_NO_WORD),
		CASE(abort__to_an_older_peer_HAS_NO_WORD),
		CASE(close__word_was_not_agreed_IS_SKIPPED),
		CASE(abort__was_not_agreed_PROTOCOL),
		CASE(abort__no_room_HAS_NO_WORD),
		CASE(abort__both_have_closed_IS_NOT_SAID),
		CASE(abort__other_has_closed_too_IS_NOT_GRACEFUL),
		CASE(close__lane_lost_IS_IN_THE_REASON),
		CASE(abort__lane_is_lost_HAS_NO_WORD),
		CASE(abort__with_failover_ENDS_AT_ONCE),
	};

	join_own_fabric("word");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("word", tests, NULL, NULL);
}
