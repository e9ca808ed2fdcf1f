/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, memory regions, memory windows. */
#ifndef SOFT_VERBS_MR_H
#define SOFT_VERBS_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/util.h"

struct layout;
struct soft_dev;
struct soft_qp;
struct soft_swqe;

struct soft_td;

struct soft_pd {
	struct ibv_pd ibv;
	struct list node;		/* dev->pds; not of a parent domain */
	uint32_t num;
	int users;
	/* of a parent domain: its protection domain, and thread domain or NULL */
	struct soft_pd *parent_of;
	struct soft_td *td;
};

/* Returns the protection domain of a parent domain, or else the domain. */
static inline struct ibv_pd *soft_pd_of(struct ibv_pd *pd)
{
	struct soft_pd *parent_of = ((struct soft_pd *)pd)->parent_of;

	return parent_of ? &parent_of->ibv : pd;
}

struct soft_mr {
	struct ibv_mr ibv;
	uint32_t num;
	uint64_t iova;			/* first address for peers */
	int access;
	int windows;			/* bound to this region */
	/*
	 * of an indirect key (umr.c), whose length is 0 while it is free; NULL:
	 * one piece of memory
	 */
	struct layout *layout;
	uint32_t entries;		/* of the layout, at most */
	bool peers_invalidate;
};

/* Returns memory of a region without a layout, or NULL if it is out of range */
static inline void *soft_mr_memory(const struct soft_mr *mr, uint64_t addr,
				   uint64_t len)
{
	const uint64_t offset = addr - mr->iova;

	if (unlikely(offset > mr->ibv.length || len > mr->ibv.length - offset))
		return NULL;
	return (uint8_t *)mr->ibv.addr + offset;
}

struct soft_mw {
	struct ibv_mw ibv;		/* handle: type 2, upper key bits */
	struct soft_mr *mr;		/* NULL: not bound */
	struct soft_qp *qp;		/* type 2: the only user */
	struct list node;		/* qp->windows */
	uint64_t addr, len;
	int access;
	uint32_t key;			/* the valid key */
	uint32_t queued;		/* type 1: keys of queued binds */
};

/* ---- mw.c: windows in work requests ----------------------------------- */

/* Copies a bind request into a send queue entry. Returns 0 or EINVAL. */
int soft_mw_prepare(struct soft_swqe *wqe, const struct ibv_mw *mw,
		    uint32_t rkey, const struct ibv_mw_bind_info *info);
int soft_mw_bind(struct soft_dev *dev, struct soft_qp *qp,
		 const struct soft_swqe *wqe);			/* L */
/* Invalidates a key, for a request of this side or of the peer. L */
int soft_mr_invalidate(struct soft_dev *dev, struct soft_qp *qp,
		       uint32_t rkey, bool by_peer);
/* Unbinds all windows of a queue pair. L */
void soft_mw_forget(struct soft_qp *qp);
/* Frees the key of a bind that will not be executed. L */
void soft_mw_drop(struct soft_dev *dev, const struct soft_swqe *wqe);

#endif
