/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_bind_mw() binds a window of type 1. Every queue pair of its protection
 * domain can then use it. Each bind gives it another key. A work request binds
 * a window of type 2, only for its own queue pair (2B). The program chooses the
 * low 8 bits of the key.
 */
#include "soft/verbs/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "soft/fabric/vm.h"
#include "soft/verbs/access.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/layout.h"
#include "soft/verbs/qp.h"

#define REMOTE	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_mw *soft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct soft_dev *dev = soft_dev_of(pd->context);
	struct soft_mw *mw;
	int err;

	if (dev->no_windows) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return NULL;
	}
	err = soft_may_create(pd->context, SOFT_OBJ_MW);
	if (err) {
		errno = err;
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	pd = soft_pd_of(pd);
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	mw->ibv.type = type;
	list_init(&mw->node);
	soft_lock(dev);
	err = soft_key_new(&dev->keys, NULL, mw, &mw->key);
	if (!err)
		((struct soft_pd *)pd)->users++;
	soft_unlock(dev);
	if (err) {
		free(mw);
		errno = err;
		return NULL;
	}
	mw->ibv.rkey = mw->key;
	mw->ibv.handle = mw->key >> 8;
	return &mw->ibv;
}

static void unbind(struct soft_mw *mw)
{
	if (mw->mr) {
		mw->mr->windows--;
		soft_vm_withdraw(soft_dev_of(mw->ibv.context), mw->key);
	}
	mw->mr = NULL;
	mw->qp = NULL;
	list_del(&mw->node);
}

int soft_dealloc_mw(struct ibv_mw *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_mw *mw = (struct soft_mw *)ibv;

	soft_lock(dev);
	unbind(mw);
	if (mw->queued)
		soft_key_free_all(&dev->keys, mw);
	else
		soft_key_free(&dev->keys, mw->key);
	((struct soft_pd *)ibv->pd)->users--;
	soft_unlock(dev);
	free(mw);
	return 0;
}

void soft_mw_forget(struct soft_qp *qp)
{
	while (!list_empty(&qp->windows))
		unbind(list_first(&qp->windows, struct soft_mw, node));
}

/* ---- work requests ---------------------------------------------------- */

/*
 * Stores keys instead of pointers, because window and region may be gone when
 * the request is executed.
 */
int soft_mw_prepare(struct soft_swqe *wqe, const struct ibv_mw *mw,
		    uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	/* peers use windows; local access goes through the region */
	const int known = REMOTE | IBV_ACCESS_ZERO_BASED |
			  IBV_ACCESS_LOCAL_WRITE;

	if (info->mw_access_flags & ~(unsigned int)known)
		return EINVAL;
	wqe->length = wqe->num_sge = 0;
	wqe->inlined = false;
	/* replace the key of another window by 0, which no window has */
	wqe->rkey = mw->type == IBV_MW_TYPE_1 || rkey >> 8 == mw->handle ?
		    rkey : 0;
	wqe->imm = info->mr ? info->mr->lkey : 0;
	wqe->raddr = info->addr;
	wqe->compare_add = info->mr ? info->length : 0;
	wqe->swap = info->mw_access_flags;
	return 0;
}

static bool may_bind(const struct soft_qp *qp, const struct soft_mw *mw,
		     const struct soft_mr *mr, const struct soft_swqe *wqe)
{
	uint64_t offset = wqe->raddr - mr->iova;

	if (mr->ibv.pd != mw->ibv.pd || qp->ibv.pd != mw->ibv.pd ||
	    !(mr->access & IBV_ACCESS_MW_BIND))
		return false;
	/* ibv_bind_mw(3): these require local write access to the region */
	if (wqe->swap & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return offset <= mr->ibv.length &&
	       wqe->compare_add <= mr->ibv.length - offset;
}

/* Gives the window its new key; the previous key becomes invalid. */
static void take_key(struct soft_dev *dev, struct soft_mw *mw, uint32_t key)
{
	if (mw->ibv.type == IBV_MW_TYPE_2) {
		soft_key_like(&dev->keys, key)->key = key;
	} else {
		soft_key_free(&dev->keys, mw->key);
		mw->queued--;
	}
	mw->key = key;
}

/* Returns 0 or -EINVAL. */
int soft_mw_bind(struct soft_dev *dev, struct soft_qp *qp,
		 const struct soft_swqe *wqe)
{
	const struct soft_key *k = soft_key_like(&dev->keys, wqe->rkey);
	struct soft_mw *mw = k && k->window ? k->mw : NULL;
	struct soft_mr *mr = soft_key_region(&dev->keys, wqe->imm);
	bool two;

	if (!mw || (wqe->imm && !mr))
		return -EINVAL;
	two = mw->ibv.type == IBV_MW_TYPE_2;
	/* type 2: the program must invalidate before it binds again */
	if (two && (mw->mr || !mr || !wqe->compare_add))
		return -EINVAL;
	if (mr && wqe->compare_add && !may_bind(qp, mw, mr, wqe))
		return -EINVAL;
	unbind(mw);
	take_key(dev, mw, wqe->rkey);
	if (!mr || !wqe->compare_add)
		return 0;		/* ibv_alloc_mw(3): length 0 unbinds */
	mw->mr = mr;
	mr->windows++;
	mw->addr = wqe->raddr;
	mw->len = wqe->compare_add;
	mw->access = (int)wqe->swap;
	if (two) {
		mw->qp = qp;
		list_add_tail(&qp->windows, &mw->node);
	}
	return 0;
}

static void drop_key(struct soft_dev *dev, uint32_t key)
{
	struct soft_mw *mw = soft_key_window(&dev->keys, key);

	if (!mw || mw->ibv.type != IBV_MW_TYPE_1 || mw->key == key)
		return;
	soft_key_free(&dev->keys, key);
	mw->queued--;
}

void soft_mw_drop(struct soft_dev *dev, const struct soft_swqe *wqe)
{
	if (wqe->op == IBV_WR_BIND_MW)
		drop_key(dev, wqe->rkey);
}

/* Makes the key of the next bind of the window. Returns 0 or an errno. */
static int next_key(struct soft_dev *dev, struct soft_mw *mw, uint32_t *ret)
{
	int err;

	soft_lock(dev);
	err = soft_key_new(&dev->keys, NULL, mw, ret);
	if (!err)
		mw->queued++;
	soft_unlock(dev);
	return err;
}

int soft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct soft_dev *dev = soft_dev_of(mw->context);
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags & ~(unsigned int)IBV_SEND_INLINE,
	};
	int ret;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	ret = next_key(dev, (struct soft_mw *)mw, &wr.bind_mw.rkey);
	if (ret)
		return ret;
	wr.bind_mw.mw = mw;
	wr.bind_mw.bind_info = bind->bind_info;
	ret = soft_post_send_any(qp, &wr, &bad, IBV_MW_TYPE_1);
	if (!ret) {
		mw->rkey = wr.bind_mw.rkey;
		return 0;
	}
	soft_lock(dev);
	drop_key(dev, wr.bind_mw.rkey);
	soft_unlock(dev);
	return ret;
}

/*
 * Invalidates a window of type 2 that this queue pair has bound, or an indirect
 * key.
 */
int soft_mr_invalidate(struct soft_dev *dev, struct soft_qp *qp, uint32_t rkey,
		       bool by_peer)
{
	struct soft_mw *mw = soft_key_window(&dev->keys, rkey);

	if (!mw)
		return soft_layout_invalidate(dev, qp, rkey, by_peer);
	if (!mw->mr || mw->qp != qp)
		return -EINVAL;
	unbind(mw);
	return 0;
}

/* ---- accesses --------------------------------------------------------- */

void *soft_mw_at(struct soft_dev *dev, const struct soft_qp *qp,
		 const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		 uint64_t len, int access)
{
	const struct soft_mw *mw = soft_key_window(&dev->keys, rkey);
	uint64_t offset;

	if (!mw || !mw->mr || mw->key != rkey || mw->ibv.pd != pd ||
	    (mw->qp && mw->qp != qp) || (mw->access & access) != access)
		return NULL;
	offset = addr;
	if (!(mw->access & IBV_ACCESS_ZERO_BASED))
		offset -= mw->addr;
	if (offset > mw->len || len > mw->len - offset)
		return NULL;
	/* the bind has checked the bounds, and windows fix the region */
	return (uint8_t *)mw->mr->ibv.addr + (mw->addr - mw->mr->iova) + offset;
}
