/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: endpoints move to another connection by plan. Either side may
 * begin, a listener that drains sends its endpoints away, and each message
 * arrives once and in order. A move that fails leaves the endpoint where it is.
 */
#include "lanes.h"

#include <rdmamsg/listener.h>

static struct rdmamsg_listener *listeners[2];
static char ports[2][8];

/* Each address of the server is a port. */
static void listen_twice(struct rdmamsg_ep_options *opts)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = opts,
	};

	opts->size = sizeof(*opts);
	opts->handlers = &handlers;
	opts->user = &server;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0",
						&lopts, &listeners[i]), 0);
		(void)snprintf(ports[i], sizeof(ports[i]), "%u",
			       rdmamsg_listener_port(listeners[i]));
	}
}

/*
 * The client knows both ports if 'other', else those that the flags let it
 * learn.
 */
static void connect_with(uint32_t rungs, bool other, uint32_t flags)
{
	const struct rdmamsg_failover f = {
		.size = sizeof(f), .rungs = rungs, .flags = flags,
		.host = other ? "127.0.0.1" : NULL,
		.service = other ? ports[1] : NULL,
	};
	struct rdmamsg_ep_options opts = { .failover = &f };

	listen_twice(&opts);
	(void)snprintf(service, sizeof(service), "%s", ports[0]);
	connect_client(&opts);
	WAIT_FOR(server.ep);
}

static void connect_first(uint32_t rungs, bool other)
{
	connect_with(rungs, other, RDMAMSG_FAILOVER_GIVEN_ONLY);
}

static uint64_t endpoints_of(int i)
{
	struct rdmamsg_listener_stats c = { .size = sizeof(c) };

	assert_int_equal(rdmamsg_listener_get_stats(listeners[i], &c), 0);
	return c.endpoints;
}

static void exchange(uint32_t count)
{
	flows[0].end += count;
	flows[1].end += count;
	while (flows[0].sent < flows[0].end || flows[1].sent < flows[1].end) {
		send_some(&client, 4);
		send_some(&server, 4);
		both();
	}
	expect_whole();
}

/* 'by' asks to move whenever it may, while messages go both ways. */
static void move_often(struct side *by, uint32_t count, unsigned int moves)
{
	struct rdmamsg_migrate_options o = { .size = sizeof(o), .lane = 1 };
	unsigned int asked = 0;

	flows[0].end = flows[1].end = count;
	while (!is_done(&flows[0]) || !is_done(&flows[1]) ||
	       resumed[0] < moves) {
		int ret;

		send_some(&client, 4);
		send_some(&server, 4);
		if (by == &client) {
			o.host = "127.0.0.1";
			o.service = ports[asked % 2];
		}
		ret = resumed[0] == asked && resumed[1] == asked &&
		      asked < moves ? rdmamsg_ep_migrate(by->ep, &o) : -EBUSY;
		assert_true(!ret || ret == -EBUSY);
		asked += !ret;
		both();
		assert_false(flows[0].bad || flows[1].bad);
		if (client.closed || server.closed)
			fail_msg("closed: %s / %s", client.why.text,
				 server.why.text);
	}
	assert_int_equal(not_moved[0] + not_moved[1], 0);
	close_both();
}

/* ---- tests ------------------------------------------------------------- */

static void connector__moves_EXACTLY_ONCE(void **state)
{
	connect_first(RDMAMSG_RUNG_LANE, false);
	move_often(&client, 2000, 20);
}

static void acceptor__asks_to_move_EXACTLY_ONCE(void **state)
{
	connect_first(RDMAMSG_RUNG_LANE, true);
	move_often(&server, 2000, 20);
}

static void both__at_once_MOVE(void **state)
{
	const struct rdmamsg_migrate_options o = {
		.size = sizeof(o), .lane = 1,
	};

	connect_first(RDMAMSG_RUNG_LANE, true);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), 0);
	assert_int_equal(rdmamsg_ep_migrate(server.ep, &o), 0);
	exchange(100);
	WAIT_FOR(resumed[0] && resumed[1]);
	exchange(100);
	close_both();
}

static void standby__TAKES_OVER(void **state)
{
	connect_first(RDMAMSG_RUNG_STANDBY, true);
	WAIT_FOR(standby[0] && standby[1]);
	/* no alternate path: another connection */
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), 0);
	WAIT_FOR(resumed[0] && resumed[1]);
	exchange(100);
	WAIT_FOR(standby[0] == 2 && standby[1] == 2);
	close_both();
}

/* The texts occur in the history of the endpoint, in this order. */
static void expect_history(const struct side *s, const char *first,
			   const char *second)
{
	static char text[16384];
	const char *at;

	assert_true(rdmamsg_ep_history(s->ep, text, sizeof(text)) > 0);
	at = strstr(text, first);
	if (!at || !strstr(at, second))
		fail_msg("no '%s' and then '%s' in\n%s", first, second, text);
}

static void moves__of_both_sides_RECORDED(void **state)
{
	connect_first(RDMAMSG_RUNG_LANE, true);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), 0);
	WAIT_FOR(resumed[0] == 1 && resumed[1] == 1);
	expect_history(&client, "a move to another connection is asked",
		       "the move is done");
	exchange(10);
	assert_int_equal(rdmamsg_ep_migrate(server.ep, NULL), 0);
	WAIT_FOR(resumed[0] == 2 && resumed[1] == 2);
	expect_history(&server, "the peer is asked to move", "resumed on");
	expect_history(&client, "the peer asks to move", "the move is done");
	close_both();
}

static void nobody__at_the_address_STAYS(void **state)
{
	const struct rdmamsg_migrate_options o = {
		.size = sizeof(o), .host = "127.0.0.1", .service = "9",
	};

	connect_first(RDMAMSG_RUNG_LANE, false);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), 0);
	exchange(100);
	WAIT_FOR(not_moved[0]);
	expect_history(&client, "a move to another connection is asked",
		       "the move has failed");
	assert_int_equal(resumed[0] + down[0] + down[1], 0);
	exchange(100);
	close_both();
}

/* A lane that is lost while the endpoint moves is replaced as ever. */
static void lane__lost_meanwhile_GOES_ON(void **state)
{
	const struct rdmamsg_migrate_options o = {
		.size = sizeof(o), .lane = 1,
	};

	connect_first(RDMAMSG_RUNG_LANE, true);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), 0);
	lose(&server);
	exchange(100);
	assert_true(resumed[0] && resumed[1]);
	close_both();
}

static void between_connections__REFUSED(void **state)
{
	const struct rdmamsg_migrate_options o = {
		.size = sizeof(o), .lane = 1,
	};

	connect_first(RDMAMSG_RUNG_LANE, true);
	lose(&client);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), -EBUSY);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, NULL), -EBUSY);
	exchange(100);
	close_both();
}

static void closed__while_moving_GRACEFUL(void **state)
{
	const struct rdmamsg_migrate_options o = {
		.size = sizeof(o), .lane = 1,
	};

	connect_first(RDMAMSG_RUNG_LANE, true);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), 0);
	close_both();
}

static void listener__drains_ENDPOINTS_MOVE(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	connect_first(RDMAMSG_RUNG_LANE, true);
	assert_int_equal(endpoints_of(0), 1);
	assert_int_equal(rdmamsg_listener_drain(listeners[0]), 0);
	exchange(200);
	WAIT_FOR(endpoints_of(0) == 0 && endpoints_of(1) == 1);
	assert_int_equal(resumed[0], 1);
	/* nobody else comes in */
	opts.user = &client;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", ports[0],
					 &opts, NULL), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.error, -ENOBUFS);
	assert_non_null(strstr(client.why.text, "drain"));
	client.closed = false;
	exchange(100);
	close_both();
}

/* The peer has announced the port of the second listener. */
static void listener__drains_ANNOUNCED_ADDRESS_MOVES(void **state)
{
	connect_with(RDMAMSG_RUNG_LANE, false, 0);
	assert_int_equal(rdmamsg_listener_drain(listeners[0]), 0);
	exchange(200);
	WAIT_FOR(endpoints_of(0) == 0 && endpoints_of(1) == 1);
	assert_int_equal(resumed[0], 1);
	close_both();
}

/* The listener keeps an endpoint that knows no other address. */
static void listener__drains_NO_OTHER_ADDRESS_STAYS(void **state)
{
	connect_first(RDMAMSG_RUNG_LANE, false);
	assert_int_equal(rdmamsg_listener_drain(listeners[0]), 0);
	WAIT_FOR(not_moved[0]);
	exchange(100);
	/* a lane that is lost comes back even so */
	lose(&client);
	exchange(100);
	assert_int_equal(endpoints_of(0), 1);
	close_both();
}

static void mistakes__REFUSED(void **state)
{
	struct rdmamsg_migrate_options o = { .size = sizeof(o), .lane = 1 };
	struct rdmamsg_ep_options opts = { 0 };

	connect_first(RDMAMSG_RUNG_LANE, false);
	o.host = "127.0.0.1";
	assert_int_equal(rdmamsg_ep_migrate(server.ep, &o), -EINVAL);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), 0);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), -EBUSY);
	WAIT_FOR(resumed[0] && resumed[1]);
	close_both();
	assert_int_equal(rdmamsg_listener_drain(NULL), -EINVAL);
	assert_int_equal(tear_down(state), 0);

	/* without failover */
	assert_int_equal(set_up(state), 0);
	listen_twice(&opts);
	(void)snprintf(service, sizeof(service), "%s", ports[0]);
	connect_client(&opts);
	WAIT_FOR(server.ep);
	assert_int_equal(rdmamsg_ep_migrate(client.ep, &o), -EOPNOTSUPP);
	close_both();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connector__moves_EXACTLY_ONCE),
		TEST(acceptor__asks_to_move_EXACTLY_ONCE),
		TEST(both__at_once_MOVE),
		TEST(standby__TAKES_OVER),
		TEST(moves__of_both_sides_RECORDED),
		TEST(nobody__at_the_address_STAYS),
		TEST(lane__lost_meanwhile_GOES_ON),
		TEST(between_connections__REFUSED),
		TEST(closed__while_moving_GRACEFUL),
		TEST(listener__drains_ENDPOINTS_MOVE),
		TEST(listener__drains_ANNOUNCED_ADDRESS_MOVES),
		TEST(listener__drains_NO_OTHER_ADDRESS_STAYS),
		TEST(mistakes__REFUSED),
	};

	join_own_fabric("move");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
