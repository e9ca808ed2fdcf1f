/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#include "device.h"

static struct ibv_srq *srq;

static void pair_shared(uint32_t wr)
{
	how.srq = srq = new_srq(wr);
	pair();
}

static int post_srq(uint64_t id)
{
	struct ibv_sge sge = {
		(uintptr_t)end[1].mem, 64, end[1].mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void send_one(uint64_t id)
{
	struct request r = request(IBV_WR_SEND, id, 8);
	struct ibv_wc wc;

	post(0, &r);
	(void)sent(0, id, IBV_WC_SUCCESS);
	wc = received(1, id, IBV_WC_SUCCESS);
	check_is(wc.qp_num, end[1].qp->qp_num);
	check_is(wc.opcode, IBV_WC_RECV);
	check_is(wc.byte_len, 8);
}

static void srq_send__TAKES_A_SHARED_RECEIVE(void)
{
	pair_shared(16);
	fill(0, 1);
	for (uint64_t i = 0; i < 8; i++)
		check_call(post_srq(i), 0);
	for (uint64_t i = 0; i < 8; i++)
		send_one(i);
	same(8);
	quiet();
}

static void srq__post_recv_to_the_queue_pair_EINVAL(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 1 };

	pair_shared(16);
	check_is(ibv_post_recv(end[1].qp, &wr, &bad), EINVAL);
}

static void create_srq__bad_values_EINVAL(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_sge = 1 } };
	struct ibv_device_attr a;

	check_call(v->query_device(ctx, &a), 0);
	attr.attr.max_wr = (uint32_t)a.max_srq_wr + 1;
	check_null(v->create_srq(pd, &attr), EINVAL);
	attr.attr.max_wr = 8;
	attr.attr.max_sge = (uint32_t)a.max_srq_sge + 1;
	check_null(v->create_srq(pd, &attr), EINVAL);
}

static void post_srq__queue_full_ENOMEM(void)
{
	struct ibv_srq_attr attr;
	uint32_t n = 0;
	int ret = 0;

	pair_shared(16);
	check_call(v->query_srq(srq, &attr), 0);
	check(attr.max_wr >= 16 && attr.max_sge >= 2);
	while (!ret && n < 1000) {
		ret = post_srq(n);
		n += !ret;
	}
	check(n >= attr.max_wr);
	check_is(ret, ENOMEM);
}

static void srq_limit__FEWER_ARE_LEFT_TOLD_ONCE(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 4 };

	pair_shared(16);
	for (uint64_t i = 0; i < 8; i++)
		check_call(post_srq(i), 0);
	check_call(v->modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	check_call(v->query_srq(srq, &attr), 0);
	check_is(attr.srq_limit, 4);
	for (uint64_t i = 0; i < 4; i++)
		send_one(i);
	check(!readable(ctx->async_fd, 20));
	send_one(4);
	check(expect_event(IBV_EVENT_SRQ_LIMIT_REACHED).element.srq == srq);
	send_one(5);
	check(!readable(ctx->async_fd, 20));
	check_call(v->query_srq(srq, &attr), 0);
	check_is(attr.srq_limit, 0);
}

static void srq_limit__beyond_the_queue_EINVAL(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 0 };

	pair_shared(16);
	check_call(v->query_srq(srq, &attr), 0);
	attr.srq_limit = attr.max_wr + 1;
	check_call(v->modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
}

static void resize_srq__KEEPS_WHAT_IS_THERE(void)
{
	struct ibv_srq_attr attr = { .max_wr = 200 };

	pair_shared(16);
	for (uint64_t i = 0; i < 16; i++)
		check_call(post_srq(i), 0);
	check_call(v->modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	check_call(v->query_srq(srq, &attr), 0);
	check(attr.max_wr >= 200);
	for (uint64_t i = 16; i < 200; i++)
		check_call(post_srq(i), 0);
	for (uint64_t i = 0; i < 200; i++)
		send_one(i);
	quiet();
}

static void resize_srq__smaller_than_what_is_there_EINVAL(void)
{
	struct ibv_srq_attr attr = { .max_wr = 4 };

	pair_shared(64);
	for (uint64_t i = 0; i < 40; i++)
		check_call(post_srq(i), 0);
	check_call(v->modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	for (uint64_t i = 0; i < 40; i++)
		send_one(i);
}

static void srq__empty_RNR_RETRY_EXC(void)
{
	struct request r;

	how.rnr_retry = 0;
	pair_shared(16);
	r = request(IBV_WR_SEND, 1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void srq_error__shared_receives_STAY(void)
{
	struct ibv_qp *other;

	pair_shared(16);
	check_call(post_srq(7), 0);
	enter(end[1].qp, IBV_QPS_ERR);
	quiet();
	/* other queue pairs can still use the shared receives */
	other = new_qp(IBV_QPT_RC, end[1].rcq, srq);
	enter(end[0].qp, IBV_QPS_RESET);
	walk(end[0].qp, other->qp_num);
	walk(other, end[0].qp->qp_num);
	end[1].qp = other;
	send_one(7);
}

static void srq_error__LAST_WQE_REACHED(void)
{
	pair_shared(16);
	enter(end[1].qp, IBV_QPS_ERR);
	check(expect_event(IBV_EVENT_QP_LAST_WQE_REACHED).element.qp ==
	      end[1].qp);
}

const struct device_case srq_cases[] = {
	CASE(srq_send__TAKES_A_SHARED_RECEIVE),
	CASE(srq__post_recv_to_the_queue_pair_EINVAL),
	CASE(create_srq__bad_values_EINVAL),
	CASE(post_srq__queue_full_ENOMEM),
	CASE(srq_limit__FEWER_ARE_LEFT_TOLD_ONCE),
	CASE(srq_limit__beyond_the_queue_EINVAL),
	CASE(resize_srq__KEEPS_WHAT_IS_THERE),
	CASE(resize_srq__smaller_than_what_is_there_EINVAL),
	CASE(srq__empty_RNR_RETRY_EXC),
	CASE(srq_error__shared_receives_STAY),
	CASE(srq_error__LAST_WQE_REACHED),
	{ .name = NULL },
};
