/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flag is that of Linux (include/rdma/ib_verbs.h), which libibverbs has no
 * name for. The raw requests are those of DPDK (drivers/common/mlx5/mlx5_prm.h)
 * and of MLNX_OFED (libmlx5, src/qp.c, mlx5_calc_ops_table). No card has
 * executed these.
 */
#include "config.h"

#include "device/cross.h"

#include "base/base.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_call.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static int no_mlx5(const struct rdmamsg_device *d)
{
	return rdmamsg__fail(-EOPNOTSUPP, "libmlx5 is absent, or does not "
			     "support device %s", d->name);
}

#ifdef HAVE_MLX5DV

#include <infiniband/mlx5dv.h>

#define CROSS_CHANNEL	(1u << 2)	/* IB_QP_CREATE_CROSS_CHANNEL */
#define OP_WAIT		0x0f
#define UNIT		16u	/* bytes; lengths of requests count it */

struct wait {
	struct mlx5_wqe_ctrl_seg ctrl;
	__be32 reserved[2], index, number;
};

struct calc {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	struct mlx5_wqe_data_seg data[2];
};

_Static_assert(sizeof(struct wait) == 2 * UNIT, "without gaps");
_Static_assert(sizeof(struct calc) == 4 * UNIT, "without gaps");

static bool has_mlx5(const struct rdmamsg_device *d)
{
	return d->v->mlx5_is_supported && d->v->mlx5_init_obj &&
	       d->v->mlx5_is_supported(d->verbs->device);
}

/* ---- the queue pair ---------------------------------------------------- */

static int create(const struct rdmamsg_device *d, const struct cross_attr *a,
		  struct ibv_qp **ret)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .send_cq = a->send_cq,
		.recv_cq = a->recv_cq, .cap = a->cap, .pd = a->pd,
		.create_flags = CROSS_CHANNEL,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct mlx5dv_qp_init_attr mlx5 = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE,
	};

	return rdmamsg__v_mlx5_create_qp(d->v, d->verbs, &attr, &mlx5, ret);
}

int rdmamsg__cross_open(const struct rdmamsg_device *d,
			const struct cross_attr *attr, struct cross *ret)
{
	struct cross c = { .qp = NULL };
	int err;

	if (!has_mlx5(d))
		return no_mlx5(d);
	err = create(d, attr, &c.qp);
	if (err)
		return rdmamsg__fail(err, "creating a cross-channel queue "
				     "pair: %s", strerror(-err));
	c.ex = d->v->qp_to_qp_ex(c.qp);
	c.dv = c.ex ? d->v->mlx5_qp_ex_from_ibv_qp_ex(c.ex) : NULL;
	if (!c.dv) {
		rdmamsg__cross_close(d, &c);
		return rdmamsg__fail(-EOPNOTSUPP, "a cross-channel queue pair "
				     "has no calls for raw requests");
	}
	*ret = c;
	return 0;
}

int rdmamsg__cross_number(const struct rdmamsg_device *d, struct ibv_cq *cq,
			  uint32_t *ret)
{
	struct mlx5dv_cq out = { .cqn = 0 };
	struct mlx5dv_obj obj = { .cq = { .in = cq, .out = &out } };
	int err;

	if (!has_mlx5(d))
		return no_mlx5(d);
	err = rdmamsg__verbs_ret(d->v->mlx5_init_obj(&obj, MLX5DV_OBJ_CQ));

	if (err)
		return rdmamsg__fail(err, "the number of a completion queue: "
				     "%s", strerror(-err));
	*ret = out.cqn;
	return 0;
}

/* ---- requests ---------------------------------------------------------- */

static uint8_t flags_of(bool signaled)
{
	return signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0;
}

void rdmamsg__cross_begin(const struct cross *c, uint64_t wr_id)
{
	ibv_wr_start(c->ex);
	c->ex->wr_id = wr_id;
}

void rdmamsg__cross_wait(const struct cross *c, bool signaled, uint32_t number,
			 uint32_t index)
{
	struct wait w = {
		.index = htobe32(index), .number = htobe32(number),
	};

	mlx5dv_set_ctrl_seg(&w.ctrl, 0, OP_WAIT, 0, c->qp->qp_num,
			    flags_of(signaled), sizeof(w) / UNIT, 0, 0);
	mlx5dv_wr_raw_wqe(c->dv, &w);
}

void rdmamsg__cross_send(const struct cross *c, bool signaled, uint32_t imm,
			 const struct ibv_sge *sge)
{
	c->ex->wr_flags = signaled ? IBV_SEND_SIGNALED : 0;
	ibv_wr_send_imm(c->ex, htobe32(imm));
	if (sge)
		ibv_wr_set_sge(c->ex, sge->lkey, sge->addr, sge->length);
	else
		ibv_wr_set_sge_list(c->ex, 0, NULL);
}

void rdmamsg__cross_calc(const struct cross *c, bool signaled,
			 const struct cross_calc *calc)
{
	static const uint8_t ops[] = {
		[CROSS_ADD] = 1, [CROSS_AND] = 4, [CROSS_OR] = 5,
		[CROSS_XOR] = 6,
	};
	struct calc r = {
		.raddr = {
			.raddr = htobe64(calc->to),
			.rkey = htobe32(calc->rkey),
		},
	};

	mlx5dv_set_ctrl_seg(&r.ctrl, 0, MLX5_OPCODE_RDMA_WRITE, ops[calc->op],
			    c->qp->qp_num, flags_of(signaled),
			    sizeof(r) / UNIT, 0, 0);
	mlx5dv_set_data_seg(&r.data[0], sizeof(uint64_t), calc->a_lkey,
			    calc->a);
	mlx5dv_set_data_seg(&r.data[1], sizeof(uint64_t), calc->b_lkey,
			    calc->b);
	mlx5dv_wr_raw_wqe(c->dv, &r);
}

int rdmamsg__cross_end(const struct cross *c)
{
	return rdmamsg__verbs_ret(ibv_wr_complete(c->ex));
}

#else

int rdmamsg__cross_open(const struct rdmamsg_device *d,
			const struct cross_attr *attr, struct cross *ret)
{
	return no_mlx5(d);
}

int rdmamsg__cross_number(const struct rdmamsg_device *d, struct ibv_cq *cq,
			  uint32_t *ret)
{
	return no_mlx5(d);
}

void rdmamsg__cross_begin(const struct cross *c, uint64_t wr_id)
{
}

void rdmamsg__cross_wait(const struct cross *c, bool signaled, uint32_t number,
			 uint32_t index)
{
}

void rdmamsg__cross_send(const struct cross *c, bool signaled, uint32_t imm,
			 const struct ibv_sge *sge)
{
}

void rdmamsg__cross_calc(const struct cross *c, bool signaled,
			 const struct cross_calc *calc)
{
}

int rdmamsg__cross_end(const struct cross *c)
{
	return -EOPNOTSUPP;
}

#endif

void rdmamsg__cross_close(const struct rdmamsg_device *d, struct cross *c)
{
	if (c->qp && rdmamsg__v_destroy_qp(d->v, c->qp))
		log_error("device %s: a cross-channel queue pair could not be "
			  "destroyed", d->name);
	*c = (struct cross){ .qp = NULL };
}
