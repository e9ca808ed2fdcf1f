/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/verbs/access.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/util.h"
#include "soft/fabric/memory.h"
#include "soft/fabric/vm.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/layout.h"
#include "soft/verbs/qp.h"

/* ---- one key ---------------------------------------------------------- */

void *soft_mr_at(struct soft_dev *dev, const struct ibv_pd *pd, uint32_t key,
		 uint64_t addr, uint64_t len, int access)
{
	const struct soft_mr *mr = soft_key_region(&dev->keys, key);

	if (unlikely(!mr || mr->layout || mr->ibv.pd != pd ||
		     (mr->access & access) != access))
		return NULL;
	return soft_mr_memory(mr, addr, len);
}

void *soft_remote_at(struct soft_dev *dev, const struct soft_qp *qp,
		     const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		     uint64_t len, int access)
{
	void *at = soft_mr_at(dev, pd, rkey, addr, len, access);

	return likely(at) ? at :
	       soft_mw_at(dev, qp, pd, rkey, addr, len, access);
}

/* ---- lists of parts ---------------------------------------------------- */

/* A position in a scatter list. */
struct walk {
	const struct ibv_sge *sge;
	uint32_t n, offset, len;
	uint32_t key;			/* lkey of the last part */
};

/*
 * Goes on to the next part, writes its length to *part, and returns true if
 * there is one.
 */
static inline bool walk_to(struct walk *w, uint32_t *part)
{
	while (w->n && w->offset >= w->sge->length) {
		w->offset -= w->sge->length;
		w->sge++;
		w->n--;
	}
	if (unlikely(!w->n))
		return false;
	*part = min(w->sge->length - w->offset, w->len);
	w->key = w->sge->lkey;
	return true;
}

static inline uint64_t addr_of(const struct walk *w)
{
	return w->sge->addr + w->offset;
}

static inline void walk_past(struct walk *w, uint32_t part)
{
	w->offset += part;
	w->len -= part;
}

/*
 * Returns the memory of the next part of the list, or NULL if its key does not
 * permit it. Of a layout, a part is a block.
 */
static void *walk_on(struct soft_dev *dev, const struct ibv_pd *pd,
		     struct walk *w, int access, uint32_t *part)
{
	void *at;

	if (unlikely(!walk_to(w, part)))
		return NULL;
	at = soft_mr_at(dev, pd, w->key, addr_of(w), *part, access);
	if (unlikely(!at))
		at = soft_layout_block(dev, pd, w->key, addr_of(w), part,
				       access);
	walk_past(w, *part);
	return at;
}

/* Copies a part that is of a layout. */
static __attribute__((noinline)) int
gather_layout(struct soft_dev *dev, const struct ibv_pd *pd,
	      const struct walk *w, void *dst, uint32_t part)
{
	const struct soft_mr *mr = soft_layout_of(dev, pd, w->key, addr_of(w),
						  part, 0);

	return mr ? soft_layout_read(dev, mr, addr_of(w), dst, part) : -EACCES;
}

static __attribute__((noinline)) int
scatter_layout(struct soft_dev *dev, const struct ibv_pd *pd,
	       const struct walk *w, const void *src, uint32_t part)
{
	const struct soft_mr *mr = soft_layout_of(dev, pd, w->key, addr_of(w),
						  part, IBV_ACCESS_LOCAL_WRITE);

	return mr ? soft_layout_write(dev, mr, addr_of(w), src, part) : -EACCES;
}

int soft_gather(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		uint32_t offset, void *dst, uint32_t len)
{
	struct soft_dev *dev = soft_dev_of(qp->ibv.context);
	struct walk walk = { sge, n, offset, len, 0 };
	uint32_t part;

	while (walk.len) {
		const void *at;

		if (unlikely(!walk_to(&walk, &part)))
			return -EACCES;
		at = soft_mr_at(dev, &qp->pd->ibv, walk.key, addr_of(&walk),
				part, 0);
		if (likely(at))
			memcpy(dst, at, part);
		else if (gather_layout(dev, &qp->pd->ibv, &walk, dst, part))
			return -EACCES;
		walk_past(&walk, part);
		dst = (uint8_t *)dst + part;
	}
	return 0;
}

int soft_scatter(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		 uint32_t offset, const void *src, uint32_t len)
{
	return soft_scatter_in(soft_dev_of(qp->ibv.context), &qp->pd->ibv, sge,
			       n, offset, src, len);
}

int soft_scatter_in(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const void *src, uint32_t len)
{
	struct walk walk = { sge, n, offset, len, 0 };
	uint32_t part;

	while (walk.len) {
		void *at;

		if (unlikely(!walk_to(&walk, &part)))
			return -EACCES;
		at = soft_mr_at(dev, pd, walk.key, addr_of(&walk), part,
				IBV_ACCESS_LOCAL_WRITE);
		if (likely(at))
			soft_copy(at, src, part);
		else if (scatter_layout(dev, pd, &walk, src, part))
			return -EACCES;
		walk_past(&walk, part);
		src = (const uint8_t *)src + part;
	}
	return 0;
}

/* ---- large payloads --------------------------------------------------- */

int soft_vm_show(struct soft_dev *dev, struct soft_qp *qp,
		 struct soft_swqe *wqe, uint32_t len, struct soft_shown *ret)
{
	struct walk walk = {
		wqe->sge, wqe->num_sge, wqe->sent, len, 0,
	};
	uint32_t part;

	ret->count = ret->pad = 0;
	while (walk.len) {
		const void *at = walk_on(dev, &qp->pd->ibv, &walk, 0, &part);

		/* requests with layouts are not shown */
		if (!at || ret->count == SOFT_MAX_SGE)
			return -EACCES;
		soft_vm_add(dev, qp->wire, at, part, walk.key, ret);
	}
	wqe->shown = true;
	return (int)soft_vm_shown_len(ret->count);
}

void soft_vm_end_offers(struct soft_dev *dev, struct soft_qp *qp)
{
	if (qp->offered)
		soft_vm_withdraw_qp(dev, qp->ibv.qp_num);
	qp->offered = false;
}

void soft_vm_forget(struct soft_dev *dev, struct soft_qp *qp)
{
	soft_vm_end_offers(dev, qp);
	for (uint32_t i = qp->sq_head; i != qp->sq_tail; i++) {
		struct soft_swqe *wqe = &qp->sq[i & qp->sq_mask];

		for (uint32_t s = 0; wqe->shown && s < wqe->num_sge; s++)
			soft_vm_withdraw(dev, wqe->sge[s].lkey);
		wqe->shown = false;
	}
}

int soft_vm_scatter(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const struct soft_fetch *from, uint32_t len)
{
	struct walk walk = { sge, n, offset, len, 0 };
	struct iovec to[SOFT_MAX_SGE + 1];
	uint32_t parts = 0, part;

	while (walk.len) {
		void *at = walk_on(dev, pd, &walk, IBV_ACCESS_LOCAL_WRITE,
				     &part);

		if (!at)
			return -EACCES;
		/* a layout of many blocks: let the sender copy */
		if (parts == SOFT_MAX_SGE)
			return -EAGAIN;
		to[parts++] = (struct iovec){ at, part };
	}
	return soft_vm_read(from, to, parts, len);
}
