/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: timeout_ms of rdmamsg_post() on one connection. */
#include "op_timeout.h"
#include "wire/proto.h"

#include <rdmamsg/flow.h>

/* ---- those that wait --------------------------------------------------- */

static void send__in_the_queue_IS_TAKEN_BACK(void **state)
{
	uint32_t n;

	connect_still();
	n = use_credits();
	send_it(100, n);
	send_it(LARGE, n + 1);
	assert_int_equal(rdmamsg_send(client.ep, data, 8, n + 2, NULL), 0);
	pass(TIMEOUT);
	assert_int_equal(told[n].complete, 0);
	pass(2);
	check(&told[n], RDMAMSG_TIMED_OUT);
	check(&told[n + 1], RDMAMSG_TIMED_OUT);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(server.messages == n + 1);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(got[i], i);
	assert_int_equal(got[n], n + 2);
	pass(TIMEOUT);
	assert_int_equal(server.messages, n + 1);
	check(&told[n], RDMAMSG_TIMED_OUT);
}

/* Behind a message that has no credit. */
static void onesided__in_the_queue_IS_TAKEN_BACK(void **state)
{
	struct rdmamsg_sge s = { &here[1], 8, NULL };

	here[1] = 7;
	connect_still();
	s.region = from;
	(void)use_credits();
	for (uint32_t k = RDMAMSG_OP_WRITE; k <= RDMAMSG_OP_FLUSH; k++)
		post_it(op_of(k, &s), &told[k]);
	assert_int_equal(rdmamsg_region_destroy(from), -EBUSY);
	pass(TIMEOUT + 2);
	for (uint32_t k = RDMAMSG_OP_WRITE; k <= RDMAMSG_OP_FLUSH; k++)
		check(&told[k], RDMAMSG_TIMED_OUT);
	/* nothing is lent any more */
	assert_int_equal(rdmamsg_region_destroy(from), 0);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(!client.ep->send.queued);
	let_work(10);
	assert_int_equal(there[0], 40);
	assert_int_equal(here[1], 7);
}

/* ---- those that have begun --------------------------------------------- */

static void send__announced_IS_OVERDUE_AND_ARRIVES(void **state)
{
	connect_still();
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	send_it(LARGE, 0);
	let_work(5);
	pass(TIMEOUT + 2);
	assert_int_equal(told[0].complete, 1);
	assert_int_equal(told[0].status, RDMAMSG_OVERDUE);
	assert_int_equal(rdmamsg_ep_cancel(client.ep, &told[0]), -ENOENT);
	pass(TIMEOUT);
	assert_int_equal(told[0].late, 0);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(server.messages == 1 && told[0].late);
	check_late(&told[0], 0);
}

static void posted__each_kind_IS_OVERDUE_AND_ENDS(void **state)
{
	struct rdmamsg_op op;
	struct rdmamsg_sge s = { &here[1], 8, NULL };

	connect_still();
	s.region = from;
	there[0] = 40;
	hold();
	post_it(op_of(RDMAMSG_OP_READ, &s), &told[1]);
	s.data = &here[2];
	here[2] = 42;
	op = op_of(RDMAMSG_OP_WRITE, &s);
	op.offset = 64;
	post_it(op, &told[2]);
	post_it(op_of(RDMAMSG_OP_FLUSH, NULL), &told[3]);
	send_it(8, 4);
	send_it(ROOM, 5);
	let_work(10);
	pass(TIMEOUT + 2);
	for (uint32_t i = 1; i < 6; i++) {
		assert_int_equal(told[i].status, RDMAMSG_OVERDUE);
		assert_int_equal(told[i].late, 0);
	}
	assert_int_equal(rdmamsg_region_destroy(from), -EBUSY);
	held = NULL;
	WAIT_FOR(told[5].late);
	for (uint32_t i = 1; i < 6; i++)
		check_late(&told[i], 0);
	assert_int_equal(here[1], 40);
	assert_int_equal(there[8], 42);
	assert_int_equal(rdmamsg_region_destroy(from), 0);
}

/*
 * A read that waits for its turn asks the peer's large messages to leave it one.
 * If the read is taken back, they go on.
 */
static void read__taken_back_LARGE_MESSAGES_GO_ON(void **state)
{
	static const struct rdmamsg_ep_tuning one = {
		.size = sizeof(one), .initiator_depth = 1, .max_copy = LARGE,
	};
	static uint8_t far[LARGE];
	struct rdmamsg_region *all, *near;
	struct rdmamsg_sge s = { data, LARGE };
	struct rdmamsg_op op;

	opts.tuning = &one;
	connect_still();
	assert_int_equal(rdmamsg_region_create(server.ctx, far, LARGE,
					       RDMAMSG_ACCESS_READ, &all), 0);
	assert_int_equal(rdmamsg_region_get_key(all, server.ep, &key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, data, LARGE,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &near), 0);
	assert_int_equal(rdmamsg_region_register(near, client.ep), 0);
	s.region = near;
	hold();
	op = op_of(RDMAMSG_OP_READ, &s);
	op.size = sizeof(op);
	assert_int_equal(post(&op), 0);		/* uses the depth */
	post_it(op, &told[1]);
	pass(TIMEOUT + 2);
	check(&told[1], RDMAMSG_TIMED_OUT);
	held = NULL;
	clock_go();
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_send(server.ep, far, LARGE, i, NULL),
				 0);
	WAIT_FOR(client.messages == 3);
	check(&told[1], RDMAMSG_TIMED_OUT);
}

static void check_atomics(void)
{
	struct rdmamsg_op masked;

	hold();
	post_it(op_of(RDMAMSG_OP_FETCH_ADD, NULL), &told[0]);
	masked = op_of(RDMAMSG_OP_FETCH_ADD, NULL);
	masked.width = 8;
	masked.result = &here[2];
	masked.offset = 8;
	post_it(masked, &told[1]);
	let_work(10);
	pass(TIMEOUT + 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(told[i].status, RDMAMSG_OVERDUE);
		assert_int_equal(told[i].late, 0);
		assert_int_equal(here[i + 1], 0);
	}
	held = NULL;
	WAIT_FOR(told[0].late && told[1].late);
	check_late(&told[0], 0);
	check_late(&told[1], 0);
	assert_int_equal(here[1], 40);
	assert_int_equal(here[2], 50);
	assert_int_equal(there[0], 42);
	assert_int_equal(there[1], 52);
}

static void atomic__overdue_RESULT_IS_THERE_WHEN_LATE(void **state)
{
	connect_still();
	there[1] = 50;
	check_atomics();
}

/* Its tries follow one another, and it stays in the queue meanwhile. */
static void atomic__in_software_IS_NOT_TAKEN_BACK(void **state)
{
	connect_still();
	there[1] = 50;
	client.ep->connect.features &= ~(PROTO_FEATURE_MASKED |
					 PROTO_FEATURE_MASKED_SMALL);
	check_atomics();
	assert_int_equal(client.ep->send.queued, 0);
}

static void posted__in_time_IS_NOT_TOLD_AGAIN(void **state)
{
	struct rdmamsg_sge s = { &here[1], 8, NULL };

	connect_still();
	s.region = from;
	post_it(op_of(RDMAMSG_OP_READ, &s), &told[0]);
	send_it(100, 1);
	send_it(LARGE, 2);
	WAIT_FOR(client.sent == 3);
	pass(2 * TIMEOUT);
	for (uint32_t i = 0; i < 3; i++)
		check(&told[i], 0);
	assert_int_equal(rdmamsg_ep_cancel(client.ep, &told[0]), -ENOENT);
}

static void posted__without_on_late_ENDS_UNTOLD(void **state)
{
	const struct rdmamsg_sge s = { data, LARGE, NULL };
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = &s,
		.count = 1, .cookie = &told[0], .timeout_ms = 1,
	};

	connect_still();
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	assert_int_equal(post(&op), 0);
	pass(3);
	assert_int_equal(told[0].status, RDMAMSG_OVERDUE);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(server.messages == 1 && !client.ep->rndv.count);
	let_work(3);
	assert_int_equal(told[0].complete, 1);
}

/* ---- the end ----------------------------------------------------------- */

static void close__overdue_and_queued_ARE_TOLD_BEFORE(void **state)
{
	uint32_t n;

	connect_still();
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	send_it(LARGE, 200);
	n = use_credits();
	pass(TIMEOUT + 2);
	assert_int_equal(told[200].status, RDMAMSG_OVERDUE);
	send_it(100, n);
	rdmamsg_ep_close(client.ep);
	let_work(3);
	pass(TIMEOUT + 2);
	/* while it closes */
	check(&told[n], RDMAMSG_TIMED_OUT);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(client.closed && server.closed);
	check_late(&told[200], 0);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
}

static void abort__overdue_and_running_ARE_CANCELED(void **state)
{
	connect_still();
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	send_it(LARGE, 0);
	let_work(3);
	pass(TIMEOUT + 2);
	send_it(LARGE, 1);
	let_work(3);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	check_late(&told[0], -ECANCELED);
	check(&told[1], -ECANCELED);
	pass(2 * TIMEOUT);
	check(&told[1], -ECANCELED);
}

static void context__closed_TELLS_ALL(void **state)
{
	connect_still();
	(void)use_credits();
	send_it(100, 300);
	rdmamsg_close(client.ctx);
	client.ctx = NULL;
	check(&told[300], -ECANCELED);
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
}

/* ---- what the program does then ---------------------------------------- */

static void post_another(struct told *t)
{
	if (t->status != RDMAMSG_TIMED_OUT || t >= &told[310])
		return;
	in_call = true;
	send_it(100, (uint32_t)(t - told) + 1);
	in_call = false;
}

static void timed_out__in_its_callback_SENDS_AGAIN(void **state)
{
	connect_still();
	(void)use_credits();
	then = post_another;
	send_it(100, 300);
	for (uint32_t i = 300; i < 310; i++) {
		pass(TIMEOUT + 2);
		check(&told[i], RDMAMSG_TIMED_OUT);
		assert_int_equal(told[i + 1].complete, 0);
	}
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(told[310].complete);
	check(&told[310], 0);
}

static void abort_it(struct told *t)
{
	if (!client.closed)
		rdmamsg_ep_abort(client.ep);
}

static void timed_out__in_its_callback_ABORTS(void **state)
{
	connect_still();
	(void)use_credits();
	for (uint32_t i = 300; i < 304; i++)
		send_it(100, i);
	then = abort_it;
	pass(TIMEOUT + 2);
	WAIT_FOR(client.closed);
	for (uint32_t i = 300; i < 304; i++)
		assert_int_equal(told[i].complete, 1);
}

static void cancel__with_a_deadline_CANCELS_ONCE(void **state)
{
	connect_still();
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	send_it(LARGE, 0);
	let_work(3);
	assert_int_equal(rdmamsg_ep_cancel(client.ep, &told[0]), -EBUSY);
	(void)use_credits();
	send_it(100, 300);
	assert_int_equal(rdmamsg_ep_cancel(client.ep, &told[300]), 0);
	clock_pass(TIMEOUT + 2);
	let_work(3);
	check(&told[300], -ECANCELED);
}

/* ---- memory and arguments ---------------------------------------------- */

static void deadline__of_one_operation_after_another_IS_USED_AGAIN(void **s)
{
	int room;

	connect_still();
	send_it(8, 0);
	WAIT_FOR(told[0].complete);
	room = client.ctx->loop.timers.promised;
	for (uint32_t i = 1; i < 300; i++) {
		send_it(8, i);
		WAIT_FOR(told[i].complete);
	}
	assert_int_equal(client.ctx->loop.timers.promised, room);
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
}

static void refuse(struct rdmamsg_op op, int error, const char *text)
{
	op.size = sizeof(op);
	op.kind = op.kind ? op.kind : RDMAMSG_OP_SEND;
	assert_int_equal(post(&op), error);
	assert_non_null(strstr(rdmamsg_error(), text));
}

static void post__wrong_arguments_EINVAL(void **state)
{
	struct rdmamsg_op op = op_of(RDMAMSG_OP_FETCH_ADD, NULL);

	connect_still();
	refuse((struct rdmamsg_op){ .timeout_ms = 1 }, -EINVAL, "cookie");
	refuse((struct rdmamsg_op){ .on_late = on_late, .cookie = told },
	       -EINVAL, "on_late");
	refuse((struct rdmamsg_op){
		.timeout_ms = 1u << 31, .cookie = told,
	}, -EINVAL, "INT32_MAX");
	op.operand = NULL;
	op.timeout_ms = 1;
	op.cookie = told;
	refuse(op, -EINVAL, "operand");
	op = op_of(RDMAMSG_OP_READ, NULL);
	op.count = 0;
	op.flags = RDMAMSG_OP_NOTIFY;
	op.timeout_ms = 1;
	op.cookie = told;
	refuse(op, -EINVAL, "flags");
	pass(3);
	assert_int_equal(told[0].complete, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(send__in_the_queue_IS_TAKEN_BACK),
		T(onesided__in_the_queue_IS_TAKEN_BACK),
		T(send__announced_IS_OVERDUE_AND_ARRIVES),
		T(posted__each_kind_IS_OVERDUE_AND_ENDS),
		T(read__taken_back_LARGE_MESSAGES_GO_ON),
		T(atomic__overdue_RESULT_IS_THERE_WHEN_LATE),
		T(atomic__in_software_IS_NOT_TAKEN_BACK),
		T(posted__in_time_IS_NOT_TOLD_AGAIN),
		T(posted__without_on_late_ENDS_UNTOLD),
		T(close__overdue_and_queued_ARE_TOLD_BEFORE),
		T(abort__overdue_and_running_ARE_CANCELED),
		T(context__closed_TELLS_ALL),
		T(timed_out__in_its_callback_SENDS_AGAIN),
		T(timed_out__in_its_callback_ABORTS),
		T(cancel__with_a_deadline_CANCELS_ONCE),
		T(deadline__of_one_operation_after_another_IS_USED_AGAIN),
		T(post__wrong_arguments_EINVAL),
	};

	join_own_fabric("op_timeout");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
