/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a message over DC is delivered only if the target has not
 * forgotten its sender, which the sender asks. Without an answer the message
 * ends with an error.
 */
#include "../own_fabric.h"
#include "pair.h"
#include "base/base.h"
#include "dc/dc.h"
#include "dc/session.h"
#include "dc/visit.h"
#include "wire/dc_frame.h"

#include <errno.h>
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

static void send_in_doubt(void)
{
	session()->lease.until = 1;
	status = 1;
	assert_int_equal(rdmamsg_dc_send(address, "x", 1, 0, &status), 0);
	UNTIL(near, !list_empty(&session()->lease.doubts));
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

/* ---- tests ------------------------------------------------------------- */

static void completion__after_the_lease_WAITS_FOR_AN_ANSWER(void **state)
{
	const uint32_t ask = session()->lease.ask;

	send_in_doubt();
	sender_alone(100);
	assert_int_equal(completed, 1);
	assert_int_equal(messages, 1);
	WAIT_FOR(completed == 2);
	assert_int_equal(status, 0);
	assert_int_equal(messages, 2);
	assert_int_equal(session()->lease.ask, ask + 1);
	/* the answer begins another lease */
	send_one();
	assert_int_equal(session()->lease.ask, ask + 1);
}

static void completion__several_in_doubt_IN_ORDER(void **state)
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
	assert_true(list_empty(&session()->lease.doubts));
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
	rdmamsg__lease_credit(session(), &f);
	assert_int_equal(completed, 1);
	assert_true(session()->lease.out);
	/* an answer that is as late as the lease is long */
	f.tag = session()->lease.ask;
	session()->lease.asked = 1;
	rdmamsg__lease_credit(session(), &f);
	assert_int_equal(completed, 1);
	assert_true(session()->lease.due);
	/* nobody has asked */
	rdmamsg__lease_credit(session(), &f);
	WAIT_FOR(completed == 2);
	assert_int_equal(status, 0);
	assert_int_equal(messages, 2);
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
	uint64_t end = rdmamsg__now_ms() + DCF_FORGET_MS;
	uint32_t asks = session()->lease.ask;

	while (rdmamsg__now_ms() < end) {
		send_one();
		sender_alone(50);
		assert_true(list_empty(&session()->lease.doubts));
	}
	asks = session()->lease.ask - asks;
	assert_in_range(asks, 2, DCF_FORGET_MS / 1000);
	WAIT_FOR(!session()->lease.out);
	/* the last messages are asked for once */
	for (int i = 0; i < 3; i++) {
		asks = session()->lease.ask;
		for (end = rdmamsg__now_ms() + 2000; rdmamsg__now_ms() < end; )
			both();
	}
	assert_int_equal(session()->lease.ask, asks);
}

/* The target goes after all messages that it has answered for. */
static void doubt__target_is_destroyed_DELIVERED(void **state)
{
	send_in_doubt();
	rdmamsg_dc_target_destroy(target);
	WAIT_FOR(gone == 1);
	assert_int_equal(completed, 2);
	assert_int_equal(status, 0);
	assert_int_equal(messages, 2);
}

static void doubt__sender_is_destroyed_DELIVERED(void **state)
{
	send_in_doubt();
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	assert_int_equal(completed, 2);
	assert_int_equal(status, 0);
	assert_int_equal(messages, 2);
}

static void doubt__address_is_destroyed_DELIVERED(void **state)
{
	send_in_doubt();
	rdmamsg_dc_address_destroy(address);
	WAIT_FOR(completed == 2);
	assert_int_equal(status, 0);
	assert_int_equal(messages, 2);
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

/* A target that leaves, and has refused the sender, answers for nothing. */
static void farewell__late_or_after_an_error_NO_ANSWER(void **state)
{
	visitor()->leaves = true;
	visitor()->farewell = 10;
	send_in_doubt();
	expect_failure(2);
}

/* The queue pair of an answer fails, and nothing is heard any more. */
static void visitor__answers_fail_KEPT_AS_LONG_AS_ANY_LEASE(void **state)
{
	const uint64_t before = rdmamsg__now_ms();
	uint64_t began = before;

	send_one();
	began = rdmamsg__now_ms();
	visitor()->deaf = true;
	while (target->sessions)
		assert_true(rdmamsg_wait(far, 10) >= 0);
	assert_true(rdmamsg__now_ms() - began >= DCF_FORGET_MS);
	assert_true(session()->lease.until < before + DCF_FORGET_MS);
}

static void visitor__is_heard_again_KEPT(void **state)
{
	visitor()->deaf = true;
	visitor()->quiet = DCF_FORGET_MS / 500;
	send_one();
	assert_false(visitor()->deaf);
	for (uint64_t end = rdmamsg__now_ms() + 1500;
	     rdmamsg__now_ms() < end; )
		both();
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
	assert_int_equal(rdmamsg_dc_write_imm(address, &from, 1, key, 0, 5, 0,
					      &status), 0);
	UNTIL(near, !list_empty(&session()->lease.doubts));
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
#define WITH_BOTH(fn)	cmocka_unit_test_setup_teardown(fn, start, finish)
	const struct CMUnitTest tests[] = {
		WITH_BOTH(completion__after_the_lease_WAITS_FOR_AN_ANSWER),
		WITH_BOTH(completion__several_in_doubt_IN_ORDER),
		WITH_BOTH(completion__without_a_cookie_IS_NOT_IN_DOUBT),
		WITH_BOTH(completion__target_has_forgotten_NO_SUCCESS),
		WITH_BOTH(message__without_a_cookie_LOSS_IS_TOLD),
		WITH_BOTH(answer__to_another_ask_CHANGES_NOTHING),
		WITH_BOTH(ask__numbers_wrap_ARE_NOT_0),
		WITH_BOTH(ask__busy_and_idle_sender_ONLY_WHEN_BUSY),
		cmocka_unit_test_setup(doubt__target_is_destroyed_DELIVERED,
				       start),
		cmocka_unit_test_setup(doubt__sender_is_destroyed_DELIVERED,
				       start),
		WITH_BOTH(doubt__address_is_destroyed_DELIVERED),
		cmocka_unit_test_setup(doubt__context_is_closed_ENDS, start),
		WITH_BOTH(farewell__late_or_after_an_error_NO_ANSWER),
		WITH_BOTH(visitor__answers_fail_KEPT_AS_LONG_AS_ANY_LEASE),
		WITH_BOTH(visitor__is_heard_again_KEPT),
		WITH_BOTH(write_imm__in_doubt_ANSWERED_OR_NO_SUCCESS),
	};

	join_own_fabric("lease");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
