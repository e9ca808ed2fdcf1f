/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw requests of mlx5 for masked atomics. libmlx5 of MLNX_OFED has the
 * operands: src/qp.c, set_ext_atomic_seg(). No card has executed these.
 */
#include "config.h"

#include "device/masked.h"

#include "base/util.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "device/verbs_call.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#ifdef HAVE_MLX5DV

#include <infiniband/mlx5dv.h>

#define UNIT		16u	/* bytes; lengths of requests count it */
#define EXTENDED	8u		/* opmod: with log2(size / 4) */

/* rdma-core sizes the queue for these if it is not asked for any. */
#define ORDINARY_OPS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | \
			 IBV_QP_EX_WITH_SEND_WITH_IMM | \
			 IBV_QP_EX_WITH_RDMA_WRITE | \
			 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
			 IBV_QP_EX_WITH_RDMA_READ | \
			 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
			 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)

/* A request. The operands are shorter than 'rest', and one entry follows. */
struct raw {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	uint8_t rest[2 * UNIT + sizeof(struct mlx5_wqe_data_seg)];
};
_Static_assert(sizeof(struct raw) == 5 * UNIT, "without gaps");

/* ---- the queue pair ---------------------------------------------------- */

static struct mlx5dv_qp_ex *builder_of(const struct verbs_api *v,
				       struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = v->qp_to_qp_ex(qp);

	return ex ? v->mlx5_qp_ex_from_ibv_qp_ex(ex) : NULL;
}

int rdmamsg__raw_create_qp(const struct rdmamsg_device *d,
			   struct ibv_qp_init_attr_ex *attr,
			   struct ibv_qp **ret)
{
	struct mlx5dv_qp_init_attr mlx5 = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE,
	};
	struct ibv_qp_init_attr_ex a = *attr;
	struct ibv_qp *qp;
	int err;

	if (!d->v->mlx5_is_supported ||
	    !d->v->mlx5_is_supported(d->verbs->device))
		return -EOPNOTSUPP;
	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = ORDINARY_OPS;
	err = rdmamsg__v_mlx5_create_qp(d->v, d->verbs, &a, &mlx5, &qp);
	if (err)
		return err;
	if (!builder_of(d->v, qp)) {
		(void)rdmamsg__v_destroy_qp(d->v, qp);
		return -EOPNOTSUPP;
	}
	attr->cap = a.cap;
	*ret = qp;
	return 0;
}

/* ---- requests ---------------------------------------------------------- */

/* Writes the operands, and returns their length. */
static uint32_t put_swap(const struct masked *m, uint8_t *at)
{
	const __be32 four[] = {
		htobe32((uint32_t)m->value[0]),
		htobe32((uint32_t)m->expected[0]),
		htobe32((uint32_t)m->mask[0]), htobe32((uint32_t)m->compare[0]),
	};
	const __be64 eight[] = {
		htobe64(m->value[0]), htobe64(m->expected[0]),
		htobe64(m->mask[0]), htobe64(m->compare[0]),
	};

	if (m->size == sizeof(uint32_t)) {
		memcpy(at, four, sizeof(four));
		return sizeof(four);
	}
	memcpy(at, eight, sizeof(eight));
	return sizeof(eight);
}

static uint32_t put_add(const struct masked *m, uint8_t *at)
{
	const __be32 four[] = {
		htobe32((uint32_t)m->value[0]), htobe32((uint32_t)m->mask[0]),
		0, 0,
	};
	const __be64 eight[] = { htobe64(m->value[0]), htobe64(m->mask[0]) };

	if (m->size == sizeof(uint32_t)) {
		memcpy(at, four, sizeof(four));
		return sizeof(four);
	}
	memcpy(at, eight, sizeof(eight));
	return sizeof(eight);
}

static void fill(struct raw *raw, uint32_t qp_num, const struct ibv_send_wr *wr,
		 const struct masked *m)
{
	const bool adds = m->kind == MASKED_ADD;
	const uint32_t length = adds ? put_add(m, raw->rest) :
				       put_swap(m, raw->rest);
	const unsigned int flags =
		(wr->send_flags & IBV_SEND_FENCE ? MLX5_WQE_CTRL_FENCE : 0) |
		(wr->send_flags & IBV_SEND_SIGNALED ?
		 MLX5_WQE_CTRL_CQ_UPDATE : 0);
	struct mlx5_wqe_data_seg data;

	mlx5dv_set_ctrl_seg(&raw->ctrl, 0, adds ? MLX5_OPCODE_ATOMIC_MASKED_FA :
			    MLX5_OPCODE_ATOMIC_MASKED_CS, EXTENDED +
			    (m->size == sizeof(uint64_t)), qp_num,
			    (uint8_t)flags, (uint8_t)(3 + length / UNIT), 0, 0);
	raw->raddr = (struct mlx5_wqe_raddr_seg){
		.raddr = htobe64(wr->wr.atomic.remote_addr),
		.rkey = htobe32(wr->wr.atomic.rkey),
	};
	mlx5dv_set_data_seg(&data, wr->sg_list->length, wr->sg_list->lkey,
			    wr->sg_list->addr);
	memcpy(raw->rest + length, &data, sizeof(data));
}

static int post_raw(const struct verbs_api *v, struct ibv_qp *qp,
		    const struct ibv_send_wr *wr, const struct masked *m)
{
	struct ibv_qp_ex *ex = v->qp_to_qp_ex(qp);
	struct raw raw;

	fill(&raw, qp->qp_num, wr, m);
	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	mlx5dv_wr_raw_wqe(builder_of(v, qp), &raw);
	return rdmamsg__verbs_ret(ibv_wr_complete(ex));
}

#else

int rdmamsg__raw_create_qp(const struct rdmamsg_device *d,
			   struct ibv_qp_init_attr_ex *attr,
			   struct ibv_qp **ret)
{
	return -EOPNOTSUPP;
}

static int post_raw(const struct verbs_api *v, struct ibv_qp *qp,
		    const struct ibv_send_wr *wr, const struct masked *m)
{
	return -EOPNOTSUPP;
}

#endif

int rdmamsg__post_masked(const struct verbs_api *v, struct ibv_qp *qp, bool raw,
			 struct ibv_send_wr *wr, const struct masked *m)
{
	if (raw && m->size <= sizeof(uint64_t))
		return post_raw(v, qp, wr, m);
	return v->post_masked ? rdmamsg__v_post_masked(v, qp, wr, m) :
	       -EOPNOTSUPP;
}
