/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Indirect keys through the calls of libmlx5, and a queue pair connected to
 * itself that defines them.
 */
#ifndef TESTS_DEVICE_UMR_H
#define TESTS_DEVICE_UMR_H

#include "device.h"

#include <infiniband/mlx5dv.h>

#define ENTRIES		32u
#define ALL		(IBV_ACCESS_LOCAL_WRITE | REMOTE)
#define UMR_OPS		(MLX5DV_QP_EX_WITH_MR_LIST | \
			 MLX5DV_QP_EX_WITH_MR_INTERLEAVED | \
			 MLX5DV_QP_EX_WITH_MKEY_CONFIGURE)

static struct ibv_qp *umr;
static struct ibv_cq *umr_cq;
static struct ibv_qp_ex *umr_ex;
static struct mlx5dv_qp_ex *umr_dv;

static inline bool has_umr(void)
{
	return has(INDIRECT_KEYS, v->mlx5_is_supported &&
				   v->mlx5_is_supported(ctx->device));
}

static inline int undo_umr_qp(void *qp)
{
	return v->destroy_qp(qp);
}

static inline int undo_mkey(void *mkey)
{
	return v->mlx5_destroy_mkey(mkey);
}

static inline struct ibv_qp_init_attr_ex umr_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .pd = pd,
		.cap = {
			.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1,
			.max_recv_sge = 1, .max_inline_data = 16 * ENTRIES,
		},
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_LOCAL_INV |
				  IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_SEND_WITH_INV,
	};
}

static inline struct mlx5dv_qp_init_attr umr_mlx5_attr(uint64_t ops)
{
	return (struct mlx5dv_qp_init_attr){
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};
}

static inline void umr_open(void)
{
	struct mlx5dv_qp_init_attr m = umr_mlx5_attr(UMR_OPS);
	struct ibv_qp_init_attr_ex a;

	umr_cq = new_cq(64, NULL);
	a = umr_attr(umr_cq);
	umr = v->mlx5_create_qp(ctx, &a, &m);
	keep(umr, undo_umr_qp);
	umr_ex = v->qp_to_qp_ex(umr);
	check(umr_ex);
	umr_dv = v->mlx5_qp_ex_from_ibv_qp_ex(umr_ex);
	check(umr_dv);
	walk(umr, umr->qp_num);
}

static inline struct mlx5dv_mkey *mkey_with(uint16_t entries, uint32_t flags)
{
	struct mlx5dv_mkey_init_attr a = {
		.pd = pd, .max_entries = entries,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | flags,
	};
	struct mlx5dv_mkey *k = v->mlx5_create_mkey(&a);

	check(k);
	keep(k, undo_mkey);
	return k;
}

static inline struct mlx5dv_mkey *new_mkey(void)
{
	return mkey_with(ENTRIES, 0);
}

/* ---- requests --------------------------------------------------------- */

static inline void umr_start(uint64_t id)
{
	ibv_wr_start(umr_ex);
	umr_ex->wr_id = id;
	umr_ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
}

static inline int try_list(struct mlx5dv_mkey *k, uint32_t access, uint16_t n,
			   struct ibv_sge *sge)
{
	umr_start(1);
	mlx5dv_wr_mr_list(umr_dv, k, access, n, sge);
	return ibv_wr_complete(umr_ex);
}

static inline int try_interleaved(struct mlx5dv_mkey *k, uint32_t access,
				  uint32_t repeat, uint16_t n,
				  struct mlx5dv_mr_interleaved *data)
{
	umr_start(1);
	mlx5dv_wr_mr_interleaved(umr_dv, k, access, repeat, n, data);
	return ibv_wr_complete(umr_ex);
}

static inline void umr_done(uint64_t id)
{
	struct ibv_wc wc = expect(umr_cq, id, IBV_WC_SUCCESS);

	check_is(wc.opcode, MLX5DV_WC_UMR);
}

static inline void set_list(struct mlx5dv_mkey *k, uint32_t access, uint16_t n,
			    struct ibv_sge *sge)
{
	check_call(try_list(k, access, n, sge), 0);
	umr_done(1);
}

static inline void set_interleaved(struct mlx5dv_mkey *k, uint32_t access,
				   uint32_t repeat, uint16_t n,
				   struct mlx5dv_mr_interleaved *data)
{
	check_call(try_interleaved(k, access, repeat, n, data), 0);
	umr_done(1);
}

static inline void invalidate(uint32_t key, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	umr_start(2);
	umr_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(umr_ex, key);
	check_call(ibv_wr_complete(umr_ex), 0);
	wc = expect(umr_cq, 2, status);
	if (status == IBV_WC_SUCCESS)
		check_is(wc.opcode, IBV_WC_LOCAL_INV);
}

/* ---- layouts of the memory of an end ---------------------------------- */

static inline struct ibv_sge piece(int i, uint32_t offset, uint32_t len)
{
	return (struct ibv_sge){
		(uintptr_t)end[i].mem + offset, len, end[i].mr->lkey,
	};
}

/* Three blocks of 10, 20 and 30 bytes: THREE bytes in all. */
#define THREE	60u

static inline struct mlx5dv_mkey *three(int i, uint32_t access)
{
	struct ibv_sge sge[] = {
		piece(i, 1000, 10), piece(i, 50, 20), piece(i, 5000, 30),
	};
	struct mlx5dv_mkey *k = new_mkey();

	set_list(k, access, 3, sge);
	return k;
}

/* Returns the place in the memory of byte n of these blocks. */
static inline uint32_t three_at(uint32_t n)
{
	return n < 10 ? 1000 + n : n < 30 ? 50 + n - 10 : 5000 + n - 30;
}

/* Posts a write or read of end 0 to a key. */
static inline void post_to(enum ibv_wr_opcode op, uint64_t id, uint32_t len,
			   uint64_t addr, uint32_t rkey)
{
	struct request r = request(op, id, len);

	aim(&r, addr, rkey);
	post(0, &r);
}

static inline void refused(enum ibv_wr_opcode op, uint32_t len, uint64_t addr,
			   uint32_t rkey)
{
	post_to(op, 9, len, addr, rkey);
	(void)sent(0, 9, IBV_WC_REM_ACCESS_ERR);
}

#endif
