/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: dead_after_ms on a device that can be cut, against the test's
 * own clock. A cut of dead_after_ms ends the connection, and a shorter cut does
 * not, whatever the connection is doing.
 */
#include "dead.h"

#define SOFT_ROCE	0xffffffu		/* vendor ids of the devices */
#define SOFT		0x50f7cau

/* ---- cuts ------------------------------------------------------------- */

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

static void cut__then_one_send_CLOSES_IN_BOUNDS(void **state)
{
	cut_then_send();
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

static void stopped__both_THE_FIRST_WAITS(void **state)
{
	both_stopped();
}

static uint64_t end_of(const struct side *s)
{
	return s->ep->live.dead.since + opts.dead_after_ms;
}

/* The stop begins just before the last tick. */
static void stopped__at_the_end_THE_DEVICE_TRIES_AGAIN(void **state)
{
	start(&activities[0], 1000);
	steps(2100);
	nulldev_cut(true);
	steps(300);
	while (now + step < min(end_of(&client), end_of(&server)))
		steps(step);
	now += 10000;
	steps(step);
	check_open("right after it was stopped");
	nulldev_cut(false);
	steps(3000);
	check_open("after it was stopped");
	stop_all();
}

/* Stopped again and again, each time for longer than dead_after_ms. */
static void stopped__often_COUNTS_WHAT_RAN(void **state)
{
	start(&activities[3], 1000);
	steps(2100);
	nulldev_cut(true);
	for (int i = 0; i < 4; i++) {
		steps(200);
		now += 10000;
	}
	check_open("after 800 ms");
	check_closes(&client, now, 0, 452 + SLACK_MS);
	stop_all();
}

/* The peer's program was silent for 100 ms, and both were stopped then. */
static void stopped__both_IS_NO_SILENCE(void **state)
{
	tuning.peer_timeout_ms = 1000;
	tuning.stall_after_ms = RDMAMSG_NONE;
	start(&activities[0], 20000);
	steps(2100);
	client_steps(100);
	now += 100000;
	client_steps(300);
	check_open("when one of two goes on");
	steps(3000);
	check_open("after both were stopped");
	client_steps(1600);
	assert_true(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_SILENT);
	stop_all();
	tuning.peer_timeout_ms = tuning.stall_after_ms = 0;
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
				tuning.retry_count = n;
				a = transport(vendors[v]);
				assert_int_equal(a.retry_cnt, n);
				assert_true(tries_ns(&a) >= ns);
				/* the total stays below twice the minimum */
				assert_true(tries_ns(&a) < 2 * ns);
			}
	tuning.retry_count = 0;
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
		tuning.retry_count = 3;
		a = transport(SOFT_ROCE);
		assert_int_equal(a.retry_cnt, 3);
		assert_true(tries_ns(&a) >= deads[i] * 1000000ull);
		tuning.retry_count = 0;
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
	tuning.ack_timeout = 9;
	for (int v = 0; v < 3; v++) {
		struct ibv_qp_attr a;

		tuning.retry_count = 2;
		a = transport(vendors[v]);
		assert_int_equal(a.timeout, 9);
		assert_int_equal(a.retry_cnt, 2);
		tuning.retry_count = RDMAMSG_NONE;
		assert_int_equal(transport(vendors[v]).retry_cnt, 0);
		tuning.retry_count = 0;
	}
	tuning.ack_timeout = 0;
}

static void rnr__of_a_peer_with_receives_IS_FINITE(void **state)
{
	assert_int_equal(transport(1).rnr_retry, 6);
	tuning.rnr_retry_count = 7;
	assert_int_equal(transport(1).rnr_retry, 7);
	tuning.rnr_retry_count = 3;
	assert_int_equal(transport(1).rnr_retry, 3);
	tuning.rnr_retry_count = RDMAMSG_NONE;
	assert_int_equal(transport(1).rnr_retry, 0);
	tuning.rnr_retry_count = 0;
}

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
		TEST(stopped__both_THE_FIRST_WAITS),
		TEST(stopped__at_the_end_THE_DEVICE_TRIES_AGAIN),
		TEST(stopped__often_COUNTS_WHAT_RAN),
		TEST(stopped__both_IS_NO_SILENCE),
		TEST(callback__takes_long_LIVES_ON),
		TEST(port__down_on_soft_roce_SENDS_NO_KEEPALIVE),
		TEST(transport__of_hardware_LASTS_AS_LONG),
		TEST(transport__of_soft_roce_TRIES_WITHOUT_END),
		TEST(transport__as_given_IS_TAKEN),
		TEST(rnr__of_a_peer_with_receives_IS_FINITE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
