/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: raw requests (mlx5dv_wr_post(3)). The device executes those which no
 * other call of mlx5 makes: masked atomics of 4 and 8 bytes, and those of
 * cross-channel queue pairs (raw_cross.c). libmlx5 of MLNX_OFED has
 * the operands: src/qp.c, set_ext_atomic_seg(). A request of an initiator has
 * the address of its target behind the control segment (raw_dc.c).
 */
#include "config.h"

#ifdef HAVE_MLX5DV

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "base/masked.h"
#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/umr.h"

#define UNIT		16u	/* bytes; lengths of requests count it */
#define EXTENDED	8u		/* opmod: with log2(size / 4) */
#define INLINE		0x80000000u	/* in the length of a data segment */

/* The operands, all in network order. */
union operands {
	struct {
		__be32 swap, compare, swap_mask, compare_mask;
	} swap4;
	struct {
		__be64 swap, compare, swap_mask, compare_mask;
	} swap8;
	struct {
		__be32 add, tops, reserved[2];
	} add4;
	struct {
		__be64 add, tops;
	} add8;
};

/* A request. Its data segments come right behind its operands. */
struct raw {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	union operands operands;
};
_Static_assert(offsetof(struct raw, operands) == 2 * UNIT, "two segments");

static uint32_t fill_swap(const union operands *o, struct masked *m)
{
	m->kind = MASKED_SWAP;
	if (m->size == sizeof(uint32_t)) {
		m->value[0] = be32toh(o->swap4.swap);
		m->expected[0] = be32toh(o->swap4.compare);
		m->mask[0] = be32toh(o->swap4.swap_mask);
		m->compare[0] = be32toh(o->swap4.compare_mask);
		return sizeof(o->swap4);
	}
	m->value[0] = be64toh(o->swap8.swap);
	m->expected[0] = be64toh(o->swap8.compare);
	m->mask[0] = be64toh(o->swap8.swap_mask);
	m->compare[0] = be64toh(o->swap8.compare_mask);
	return sizeof(o->swap8);
}

static uint32_t fill_add(const union operands *o, struct masked *m)
{
	m->kind = MASKED_ADD;
	if (m->size == sizeof(uint32_t)) {
		m->value[0] = be32toh(o->add4.add);
		m->mask[0] = be32toh(o->add4.tops);
		return sizeof(o->add4);
	}
	m->value[0] = be64toh(o->add8.add);
	m->mask[0] = be64toh(o->add8.tops);
	return sizeof(o->add8);
}

/*
 * Reads the operation. Returns the length of the operands, or 0 if the device
 * has no such request.
 */
static uint32_t fill(const struct soft_qp *qp, const struct raw *raw,
		     struct masked *m)
{
	const uint32_t head = be32toh(raw->ctrl.opmod_idx_opcode);
	struct masked_caps caps;

	memset(m, 0, sizeof(*m));
	switch (head >> 24) {
	case EXTENDED:
		m->size = sizeof(uint32_t);
		break;
	case EXTENDED + 1:
		m->size = sizeof(uint64_t);
		break;
	default:
		return 0;
	}
	soft_query_masked(qp->ibv.context, &caps);
	if (!(caps.sizes & m->size))
		return 0;
	switch (head & 0xff) {
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
		return fill_swap(&raw->operands, m);
	case MLX5_OPCODE_ATOMIC_MASKED_FA:
		return fill_add(&raw->operands, m);
	default:
		return 0;
	}
}

int soft_raw_take_list(const struct soft_qp *qp, struct soft_swqe *wqe,
		       const uint8_t *at, uint32_t n, uint32_t bytes)
{
	uint64_t length = 0;

	if (n > qp->cap.max_send_sge)
		return EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		struct mlx5_wqe_data_seg seg;

		memcpy(&seg, at + i * sizeof(seg), sizeof(seg));
		if (be32toh(seg.byte_count) & INLINE)
			return EINVAL;
		wqe->sge[i] = (struct ibv_sge){
			.addr = be64toh(seg.addr), .lkey = be32toh(seg.lkey),
			.length = be32toh(seg.byte_count),
		};
		length += wqe->sge[i].length;
	}
	wqe->num_sge = n;
	wqe->length = bytes;
	return length == bytes ? 0 : EINVAL;
}

/*
 * Takes the address of an initiator's request. Returns 0 or an errno. skip: the
 * units that the request has for it.
 */
static int take_address(struct soft_qp *qp, const uint8_t *from, uint32_t units,
			uint32_t *skip)
{
	struct mlx5_wqe_av av;

	*skip = 0;
	if (!qp->dci)
		return 0;
	*skip = sizeof(av) / UNIT;
	if (units < 1 + *skip)
		return EINVAL;
	memcpy(&av, from + UNIT, sizeof(av));
	return soft_raw_aim(qp, &av);
}

static int take_masked(struct soft_qp *qp, struct soft_swqe *wqe,
		       const uint8_t *from, uint32_t units)
{
	struct raw raw = { .ctrl.imm = 0 };
	struct masked *m;
	uint32_t bytes, skip;
	int err = take_address(qp, from, units, &skip);

	if (err)
		return err;

	if (!qp->sq_masked)
		qp->sq_masked = calloc(qp->sq_mask + 1u, sizeof(*m));
	if (!qp->sq_masked)
		return ENOMEM;
	m = &qp->sq_masked[wqe - qp->sq];
	memcpy(&raw.ctrl, from, sizeof(raw.ctrl));
	from += skip * UNIT;
	units -= skip;
	/* the program's memory may be shorter than the longest request */
	if (units > 1)
		memcpy(&raw.raddr, from + UNIT,
		       min(units * UNIT, (uint32_t)sizeof(raw)) - UNIT);
	bytes = fill(qp, &raw, m);
	if (!bytes)
		return EOPNOTSUPP;
	bytes += offsetof(struct raw, operands);
	if (units * UNIT < bytes)
		return EINVAL;
	wqe->raddr = be64toh(raw.raddr.raddr);
	wqe->rkey = be32toh(raw.raddr.rkey);
	return soft_raw_take_list(qp, wqe, from + bytes, units - bytes / UNIT,
				  m->size);
}

static int take(struct soft_qp *qp, struct soft_swqe *wqe, const void *from)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = from;
	const uint32_t units = be32toh(ctrl->qpn_ds) & 0x3f;
	const uint8_t flags = ctrl->fm_ce_se;

	/* the driver ignores the flags of the builder */
	wqe->flags = (flags & MLX5_WQE_CTRL_FENCE ? IBV_SEND_FENCE : 0) |
		     (flags & MLX5_WQE_CTRL_SOLICITED ?
		      IBV_SEND_SOLICITED : 0) |
		     (flags & MLX5_WQE_CTRL_CQ_UPDATE ? IBV_SEND_SIGNALED : 0);
	wqe->signaled = qp->sq_sig_all || wqe->flags & IBV_SEND_SIGNALED;
	if (soft_raw_is_cross(ctrl))
		return soft_raw_cross(qp, wqe, from, units);
	return take_masked(qp, wqe, from, units);
}

static void raw_wqe(struct mlx5dv_qp_ex *ex, const void *from)
{
	struct soft_qp *qp = soft_builder_qp(ex);
	struct soft_swqe *wqe = soft_qp_ex_begin(qp, SOFT_WR_MASKED);
	int err = wqe ? take(qp, wqe, from) : 0;

	if (err)
		soft_qp_ex_fail(qp, err);
}

void soft_raw_builder(struct mlx5dv_qp_ex *ex)
{
	ex->wr_raw_wqe = raw_wqe;
}

#endif
