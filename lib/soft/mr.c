/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, memory regions, and every access through a key. */
#include "priv.h"
#include "soft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif

struct ibv_pd *soft_alloc_pd(struct ibv_context *verbs)
{
	struct soft_pd *pd;
	int err = soft_may_create(verbs, SOFT_OBJ_PD);

	if (err) {
		errno = err;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->ibv.context = verbs;
	return &pd->ibv;
}

int soft_dealloc_pd(struct ibv_pd *ibv)
{
	struct soft_pd *pd = (struct soft_pd *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	bool busy;

	soft_lock(dev);
	busy = pd->users;
	soft_unlock(dev);
	if (busy)
		return EBUSY;
	free(pd);
	return 0;
}

/* ---- keys ------------------------------------------------------------- */

int soft_key_new(struct soft_dev *dev, struct soft_mr *mr, struct soft_mw *mw,
		 uint32_t *ret)
{
	uint32_t room = dev->key_room, i;
	struct soft_key *keys;

	/* on from the last one: a key stays invalid as long as possible */
	for (uint32_t n = 0; n < room; n++) {
		i = (dev->key_hint + n) % room;
		if (!dev->keys[i].mr && !dev->keys[i].mw)
			goto found;
	}
	if (room >= SOFT_MAX_MR)
		return ENOMEM;
	i = room;
	room = room ? 2 * room : 64;
	keys = realloc(dev->keys, room * sizeof(*keys));
	if (!keys)
		return ENOMEM;
	memset(keys + dev->key_room, 0,
	       (room - dev->key_room) * sizeof(*keys));
	dev->keys = keys;
	dev->key_room = room;
found:
	dev->key_hint = i + 1;
	dev->keys[i].mr = mr;
	dev->keys[i].mw = mw;
	/* never 0 as a whole */
	if (!++dev->keys[i].gen)
		dev->keys[i].gen = 1;
	*ret = i << 8 | dev->keys[i].gen;
	return 0;
}

static const struct soft_key *key_at(const struct soft_dev *dev, uint32_t key)
{
	uint32_t i = key >> 8;

	if (unlikely(i >= dev->key_room || dev->keys[i].gen != (key & 0xff)))
		return NULL;
	return &dev->keys[i];
}

struct soft_mr *soft_key_find(const struct soft_dev *dev, uint32_t key)
{
	const struct soft_key *k = key_at(dev, key);

	return likely(k) ? k->mr : NULL;
}

struct soft_mw *soft_key_window(const struct soft_dev *dev, uint32_t key)
{
	const struct soft_key *k = key_at(dev, key);

	return k ? k->mw : NULL;
}

/* Whether all its pages are there, if perhaps not to be written to. */
static bool resident(uintptr_t from, uintptr_t to)
{
	unsigned char in[1024];

	for (uintptr_t n; from < to; from += n) {
		n = min(to - from, (uintptr_t)sizeof(in) * 4096);
		if (mincore((void *)from, n, in))
			return false;
		for (uintptr_t i = 0; i < n / 4096; i++)
			if (!(in[i] & 1))
				return false;
	}
	return true;
}

static int populate(uintptr_t from, uintptr_t to, int advice)
{
	if (!madvise((void *)from, to - from, advice))
		return 0;
	/* not permitted, or not known: that comes with Linux 5.14 */
	if (errno == EINVAL)
		return madvise((void *)from, 0, advice) ? 0 : EFAULT;
	return errno == ENOMEM ? EFAULT : errno;
}

/*
 * As pinning would: memory that is not there, or not to be accessed so, is
 * refused now, not met by the thread later. What is only read is mostly in
 * place, and for every large message: to look takes 1 us for a megabyte, to
 * populate what is populated 40. To look does not tell what is permitted, which
 * is asked of the pages at both ends.
 */
int soft_touch(void *addr, size_t len, int access)
{
	uintptr_t from = (uintptr_t)addr & ~(uintptr_t)4095;
	uintptr_t to = ((uintptr_t)addr + len + 4095) & ~(uintptr_t)4095;
	int err;

	if (!len)
		return 0;
	if (access & IBV_ACCESS_LOCAL_WRITE)
		return populate(from, to, MADV_POPULATE_WRITE);
	if (!resident(from, to))
		return populate(from, to, MADV_POPULATE_READ);
	err = populate(from, from + 4096, MADV_POPULATE_READ);
	return err || to - from == 4096 ? err :
	       populate(to - 4096, to, MADV_POPULATE_READ);
}

/* 0 or an errno; what may be ignored is taken out of *access. */
static int check(void *addr, size_t len, int *ret_access)
{
	const int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
			  IBV_ACCESS_HUGETLB;
	int access = *ret_access &= ~IBV_ACCESS_OPTIONAL_RANGE;

	if (access & ~known)
		return EOPNOTSUPP;	/* on-demand paging, for one */
	if ((uintptr_t)addr + len < (uintptr_t)addr ||
	    (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	     !(access & IBV_ACCESS_LOCAL_WRITE)))
		return EINVAL;
	return soft_touch(addr, len, access);
}

struct ibv_mr *soft_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
				uint64_t iova, int access)
{
	struct soft_dev *dev = soft_dev_of(pd->context);
	int err = soft_may_create(pd->context, SOFT_OBJ_MR);
	struct soft_mr *mr;

	if (!err)
		err = check(addr, len, &access);
	if (err) {
		errno = err;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access;
	soft_lock(dev);
	err = soft_key_new(dev, mr, NULL, &mr->ibv.lkey);
	if (!err)
		((struct soft_pd *)pd)->users++;
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
	/* ibv_alloc_mw(3): not while a window is bound to it */
	if (((struct soft_mr *)mr)->windows) {
		soft_unlock(dev);
		return EBUSY;
	}
	soft_vm_withdraw(dev, mr->lkey);
	dev->keys[mr->lkey >> 8].mr = NULL;
	((struct soft_pd *)mr->pd)->users--;
	soft_unlock(dev);
	free(mr);
	return 0;
}

struct ibv_mr *soft_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
				 uint64_t iova, unsigned int access)
{
	return soft_reg_mr_iova(pd, addr, len, iova, (int)access);
}

/*
 * As deregistering and registering would, except that the place of the key is
 * the same: what is still under way with the old key is refused. Nothing is
 * changed unless everything can be.
 */
int soft_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
		  size_t len, int access)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_mr *mr = (struct soft_mr *)ibv;
	struct soft_key *key;
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
		err = check(addr, len, &access);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	soft_lock(dev);
	if (mr->windows) {
		soft_unlock(dev);
		errno = EBUSY;
		return IBV_REREG_MR_ERR_INPUT;
	}
	soft_vm_withdraw(dev, ibv->lkey);
	if (flags & IBV_REREG_MR_CHANGE_PD) {
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
	key = &dev->keys[ibv->lkey >> 8];
	if (!++key->gen)
		key->gen = 1;
	ibv->lkey = ibv->rkey = ibv->handle =
		(ibv->lkey & ~0xffu) | key->gen;
	soft_unlock(dev);
	return 0;
}

/* ---- accesses --------------------------------------------------------- */

void *soft_mr_at(struct soft_dev *dev, const struct ibv_pd *pd, uint32_t key,
		 uint64_t addr, uint64_t len, int access)
{
	const struct soft_mr *mr = soft_key_find(dev, key);
	uint64_t offset;

	if (unlikely(!mr || mr->ibv.pd != pd ||
		     (mr->access & access) != access))
		return NULL;
	offset = addr - mr->iova;
	if (unlikely(offset > mr->ibv.length || len > mr->ibv.length - offset))
		return NULL;
	return (uint8_t *)mr->ibv.addr + offset;
}

void *soft_remote_at(struct soft_dev *dev, const struct soft_qp *qp,
		     const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		     uint64_t len, int access)
{
	void *at = soft_mr_at(dev, pd, rkey, addr, len, access);

	return likely(at) ? at :
	       soft_mw_at(dev, qp, pd, rkey, addr, len, access);
}

/* The next part of a scatter list, or NULL: not permitted. */
void *soft_walk(struct soft_dev *dev, const struct ibv_pd *pd,
		struct soft_walk *w, int access, uint32_t *part)
{
	void *at;

	while (w->n && w->offset >= w->sge->length) {
		w->offset -= w->sge->length;
		w->sge++;
		w->n--;
	}
	if (unlikely(!w->n))
		return NULL;
	*part = min(w->sge->length - w->offset, w->len);
	w->key = w->sge->lkey;
	at = soft_mr_at(dev, pd, w->key, w->sge->addr + w->offset, *part,
			access);
	w->offset += *part;
	w->len -= *part;
	return at;
}

/* A poller on the last byte must find all the others in place. */
void soft_copy(void *dst, const void *src, size_t len)
{
	size_t head = len > 8 ? len - 8 : 0;

	if (head) {
		memcpy(dst, src, head);
		atomic_thread_fence(memory_order_release);
	}
	if (len >= 8) {
		uint64_t last;

		memcpy(&last, (const uint8_t *)src + head, 8);
		memcpy((uint8_t *)dst + head, &last, 8);
		return;
	}
	for (size_t i = 0; i < len; i++)
		((volatile uint8_t *)dst)[i] = ((const uint8_t *)src)[i];
}

int soft_gather(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		uint32_t offset, void *dst, uint32_t len)
{
	struct soft_dev *dev = soft_dev_of(qp->ibv.context);
	struct soft_walk walk = { sge, n, offset, len, 0 };
	uint32_t part;

	while (walk.len) {
		const void *at = soft_walk(dev, &qp->pd->ibv, &walk, 0, &part);

		if (unlikely(!at))
			return -EACCES;
		memcpy(dst, at, part);
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
	struct soft_walk walk = { sge, n, offset, len, 0 };
	uint32_t part;

	while (walk.len) {
		void *at = soft_walk(dev, pd, &walk, IBV_ACCESS_LOCAL_WRITE,
				     &part);

		if (unlikely(!at))
			return -EACCES;
		soft_copy(at, src, part);
		src = (const uint8_t *)src + part;
	}
	return 0;
}
