/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA's unreliable queue pairs: datagrams, address handles, UC; what
 * arrives, and what is lost without a word.
 */
#include "soft/engine/ud.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/ring.h"
#include "soft/fabric/thread.h"
#include "soft/fabric/wire.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "ud.h"

/* ---- datagrams -------------------------------------------------------- */

static void create_ah__bad_address_REFUSED(void **state)
{
	struct ibv_ah_attr a = { .port_num = 1 };
	struct ibv_ah *ah;

	assert_null(soft_create_ah(pd, &a));	/* no GRH on Ethernet */
	a.is_global = 1;
	a.port_num = 3;
	assert_null(soft_create_ah(pd, &a));
	a.port_num = 1;
	a.grh.sgid_index = 2;
	assert_null(soft_create_ah(pd, &a));
	a.grh.sgid_index = 0;
	a.grh.dgid.raw[0] = 0x20;		/* nobody's */
	assert_null(soft_create_ah(pd, &a));
	assert_int_equal(errno, EHOSTUNREACH);
	ah = new_ah(NULL);
	assert_non_null(ah);
	assert_int_equal(soft_dealloc_pd(pd), EBUSY);
	assert_int_equal(soft_destroy_ah(ah), 0);
}

static void modify__ud_without_qkey_EINVAL(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr init;

	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE | IBV_QP_PORT |
			 IBV_QP_PKEY_INDEX), EINVAL);
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE | IBV_QP_PORT |
			 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), EINVAL);
	assert_int_equal(walk(qp[0], 0), 0);
	assert_int_equal(soft_query_qp(qp[0], &a, IBV_QP_QKEY, &init), 0);
	assert_int_equal(a.qkey, QKEY);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(init.qp_type, IBV_QPT_UD);
}

static void send__of_every_size_ARRIVES(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 64, 65, 4095, 4096 };
	struct ibv_ah *ah = new_ah(NULL), *back;
	struct ibv_wc wc;

	assert_non_null(ah);
	for (uint32_t i = 0; i < SIZE; i++)
		mem[0][i] = (uint8_t)(i * 7);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(post_recv(1, 1, 40 + sizes[i]), 0);
		assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, sizes[i], 2),
				 0);
		expect(2, IBV_WC_SUCCESS);
		wc = expect(1, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 40 + sizes[i]);
		assert_int_equal(wc.src_qp, qp[0]->qp_num);
		assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, 0x1234);
		assert_memory_equal(mem[0], mem[1] + 40, sizes[i]);
		/* RoCE v2: an IPv4 header, whole and from 127.0.0.1 */
		assert_int_equal(mem[1][20], 0x45);
		assert_int_equal(mem[1][28], 7);
		assert_int_equal(mem[1][32], 127);
	}
	assert_int_equal(soft_destroy_ah(ah), 0);
	back = soft_create_ah_from_wc(pd, &wc, (struct ibv_grh *)mem[1], 1);
	assert_non_null(back);
	assert_int_equal(post_recv(0, 3, 100), 0);
	assert_int_equal(post_ud(back, wc.src_qp, 0x80000000u, 10, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(soft_destroy_ah(back), 0);
}

static void send__undeliverable_LOST_IN_SILENCE(void **state)
{
	struct ibv_ah *ah = new_ah(NULL);
	uint32_t to = qp[1]->qp_num;
	struct ibv_wc wc;

	/* nobody receives; another key; nobody there; nowhere; too long */
	assert_int_equal(post_ud(ah, to, QKEY, 100, 1), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(next(&wc, 50), 0);
	assert_int_equal(post_recv(1, 10, 140), 0);
	assert_int_equal(post_ud(ah, to, QKEY + 1, 100, 2), 0);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, to + 9, QKEY, 100, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, 0xfffff0, QKEY, 100, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, to, QKEY, 4097, 5), 0);
	expect(5, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, to, QKEY, 101, 6), 0);
	expect(6, IBV_WC_SUCCESS);
	/* the receive is still there for this one */
	mem[0][99] = 77;
	assert_int_equal(post_ud(ah, to, QKEY, 100, 7), 0);
	expect(7, IBV_WC_SUCCESS);
	expect(10, IBV_WC_SUCCESS);
	assert_int_equal(mem[1][139], 77);
	assert_int_equal(soft_destroy_ah(ah), 0);
}

static void send__of_what_ud_has_not_EINVAL(void **state)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE };

	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_SEND;		/* no address */
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), EINVAL);
}

static void send__local_error_ONLY_SQE(void **state)
{
	struct ibv_ah *ah = new_ah(NULL);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp_init_attr init;
	uint32_t key = mr[0]->lkey;

	assert_int_equal(post_recv(1, 10, 200), 0);
	assert_int_equal(post_recv(0, 11, 200), 0);
	mr[0]->lkey = key + 1;
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 1), 0);
	expect(1, IBV_WC_LOC_PROT_ERR);
	mr[0]->lkey = key;
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 2), 0);
	expect(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(soft_query_qp(qp[0], &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_SQE);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE), 0);
	/* its receive has stayed */
	assert_int_equal(post_ud(ah, qp[0]->qp_num, QKEY, 100, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	expect(11, IBV_WC_SUCCESS);
	assert_int_equal(post_ud(ah, qp[1]->qp_num, QKEY, 100, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	expect(10, IBV_WC_SUCCESS);
	assert_int_equal(soft_destroy_ah(ah), 0);
}

/* ---- a ring that is full ---------------------------------------------- */

#define RECORD	(64u << 10)

static void fill_ring(struct soft_wire *w)
{
	while (soft_ring_reserve(&w->tx, RECORD))
		soft_ring_commit(&w->tx, RECORD);
}

/* Pretends that the sender did not run for longer than its wait. */
static void lose_the_processor(struct soft_wire *w)
{
	w->full_since -= SOFT_STALL_NS;
}

static void full__peer_has_moved_since_NOT_GIVEN_UP(void **state)
{
	struct soft_dev *dev = soft_dev_of(c);
	struct soft_qp *q = soft_qp(qp[0]);
	struct soft_wire w = { .peer = 1 };
	bool first, moved, full_again, stopped;

	assert_int_equal(soft_ring_loop(&w.tx, &w.rx), 0);
	soft_lock(dev);
	fill_ring(&w);
	first = soft_give_up(dev, q, &w, SOFT_STALL_NS);
	lose_the_processor(&w);
	(void)soft_ring_avail(&w.rx);
	soft_ring_consume(&w.rx, RECORD);
	moved = soft_give_up(dev, q, &w, SOFT_STALL_NS);
	fill_ring(&w);
	full_again = soft_give_up(dev, q, &w, SOFT_STALL_NS);
	lose_the_processor(&w);
	stopped = soft_give_up(dev, q, &w, SOFT_STALL_NS);
	soft_timer_stop(&q->timer);
	soft_unlock(dev);
	soft_ring_unmap(&w.tx);
	assert_false(first);
	assert_false(moved);
	/* the peer has had its time since it moved, and no more */
	assert_false(full_again);
	assert_true(stopped);
}

/* ---- UC --------------------------------------------------------------- */

static int setup_uc(void **state)
{
	return open_all(IBV_QPT_UC);
}

static int post_uc(enum ibv_wr_opcode op, uint32_t len, uint32_t rkey,
		   uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = 0x4321,
		.wr.rdma = { (uintptr_t)mem[1], rkey },
	};

	return ibv_post_send(qp[0], &wr, &bad);
}

static void uc__sends_and_writes_ARRIVE_OR_ARE_LOST(void **state)
{
	struct ibv_wc wc;

	memset(mem[0], 0x77, SIZE);
	/* nobody receives; no such key; too short a receive */
	assert_int_equal(post_uc(IBV_WR_SEND, 60000, 0, 1), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(post_uc(IBV_WR_RDMA_WRITE, 100, mr[1]->rkey + 1, 2),
			 0);
	expect(2, IBV_WC_SUCCESS);
	assert_int_equal(post_recv(1, 10, 100), 0);
	assert_int_equal(post_uc(IBV_WR_SEND, 101, 0, 3), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_int_equal(next(&wc, 50), 0);
	assert_int_equal(mem[1][0], 0);
	/* all of that forgotten */
	assert_int_equal(post_uc(IBV_WR_SEND_WITH_IMM, 100, 0, 4), 0);
	expect(4, IBV_WC_SUCCESS);
	wc = expect(10, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.imm_data, 0x4321);
	assert_int_equal(post_recv(1, 11, 0), 0);
	assert_int_equal(post_uc(IBV_WR_RDMA_WRITE_WITH_IMM, SIZE, mr[1]->rkey,
				 5), 0);
	expect(5, IBV_WC_SUCCESS);
	wc = expect(11, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, SIZE);
	assert_memory_equal(mem[0], mem[1], SIZE);
	assert_int_equal(post_uc(IBV_WR_RDMA_READ, 8, mr[1]->rkey, 6), EINVAL);
	/* as if nobody had ever been there */
	assert_int_equal(soft_modify_qp(qp[1], &(struct ibv_qp_attr){
			 .qp_state = IBV_QPS_RESET }, IBV_QP_STATE), 0);
	assert_int_equal(post_uc(IBV_WR_SEND, 100, 0, 7), 0);
	expect(7, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UD(create_ah__bad_address_REFUSED),
		UD(modify__ud_without_qkey_EINVAL),
		UD(send__of_every_size_ARRIVES),
		UD(send__undeliverable_LOST_IN_SILENCE),
		UD(send__of_what_ud_has_not_EINVAL),
		UD(send__local_error_ONLY_SQE),
		UD(full__peer_has_moved_since_NOT_GIVEN_UP),
		cmocka_unit_test_setup_teardown(
			uc__sends_and_writes_ARRIVE_OR_ARE_LOST, setup_uc,
			teardown),
	};

	join_own_fabric("ud");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
