/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: addresses that the accepting side announces. The other side
 * dials them when its lane is lost, beside the addresses that it was given.
 */
#include "../passing.h"
#include "lanes.h"
#include "soft/control/soft_ctl.h"

#include <rdmamsg/listener.h>

static struct rdmamsg_failover of_server, of_client;
static struct rdmamsg_listener *listeners[2];

/* The second listener is at 'second', and the client knows the first only. */
static void connect_to_first(const char *second)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = &server,
		.failover = &of_server,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&listeners[0]), 0);
	if (second)
		assert_int_equal(rdmamsg_listen(server.ctx,
						*second ? second : NULL, "0",
						&lopts, &listeners[1]), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(listeners[0]));
	opts.failover = &of_client;
	connect_client(&opts);
	WAIT_FOR(server.ep);
}

static const struct proto_addresses *announced(void)
{
	return &client.ep->resume->announced;
}

static uint16_t peer_port(void)
{
	struct proto_address a;

	rdmamsg__address_of(&client.ep->connect.peer_addr.any, &a);
	return a.port;
}

static void expect_traffic(void)
{
	flows[0].end += 50;
	flows[1].end += 50;
	while (flows[0].sent < flows[0].end || flows[1].sent < flows[1].end) {
		send_some(&client, 1);
		send_some(&server, 1);
		both();
	}
	expect_whole();
}

static int set_up_options(void **state)
{
	of_server = of_client = (struct rdmamsg_failover){
		.size = sizeof(of_server), .rungs = RDMAMSG_RUNG_LANE,
	};
	return set_up(state);
}

static void listener__of_first_address_gone_CONTINUES_AT_SECOND(void **state)
{
	connect_to_first("127.0.0.2");
	assert_int_equal(announced()->count, 1);
	assert_int_equal(announced()->at[0].port,
			 rdmamsg_listener_port(listeners[1]));
	rdmamsg_listener_close(listeners[0]);
	lose(&server);
	WAIT_FOR(resumed[0] && resumed[1]);
	assert_int_equal(peer_port(), rdmamsg_listener_port(listeners[1]));
	assert_int_equal(client.ep->resume->lane_target, TARGET_ANNOUNCED);
	expect_traffic();
	/* the second SETUP has announced the second listener again */
	lose(&client);
	WAIT_FOR(resumed[0] == 2 && resumed[1] == 2);
	expect_traffic();
	close_both();
}

static void listener__gone_THE_END_SAYS_WHAT_TRIES_MET(void **state)
{
	struct resume *r;
	char text[64];

	connect_to_first(NULL);
	rdmamsg_listener_close(listeners[0]);
	r = client.ep->resume;
	r->opts.timeout_ms = 3600000;
	lose(&client);
	WAIT_FOR(r->met[RDMAMSG_CAUSE_REFUSED] >= 3);
	(void)snprintf(text, sizeof(text), "tries: %u refused)",
		       r->met[RDMAMSG_CAUSE_REFUSED]);
	/* without one more try */
	r->again_at = UINT64_MAX;
	r->opts.timeout_ms = 1;
	rdmamsg__resume_wake(client.ep);
	WAIT_FOR(client.closed);
	assert_non_null(strstr(client.why.text,
			       "; no other way to the peer in 1 ms ("));
	assert_non_null(strstr(client.why.text, text));
}

/* The listener at an address ends with its device, that at none does not. */
static void device__of_first_address_gone_CONTINUES_AT_ANOTHER(void **state)
{
	struct soft_ctl *ctl;

	connect_to_first("");
	assert_true(announced()->count >= 1);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
	WAIT_FOR(down[0] && down[1]);
	assert_int_equal(soft_ctl_add(ctl, SOFT_CTL_ALL), 0);
	WAIT_FOR(resumed[0] && resumed[1]);
	assert_int_equal(peer_port(), rdmamsg_listener_port(listeners[1]));
	expect_traffic();
	soft_ctl_close(ctl);
	close_both();
}

/*
 * The second listener is away while a lane is made, as the addresses of a
 * device that is removed and added again.
 */
static void address__not_announced_again_IS_KEPT(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = &server,
		.failover = &of_server,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	char again[8];

	connect_to_first("127.0.0.2");
	(void)snprintf(again, sizeof(again), "%u",
		       rdmamsg_listener_port(listeners[1]));
	rdmamsg_listener_close(listeners[1]);
	lose(&server);
	WAIT_FOR(resumed[0] && resumed[1]);
	assert_int_equal(client.ep->resume->offered.count, 1);
	assert_int_equal(announced()->count, 1);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.2", again, &lopts,
					&listeners[1]), 0);
	rdmamsg_listener_close(listeners[0]);
	lose(&client);
	WAIT_FOR(resumed[0] == 2 && resumed[1] == 2);
	assert_int_equal(peer_port(), rdmamsg_listener_port(listeners[1]));
	expect_traffic();
	close_both();
}

/* Later announcements come first. */
static void addresses__more_than_fit_LATEST_KEPT(void **state)
{
	struct resume *r;

	of_server.announce = "127.0.0.2:1,127.0.0.2:2,127.0.0.2:3,127.0.0.2:4,"
			     "127.0.0.2:5,127.0.0.2:6";
	connect_to_first(NULL);
	r = client.ep->resume;
	assert_int_equal(announced()->count, 6);
	assert_int_equal(r->offered.count, 6);
	for (uint32_t i = 0; i < 6; i++)
		r->offered.at[i].port = (uint16_t)(i + 5);
	rdmamsg__targets_learn(client.ep);
	assert_int_equal(announced()->count, PROTO_ADDRESSES_MAX);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(announced()->at[i].port, i + 5);
	assert_int_equal(announced()->at[6].port, 1);
	assert_int_equal(announced()->at[7].port, 2);
	close_both();
}

static void both_passing(void)
{
	pass_when_idle(client.ctx, server.ctx, 10);
	both();
}

#define WAIT_PASSING(condition)	UNTIL_BY(both_passing(), condition)

/*
 * The server notices a network that loses packets, so it ends each lane. The
 * client meets the end first, and not a send that fails, because nothing is
 * under way then. No try is late, because the clock stands still meanwhile.
 */
static void lane__lost_again_at_the_same_address_TRIES_ANOTHER(void **state)
{
	connect_to_first("127.0.0.2");
	clock_stop();
	for (unsigned int i = 1; i <= 4; i++) {
		UNTIL_BY(both(), both_idle(client.ctx, server.ctx));
		lose(&server);
		WAIT_PASSING(resumed[0] == i && resumed[1] == i);
		assert_int_equal(client.ep->resume->why.who, RDMAMSG_WHO_PEER);
		/* first, second, second, first */
		assert_int_equal(peer_port(),
				 rdmamsg_listener_port(listeners[i / 2 % 2]));
	}
	clock_go();
	expect_traffic();
	close_both();
}

static void announced__address_STANDS_BY_there(void **state)
{
	of_client.rungs = RDMAMSG_RUNG_STANDBY;
	connect_to_first("127.0.0.2");
	for (unsigned int i = 1; i <= 4; i++) {
		WAIT_FOR(standby[0] == i && standby[1] == i);
		lose(i & 1 ? &client : &server);
		WAIT_FOR(resumed[0] == i && resumed[1] == i);
		assert_int_equal(peer_port(),
				 rdmamsg_listener_port(listeners[i & 1]));
		expect_traffic();
	}
	close_both();
}

static void announce__off_NO_ADDRESS(void **state)
{
	of_server.announce = "";
	connect_to_first("127.0.0.2");
	assert_int_equal(announced()->count, 0);
	close_both();
}

static void announce__list_IS_TOLD(void **state)
{
	of_server.announce = "127.0.0.7,127.0.0.8:77,[::1]:78";
	connect_to_first(NULL);
	assert_int_equal(announced()->count, 3);
	assert_int_equal(announced()->at[0].port,
			 rdmamsg_listener_port(listeners[0]));
	assert_int_equal(announced()->at[0].ip[3], 7);
	assert_int_equal(announced()->at[1].port, 77);
	assert_int_equal(announced()->at[2].kind, 6);
	assert_int_equal(announced()->at[2].port, 78);
	close_both();
}

static void given_only__IGNORES_addresses(void **state)
{
	of_client.flags = RDMAMSG_FAILOVER_GIVEN_ONLY;
	connect_to_first("127.0.0.2");
	assert_int_equal(client.ep->resume->offered.count, 2);
	assert_int_equal(announced()->count, 0);
	close_both();
}

/* Nobody listens there, or another host has the address. */
static void announced__lies_ONE_TRY_EACH_then_first(void **state)
{
	of_server.announce = "127.0.0.9:9,192.0.2.1:9,192.0.2.2:9,192.0.2.3:9,"
			     "192.0.2.4:9,192.0.2.5:9,192.0.2.6:9,192.0.2.7:9";
	connect_to_first(NULL);
	assert_int_equal(announced()->count, PROTO_ADDRESSES_MAX);
	lose(&client);
	WAIT_FOR(resumed[0] && resumed[1]);
	assert_int_equal(client.ep->resume->tries, PROTO_ADDRESSES_MAX + 1);
	assert_int_equal(client.ep->resume->lane_target, TARGET_FIRST);
	expect_traffic();
	close_both();
}

/* Each address is tried once, and then the session ends with the reason. */
static void announced__lies_and_session_unknown_ENDS(void **state)
{
	of_server.announce = "127.0.0.9:9,192.0.2.1:9";
	of_client.timeout_ms = 3600000;
	connect_to_first(NULL);
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
}

static void announced__loopback_by_another_host_IGNORED(void **state)
{
	struct sockaddr_in *peer;

	connect_to_first("127.0.0.2");
	peer = &client.ep->connect.peer_addr.v4;
	peer->sin_addr.s_addr = htonl(0xc0000201);
	rdmamsg__targets_learn(client.ep);
	assert_int_equal(announced()->count, 0);
	close_both();
}

static void next__target_ALL_IN_TURN(void **state)
{
	char other[] = "other";
	struct resume r = { .announced.count = 2 };

	assert_int_equal(rdmamsg__targets_count(&r), 3);
	assert_int_equal(rdmamsg__target_next(&r, TARGET_FIRST),
			 TARGET_ANNOUNCED);
	assert_int_equal(rdmamsg__target_next(&r, TARGET_ANNOUNCED),
			 TARGET_ANNOUNCED + 1);
	assert_int_equal(rdmamsg__target_next(&r, TARGET_ANNOUNCED + 1),
			 TARGET_FIRST);
	assert_int_equal(rdmamsg__target_next(&r, TARGET_NONE), TARGET_FIRST);
	r.host = other;
	assert_int_equal(rdmamsg__targets_count(&r), 4);
	assert_int_equal(rdmamsg__target_next(&r, TARGET_FIRST), TARGET_OTHER);
	assert_int_equal(rdmamsg__target_next(&r, TARGET_OTHER),
			 TARGET_ANNOUNCED);
	r.announced.count = 0;
	assert_int_equal(rdmamsg__target_next(&r, TARGET_OTHER), TARGET_FIRST);
	assert_int_equal(rdmamsg__target_next(&r, TARGET_ANNOUNCED + 1),
			 TARGET_FIRST);
	r.host = NULL;
	assert_int_equal(rdmamsg__target_next(&r, TARGET_FIRST), TARGET_FIRST);
}

static void announce__of_no_use_REFUSED(void **state)
{
	static const char *const lists[] = {
		",", "127.0.0.1,", "host", "127.0.0.1:0", "127.0.0.1:65536",
		"127.0.0.1:+1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::",
		"fe80::1", "ff02::1", "::ffff:127.0.0.1", "[::1]", "[::1]7",
		"[::1",
		("1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,"
		 "1.1.1.7,1.1.1.8,1.1.1.9"),
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &of_server,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		of_server.announce = lists[i];
		if (rdmamsg_listen(client.ctx, "127.0.0.1", "0", &lopts,
				   NULL) != -EINVAL ||
		    !strstr(rdmamsg_error(), "announce"))
			fail_msg("'%s': %s", lists[i], rdmamsg_error());
	}
}

static void source__of_no_use_REFUSED(void **state)
{
	/* the last is of a network for examples in texts */
	static const char *const sources[] = { "", "host", "192.0.2.1" };
	struct rdmamsg_failover f = {
		.size = sizeof(f), .host = "127.0.0.1",
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .failover = &f,
	};

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		f.source = sources[i];
		if (rdmamsg_connect(client.ctx, "127.0.0.1", "9", &opts,
				    NULL) != -EINVAL ||
		    !strstr(rdmamsg_error(), "source"))
			fail_msg("'%s': %s", sources[i], rdmamsg_error());
	}
}

#define TEST(name)							\
	cmocka_unit_test_setup_teardown(name, set_up_options, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(listener__of_first_address_gone_CONTINUES_AT_SECOND),
		TEST(listener__gone_THE_END_SAYS_WHAT_TRIES_MET),
		TEST(device__of_first_address_gone_CONTINUES_AT_ANOTHER),
		TEST(address__not_announced_again_IS_KEPT),
		TEST(addresses__more_than_fit_LATEST_KEPT),
		TEST(lane__lost_again_at_the_same_address_TRIES_ANOTHER),
		TEST(announced__address_STANDS_BY_there),
		TEST(announce__off_NO_ADDRESS),
		TEST(announce__list_IS_TOLD),
		TEST(given_only__IGNORES_addresses),
		TEST(announced__lies_ONE_TRY_EACH_then_first),
		TEST(announced__lies_and_session_unknown_ENDS),
		TEST(announced__loopback_by_another_host_IGNORED),
		cmocka_unit_test(next__target_ALL_IN_TURN),
		TEST(announce__of_no_use_REFUSED),
		TEST(source__of_no_use_REFUSED),
	};

	join_own_fabric("targets");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("targets", tests, NULL, NULL);
}
