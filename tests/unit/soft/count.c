/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of ports: queue pair 0 is on port 1, queue pair 1 on port 2. */
#include "pair.h"
#include "soft/control/soft_ctl.h"
#include "soft/fabric/count.h"
#include "soft/fabric/shared.h"
#include "../own_fabric.h"

static struct soft_ctl *ctl;
static struct soft_dev *dev;

static int setup_with(void **state, uint8_t timeout)
{
	port_of[1] = 2;
	ack_timeout = timeout;
	if (setup_pair(state) || soft_open(&dev))
		return -1;
	return soft_ctl_open(NULL, &ctl);
}

static int setup(void **state)
{
	return setup_with(state, 8);
}

/* An ack timeout of 17 ms: 4, 8 and the rest. */
static int setup_thirds(void **state)
{
	return setup_with(state, 12);
}

/* An ack timeout of two hours. */
static int setup_long(void **state)
{
	return setup_with(state, 31);
}

static int teardown(void **state)
{
	soft_ctl_close(ctl);
	soft_dev_put(dev);
	return teardown_pair(state);
}

static uint64_t count(unsigned int port, enum soft_counter what)
{
	return soft_count_sum(dev, port, what);
}

static uint32_t self(void)
{
	return dev->node;
}

static void count__requests_AT_BOTH_PORTS(void **state)
{
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 1000,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(count(1, SOFT_XMIT_DATA), 1000);
	assert_int_equal(count(1, SOFT_XMIT_PACKETS), 1);
	assert_int_equal(count(2, SOFT_RCV_DATA), 1000);
	assert_int_equal(count(2, SOFT_RCV_PACKETS), 1);
	assert_int_equal(count(2, SOFT_RX_WRITES), 1);
	/* the ACK is not counted */
	assert_int_equal(count(2, SOFT_XMIT_DATA), 0);
	assert_int_equal(count(2, SOFT_XMIT_PACKETS), 0);
	assert_int_equal(count(1, SOFT_RCV_PACKETS), 0);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 2, 300,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(count(2, SOFT_RX_READS), 1);
	assert_int_equal(count(2, SOFT_XMIT_DATA), 300);
	assert_int_equal(count(1, SOFT_RCV_DATA), 300);
	assert_int_equal(count(1, SOFT_RCV_PACKETS), 1);
	assert_int_equal(count(1, SOFT_XMIT_DISCARDS), 0);
	assert_int_equal(count(0, SOFT_XMIT_DATA), 0);
	assert_int_equal(count(SOFT_PORTS_MAX + 1, SOFT_XMIT_DATA), 0);
}

static void count__no_receive_AT_BOTH_PORTS(void **state)
{
	const uint64_t buffers = count(2, SOFT_NO_BUFFER);
	const uint64_t naks = count(1, SOFT_RNR_NAKS);

	assert_int_equal(post(qp[0], IBV_WR_SEND, 1, 8, 0, 0), 0);
	expect(1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(count(2, SOFT_NO_BUFFER), buffers + 3);
	assert_int_equal(count(1, SOFT_RNR_NAKS), naks + 3);
}

/* The first try and two retries are lost. Each costs an ack timeout. */
static void count__port_down_AND_WHAT_IT_LOSES(void **state)
{
	const uint64_t lost = count(1, SOFT_XMIT_DISCARDS);
	const uint64_t times = count(1, SOFT_ACK_TIMEOUTS);
	const uint64_t downs = count(1, SOFT_LINK_DOWNED);

	assert_int_equal(soft_ctl_port(ctl, self(), 1, SOFT_PORT_DOWN), 0);
	assert_int_equal(count(1, SOFT_LINK_DOWNED), downs + 1);
	assert_int_equal(count(2, SOFT_LINK_DOWNED), 0);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(count(1, SOFT_XMIT_DISCARDS), lost + 3);
	assert_int_equal(count(1, SOFT_ACK_TIMEOUTS), times + 3);
	/* from down to armed is no other loss of the link */
	assert_int_equal(soft_ctl_port(ctl, self(), 1, SOFT_PORT_ARMED), 0);
	assert_int_equal(soft_ctl_port(ctl, self(), 1, SOFT_PORT_UP), 0);
	assert_int_equal(count(1, SOFT_LINK_DOWNED), downs + 1);
}

static void drop(uint32_t share)
{
	const struct soft_ctl_faults f = { .drop = share };

	assert_int_equal(soft_ctl_faults(ctl, self(), &f), 0);
}

/* Long before the ack timeout. The counter tells of the repetitions. */
static void count__lost_GOES_OUT_AGAIN_AT_ONCE(void **state)
{
	const uint64_t times = count(1, SOFT_ACK_TIMEOUTS);

	drop(1000000);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	for (int i = 0; i < 20000 && count(1, SOFT_ACK_TIMEOUTS) < times + 4;
	     i++)
		(void)poll(NULL, 0, 1);
	assert_true(count(1, SOFT_ACK_TIMEOUTS) >= times + 4);
	drop(0);
	expect(1, IBV_WC_SUCCESS);
}

/* Two retries: three ack timeouts, of three repetitions each. */
static void count__lost_for_ever_TAKES_ALL_ACK_TIMEOUTS(void **state)
{
	const uint64_t lost = count(1, SOFT_XMIT_DISCARDS);
	const uint64_t times = count(1, SOFT_ACK_TIMEOUTS);

	drop(1000000);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(count(1, SOFT_XMIT_DISCARDS), lost + 9);
	assert_int_equal(count(1, SOFT_ACK_TIMEOUTS), times + 9);
	drop(0);
}

/* A list of requests is posted at once, and twice as long as the ring. */
static void count__ring_full_THE_SENDER_WAITS(void **state)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mem[0], .length = SIZE, .lkey = mr[0]->lkey,
	};
	struct ibv_send_wr wr[8], *bad;

	assert_int_equal(count(1, SOFT_XMIT_WAIT), 0);
	for (int i = 0; i < 8; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = (uint64_t)i, .next = i < 7 ? &wr[i + 1] : NULL,
			.sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)mem[1], mr[1]->rkey },
		};
	assert_int_equal(ibv_post_send(qp[0], wr, &bad), 0);
	for (uint64_t i = 0; i < 8; i++)
		expect(i, IBV_WC_SUCCESS);
	assert_true(count(1, SOFT_XMIT_WAIT) > 0);
	assert_int_equal(count(2, SOFT_XMIT_WAIT), 0);
}

/* A process of the fabric can write any number. */
static void sum__any_numbers_WRAPS(void **state)
{
	const uint64_t before = count(1, SOFT_DUPLICATES);

	dev->fabric->guid[SOFT_NODES - 1] = 1;
	dev->fabric->counts[SOFT_NODES - 1].of[0][SOFT_DUPLICATES] = UINT64_MAX;
	assert_int_equal(count(1, SOFT_DUPLICATES), before - 1);
	/* the row of a node that never was is not looked at */
	dev->fabric->guid[SOFT_NODES - 1] = 0;
	assert_int_equal(count(1, SOFT_DUPLICATES), before);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(count__requests_AT_BOTH_PORTS),
		TEST(count__no_receive_AT_BOTH_PORTS),
		TEST(count__port_down_AND_WHAT_IT_LOSES),
		cmocka_unit_test_setup_teardown(
			count__lost_GOES_OUT_AGAIN_AT_ONCE, setup_long,
			teardown),
		cmocka_unit_test_setup_teardown(
			count__lost_for_ever_TAKES_ALL_ACK_TIMEOUTS,
			setup_thirds, teardown),
		TEST(count__ring_full_THE_SENDER_WAITS),
		TEST(sum__any_numbers_WRAPS),
	};

	join_own_fabric("count");
	/* all bytes pass the ring */
	(void)setenv("RDMAMSG_SOFT_NO_VM", "1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
