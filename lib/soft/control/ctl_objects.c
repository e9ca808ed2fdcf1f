/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists the objects of a node, for rdma(8). Each kind is sorted by number, or
 * has a table whose places are the numbers.
 */
#include "soft/control/control.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "soft/cm/id.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"
#include "soft/verbs/srq.h"

/* The answer that is being made. */
struct page {
	uint32_t from;			/* the first number */
	uint32_t next;			/* 0: no further object */
	uint32_t n;
	struct soft_ctl_object *at;
};

/*
 * Returns room for an object of this number. NULL: the object is on an earlier
 * page or on a later one.
 */
static struct soft_ctl_object *add(struct page *p, uint32_t num)
{
	if (num < p->from || p->next)
		return NULL;
	if (p->n == SOFT_CTL_OBJECT_PAGE) {
		p->next = num;
		return NULL;
	}
	memset(&p->at[p->n], 0, sizeof(p->at[p->n]));
	p->at[p->n].num = num;
	return &p->at[p->n++];
}

static uint32_t ctx_of(struct ibv_context *verbs)
{
	return soft_ctx(verbs)->num;
}

static uint32_t pd_of(struct ibv_pd *pd)
{
	return pd ? ((struct soft_pd *)soft_pd_of(pd))->num : 0;
}

static void list_ctx(const struct soft_dev *dev, struct page *p)
{
	const struct list *n;

	list_for_each(n, &dev->contexts)
		(void)add(p, list_entry(n, struct soft_ctx, node)->num);
}

static void list_pd(const struct soft_dev *dev, struct page *p)
{
	const struct list *n;

	list_for_each(n, &dev->pds) {
		const struct soft_pd *pd = list_entry(n, struct soft_pd, node);
		struct soft_ctl_object *o = add(p, pd->num);

		if (!o)
			continue;
		o->users = (uint32_t)pd->users;
		o->ctx = ctx_of(pd->ibv.context);
	}
}

static void list_cq(const struct soft_dev *dev, struct page *p)
{
	const struct list *n;

	list_for_each(n, &dev->cqs) {
		const struct soft_cq *cq = list_entry(n, struct soft_cq, node);
		struct soft_ctl_object *o = add(p, cq->num);

		if (!o)
			continue;
		o->users = (uint32_t)cq->users;
		o->entries = (uint32_t)cq->ibv.cqe;
		o->ctx = ctx_of(cq->ibv.context);
	}
}

/* The table of keys has an order of its own, so numbers here are its places. */
static void list_mr(const struct soft_dev *dev, struct page *p)
{
	for (uint32_t i = p->from - 1; i <= dev->keys.mask && !p->next; i++) {
		const struct soft_key *k = &dev->keys.at[i];
		struct soft_ctl_object *o;

		if (!k->key || k->window)
			continue;
		o = add(p, i + 1);
		if (!o)
			continue;
		o->num = k->mr->num;
		o->key = k->key;
		o->len = k->mr->ibv.length;
		o->pd = pd_of(k->mr->ibv.pd);
		o->ctx = ctx_of(k->mr->ibv.context);
	}
}

static void list_srq(const struct soft_dev *dev, struct page *p)
{
	for (uint32_t i = p->from; i < dev->srqs.size && !p->next; i++) {
		const struct soft_srq *srq = dev->srqs.at[i];
		struct soft_ctl_object *o = srq ? add(p, i) : NULL;

		if (!o)
			continue;
		o->type = srq->xrcd ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
		o->users = (uint32_t)srq->users;
		o->cq = srq->cq ? srq->cq->num : 0;
		o->pd = pd_of(srq->ibv.pd);
		o->ctx = ctx_of(srq->ibv.context);
	}
}

/* ---- ids of the connection manager ------------------------------------ */

/* enum rdma_cm_state in Linux include/rdma/rdma_cm.h */
static uint8_t cm_state(enum soft_cm_state state)
{
	switch (state) {
	case SOFT_CM_IDLE:
		return 0;
	case SOFT_CM_BOUND:
		return 7;
	case SOFT_CM_ADDR:
		return 2;
	case SOFT_CM_ROUTE:
		return 4;
	case SOFT_CM_LISTEN:
		return 8;
	case SOFT_CM_DREQ_SENT:
	case SOFT_CM_DREQ_RCVD:
	case SOFT_CM_OVER:
		return 6;
	default:
		return 5;		/* connecting, or connected */
	}
}

static void copy_addr(struct sockaddr_in6 *to,
		      const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		memcpy(to, ss, sizeof(struct sockaddr_in6));
	else if (ss->ss_family == AF_INET)
		memcpy(to, ss, sizeof(struct sockaddr_in));
}

/* A new id gets a free handle, which may be less than those before. */
static void list_cm_id(const struct soft_dev *dev, struct page *p)
{
	for (uint32_t i = p->from - 1; i < dev->cm_table.size && !p->next;
	     i++) {
		const struct soft_cm_id *id = dev->cm_table.at[i];
		struct soft_ctl_object *o = id ? add(p, i + 1) : NULL;

		if (!o)
			continue;
		o->num = id->handle;
		o->ps = id->ps;
		o->type = id->qp_type;
		o->state = cm_state(id->state);
		o->port = soft_cm_on_device(id);
		o->qpn = id->param.qp_num;
		copy_addr(&o->src, &id->src);
		copy_addr(&o->dst, &id->dst);
	}
}

int soft_list_objects(const struct soft_dev *dev, const struct soft_ctl_msg *m,
		      struct soft_ctl_msg *a)
{
	static void (*const list[SOFT_CTL_KINDS])(const struct soft_dev *dev,
						  struct page *p) = {
		[SOFT_CTL_PD] = list_pd, [SOFT_CTL_CQ] = list_cq,
		[SOFT_CTL_MR] = list_mr, [SOFT_CTL_CM_ID] = list_cm_id,
		[SOFT_CTL_CTX] = list_ctx, [SOFT_CTL_SRQ] = list_srq,
	};
	struct page p = { .from = m->arg[0], .at = a->objects };

	if (!p.from || m->arg[1] >= SOFT_CTL_KINDS)
		return -EINVAL;
	list[m->arg[1]](dev, &p);
	a->arg[0] = p.next;
	a->arg[1] = p.n;
	return 0;
}
