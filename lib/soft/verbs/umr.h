/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The builder of mlx5 queue pairs, and its calls that define indirect keys or
 * post raw requests. For builds with infiniband/mlx5dv.h.
 */
#ifndef SOFT_VERBS_UMR_H
#define SOFT_VERBS_UMR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/mlx5dv.h>

struct soft_qp;
struct soft_swqe;

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
/*
 * Takes n data segments, which must have this many bytes together. Returns 0 or
 * EINVAL.
 */
int soft_raw_take_list(const struct soft_qp *qp, struct soft_swqe *wqe,
		       const uint8_t *at, uint32_t n, uint32_t bytes);
/*
 * raw_dc.c. Aims the request at the target in its address segment. Returns 0 or
 * an errno.
 */
int soft_raw_aim(struct soft_qp *qp, const struct mlx5_wqe_av *av);
/* Returns the address segment of an address handle. */
struct mlx5_wqe_av *soft_av_of(struct ibv_ah *ah);
/* raw_cross.c. Returns true if only cross-channel queue pairs take this. */
bool soft_raw_is_cross(const struct mlx5_wqe_ctrl_seg *ctrl);
/* Takes such a request, of units of 16 bytes. Returns 0 or an errno. */
int soft_raw_cross(struct soft_qp *qp, struct soft_swqe *wqe, const void *from,
		   uint32_t units);

#endif
