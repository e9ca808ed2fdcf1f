/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows. Type 1 is bound by a call and open to every queue pair of
 * its domain; type 2 is bound by a work request, only for the queue pair that
 * bound it (2B), and its user chooses the low 8 bits of the key.
 */
#include "priv.h"
#include "soft.h"

#include <stdlib.h>

#define REMOTE	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_mw *soft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct soft_dev *dev = soft_dev_of(pd->context);
	struct soft_mw *mw;
	int err;

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
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	mw->ibv.type = type;
	list_init(&mw->node);
	soft_lock(dev);
	err = soft_key_new(dev, NULL, mw, &mw->ibv.rkey);
	if (!err)
		((struct soft_pd *)pd)->users++;
	soft_unlock(dev);
	if (err) {
		free(mw);
		errno = err;
		return NULL;
	}
	mw->ibv.handle = mw->ibv.rkey >> 8;
	return &mw->ibv;
}

static void unbind(struct soft_mw *mw)
{
	if (mw->mr) {
		mw->mr->windows--;
		soft_vm_withdraw(soft_dev_of(mw->ibv.context),
				 mw->ibv.handle << 8);
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
	dev->keys[ibv->handle].mw = NULL;
	((struct soft_pd *)ibv->pd)->users--;
	soft_unlock(dev);
	free(mw);
	return 0;
}

/* The queue pair goes, and with it what was bound for it alone. */
void soft_mw_forget(struct soft_qp *qp)
{
	while (!list_empty(&qp->windows))
		unbind(list_first(&qp->windows, struct soft_mw, node));
}

/* ---- work requests ---------------------------------------------------- */

/*
 * What a request to bind says is kept as numbers: by the time it is executed
 * the window and the region may have gone.
 */
int soft_mw_prepare(struct soft_swqe *wqe, const struct ibv_mw *mw,
		    uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	const int known = REMOTE | IBV_ACCESS_ZERO_BASED;

	if (info->mw_access_flags & ~(unsigned int)known)
		return EINVAL;
	wqe->length = wqe->num_sge = 0;
	wqe->inlined = false;
	/* another window's key: there is none of that number */
	wqe->rkey = rkey >> 8 == mw->handle ? rkey : UINT32_MAX;
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

/* 0 or -EINVAL. */
int soft_mw_bind(struct soft_dev *dev, struct soft_qp *qp,
		 const struct soft_swqe *wqe)
{
	uint32_t slot = wqe->rkey >> 8;
	struct soft_mw *mw = slot < dev->key_room ? dev->keys[slot].mw : NULL;
	struct soft_mr *mr = soft_key_find(dev, wqe->imm);
	bool two;

	if (!mw || (wqe->imm && !mr))
		return -EINVAL;
	two = mw->ibv.type == IBV_MW_TYPE_2;
	/* type 2 is invalidated before it is bound again, never by a bind */
	if (two && (mw->mr || !mr || !wqe->compare_add))
		return -EINVAL;
	if (mr && wqe->compare_add && !may_bind(qp, mw, mr, wqe))
		return -EINVAL;
	unbind(mw);
	dev->keys[slot].gen = wqe->rkey & 0xff;
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

int soft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags & ~(unsigned int)IBV_SEND_INLINE,
	};
	int ret;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	ret = soft_post_send_any(qp, &wr, &bad, IBV_MW_TYPE_1);
	if (!ret)
		mw->rkey = wr.bind_mw.rkey;
	return ret;
}

/* Only windows of type 2 can be invalidated, and only where they are bound. */
int soft_mr_invalidate(struct soft_dev *dev, struct soft_qp *qp, uint32_t rkey)
{
	struct soft_mw *mw = soft_key_window(dev, rkey);

	if (!mw || !mw->mr || mw->qp != qp)
		return -EINVAL;
	unbind(mw);
	return 0;
}

/* ---- accesses --------------------------------------------------------- */

void *soft_mw_at(struct soft_dev *dev, const struct soft_qp *qp,
		 const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		 uint64_t len, int access)
{
	const struct soft_mw *mw = soft_key_window(dev, rkey);
	uint64_t offset;

	if (!mw || !mw->mr || mw->ibv.pd != pd || (mw->qp && mw->qp != qp) ||
	    (mw->access & access) != access)
		return NULL;
	offset = addr;
	if (!(mw->access & IBV_ACCESS_ZERO_BASED))
		offset -= mw->addr;
	if (offset > mw->len || len > mw->len - offset)
		return NULL;
	/* inside the region: it was when it was bound, and has not changed */
	return (uint8_t *)mw->mr->ibv.addr + (mw->addr - mw->mr->iova) + offset;
}
