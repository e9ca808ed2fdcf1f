/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: timeout_ms of rdmamsg_post() with failover. The connection is
 * lost, and stays so while only the client's program runs.
 */
#include "op_timeout.h"

#include <infiniband/verbs.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/flow.h>

static unsigned int resumed;

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	resumed += rdmamsg_ep_user(ep) == &client &&
		   ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
}

static void connect_with_failover(void)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = 600000,
	};

	resumed = 0;
	handlers.on_path = on_path;
	opts.failover = &failover;
	connect_still();
	client.ep->onesided.ways = 0;
}

static bool is_down(void)
{
	return client.ep->resume->lane != LANE_UP;
}

static void client_alone(void)
{
	struct pollfd fd = { rdmamsg_fd(client.ctx), POLLIN, 0 };

	(void)poll(&fd, 1, 10);
	assert_true(rdmamsg_process(client.ctx) >= 0);
}

/* The client's queue pair fails. What was held comes as flushed. */
static void lose_lane(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	failed = client.ep->lane.hot.qp->qp_num;
	assert_int_equal(rdmamsg__verbs_soft.modify_qp(client.ep->lane.hot.qp,
						       &attr, IBV_QP_STATE),
			 0);
	/* a request that fails, if there is none yet */
	(void)rdmamsg_send(client.ep, data, 8, 0, NULL);
	held = NULL;
	UNTIL_BY(client_alone(), is_down());
}

static void pass_alone(uint32_t ms)
{
	clock_pass(ms);
	for (unsigned int i = 0; i < 5; i++)
		client_alone();
}

static void queued__without_a_connection_IS_TAKEN_BACK(void **state)
{
	const struct rdmamsg_sge s = { data, 100, NULL };
	uint32_t n;

	connect_with_failover();
	n = use_credits();
	send_it(100, n);
	send_it(LARGE, n + 1);
	post_it(op_of(RDMAMSG_OP_WRITE, &s), &told[n + 2]);
	assert_int_equal(rdmamsg_send(client.ep, data, 8, n + 3, NULL), 0);
	lose_lane();
	pass_alone(TIMEOUT + 2);
	for (uint32_t i = 0; i < 3; i++)
		check(&told[n + i], RDMAMSG_TIMED_OUT);
	assert_true(is_down());
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(resumed && server.messages > n);
	assert_int_equal(got[n], n + 3);
	assert_int_equal(there[0], 40);
}

/* rdmamsg_ep_cancel() promises the same. */
static void cancel__without_a_connection_COMPLETES(void **state)
{
	uint32_t n;

	connect_with_failover();
	n = use_credits();
	send_it(100, n);
	lose_lane();
	assert_int_equal(rdmamsg_ep_cancel(client.ep, &told[n]), 0);
	for (unsigned int i = 0; i < 20; i++)
		client_alone();
	assert_true(is_down());
	check(&told[n], -ECANCELED);
}

static void repeated__after_its_deadline_IS_LATE(void **state)
{
	struct rdmamsg_sge s = { &here[1], 8, NULL };
	struct rdmamsg_op op;

	connect_with_failover();
	s.region = from;
	here[2] = 42;
	hold();
	post_it(op_of(RDMAMSG_OP_READ, &s), &told[1]);
	s.data = &here[2];
	op = op_of(RDMAMSG_OP_WRITE, &s);
	op.offset = 64;
	post_it(op, &told[2]);
	send_it(100, 3);
	let_work(5);
	lose_lane();
	pass_alone(TIMEOUT + 2);
	for (uint32_t i = 1; i < 4; i++) {
		assert_int_equal(told[i].status, RDMAMSG_OVERDUE);
		assert_int_equal(told[i].late, 0);
		assert_int_equal(rdmamsg_ep_cancel(client.ep, &told[i]),
				 -ENOENT);
	}
	WAIT_FOR(resumed && told[1].late && told[2].late && told[3].late);
	for (uint32_t i = 1; i < 4; i++)
		check_late(&told[i], 0);
	assert_int_equal(here[1], 40);
	assert_int_equal(there[8], 42);
}

static void announced__read_over_another_lane_IS_LATE(void **state)
{
	connect_with_failover();
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	send_it(LARGE, 0);
	let_work(5);
	lose_lane();
	pass_alone(TIMEOUT + 2);
	assert_int_equal(told[0].status, RDMAMSG_OVERDUE);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(resumed && told[0].late && server.messages);
	check_late(&told[0], 0);
	assert_int_equal(got[0], 0);
}

/* In doubt before its deadline or after it: told once. */
static void atomic__lost_with_its_lane_IN_DOUBT(void **state)
{
	connect_with_failover();
	hold();
	post_it(op_of(RDMAMSG_OP_FETCH_ADD, NULL), &told[0]);
	let_work(5);
	pass_alone(TIMEOUT + 2);
	assert_int_equal(told[0].status, RDMAMSG_OVERDUE);
	post_it(op_of(RDMAMSG_OP_COMPARE_SWAP, NULL), &told[1]);
	let_work(5);
	lose_lane();
	UNTIL_BY(client_alone(), told[1].complete);
	check_late(&told[0], RDMAMSG_IN_DOUBT);
	check(&told[1], RDMAMSG_IN_DOUBT);
	pass_alone(TIMEOUT + 2);
	WAIT_FOR(resumed);
	check(&told[1], RDMAMSG_IN_DOUBT);
}

static void abort__without_a_connection_ENDS_ALL(void **state)
{
	struct rdmamsg_sge s = { &here[1], 8, NULL };

	connect_with_failover();
	s.region = from;
	hold();
	post_it(op_of(RDMAMSG_OP_READ, &s), &told[0]);
	let_work(5);
	lose_lane();
	pass_alone(TIMEOUT + 2);
	rdmamsg_ep_abort(client.ep);
	UNTIL_BY(client_alone(), client.closed);
	check_late(&told[0], -ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(queued__without_a_connection_IS_TAKEN_BACK),
		T(cancel__without_a_connection_COMPLETES),
		T(repeated__after_its_deadline_IS_LATE),
		T(announced__read_over_another_lane_IS_LATE),
		T(atomic__lost_with_its_lane_IN_DOUBT),
		T(abort__without_a_connection_ENDS_ALL),
	};

	join_own_fabric("op_timeout_lane");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
