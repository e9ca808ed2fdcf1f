/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues and XRC on the soft HCA. */
#include "pair.h"

#include <stdio.h>

#include "../own_fabric.h"

static struct ibv_srq *srq;

static int setup_shared(void **state)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 2 } };

	if (open_device(state))
		return -1;
	srq = soft_create_srq(pd, &a);
	if (!srq)
		return -1;
	make_pair(srq);
	return 0;
}

static int teardown_shared(void **state)
{
	assert_int_equal(soft_destroy_srq(srq), EBUSY);
	destroy_pair();
	assert_int_equal(soft_dealloc_pd(pd), EBUSY);
	assert_int_equal(soft_destroy_srq(srq), 0);
	return close_device(state);
}

static int post_srq(struct ibv_srq *to, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem[1], len, mr[1]->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_srq_recv(to, &wr, &bad);
}

/* Sends a message from qp[0]. Expects the completions at both ends. */
static void passes(uint64_t recv_id, uint32_t len)
{
	assert_int_equal(post(qp[0], IBV_WR_SEND, 99, len, 0, 0), 0);
	assert_int_equal(expect(recv_id, IBV_WC_SUCCESS).byte_len, len);
	expect(99, IBV_WC_SUCCESS);
}

static void send__TAKES_A_SHARED_RECEIVE(void **state)
{
	memset(mem[0], 0x61, SIZE);
	assert_int_equal(post_srq(srq, 1, SIZE), 0);
	passes(1, SIZE);		/* several segments */
	assert_memory_equal(mem[0], mem[1], SIZE);
	assert_int_equal(post_recv(qp[1], 1, 1), EINVAL);
}

static void two_senders__by_turns_ALL_ARRIVE(void **state)
{
	struct ibv_qp *first[2] = { qp[0], qp[1] };

	make_pair(srq);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_srq(srq, i, SIZE), 0);
	assert_int_equal(post_srq(srq, 8, SIZE), ENOMEM);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(post(qp[0], IBV_WR_SEND, 50, SIZE, 0, 0), 0);
		assert_int_equal(post(first[0], IBV_WR_SEND, 50, SIZE, 0, 0),
				 0);
	}
	for (int i = 0, got = 0; i < 16; i++) {
		struct ibv_wc wc = next(cq);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV) {
			assert_false(got & 1 << wc.wr_id);
			got |= 1 << wc.wr_id;
		}
	}
	destroy_pair();
	qp[0] = first[0];
	qp[1] = first[1];
}

static void send__queue_empty_RNR(void **state)
{
	assert_int_equal(post(qp[0], IBV_WR_SEND, 1, 8, 0, 0), 0);
	expect(1, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void modify_srq__limit_TELLS_ONCE(void **state)
{
	struct ibv_srq_attr a = { .srq_limit = 3 };
	struct ibv_async_event ev;

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post_srq(srq, i, 64), 0);
	assert_int_equal(soft_modify_srq(srq, &a, IBV_SRQ_LIMIT), 0);
	passes(0, 8);
	passes(1, 8);
	assert_false(event_waits());
	passes(2, 8);
	ev = expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.element.srq, srq);
	passes(3, 8);
	assert_false(event_waits());
	assert_int_equal(soft_query_srq(srq, &a), 0);
	assert_int_equal(a.srq_limit, 0);
	a.srq_limit = 9;
	assert_int_equal(soft_modify_srq(srq, &a, IBV_SRQ_LIMIT), EINVAL);
	assert_int_equal(soft_modify_srq(srq, &a, 1 << 7), EINVAL);
}

static void modify_srq__resize_KEEPS_WHAT_WAITS(void **state)
{
	struct ibv_srq_attr a = { .max_wr = 3 };

	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post_srq(srq, i, 64), 0);
	assert_int_equal(soft_modify_srq(srq, &a, IBV_SRQ_MAX_WR), EINVAL);
	a.max_wr = 5;
	assert_int_equal(soft_modify_srq(srq, &a, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(soft_query_srq(srq, &a), 0);
	assert_int_equal(a.max_wr, 5);
	assert_int_equal(a.max_sge, 2);
	assert_int_equal(post_srq(srq, 4, 64), 0);
	assert_int_equal(post_srq(srq, 5, 64), ENOMEM);
	for (uint64_t i = 0; i < 5; i++)
		passes(i, 8);
}

static void error__LAST_WQE_REACHED(void **state)
{
	struct ibv_async_event ev;

	assert_int_equal(post_srq(srq, 1, 64), 0);
	enter(qp[1], IBV_QPS_ERR);
	ev = expect_event(IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(ev.element.qp, qp[1]);
	enter(qp[1], IBV_QPS_ERR);
	assert_false(event_waits());
	/* what no message had begun to use stays for the others */
	destroy_pair();
	make_pair(srq);
	passes(1, 8);
}

static void create_srq__bad_values_EINVAL(void **state)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 0 } };
	struct ibv_srq_init_attr_ex ex = {
		.attr = { .max_wr = 1 }, .pd = pd, .srq_type = IBV_SRQT_TM,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
	};

	errno = 0;
	assert_null(soft_create_srq(pd, &a));
	assert_int_equal(errno, EINVAL);
	assert_null(soft_create_srq_ex(c, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
	ex.srq_type = IBV_SRQT_XRC;	/* of what domain? */
	assert_null(soft_create_srq_ex(c, &ex));
	assert_int_equal(errno, EINVAL);
	ex.comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED;
	assert_null(soft_create_srq_ex(c, &ex));
	assert_int_equal(errno, EINVAL);
}

/* ---- XRC -------------------------------------------------------------- */

static struct ibv_xrcd *xrcd;
static struct ibv_cq *xcq;

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd, .oflags = oflags,
	};

	return ibv_open_xrcd(c, &a);
}

static struct ibv_srq *xrc_srq(void)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = { .max_wr = 8, .max_sge = 1 }, .pd = pd, .cq = xcq,
		.xrcd = xrcd, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};

	return soft_create_srq_ex(c, &a);
}

static int setup_xrc(void **state)
{
	struct ibv_qp_init_attr_ex ini = {
		.send_cq = NULL, .qp_type = IBV_QPT_XRC_SEND, .sq_sig_all = 1,
		.cap = { 16, 0, 4, 0, 0 }, .comp_mask = IBV_QP_INIT_ATTR_PD,
	}, tgt = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};

	if (open_device(state))
		return -1;
	ini.send_cq = cq;
	ini.pd = pd;
	xcq = soft_create_cq(c, 16, NULL, NULL, 0);
	xrcd = open_domain(-1, O_CREAT);
	srq = xrc_srq();
	tgt.xrcd = xrcd;
	qp[0] = soft_create_qp_ex(c, &ini);
	qp[1] = soft_create_qp_ex(c, &tgt);
	if (!xcq || !xrcd || !srq || !qp[0] || !qp[1])
		return -1;
	walk(qp[0], qp[1]->qp_num);
	walk(qp[1], qp[0]->qp_num);
	return 0;
}

static int teardown_xrc(void **state)
{
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	destroy_pair();
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	assert_int_equal(soft_destroy_cq(xcq), EBUSY);
	assert_int_equal(soft_destroy_srq(srq), 0);
	assert_int_equal(soft_destroy_cq(xcq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	return close_device(state);
}

static int post_xrc(enum ibv_wr_opcode op, uint32_t srqn, uint32_t len,
		    uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)mem[0], len, mr[0]->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = op,
	};

	wr.qp_type.xrc.remote_srqn = srqn;
	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(qp[0], &wr, &bad);
}

static uint32_t number(struct ibv_srq *of)
{
	uint32_t num = 0;

	assert_int_equal(ibv_get_srq_num(of, &num), 0);
	return num;
}

static void xrc_send__GOES_TO_THE_QUEUE_IT_NAMES(void **state)
{
	struct ibv_srq *other = xrc_srq();
	struct ibv_wc wc;

	memset(mem[0], 0x2b, SIZE);
	assert_int_equal(post_srq(srq, 10, SIZE), 0);
	assert_int_equal(post_srq(other, 20, SIZE), 0);
	assert_int_equal(post_xrc(IBV_WR_SEND, number(other), SIZE, 0, 0), 0);
	assert_int_equal(post_xrc(IBV_WR_SEND, number(srq), 8, 0, 0), 0);
	wc = next(xcq);
	assert_int_equal(wc.wr_id, 20);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, SIZE);
	assert_int_equal(wc.qp_num, qp[1]->qp_num);
	assert_int_equal(next(xcq).wr_id, 10);
	expect(1, IBV_WC_SUCCESS);
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1], SIZE);
	assert_int_equal(soft_destroy_srq(other), 0);
}

static void xrc_write__into_the_memory_of_its_domain_DONE(void **state)
{
	struct ibv_pd *else_pd = soft_alloc_pd(c);
	struct ibv_mr *else_mr = soft_reg_mr(else_pd, mem[1], 64, ALL);
	uint64_t at = (uintptr_t)mem[1];

	mem[0][0] = 0x19;
	assert_int_equal(post_xrc(IBV_WR_RDMA_WRITE, number(srq), 1, at,
				  mr[1]->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(mem[1][0], 0x19);
	assert_int_equal(post_xrc(IBV_WR_RDMA_READ, number(srq), 8, at,
				  mr[1]->rkey), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(post_xrc(IBV_WR_RDMA_WRITE, number(srq), 1, at,
				  else_mr->rkey), 0);
	expect(1, IBV_WC_REM_ACCESS_ERR);
	expect_event(IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(soft_dereg_mr(else_mr), 0);
	assert_int_equal(soft_dealloc_pd(else_pd), 0);
}

static void xrc_send__no_such_queue_REM_INV_REQ_ERR(void **state)
{
	assert_int_equal(post_xrc(IBV_WR_SEND, number(srq) + 1, 8, 0, 0), 0);
	expect(1, IBV_WC_REM_INV_REQ_ERR);
	expect_event(IBV_EVENT_QP_REQ_ERR);
}

static void xrc_send__queue_empty_RNR(void **state)
{
	assert_int_equal(post_xrc(IBV_WR_SEND, number(srq), 8, 0, 0), 0);
	expect(1, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* XRC queue pairs migrate as well. */
static void xrc__migrates_BOTH_ENDS(void **state)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .timeout = 8,
		.alt_ah_attr = { .port_num = 2, .is_global = 1 },
		.alt_port_num = 2, .path_mig_state = IBV_MIG_REARM,
	};
	struct ibv_qp_init_attr init;

	assert_int_equal(soft_modify_qp(qp[1], &a, IBV_QP_STATE |
			 IBV_QP_TIMEOUT | IBV_QP_SQ_PSN | IBV_QP_ALT_PATH |
			 IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_ALT_PATH |
					IBV_QP_PATH_MIG_STATE), 0);
	for (int i = 0; i < 20000; i++) {
		assert_int_equal(soft_query_qp(qp[0], &a, 0, &init), 0);
		if (a.path_mig_state == IBV_MIG_ARMED)
			break;
		(void)poll(NULL, 0, 1);
	}
	a.path_mig_state = IBV_MIG_MIGRATED;
	assert_int_equal(soft_modify_qp(qp[0], &a, IBV_QP_PATH_MIG_STATE), 0);
	for (int i = 0; i < 2; i++)
		assert_ptr_equal(expect_event(IBV_EVENT_PATH_MIG).element.qp,
				 qp[i]);
	assert_int_equal(soft_query_qp(qp[1], &a, 0, &init), 0);
	assert_int_equal(a.port_num, 2);
	assert_int_equal(post_srq(srq, 7, 8), 0);
	assert_int_equal(post_xrc(IBV_WR_SEND, number(srq), 8, 0, 0), 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(next(xcq).status, IBV_WC_SUCCESS);
}

static void xrc__ends_are_one_way_EINVAL(void **state)
{
	struct ibv_qp_init_attr_ex tgt = {
		.qp_type = IBV_QPT_XRC_RECV, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	assert_int_equal(post_recv(qp[0], 1, 1), EINVAL);
	assert_int_equal(post_recv(qp[1], 1, 1), EINVAL);
	assert_int_equal(post(qp[1], IBV_WR_SEND, 1, 1, 0, 0), EINVAL);
	errno = 0;
	assert_null(soft_create_qp_ex(c, &tgt));
	assert_int_equal(errno, EINVAL);
}

static void open_qp__LIVES_AS_LONG_AS_ANYONE_HAS_IT(void **state)
{
	struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qp[1]->qp_num, .xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *again = ibv_open_qp(c, &a);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_non_null(again);
	assert_int_equal(again->qp_num, qp[1]->qp_num);
	/* its maker lets go of it, and it still receives */
	assert_int_equal(soft_destroy_qp(qp[1]), 0);
	qp[1] = again;
	assert_int_equal(post_srq(srq, 10, 64), 0);
	assert_int_equal(post_xrc(IBV_WR_SEND, number(srq), 8, 0, 0), 0);
	assert_int_equal(next(xcq).wr_id, 10);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(soft_query_qp(again, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	a.qp_num = qp[0]->qp_num;
	assert_null(ibv_open_qp(c, &a));
}

static void open_xrcd__by_file_IS_THE_SAME(void **state)
{
	FILE *f = tmpfile();
	struct ibv_xrcd *one, *two;

	errno = 0;
	assert_null(open_domain(fileno(f), 0));
	assert_int_equal(errno, EAGAIN);
	one = open_domain(fileno(f), O_CREAT);
	assert_non_null(one);
	two = open_domain(fileno(f), 0);
	assert_non_null(two);
	assert_null(open_domain(fileno(f), O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	assert_null(open_domain(-1, 0));
	assert_int_equal(ibv_close_xrcd(one), 0);
	assert_int_equal(ibv_close_xrcd(two), 0);
	assert_null(open_domain(fileno(f), 0));
	(void)fclose(f);
}

#define SHARED(fn) \
	cmocka_unit_test_setup_teardown(fn, setup_shared, teardown_shared)
#define XRC(fn) cmocka_unit_test_setup_teardown(fn, setup_xrc, teardown_xrc)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHARED(send__TAKES_A_SHARED_RECEIVE),
		SHARED(two_senders__by_turns_ALL_ARRIVE),
		SHARED(send__queue_empty_RNR),
		SHARED(modify_srq__limit_TELLS_ONCE),
		SHARED(modify_srq__resize_KEEPS_WHAT_WAITS),
		SHARED(error__LAST_WQE_REACHED),
		PLAIN(create_srq__bad_values_EINVAL),
		XRC(xrc_send__GOES_TO_THE_QUEUE_IT_NAMES),
		XRC(xrc_write__into_the_memory_of_its_domain_DONE),
		XRC(xrc_send__no_such_queue_REM_INV_REQ_ERR),
		XRC(xrc_send__queue_empty_RNR),
		XRC(xrc__migrates_BOTH_ENDS),
		XRC(xrc__ends_are_one_way_EINVAL),
		XRC(open_qp__LIVES_AS_LONG_AS_ANYONE_HAS_IT),
		PLAIN(open_xrcd__by_file_IS_THE_SAME),
	};

	join_own_fabric("srq");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
