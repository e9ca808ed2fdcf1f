/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libmlx5 that the device has. libmlx5 answers all other calls,
 * and finds that the device is none of its own. A build without mlx5dv.h leaves
 * all of them to libmlx5.
 */
#include "config.h"

#include <errno.h>

#include <infiniband/verbs.h>

#ifdef HAVE_MLX5DV

#include <infiniband/mlx5dv.h>

#include "soft/soft.h"

bool mlx5dv_is_supported(struct ibv_device *device)
{
	return soft_mlx5_is_supported(device);
}

/*
 * rdma-core, mlx5/mlx5.c, mlx5_alloc_context(). The flag is DEVX: the device has
 * two of its commands.
 */
struct ibv_context *mlx5dv_open_device(struct ibv_device *device,
				       struct mlx5dv_context_attr *attr)
{
	const bool known = !(attr->flags & ~MLX5DV_CONTEXT_FLAGS_DEVX);

	if (!soft_mlx5_is_supported(device) || !known) {
		errno = known ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	return ibv_open_device(device);
}

int mlx5dv_query_device(struct ibv_context *verbs, struct mlx5dv_context *attr)
{
	return soft_mlx5_query_device(verbs, attr);
}

struct ibv_qp *mlx5dv_create_qp(struct ibv_context *verbs,
				struct ibv_qp_init_attr_ex *attr,
				struct mlx5dv_qp_init_attr *mlx5)
{
	return soft_mlx5_create_qp(verbs, attr, mlx5);
}

struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *ex)
{
	return soft_mlx5_qp_ex(ex);
}

int mlx5dv_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream)
{
	return soft_mlx5_dci_stream_id_reset(qp, stream);
}

struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	return soft_mlx5_create_mkey(attr);
}

int mlx5dv_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	return soft_mlx5_destroy_mkey(mkey);
}

int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t types)
{
	return soft_mlx5_init_obj(obj, types);
}

int mlx5dv_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen,
			 void *out, size_t outlen)
{
	return soft_mlx5_devx_qp_query(qp, in, inlen, out, outlen);
}

int mlx5dv_devx_qp_modify(struct ibv_qp *qp, const void *in, size_t inlen,
			  void *out, size_t outlen)
{
	return soft_mlx5_devx_qp_modify(qp, in, inlen, out, outlen);
}

#endif
