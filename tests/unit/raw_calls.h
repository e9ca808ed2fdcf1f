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
static bool test_mute;		/* requests are lost, as if never completed */

#ifdef HAVE_MLX5DV

#include "soft/verbs/qp.h"
#include "soft/verbs/umr.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#define BUILDERS	8u	/* that a test uses at a time */

struct replaced {
	struct mlx5dv_qp_ex builder;	/* the first field */
	struct mlx5dv_qp_ex *real;
};

static inline void replaced_raw(struct mlx5dv_qp_ex *ex, const void *from)
{
	struct mlx5dv_qp_ex *real = ((struct replaced *)(void *)ex)->real;
	const struct mlx5_wqe_ctrl_seg *ctrl = from;
	uint8_t wqe[256];

	if (test_mute)
		return;
	memcpy(wqe, from, (be32toh(ctrl->qpn_ds) & 0x3f) * 16);
	if (test_raw(wqe, ctrl->fm_ce_se & MLX5_WQE_CTRL_FENCE))
		real->wr_raw_wqe(real, wqe);
	else
		soft_qp_ex_fail(soft_builder_qp(real), EIO);
}

static inline struct mlx5dv_qp_ex *replaced_builder(struct ibv_qp_ex *ex)
{
	static struct replaced all[BUILDERS];
	static uint32_t count;
	struct mlx5dv_qp_ex *real =
		rdmamsg__verbs_soft.mlx5_qp_ex_from_ibv_qp_ex(ex);
	struct replaced *r = &all[count++ % BUILDERS];

	if (!real)
		return NULL;
	*r = (struct replaced){ .builder = *real, .real = real };
	r->builder.wr_raw_wqe = replaced_raw;
	return &r->builder;
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
