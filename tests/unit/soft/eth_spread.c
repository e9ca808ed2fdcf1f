/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet frames of the soft HCA: a flow spreads them over the queues of a
 * table by their hash.
 */
#include "soft/verbs/wq.h"

#include "eth.h"

#define QUEUES	4u

static struct ibv_wq *wqs[QUEUES];
static struct ibv_rwq_ind_table *table;
static struct ibv_qp *rss;

static int set_up_rss(void **state)
{
	struct ibv_rwq_ind_table_init_attr t = {
		.log_ind_tbl_size = 2, .ind_tbl = wqs,
	};
	struct ibv_wq_attr ready = {
		.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY,
	};
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
	};

	if (set_up(state))
		return -1;
	for (uint32_t i = 0; i < QUEUES; i++) {
		struct ibv_wq_init_attr w = {
			.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1,
			.pd = pd, .cq = cq,
		};

		wqs[i] = ibv_create_wq(c, &w);
		if (!wqs[i] || ibv_modify_wq(wqs[i], &ready))
			return -1;
	}
	table = ibv_create_rwq_ind_table(c, &t);
	a.pd = pd;
	a.rwq_ind_tbl = table;
	a.rx_hash_conf = (struct ibv_rx_hash_conf) {
		IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(frame_key),
		(uint8_t *)(uintptr_t)frame_key,
		IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
		IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
	};
	rss = soft_create_qp_ex(c, &a);
	return rss ? 0 : -1;
}

static int tear_down_rss(void **state)
{
	assert_int_equal(soft_destroy_qp(rss), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	for (uint32_t i = 0; i < QUEUES; i++)
		assert_int_equal(ibv_destroy_wq(wqs[i]), 0);
	return tear_down(state);
}

static void post_wq(uint32_t i, uint64_t id, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)mem[1] + id * 100, 100, lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_wq_recv(wqs[i], &wr, &bad), 0);
}

/* The queue of a packet, by another way than the device's. */
static uint32_t queue_of(uint16_t sport)
{
	uint8_t in[12] = { 10, 1, 2, 3, 10, 4, 5, 6 };

	(void)frame_put(frame_put(in + 8, sport, 2), 2000, 2);
	return soft_toeplitz(frame_key, in, sizeof(in)) % QUEUES;
}

static void datagrams__over_four_queues_BY_THEIR_HASH(void **state)
{
	struct ibv_flow *flow = rule_to(rss, frame_dst);
	uint64_t next[QUEUES];
	uint32_t used = 0;

	for (uint32_t i = 0; i < QUEUES; i++) {
		next[i] = 100 + 16 * i;
		for (uint32_t n = 0; n < 16; n++)
			post_wq(i, 100 + 16 * i + n, mr[1]->lkey);
	}
	for (uint16_t sport = 1; sport <= 24; sport++) {
		const struct frame_of f = {
			"10.1.2.3", "10.4.5.6", sport, 2000, .proto = UDP,
			.payload = sport,
		};
		uint32_t len = frame_write(mem[0], &f), i = queue_of(sport);
		struct ibv_wc wc;

		sends(len);
		wc = expect(next[i]);
		assert_int_equal(wc.qp_num, wqs[i]->wq_num);
		assert_int_equal(wc.byte_len, len);
		assert_memory_equal(mem[1] + next[i]++ * 100, mem[0], len);
		used |= 1u << i;
	}
	assert_int_equal(used, 15);
	quiet();
	assert_int_equal(ibv_destroy_flow(flow), 0);
}

/* A queue without a receive drops its packets. The others go on. */
static void queue__empty_DROPS_ITS_SHARE(void **state)
{
	struct ibv_flow *flow = rule_to(rss, frame_dst);
	uint32_t dropped = 0;

	for (uint32_t i = 1; i < QUEUES; i++)
		for (uint32_t n = 0; n < 16; n++)
			post_wq(i, 100, mr[1]->lkey);
	for (uint16_t sport = 1; sport <= 16; sport++) {
		const struct frame_of f = {
			"10.1.2.3", "10.4.5.6", sport, 2000, .proto = UDP,
		};

		sends(frame_write(mem[0], &f));
		if (queue_of(sport))
			(void)expect(100);
		else
			dropped++;
		quiet();
	}
	assert_true(dropped);
	assert_int_equal(ibv_destroy_flow(flow), 0);
}

static void queue__receive_with_a_wrong_key_FAILS_ALONE(void **state)
{
	struct ibv_flow *flow = rule_to(rss, frame_dst);
	struct ibv_async_event ev;
	struct ibv_wc wc;
	uint32_t i = queue_of(1);
	const struct frame_of f = {
		"10.1.2.3", "10.4.5.6", 1, 2000, .proto = UDP,
	};

	post_wq(i, 7, mr[1]->lkey ^ 0xff00);
	post_wq(i, 8, mr[1]->lkey);
	sends(frame_write(mem[0], &f));
	assert_int_equal(soft_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(soft_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 8);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wqs[i]->state, IBV_WQS_ERR);
	assert_int_equal(wqs[(i + 1) % QUEUES]->state, IBV_WQS_RDY);
	assert_int_equal(soft_get_async_event(c, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_WQ_FATAL);
	assert_ptr_equal(ev.element.wq, wqs[i]);
	soft_ack_async_event(&ev);
	assert_int_equal(ibv_destroy_flow(flow), 0);
}

int main(void)
{
#define R(fn) cmocka_unit_test_setup_teardown(fn, set_up_rss, tear_down_rss)
	const struct CMUnitTest tests[] = {
		R(datagrams__over_four_queues_BY_THEIR_HASH),
		R(queue__empty_DROPS_ITS_SHARE),
		R(queue__receive_with_a_wrong_key_FAILS_ALONE),
	};

	join_own_fabric("eth_spread");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
