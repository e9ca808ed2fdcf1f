/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: shared receive queues. A queue pair with a shared queue has room for a
 * single receive. It takes a receive from the shared queue when a message
 * begins, so that messages of several queue pairs can arrive at the same time.
 */
#include "soft/verbs/srq.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"
#include "soft/verbs/qp.h"

/* Numbers start at 1, because 0 means no queue. */
static int take_number(struct soft_dev *dev, struct soft_srq *srq)
{
	return rdmamsg__handle_give(&dev->srqs, srq, 1, SOFT_MAX_SRQ,
				    &srq->num) ? ENOMEM : 0;
}

struct soft_srq *soft_srq_find(const struct soft_dev *dev, uint32_t num)
{
	return rdmamsg__handle_of(&dev->srqs, num);
}

static int check(const struct ibv_context *verbs,
		 const struct ibv_srq_init_attr_ex *a)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_RESERVED - 1;
	uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type = a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ?
				 a->srq_type : IBV_SRQT_BASIC;

	if (a->comp_mask & ~known || !(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    !a->pd || a->pd->context != verbs)
		return EINVAL;
	if (type == IBV_SRQT_TM || a->comp_mask & IBV_SRQ_INIT_ATTR_TM)
		return EOPNOTSUPP;
	if (type == IBV_SRQT_XRC ? (a->comp_mask & xrc) != xrc || !a->xrcd ||
	    !a->cq : type != IBV_SRQT_BASIC)
		return EINVAL;
	if (!a->attr.max_wr || a->attr.max_wr > SOFT_MAX_WR ||
	    a->attr.max_sge > SOFT_MAX_SGE)
		return EINVAL;
	return 0;
}

struct ibv_srq *soft_create_srq_ex(struct ibv_context *verbs,
				   struct ibv_srq_init_attr_ex *attr)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_srq *srq;
	int err = check(verbs, attr);

	if (!err)
		err = soft_may_create(verbs, SOFT_OBJ_SRQ);
	if (err) {
		errno = err;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
	    attr->srq_type == IBV_SRQT_XRC) {
		srq->xrcd = (struct soft_xrcd *)attr->xrcd;
		srq->cq = soft_cq(attr->cq);
	}
	srq->ibv.context = verbs;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = soft_pd_of(attr->pd);
	attr->attr.max_sge = max(attr->attr.max_sge, 1u);
	err = -soft_rq_init(&srq->rq, attr->attr.max_wr, attr->attr.max_sge);
	if (err)
		goto err_srq;
	soft_lock(dev);
	err = take_number(dev, srq);
	if (!err) {
		((struct soft_pd *)srq->ibv.pd)->users++;
		if (srq->xrcd) {
			srq->xrcd->users++;
			srq->cq->users++;
		}
	}
	soft_unlock(dev);
	if (err)
		goto err_srq;
	srq->ibv.handle = srq->num;
	(void)pthread_mutex_init(&srq->ibv.mutex, NULL);
	(void)pthread_cond_init(&srq->ibv.cond, NULL);
	return &srq->ibv;

err_srq:
	soft_rq_fini(&srq->rq);
	free(srq);
	errno = err;
	return NULL;
}

struct ibv_srq *soft_create_srq(struct ibv_pd *pd,
				struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context, .attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_srq *srq = soft_create_srq_ex(pd->context, &ex);

	if (srq)
		attr->attr = ex.attr;
	return srq;
}

int soft_destroy_srq(struct ibv_srq *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_srq *srq = (struct soft_srq *)ibv;

	soft_lock(dev);
	if (srq->users) {
		soft_unlock(dev);
		return EBUSY;
	}
	/* XRC: a queue pair may still hold a receive of this queue */
	for (uint32_t i = 0; srq->xrcd && i < SOFT_QPS; i++) {
		struct soft_qp *qp = dev->qps[i];

		if (!qp || qp->srq != srq)
			continue;
		qp->rq.head = qp->rq.tail;
		qp->srq = NULL;
	}
	rdmamsg__handle_take(&dev->srqs, srq, srq->num);
	((struct soft_pd *)ibv->pd)->users--;
	if (srq->xrcd) {
		srq->xrcd->users--;
		srq->cq->users--;
	}
	soft_async_forget(soft_ctx(ibv->context), ibv);
	soft_unlock(dev);
	(void)pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != srq->async_fetched)
		(void)pthread_cond_wait(&ibv->cond, &ibv->mutex);
	(void)pthread_mutex_unlock(&ibv->mutex);
	(void)pthread_cond_destroy(&ibv->cond);
	(void)pthread_mutex_destroy(&ibv->mutex);
	soft_rq_fini(&srq->rq);
	free(srq);
	return 0;
}

/* Moves all receives, in order. */
static void move(struct soft_rq *to, struct soft_rq *from)
{
	while (from->head != from->tail) {
		const struct soft_rwqe *old = &from->wqe[from->head++ &
							 from->mask];
		struct soft_rwqe *wqe = &to->wqe[to->tail++ & to->mask];

		wqe->wr_id = old->wr_id;
		wqe->num_sge = old->num_sge;
		wqe->length = old->length;
		memcpy(wqe->sge, old->sge, old->num_sge * sizeof(*old->sge));
	}
}

int soft_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_srq *srq = (struct soft_srq *)ibv;
	bool resize = mask & IBV_SRQ_MAX_WR;
	struct soft_rq rq = { .wqe = NULL };
	int ret = 0;

	/* Linux, siw_modify_srq() */
	if (resize && (dev->iwarp || dev->no_resizing))
		return EOPNOTSUPP;
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) ||
	    (resize && (!attr->max_wr || attr->max_wr > SOFT_MAX_WR)))
		return EINVAL;
	if (resize && soft_rq_init(&rq, attr->max_wr, srq->rq.max_sge)) {
		soft_rq_fini(&rq);
		return ENOMEM;
	}
	soft_lock(dev);
	if ((resize && srq->rq.tail - srq->rq.head > attr->max_wr) ||
	    (mask & IBV_SRQ_LIMIT && attr->srq_limit >
	     (resize ? attr->max_wr : srq->rq.room)))
		ret = EINVAL;
	if (!ret && mask & IBV_SRQ_LIMIT)
		srq->limit = attr->srq_limit;
	if (!ret && resize) {
		struct soft_rq old = srq->rq;

		move(&rq, &old);
		srq->rq = rq;
		rq = old;
	}
	soft_unlock(dev);
	if (resize)
		soft_rq_fini(&rq);
	return ret;
}

int soft_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_srq *srq = (struct soft_srq *)ibv;

	soft_lock(dev);
	attr->max_wr = srq->rq.room;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->limit;
	soft_unlock(dev);
	return 0;
}

int soft_get_srq_num(struct ibv_srq *ibv, uint32_t *num)
{
	const struct soft_srq *srq = (struct soft_srq *)ibv;

	/* rdma-core, mlx5_get_srq_num(): programs ask on behalf of DC, too */
	if (soft_dev_of(ibv->context)->iwarp)
		return EOPNOTSUPP;
	*num = srq->num;
	return 0;
}

int soft_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_srq *srq = (struct soft_srq *)ibv;
	int ret = 0;

	soft_lock(dev);
	for (; wr; wr = wr->next) {
		ret = soft_rq_post(&srq->rq, wr);
		if (ret)
			break;
	}
	soft_unlock(dev);
	if (unlikely(ret))
		*bad = wr;
	return ret;
}

void soft_srq_take(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_srq *srq = qp->srq;
	struct soft_rq *from = &srq->rq, *to = &qp->rq;
	const struct soft_rwqe *old;
	struct soft_rwqe *wqe;

	if (from->head == from->tail || to->head != to->tail)
		return;
	old = &from->wqe[from->head++ & from->mask];
	wqe = &to->wqe[to->tail++ & to->mask];
	wqe->wr_id = old->wr_id;
	wqe->num_sge = old->num_sge;
	wqe->length = old->length;
	memcpy(wqe->sge, old->sge, old->num_sge * sizeof(*old->sge));
	soft_rq_prefetch(from, 4);
	if (unlikely(from->tail - from->head < srq->limit)) {
		srq->limit = 0;
		soft_async_srq(dev, srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	}
}
