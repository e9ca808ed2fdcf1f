/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/mlx5.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

static struct {
	bool (*is_supported)(struct ibv_device *device);
	int (*query_device)(struct ibv_context *verbs,
			    struct mlx5dv_context *attr);
	struct ibv_qp *(*create_qp)(struct ibv_context *verbs,
				    struct ibv_qp_init_attr_ex *attr,
				    struct mlx5dv_qp_init_attr *mlx5);
	struct mlx5dv_qp_ex *(*qp_ex)(struct ibv_qp_ex *ex);
	int (*dci_stream_id_reset)(struct ibv_qp *qp, uint16_t stream);
	struct mlx5dv_mkey *(*create_mkey)(struct mlx5dv_mkey_init_attr *attr);
	int (*destroy_mkey)(struct mlx5dv_mkey *mkey);
	int (*init_obj)(struct mlx5dv_obj *obj, uint64_t types);
	int (*devx_qp_query)(struct ibv_qp *qp, const void *in, size_t inlen,
			     void *out, size_t outlen);
	int (*devx_qp_modify)(struct ibv_qp *qp, const void *in, size_t inlen,
			      void *out, size_t outlen);
} calls;

/*
 * Stores the address of a function. The program's own symbols come first,
 * because rdmamsg-soft(1) preloads functions of these names.
 */
static void find(void *library, const char *name, void *ret)
{
	void *at = dlsym(RTLD_DEFAULT, name);

	if (!at && library)
		at = dlsym(library, name);
	*(void **)ret = at;
}

/* The library stays loaded, because queue pairs have pointers into it. */
static void load(void)
{
	void *library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);

	find(library, "mlx5dv_is_supported", &calls.is_supported);
	find(library, "mlx5dv_query_device", &calls.query_device);
	find(library, "mlx5dv_create_qp", &calls.create_qp);
	find(library, "mlx5dv_qp_ex_from_ibv_qp_ex", &calls.qp_ex);
	find(library, "mlx5dv_dci_stream_id_reset",
	     &calls.dci_stream_id_reset);
	find(library, "mlx5dv_create_mkey", &calls.create_mkey);
	find(library, "mlx5dv_destroy_mkey", &calls.destroy_mkey);
	find(library, "mlx5dv_init_obj", &calls.init_obj);
	find(library, "mlx5dv_devx_qp_query", &calls.devx_qp_query);
	find(library, "mlx5dv_devx_qp_modify", &calls.devx_qp_modify);
}

static void loaded(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, load);
}

bool rdmamsg__mlx5_is_supported(struct ibv_device *device)
{
	loaded();
	return calls.is_supported && calls.is_supported(device);
}

int rdmamsg__mlx5_query_device(struct ibv_context *verbs,
			       struct mlx5dv_context *attr)
{
	loaded();
	return calls.query_device ? calls.query_device(verbs, attr) :
	       EOPNOTSUPP;
}

struct ibv_qp *rdmamsg__mlx5_create_qp(struct ibv_context *verbs,
				       struct ibv_qp_init_attr_ex *attr,
				       struct mlx5dv_qp_init_attr *mlx5)
{
	loaded();
	if (calls.create_qp)
		return calls.create_qp(verbs, attr, mlx5);
	errno = EOPNOTSUPP;
	return NULL;
}

struct mlx5dv_qp_ex *rdmamsg__mlx5_qp_ex(struct ibv_qp_ex *ex)
{
	loaded();
	return calls.qp_ex ? calls.qp_ex(ex) : NULL;
}

int rdmamsg__mlx5_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream)
{
	loaded();
	return calls.dci_stream_id_reset ?
	       calls.dci_stream_id_reset(qp, stream) : EOPNOTSUPP;
}

struct mlx5dv_mkey *
rdmamsg__mlx5_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	loaded();
	if (calls.create_mkey)
		return calls.create_mkey(attr);
	errno = EOPNOTSUPP;
	return NULL;
}

int rdmamsg__mlx5_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	loaded();
	return calls.destroy_mkey ? calls.destroy_mkey(mkey) : EOPNOTSUPP;
}

int rdmamsg__mlx5_init_obj(struct mlx5dv_obj *obj, uint64_t types)
{
	loaded();
	return calls.init_obj ? calls.init_obj(obj, types) : EOPNOTSUPP;
}

int rdmamsg__mlx5_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen,
				void *out, size_t outlen)
{
	loaded();
	return calls.devx_qp_query ?
	       calls.devx_qp_query(qp, in, inlen, out, outlen) : EOPNOTSUPP;
}

int rdmamsg__mlx5_devx_qp_modify(struct ibv_qp *qp, const void *in,
				 size_t inlen, void *out, size_t outlen)
{
	loaded();
	return calls.devx_qp_modify ?
	       calls.devx_qp_modify(qp, in, inlen, out, outlen) : EOPNOTSUPP;
}
