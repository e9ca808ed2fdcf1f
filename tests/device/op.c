/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of a reliable connection, and the ways to post them. */
#include "device.h"

static const uint32_t sizes[] = { 0, 1, 63, 4096, 4097, 65536, 65537, MEM - 1 };
#define SIZES	(sizeof(sizes) / sizeof(*sizes))

static void sends(enum ibv_wr_opcode op)
{
	bool imm = op == IBV_WR_SEND_WITH_IMM;
	struct request r;
	struct ibv_wc wc;

	pair();
	for (uint32_t i = 0; i < SIZES; i++) {
		fill(0, i);
		clear(1);
		receive(1, 100 + i, 0, MEM);
		r = request(op, i, sizes[i]);
		post(0, &r);
		wc = received(1, 100 + i, IBV_WC_SUCCESS);
		check_is(wc.opcode, IBV_WC_RECV);
		check_is(wc.byte_len, sizes[i]);
		check_is(wc.qp_num, end[1].qp->qp_num);
		check_is(!!(wc.wc_flags & IBV_WC_WITH_IMM), imm);
		if (imm)
			check_is(be32toh(wc.imm_data), 0x12345678);
		wc = sent(0, i, IBV_WC_SUCCESS);
		check_is(wc.opcode, IBV_WC_SEND);
		check_is(wc.qp_num, end[0].qp->qp_num);
		same(sizes[i]);
	}
	quiet();
}

static void send__every_size_ARRIVES(void)
{
	sends(IBV_WR_SEND);
}

static void send_with_imm__every_size_ARRIVES(void)
{
	sends(IBV_WR_SEND_WITH_IMM);
}

static void write__every_size_ARRIVES(void)
{
	struct request r;

	pair();
	for (uint32_t i = 0; i < SIZES; i++) {
		fill(0, i);
		clear(1);
		r = request(IBV_WR_RDMA_WRITE, i, sizes[i]);
		post(0, &r);
		check_is(sent(0, i, IBV_WC_SUCCESS).opcode,
			 IBV_WC_RDMA_WRITE);
		same(sizes[i]);
	}
	quiet();
}

static void write_with_imm__TAKES_A_RECEIVE(void)
{
	struct request r;
	struct ibv_wc wc;

	pair();
	for (uint32_t i = 0; i < SIZES; i++) {
		fill(0, i);
		clear(1);
		receive(1, 100 + i, 0, 0);
		r = request(IBV_WR_RDMA_WRITE_WITH_IMM, i, sizes[i]);
		post(0, &r);
		wc = received(1, 100 + i, IBV_WC_SUCCESS);
		check_is(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		check_is(wc.byte_len, sizes[i]);
		check(wc.wc_flags & IBV_WC_WITH_IMM);
		check_is(be32toh(wc.imm_data), 0x12345678);
		check_is(sent(0, i, IBV_WC_SUCCESS).opcode,
			 IBV_WC_RDMA_WRITE);
		same(sizes[i]);
	}
	quiet();
}

static void read__every_size_COMES(void)
{
	struct request r;
	struct ibv_wc wc;

	pair();
	for (uint32_t i = 0; i < SIZES; i++) {
		fill(1, i);
		clear(0);
		r = request(IBV_WR_RDMA_READ, i, sizes[i]);
		post(0, &r);
		wc = sent(0, i, IBV_WC_SUCCESS);
		check_is(wc.opcode, IBV_WC_RDMA_READ);
		check_is(wc.byte_len, sizes[i]);
		check(!memcmp(end[0].mem, end[1].mem, sizes[i]));
		check(!end[0].mem[sizes[i]]);
	}
	quiet();
}

static uint64_t *word(int i)
{
	return (uint64_t *)(void *)end[i].mem;
}

static void swap(uint64_t id, uint64_t compare, uint64_t with)
{
	struct request r = request(IBV_WR_ATOMIC_CMP_AND_SWP, id, 8);
	struct ibv_wc wc;

	r.wr.wr.atomic.compare_add = compare;
	r.wr.wr.atomic.swap = with;
	post(0, &r);
	wc = sent(0, id, IBV_WC_SUCCESS);
	check_is(wc.opcode, IBV_WC_COMP_SWAP);
	check_is(wc.byte_len, 8);
}

static void compare_swap__equal_SWAPS_else_NOT(void)
{
	pair();
	*word(1) = 0x1122334455667788;
	swap(1, 0x1122334455667788, 42);
	check(*word(0) == 0x1122334455667788);
	check(*word(1) == 42);
	swap(2, 43, 44);
	check(*word(0) == 42);
	check(*word(1) == 42);
}

/* Adds n to the first word of end 1. The old value goes to the word 'at'. */
static void add(uint64_t id, uint32_t at, uint64_t n)
{
	struct request r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, id, 8);

	r.sge[0].addr += 8 * at;
	r.wr.wr.atomic.compare_add = n;
	post(0, &r);
}

static void fetch_add__WRAPS(void)
{
	pair();
	*word(1) = UINT64_MAX - 1;
	for (uint64_t i = 0; i < 3; i++) {
		add(i, 0, 1);
		check_is(sent(0, i, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
		check(*word(0) == UINT64_MAX - 1 + i);
	}
	check(*word(1) == 1);
}

static void atomics__many_at_once_EACH_ONCE(void)
{
	pair();
	for (uint32_t i = 0; i < 32; i++)
		add(i, i, 3);
	for (uint64_t i = 0; i < 32; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 32; i++)
		check_is(word(0)[i], 3 * i);
	check_is(*word(1), 96);
}

static void atomic__address_not_aligned_FAILS(void)
{
	struct request r;

	pair();
	r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8);
	aim(&r, (uintptr_t)end[1].mem + 4, end[1].mr->rkey);
	/* ibv_post_send(3) leaves open where the misalignment is detected */
	if (try_post(0, &r))
		return;
	(void)sent(0, 1, IBV_WC_REM_INV_REQ_ERR);
}

/* ---- how it is posted ------------------------------------------------- */

static void inline__buffer_is_free_AT_ONCE(void)
{
	char words[] = "said and forgotten";
	struct request r;

	pair();
	check(end[0].cap.max_inline_data >= sizeof(words));
	r = request(IBV_WR_RDMA_WRITE, 1, 0);
	/* inline data needs no registration; here it has two parts */
	r.sge[0] = (struct ibv_sge){ (uintptr_t)words, 5, 0xdead };
	r.sge[1] = (struct ibv_sge){ (uintptr_t)words + 5,
				     sizeof(words) - 5, 0xbeef };
	r.wr.num_sge = 2;
	r.wr.send_flags |= IBV_SEND_INLINE;
	post(0, &r);
	memset(words, 'x', sizeof(words) - 1);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	check(!strcmp((char *)end[1].mem, "said and forgotten"));
}

static void inline__too_long_REFUSED(void)
{
	struct request r;

	pair();
	r = request(IBV_WR_RDMA_WRITE, 1, end[0].cap.max_inline_data + 1);
	r.wr.send_flags |= IBV_SEND_INLINE;
	check(try_post(0, &r));
	quiet();
	check_state(end[0].qp, IBV_QPS_RTS);
}

static void gather_and_scatter(const uint32_t part[4])
{
	const uint32_t all = part[0] + part[1] + part[2] + part[3];
	struct ibv_recv_wr *bad, wr = { .wr_id = 9, .num_sge = 4 };
	struct ibv_sge into[4];
	struct request r;
	uint32_t at = 0;

	pair();
	fill(0, 5);
	r = request(IBV_WR_SEND, 1, 1);
	for (int i = 0; i < 4; i++) {
		r.sge[i] = (struct ibv_sge){ (uintptr_t)end[0].mem + at,
					     part[i], end[0].mr->lkey };
		/* receive in parts of the reverse order of sizes */
		into[i] = (struct ibv_sge){ (uintptr_t)end[1].mem + at,
					    part[3 - i], end[1].mr->lkey };
		at += part[i];
	}
	at = 0;
	for (int i = 0; i < 4; i++) {
		into[i].addr = (uintptr_t)end[1].mem + at;
		at += part[3 - i];
	}
	r.wr.num_sge = 4;
	wr.sg_list = into;
	check_call(ibv_post_recv(end[1].qp, &wr, &bad), 0);
	post(0, &r);
	check_is(received(1, 9, IBV_WC_SUCCESS).byte_len, all);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(all);
}

static void lists__gather_and_scatter_IN_ORDER(void)
{
	gather_and_scatter((uint32_t[]){ 3, 17, 5000, 70001 });
}

static void lists__a_part_is_empty_IN_ORDER(void)
{
	gather_and_scatter((uint32_t[]){ 3, 0, 5000, 70001 });
}

static void lists__read_scatters_IN_ORDER(void)
{
	struct request r;

	pair();
	fill(1, 5);
	r = request(IBV_WR_RDMA_READ, 1, 1);
	for (uint32_t i = 0; i < 4; i++)
		r.sge[i] = (struct ibv_sge){ (uintptr_t)end[0].mem + 1000 * i,
					     1000, end[0].mr->lkey };
	r.wr.num_sge = 4;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, end[1].mem, 4000));
	check(!end[0].mem[4000] || !end[1].mem[4000]);
}

static void lists__too_long_REFUSED(void)
{
	struct ibv_recv_wr *bad_recv, recv = { .num_sge = 0 };
	struct ibv_send_wr *bad;
	struct ibv_sge *sge;
	struct request r;

	pair();
	sge = new_mem(4096);
	r = request(IBV_WR_SEND, 1, 8);
	for (int i = 0; i < 64; i++)
		sge[i] = r.sge[0];
	r.wr.sg_list = sge;
	r.wr.num_sge = (int)end[0].cap.max_send_sge + 1;
	check(ibv_post_send(end[0].qp, &r.wr, &bad));
	recv.sg_list = sge;
	recv.num_sge = (int)end[1].cap.max_recv_sge + 1;
	check(ibv_post_recv(end[1].qp, &recv, &bad_recv));
	quiet();
}

static void fence__after_a_read_SENDS_WHAT_CAME(void)
{
	const uint32_t len = 256u << 10;
	struct request r;

	pair();
	fill(1, 77);
	receive(1, 9, len, len);
	r = request(IBV_WR_RDMA_READ, 1, len);
	post(0, &r);
	r = request(IBV_WR_SEND, 2, len);
	r.wr.send_flags |= IBV_SEND_FENCE;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	(void)received(1, 9, IBV_WC_SUCCESS);
	check(!memcmp(end[1].mem, end[1].mem + len, len));
}

static void signals__selective_ONE_FOR_FOUR(void)
{
	struct request r;

	pair();
	for (uint64_t i = 0; i < 32; i++) {
		r = request(IBV_WR_RDMA_WRITE, i, 8);
		if (i % 4 != 3)
			r.wr.send_flags = 0;
		post(0, &r);
	}
	for (uint64_t i = 3; i < 32; i += 4)
		(void)sent(0, i, IBV_WC_SUCCESS);
	quiet();
}

static void signals__all_EACH(void)
{
	struct request r;

	how.sig_all = true;
	pair();
	for (uint64_t i = 0; i < 8; i++) {
		r = request(IBV_WR_RDMA_WRITE, i, 8);
		r.wr.send_flags = 0;
		post(0, &r);
	}
	for (uint64_t i = 0; i < 8; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	quiet();
}

static void order__of_unlike_requests_KEPT(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct request r;

	pair();
	for (uint64_t i = 0; i < 12; i++)
		receive(1, 100 + i, 8192, 64);
	for (uint64_t i = 0; i < 48; i++) {
		r = request(ops[i % 4], i, 8);
		post(0, &r);
	}
	for (uint64_t i = 0; i < 48; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 12; i++)
		(void)received(1, 100 + i, IBV_WC_SUCCESS);
	quiet();
}

static void post_send__third_of_four_bad_TWO_ARE_POSTED(void)
{
	struct ibv_send_wr *bad = NULL;
	struct request r[4];

	pair();
	for (int i = 0; i < 4; i++) {
		r[i] = request(IBV_WR_RDMA_WRITE, (uint64_t)i, 8);
		r[i].wr.sg_list = r[i].sge;
		r[i].wr.next = i < 3 ? &r[i + 1].wr : NULL;
	}
	r[2].wr.num_sge = (int)end[0].cap.max_send_sge + 1;
	check(ibv_post_send(end[0].qp, &r[0].wr, &bad));
	check(bad == &r[2].wr);
	(void)sent(0, 0, IBV_WC_SUCCESS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	quiet();
}

static void post_send__queue_full_ENOMEM(void)
{
	struct request r;
	uint32_t n = 0;
	int ret = 0;

	how.retry_cnt = 7;
	pair();
	/* without a posted receive, no Send completes */
	while (!ret && n < 100000) {
		r = request(IBV_WR_SEND, n, 8);
		ret = try_post(0, &r);
		n += !ret;
	}
	check(n >= end[0].cap.max_send_wr);
	check_is(ret, ENOMEM);
}

static void post_recv__queue_full_ENOMEM(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 1 };
	uint32_t n = 0;
	int ret = 0;

	pair();
	while (!ret && n < 100000) {
		ret = ibv_post_recv(end[1].qp, &wr, &bad);
		n += !ret;
	}
	check(n >= end[1].cap.max_recv_wr);
	check_is(ret, ENOMEM);
}

static void reads__more_than_the_depth_ALL_COME(void)
{
	struct request r;

	how.depth = 1;
	pair();
	fill(1, 1);
	for (uint64_t i = 0; i < 60; i++) {
		r = request(IBV_WR_RDMA_READ, i, 100);
		r.sge[0].addr += 100 * i;
		aim(&r, (uintptr_t)end[1].mem + 100 * i, end[1].mr->rkey);
		post(0, &r);
	}
	for (uint64_t i = 0; i < 60; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, end[1].mem, 6000));
}

const struct device_case op_cases[] = {
	CASE(send__every_size_ARRIVES),
	CASE(send_with_imm__every_size_ARRIVES),
	CASE(write__every_size_ARRIVES),
	CASE(write_with_imm__TAKES_A_RECEIVE),
	CASE(read__every_size_COMES),
	CASE(compare_swap__equal_SWAPS_else_NOT),
	CASE(fetch_add__WRAPS),
	CASE(atomics__many_at_once_EACH_ONCE),
	CASE(atomic__address_not_aligned_FAILS),
	CASE(inline__buffer_is_free_AT_ONCE),
	CASE(inline__too_long_REFUSED),
	CASE(lists__gather_and_scatter_IN_ORDER),
	CASE(lists__a_part_is_empty_IN_ORDER),
	CASE(lists__read_scatters_IN_ORDER),
	CASE(lists__too_long_REFUSED),
	CASE(fence__after_a_read_SENDS_WHAT_CAME),
	CASE(signals__selective_ONE_FOR_FOUR),
	CASE(signals__all_EACH),
	CASE(order__of_unlike_requests_KEPT),
	CASE(post_send__third_of_four_bad_TWO_ARE_POSTED),
	CASE(post_send__queue_full_ENOMEM),
	CASE(post_recv__queue_full_ENOMEM),
	CASE(reads__more_than_the_depth_ALL_COME),
	{ .name = NULL },
};
