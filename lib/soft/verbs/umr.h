/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The builder of mlx5 queue pairs, and its calls that define indirect keys or
 * post raw requests. For builds with infiniband/mlx5dv.h.
 */
#ifndef SOFT_VERBS_UMR_H
#define SOFT_VERBS_UMR_H

#include <infiniband/mlx5dv.h>

struct soft_qp;

struct soft_builder {
	struct mlx5dv_qp_ex ex;		/* first: the program has its address */
	struct soft_qp *qp;
};

static inline struct soft_qp *soft_builder_qp(const struct mlx5dv_qp_ex *ex)
{
	return ((const struct soft_builder *)ex)->qp;
}

/* Sets the calls that define indirect keys: umr.c. */
void soft_umr_builder(struct mlx5dv_qp_ex *ex);
/* Sets the call for raw requests: raw.c. */
void soft_raw_builder(struct mlx5dv_qp_ex *ex);

#endif
