/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that libibverbs exports since rdma-core 45. Without these definitions a
 * program would run libibverbs' code on objects of this device. The headers of
 * rdma-core 44 do not declare the calls. Prototypes and mirrors of structs
 * follow rdma-core 64, libibverbs/verbs.h.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/page.h"
#include "soft/soft.h"

struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dm;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

int ibv_query_port_speed(struct ibv_context *verbs, uint32_t port,
			 uint64_t *speed);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf,
			      void *addr, size_t len, int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *verbs,
				struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
int _ibv_query_comp_cntr_caps(struct ibv_context *verbs,
			      struct ibv_comp_cntr_caps *caps, size_t size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *verbs,
				struct ibv_comp_cntr_init_attr *attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr);
int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

/* ---- ports ------------------------------------------------------------ */

/* In units of 100 Mb/s. soft_query_port() reports 4 lanes of EDR. */
int ibv_query_port_speed(struct ibv_context *verbs, uint32_t port,
			 uint64_t *speed)
{
	struct ibv_port_attr attr;
	int ret = port > UINT8_MAX ? EINVAL :
		  soft_query_port(verbs, (uint8_t)port, &attr);

	if (!ret)
		*speed = 1000;
	return ret;
}

/* ---- memory ----------------------------------------------------------- */

/* Mirror of struct ibv_mr_init_attr, and bits of its comp_mask. */
struct mr_init {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct buf *buf;
};
enum { MR_IOVA = 1 << 0, MR_ADDR = 1 << 1, MR_BUF = 1 << 5 };

/* The object behind the handle of ibv_alloc_buf(). */
struct buf {
	struct ibv_pd *pd;
	uint8_t *at;
	size_t size;
};

static bool is_inside(const struct buf *buf, const struct ibv_pd *pd,
		      const void *addr, size_t len)
{
	size_t offset = (uintptr_t)addr - (uintptr_t)buf->at;

	return buf->pd == pd && offset <= buf->size &&
	       len <= buf->size - offset;
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	const struct mr_init *in = (const struct mr_init *)attr;
	const uint64_t known = MR_IOVA | MR_ADDR | MR_BUF;

	/* no dmabuf memory, and no hints for the memory controller */
	if (in->comp_mask & ~known) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(in->comp_mask & MR_ADDR) ||
	    (in->comp_mask & MR_BUF &&
	     !is_inside(in->buf, pd, in->addr, in->length))) {
		errno = EINVAL;
		return NULL;
	}
	return soft_reg_mr_iova2(pd, in->addr, in->length,
				 in->comp_mask & MR_IOVA ? in->iova :
				 (uintptr_t)in->addr,
				 (unsigned int)in->access);
}

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **ret)
{
	struct buf *buf = calloc(1, sizeof(*buf));
	void *at;
	int err;

	if (!buf)
		return NULL;
	err = posix_memalign(&at, page_size(), size);
	if (err) {
		free(buf);
		errno = err;
		return NULL;
	}
	*buf = (struct buf){ pd, at, size };
	*ret = (struct ibv_buf *)buf;
	return at;
}

void ibv_free_buf(struct ibv_buf *handle)
{
	struct buf *buf = (struct buf *)handle;

	free(buf->at);
	free(buf);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf,
			      void *addr, size_t len, int access)
{
	if (!is_inside((struct buf *)buf, pd, addr, len)) {
		errno = EINVAL;
		return NULL;
	}
	return soft_reg_mr(pd, addr, len, access);
}

/* ---- absent ----------------------------------------------------------- */

static void *absent(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	errno = ENODATA;
	return -1;
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	(void)absent();
	return -1;
}

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *verbs,
				struct ibv_dmah_init_attr *attr)
{
	return absent();
}

int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	return EOPNOTSUPP;
}

int _ibv_query_comp_cntr_caps(struct ibv_context *verbs,
			      struct ibv_comp_cntr_caps *caps, size_t size)
{
	memset(caps, 0, size);
	return EOPNOTSUPP;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *verbs,
				struct ibv_comp_cntr_init_attr *attr)
{
	return absent();
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr)
{
	return EOPNOTSUPP;
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value)
{
	return EOPNOTSUPP;
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value)
{
	return EOPNOTSUPP;
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount)
{
	return EOPNOTSUPP;
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount)
{
	return EOPNOTSUPP;
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value)
{
	return EOPNOTSUPP;
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value)
{
	return EOPNOTSUPP;
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return EOPNOTSUPP;
}
