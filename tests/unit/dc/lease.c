/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a message over DC is delivered only if the target has not
 * forgotten its sender, which the sender asks. Without an answer the message
 * ends with an error.
 */
#include "config.h"

#include "../../dc_post.h"
#include "../own_fabric.h"
#include "pair.h"
#include "base/base.h"
#include "base/list.h"
#include "dc/dc.h"
#include "dc/flight.h"
#include "dc/lease.h"
#include "dc/port.h"
#include "dc/session.h"
#include "dc/visit.h"
#include "wire/dc_frame.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rma.h>

#define MOST_TICKS	39u	/* of silence; the target ends after one more */

static struct dc_session *session(void)
{
	return address->session;
}

static struct visitor *visitor(void)
{
	return list_first(&target->visitors, struct visitor, node);
}

/* Only the sender's loop runs. Its messages are complete for its device. */
static void sender_alone(int ms)
{
	for (uint64_t end = rdmamsg__now_ms() + (uint64_t)ms;
	     rdmamsg__now_ms() < end; )
		assert_true(rdmamsg_wait(near, 10) >= 0);
}

static unsigned int in_doubt(void)
{
	const struct list *n, *l[] = {
		&session()->lease.asked_for, &session()->lease.doubts,
	};
	unsigned int count = 0;

	for (int i = 0; i < 2; i++)
		for (n = l[i]->next; n != l[i]; n = n->next)
			count++;
	return count;
}

static void send_without_lease(void)
{
	session()->lease.until = 1;
	status = 1;
	assert_int_equal(rdmamsg_dc_send(address, "x", 1, 0, &status), 0);
}

static void send_in_doubt(void)
{
	const unsigned int before = in_doubt();

	send_without_lease();
	UNTIL(near, in_doubt() == before + 1);
}

/* As start(), and nothing is left to ask for. */
static int start_calm(void **state)
{
	start(state);
	WAIT_FOR(!session()->lease.out);
	session()->lease.number = session()->number;
	session()->lease.ticks = 0;
	return 0;
}

/* A context that is closed ends what is left of it. */
static int close_all(void **state)
{
	(void)state;
	rdmamsg_close(near);
	rdmamsg_close(far);
	return 0;
}

static void forget_sender(void)
{
	visitor()->ended = true;
	WAIT_FOR(!target->sessions);
}

static void expect_failure(unsigned int count)
{
	session()->quiet = MOST_TICKS;
	WAIT_FOR(failed == 1 && completed == count);
	assert_true(status < 0);
}

/* The message behind that of start() has arrived, and is complete. */
static void expect_delivered(void)
{
	assert_int_equal(completed, 2);
	assert_int_equal(status, 0);
	assert_int_equal(messages, 2);
}

/* ---- tests ------------------------------------------------------------- */

static void completion__after_the_lease_WAITS_FOR_AN_ANSWER(void **state)
{
	const uint32_t ask = session()->lease.ask;

	send_in_doubt();
	sender_alone(100);
	assert_int_equal(completed, 1);
	assert_int_equal(messages, 1);
	WAIT_FOR(completed == 2);
	expect_delivered();
	assert_int_equal(session()->lease.ask, ask + 1);
	/* the answer begins another lease */
	send_one();
	assert_int_equal(session()->lease.ask, ask + 1);
}

static void completion__several_in_doubt_ALL_COMPLETE(void **state)
{
	for (int i = 0; i < 4; i++)
		send_in_doubt();
	assert_int_equal(completed, 1);
	WAIT_FOR(completed == 5);
	assert_int_equal(messages, 5);
	assert_int_equal(status, 0);
	assert_int_equal(failed, 0);
}

static void completion__without_a_cookie_IS_NOT_IN_DOUBT(void **state)
{
	session()->lease.until = 1;
	assert_int_equal(rdmamsg_dc_send(address, "x", 1, 0, NULL), 0);
	WAIT_FOR(messages == 2);
	sender_alone(700);
	assert_int_equal(in_doubt(), 0);
}

static void completion__target_has_forgotten_NO_SUCCESS(void **state)
{
	forget_sender();
	send_in_doubt();
	send_in_doubt();
	expect_failure(3);
	assert_int_equal(messages, 1);
	/* the next message finds the target again */
	failed = 0;
	send_one();
	assert_int_equal(target->sessions, 1);
}

/* The target takes the BYE when it goes on, and keeps no session for nobody. */
static void target__stopped_for_long_ENDS_WITH_BYE(void **state)
{
	send_in_doubt();
	session()->quiet = MOST_TICKS;
	UNTIL(near, failed == 1 && completed == 2);
	assert_int_equal(status, -ECANCELED);
	WAIT_FOR(!target->sessions && !sender->session_count);
	assert_int_equal(messages, 2);
}

/* Nobody waits for the message, but its sender is told. */
static void message__without_a_cookie_LOSS_IS_TOLD(void **state)
{
	forget_sender();
	assert_int_equal(rdmamsg_dc_send(address, "x", 1, 0, NULL), 0);
	WAIT_FOR(session()->lease.out);
	session()->quiet = MOST_TICKS;
	WAIT_FOR(failed == 1);
	assert_int_equal(messages, 1);
}

static void answer__to_another_ask_CHANGES_NOTHING(void **state)
{
	struct dc_frame f = { .type = DCF_CREDIT };

	send_in_doubt();
	f.tag = session()->lease.ask - 1;
	rdmamsg__flight_answered(session(), &f);
	assert_int_equal(completed, 1);
	assert_true(session()->lease.out);
	WAIT_FOR(completed == 2);
	/* nobody has asked */
	f.tag = session()->lease.ask;
	session()->lease.until = 1;
	rdmamsg__flight_answered(session(), &f);
	assert_int_equal(session()->lease.until, 1);
}

/* It is an answer for what came before the ASK, and for nothing else. */
static void answer__later_than_the_lease_IS_FOR_WHAT_WAS_BEFORE(void **state)
{
	struct dc_frame f = { .type = DCF_CREDIT };

	send_in_doubt();
	assert_true(session()->lease.out);
	send_in_doubt();
	f.tag = session()->lease.ask;
	session()->lease.asked = 1;
	rdmamsg__flight_answered(session(), &f);
	assert_int_equal(completed, 2);
	assert_int_equal(status, 0);
	assert_int_equal(in_doubt(), 1);
	assert_true(session()->lease.due);
	WAIT_FOR(completed == 3);
	assert_int_equal(status, 0);
	assert_int_equal(messages, 3);
}

static void answer__from_a_target_that_refuses_IS_NONE(void **state)
{
	session()->lease.out = true;
	session()->lease.ask = visitor()->asked = 7;
	visitor()->reason = 1;
	visitor()->probe_due = true;
	WAIT_FOR(!visitor()->probe_due);
	both_for(200);
	assert_true(session()->lease.out);
	visitor()->reason = 0;
}

/* 0 is no number of an ASK. */
static void ask__numbers_wrap_ARE_NOT_0(void **state)
{
	session()->lease.ask = UINT32_MAX;
	send_in_doubt();
	assert_int_equal(session()->lease.ask, 1);
	WAIT_FOR(completed == 2);
	assert_int_equal(status, 0);
}

static void ask__busy_and_idle_sender_ONLY_WHEN_BUSY(void **state)
{
	const uint64_t began = rdmamsg__now_ms();
	const uint32_t asks = session()->lease.ask + 3;

	while (session()->lease.ask < asks) {
		send_one();
		sender_alone(50);
	}
	assert_true(rdmamsg__now_ms() - began >= 2000);
	/* the last messages are asked for once */
	WAIT_FOR(!session()->lease.out &&
		 session()->lease.number == session()->number);
	assert_in_range(session()->lease.ask, asks, asks + 1);
	both_for(2000);
	assert_in_range(session()->lease.ask, asks, asks + 1);
	assert_false(session()->lease.out);
}

/* The target goes after all messages that it has answered for. */
static void doubt__target_is_destroyed_DELIVERED(void **state)
{
	send_in_doubt();
	rdmamsg_dc_target_destroy(target);
	WAIT_FOR(gone == 1);
	expect_delivered();
}

static void doubt__sender_is_destroyed_DELIVERED(void **state)
{
	send_in_doubt();
	rdmamsg_dc_sender_destroy(sender);
	/* no BYE before the answer */
	sender_alone(100);
	assert_int_equal(completed, 1);
	WAIT_FOR(gone == 1);
	expect_delivered();
}

/* The message is not complete when its sender is about to say BYE. */
static void under_way__sender_is_destroyed_DELIVERED(void **state)
{
	send_without_lease();
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	expect_delivered();
}

static void under_way__target_is_destroyed_DELIVERED(void **state)
{
	rdmamsg_dc_target_destroy(target);
	send_without_lease();
	WAIT_FOR(gone == 1);
	expect_delivered();
}

static void doubt__address_is_destroyed_DELIVERED(void **state)
{
	send_in_doubt();
	rdmamsg_dc_address_destroy(address);
	WAIT_FOR(completed == 2);
	expect_delivered();
}

static void doubt__context_is_closed_ENDS(void **state)
{
	send_in_doubt();
	rdmamsg_close(near);
	assert_int_equal(completed, 2);
	assert_true(status < 0);
	assert_int_equal(rdmamsg_open(&near, NULL), 0);
	rdmamsg_dc_target_destroy(target);
	WAIT_FOR(gone == 2);
}

/* A target that may go before the lease would end gives none. */
static void farewell__late_NO_ANSWER(void **state)
{
	visitor()->leaves = true;
	visitor()->farewell = 10;
	send_in_doubt();
	expect_failure(2);
}

/* The queue pair of an answer fails, and nothing is heard any more. */
static void visitor__answers_fail_KEPT_AS_LONG_AS_ANY_LEASE(void **state)
{
	uint64_t began;

	send_one();
	visitor()->deaf = true;
	visitor()->quiet = 0;
	began = rdmamsg__now_ms();
	UNTIL(far, !target->sessions);
	assert_true(rdmamsg__now_ms() - began >= DCF_FORGET_MS);
	assert_true(rdmamsg__now_ms() >= session()->lease.until);
}

static void visitor__is_heard_again_KEPT(void **state)
{
	visitor()->deaf = true;
	visitor()->quiet = DCF_FORGET_MS / PORT_TICK_MS - 1;
	send_one();
	assert_false(visitor()->deaf);
	both_for(1500);
	assert_int_equal(target->sessions, 1);
}

/* ---- a write that tells the target ------------------------------------- */

static uint64_t memory[8];
static unsigned int written;

static void on_written(struct rdmamsg_dc_target *t, uint32_t value,
		       uint64_t from)
{
	(void)t;
	(void)from;
	written += value == 5;
}

static void write_in_doubt(struct rdmamsg_key *key)
{
	const struct rdmamsg_sge from = { "12345678", 8, NULL };

	session()->lease.until = 1;
	status = 1;
	assert_int_equal(dc_notify(address, &from, 1, key, 0, 5, 0, &status),
			 0);
	UNTIL(near, in_doubt() == 1);
}

static void write_imm__in_doubt_ANSWERED_OR_NO_SUCCESS(void **state)
{
	struct rdmamsg_region *region;
	struct rdmamsg_key key;

	target->opts.on_written = on_written;
	assert_int_equal(rdmamsg_region_create(far, memory, sizeof(memory),
					       RDMAMSG_ACCESS_WRITE, &region),
			 0);
	assert_int_equal(rdmamsg_dc_target_get_key(target, region, &key), 0);
	written = 0;
	write_in_doubt(&key);
	assert_int_equal(completed, 1);
	WAIT_FOR(completed == 2);
	assert_int_equal(status, 0);
	assert_int_equal(written, 1);

	forget_sender();
	write_in_doubt(&key);
	expect_failure(3);
	assert_int_equal(written, 1);
	rdmamsg_region_destroy(region);
}

int main(void)
{
#ifndef HAVE_MLX5DV
	fprintf(stderr, "skip: built without infiniband/mlx5dv.h\n");
	return 77;
#endif
#define WITH_BOTH(fn)	cmocka_unit_test_setup_teardown(fn, start_calm, \
						       finish)
#define WITH_START(fn)	cmocka_unit_test_setup_teardown(fn, start_calm, \
						       close_all)
	const struct CMUnitTest tests[] = {
		WITH_BOTH(completion__after_the_lease_WAITS_FOR_AN_ANSWER),
		WITH_BOTH(completion__several_in_doubt_ALL_COMPLETE),
		WITH_BOTH(completion__without_a_cookie_IS_NOT_IN_DOUBT),
		WITH_BOTH(completion__target_has_forgotten_NO_SUCCESS),
		WITH_BOTH(target__stopped_for_long_ENDS_WITH_BYE),
		WITH_BOTH(message__without_a_cookie_LOSS_IS_TOLD),
		WITH_BOTH(answer__to_another_ask_CHANGES_NOTHING),
		WITH_BOTH(answer__later_than_the_lease_IS_FOR_WHAT_WAS_BEFORE),
		WITH_BOTH(answer__from_a_target_that_refuses_IS_NONE),
		WITH_BOTH(ask__numbers_wrap_ARE_NOT_0),
		WITH_BOTH(ask__busy_and_idle_sender_ONLY_WHEN_BUSY),
		WITH_START(doubt__target_is_destroyed_DELIVERED),
		WITH_START(doubt__sender_is_destroyed_DELIVERED),
		WITH_BOTH(doubt__address_is_destroyed_DELIVERED),
		WITH_START(doubt__context_is_closed_ENDS),
		WITH_START(under_way__sender_is_destroyed_DELIVERED),
		WITH_START(under_way__target_is_destroyed_DELIVERED),
		WITH_BOTH(farewell__late_NO_ANSWER),
		WITH_BOTH(visitor__answers_fail_KEPT_AS_LONG_AS_ANY_LEASE),
		WITH_BOTH(visitor__is_heard_again_KEPT),
		WITH_BOTH(write_imm__in_doubt_ANSWERED_OR_NO_SUCCESS),
	};

	join_own_fabric("lease");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
