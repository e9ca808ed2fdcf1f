/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: protection domains, thread domains, parent domains. A parent domain
 * stands for its protection domain: objects that a program creates with it
 * belong to the protection domain. A thread domain promises that one thread
 * uses the objects. The device keeps its lock, so the promise changes nothing.
 */
#include <errno.h>
#include <stdlib.h>

#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"

struct soft_td {
	struct ibv_td ibv;
	int users;			/* parent domains */
};

/* Allocates zeroed memory for a domain. Returns NULL with errno. */
static void *domain_new(struct ibv_context *verbs, size_t size)
{
	int err = soft_may_create(verbs, SOFT_OBJ_PD);

	if (err) {
		errno = err;
		return NULL;
	}
	return calloc(1, size);
}

struct ibv_pd *soft_alloc_pd(struct ibv_context *verbs)
{
	struct soft_pd *pd = domain_new(verbs, sizeof(*pd));
	struct soft_dev *dev = soft_dev_of(verbs);

	if (!pd)
		return NULL;
	pd->ibv.context = verbs;
	soft_lock(dev);
	pd->num = ++dev->object_last;
	list_add_tail(&dev->pds, &pd->node);
	soft_unlock(dev);
	return &pd->ibv;
}

/* Also for parent domains. */
int soft_dealloc_pd(struct ibv_pd *ibv)
{
	struct soft_pd *pd = (struct soft_pd *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	bool busy;

	soft_lock(dev);
	busy = pd->users;
	if (!busy && pd->parent_of)
		pd->parent_of->users--;
	if (!busy && pd->td)
		pd->td->users--;
	if (!busy && !pd->parent_of)
		list_del(&pd->node);
	soft_unlock(dev);
	if (busy)
		return EBUSY;
	free(pd);
	return 0;
}

struct ibv_td *soft_alloc_td(struct ibv_context *verbs,
			     struct ibv_td_init_attr *attr)
{
	struct soft_td *td;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = domain_new(verbs, sizeof(*td));
	if (!td)
		return NULL;
	td->ibv.context = verbs;
	return &td->ibv;
}

int soft_dealloc_td(struct ibv_td *ibv)
{
	struct soft_td *td = (struct soft_td *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	bool busy;

	soft_lock(dev);
	busy = td->users;
	soft_unlock(dev);
	if (busy)
		return EBUSY;
	free(td);
	return 0;
}

/* Returns 0 or an errno. */
static int check_parent(const struct ibv_context *verbs,
			const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (!attr->pd || attr->pd->context != verbs ||
	    (attr->td && attr->td->context != verbs))
		return EINVAL;
	/*
	 * Memory of queues is the device's own, so there are no allocators.
	 * Unknown bits: rdma-core 64, mana_alloc_parent_domain() and
	 * efa_alloc_parent_domain(); those of mlx5 and ionic say EINVAL.
	 */
	return attr->comp_mask & ~known ? EOPNOTSUPP : 0;
}

struct ibv_pd *soft_alloc_parent_domain(struct ibv_context *verbs,
				struct ibv_parent_domain_init_attr *attr)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_pd *parent;
	int err = check_parent(verbs, attr);

	if (err) {
		errno = err;
		return NULL;
	}
	parent = domain_new(verbs, sizeof(*parent));
	if (!parent)
		return NULL;
	parent->ibv.context = verbs;
	parent->parent_of = (struct soft_pd *)soft_pd_of(attr->pd);
	parent->td = (struct soft_td *)attr->td;
	soft_lock(dev);
	parent->parent_of->users++;
	if (parent->td)
		parent->td->users++;
	soft_unlock(dev);
	return &parent->ibv;
}
