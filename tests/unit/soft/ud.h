/* SPDX-License-Identifier: BSD-2-Clause */
/* Two unreliable queue pairs of one process on the soft HCA, for unit tests. */
#ifndef TESTS_UNIT_SOFT_UD_H
#define TESTS_UNIT_SOFT_UD_H

#include "../own_fabric.h"
#include "device.h"

#include <endian.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define QKEY	0x1111u

static inline int walk(struct ibv_qp *q, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.port_num = 1, .qkey = QKEY,
		.qp_access_flags = ALL & ~IBV_ACCESS_MW_BIND,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = peer,
	};

	return qp_walk(soft_modify_qp, q, &a, IBV_QPS_RTS);
}

static inline int open_all(enum ibv_qp_type type)
{
	if (open_device(NULL))
		return -1;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {
			.send_cq = cq, .recv_cq = cq, .qp_type = type,
			.cap = { 64, 64, 4, 4, 64 },
		};

		qp[i] = soft_create_qp(pd, &a);
		if (!qp[i])
			return -1;
	}
	return walk(qp[0], qp[1]->qp_num) || walk(qp[1], qp[0]->qp_num);
}

static inline void close_all(void)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(soft_destroy_qp(qp[i]), 0);
	close_device(NULL);
}

static inline int setup_ud(void **state)
{
	return open_all(IBV_QPT_UD);
}

static inline int teardown(void **state)
{
	close_all();
	return 0;
}

static inline struct ibv_ah *new_ah(const union ibv_gid *to)
{
	struct ibv_ah_attr a = {
		.is_global = 1, .port_num = 1, .dlid = 0xc001,
		.grh = { .hop_limit = 7, .traffic_class = 3 },
	};

	if (to)
		a.grh.dgid = *to;
	else if (soft_query_gid(c, 1, 0, &a.grh.dgid))
		return NULL;
	else
		a.dlid = 0;
	return soft_create_ah(pd, &a);
}

static inline int post_ud(struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		   uint32_t len, uint64_t wr_id)
{
	struct ibv_sge sge[2] = {
		{ (uintptr_t)mem[0], len / 2, mr[0]->lkey },
		{ (uintptr_t)mem[0] + len / 2, len - len / 2, mr[0]->lkey },
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = sge, .num_sge = 2,
		.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 0x1234,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
			      (len <= 64 ? IBV_SEND_INLINE : 0),
		.wr.ud = { ah, qpn, qkey },
	};

	return ibv_post_send(qp[0], &wr, &bad);
}

static inline int post_recv(int i, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem[1], len, mr[1]->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_recv(qp[i], &wr, &bad);
}

/* Waits ms at most for a completion. Returns 0 if there is none. */
static inline int next(struct ibv_wc *wc, int ms)
{
	int n = 0;

	for (int i = 0; i < 1000 + ms && !n; i++) {
		n = ibv_poll_cq(cq, 1, wc);
		if (!n && i > 1000)
			(void)poll(NULL, 0, 1);
	}
	return n;
}

static inline struct ibv_wc expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = { 0 };

	assert_int_equal(next(&wc, 20000), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

#define UD(fn) cmocka_unit_test_setup_teardown(fn, setup_ud, teardown)

#endif
