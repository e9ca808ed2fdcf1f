/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls: receive work queues and their indirection tables. */
#include "soft/verbs/wq.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"

#define FIRST_NUMBER	(1u << 24)	/* no number of a queue pair */

static struct soft_wq *of(struct ibv_wq *wq)
{
	return (struct soft_wq *)wq;
}

/* ---- completions ------------------------------------------------------ */

void soft_wq_complete(struct soft_dev *dev, struct soft_wq *wq,
		      struct ibv_wc *wc)
{
	wc->wr_id = wq->rq.wqe[wq->rq.head++ & wq->rq.mask].wr_id;
	wc->qp_num = wq->ibv.wq_num;
	soft_cq_add(dev, soft_cq(wq->ibv.cq), wc, wc->status);
}

void soft_wq_error(struct soft_dev *dev, struct soft_wq *wq)
{
	wq->ibv.state = IBV_WQS_ERR;
	while (wq->rq.head != wq->rq.tail) {
		struct ibv_wc wc = {
			.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV,
		};

		soft_wq_complete(dev, wq, &wc);
	}
}

void soft_wq_fatal(struct soft_dev *dev, struct soft_wq *wq)
{
	soft_wq_error(dev, wq);
	soft_async_wq(dev, wq);
}

static int post(struct ibv_wq *ibv, struct ibv_recv_wr *wr,
		struct ibv_recv_wr **bad)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_wq *wq = of(ibv);
	int ret = 0;

	soft_lock(dev);
	if (ibv->state == IBV_WQS_RESET)
		ret = EINVAL;
	else if (unlikely(soft_ctx(ibv->context)->removed))
		ret = EIO;
	for (; wr && !ret; wr = wr->next) {
		ret = soft_rq_post(&wq->rq, wr);
		if (ret)
			break;
	}
	if (unlikely(ibv->state == IBV_WQS_ERR))
		soft_wq_error(dev, wq);
	soft_unlock(dev);
	if (unlikely(ret))
		*bad = wr;
	return ret;
}

/* ---- queues ----------------------------------------------------------- */

static int check(struct ibv_context *verbs, const struct ibv_wq_init_attr *a)
{
	if (!soft_is_roce(soft_dev_of(verbs)))
		return EOPNOTSUPP;
	if (a->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS ||
	    a->wq_type != IBV_WQT_RQ || !a->pd || !a->cq)
		return EINVAL;
	if (a->comp_mask & IBV_WQ_INIT_ATTR_FLAGS &&
	    a->create_flags & ~(uint32_t)SOFT_WQ_FLAGS)
		return EOPNOTSUPP;
	if (!a->max_wr || a->max_wr > SOFT_MAX_WR || a->max_sge > SOFT_MAX_SGE)
		return EINVAL;
	return soft_may_create(verbs, SOFT_OBJ_QP);
}

struct ibv_wq *soft_create_wq(struct ibv_context *verbs,
			      struct ibv_wq_init_attr *attr)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	int err = check(verbs, attr);
	struct soft_wq *wq;

	if (err) {
		errno = err;
		return NULL;
	}
	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return NULL;
	if (soft_rq_init(&wq->rq, attr->max_wr, attr->max_sge)) {
		soft_rq_fini(&wq->rq);
		free(wq);
		errno = ENOMEM;
		return NULL;
	}
	if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS)
		wq->flags = attr->create_flags;
	wq->ibv.context = verbs;
	wq->ibv.pd = soft_pd_of(attr->pd);
	wq->ibv.cq = attr->cq;
	wq->ibv.wq_type = attr->wq_type;
	wq->ibv.state = IBV_WQS_RESET;
	wq->ibv.post_recv = post;
	soft_lock(dev);
	((struct soft_pd *)wq->ibv.pd)->users++;
	soft_cq(attr->cq)->users++;
	list_add_tail(&dev->wqs, &wq->node);
	wq->ibv.wq_num = FIRST_NUMBER + ++dev->object_last;
	soft_unlock(dev);
	wq->ibv.handle = wq->ibv.wq_num;
	return &wq->ibv;
}

int soft_destroy_wq(struct ibv_wq *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_wq *wq = of(ibv);

	soft_lock(dev);
	if (wq->users) {
		soft_unlock(dev);
		return EBUSY;
	}
	soft_cq_clean(soft_cq(ibv->cq), ibv->wq_num);
	soft_cq(ibv->cq)->users--;
	((struct soft_pd *)ibv->pd)->users--;
	list_del(&wq->node);
	soft_async_forget(soft_ctx(ibv->context), ibv);
	soft_unlock(dev);
	(void)pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != wq->async_fetched)
		(void)pthread_cond_wait(&ibv->cond, &ibv->mutex);
	(void)pthread_mutex_unlock(&ibv->mutex);
	(void)pthread_cond_destroy(&ibv->cond);
	(void)pthread_mutex_destroy(&ibv->mutex);
	soft_rq_fini(&wq->rq);
	free(wq);
	return 0;
}

/* Linux, hw/mlx4/qp.c, mlx4_ib_modify_wq(). */
static bool step_ok(enum ibv_wq_state from, enum ibv_wq_state to)
{
	if (to == IBV_WQS_RESET)
		return true;
	return to == IBV_WQS_RDY ? from != IBV_WQS_ERR :
	       to == IBV_WQS_ERR && from != IBV_WQS_RESET;
}

/* L */
static void enter(struct soft_dev *dev, struct soft_wq *wq,
		  enum ibv_wq_state to)
{
	if (to == IBV_WQS_ERR)
		soft_wq_error(dev, wq);
	if (to == IBV_WQS_RESET) {
		soft_cq_clean(soft_cq(wq->ibv.cq), wq->ibv.wq_num);
		wq->rq.head = wq->rq.tail = 0;
	}
	wq->ibv.state = to;
}

int soft_modify_wq(struct ibv_wq *ibv, struct ibv_wq_attr *attr)
{
	const uint32_t known = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE |
			       IBV_WQ_ATTR_FLAGS;
	const uint32_t mask = attr->attr_mask;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_wq *wq = of(ibv);
	int ret = 0;

	if (mask & ~known)
		return EINVAL;
	/* mlx5 switches nothing else at a queue that exists */
	if (mask & IBV_WQ_ATTR_FLAGS &&
	    attr->flags_mask & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
		return EOPNOTSUPP;
	soft_lock(dev);
	if ((mask & IBV_WQ_ATTR_CURR_STATE &&
	     attr->curr_wq_state != ibv->state) ||
	    (mask & IBV_WQ_ATTR_STATE && !step_ok(ibv->state, attr->wq_state)))
		ret = EINVAL;
	if (!ret && mask & IBV_WQ_ATTR_FLAGS)
		wq->flags = (wq->flags & ~attr->flags_mask) |
			    (attr->flags & attr->flags_mask);
	if (!ret && mask & IBV_WQ_ATTR_STATE)
		enter(dev, wq, attr->wq_state);
	soft_unlock(dev);
	return ret;
}

/* ---- tables ----------------------------------------------------------- */

struct ibv_rwq_ind_table *
soft_create_rwq_ind_table(struct ibv_context *verbs,
			  struct ibv_rwq_ind_table_init_attr *attr)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_table *t = NULL;
	uint32_t size;
	int err = 0;

	if (!soft_is_roce(dev))
		err = EOPNOTSUPP;
	else if (attr->comp_mask || attr->log_ind_tbl_size > 31 ||
		 1u << attr->log_ind_tbl_size > SOFT_MAX_TABLE)
		err = EINVAL;
	else
		err = soft_may_create(verbs, SOFT_OBJ_QP);
	if (err) {
		errno = err;
		return NULL;
	}
	size = 1u << attr->log_ind_tbl_size;
	t = calloc(1, sizeof(*t) + size * sizeof(t->wq[0]));
	if (!t)
		return NULL;
	t->ibv.context = verbs;
	t->mask = size - 1;
	soft_lock(dev);
	for (uint32_t i = 0; i < size; i++) {
		t->wq[i] = of(attr->ind_tbl[i]);
		t->wq[i]->users++;
	}
	t->ibv.ind_tbl_num = t->ibv.ind_tbl_handle = (int)++dev->object_last;
	soft_unlock(dev);
	return &t->ibv;
}

int soft_destroy_rwq_ind_table(struct ibv_rwq_ind_table *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_table *t = (struct soft_table *)ibv;

	soft_lock(dev);
	if (t->users) {
		soft_unlock(dev);
		return EBUSY;
	}
	for (uint32_t i = 0; i <= t->mask; i++)
		t->wq[i]->users--;
	soft_unlock(dev);
	free(t);
	return 0;
}
