/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw requests of mlx5 that pass through a function of the test. */
#ifndef TESTS_UNIT_RAW_CALLS_H
#define TESTS_UNIT_RAW_CALLS_H

#include "config.h"

#include "device/verbs_api.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Sees a request, which it may change, before the device does. fenced: as the
 * request says. Returns false to let the post fail with EIO.
 */
typedef bool raw_fn(void *wqe, bool fenced);

static raw_fn *test_raw;
/* requests are lost, as if never completed */
static bool __attribute__((unused)) test_mute;
/*
 * This thread stands still for as long before each request, and the first looks
 * at the queue find nothing, as on a busy host.
 */
static uint32_t __attribute__((unused)) test_stands_ms;

#ifdef HAVE_MLX5DV

#include "soft/verbs/qp.h"
#include "soft/verbs/umr.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BUILDERS	8u	/* that a test uses at a time */
#define EMPTY_LOOKS	10u	/* after test_stands_ms */

struct replaced {
	struct mlx5dv_qp_ex builder;	/* the first field */
	struct mlx5dv_qp_ex *real;
	struct ibv_context *verbs;
};

static int (*real_poll)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
static unsigned int empty_looks;

static inline int replaced_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	if (!empty_looks)
		return real_poll(cq, count, wc);
	empty_looks--;
	return 0;
}

static inline void stand_still(struct ibv_context *verbs)
{
	if (verbs->ops.poll_cq != replaced_poll)
		real_poll = verbs->ops.poll_cq;
	verbs->ops.poll_cq = replaced_poll;
	empty_looks = EMPTY_LOOKS;
	(void)usleep(test_stands_ms * 1000);
}

static inline void replaced_raw(struct mlx5dv_qp_ex *ex, const void *from)
{
	const struct replaced *r = (struct replaced *)(void *)ex;
	struct mlx5dv_qp_ex *real = r->real;
	const struct mlx5_wqe_ctrl_seg *ctrl = from;
	uint8_t wqe[256];

	if (test_mute)
		return;
	if (test_stands_ms)
		stand_still(r->verbs);
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
	*r = (struct replaced){
		.builder = *real, .real = real, .verbs = ex->qp_base.context,
	};
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
