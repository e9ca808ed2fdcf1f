/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: dead_after_ms on devices whose completions tell nothing of the
 * peer, so that only its answers do.
 */
#include "dead.h"

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
		cut_then_send();
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

/* TCP takes the CLOSE, and nothing tells that the peer's host has it. */
static void alone__close_timeout_in_a_cut_IS_OF_THE_NETWORK(void **state)
{
	completions_alone(100000);
	opts.close_timeout_ms = 1000;
	start(&activities[0], 60000);
	steps(1000);
	nulldev_cut(true);
	rdmamsg_ep_close(client.ep);
	steps(4000);
	assert_true(client.closed);
	assert_true(client.why.cause == RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	stop_all();
}

/* A message waits for the peer, from which nothing has come for long. */
static void alone__close_timeout_in_a_cut_with_a_message_IS_OF_THE_NETWORK(
	void **state)
{
	struct rdmamsg_ep *ep;

	completions_alone(100000);
	opts.close_timeout_ms = 10000;
	start(&activities[0], 12000);
	steps(1000);
	nulldev_cut(true);
	ep = client.ep;
	rdmamsg_ep_hold(ep);
	ep->rndv.count++;
	rdmamsg_ep_close(ep);
	steps(11000);
	ep->rndv.count--;
	rdmamsg_ep_release(ep);
	assert_true(client.closed);
	assert_true(client.why.cause == RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	stop_all();
}

/* The peer's program answers, and does not close. */
static void alone__close_timeout_of_a_peer_IS_OF_THE_PEER(void **state)
{
	completions_alone(100000);
	opts.close_timeout_ms = 20000;
	start(&activities[0], 60000);
	/* its CLOSE waits for a message that the client never gets */
	server.ep->opts.close_timeout_ms = 100000;
	server.ep->rndv.count++;
	rdmamsg_ep_close(client.ep);
	steps(21000);
	server.ep->rndv.count--;
	assert_true(client.closed);
	assert_true(client.why.cause == RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	stop_all();
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

static void alone__stopped_both_THE_FIRST_WAITS(void **state)
{
	completions_alone(100000);
	both_stopped();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(alone__cut_for_good_CLOSES_IN_BOUNDS),
		TEST(alone__cut_shorter_LIVES_ON),
		TEST(alone__slow_but_progress_LIVES_ON),
		TEST(alone__none_NEVER_CLOSES),
		TEST(alone__close_in_a_cut_ENDS),
		TEST(alone__close_timeout_in_a_cut_IS_OF_THE_NETWORK),
		TEST(alone__close_timeout_in_a_cut_with_a_message_IS_OF_THE_NETWORK),
		TEST(alone__close_timeout_of_a_peer_IS_OF_THE_PEER),
		TEST(alone__busy_peer_shorter_LIVES_ON),
		TEST(alone__busy_peer_longer_CLOSES),
		TEST(alone__stopped_both_THE_FIRST_WAITS),
		TEST(alone__idle_SENDS_PINGS),
		TEST(alone__answered_SENDS_NO_PING),
		TEST(alone__at_the_end_POSTS_NOTHING),
		TEST(alone__by_default_WAITS_LONGER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
