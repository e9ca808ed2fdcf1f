/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel queue pairs, and their requests. libibverbs refuses their flags
 * for other devices than the soft HCA, so cases with them check nothing there.
 */
#ifndef TESTS_DEVICE_CROSS_H
#define TESTS_DEVICE_CROSS_H

#include "device.h"

#include <endian.h>

#include <infiniband/mlx5dv.h>

#define CROSS		(1u << 2)
#define MANAGED_SEND	(1u << 3)
#define MANAGED_RECV	(1u << 4)

#define OP_WAIT		0x0f
#define OP_RECV_ENABLE	0x16
#define OP_SEND_ENABLE	0x17

static inline bool have_cross(void)
{
	return has(CROSS_CHANNEL,
		   v->mlx5_init_obj && v->mlx5_is_supported &&
		   v->mlx5_is_supported(ctx->device) &&
		   !strncmp(v->get_device_name(ctx->device), "soft", 4));
}

static inline int undo_qp(void *qp)
{
	return v->destroy_qp(qp);
}

static inline int undo_cq(void *cq)
{
	return v->destroy_cq(cq);
}

/* Returns NULL, with errno set, if the device refuses the flags. */
static inline struct ibv_qp *try_create(enum ibv_qp_type type,
					struct ibv_cq *scq, struct ibv_cq *rcq,
					uint32_t flags)
{
	struct mlx5dv_qp_init_attr m = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = type == IBV_QPT_RC ?
				  MLX5DV_QP_EX_WITH_RAW_WQE : 0,
	};
	struct ibv_qp_init_attr_ex a = {
		.qp_type = type, .send_cq = scq, .recv_cq = rcq,
		.cap = how.cap, .pd = pd, .create_flags = flags,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};

	return v->mlx5_create_qp(ctx, &a, &m);
}

static inline struct ibv_qp *create(struct ibv_cq *scq, struct ibv_cq *rcq,
				    uint32_t flags)
{
	struct ibv_qp *qp = try_create(IBV_QPT_RC, scq, rcq, flags);

	check(qp);
	keep(qp, undo_qp);
	return qp;
}

static inline void join(struct ibv_qp *a, struct ibv_qp *b)
{
	walk(a, b->qp_num);
	walk(b, a->qp_num);
}

/* Connected ends with these flags. */
static inline void cross_pair(uint32_t flags0, uint32_t flags1)
{
	ends();
	end[0].qp = create(end[0].scq, end[0].rcq, flags0);
	end[1].qp = create(end[1].scq, end[1].rcq, flags1);
	join(end[0].qp, end[1].qp);
}

/* A queue pair for waits and enables alone, and its completion queue. */
struct master {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
};

static inline struct master new_master(uint32_t flags)
{
	struct master m = { .cq = new_cq(64, NULL) };
	struct ibv_qp *peer;

	m.qp = create(m.cq, m.cq, flags);
	peer = create(m.cq, m.cq, 0);
	join(m.qp, peer);
	return m;
}

static inline uint32_t number_of(struct ibv_cq *cq)
{
	struct mlx5dv_cq out;
	struct mlx5dv_obj obj = { .cq = { .in = cq, .out = &out } };

	check_call(v->mlx5_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	return out.cqn;
}

static inline int try_raw(struct ibv_qp *qp, uint64_t id, const void *r)
{
	struct ibv_qp_ex *ex = v->qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = 0;
	mlx5dv_wr_raw_wqe(v->mlx5_qp_ex_from_ibv_qp_ex(ex), r);
	return ibv_wr_complete(ex);
}

static inline int try_queue(struct ibv_qp *qp, uint64_t id, uint8_t op,
			    uint32_t number, uint32_t index)
{
	struct {
		struct mlx5_wqe_ctrl_seg ctrl;
		__be32 reserved[2], index, number;
	} r;

	memset(&r, 0, sizeof(r));
	mlx5dv_set_ctrl_seg(&r.ctrl, 0, op, 0, qp->qp_num,
			    MLX5_WQE_CTRL_CQ_UPDATE, 2, 0, 0);
	r.index = htobe32(index);
	r.number = htobe32(number);
	return try_raw(qp, id, &r);
}

#define wait_for(qp, id, cq, n) \
	check_call(try_queue(qp, id, OP_WAIT, number_of(cq), n), 0)
#define enable_sends(qp, id, to, n) \
	check_call(try_queue(qp, id, OP_SEND_ENABLE, (to)->qp_num, n), 0)
#define enable_receives(qp, id, to, n) \
	check_call(try_queue(qp, id, OP_RECV_ENABLE, (to)->qp_num, n), 0)

static inline void done(struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc = expect(cq, id, IBV_WC_SUCCESS);

	check_is(wc.opcode, MLX5DV_WC_RAW_WQE);
}

/* Writes 8 bytes, which complete with this id. */
static inline void write_at(int i, uint64_t id)
{
	struct request r = request(IBV_WR_RDMA_WRITE, id, 8);

	if (i) {
		r.sge[0].addr = (uintptr_t)end[1].mem;
		r.sge[0].lkey = end[1].mr->lkey;
		aim(&r, (uintptr_t)end[0].mem, end[0].mr->rkey);
	}
	post(i, &r);
}

#endif
