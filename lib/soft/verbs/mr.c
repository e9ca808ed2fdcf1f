/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls: memory regions. */
#include "soft/verbs/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "soft/fabric/memory.h"
#include "soft/fabric/vm.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"

/* Returns 0 or an errno. Clears the optional bits of *ret_access. */
static int check(const struct soft_dev *dev, void *addr, size_t len,
		 int *ret_access)
{
	const int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
			  IBV_ACCESS_HUGETLB;
	int access = *ret_access &= ~IBV_ACCESS_OPTIONAL_RANGE;

	if (access & ~known)
		return EOPNOTSUPP;	/* on-demand paging and others */
	if ((uintptr_t)addr + len < (uintptr_t)addr ||
	    (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	     !(access & IBV_ACCESS_LOCAL_WRITE)))
		return EINVAL;
	return soft_touch(dev->probe, addr, len, access);
}

struct ibv_mr *soft_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
				uint64_t iova, int access)
{
	struct soft_dev *dev = soft_dev_of(pd->context);
	int err = soft_may_create(pd->context, SOFT_OBJ_MR);
	struct soft_mr *mr;

	if (!err)
		err = check(dev, addr, len, &access);
	if (err) {
		errno = err;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	pd = soft_pd_of(pd);
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access;
	soft_lock(dev);
	err = soft_key_new(&dev->keys, mr, NULL, &mr->ibv.lkey);
	if (!err) {
		((struct soft_pd *)pd)->users++;
		dev->mrs++;
		mr->num = ++dev->object_last;
	}
	soft_unlock(dev);
	if (err) {
		free(mr);
		errno = err;
		return NULL;
	}
	mr->ibv.rkey = mr->ibv.handle = mr->ibv.lkey;
	return &mr->ibv;
}

struct ibv_mr *soft_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			   int access)
{
	return soft_reg_mr_iova(pd, addr, len, (uintptr_t)addr, access);
}

int soft_dereg_mr(struct ibv_mr *mr)
{
	struct soft_dev *dev = soft_dev_of(mr->context);

	soft_lock(dev);
	/* ibv_alloc_mw(3): fails if a window is bound to the region */
	if (((struct soft_mr *)mr)->windows) {
		soft_unlock(dev);
		return EBUSY;
	}
	soft_vm_withdraw(dev, mr->lkey);
	soft_key_free(&dev->keys, mr->lkey);
	((struct soft_pd *)mr->pd)->users--;
	dev->mrs--;
	soft_unlock(dev);
	free(mr);
	return 0;
}

struct ibv_mr *soft_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
				 uint64_t iova, unsigned int access)
{
	return soft_reg_mr_iova(pd, addr, len, iova, (int)access);
}

/* Returns 0 or an errno. */
static int renew_key(struct soft_dev *dev, struct soft_mr *mr)
{
	uint32_t key;
	int err = soft_key_new(&dev->keys, mr, NULL, &key);

	if (err)
		return err;
	soft_key_free(&dev->keys, mr->ibv.lkey);
	mr->ibv.lkey = mr->ibv.rkey = mr->ibv.handle = key;
	return 0;
}

/*
 * A new translation gets a new key, because peers' requests may still use the
 * old addresses. A new protection domain or access keeps the key, because
 * programs do not send it to their peers again. Linux drivers do the same:
 * mlx5_ib_rereg_user_mr(), rxe_rereg_user_mr(). If one change is refused,
 * nothing changes.
 */
int soft_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
		  size_t len, int access)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_mr *mr = (struct soft_mr *)ibv;
	int err = 0;

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    (flags & IBV_REREG_MR_CHANGE_PD &&
	     (!pd || pd->context != ibv->context)))
		err = EINVAL;
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = mr->access;
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = ibv->addr;
		len = ibv->length;
	}
	if (!err)
		err = check(dev, addr, len, &access);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	soft_lock(dev);
	if (mr->windows)
		err = EBUSY;
	else
		soft_vm_withdraw(dev, ibv->lkey);
	if (!err && flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		err = renew_key(dev, mr);
	if (err) {
		soft_unlock(dev);
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		pd = soft_pd_of(pd);
		((struct soft_pd *)ibv->pd)->users--;
		((struct soft_pd *)pd)->users++;
		ibv->pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		ibv->addr = addr;
		ibv->length = len;
		mr->iova = (uintptr_t)addr;
	}
	mr->access = access;
	if (access & IBV_ACCESS_ZERO_BASED)
		mr->iova = 0;
	soft_unlock(dev);
	return 0;
}
