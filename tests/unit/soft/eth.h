/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw queue pairs of the soft HCA that send Ethernet frames to each other. For
 * eth.c and eth_spread.c.
 */
#ifndef TESTS_UNIT_SOFT_ETH_H
#define TESTS_UNIT_SOFT_ETH_H

#include "soft/soft.h"

#include "../../frame.h"
#include "../own_fabric.h"
#include "device.h"

#define ROOM	5000u
#define UDP	17

static inline struct ibv_qp *new_raw(uint32_t flags)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd, .send_cq = cq,
		.recv_cq = cq, .cap = { 64, 64, 2, 2, 128 },
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = flags,
	};
	struct ibv_qp_attr m = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *q = soft_create_qp_ex(c, &a);

	if (!q || soft_modify_qp(q, &m, IBV_QP_STATE | IBV_QP_PORT))
		return NULL;
	m.qp_state = IBV_QPS_RTR;
	if (soft_modify_qp(q, &m, IBV_QP_STATE))
		return NULL;
	m.qp_state = IBV_QPS_RTS;
	return soft_modify_qp(q, &m, IBV_QP_STATE) ? NULL : q;
}

static inline int set_up(void **state)
{
	if (open_device(state))
		return -1;
	qp[0] = new_raw(0);
	qp[1] = new_raw(0);
	return qp[0] && qp[1] ? 0 : -1;
}

static inline int tear_down(void **state)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(soft_destroy_qp(qp[i]), 0);
	return close_device(state);
}

static inline void receive(struct ibv_qp *q, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = {
		(uintptr_t)mem[1] + id * ROOM, len, mr[1]->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	assert_int_equal(soft_post_recv(q, &wr, &bad), 0);
}

static inline struct ibv_wc expect(uint64_t id)
{
	struct ibv_wc wc;

	while (!soft_poll_cq(cq, 1, &wc))
		;
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc;
}

static inline void quiet(void)
{
	struct ibv_wc wc;

	assert_int_equal(soft_poll_cq(cq, 1, &wc), 0);
}

static inline int post(uint32_t len, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 99, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | flags,
	}, *bad;

	return soft_post_send(qp[0], &wr, &bad);
}

/* The process is its own peer, so that the frame has arrived when it is sent. */
static inline void sends(uint32_t len)
{
	assert_int_equal(post(len, 0), 0);
	(void)expect(99);
}

static inline struct ibv_flow *rule_to(struct ibv_qp *q, const uint8_t dst[6])
{
	struct frame_rule r = frame_rule(dst);
	struct ibv_flow *flow = ibv_create_flow(q, &r.attr);

	assert_non_null(flow);
	return flow;
}

static inline uint32_t udp(uint32_t payload)
{
	const struct frame_of f = {
		"10.1.2.3", "10.4.5.6", 1000, 2000, .proto = UDP,
		.payload = payload,
	};

	return frame_write(mem[0], &f);
}

#endif
