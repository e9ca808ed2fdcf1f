/* SPDX-License-Identifier: BSD-2-Clause */
/* Failing requests, and the requests behind them. */
#include "device.h"

/*
 * Expects flushed completions of the requests from 'from' to 'to' - 1, in
 * order.
 */
static void flushed(int i, uint64_t from, uint64_t to)
{
	struct ibv_wc wc;

	for (uint64_t id = from; id < to; id++) {
		wc = sent(i, id, IBV_WC_WR_FLUSH_ERR);
		check_is(wc.qp_num, end[i].qp->qp_num);
	}
}

static void send_one(uint64_t id, uint32_t len)
{
	struct request r = request(IBV_WR_SEND, id, len);

	post(0, &r);
}

/* ---- missing receives ------------------------------------------------- */

static void rnr__no_retries_RNR_RETRY_EXC(void)
{
	how.rnr_retry = 0;
	pair();
	send_one(1, 8);
	send_one(2, 8);
	(void)sent(0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	flushed(0, 2, 3);
	check_state(end[0].qp, IBV_QPS_ERR);
	/* end 1 stays in RTS, because it caused no error */
	check_state(end[1].qp, IBV_QPS_RTS);
	quiet();
}

static void rnr__two_retries_RNR_RETRY_EXC(void)
{
	how.rnr_retry = 2;
	how.rnr_timer = 14;		/* 1.28 ms */
	pair();
	send_one(1, 8);
	(void)sent(0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	quiet();
}

static void rnr__retries_without_end_ARRIVES_LATER(void)
{
	how.rnr_timer = 14;
	pair();
	fill(0, 1);
	send_one(1, 8);
	send_one(2, 70000);
	quiet();
	receive(1, 11, 0, MEM);
	check_is(received(1, 11, IBV_WC_SUCCESS).byte_len, 8);
	receive(1, 12, 0, MEM);
	check_is(received(1, 12, IBV_WC_SUCCESS).byte_len, 70000);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	same(70000);
	quiet();
}

static void rnr__of_a_write_with_imm_ARRIVES_LATER(void)
{
	struct request r;

	pair();
	fill(0, 1);
	r = request(IBV_WR_RDMA_WRITE_WITH_IMM, 1, 64);
	post(0, &r);
	quiet();
	receive(1, 11, 0, 0);
	(void)received(1, 11, IBV_WC_SUCCESS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(64);
	quiet();
}

/* ---- no peer ---------------------------------------------------------- */

static void peer__never_ready_RETRY_EXC(void)
{
	how.retry_cnt = 2;
	how.timeout = 10;		/* 4 ms */
	how.last_down = true;
	pair();
	send_one(1, 8);
	send_one(2, 8);
	(void)sent(0, 1, IBV_WC_RETRY_EXC_ERR);
	flushed(0, 2, 3);
	check_state(end[0].qp, IBV_QPS_ERR);
	quiet();
}

static void peer__destroyed_RETRY_EXC(void)
{
	struct request r;

	how.retry_cnt = 2;
	how.timeout = 10;
	pair();
	receive(1, 2, 0, 8);
	send_one(1, 8);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	(void)received(1, 2, IBV_WC_SUCCESS);
	r = request(IBV_WR_RDMA_READ, 3, 8);
	drop(end[1].qp);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_RETRY_EXC_ERR);
	quiet();
}

static void peer__ready_in_time_NOTHING_IS_LOST(void)
{
	how.last_down = true;
	how.timeout = 18;		/* 1 s, with 8 attempts */
	pair();
	fill(0, 4);
	send_one(1, 8);
	quiet();
	walk(end[1].qp, end[0].qp->qp_num);
	receive(1, 2, 0, 8);
	(void)received(1, 2, IBV_WC_SUCCESS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(8);
}

/* ---- unsuitable receives ---------------------------------------------- */

static void receive__too_short_TELLS_THE_SENDER(void)
{
	pair();
	receive(1, 2, 0, 8);
	send_one(1, 9);
	(void)sent(0, 1, IBV_WC_REM_INV_REQ_ERR);
}

static void receive__too_short_LOC_LEN_ERR(void)
{
	pair();
	receive(1, 2, 0, 8);
	receive(1, 3, 0, 8);
	send_one(1, 9);
	(void)received(1, 2, IBV_WC_LOC_LEN_ERR);
	(void)received(1, 3, IBV_WC_WR_FLUSH_ERR);
	check_state(end[1].qp, IBV_QPS_ERR);
	check_is(end[1].mem[0], 0);
}

static void bad_receive(int access)
{
	struct ibv_sge sge = { 0, 64, 0 };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1,
	};
	struct ibv_mr *mr;

	pair();
	fill(0, 1);
	mr = new_mr(pd, end[1].mem, 64, access < 0 ? 0 : access);
	sge.addr = (uintptr_t)end[1].mem;
	sge.lkey = access < 0 ? mr->lkey ^ 0xff00 : mr->lkey;
	check_call(ibv_post_recv(end[1].qp, &wr, &bad), 0);
	send_one(1, 8);
}

static void receive__wrong_key_TELLS_THE_SENDER(void)
{
	bad_receive(-1);
	(void)sent(0, 1, IBV_WC_REM_OP_ERR);
}

static void receive__wrong_key_LOC_PROT_ERR(void)
{
	bad_receive(-1);
	(void)received(1, 2, IBV_WC_LOC_PROT_ERR);
	check_state(end[1].qp, IBV_QPS_ERR);
}

static void receive__into_what_is_only_read_LOC_PROT_ERR(void)
{
	bad_receive(0);
	(void)received(1, 2, IBV_WC_LOC_PROT_ERR);
	check(!end[1].mem[0]);
}

/* ---- the flush -------------------------------------------------------- */

static void flush__behind_a_failure_IN_ORDER_AND_ONCE(void)
{
	struct request r;

	pair();
	for (uint64_t i = 0; i < 10; i++) {
		receive(0, 100 + i, 0, 64);
		receive(1, 200 + i, 0, 64);
	}
	for (uint64_t i = 0; i < 20; i++) {
		r = request(IBV_WR_RDMA_WRITE, i, 8);
		if (i == 4)
			aim(&r, (uintptr_t)end[1].mem, 0xdeadbeef);
		/* unsignalled requests get a flushed completion, too */
		if (i > 10)
			r.wr.send_flags = 0;
		post(0, &r);
	}
	for (uint64_t i = 0; i < 4; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	(void)sent(0, 4, IBV_WC_REM_ACCESS_ERR);
	flushed(0, 5, 20);
	for (uint64_t i = 0; i < 10; i++) {
		(void)received(0, 100 + i, IBV_WC_WR_FLUSH_ERR);
		(void)received(1, 200 + i, IBV_WC_WR_FLUSH_ERR);
	}
	quiet();
}

static void flush__by_hand_IN_ORDER_AND_ONCE(void)
{
	pair();
	for (uint64_t i = 0; i < 10; i++)
		receive(0, 100 + i, 0, 64);
	for (uint64_t i = 0; i < 10; i++)
		send_one(i, 8);		/* wait for RNR retries */
	enter(end[0].qp, IBV_QPS_ERR);
	flushed(0, 0, 10);
	for (uint64_t i = 0; i < 10; i++)
		(void)received(0, 100 + i, IBV_WC_WR_FLUSH_ERR);
	quiet();
}

static void flush__sends_posted_in_error_COME_BACK(void)
{
	pair();
	enter(end[0].qp, IBV_QPS_ERR);
	for (uint64_t i = 0; i < 5; i++)
		send_one(i, 8);
	flushed(0, 0, 5);
	quiet();
}

static void flush__receives_posted_in_error_COME_BACK(void)
{
	pair();
	enter(end[1].qp, IBV_QPS_ERR);
	for (uint64_t i = 0; i < 5; i++)
		receive(1, i, 0, 8);
	for (uint64_t i = 0; i < 5; i++)
		(void)received(1, i, IBV_WC_WR_FLUSH_ERR);
	quiet();
}

static void reset__after_an_error_WORKS_AGAIN(void)
{
	pair();
	for (int i = 0; i < 2; i++) {
		enter(end[i].qp, IBV_QPS_ERR);
		enter(end[i].qp, IBV_QPS_RESET);
	}
	for (int i = 0; i < 2; i++)
		walk(end[i].qp, end[!i].qp->qp_num);
	fill(0, 6);
	receive(1, 2, 0, 4096);
	send_one(1, 4096);
	(void)received(1, 2, IBV_WC_SUCCESS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(4096);
	quiet();
}

/* ---- events ----------------------------------------------------------- */

static void event__access_refused_QP_ACCESS_ERR(void)
{
	struct request r;

	pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	aim(&r, 0, 0xdeadbeef);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_REM_ACCESS_ERR);
	check(expect_event(IBV_EVENT_QP_ACCESS_ERR).element.qp == end[1].qp);
}

static void event__request_invalid_QP_REQ_ERR(void)
{
	struct request r;

	how.qp_access = 0;
	pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_REM_INV_REQ_ERR);
	check(expect_event(IBV_EVENT_QP_REQ_ERR).element.qp == end[1].qp);
}

static void event__a_failed_request_of_ours_NONE(void)
{
	struct request r;

	pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	r.sge[0].lkey ^= 0xff00;
	post(0, &r);
	(void)next_wc(end[0].scq);
	check(!readable(ctx->async_fd, 20));
}

const struct device_case error_cases[] = {
	CASE(rnr__no_retries_RNR_RETRY_EXC),
	CASE(rnr__two_retries_RNR_RETRY_EXC),
	CASE(rnr__retries_without_end_ARRIVES_LATER),
	CASE(rnr__of_a_write_with_imm_ARRIVES_LATER),
	CASE(peer__never_ready_RETRY_EXC),
	CASE(peer__destroyed_RETRY_EXC),
	CASE(peer__ready_in_time_NOTHING_IS_LOST),
	CASE(receive__too_short_TELLS_THE_SENDER),
	CASE(receive__too_short_LOC_LEN_ERR),
	CASE(receive__wrong_key_TELLS_THE_SENDER),
	CASE(receive__wrong_key_LOC_PROT_ERR),
	CASE(receive__into_what_is_only_read_LOC_PROT_ERR),
	CASE(flush__behind_a_failure_IN_ORDER_AND_ONCE),
	CASE(flush__by_hand_IN_ORDER_AND_ONCE),
	CASE(flush__sends_posted_in_error_COME_BACK),
	CASE(flush__receives_posted_in_error_COME_BACK),
	CASE(reset__after_an_error_WORKS_AGAIN),
	CASE(event__access_refused_QP_ACCESS_ERR),
	CASE(event__request_invalid_QP_REQ_ERR),
	CASE(event__a_failed_request_of_ours_NONE),
	{ .name = NULL },
};
