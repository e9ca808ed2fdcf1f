/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics: operands of 4 to 32 bytes. On devices that cannot be asked
 * for them, these cases check nothing.
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

#include "base/masked.h"

#define ONES	UINT64_MAX
#define TOP	(1ull << 63)

static struct masked_caps caps;

static bool reports_masked(void)
{
	caps.sizes = 0;
	if (v->query_masked)
		v->query_masked(ctx, &caps);
	return caps.sizes;
}

static bool have_masked(void)
{
	return has(MASKED_ATOMICS, reports_masked());
}

/* Opens the device again, with these atomics. */
static void open_with(const char *atomics)
{
	(void)setenv("RDMAMSG_SOFT_ATOMICS", atomics, 1);
	device_close();
	device_open("soft0");
}

static int try_masked(uint64_t id, struct request *r, const struct masked *m)
{
	r->wr.wr_id = id;
	r->wr.sg_list = r->sge;
	return v->post_masked(end[0].qp, &r->wr, m);
}

/* A request for the operand at the beginning of the memory of end 1. */
static struct request masked_request(uint32_t bytes)
{
	return request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, bytes);
}

static void execute(const struct masked *m)
{
	struct request r = masked_request(m->size);
	struct ibv_wc wc;

	check_call(try_masked(1, &r, m), 0);
	wc = sent(0, 1, IBV_WC_SUCCESS);
	check_is(wc.opcode, IBV_WC_DRIVER2);
	check_is(wc.byte_len, m->size);
	if (caps.swapped)
		masked_swap_bytes(end[0].mem, m->size);
}

/* Fills both memories. Behind the operand nothing may change. */
static void set(uint32_t bytes, const uint64_t *before)
{
	memset(end[0].mem, 0x33, 64);
	memset(end[1].mem, 0x55, 64);
	memcpy(end[1].mem, before, bytes);
}

static void check_both(uint32_t bytes, const uint64_t *before,
		       const uint64_t *after)
{
	check(!memcmp(end[0].mem, before, bytes));
	check(end[0].mem[bytes] == 0x33);
	check(!memcmp(end[1].mem, after, bytes));
	check(end[1].mem[bytes] == 0x55);
}

static void swaps(void)
{
	const uint64_t before[] = { 0x11223344, 2, 3, 0x4444444444444444 };
	const uint64_t after[] = { 0x1122ff44, 0x8000000000000002, 3,
				   0x4444444444444499 };
	struct masked m = {
		.kind = MASKED_SWAP, .value = { 0xffff, TOP | 1, 7, 0x7799 },
		.mask = { 0xff00, TOP, 0, 0xff },
		.expected = { 0x11000000, 2, 9, 0x4444444444444444 },
		.compare = { 0xff000000, ONES, 0, ONES },
	};

	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		set(m.size, before);
		execute(&m);
		check_both(m.size, before, after);
	}
}

static void masked_swap__equal_bits_SWAPS_BITS(void)
{
	if (!have_masked())
		return;
	check_is(caps.sizes, 4 | 8 | 16 | 32);
	check_is(caps.max_field, 8);
	pair();
	swaps();
}

/* One different bit in any word keeps all words. */
static void masked_swap__other_bits_KEEPS(void)
{
	const uint64_t before[] = { 0x11223344, 2, 3, 4 };
	struct masked m = {
		.kind = MASKED_SWAP, .value = { ONES, ONES, ONES, ONES },
		.mask = { ONES, ONES, ONES, ONES },
		.compare = { 0xffffffff, ONES, ONES, ONES },
	};

	if (!have_masked())
		return;
	pair();
	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		for (uint32_t i = 0; i < masked_words(m.size); i++) {
			memcpy(m.expected, before, sizeof(before));
			m.expected[i] ^= 1u << 31;
			set(m.size, before);
			execute(&m);
			check_both(m.size, before, before);
		}
	}
}

static void adds(void)
{
	const uint64_t before[] = { 0xff80ff01, ONES, 5, ONES };
	const uint64_t after[] = { 0x00000002, 6, 5, 0xffffffff00000000 };
	struct masked m = {
		.kind = MASKED_ADD, .value = { 0x01800101, 7, 0, 1 },
		.mask = { 0x80808080 | TOP, TOP, TOP, TOP | 1u << 31 },
	};

	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		set(m.size, before);
		execute(&m);
		check_both(m.size, before, after);
	}
}

static void masked_add__fields_CARRY_NOT(void)
{
	if (!have_masked())
		return;
	pair();
	adds();
}

/* Each word of an answer is in the byte order that the device reports. */
static void masked__answers_big_endian_AS_REPORTED(void)
{
	if (!have_masked())
		return;
	check(!caps.swapped);
	open_with("big-endian");
	check(have_masked());
	check(caps.swapped == (BYTE_ORDER == LITTLE_ENDIAN));
	pair();
	swaps();
	adds();
}

static void masked__device_has_none_EINVAL(void)
{
	const struct masked m = { .size = 8 };
	struct request r;

	if (!have_masked())
		return;
	open_with("plain");
	check(!reports_masked());
	pair();
	r = masked_request(8);
	check_call(try_masked(1, &r, &m), EINVAL);
	quiet();
}

static void masked__many_with_plain_ADD_UP(void)
{
	const struct masked m = {
		.size = 8, .kind = MASKED_ADD, .value = { 1 },
		.mask = { 1ull << 31 | TOP },
	};
	struct request r;

	if (!have_masked())
		return;
	how.depth = 2;
	pair();
	for (uint64_t i = 0; i < 48; i += 2) {
		r = masked_request(8);
		r.sge[0].addr += 8 * i;
		check_call(try_masked(i, &r, &m), 0);
		r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, i + 1, 8);
		r.sge[0].addr += 8 * (i + 1);
		r.wr.wr.atomic.compare_add = 1;
		post(0, &r);
	}
	for (uint64_t i = 0; i < 48; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	check_is(*(uint64_t *)(void *)end[1].mem, 48);
	for (uint64_t i = 0; i < 48 && !caps.swapped; i++)
		check_is(((uint64_t *)(void *)end[0].mem)[i], i);
	quiet();
}

/* A fenced write behind it sends the answer. */
static void masked__fence_behind_SENDS_WHAT_CAME(void)
{
	const struct masked m = {
		.size = 32, .kind = MASKED_ADD, .mask = { TOP, TOP, TOP, TOP },
	};
	struct request r;

	if (!have_masked())
		return;
	pair();
	fill(1, 5);
	r = masked_request(32);
	r.wr.send_flags = 0;
	check_call(try_masked(1, &r, &m), 0);
	r = request(IBV_WR_RDMA_WRITE, 2, 32);
	aim(&r, (uintptr_t)end[1].mem + 4096, end[1].mr->rkey);
	r.wr.send_flags |= IBV_SEND_FENCE;
	post(0, &r);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	quiet();
	if (!caps.swapped)
		check(!memcmp(end[1].mem, end[1].mem + 4096, 32));
}

/* ---- refused ---------------------------------------------------------- */

static void masked__not_aligned_REM_INV_REQ_ERR(void)
{
	struct masked m = { .kind = MASKED_SWAP };

	if (!have_masked())
		return;
	for (m.size = 4; m.size <= MASKED_MAX; m.size *= 2) {
		struct request r;

		pair();
		r = masked_request(m.size);
		aim(&r, (uintptr_t)end[1].mem + m.size / 2, end[1].mr->rkey);
		check_call(try_masked(1, &r, &m), 0);
		(void)sent(0, 1, IBV_WC_REM_INV_REQ_ERR);
		check_state(end[0].qp, IBV_QPS_ERR);
	}
}

static void fails(uint64_t offset, enum ibv_wc_status status)
{
	const struct masked m = { .size = 32, .mask = { ONES } };
	struct request r = masked_request(32);

	aim(&r, (uintptr_t)end[1].mem + offset, end[1].mr->rkey);
	check_call(try_masked(1, &r, &m), 0);
	(void)sent(0, 1, status);
	check(!*(uint64_t *)(void *)end[1].mem);
}

static void masked__outside_of_the_region_REM_ACCESS_ERR(void)
{
	if (!have_masked())
		return;
	pair();
	fails(MEM, IBV_WC_REM_ACCESS_ERR);
}

static void masked__region_without_atomics_REM_ACCESS_ERR(void)
{
	if (!have_masked())
		return;
	how.mr_access &= ~IBV_ACCESS_REMOTE_ATOMIC;
	pair();
	fails(0, IBV_WC_REM_ACCESS_ERR);
}

static void masked__queue_pair_without_atomics_REM_INV_REQ_ERR(void)
{
	if (!have_masked())
		return;
	how.qp_access &= ~(unsigned int)IBV_ACCESS_REMOTE_ATOMIC;
	pair();
	fails(0, IBV_WC_REM_INV_REQ_ERR);
}

static void refused(const struct masked *m, uint32_t len, unsigned int flags)
{
	struct request r = masked_request(len);

	r.wr.send_flags |= flags;
	check_call(try_masked(1, &r, m), EINVAL);
}

static void post_masked__bad_request_EINVAL(void)
{
	struct masked m = { .kind = MASKED_ADD, .mask = { 0, TOP, TOP, TOP } };

	if (!have_masked())
		return;
	pair();
	for (m.size = 0; m.size <= 64; m.size++)
		if (m.size < 4 || m.size > 32 || m.size & (m.size - 1))
			refused(&m, m.size, 0);
	/* a field of more than 8 bytes */
	m.size = 16;
	refused(&m, 16, 0);
	m.mask[0] = TOP;
	refused(&m, 15, 0);
	refused(&m, 17, 0);
	refused(&m, 16, IBV_SEND_INLINE);
	m.kind = 2;
	refused(&m, 16, 0);
	quiet();
	check_state(end[0].qp, IBV_QPS_RTS);
}

static void post_masked__queue_full_ENOMEM(void)
{
	const struct masked m = { .size = 8 };
	struct request r;
	uint32_t n = 0;
	int ret = 0;

	if (!have_masked())
		return;
	how.retry_cnt = 7;
	pair();
	/* without a posted receive, the Send and all behind it wait */
	r = request(IBV_WR_SEND, 0, 8);
	post(0, &r);
	while (!ret && n < 100000) {
		r = masked_request(8);
		ret = try_masked(n, &r, &m);
		n += !ret;
	}
	check(n + 1 >= end[0].cap.max_send_wr);
	check_is(ret, ENOMEM);
}

/* ---- raw requests of mlx5 ---------------------------------------------- */

#ifdef HAVE_MLX5DV

#define RAW_UNIT	16u

/* A request with one data segment. */
struct raw {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	uint8_t rest[3 * RAW_UNIT];
};

static bool have_raw(void)
{
	return have_masked() &&
	       has(RAW_REQUESTS, v->mlx5_is_supported &&
				 v->mlx5_is_supported(ctx->device));
}

static int undo_raw(void *qp)
{
	return v->destroy_qp(qp);
}

/* Connected ends, of which end 0 takes raw requests. */
static void raw_pair(void)
{
	struct mlx5dv_qp_init_attr m = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE,
	};
	struct ibv_qp_init_attr_ex a;

	ends();
	a = (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC, .send_cq = end[0].scq,
		.recv_cq = end[0].rcq, .cap = how.cap, .pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	end[0].qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(end[0].qp, undo_raw);
	walk(end[0].qp, end[1].qp->qp_num);
	walk(end[1].qp, end[0].qp->qp_num);
}

/* Returns the request, whose answer goes to the memory of end 0. */
static struct raw raw_request(uint8_t opcode, uint32_t bytes,
			      const void *operands, uint32_t length)
{
	struct mlx5_wqe_data_seg data;
	struct raw r;

	memset(&r, 0, sizeof(r));
	mlx5dv_set_ctrl_seg(&r.ctrl, 0, opcode, bytes == 4 ? 8 : 9,
			    end[0].qp->qp_num, MLX5_WQE_CTRL_CQ_UPDATE,
			    (uint8_t)(3 + length / RAW_UNIT), 0, 0);
	r.raddr.raddr = htobe64((uintptr_t)end[1].mem);
	r.raddr.rkey = htobe32(end[1].mr->rkey);
	memcpy(r.rest, operands, length);
	mlx5dv_set_data_seg(&data, bytes, end[0].mr->lkey,
			    (uintptr_t)end[0].mem);
	memcpy(r.rest + length, &data, sizeof(data));
	return r;
}

static int try_raw(uint64_t id, const struct raw *r)
{
	struct ibv_qp_ex *ex = v->qp_to_qp_ex(end[0].qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = 0;		/* those of the request count */
	mlx5dv_wr_raw_wqe(v->mlx5_qp_ex_from_ibv_qp_ex(ex), r);
	return ibv_wr_complete(ex);
}

static void raw_changes(const struct raw *r, uint32_t bytes, uint64_t before,
			uint64_t after)
{
	struct ibv_wc wc;

	set(bytes, &before);
	check_call(try_raw(1, r), 0);
	wc = sent(0, 1, IBV_WC_SUCCESS);
	check_is(wc.opcode, MLX5DV_WC_RAW_WQE);
	if (caps.swapped)
		masked_swap_bytes(end[0].mem, bytes);
	check_both(bytes, &before, &after);
}

static void raw_wqe__masked_swap_SWAPS_BITS(void)
{
	/* swap, compare, mask of the swap, mask of the comparison */
	const __be32 four[] = { htobe32(0xffff), htobe32(0x11000000),
				htobe32(0xff00), htobe32(0xff000000) };
	const __be64 eight[] = { htobe64(TOP | 1), htobe64(2), htobe64(TOP),
				 htobe64(ONES) };
	struct raw r;

	if (!have_raw())
		return;
	raw_pair();
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_CS, 4, four, sizeof(four));
	raw_changes(&r, 4, 0x11223344, 0x1122ff44);
	raw_changes(&r, 4, 0x12223344, 0x12223344);
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_CS, 8, eight, sizeof(eight));
	raw_changes(&r, 8, 2, TOP | 2);
	raw_changes(&r, 8, 3, 3);
}

static void raw_wqe__add_fields_CARRY_NOT(void)
{
	const __be32 four[] = { htobe32(0x01800101), htobe32(0x80808080), 0,
				0 };
	const __be64 eight[] = { htobe64(1), htobe64(TOP | 1u << 31) };
	struct raw r;

	if (!have_raw())
		return;
	raw_pair();
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_FA, 4, four, sizeof(four));
	raw_changes(&r, 4, 0xff80ff01, 0x00000002);
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_FA, 8, eight, sizeof(eight));
	raw_changes(&r, 8, ONES, 0xffffffff00000000);
}

/* Among ordinary requests, and with a completion only if it asks for one. */
static void raw_wqe__unsignaled_IN_ORDER(void)
{
	const __be64 one[] = { htobe64(1), htobe64(TOP) };
	struct raw r;

	if (!have_raw())
		return;
	raw_pair();
	clear(1);
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_FA, 8, one, sizeof(one));
	r.ctrl.fm_ce_se = 0;
	for (uint64_t i = 0; i < 10; i++) {
		struct request w = request(IBV_WR_RDMA_WRITE, i, 8);

		check_call(try_raw(100, &r), 0);
		aim(&w, (uintptr_t)end[1].mem + 64, end[1].mr->rkey);
		post(0, &w);
		(void)sent(0, i, IBV_WC_SUCCESS);
		check_is(*(uint64_t *)(void *)end[1].mem, i + 1);
	}
	quiet();
}

static void raw_wqe__wrong_key_REM_ACCESS_ERR(void)
{
	const __be64 one[] = { htobe64(1), htobe64(TOP) };
	struct raw r;

	if (!have_raw())
		return;
	raw_pair();
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_FA, 8, one, sizeof(one));
	r.raddr.rkey ^= htobe32(0x5500);
	check_call(try_raw(1, &r), 0);
	(void)sent(0, 1, IBV_WC_REM_ACCESS_ERR);
}

/* A card says so with a completion; its sources do not tell which. */
static void raw_wqe__other_requests_REFUSED(void)
{
	const __be64 one[] = { htobe64(1), htobe64(TOP) };
	struct raw r;

	if (!have_raw() || strncmp(v->get_device_name(ctx->device), "soft", 4))
		return;
	raw_pair();
	r = raw_request(MLX5_OPCODE_NOP, 8, one, sizeof(one));
	check_call(try_raw(1, &r), EOPNOTSUPP);
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_FA, 8, one, sizeof(one));
	r.ctrl.opmod_idx_opcode |= htobe32(2u << 24);	/* 32 bytes */
	check_call(try_raw(1, &r), EOPNOTSUPP);
	r.ctrl.opmod_idx_opcode &= htobe32(0xffffff);	/* not extended */
	check_call(try_raw(1, &r), EOPNOTSUPP);
	r = raw_request(MLX5_OPCODE_ATOMIC_MASKED_FA, 8, one, sizeof(one));
	r.ctrl.qpn_ds = htobe32(2);
	check_call(try_raw(1, &r), EINVAL);
	r.ctrl.qpn_ds = htobe32(3);		/* no data segment */
	check_call(try_raw(1, &r), EINVAL);
	quiet();
}

#endif

const struct device_case masked_cases[] = {
	CASE(masked_swap__equal_bits_SWAPS_BITS),
	CASE(masked_swap__other_bits_KEEPS),
	CASE(masked_add__fields_CARRY_NOT),
	CASE(masked__answers_big_endian_AS_REPORTED),
	CASE(masked__device_has_none_EINVAL),
	CASE(masked__many_with_plain_ADD_UP),
	CASE(masked__fence_behind_SENDS_WHAT_CAME),
	CASE(masked__not_aligned_REM_INV_REQ_ERR),
	CASE(masked__outside_of_the_region_REM_ACCESS_ERR),
	CASE(masked__region_without_atomics_REM_ACCESS_ERR),
	CASE(masked__queue_pair_without_atomics_REM_INV_REQ_ERR),
	CASE(post_masked__bad_request_EINVAL),
	CASE(post_masked__queue_full_ENOMEM),
#ifdef HAVE_MLX5DV
	CASE(raw_wqe__masked_swap_SWAPS_BITS),
	CASE(raw_wqe__add_fields_CARRY_NOT),
	CASE(raw_wqe__unsignaled_IN_ORDER),
	CASE(raw_wqe__wrong_key_REM_ACCESS_ERR),
	CASE(raw_wqe__other_requests_REFUSED),
#endif
	{ .name = NULL },
};
