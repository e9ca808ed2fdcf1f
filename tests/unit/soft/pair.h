/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connected queue pairs of one process on the soft HCA, for unit tests: 0
 * asks, 1 is asked.
 */
#ifndef TESTS_UNIT_SOFT_PAIR_H
#define TESTS_UNIT_SOFT_PAIR_H

#include "device.h"

#include <fcntl.h>

static uint8_t rnr_retry = 2;		/* 7: for ever */
static uint8_t ack_timeout = 8;		/* 1 ms */
static uint8_t port_of[2] = { 1, 1 };	/* queue pairs made from now on */

static inline void walk(struct ibv_qp *q, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.port_num = port_of[q == qp[1]],
		.qp_access_flags = ALL & ~IBV_ACCESS_MW_BIND,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = peer,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.timeout = ack_timeout, .retry_cnt = 2, .rnr_retry = rnr_retry,
		.max_rd_atomic = 4,
		.rq_psn = 0xfffffe, .sq_psn = 0xfffffe,
	};

	assert_int_equal(qp_walk(soft_modify_qp, q, &a,
				 q->qp_type == IBV_QPT_XRC_RECV ?
				 IBV_QPS_RTR : IBV_QPS_RTS), 0);
}

static inline void enter(struct ibv_qp *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	assert_int_equal(soft_modify_qp(q, &a, IBV_QP_STATE), 0);
}

static inline enum ibv_qp_state state_of(struct ibv_qp *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(soft_query_qp(q, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

static inline void make_pair(struct ibv_srq *srq)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { 64, 64, 4, 4, 64 }, .srq = i ? srq : NULL,
		};

		qp[i] = soft_create_qp(pd, &a);
		assert_non_null(qp[i]);
	}
	walk(qp[0], qp[1]->qp_num);
	walk(qp[1], qp[0]->qp_num);
}

static inline int setup_pair(void **state)
{
	if (open_device(state))
		return -1;
	make_pair(NULL);
	return 0;
}

static inline void destroy_pair(void)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(soft_destroy_qp(qp[i]), 0);
		qp[i] = NULL;
	}
}

static inline int teardown_pair(void **state)
{
	destroy_pair();
	return close_device(state);
}

/* Posts a request with len bytes from the beginning of mem[0]. */
static inline int post(struct ibv_qp *q, enum ibv_wr_opcode op, uint64_t wr_id,
		       uint32_t len, uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = len ? 1 : 0,
		.opcode = op, .send_flags = IBV_SEND_SIGNALED,
	};

	if (op == IBV_WR_SEND_WITH_INV || op == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = rkey;
	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(q, &wr, &bad);
}

static inline int post_recv(struct ibv_qp *q, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem[1], len, mr[1]->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_recv(q, &wr, &bad);
}

static inline struct ibv_wc next(struct ibv_cq *from)
{
	struct ibv_wc wc = { .wr_id = UINT64_MAX };
	int n = 0;

	for (int i = 0; i < 20000 && !n; i++) {
		n = ibv_poll_cq(from, 1, &wc);
		if (!n && i > 1000)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(n, 1);
	return wc;
}

/* Waits for a completion, which must be of this request and status. */
static inline struct ibv_wc expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next(cq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

static inline bool event_waits(void)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static inline struct ibv_async_event expect_event(enum ibv_event_type type)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(soft_get_async_event(c, &ev), 0);
	assert_int_equal(ev.event_type, type);
	soft_ack_async_event(&ev);
	return ev;
}

#define PAIR(fn) cmocka_unit_test_setup_teardown(fn, setup_pair, teardown_pair)
#define PLAIN(fn) cmocka_unit_test_setup_teardown(fn, open_device, close_device)

#endif
