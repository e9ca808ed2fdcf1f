/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dynamically connected transport (DC) through the calls of libmlx5: a target,
 * and an initiator as end 0. For the cases of DC.
 */
#ifndef TESTS_DEVICE_DC_H
#define TESTS_DEVICE_DC_H

#include "device.h"

#include <infiniband/mlx5dv.h>

#define KEY	0x0123456789abcdefull
#define OPS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
		 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE | \
		 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
		 IBV_QP_EX_WITH_RDMA_READ | \
		 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
		 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)

#define DCI_INIT	(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define DCI_RTR		(IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV)
#define DCI_RTS		(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | \
			 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | \
			 IBV_QP_SQ_PSN)
#define DCT_INIT	(IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | \
			 IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define DCT_RTR		(IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | \
			 IBV_QP_PATH_MTU)
#define DCT_QUERY	(IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | \
			 IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU | \
			 IBV_QP_PKEY_INDEX)

static struct ibv_srq *srq;
static struct ibv_qp *dct;
static struct ibv_ah *ah;

static inline bool has_dc(void)
{
	return has(DC, v->mlx5_is_supported &&
			v->mlx5_is_supported(ctx->device));
}

static inline void dc__device_supports_it(void)
{
	if (!has_dc())
		skip_rest("libmlx5 does not support the device");
}

/* ---- initiators and targets ------------------------------------------- */

static inline int undo_qp(void *qp)
{
	return v->destroy_qp(qp);
}

static inline struct ibv_qp_init_attr_ex dci_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq,
		.cap = how.cap, .pd = pd, .send_ops_flags = OPS,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
}

static inline struct ibv_qp_init_attr_ex dct_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq,
		.pd = pd, .srq = srq, .comp_mask = IBV_QP_INIT_ATTR_PD,
	};
}

static inline struct mlx5dv_qp_init_attr mlx5_attr(enum mlx5dv_dc_type type)
{
	struct mlx5dv_qp_init_attr m = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
		.dc_init_attr.dc_type = type,
	};

	if (type == MLX5DV_DCTYPE_DCT)
		m.dc_init_attr.dct_access_key = KEY;
	return m;
}

static inline struct ibv_qp *create(struct ibv_qp_init_attr_ex *a,
			     enum mlx5dv_dc_type type)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(type);
	struct ibv_qp *qp = v->mlx5_create_qp(ctx, a, &m);

	keep(qp, undo_qp);
	return qp;
}

static inline void dc_step(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = step_attr(to, 0);

	check_call(v->modify_qp(qp, &a, mask), 0);
}

static inline void bring_up(struct ibv_qp *dci)
{
	dc_step(dci, IBV_QPS_INIT, DCI_INIT);
	dc_step(dci, IBV_QPS_RTR, DCI_RTR);
	dc_step(dci, IBV_QPS_RTS, DCI_RTS);
}

static inline struct ibv_qp *new_dci(void)
{
	struct ibv_qp_init_attr_ex a = dci_attr(end[0].scq);
	struct ibv_qp *dci = create(&a, MLX5DV_DCTYPE_DCI);

	bring_up(dci);
	return dci;
}

static inline struct ibv_qp *new_dct(void)
{
	struct ibv_qp_init_attr_ex a = dct_attr(end[1].rcq);
	struct ibv_qp *qp = create(&a, MLX5DV_DCTYPE_DCT);

	dc_step(qp, IBV_QPS_INIT, DCT_INIT);
	dc_step(qp, IBV_QPS_RTR, DCT_RTR);
	return qp;
}

/* Memory and completion queues, a target, and an initiator as end 0. */
static inline void dc_pair(void)
{
	ends();
	srq = new_srq(64);
	dct = new_dct();
	ah = new_ah(NULL);
	end[0].qp = new_dci();
}

static inline void receive_shared(uint64_t id, uint32_t offset, uint32_t len)
{
	struct ibv_sge sge = {
		(uintptr_t)end[1].mem + offset, len, end[1].mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1,
	};

	check_call(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

/* ---- requests --------------------------------------------------------- */

static inline void begin(struct ibv_qp_ex *ex, const struct request *r)
{
	const struct ibv_send_wr *wr = &r->wr;

	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(ex);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, wr->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey,
				  wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey,
				      wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey,
				 wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey,
				      wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey,
					wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
	}
}

static inline struct ibv_qp_ex *start(struct ibv_qp *dci)
{
	struct ibv_qp_ex *ex = v->qp_to_qp_ex(dci);

	check(ex);
	ibv_wr_start(ex);
	return ex;
}

static inline int try_dc(struct ibv_qp *dci, const struct request *r,
			 uint32_t dctn, uint64_t key)
{
	struct ibv_qp_ex *ex = start(dci);

	begin(ex, r);
	mlx5dv_wr_set_dc_addr(v->mlx5_qp_ex_from_ibv_qp_ex(ex), ah, dctn, key);
	ibv_wr_set_sge_list(ex, (size_t)r->wr.num_sge, r->sge);
	return ibv_wr_complete(ex);
}

static inline void post_dc(const struct request *r)
{
	check_call(try_dc(end[0].qp, r, dct->qp_num, KEY), 0);
}

static inline void send_dc(struct ibv_qp *dci, struct ibv_qp *to, uint64_t id,
		    uint32_t len, uint64_t key)
{
	struct request r = request(IBV_WR_SEND, id, len);

	check_call(try_dc(dci, &r, to->qp_num, key), 0);
}

/* After an error: an initiator goes on only from RESET. */
static inline void restart(struct ibv_qp *dci)
{
	check_is(state_of(dci), IBV_QPS_ERR);
	enter(dci, IBV_QPS_RESET);
	bring_up(dci);
}

/* The pair works. */
static inline void works(struct ibv_qp *dci, struct ibv_qp *to, uint64_t id)
{
	receive_shared(100 + id, 0, MEM);
	fill(0, (uint32_t)id);
	clear(1);
	send_dc(dci, to, id, 5000, KEY);
	(void)sent(0, id, IBV_WC_SUCCESS);
	(void)received(1, 100 + id, IBV_WC_SUCCESS);
	same(5000);
}

#endif
