/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw requests of mlx5 that pass through a function of the test. */
#ifndef TESTS_UNIT_RAW_CALLS_H
#define TESTS_UNIT_RAW_CALLS_H

#include "config.h"

#include "device/verbs_api.h"

#include <stdbool.h>

/*
 * Sees a request, which it may change, before the device does. fenced: as the
 * request says. Returns false to let the post fail with EIO.
 */
typedef bool raw_fn(void *wqe, bool fenced);

static raw_fn *test_raw;

#ifdef HAVE_MLX5DV

#include "soft/verbs/qp.h"
#include "soft/verbs/umr.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

static struct mlx5dv_qp_ex *real_builder;

static inline void replaced_raw(struct mlx5dv_qp_ex *ex, const void *from)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = from;
	uint8_t wqe[256];

	memcpy(wqe, from, (be32toh(ctrl->qpn_ds) & 0x3f) * 16);
	if (test_raw(wqe, ctrl->fm_ce_se & MLX5_WQE_CTRL_FENCE))
		real_builder->wr_raw_wqe(real_builder, wqe);
	else
		soft_qp_ex_fail(soft_builder_qp(real_builder), EIO);
}

static inline struct mlx5dv_qp_ex *replaced_builder(struct ibv_qp_ex *ex)
{
	static struct mlx5dv_qp_ex builder;

	real_builder = rdmamsg__verbs_soft.mlx5_qp_ex_from_ibv_qp_ex(ex);
	if (!real_builder)
		return NULL;
	builder = *real_builder;
	builder.wr_raw_wqe = replaced_raw;
	return &builder;
}

#else

#define replaced_builder	NULL	/* masked atomics use post_masked() */

#endif

/* Of one thread, on queue pairs that are not used by others meanwhile. */
static inline void replace_raw(struct verbs_api *table, raw_fn *raw)
{
	test_raw = raw;
	table->mlx5_qp_ex_from_ibv_qp_ex = replaced_builder;
}

#endif
