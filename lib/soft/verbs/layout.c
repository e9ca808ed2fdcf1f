/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: regions that are layouts. libibverbs has no call for them; on mlx5
 * they are indirect memory keys (rdma-core, mlx5dv_create_mkey(3)). Addresses
 * begin at 0. Only an rkey of a layout can be used.
 */
#include "soft/verbs/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/layout.h"
#include "base/util.h"
#include "soft/fabric/memory.h"
#include "soft/verbs/access.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"

#define REMOTE	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* ---- calls ------------------------------------------------------------ */

/* Returns the access that the memory of a layout needs. */
static int local(int access)
{
	return access & IBV_ACCESS_REMOTE_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0;
}

static bool sources_ok(struct soft_dev *dev, const struct ibv_pd *pd,
		       const struct layout *l, int access)
{
	for (uint32_t i = 0; i < l->sources; i++) {
		const struct layout_source *s = &l->source[i];

		if (!soft_mr_at(dev, pd, s->rkey, s->addr, s->len,
				local(access)))
			return false;
	}
	return true;
}

static struct layout *copy_of(const struct layout *l)
{
	struct layout *copy = malloc(sizeof(*copy) + rdmamsg__layout_room(l));

	if (!copy)
		return NULL;
	*copy = *l;
	rdmamsg__layout_place(copy, copy + 1);
	memcpy(copy->source, l->source, l->sources * sizeof(*l->source));
	memcpy(copy->group, l->group, l->groups * sizeof(*l->group));
	memcpy(copy->part, l->part, l->parts * sizeof(*l->part));
	return copy;
}

static struct soft_mr *mr_new(struct ibv_pd *pd, const struct layout *l,
			      int access)
{
	struct soft_mr *mr = calloc(1, sizeof(*mr));
	uint32_t part;

	if (!mr)
		return NULL;
	mr->layout = copy_of(l);
	if (!mr->layout || rdmamsg__layout_check(mr->layout, &part)) {
		errno = mr->layout ? EINVAL : ENOMEM;
		free(mr->layout);
		free(mr);
		return NULL;
	}
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.length = mr->layout->len;
	mr->access = access;
	return mr;
}

struct ibv_mr *soft_reg_layout(struct ibv_pd *pd, const struct layout *l,
			       int access)
{
	struct soft_dev *dev = soft_dev_of(pd->context);
	int err = soft_may_create(pd->context, SOFT_OBJ_MR);
	struct soft_mr *mr;

	pd = soft_pd_of(pd);
	if (!err && dev->no_layouts)
		err = EOPNOTSUPP;
	if (!err && (access & ~REMOTE || !access))
		err = EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	mr = mr_new(pd, l, access);
	if (!mr)
		return NULL;
	soft_lock(dev);
	err = sources_ok(dev, pd, mr->layout, access) ?
	      soft_key_new(&dev->keys, mr, NULL, &mr->ibv.lkey) : EINVAL;
	if (!err) {
		((struct soft_pd *)pd)->users++;
		dev->mrs++;
		mr->num = ++dev->object_last;
	}
	soft_unlock(dev);
	if (err) {
		free(mr->layout);
		free(mr);
		errno = err;
		return NULL;
	}
	mr->ibv.rkey = mr->ibv.handle = mr->ibv.lkey;
	return &mr->ibv;
}

/* ---- access ------------------------------------------------------------ */

const struct soft_mr *soft_layout_of(const struct soft_dev *dev,
				     const struct ibv_pd *pd, uint32_t rkey,
				     uint64_t addr, uint64_t len, int access)
{
	const struct soft_mr *mr = soft_key_region(&dev->keys, rkey);

	return mr && mr->layout && mr->ibv.pd == pd &&
	       (mr->access & access) == access && addr <= mr->ibv.length &&
	       len <= mr->ibv.length - addr ? mr : NULL;
}

/* Returns the memory of the next block, or NULL if it is not registered. */
static void *next(struct soft_dev *dev, const struct soft_mr *mr, uint64_t addr,
		  uint32_t len, int access, uint32_t *ret_len)
{
	const struct layout_source *s;
	struct layout_run run;

	rdmamsg__layout_at(mr->layout, addr, &run);
	s = &mr->layout->source[run.source];
	*ret_len = (uint32_t)min(run.len, (uint64_t)len);
	return soft_mr_at(dev, mr->ibv.pd, s->rkey, s->addr + run.offset,
			  *ret_len, local(access));
}

uint32_t soft_layout_parts(struct soft_dev *dev, const struct soft_mr *mr,
			   uint64_t addr, uint32_t len, int access,
			   struct iovec *parts, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t part; len; len -= part, addr += part) {
		void *at = next(dev, mr, addr, len, access, &part);

		if (!at)
			return 0;
		if (n == max)
			return max + 1;
		parts[n++] = (struct iovec){ at, part };
	}
	return n;
}

int soft_layout_read(struct soft_dev *dev, const struct soft_mr *mr,
		     uint64_t addr, void *dst, uint32_t len)
{
	uint8_t *to = dst;

	for (uint32_t part; len; len -= part, addr += part, to += part) {
		const void *at = next(dev, mr, addr, len,
				      IBV_ACCESS_REMOTE_READ, &part);

		if (!at)
			return -EACCES;
		memcpy(to, at, part);
	}
	return 0;
}

int soft_layout_write(struct soft_dev *dev, const struct soft_mr *mr,
		      uint64_t addr, const void *src, uint32_t len)
{
	const uint8_t *from = src;

	for (uint32_t part; len; len -= part, addr += part, from += part) {
		void *at = next(dev, mr, addr, len, IBV_ACCESS_REMOTE_WRITE,
				&part);

		if (!at)
			return -EACCES;
		soft_copy(at, from, part);
	}
	return 0;
}
