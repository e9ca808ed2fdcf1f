/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw requests of initiators: rdma-core, mlx5/qp.c, mlx5_qp_fill_wr_pfns(),
 * takes them, and _mlx5_send_wr_rdma() shows where the address is. Masked
 * atomics are the only such requests that no other call makes.
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#include "dc.h"
#include "operand.h"

#include <endian.h>

#define UNIT	16u
#define TOP	(1ull << 63)

/* With one data segment behind the operands. */
struct raw {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_av av;
	struct mlx5_wqe_raddr_seg raddr;
	uint8_t rest[3 * UNIT];
};

static bool swapped;

static void dc_raw__device_supports_it(void)
{
	if (!has_dc() || !has(RAW_REQUESTS, v->mlx5_init_obj))
		skip_rest("libmlx5 does not support the device");
	if (!has(MASKED_ATOMICS, masked_sizes(&swapped) & 8))
		skip_rest("the device has no masked atomics");
}

/* As dc_pair(), but the initiator takes raw requests. */
static void raw_pair(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a;

	(void)masked_sizes(&swapped);
	dc_pair();
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
	m.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE;
	a = dci_attr(end[0].scq);
	end[0].qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(end[0].qp, undo_qp);
	bring_up(end[0].qp);
}

static struct mlx5_wqe_av segment_of(struct ibv_ah *of)
{
	struct mlx5dv_ah out = { .comp_mask = 0 };
	struct mlx5dv_obj obj = { .ah = { .in = of, .out = &out } };

	check_call(v->mlx5_init_obj(&obj, MLX5DV_OBJ_AH), 0);
	check(out.av);
	return *out.av;
}

/* Its answer goes to the memory of end 0. */
static struct raw request_of(uint8_t opcode, uint32_t bytes,
			     const void *operands, uint32_t length)
{
	struct mlx5_wqe_data_seg data;
	struct raw r;

	memset(&r, 0, sizeof(r));
	mlx5dv_set_ctrl_seg(&r.ctrl, 0, opcode, bytes == 4 ? 8 : 9,
			    end[0].qp->qp_num, MLX5_WQE_CTRL_CQ_UPDATE,
			    (uint8_t)(6 + length / UNIT), 0, 0);
	r.av = segment_of(ah);
	r.av.key.dc_key = htobe64(KEY);
	r.av.dqp_dct = htobe32(dct->qp_num | MLX5_EXTENDED_UD_AV);
	r.raddr.raddr = htobe64((uintptr_t)end[1].mem);
	r.raddr.rkey = htobe32(end[1].mr->rkey);
	memcpy(r.rest, operands, length);
	mlx5dv_set_data_seg(&data, bytes, end[0].mr->lkey,
			    (uintptr_t)end[0].mem);
	memcpy(r.rest + length, &data, sizeof(data));
	return r;
}

static struct raw add_one(void)
{
	/* the fields have 32 bits */
	const __be64 plus_one[] = { htobe64(1), htobe64(TOP | 1u << 31) };

	return request_of(MLX5_OPCODE_ATOMIC_MASKED_FA, 8, plus_one,
			  sizeof(plus_one));
}

static int try_raw(uint64_t id, const struct raw *r)
{
	struct ibv_qp_ex *ex = start(end[0].qp);

	ex->wr_id = id;
	ex->wr_flags = 0;		/* those of the request count */
	mlx5dv_wr_raw_wqe(v->mlx5_qp_ex_from_ibv_qp_ex(ex), r);
	return ibv_wr_complete(ex);
}

static void changes(uint64_t id, const struct raw *r, uint32_t bytes,
		    uint64_t before, uint64_t after)
{
	memcpy(end[1].mem, &before, bytes);
	clear(0);
	check_call(try_raw(id, r), 0);
	check_is(sent(0, id, IBV_WC_SUCCESS).opcode, MLX5DV_WC_RAW_WQE);
	if (swapped)
		swap_answer(end[0].mem, bytes);
	check(!memcmp(end[0].mem, &before, bytes));
	check(!memcmp(end[1].mem, &after, bytes));
}

/* ---- cases ------------------------------------------------------------- */

static void dc_raw__masked_atomics_DONE(void)
{
	/* swap, compare, mask of the swap, mask of the comparison */
	const __be32 four[] = { htobe32(0xffff), htobe32(0x11000000),
				htobe32(0xff00), htobe32(0xff000000) };
	const __be32 sum[] = { htobe32(0x01800101), htobe32(0x80808080), 0, 0 };
	struct raw r;

	raw_pair();
	r = add_one();
	changes(1, &r, 8, 0xffffffff, 0);
	changes(2, &r, 8, 5, 6);
	r = request_of(MLX5_OPCODE_ATOMIC_MASKED_CS, 4, four, sizeof(four));
	changes(3, &r, 4, 0x11223344, 0x1122ff44);
	changes(4, &r, 4, 0x12223344, 0x12223344);
	r = request_of(MLX5_OPCODE_ATOMIC_MASKED_FA, 4, sum, sizeof(sum));
	changes(5, &r, 4, 0x000000ff, 0x01800100);
	works(end[0].qp, dct, 6);
	quiet();
}

/* Many, among other requests and to two targets. */
static void dc_raw__among_others_IN_ORDER(void)
{
	struct ibv_qp *first, *other;
	struct request plain;
	uint64_t *at;
	struct raw r;

	raw_pair();
	first = dct;
	other = new_dct();
	at = (void *)end[1].mem;
	*at = 0;
	r = add_one();
	for (uint64_t i = 0; i < 40; i += 2) {
		dct = i % 4 ? first : other;
		r.av.dqp_dct = htobe32(dct->qp_num | MLX5_EXTENDED_UD_AV);
		check_call(try_raw(i, &r), 0);
		plain = request(IBV_WR_ATOMIC_FETCH_AND_ADD, i + 1, 8);
		plain.sge[0].addr += 8 * (i + 1);
		plain.wr.wr.atomic.compare_add = 2;
		post_dc(&plain);
	}
	for (uint64_t i = 0; i < 40; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i < 40; i += 2)
		check_is(((uint64_t *)(void *)end[0].mem)[i], i / 2 * 3 + 1);
	check_is(*at, 60);
}

static void dc_raw__access_key_REM_ACCESS_ERR(void)
{
	struct raw r;

	raw_pair();
	r = add_one();
	r.av.key.dc_key = htobe64(KEY + 1);
	check_call(try_raw(1, &r), 0);
	(void)sent(0, 1, IBV_WC_REM_ACCESS_ERR);
	restart(end[0].qp);
	r = add_one();
	r.raddr.rkey ^= htobe32(0x5500);
	check_call(try_raw(2, &r), 0);
	(void)sent(0, 2, IBV_WC_REM_ACCESS_ERR);
	restart(end[0].qp);
	r = add_one();
	r.raddr.raddr = htobe64((uintptr_t)end[1].mem + 4);
	check_call(try_raw(3, &r), 0);
	(void)sent(0, 3, IBV_WC_REM_INV_REQ_ERR);
	restart(end[0].qp);
	r = add_one();
	changes(4, &r, 8, 7, 8);
}

/* The address of a handle that is gone. */
static void dc_raw__handle_destroyed_GOES_ON(void)
{
	struct raw r;

	raw_pair();
	r = add_one();
	changes(1, &r, 8, 1, 2);
	drop(ah);
	changes(2, &r, 8, 2, 3);
	ah = new_ah(NULL);
	works(end[0].qp, dct, 3);
}

static void dc_raw__address_AS_OF_THE_HANDLE(void)
{
	struct mlx5_wqe_av av;

	raw_pair();
	av = segment_of(ah);
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		check(!memcmp(av.rgid, gid.raw, 16));
		check_is(be32toh(av.grh_gid_fl) >> 20 & 0xff, gid_index);
		check(!(be32toh(av.grh_gid_fl) >> 30));
	} else {
		check_is(be16toh(av.rlid), port.lid);
	}
}

/* The soft HCA looks at a request when it is built. A card does that later. */
static void dc_raw__other_requests_REFUSED(void)
{
	const __be64 operands[2] = { 0, 0 };
	struct raw r;

	if (strncmp(v->get_device_name(ctx->device), "soft", 4))
		return;
	raw_pair();
	r = add_one();
	r.av.dqp_dct &= ~htobe32(MLX5_EXTENDED_UD_AV);
	check_call(try_raw(1, &r), EOPNOTSUPP);
	r = request_of(MLX5_OPCODE_NOP, 8, operands, sizeof(operands));
	check_call(try_raw(1, &r), EOPNOTSUPP);
	for (uint32_t units = 0; units < 7; units++) {
		r = add_one();
		r.ctrl.qpn_ds = htobe32(units);
		check_call(try_raw(1, &r), EINVAL);
	}
	/* a wait of cross-channel queue pairs */
	r = request_of(0x0f, 8, operands, sizeof(operands));
	check_call(try_raw(1, &r), EINVAL);
	works(end[0].qp, dct, 2);
	quiet();
}

const struct device_case dc_raw_cases[] = {
	GATE(dc_raw__device_supports_it),
	CASE(dc_raw__masked_atomics_DONE),
	CASE(dc_raw__among_others_IN_ORDER),
	CASE(dc_raw__access_key_REM_ACCESS_ERR),
	CASE(dc_raw__handle_destroyed_GOES_ON),
	CASE(dc_raw__address_AS_OF_THE_HANDLE),
	CASE(dc_raw__other_requests_REFUSED),
	{ .name = NULL },
};

#endif
