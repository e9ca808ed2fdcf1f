/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libmlx5 (mlx5dv_*) that the device has. They need the header
 * infiniband/mlx5dv.h when they are built. Without it no device supports them,
 * and they fail with EOPNOTSUPP.
 */
#ifndef SOFT_VERBS_MLX5_H
#define SOFT_VERBS_MLX5_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct mlx5dv_context;
struct mlx5dv_mkey;
struct mlx5dv_mkey_init_attr;
struct mlx5dv_obj;
struct mlx5dv_qp_ex;
struct mlx5dv_qp_init_attr;

bool soft_mlx5_is_supported(struct ibv_device *device);
int soft_mlx5_query_device(struct ibv_context *verbs,
			   struct mlx5dv_context *attr);
struct ibv_qp *soft_mlx5_create_qp(struct ibv_context *verbs,
				   struct ibv_qp_init_attr_ex *attr,
				   struct mlx5dv_qp_init_attr *mlx5);
/* Returns NULL if the queue pair has no builder with calls of mlx5. */
struct mlx5dv_qp_ex *soft_mlx5_qp_ex(struct ibv_qp_ex *ex);
/* Returns EINVAL if the stream is not in error. */
int soft_mlx5_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream);
/* Tells the number of a completion queue, for raw requests. */
int soft_mlx5_init_obj(struct mlx5dv_obj *obj, uint64_t types);
/* Commands for targets: QUERY_DCT, ARM_DCT_FOR_KEY_VIOLATION */
int soft_mlx5_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen,
			    void *out, size_t outlen);
int soft_mlx5_devx_qp_modify(struct ibv_qp *qp, const void *in, size_t inlen,
			     void *out, size_t outlen);

/* umr.c: indirect keys */
struct mlx5dv_mkey *soft_mlx5_create_mkey(struct mlx5dv_mkey_init_attr *attr);
int soft_mlx5_destroy_mkey(struct mlx5dv_mkey *mkey);

#endif
