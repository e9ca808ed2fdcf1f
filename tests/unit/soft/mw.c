/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows and regions of the soft HCA: keys, bounds, revocation. */
#include "pair.h"
#include "../own_fabric.h"

static struct ibv_mw *mw;

static int setup_two(void **state)
{
	if (setup_pair(state))
		return -1;
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	return mw ? 0 : -1;
}

static int teardown_two(void **state)
{
	assert_int_equal(soft_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	return teardown_pair(state);
}

/* Binds len bytes of mem[1] at 'from', on queue pair q. */
static int bind_on(struct ibv_qp *q, struct ibv_mr *m, uint64_t from,
		   uint64_t len, unsigned int access, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = 100, .opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
	};

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		m, (uintptr_t)mem[1] + from, len, access,
	};
	return ibv_post_send(q, &wr, &bad);
}

static void bound(uint64_t from, uint64_t len, unsigned int access)
{
	mw->rkey = ibv_inc_rkey(mw->rkey);
	assert_int_equal(bind_on(qp[1], mr[1], from, len, access, mw->rkey), 0);
	assert_int_equal(expect(100, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
}

static void refused(uint32_t rkey, enum ibv_wr_opcode op, uint64_t raddr,
		    uint32_t len)
{
	assert_int_equal(post(qp[0], op, 9, len, raddr, rkey), 0);
	expect(9, IBV_WC_REM_ACCESS_ERR);
	expect_event(IBV_EVENT_QP_ACCESS_ERR);
}

static void bind__type_2_OPENS_ITS_BYTES(void **state)
{
	uint64_t at = (uintptr_t)mem[1] + 100;

	bound(100, 50, IBV_ACCESS_REMOTE_WRITE);
	memset(mem[0], 0x5a, 50);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 50, at, mw->rkey),
			 0);
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1] + 100, 50);
	assert_int_equal(mem[1][99] | mem[1][150], 0);
	assert_int_equal(soft_dereg_mr(mr[1]), EBUSY);
	assert_int_equal(soft_rereg_mr(mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL,
				       NULL, 0, ALL), IBV_REREG_MR_ERR_INPUT);
	refused(mw->rkey, IBV_WR_RDMA_WRITE, at, 51);
}

static void bind__zero_based_BEGINS_AT_0(void **state)
{
	bound(4096, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_ZERO_BASED);
	memset(mem[0], 0x77, 8);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8, 56, mw->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1] + 4096 + 56, 8);
	refused(mw->rkey, IBV_WR_RDMA_READ, 57, 8);
}

static void write__window_for_reading_REM_ACCESS_ERR(void **state)
{
	bound(0, 64, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 1, 64,
			      (uintptr_t)mem[1], mw->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	refused(mw->rkey, IBV_WR_RDMA_WRITE, (uintptr_t)mem[1], 1);
}

static void write__key_before_the_bind_REM_ACCESS_ERR(void **state)
{
	uint32_t old = mw->rkey;

	bound(0, 64, IBV_ACCESS_REMOTE_WRITE);
	assert_int_not_equal(old, mw->rkey);
	refused(old, IBV_WR_RDMA_WRITE, (uintptr_t)mem[1], 1);
}

static void local_inv__then_write_REM_ACCESS_ERR(void **state)
{
	bound(0, 64, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(post(qp[1], IBV_WR_LOCAL_INV, 2, 0, 0, mw->rkey), 0);
	assert_int_equal(expect(2, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	/* and may be bound again */
	bound(0, 64, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(post(qp[1], IBV_WR_LOCAL_INV, 3, 0, 0, mw->rkey), 0);
	expect(3, IBV_WC_SUCCESS);
	refused(mw->rkey, IBV_WR_RDMA_WRITE, (uintptr_t)mem[1], 1);
}

static void local_inv__not_bound_MW_BIND_ERR(void **state)
{
	assert_int_equal(post(qp[1], IBV_WR_LOCAL_INV, 2, 0, 0, mw->rkey), 0);
	expect(2, IBV_WC_MW_BIND_ERR);
}

static void send_with_inv__REVOKES(void **state)
{
	struct ibv_wc wc;

	bound(0, 64, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(post_recv(qp[1], 5, 64), 0);
	assert_int_equal(post(qp[0], IBV_WR_SEND_WITH_INV, 6, 8, 0, mw->rkey),
			 0);
	wc = expect(5, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, mw->rkey);
	expect(6, IBV_WC_SUCCESS);
	refused(mw->rkey, IBV_WR_RDMA_WRITE, (uintptr_t)mem[1], 1);
}

static void bind__region_that_may_not_MW_BIND_ERR(void **state)
{
	struct ibv_mr *m = soft_reg_mr(pd, mem[1], 64,
				       ALL & ~IBV_ACCESS_MW_BIND);

	assert_int_equal(bind_on(qp[1], m, 0, 64, 0, ibv_inc_rkey(mw->rkey)),
			 0);
	expect(100, IBV_WC_MW_BIND_ERR);
	assert_int_equal(soft_dereg_mr(m), 0);
}

static void bind__writing_where_not_even_we_may_MW_BIND_ERR(void **state)
{
	struct ibv_mr *m = soft_reg_mr(pd, mem[1], 64, IBV_ACCESS_MW_BIND |
				       IBV_ACCESS_REMOTE_READ);

	assert_int_equal(bind_on(qp[1], m, 0, 64, IBV_ACCESS_REMOTE_WRITE,
				 ibv_inc_rkey(mw->rkey)), 0);
	expect(100, IBV_WC_MW_BIND_ERR);
	assert_int_equal(soft_dereg_mr(m), 0);
}

static void bind__beyond_the_region_MW_BIND_ERR(void **state)
{
	assert_int_equal(bind_on(qp[1], mr[1], SIZE - 63, 64, 0,
				 ibv_inc_rkey(mw->rkey)), 0);
	expect(100, IBV_WC_MW_BIND_ERR);
}

static void bind__another_windows_key_MW_BIND_ERR(void **state)
{
	assert_int_equal(bind_on(qp[1], mr[1], 0, 64, 0, mw->rkey + 256), 0);
	expect(100, IBV_WC_MW_BIND_ERR);
}

static void bind__bound_already_MW_BIND_ERR(void **state)
{
	bound(0, 64, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(bind_on(qp[1], mr[1], 0, 64, 0,
				 ibv_inc_rkey(mw->rkey)), 0);
	expect(100, IBV_WC_MW_BIND_ERR);
	/* what was bound for the queue pair goes with it */
	destroy_pair();
	assert_int_equal(soft_dereg_mr(mr[1]), 0);
	mr[1] = soft_reg_mr(pd, mem[1], SIZE, ALL);
	make_pair(NULL);
}

static void bind__wrong_call_EINVAL(void **state)
{
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = mw;

	assert_int_equal(bind_on(qp[1], mr[1], 0, 64, IBV_ACCESS_MW_BIND,
				 mw->rkey), EINVAL);
	mw = one;
	assert_int_equal(bind_on(qp[1], mr[1], 0, 64, 0, mw->rkey), EINVAL);
	mw = two;
	assert_int_equal(ibv_dealloc_mw(one), 0);
	assert_null(ibv_alloc_mw(pd, 7));
}

static void bind_mw__type_1_OPENS_AND_UNBINDS(void **state)
{
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind b = {
		.wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { mr[1], (uintptr_t)mem[1], 64,
			       IBV_ACCESS_REMOTE_WRITE },
	};
	uint32_t old = one->rkey;

	assert_int_equal(ibv_bind_mw(qp[1], one, &b), 0);
	expect(3, IBV_WC_SUCCESS);
	assert_int_not_equal(one->rkey, old);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 64,
			      (uintptr_t)mem[1], one->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	/* bound again without more ado; then nowhere */
	assert_int_equal(ibv_bind_mw(qp[1], one, &b), 0);
	expect(3, IBV_WC_SUCCESS);
	memset(&b.bind_info, 0, sizeof(b.bind_info));
	assert_int_equal(ibv_bind_mw(qp[1], one, &b), 0);
	expect(3, IBV_WC_SUCCESS);
	refused(one->rkey, IBV_WR_RDMA_WRITE, (uintptr_t)mem[1], 1);
	assert_int_equal(ibv_dealloc_mw(one), 0);
}

static void dealloc_mw__while_bound_REVOKES(void **state)
{
	uint32_t rkey;

	bound(0, 64, IBV_ACCESS_REMOTE_WRITE);
	rkey = mw->rkey;
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	refused(rkey, IBV_WR_RDMA_WRITE, (uintptr_t)mem[1], 1);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

/* ---- regions ---------------------------------------------------------- */

static void reg_mr__zero_based_BEGINS_AT_0(void **state)
{
	struct ibv_mr *m = soft_reg_mr(pd, mem[1] + 128, 64, ALL |
				       IBV_ACCESS_ZERO_BASED);

	memset(mem[0], 0x3c, 16);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 16, 48, m->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(mem[1] + 128 + 48, mem[0], 16);
	refused(m->rkey, IBV_WR_RDMA_WRITE, 49, 16);
	assert_int_equal(soft_dereg_mr(m), 0);
}

static void reg_mr_iova2__IS_REACHED_THERE(void **state)
{
	struct ibv_mr *m = soft_reg_mr_iova2(pd, mem[1], 64, 0x10000,
					     ALL | IBV_ACCESS_RELAXED_ORDERING);

	mem[0][0] = 0x42;
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 1, 0x10007, m->rkey),
			 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(mem[1][7], 0x42);
	assert_int_equal(soft_dereg_mr(m), 0);
	errno = 0;
	assert_null(soft_reg_mr(pd, mem[1], 64, IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void rereg_mr__CHANGES_ALL_OR_NOTHING(void **state)
{
	struct ibv_mr *m = soft_reg_mr(pd, mem[1], 64, ALL);
	uint32_t old = m->rkey;
	struct ibv_pd *other = soft_alloc_pd(c);

	assert_int_equal(soft_rereg_mr(m, 0, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(soft_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION,
				       NULL, (void *)4096, 64, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(m->rkey, old);
	assert_int_equal(soft_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION |
				       IBV_REREG_MR_CHANGE_ACCESS, NULL,
				       mem[1] + 64, 32, ALL), 0);
	mem[0][0] = 0x11;
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 1,
			      (uintptr_t)mem[1] + 95, m->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(mem[1][95], 0x11);
	assert_int_equal(soft_rereg_mr(m, IBV_REREG_MR_CHANGE_PD, other, NULL,
				       0, 0), 0);
	assert_int_equal(soft_dealloc_pd(other), EBUSY);
	refused(m->rkey, IBV_WR_RDMA_WRITE, (uintptr_t)mem[1] + 64, 1);
	assert_int_equal(soft_dereg_mr(m), 0);
	assert_int_equal(soft_dealloc_pd(other), 0);
}

#define TWO(fn) cmocka_unit_test_setup_teardown(fn, setup_two, teardown_two)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO(bind__type_2_OPENS_ITS_BYTES),
		TWO(bind__zero_based_BEGINS_AT_0),
		TWO(write__window_for_reading_REM_ACCESS_ERR),
		TWO(write__key_before_the_bind_REM_ACCESS_ERR),
		TWO(local_inv__then_write_REM_ACCESS_ERR),
		TWO(local_inv__not_bound_MW_BIND_ERR),
		TWO(send_with_inv__REVOKES),
		TWO(bind__region_that_may_not_MW_BIND_ERR),
		TWO(bind__writing_where_not_even_we_may_MW_BIND_ERR),
		TWO(bind__beyond_the_region_MW_BIND_ERR),
		TWO(bind__another_windows_key_MW_BIND_ERR),
		TWO(bind__bound_already_MW_BIND_ERR),
		TWO(bind__wrong_call_EINVAL),
		PAIR(bind_mw__type_1_OPENS_AND_UNBINDS),
		TWO(dealloc_mw__while_bound_REVOKES),
		PAIR(reg_mr__zero_based_BEGINS_AT_0),
		PAIR(reg_mr_iova2__IS_REACHED_THERE),
		PAIR(rereg_mr__CHANGES_ALL_OR_NOTHING),
	};

	join_own_fabric("mw");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
