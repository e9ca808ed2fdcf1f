/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of dynamically connected transport: operations, the builder, many
 * initiators and targets.
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#include "dc.h"

#include <endian.h>

/* ---- operations ------------------------------------------------------- */

static const uint32_t sizes[] = { 0, 1, 64, 4097, 65536, 70000, 300000, MEM };
#define SIZES	(sizeof(sizes) / sizeof(*sizes))

static void dc_send__sizes_ARRIVE(void)
{
	struct ibv_wc wc;

	dc_pair();
	for (size_t i = 0; i < SIZES; i++) {
		fill(0, (uint32_t)i);
		clear(1);
		receive_shared(10 + i, 0, MEM);
		send_dc(end[0].qp, dct, i, sizes[i], KEY);
		check_is(sent(0, i, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
		wc = received(1, 10 + i, IBV_WC_SUCCESS);
		check_is(wc.byte_len, sizes[i]);
		check_is(wc.qp_num, dct->qp_num);
		check_is(wc.src_qp, end[0].qp->qp_num);
		same(sizes[i]);
	}
	quiet();
}

static void dc_immediate__send_and_write_ARRIVE(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct request r;
	struct ibv_wc wc;

	dc_pair();
	for (uint64_t i = 0; i < 2; i++) {
		fill(0, (uint32_t)i);
		clear(1);
		receive_shared(10 + i, 0, MEM);
		r = request(ops[i], i, 9000);
		post_dc(&r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		wc = received(1, 10 + i, IBV_WC_SUCCESS);
		check_is(wc.opcode, i ? IBV_WC_RECV_RDMA_WITH_IMM :
			 IBV_WC_RECV);
		check(wc.wc_flags & IBV_WC_WITH_IMM);
		check_is(be32toh(wc.imm_data), 0x12345678);
		same(9000);
	}
	quiet();
}

static void dc_write_read__sizes_MOVE(void)
{
	struct request r;

	dc_pair();
	for (size_t i = 0; i < SIZES; i++) {
		fill(0, (uint32_t)i);
		clear(1);
		r = request(IBV_WR_RDMA_WRITE, i, sizes[i]);
		post_dc(&r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		same(sizes[i]);
		fill(1, (uint32_t)i + 9);
		r = request(IBV_WR_RDMA_READ, i, sizes[i]);
		post_dc(&r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		check(!memcmp(end[0].mem, end[1].mem, sizes[i]));
	}
	quiet();
}

static void dc_atomics__many_ADD_UP(void)
{
	uint64_t *at;
	struct request r;

	dc_pair();
	at = (void *)end[1].mem;
	*at = 5;
	for (uint64_t i = 0; i < 40; i++) {
		r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, i, 8);
		r.sge[0].addr += 8 * i;
		r.wr.wr.atomic.compare_add = 3;
		post_dc(&r);
	}
	for (uint64_t i = 0; i < 40; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 40; i++)
		check_is(((uint64_t *)(void *)end[0].mem)[i], 5 + 3 * i);
	check_is(*at, 125);
	r = request(IBV_WR_ATOMIC_CMP_AND_SWP, 50, 8);
	r.wr.wr.atomic.compare_add = 125;
	r.wr.wr.atomic.swap = 7;
	post_dc(&r);
	(void)sent(0, 50, IBV_WC_SUCCESS);
	check_is(*at, 7);
	check_is(*(uint64_t *)(void *)end[0].mem, 125);
}

/* ---- the builder ------------------------------------------------------ */

static void dc_builder__no_address_EINVAL(void)
{
	struct request r;
	struct ibv_qp_ex *ex;

	dc_pair();
	r = request(IBV_WR_SEND, 1, 8);
	ex = start(end[0].qp);
	begin(ex, &r);
	ibv_wr_set_sge_list(ex, 1, r.sge);
	check_call(ibv_wr_complete(ex), EINVAL);
	/* an address of a datagram has no access key */
	ex = start(end[0].qp);
	begin(ex, &r);
	ibv_wr_set_ud_addr(ex, ah, dct->qp_num, QKEY);
	ibv_wr_set_sge_list(ex, 1, r.sge);
	check_call(ibv_wr_complete(ex), EINVAL);
	works(end[0].qp, dct, 2);
	quiet();
}

/* Streams of an initiator without streams have no effect. */
static void dc_builder__stream_IGNORED(void)
{
	struct request r;
	struct ibv_qp_ex *ex;

	dc_pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	ex = start(end[0].qp);
	begin(ex, &r);
	mlx5dv_wr_set_dc_addr_stream(v->mlx5_qp_ex_from_ibv_qp_ex(ex), ah,
				     dct->qp_num, KEY, 3);
	ibv_wr_set_sge_list(ex, 1, r.sge);
	check_call(ibv_wr_complete(ex), 0);
	(void)sent(0, 1, IBV_WC_SUCCESS);
}

/* A local request needs no target. */
static void dc_local__before_any_target_COMPLETES(void)
{
	struct ibv_mw_bind_info info = { .length = 64 };
	struct ibv_qp_ex *ex;
	struct ibv_mw *mw;

	how.mr_access |= IBV_ACCESS_MW_BIND;
	dc_pair();
	mw = new_mw(IBV_MW_TYPE_2);
	info.mr = end[0].mr;
	info.addr = (uintptr_t)end[0].mem;
	info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	ex = start(end[0].qp);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &info);
	check_call(ibv_wr_complete(ex), 0);
	check_is(sent(0, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	works(end[0].qp, dct, 2);
	quiet();
}

static void dc_post__without_builder_FAILS(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 1 };
	struct request r;

	dc_pair();
	r = request(IBV_WR_SEND, 1, 8);
	check_call(try_post(0, &r), EINVAL);
	check(ibv_post_recv(end[0].qp, &wr, &bad));
	check_call(ibv_post_recv(dct, &wr, &bad), EINVAL);
	check(!v->qp_to_qp_ex(dct));
	works(end[0].qp, dct, 2);
	quiet();
}

/* ---- many ends -------------------------------------------------------- */

/* An initiator changes its target with each message, and keeps the order. */
static void dc_targets__change_each_time_IN_ORDER(void)
{
	struct ibv_qp *to[3];
	struct ibv_wc wc;

	dc_pair();
	for (int i = 0; i < 3; i++)
		to[i] = new_dct();
	for (uint64_t i = 0; i < 30; i++)
		receive_shared(i, (uint32_t)i * 4096, 4096);
	for (uint64_t i = 0; i < 30; i++)
		send_dc(end[0].qp, to[i % 3], i, (uint32_t)i, KEY);
	for (uint64_t i = 0; i < 30; i++) {
		(void)sent(0, i, IBV_WC_SUCCESS);
		wc = received(1, i, IBV_WC_SUCCESS);
		check_is(wc.qp_num, to[i % 3]->qp_num);
		check_is(wc.byte_len, i);
	}
	quiet();
}

/* Requests without completions do not keep an initiator at its target. */
static void dc_targets__unsignalled_CHANGE(void)
{
	struct ibv_qp *other;
	struct request r;

	dc_pair();
	other = new_dct();
	fill(0, 1);
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	r.wr.send_flags = 0;
	post_dc(&r);
	r = request(IBV_WR_RDMA_WRITE, 2, 16);
	check_call(try_dc(end[0].qp, &r, other->qp_num, KEY), 0);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	same(16);
	quiet();
}

/* A target serves many initiators, whose messages arrive in between. */
static void dc_initiators__many_ONE_TARGET(void)
{
	enum { N = 70, EACH = 3 };
	struct ibv_qp *dci[N];
	uint32_t seen[N] = { 0 };
	struct ibv_wc wc;

	dc_pair();
	for (int i = 0; i < N; i++)
		dci[i] = new_dci();
	for (uint32_t n = 0; n < EACH; n++) {
		for (uint32_t i = 0; i < N; i++)
			send_dc(dci[i], dct, i, n * 70000 + 8, KEY);
		for (uint32_t i = 0; i < N; i++) {
			int k = 0;

			receive_shared(i, 0, MEM);
			wc = received(1, i, IBV_WC_SUCCESS);
			while (k < N && dci[k]->qp_num != wc.src_qp)
				k++;
			check(k < N);
			check_is(seen[k]++, n);
			check_is(wc.byte_len, n * 70000 + 8);
		}
		for (int i = 0; i < N; i++)
			check_is(next_wc(end[0].scq).status, IBV_WC_SUCCESS);
	}
	quiet();
}

const struct device_case dc_op_cases[] = {
	GATE(dc__device_supports_it),
	CASE(dc_send__sizes_ARRIVE),
	CASE(dc_immediate__send_and_write_ARRIVE),
	CASE(dc_write_read__sizes_MOVE),
	CASE(dc_atomics__many_ADD_UP),
	CASE(dc_builder__no_address_EINVAL),
	CASE(dc_builder__stream_IGNORED),
	CASE(dc_local__before_any_target_COMPLETES),
	CASE(dc_post__without_builder_FAILS),
	CASE(dc_targets__change_each_time_IN_ORDER),
	CASE(dc_targets__unsignalled_CHANGE),
	CASE(dc_initiators__many_ONE_TARGET),
	{ .name = NULL },
};

#endif
