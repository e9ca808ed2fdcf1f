/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of completions, and what a completion says about the data. Linux
 * has no device in software that orders requests as a card does.
 */
#include "device.h"

#define ROUNDS	8

/* Fills the memory of end 1, which is read to the memory of end 0. */
static void fill_to_read(uint32_t seed)
{
	fill(1, seed);
	clear(0);
}

static void post_op(enum ibv_wr_opcode op, uint64_t id, uint32_t len)
{
	struct request r = request(op, id, len);

	post(0, &r);
}

/*
 * The Send is short, and overtakes the answer to the read on the wire. Both are
 * posted at once, so that the answer cannot come before the Send is there.
 */
static void order__send_behind_a_read_COMPLETES_LATER(void)
{
	struct request read, send;

	pair();
	for (uint64_t i = 0; i < ROUNDS; i++) {
		receive(1, 100 + i, 0, 8);
		fill_to_read((uint32_t)i);
		read = request(IBV_WR_RDMA_READ, 2 * i, MEM);
		send = request(IBV_WR_SEND, 2 * i + 1, 0);
		read.wr.next = &send.wr;
		post(0, &read);
		(void)sent(0, 2 * i, IBV_WC_SUCCESS);
		same(MEM);
		(void)sent(0, 2 * i + 1, IBV_WC_SUCCESS);
		(void)received(1, 100 + i, IBV_WC_SUCCESS);
	}
	quiet();
}

/* Only the Send has a completion, which says that the read is done. */
static void order__send_behind_an_unsignaled_read_DATA_IS_THERE(void)
{
	struct request r;

	pair();
	for (uint64_t i = 0; i < ROUNDS; i++) {
		receive(1, 100 + i, 0, 8);
		fill_to_read((uint32_t)i);
		r = request(IBV_WR_RDMA_READ, 0, MEM);
		r.wr.send_flags = 0;
		post(0, &r);
		post_op(IBV_WR_SEND, 1 + i, 0);
		(void)sent(0, 1 + i, IBV_WC_SUCCESS);
		same(MEM);
		(void)received(1, 100 + i, IBV_WC_SUCCESS);
	}
	quiet();
}

static void order__several_reads_then_a_send_IN_ORDER(void)
{
	pair();
	receive(1, 100, 0, 8);
	fill_to_read(1);
	/* large and small in turns, so that a small one could be done first */
	for (uint64_t i = 0; i < 12; i++)
		post_op(IBV_WR_RDMA_READ, i, i % 2 ? 8 : MEM);
	post_op(IBV_WR_SEND, 12, 0);
	for (uint64_t i = 0; i <= 12; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	same(MEM);
	(void)received(1, 100, IBV_WC_SUCCESS);
	quiet();
}

/* The receive says that the write before the Send is in memory. */
static void order__send_behind_a_write_DATA_IS_THERE(void)
{
	struct request r;

	pair();
	for (uint64_t i = 0; i < ROUNDS; i++) {
		receive(1, 100 + i, 0, 8);
		fill(0, (uint32_t)i);
		r = request(IBV_WR_RDMA_WRITE, 0, MEM);
		r.wr.send_flags = 0;
		post(0, &r);
		post_op(IBV_WR_SEND, 1 + i, 0);
		(void)received(1, 100 + i, IBV_WC_SUCCESS);
		same(MEM);
		(void)sent(0, 1 + i, IBV_WC_SUCCESS);
	}
	quiet();
}

/* Without the fence the write may change what the read returns. */
static void order__fenced_write_behind_a_read_READS_WHAT_WAS(void)
{
	uint8_t *old = new_mem(MEM), *other = new_mem(MEM);
	struct ibv_mr *mr = new_mr(pd, other, MEM, IBV_ACCESS_LOCAL_WRITE);
	struct request r;

	pair();
	memset(other, 0xee, MEM);
	fill_to_read(3);
	memcpy(old, end[1].mem, MEM);
	post_op(IBV_WR_RDMA_READ, 1, MEM);
	r = request(IBV_WR_RDMA_WRITE, 2, MEM);
	r.sge[0].addr = (uintptr_t)other;
	r.sge[0].lkey = mr->lkey;
	r.wr.send_flags |= IBV_SEND_FENCE;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, old, MEM));
	/* a read behind the write returns what was written */
	post_op(IBV_WR_RDMA_READ, 3, MEM);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, other, MEM));
	quiet();
}

/* ---- flushing --------------------------------------------------------- */

/* Expects n completions in order: none succeeds behind a flushed one. */
static void prefix_succeeds(uint64_t n)
{
	bool flushed = false;

	for (uint64_t id = 0; id < n; id++) {
		struct ibv_wc wc = next_wc(end[0].scq);

		check_is(wc.wr_id, id);
		flushed |= wc.status == IBV_WC_WR_FLUSH_ERR;
		wc_is(__FILE__, __LINE__, &wc, id, flushed ?
		      IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
		check_is(wc.qp_num, end[0].qp->qp_num);
	}
}

static void flush__under_way_SUCCEED_IN_ORDER_OR_FLUSHED(void)
{
	pair();
	fill_to_read(1);
	for (uint64_t i = 0; i < 24; i++)
		post_op(i % 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, MEM);
	enter(end[0].qp, IBV_QPS_ERR);
	prefix_succeeds(24);
	quiet();
}

/* A completion that nobody has polled survives the error state. */
static void flush__behind_what_was_done_STAYS_DONE(void)
{
	pair();
	receive(1, 100, 0, 8);
	for (uint64_t i = 0; i < 8; i++)
		post_op(IBV_WR_RDMA_WRITE, i, 64);
	post_op(IBV_WR_SEND, 8, 0);
	/* end 1 has the Send, so that all writes are done there */
	(void)received(1, 100, IBV_WC_SUCCESS);
	(void)sent(0, 0, IBV_WC_SUCCESS);
	receive(0, 200, 0, 8);
	enter(end[0].qp, IBV_QPS_ERR);
	for (uint64_t i = 1; i <= 8; i++) {
		struct ibv_wc wc = next_wc(end[0].scq);

		check_is(wc.wr_id, i);
		/* the acknowledgement may have been under way */
		check(wc.status == IBV_WC_SUCCESS ||
		      wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	(void)received(0, 200, IBV_WC_WR_FLUSH_ERR);
	quiet();
}

static void poll_rest(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		check(wc.status == IBV_WC_SUCCESS ||
		      wc.status == IBV_WC_WR_FLUSH_ERR);
}

/* The queue pair is gone, so the completions of its requests are. */
static void destroy__with_requests_under_way_NO_COMPLETION_LATER(void)
{
	pair();
	fill_to_read(1);
	for (uint64_t i = 0; i < 8; i++)
		post_op(IBV_WR_RDMA_READ, i, MEM);
	receive(0, 100, 0, 8);
	drop(end[0].qp);
	/* those from before may be there, or may be removed */
	poll_rest(end[0].scq);
	poll_rest(end[0].rcq);
	quiet();
}

const struct device_case order_cases[] = {
	CASE(order__send_behind_a_read_COMPLETES_LATER),
	CASE(order__send_behind_an_unsignaled_read_DATA_IS_THERE),
	CASE(order__several_reads_then_a_send_IN_ORDER),
	CASE(order__send_behind_a_write_DATA_IS_THERE),
	CASE(order__fenced_write_behind_a_read_READS_WHAT_WAS),
	CASE(flush__under_way_SUCCEED_IN_ORDER_OR_FLUSHED),
	CASE(flush__behind_what_was_done_STAYS_DONE),
	CASE(destroy__with_requests_under_way_NO_COMPLETION_LATER),
	{ .name = NULL },
};
