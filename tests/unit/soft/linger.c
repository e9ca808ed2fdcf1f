/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a connection of iWARP: what TCP has taken arrives before the peer
 * hears of the end, however the connection ends, and however long it takes.
 */
#include "iwarp.h"

#define SILENCE_MS	100	/* of what must not come */

static void expect_no_event(void)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, SILENCE_MS), 0);
}

static void is_flushed(uint64_t wr_id)
{
	struct ibv_wc wc = next(rcq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

/*
 * TCP takes a message that the network does not carry. Then the program uses its
 * memory for something else.
 */
static void send_what_is_lost(void)
{
	assert_int_equal(post_recv(qp[1], 20, LEN), 0);
	assert_int_equal(post_recv(qp[1], 21, LEN), 0);
	fill(3);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 1, LEN, 0, 0), 0);
	expect(1, IBV_WC_SUCCESS);
	fill(100);
}

static void arrives_before_the_end(void)
{
	has_arrived(20, 3);
	is_flushed(21);
	assert_ptr_equal(expect_cm(RDMA_CM_EVENT_DISCONNECTED), id[1]);
}

/* ---- tests ------------------------------------------------------------ */

static void disconnect__behind_a_port_that_is_down_LATER(void **state)
{
	port(SOFT_PORT_DOWN);
	send_what_is_lost();
	assert_int_equal(soft_cma_disconnect(id[0]), 0);
	assert_ptr_equal(expect_cm(RDMA_CM_EVENT_DISCONNECTED), id[0]);
	assert_int_equal(state_of(qp[0]), IBV_QPS_ERR);
	expect_no_event();
	assert_int_equal(state_of(qp[1]), IBV_QPS_RTS);
	port(SOFT_PORT_UP);
	arrives_before_the_end();
}

static void disconnect__after_a_lost_message_ARRIVES_FIRST(void **state)
{
	drop_all(true);
	send_what_is_lost();
	assert_int_equal(soft_cma_disconnect(id[0]), 0);
	assert_ptr_equal(expect_cm(RDMA_CM_EVENT_DISCONNECTED), id[0]);
	expect_no_event();
	drop_all(false);
	arrives_before_the_end();
}

static void error__after_a_lost_message_ARRIVES_FIRST(void **state)
{
	drop_all(true);
	send_what_is_lost();
	enter(qp[0], IBV_QPS_ERR);
	assert_ptr_equal(expect_cm(RDMA_CM_EVENT_DISCONNECTED), id[0]);
	expect_no_event();
	drop_all(false);
	arrives_before_the_end();
}

static void destroy__after_a_lost_message_ARRIVES_FIRST(void **state)
{
	drop_all(true);
	send_what_is_lost();
	assert_int_equal(soft_destroy_qp(qp[0]), 0);
	qp[0] = NULL;
	destroy_id(0);
	expect_no_event();
	drop_all(false);
	arrives_before_the_end();
}

static void disconnect__of_an_idle_connection_TOLD_LATER(void **state)
{
	port(SOFT_PORT_BLACK_HOLE);
	assert_int_equal(post_recv(qp[1], 20, LEN), 0);
	assert_int_equal(soft_cma_disconnect(id[0]), 0);
	assert_ptr_equal(expect_cm(RDMA_CM_EVENT_DISCONNECTED), id[0]);
	destroy_id(0);
	expect_no_event();
	port(SOFT_PORT_UP);
	assert_ptr_equal(expect_cm(RDMA_CM_EVENT_DISCONNECTED), id[1]);
	is_flushed(20);
}

/* Neither side takes what the other one has sent, and nothing is left. */
static void disconnect__of_both_sides_ENDS(void **state)
{
	struct ibv_sge sge = { (uintptr_t)mem[1], 8, mr[1]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	struct soft_dev *dev = soft_dev_of(c);
	bool left = true;

	drop_all(true);
	send_what_is_lost();
	assert_int_equal(ibv_post_send(qp[1], &wr, &bad), 0);
	expect(2, IBV_WC_SUCCESS);
	enter(qp[0], IBV_QPS_ERR);
	enter(qp[1], IBV_QPS_ERR);
	expect_cm(RDMA_CM_EVENT_DISCONNECTED);
	expect_cm(RDMA_CM_EVENT_DISCONNECTED);
	drop_all(false);
	for (int i = 0; i < WAIT_MS && left; i++) {
		soft_lock(dev);
		left = !list_empty(&dev->lingering);
		soft_unlock(dev);
		(void)poll(NULL, 0, 1);
	}
	assert_false(left);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IWARP(disconnect__behind_a_port_that_is_down_LATER),
		IWARP(disconnect__after_a_lost_message_ARRIVES_FIRST),
		IWARP(error__after_a_lost_message_ARRIVES_FIRST),
		IWARP(destroy__after_a_lost_message_ARRIVES_FIRST),
		IWARP(disconnect__of_an_idle_connection_TOLD_LATER),
		IWARP(disconnect__of_both_sides_ENDS),
	};

	join_iwarp("linger", "1");
	return cmocka_run_group_tests_name("soft_linger", tests, NULL, NULL);
}
