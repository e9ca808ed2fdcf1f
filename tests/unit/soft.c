/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA through its own calls: a connection of this process to itself,
 * each operation, and each way in which one fails.
 */
#include "soft/soft.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#define SIZE	(1u << 20)
#define ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *c;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr[2];
static uint8_t *mem[2];
static uint8_t rnr_retry;	/* 7: for ever */

static void walk(struct ibv_qp *q, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = ALL, .path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 1, .timeout = 8, .retry_cnt = 2,
		.rnr_retry = rnr_retry, .max_rd_atomic = 4, .rq_psn = 0xfffffe,
		.sq_psn = 0xfffffe,
	};

	assert_int_equal(soft_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PORT |
			 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), 0);
	a.qp_state = IBV_QPS_RTR;
	/* one attribute too few */
	assert_int_equal(soft_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_AV),
			 EINVAL);
	assert_int_equal(soft_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_AV |
			 IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(soft_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_TIMEOUT |
			 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			 IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static int setup(void **state)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	rnr_retry = *state ? 7 : 2;
	c = soft_open_device(list[0]);
	soft_free_device_list(list);
	if (!c)
		return -1;
	pd = soft_alloc_pd(c);
	cq = soft_create_cq(c, 256, NULL, NULL, 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { 64, 64, 4, 4, 64 },
		};

		mem[i] = calloc(1, SIZE);
		mr[i] = soft_reg_mr(pd, mem[i], SIZE, ALL);
		qp[i] = soft_create_qp(pd, &a);
		if (!mr[i] || !qp[i])
			return -1;
	}
	walk(qp[0], qp[1]->qp_num);
	walk(qp[1], qp[0]->qp_num);
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(soft_dealloc_pd(pd), EBUSY);
		assert_int_equal(soft_destroy_cq(cq), EBUSY);
		assert_int_equal(soft_destroy_qp(qp[i]), 0);
		assert_int_equal(soft_dereg_mr(mr[i]), 0);
		free(mem[i]);
	}
	assert_int_equal(soft_destroy_cq(cq), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
	assert_int_equal(soft_close_device(c), 0);
	return 0;
}

static int post(enum ibv_wr_opcode op, uint64_t wr_id, uint32_t len,
		uint64_t raddr, uint32_t rkey, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = flags, .imm_data = 0x1234,
	};

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 77;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp[0], &wr, &bad);
}

static void post_recv(uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem[1], len, mr[1]->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	assert_int_equal(ibv_post_recv(qp[1], &wr, &bad), 0);
}

/* The next completion, of this request with this status. */
static struct ibv_wc expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int n = 0;

	for (int i = 0; i < 20000 && !n; i++) {
		n = ibv_poll_cq(cq, 1, &wc);
		if (!n && i > 1000)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(n, 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

static void expect_event(enum ibv_event_type type)
{
	struct ibv_async_event ev;

	assert_int_equal(soft_get_async_event(c, &ev), 0);
	assert_int_equal(ev.event_type, type);
	soft_ack_async_event(&ev);
}

static void send__with_immediate_ARRIVES(void **state)
{
	struct ibv_wc wc;

	memset(mem[0], 0xab, 300000);
	post_recv(1, SIZE);
	assert_int_equal(post(IBV_WR_SEND_WITH_IMM, 2, 300000, 0, 0,
			      IBV_SEND_SIGNALED), 0);
	wc = expect(1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 300000);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.imm_data, 0x1234);
	assert_int_equal(wc.src_qp, qp[0]->qp_num);
	assert_int_equal(expect(2, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
	assert_memory_equal(mem[0], mem[1], 300000);
}

static void write_read_atomics__in_order_DO_THEIR_WORK(void **state)
{
	uint64_t at = (uintptr_t)mem[1], *word = (uint64_t *)mem[1];

	for (uint32_t i = 0; i < SIZE; i++)
		mem[0][i] = (uint8_t)(i * 7);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 1, SIZE, at, mr[1]->rkey, 0), 0);
	assert_int_equal(post(IBV_WR_RDMA_READ, 2, SIZE, at, mr[1]->rkey,
			      IBV_SEND_SIGNALED), 0);
	expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1], SIZE);
	*word = 5;
	assert_int_equal(post(IBV_WR_ATOMIC_CMP_AND_SWP, 3, 8, at, mr[1]->rkey,
			      IBV_SEND_SIGNALED), 0);
	assert_int_equal(expect(3, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(*(uint64_t *)mem[0], 5);
	assert_int_equal(*word, 77);
	assert_int_equal(post(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 8, at,
			      mr[1]->rkey, IBV_SEND_SIGNALED), 0);
	expect(4, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)mem[0], 77);
	assert_int_equal(*word, 82);
	/* more than may be under way at once */
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(post(IBV_WR_RDMA_READ, i, 100000, at,
				      mr[1]->rkey, IBV_SEND_SIGNALED), 0);
	for (uint64_t i = 0; i < 20; i++)
		expect(i, IBV_WC_SUCCESS);
}

static void send__receive_posted_late_WAITS(void **state)
{
	assert_int_equal(post(IBV_WR_SEND, 1, 100, 0, 0, IBV_SEND_SIGNALED |
			      IBV_SEND_INLINE), EINVAL);
	assert_int_equal(post(IBV_WR_SEND, 1, 64, 0, 0, IBV_SEND_SIGNALED |
			      IBV_SEND_INLINE), 0);
	assert_int_equal(post(IBV_WR_SEND, 2, 100000, 0, 0, IBV_SEND_SIGNALED),
			 0);
	post_recv(8, SIZE);
	post_recv(9, SIZE);
	expect(8, IBV_WC_SUCCESS);
	/* the order of these two depends on who is faster */
	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc;

		while (!ibv_poll_cq(cq, 1, &wc))
			;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
}

static void send__no_receive_RNR_RETRY_EXC(void **state)
{
	assert_int_equal(post(IBV_WR_SEND, 1, 10, 0, 0, 0), 0);
	assert_int_equal(post(IBV_WR_SEND, 2, 10, 0, 0, 0), 0);
	expect(1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(post(IBV_WR_SEND, 3, 10, 0, 0, 0), 0);
	expect(3, IBV_WC_WR_FLUSH_ERR);
}

static void send__receive_too_short_BOTH_TOLD(void **state)
{
	post_recv(1, 10);
	assert_int_equal(post(IBV_WR_SEND, 2, 11, 0, 0, 0), 0);
	expect(1, IBV_WC_LOC_LEN_ERR);
	expect(2, IBV_WC_REM_INV_REQ_ERR);
}

static void write__wrong_key_or_bounds_REM_ACCESS_ERR(void **state)
{
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 1, 16, (uintptr_t)mem[1] +
			      SIZE - 15, mr[1]->rkey, 0), 0);
	expect(1, IBV_WC_REM_ACCESS_ERR);
	expect_event(IBV_EVENT_QP_ACCESS_ERR);
}

static void read__key_that_was_deregistered_REM_ACCESS_ERR(void **state)
{
	struct ibv_mr *gone = soft_reg_mr(pd, mem[1], 4096, ALL);
	uint32_t rkey = gone->rkey;

	assert_int_equal(soft_dereg_mr(gone), 0);
	assert_int_equal(post(IBV_WR_RDMA_READ, 1, 16, (uintptr_t)mem[1], rkey,
			      0), 0);
	expect(1, IBV_WC_REM_ACCESS_ERR);
	expect_event(IBV_EVENT_QP_ACCESS_ERR);
}

static void send__peer_reset_RETRY_EXC(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	assert_int_equal(soft_modify_qp(qp[1], &a, IBV_QP_STATE), 0);
	assert_int_equal(post(IBV_WR_SEND, 1, 10, 0, 0, 0), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
}

static void reg_mr__memory_that_is_none_EFAULT(void **state)
{
	errno = 0;
	assert_null(soft_reg_mr(pd, (void *)4096, 4096, ALL));
	assert_int_equal(errno, EFAULT);
}

/* A page that is missing is found, whether the others are in place or not. */
static void reg_mr__to_be_read_IS_LOOKED_AT(void **state)
{
	uint8_t *at = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *read;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(munmap(at + 2 * 4096, 4096), 0);
	for (int i = 0; i < 2; i++) {
		errno = 0;
		assert_null(soft_reg_mr(pd, at, 3 * 4096,
					IBV_ACCESS_REMOTE_READ));
		assert_int_equal(errno, EFAULT);
		read = soft_reg_mr(pd, at, 2 * 4096, IBV_ACCESS_REMOTE_READ);
		assert_non_null(read);
		assert_int_equal(soft_dereg_mr(read), 0);
		memset(at, 1, 2 * 4096);
	}
	assert_int_equal(munmap(at, 2 * 4096), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(send__with_immediate_ARRIVES),
		TEST(write_read_atomics__in_order_DO_THEIR_WORK),
		{ "send__receive_posted_late_WAITS",
		  send__receive_posted_late_WAITS, setup, teardown,
		  "waits for ever" },
		TEST(send__no_receive_RNR_RETRY_EXC),
		TEST(send__receive_too_short_BOTH_TOLD),
		TEST(write__wrong_key_or_bounds_REM_ACCESS_ERR),
		TEST(read__key_that_was_deregistered_REM_ACCESS_ERR),
		TEST(send__peer_reset_RETRY_EXC),
		TEST(reg_mr__memory_that_is_none_EFAULT),
		TEST(reg_mr__to_be_read_IS_LOOKED_AT),
	};

	(void)setenv("RDMAMSG_SOFT_FABRIC", "unit-test", 1);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
