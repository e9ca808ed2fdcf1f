/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of libibverbs that the device does not support. */
#include <errno.h>
#include <stddef.h>

#include <infiniband/verbs.h>

static void *absent(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* Enhanced connection establishment has no options here. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
				 uint64_t iova, int fd, int access)
{
	return absent();
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	return absent();
}

struct ibv_pd *ibv_import_pd(struct ibv_context *verbs, uint32_t handle)
{
	return absent();
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return absent();
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
}

struct ibv_dm *ibv_import_dm(struct ibv_context *verbs, uint32_t handle)
{
	return absent();
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
}
