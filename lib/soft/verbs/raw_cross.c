/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: raw requests of cross-channel queue pairs. The opcodes and the segment
 * of waits and enables are those of DPDK, drivers/common/mlx5/mlx5_prm.h. The
 * calculations are those of MLNX_OFED, libmlx5, src/qp.c, mlx5_calc_ops_table:
 * the opmod tells the operation. Operands and result are in network order, as
 * cards want them.
 */
#include "config.h"

#ifdef HAVE_MLX5DV

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cross.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/umr.h"

#define UNIT	16u

enum {
	OP_WAIT = 0x0f,
	OP_RECV_ENABLE = 0x16,
	OP_SEND_ENABLE = 0x17,
};

/* Behind the control segment of a wait or an enable. */
struct queue_seg {
	__be32 reserved[2];
	__be32 index, number;
};

static uint8_t opcode_of(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return (uint8_t)(be32toh(ctrl->opmod_idx_opcode) & 0xff);
}

static uint32_t opmod_of(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	return be32toh(ctrl->opmod_idx_opcode) >> 24;
}

static bool calc_ok(uint32_t calc)
{
	return calc == SOFT_CALC_ADD || calc == SOFT_CALC_ADD_DOUBLE ||
	       calc == SOFT_CALC_AND || calc == SOFT_CALC_OR ||
	       calc == SOFT_CALC_XOR;
}

bool soft_raw_is_cross(const struct mlx5_wqe_ctrl_seg *ctrl)
{
	switch (opcode_of(ctrl)) {
	case OP_WAIT:
	case OP_RECV_ENABLE:
	case OP_SEND_ENABLE:
		return true;
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		/* libmlx5 has calls for those that calculate nothing */
		return opmod_of(ctrl);
	default:
		return false;
	}
}

/* soft_cross_names() then checks what the request names. */
static int take_queue(struct soft_swqe *wqe, const uint8_t *from,
		      uint8_t opcode)
{
	struct queue_seg seg;

	memcpy(&seg, from + UNIT, sizeof(seg));
	wqe->op = (uint8_t)(opcode == OP_WAIT ? SOFT_WR_WAIT :
			    opcode == OP_SEND_ENABLE ? SOFT_WR_SEND_ENABLE :
			    SOFT_WR_RECV_ENABLE);
	wqe->imm = be32toh(seg.index);
	wqe->rkey = be32toh(seg.number);
	return 0;
}

static enum ibv_wr_opcode calc_op(uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_SEND:
		return IBV_WR_SEND;
	case MLX5_OPCODE_SEND_IMM:
		return IBV_WR_SEND_WITH_IMM;
	case MLX5_OPCODE_RDMA_WRITE:
		return IBV_WR_RDMA_WRITE;
	default:
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	}
}

static int take_calc(struct soft_qp *qp, struct soft_swqe *wqe,
		     const uint8_t *from, uint32_t units)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = (const void *)from;
	struct mlx5_wqe_raddr_seg raddr = { .rkey = 0 };
	uint32_t at = UNIT, n;
	int err;

	if (!calc_ok(opmod_of(ctrl)))
		return EOPNOTSUPP;
	wqe->op = (uint8_t)calc_op(opcode_of(ctrl));
	wqe->imm = ctrl->imm;
	if (wqe->op == IBV_WR_RDMA_WRITE ||
	    wqe->op == IBV_WR_RDMA_WRITE_WITH_IMM) {
		memcpy(&raddr, from + UNIT, sizeof(raddr));
		wqe->raddr = be64toh(raddr.raddr);
		wqe->rkey = be32toh(raddr.rkey);
		at += UNIT;
	}
	if (units * UNIT <= at)
		return EINVAL;
	n = units - at / UNIT;
	err = soft_raw_take_list(qp, wqe, from + at, n, n * SOFT_CALC_OPERAND);
	for (uint32_t i = 0; !err && i < n; i++)
		if (wqe->sge[i].length != SOFT_CALC_OPERAND)
			err = EINVAL;
	wqe->length = SOFT_CALC_OPERAND;
	wqe->num_sge = n | opmod_of(ctrl) << SOFT_CALC_SHIFT;
	return err;
}

int soft_raw_cross(struct soft_qp *qp, struct soft_swqe *wqe, const void *from,
		   uint32_t units)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = from;
	const uint8_t opcode = opcode_of(ctrl);

	if (!(qp->create_flags & SOFT_CROSS_CHANNEL) || units < 2)
		return EINVAL;
	if (opcode != OP_WAIT && opcode != OP_RECV_ENABLE &&
	    opcode != OP_SEND_ENABLE)
		return take_calc(qp, wqe, from, units);
	return units == 2 ? take_queue(wqe, from, opcode) : EINVAL;
}

#endif
