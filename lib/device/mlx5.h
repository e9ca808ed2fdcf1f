/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of libmlx5, which is loaded by the first of them. Without the library
 * no device is supported, and the calls fail with EOPNOTSUPP.
 */
#ifndef RDMAMSG_LIB_MLX5_H
#define RDMAMSG_LIB_MLX5_H

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

bool rdmamsg__mlx5_is_supported(struct ibv_device *device);
int rdmamsg__mlx5_query_device(struct ibv_context *verbs,
			       struct mlx5dv_context *attr);
struct ibv_qp *rdmamsg__mlx5_create_qp(struct ibv_context *verbs,
				       struct ibv_qp_init_attr_ex *attr,
				       struct mlx5dv_qp_init_attr *mlx5);
struct mlx5dv_qp_ex *rdmamsg__mlx5_qp_ex(struct ibv_qp_ex *ex);
int rdmamsg__mlx5_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream);
struct mlx5dv_mkey *
rdmamsg__mlx5_create_mkey(struct mlx5dv_mkey_init_attr *attr);
int rdmamsg__mlx5_destroy_mkey(struct mlx5dv_mkey *mkey);
int rdmamsg__mlx5_init_obj(struct mlx5dv_obj *obj, uint64_t types);
int rdmamsg__mlx5_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen,
				void *out, size_t outlen);
int rdmamsg__mlx5_devx_qp_modify(struct ibv_qp *qp, const void *in,
				 size_t inlen, void *out, size_t outlen);

#endif
