/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the local port of a lane goes down. A lane that was made in
 * advance over another port takes over at once, without waiting for requests to
 * fail.
 */
#include "device/device.h"
#include "lanes.h"

static const struct rdmamsg_failover twice = {
	.size = sizeof(twice), .rungs = RDMAMSG_RUNG_STANDBY,
};
static const struct rdmamsg_failover once = {
	.size = sizeof(once), .rungs = RDMAMSG_RUNG_LANE,
};

static void connect_with(const struct rdmamsg_failover *failover)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = failover,
	};

	connect_ends(&opts);
	if (failover != &twice)
		return;
	WAIT_FOR(standby[0] == 1 && standby[1] == 1);
	/* both lanes of the soft HCA are on one port */
	client.ep->resume->carrier->lane.port = 2;
	server.ep->resume->carrier->lane.port = 2;
}

static void report(struct side *s, int event, uint32_t port)
{
	rdmamsg__failover_port(s->ctx, s->ep->lane.dev->device, event, port);
}

static void expect_resumed(unsigned int times)
{
	flows[0].end = flows[1].end = 100;
	while (flows[0].sent < 100 || flows[1].sent < 100) {
		send_some(&client, 8);
		send_some(&server, 8);
		both();
	}
	expect_whole();
	assert_int_equal(down[0], times);
	assert_int_equal(resumed[0], times);
	assert_int_equal(resumed[1], times);
}

static void takes_over(struct side *s)
{
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };

	connect_with(&twice);
	report(s, IBV_EVENT_PORT_ERR, s->ep->lane.port);
	assert_int_equal(rdmamsg_ep_path_query(s->ep, &path), 0);
	assert_false(path.standby);
	WAIT_FOR(resumed[0] && resumed[1]);
	expect_resumed(1);
	close_both();
}

static void connecting_side__standby_TAKES_OVER(void **state)
{
	takes_over(&client);
}

static void accepting_side__standby_TAKES_OVER(void **state)
{
	takes_over(&server);
}

static void port__of_another_lane_STAYS(void **state)
{
	connect_with(&twice);
	report(&client, IBV_EVENT_PORT_ERR, 2);
	expect_resumed(0);
	close_both();
}

static void port__active_STAYS(void **state)
{
	connect_with(&twice);
	report(&client, IBV_EVENT_PORT_ACTIVE, client.ep->lane.port);
	expect_resumed(0);
	close_both();
}

/* It is down as well. */
static void standby__on_the_same_port_STAYS(void **state)
{
	connect_with(&twice);
	client.ep->resume->carrier->lane.port = client.ep->lane.port;
	report(&client, IBV_EVENT_PORT_ERR, client.ep->lane.port);
	expect_resumed(0);
	close_both();
}

/* The port may come back before dead_after_ms. */
static void standby__none_STAYS(void **state)
{
	connect_with(&once);
	report(&client, IBV_EVENT_PORT_ERR, client.ep->lane.port);
	expect_resumed(0);
	close_both();
}

int main(void)
{
#define T(fn)	cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(connecting_side__standby_TAKES_OVER),
		T(accepting_side__standby_TAKES_OVER),
		T(port__of_another_lane_STAYS),
		T(port__active_STAYS),
		T(standby__on_the_same_port_STAYS),
		T(standby__none_STAYS),
	};

	join_own_fabric("port_down");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("port_down", tests, NULL, NULL);
}
