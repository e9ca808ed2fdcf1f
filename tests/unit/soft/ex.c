/* SPDX-License-Identifier: BSD-2-Clause */
/* The extended interfaces of queues on the soft HCA, overrun, and draining. */
#include "config.h"
#include "pair.h"
#include "../own_fabric.h"

#ifdef HAVE_MLX5DV
#include <infiniband/mlx5dv.h>

#include "soft/verbs/mlx5.h"
#endif

#include <pthread.h>
#include <time.h>

#define RC_OPS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
		 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ | \
		 IBV_QP_EX_WITH_RDMA_WRITE | \
		 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
		 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
		 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)

static struct ibv_qp_ex *ex;

static struct ibv_qp_init_attr_ex init_ex(uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 8, 8, 2, 2, 32 }, .pd = pd, .send_ops_flags = ops,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
}

/* Connects the queue pairs, and takes the builder of the first. */
static int join(void)
{
	if (!qp[0] || !qp[1])
		return -1;
	walk(qp[0], qp[1]->qp_num);
	walk(qp[1], qp[0]->qp_num);
	ex = soft_qp_to_qp_ex(qp[0]);
	if (!ex)
		return -1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	return 0;
}

static int setup_built(void **state)
{
	struct ibv_qp_init_attr_ex a;

	if (open_device(state))
		return -1;
	a = init_ex(RC_OPS);
	for (int i = 0; i < 2; i++)
		qp[i] = soft_create_qp_ex(c, &a);
	return join();
}

#ifdef HAVE_MLX5DV

/* Queue pairs for raw requests among many that are not. */
static int setup_raw(void **state)
{
	struct mlx5dv_qp_init_attr m = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE,
	};
	struct ibv_qp_init_attr_ex a;

	if (open_device(state))
		return -1;
	a = init_ex(RC_OPS);
	for (int i = 0; i < 2; i++)
		qp[i] = soft_mlx5_create_qp(c, &a, &m);
	return join();
}

#endif

static void set_mem(uint32_t len)
{
	ibv_wr_set_sge(ex, mr[0]->lkey, (uintptr_t)mem[0], len);
}

static void wr__every_operation_DONE(void **state)
{
	uint64_t at = (uintptr_t)mem[1], *word = (uint64_t *)mem[1];
	struct ibv_data_buf bufs[2] = { { "abc", 3 }, { "def", 3 } };
	struct ibv_sge two[2] = {
		{ (uintptr_t)mem[0], 4, mr[0]->lkey },
		{ (uintptr_t)mem[0] + 8, 4, mr[0]->lkey },
	};
	uint32_t key = mr[1]->rkey;
	struct ibv_wc wc;

	*word = 5;
	for (uint64_t i = 50; i < 53; i++)
		assert_int_equal(post_recv(qp[1], i, 64), 0);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ibv_wr_atomic_cmp_swp(ex, key, at, 5, 9);
	set_mem(8);
	ex->wr_id = 2;
	ibv_wr_atomic_fetch_add(ex, key, at, 1);
	set_mem(8);
	ex->wr_id = 3;
	ibv_wr_rdma_write(ex, key, at + 64);
	ibv_wr_set_inline_data_list(ex, 2, bufs);
	ex->wr_id = 4;
	ibv_wr_rdma_read(ex, key, at + 64);
	ibv_wr_set_sge_list(ex, 2, two);
	ex->wr_id = 5;
	ibv_wr_rdma_write_imm(ex, key, at, 0x55);
	assert_int_equal(ibv_wr_complete(ex), 0);
	for (int i = 0; i < 6; i++) {
		wc = next(cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 50)
			assert_int_equal(wc.imm_data, 0x55);
	}
	assert_int_equal(*word, 10);
	assert_memory_equal(mem[1] + 64, "abcdef", 6);
	assert_memory_equal(mem[0], "abcd", 4);
	assert_memory_equal(mem[0] + 8, "ef", 2);

	ibv_wr_start(ex);
	ex->wr_id = 6;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, "xyz", 3);
	ex->wr_id = 7;
	ibv_wr_send_imm(ex, 0x77);
	assert_int_equal(ibv_wr_complete(ex), 0);
	for (int i = 0; i < 4; i++) {
		wc = next(cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 51)
			assert_int_equal(wc.byte_len, 3);
		if (wc.wr_id == 52)
			assert_int_equal(wc.imm_data, 0x77);
	}
	assert_memory_equal(mem[1], "xyz", 3);
}

static void wr__windows_BIND_AND_REVOKE(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {
		mr[0], (uintptr_t)mem[0], 64, IBV_ACCESS_REMOTE_READ,
	};

	ibv_wr_start(ex);
	ex->wr_id = 1;
	mw->rkey = ibv_inc_rkey(mw->rkey);
	ibv_wr_bind_mw(ex, mw, mw->rkey, &info);
	ex->wr_id = 2;
	ibv_wr_local_inv(ex, mw->rkey);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
	ibv_wr_start(ex);
	ibv_wr_send_inv(ex, 12345);
	assert_int_equal(post_recv(qp[1], 50, 64), 0);
	assert_int_equal(ibv_wr_complete(ex), 0);
	/* which is no window of theirs */
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next(cq);

		assert_int_equal(wc.status, wc.wr_id == 50 ?
				 IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_OP_ERR);
	}
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void wr__wrong_NOTHING_IS_POSTED(void **state)
{
	struct ibv_sge three[3] = { { .length = 1 } };
	struct ibv_wc wc;

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, mr[1]->rkey, (uintptr_t)mem[1]);
	set_mem(1);
	ibv_wr_abort(ex);

	ibv_wr_start(ex);
	set_mem(1);			/* of what? */
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, mr[1]->rkey, (uintptr_t)mem[1]);
	ibv_wr_set_sge_list(ex, 3, three);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, mr[1]->rkey, (uintptr_t)mem[1]);
	ibv_wr_set_inline_data(ex, mem[0], 65);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_atomic_fetch_add(ex, mr[1]->rkey, (uintptr_t)mem[1], 1);
	set_mem(4);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_send_tso(ex, mem[0], 4, 4);
	assert_int_equal(ibv_wr_complete(ex), EOPNOTSUPP);
#ifdef HAVE_ATOMIC_WRITE
	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, 0, 0, mem[0]);
	assert_int_equal(ibv_wr_complete(ex), EOPNOTSUPP);
#endif

	ibv_wr_start(ex);
	for (int i = 0; i < 9; i++)
		ibv_wr_rdma_write(ex, mr[1]->rkey, (uintptr_t)mem[1]);
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	/* and it still works, also with the other interface in between */
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 4, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(4, IBV_WC_SUCCESS);
}

/* ---- builders and ordinary requests ------------------------------------ */

static struct ibv_send_wr write_of(struct ibv_sge *sge, uint64_t id,
				   uint32_t offset)
{
	*sge = (struct ibv_sge){ (uintptr_t)mem[0] + offset, 8, mr[0]->lkey };
	return (struct ibv_send_wr){
		.wr_id = id, .sg_list = sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {
			.remote_addr = (uintptr_t)mem[1] + offset,
			.rkey = mr[1]->rkey,
		},
	};
}

static void *post_beside(void *arg)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_of(&sge, 3, 64), *bad;

	(void)arg;
	return soft_post_send(qp[0], &wr, &bad) ? &ex : NULL;
}

static void build_write(uint64_t id, uint32_t offset)
{
	ex->wr_id = id;
	ibv_wr_rdma_write(ex, mr[1]->rkey, (uintptr_t)mem[1] + offset);
	ibv_wr_set_sge(ex, mr[0]->lkey, (uintptr_t)mem[0] + offset, 8);
}

/* The ordinary request comes before or behind those that are being built. */
static void post_send__beside_a_builder_KEEPS_ITS_REQUESTS(void **state)
{
	for (uint64_t round = 1; round <= 300; round++) {
		uint64_t ids = 0;
		pthread_t thread;
		void *failed;

		for (uint32_t at = 0; at <= 64; at += 32)
			*(uint64_t *)(mem[0] + at) = round + at;
		ibv_wr_start(ex);
		build_write(1, 0);
		assert_int_equal(pthread_create(&thread, NULL, post_beside,
						NULL), 0);
		build_write(2, 32);
		/* a round of the second kind gives its requests up */
		if (round % 2)
			assert_int_equal(ibv_wr_complete(ex), 0);
		else
			ibv_wr_abort(ex);
		assert_int_equal(pthread_join(thread, &failed), 0);
		assert_null(failed);
		for (int i = 0; i < (round % 2 ? 3 : 1); i++) {
			const struct ibv_wc wc = next(cq);

			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			ids |= 1u << wc.wr_id;
		}
		assert_int_equal(ids, round % 2 ? 0xe : 0x8);
		for (uint32_t at = round % 2 ? 0 : 64; at <= 64; at += 32)
			assert_int_equal(*(uint64_t *)(mem[1] + at),
					 round + at);
	}
}

static void create_qp_ex__what_is_not_there_REFUSED(void **state)
{
	struct ibv_qp_init_attr_ex a = init_ex(IBV_QP_EX_WITH_TSO);
	struct ibv_qp_init_attr plain = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *q;

	errno = 0;
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.send_ops_flags = 1ull << 40;
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EINVAL);
	a = init_ex(0);
	a.comp_mask |= 1u << 20;
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EINVAL);
	a = init_ex(0);
	a.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a = init_ex(0);
	a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	a.create_flags = IBV_QP_CREATE_SOURCE_QPN;
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EINVAL);
	a.qp_type = IBV_QPT_UD;
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a = init_ex(0);
	a.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;	/* no domain */
	assert_null(soft_create_qp_ex(c, &a));
	assert_int_equal(errno, EINVAL);
	q = soft_create_qp(pd, &plain);
	assert_null(soft_qp_to_qp_ex(q));
	assert_int_equal(soft_destroy_qp(q), 0);
}

static void unsupported_calls__EOPNOTSUPP(void **state)
{
	struct ibv_modify_cq_attr mod = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_parent_domain_init_attr parent = {
		.pd = pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
	};
	struct ibv_device_attr_ex attr;

	errno = 0;
	assert_null(ibv_alloc_null_mr(pd));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_alloc_dm(c, &dm));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_alloc_parent_domain(c, &parent));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0,
				       NULL, 0), EOPNOTSUPP);
	assert_int_equal(ibv_modify_cq(cq, &mod), EOPNOTSUPP);
	assert_int_equal(soft_query_device_ex(c, NULL, &attr, sizeof(attr)), 0);
	assert_int_equal(attr.odp_caps.general_caps, 0);
	assert_int_equal(attr.phys_port_cnt_ex, attr.orig_attr.phys_port_cnt);
	assert_true(attr.orig_attr.max_srq && attr.orig_attr.max_mw);
}

/* ---- completion queues ------------------------------------------------ */

static void writes(int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, (uint64_t)i, 8,
				      (uintptr_t)mem[1], mr[1]->rkey), 0);
}

static void pair_on(struct ibv_cq *other)
{
	struct ibv_cq *mine = cq;

	cq = other;
	make_pair(NULL);
	cq = mine;
}

static void cq_ex__polled_by_calls_TELLS_ALL(void **state)
{
	struct ibv_cq_init_attr_ex a = {
		.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	struct ibv_poll_cq_attr none = { .comp_mask = 0 };
	struct ibv_cq_ex *x = ibv_create_cq_ex(c, &a);
	int ret = ENOENT;

	assert_non_null(x);
	pair_on(ibv_cq_ex_to_cq(x));
	assert_int_equal(ibv_start_poll(x, &none), ENOENT);
	writes(2);
	for (int i = 0; i < 20000 && ret == ENOENT; i++) {
		ret = ibv_start_poll(x, &none);
		if (ret)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(ret, 0);
	assert_int_equal(x->wr_id, 0);
	assert_int_equal(x->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(x), IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_wc_read_qp_num(x), qp[0]->qp_num);
	/* what is posted while one looks does not wait for that */
	assert_int_equal(post_recv(qp[1], 7, 64), 0);
	while ((ret = ibv_next_poll(x)) == ENOENT)
		;
	assert_int_equal(ret, 0);
	assert_int_equal(x->wr_id, 1);
	ibv_end_poll(x);
	destroy_pair();
	assert_int_equal(soft_destroy_cq(ibv_cq_ex_to_cq(x)), 0);

	errno = 0;
	a.wc_flags |= IBV_WC_EX_WITH_FLOW_TAG;
	assert_null(ibv_create_cq_ex(c, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	a.wc_flags = 1ull << 50;
	assert_null(ibv_create_cq_ex(c, &a));
	assert_int_equal(errno, EINVAL);
}

static uint64_t wall_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/*
 * The wall clock's time of a completion. An hour of difference would be another
 * clock; less may be a step of the wall clock.
 */
static void cq_ex__wall_clock_WHEN_COMPLETED(void **state)
{
	const uint64_t hour = 3600000000000u;
	struct ibv_cq_init_attr_ex a = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_poll_cq_attr none = { .comp_mask = 0 };
	struct ibv_cq_ex *x = ibv_create_cq_ex(c, &a);
	struct ibv_values_ex bad = { .comp_mask = 2 };
	int ret = ENOENT;

	assert_non_null(x);
	pair_on(ibv_cq_ex_to_cq(x));
	writes(1);
	for (int i = 0; i < 20000 && ret == ENOENT; i++) {
		ret = ibv_start_poll(x, &none);
		if (ret)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(ret, 0);
	assert_true(ibv_wc_read_completion_wallclock_ns(x) - wall_ns() + hour <
		    2 * hour);
	ibv_end_poll(x);
	destroy_pair();
	assert_int_equal(soft_destroy_cq(ibv_cq_ex_to_cq(x)), 0);
	assert_int_equal(ibv_query_rt_values_ex(c, &bad), EINVAL);
}

static void cq__overrun_CQ_ERR(void **state)
{
	struct ibv_cq *small = soft_create_cq(c, 4, NULL, NULL, 0);
	struct ibv_async_event ev;
	struct ibv_wc wc[8];

	pair_on(small);
	writes(6);
	ev = expect_event(IBV_EVENT_CQ_ERR);
	assert_ptr_equal(ev.element.cq, small);
	/* both use it, for one thing or the other */
	for (int i = 0; i < 2; i++) {
		(void)expect_event(IBV_EVENT_QP_FATAL);
		assert_int_equal(state_of(qp[i]), IBV_QPS_ERR);
	}
	assert_int_equal(ibv_poll_cq(small, 8, wc), 4);
	assert_true(ibv_poll_cq(small, 8, wc) < 0);
	assert_false(event_waits());
	destroy_pair();
	assert_int_equal(soft_destroy_cq(small), 0);
}

static void cq__overrun_ignored_OLDEST_ARE_LOST(void **state)
{
	struct ibv_cq_init_attr_ex a = {
		.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN |
			 IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq *x = ibv_cq_ex_to_cq(ibv_create_cq_ex(c, &a));
	uint64_t last = 0;

	pair_on(x);
	writes(6);
	while (last != 5)
		last = next(x).wr_id;
	assert_false(event_waits());
	destroy_pair();
	assert_int_equal(soft_destroy_cq(x), 0);
}

static void resize_cq__KEEPS_WHAT_IS_THERE(void **state)
{
	struct ibv_cq *x = soft_create_cq(c, 8, NULL, NULL, 0);
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1,
	};

	pair_on(x);
	writes(4);
	/* all four are there once the queue is drained */
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE |
					IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	expect_event(IBV_EVENT_SQ_DRAINED);
	assert_int_equal(soft_resize_cq(x, 3), EINVAL);
	assert_int_equal(soft_resize_cq(x, 0), EINVAL);
	assert_int_equal(soft_resize_cq(x, 100), 0);
	assert_int_equal(x->cqe, 100);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(next(x).wr_id, i);
	destroy_pair();
	assert_int_equal(soft_destroy_cq(x), 0);
}

static void notify__solicited_only_NOT_FOR_OTHERS(void **state)
{
	struct ibv_comp_channel *ch = soft_create_comp_channel(c);
	struct ibv_cq *x = soft_create_cq(c, 16, NULL, ch, 0), *got;
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct ibv_sge sge = { (uintptr_t)mem[0], 8, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SOLICITED,
	};
	void *ctx;

	assert_int_equal(soft_destroy_comp_channel(ch), EBUSY);
	pair_on(x);
	assert_int_equal(post_recv(qp[1], 1, 64), 0);
	assert_int_equal(post_recv(qp[1], 2, 64), 0);
	assert_int_equal(ibv_req_notify_cq(x, 1), 0);
	wr.send_flags = 0;
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
	assert_int_equal(next(x).wr_id, 1);
	assert_int_equal(poll(&p, 1, 0), 0);
	wr.send_flags = IBV_SEND_SOLICITED;
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(soft_get_cq_event(ch, &got, &ctx), 0);
	assert_ptr_equal(got, x);
	soft_ack_cq_events(x, 1);
	assert_int_equal(next(x).wr_id, 2);
	destroy_pair();
	assert_int_equal(soft_destroy_cq(x), 0);
	assert_int_equal(soft_destroy_comp_channel(ch), 0);
}

/* ---- draining --------------------------------------------------------- */

static void sqd__what_had_begun_ENDS_FIRST(void **state)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1,
	};
	struct ibv_qp_init_attr init;
	struct ibv_async_event ev;
	struct ibv_wc wc;

	/* begun, but there is no receive: it is under way for a while */
	assert_int_equal(post(qp[0], IBV_WR_SEND, 1, 8, 0, 0), 0);
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_STATE |
					IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(soft_query_qp(qp[0], &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_SQD);
	assert_int_equal(a.sq_draining, 1);
	assert_int_equal(init.cap.max_send_wr, 64);
	assert_ptr_equal(init.send_cq, cq);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 2, 8, 0, 0), 0);
	assert_int_equal(post_recv(qp[1], 10, 64), 0);
	assert_int_equal(post_recv(qp[1], 11, 64), 0);
	expect(10, IBV_WC_SUCCESS);
	expect(1, IBV_WC_SUCCESS);
	ev = expect_event(IBV_EVENT_SQ_DRAINED);
	assert_ptr_equal(ev.element.qp, qp[0]);
	assert_int_equal(soft_query_qp(qp[0], &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.sq_draining, 0);
	/* the other one has not been begun, until the queue goes on */
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	enter(qp[0], IBV_QPS_RTS);
	expect(11, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
}

static int setup_patient(void **state)
{
	rnr_retry = 7;
	return setup_pair(state);
}

#define BUILT(fn) \
	cmocka_unit_test_setup_teardown(fn, setup_built, teardown_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUILT(wr__every_operation_DONE),
		BUILT(wr__windows_BIND_AND_REVOKE),
		BUILT(wr__wrong_NOTHING_IS_POSTED),
		BUILT(post_send__beside_a_builder_KEEPS_ITS_REQUESTS),
#ifdef HAVE_MLX5DV
		cmocka_unit_test_setup_teardown(
			post_send__beside_a_builder_KEEPS_ITS_REQUESTS,
			setup_raw, teardown_pair),
		cmocka_unit_test_setup_teardown(wr__every_operation_DONE,
						setup_raw, teardown_pair),
#endif
		PLAIN(create_qp_ex__what_is_not_there_REFUSED),
		PLAIN(unsupported_calls__EOPNOTSUPP),
		PLAIN(cq_ex__polled_by_calls_TELLS_ALL),
		PLAIN(cq_ex__wall_clock_WHEN_COMPLETED),
		PLAIN(cq__overrun_CQ_ERR),
		PLAIN(cq__overrun_ignored_OLDEST_ARE_LOST),
		PLAIN(resize_cq__KEEPS_WHAT_IS_THERE),
		PLAIN(notify__solicited_only_NOT_FOR_OTHERS),
		cmocka_unit_test_setup_teardown(sqd__what_had_begun_ENDS_FIRST,
						setup_patient, teardown_pair),
	};

	join_own_fabric("ex");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
