/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics as raw requests of mlx5, of 4 and 8 bytes: no other call of
 * rdma-core has any.
 */
#include "config.h"
#include "operand.h"

#ifdef HAVE_MLX5DV
#include <infiniband/mlx5dv.h>

#define ONES	UINT64_MAX
#define TOP	(1ull << 63)
#define RAW_UNIT	16u

/* A request with one data segment. */
struct raw {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	uint8_t rest[3 * RAW_UNIT];
};

static bool swapped;

static void raw_wqe__device_supports_it(void)
{
	if (!has(RAW_REQUESTS, v->mlx5_is_supported &&
			       v->mlx5_is_supported(ctx->device)))
		skip_rest("libmlx5 does not support the device");
	if (!has(MASKED_ATOMICS, masked_sizes(&swapped) & 8))
		skip_rest("the device has no masked atomics");
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

	(void)masked_sizes(&swapped);
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

	set_operand(bytes, &before);
	check_call(try_raw(1, r), 0);
	wc = sent(0, 1, IBV_WC_SUCCESS);
	check_is(wc.opcode, MLX5DV_WC_RAW_WQE);
	if (swapped)
		swap_answer(end[0].mem, bytes);
	check_operand(bytes, &before, &after);
}

static void raw_wqe__masked_swap_SWAPS_BITS(void)
{
	/* swap, compare, mask of the swap, mask of the comparison */
	const __be32 four[] = { htobe32(0xffff), htobe32(0x11000000),
				htobe32(0xff00), htobe32(0xff000000) };
	const __be64 eight[] = { htobe64(TOP | 1), htobe64(2), htobe64(TOP),
				 htobe64(ONES) };
	struct raw r;

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

	if (strncmp(v->get_device_name(ctx->device), "soft", 4))
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

const struct device_case masked_raw_cases[] = {
	GATE(raw_wqe__device_supports_it),
	CASE(raw_wqe__masked_swap_SWAPS_BITS),
	CASE(raw_wqe__add_fields_CARRY_NOT),
	CASE(raw_wqe__unsignaled_IN_ORDER),
	CASE(raw_wqe__wrong_key_REM_ACCESS_ERR),
	CASE(raw_wqe__other_requests_REFUSED),
	{ .name = NULL },
};

#endif
