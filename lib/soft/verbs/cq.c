/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls: completion queues and channels. */
#include "soft/verbs/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cross.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/wq.h"
#include "soft/verbs/upward.h"

#define COVER_AFTER	64	/* consecutive polls of an unarmed queue */
#define STAND_IN	1024	/* polls between two looks after the thread */

struct ibv_comp_channel *soft_create_comp_channel(struct ibv_context *verbs)
{
	struct soft_channel *ch;
	int err = soft_may_create(verbs, SOFT_OBJ_CHANNEL);

	if (err) {
		errno = err;
		return NULL;
	}
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	ch->ibv.context = verbs;
	ch->ibv.fd = fd_high(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
	if (ch->ibv.fd < 0) {
		free(ch);
		return NULL;
	}
	list_init(&ch->ready);
	return &ch->ibv;
}

int soft_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	bool busy;

	soft_lock(dev);
	busy = ibv->refcnt;
	if (!busy)
		soft_attend_forget(dev, (struct soft_channel *)ibv);
	soft_unlock(dev);
	if (busy)
		return EBUSY;
	close(ibv->fd);
	free(ibv);
	return 0;
}

static void raise_event(struct soft_cq *cq)
{
	struct soft_channel *ch = (struct soft_channel *)cq->ibv.channel;

	cq->armed = SOFT_UNARMED;
	cq->told = true;
	if (!ch)
		return;
	cq->events++;
	if (list_empty(&cq->ready_node))
		list_add_tail(&ch->ready, &cq->ready_node);
	(void)!write(ch->ibv.fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

/* An entry has come that an armed queue tells of. */
static void tell(struct soft_cq *cq)
{
	struct soft_channel *ch = (struct soft_channel *)cq->ibv.channel;

	if (!ch || !ch->quiet) {
		raise_event(cq);
		return;
	}
	cq->told = false;
	ch->missed = true;
}

int soft_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **ret_cq,
		      void **ret_context)
{
	struct soft_channel *ch = (struct soft_channel *)ibv;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_cq *cq = NULL;
	uint64_t one;

	/* another thread may have read the event, or destroyed the queue */
	while (!cq) {
		if (read(ibv->fd, &one, sizeof(one)) != sizeof(one))
			return -1;
		soft_lock(dev);
		if (!list_empty(&ch->ready)) {
			cq = list_first(&ch->ready, struct soft_cq, ready_node);
			list_del(&cq->ready_node);
			cq->fetched++;
			cq->told = true;
			if (--cq->events)
				list_add_tail(&ch->ready, &cq->ready_node);
		}
		soft_unlock(dev);
	}
	*ret_cq = &cq->ibv;
	*ret_context = cq->ibv.cq_context;
	return 0;
}

void soft_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	if (!n)
		return;
	(void)pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	(void)pthread_cond_signal(&cq->cond);
	(void)pthread_mutex_unlock(&cq->mutex);
}

struct ibv_cq *soft_create_cq(struct ibv_context *verbs, int cqe,
			      void *cq_context,
			      struct ibv_comp_channel *channel,
			      int comp_vector)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_cq *cq;
	uint32_t size = 16;
	int err = soft_may_create(verbs, SOFT_OBJ_CQ);

	if (err) {
		errno = err;
		return NULL;
	}
	if (cqe < 1 || cqe > SOFT_MAX_CQE || comp_vector < 0 ||
	    comp_vector >= verbs->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	while (size < (uint32_t)cqe)
		size *= 2;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->ring = malloc(size * sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return NULL;
	}
	cq->mask = size - 1;
	cq->room = (uint32_t)cqe;
	cq->ibv.context = verbs;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = cqe;
	(void)pthread_mutex_init(&cq->ibv.mutex, NULL);
	(void)pthread_cond_init(&cq->ibv.cond, NULL);
	list_init(&cq->ready_node);
	list_init(&cq->waiters);
	soft_lock(dev);
	soft_ctx(verbs)->objects++;
	cq->num = ++dev->object_last;
	list_add_tail(&dev->cqs, &cq->node);
	list_add_tail(&dev->cq_buckets[cq->num % SOFT_CQ_BUCKETS],
		      &cq->bucket_node);
	if (channel)
		channel->refcnt++;
	soft_unlock(dev);
	return &cq->ibv;
}

int soft_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_cq *cq = soft_cq(ibv);
	uint64_t *times = NULL, *old_times = cq->times;
	struct ibv_wc *ring, *old;
	uint32_t size = 16, n = 0;

	if (dev->no_resizing)
		return EOPNOTSUPP;
	if (cqe < 1 || cqe > SOFT_MAX_CQE)
		return EINVAL;
	while (size < (uint32_t)cqe)
		size *= 2;
	ring = malloc(size * sizeof(*ring));
	if (cq->times)
		times = malloc(size * sizeof(*times));
	if (!ring || (cq->times && !times)) {
		free(ring);
		return ENOMEM;
	}
	soft_lock(dev);
	if (cq->tail - cq->head > (uint32_t)cqe) {
		soft_unlock(dev);
		free(times);
		free(ring);
		return EINVAL;
	}
	cq->solicited = (int32_t)(cq->solicited - cq->head) > 0 ?
			cq->solicited - cq->head : 0;
	for (; cq->head != cq->tail; n++) {
		if (times)
			times[n] = cq->times[cq->head & cq->mask];
		ring[n] = cq->ring[cq->head++ & cq->mask];
	}
	old = cq->ring;
	cq->ring = ring;
	cq->times = times;
	cq->head = 0;
	cq->tail = n;
	cq->mask = size - 1;
	cq->room = (uint32_t)cqe;
	ibv->cqe = cqe;
	soft_unlock(dev);
	free(old_times);
	free(old);
	return 0;
}

int soft_destroy_cq(struct ibv_cq *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_cq *cq = soft_cq(ibv);

	soft_lock(dev);
	/* or while a queue pair waits for it, as no wait may fail later */
	if (cq->users || !list_empty(&cq->waiters)) {
		soft_unlock(dev);
		return EBUSY;
	}
	/* unread events disappear with the queue */
	list_del(&cq->ready_node);
	list_del(&cq->node);
	list_del(&cq->bucket_node);
	soft_async_forget(soft_ctx(ibv->context), ibv);
	soft_ctx(ibv->context)->objects--;
	if (ibv->channel)
		ibv->channel->refcnt--;
	soft_unlock(dev);
	(void)pthread_mutex_lock(&ibv->mutex);
	while (ibv->comp_events_completed != cq->fetched ||
	       ibv->async_events_completed != cq->async_fetched)
		(void)pthread_cond_wait(&ibv->cond, &ibv->mutex);
	(void)pthread_mutex_unlock(&ibv->mutex);
	(void)pthread_cond_destroy(&ibv->cond);
	(void)pthread_mutex_destroy(&ibv->mutex);
	free(cq->times);
	free(cq->ring);
	free(cq);
	return 0;
}

void soft_cq_add(struct soft_dev *dev, struct soft_cq *cq,
		 const struct ibv_wc *wc, bool solicited)
{
	if (unlikely(cq->tail - cq->head >= cq->room)) {
		if (cq->ignore_overrun) {
			cq->head++;	/* overwrite the oldest */
			goto add;
		}
		if (!cq->overrun)
			soft_async_cq(dev, cq);
		/* soft_unlock() then fails the queue pairs that use it */
		cq->overrun = dev->overrun = dev->bells_due = true;
		return;
	}
add:
	if (unlikely(cq->times))
		cq->times[cq->tail & cq->mask] = soft_now();
	cq->ring[cq->tail++ & cq->mask] = *wc;
	cq->produced++;
	solicited |= wc->status != IBV_WC_SUCCESS;
	if (solicited)
		cq->solicited = cq->tail;
	if (cq->armed == SOFT_ARM_ANY ||
	    (cq->armed == SOFT_ARM_SOLICITED && solicited))
		tell(cq);
	else
		cq->told = false;
	if (unlikely(!list_empty(&cq->waiters)))
		soft_cross_woken(dev, cq);
}

static bool is_lost(const struct soft_qp *qp)
{
	const struct soft_cq *send = soft_cq(qp->ibv.send_cq);
	const struct soft_cq *recv = soft_cq(qp->ibv.recv_cq);
	const struct soft_cq *xrc = qp->srq ? qp->srq->cq : NULL;

	return (send && send->overrun) || (recv && recv->overrun) ||
	       (xrc && xrc->overrun);
}

static void fail_wqs(struct soft_dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->wqs) {
		struct soft_wq *wq = list_entry(n, struct soft_wq, node);

		if (wq->ibv.state == IBV_WQS_RDY &&
		    soft_cq(wq->ibv.cq)->overrun)
			soft_wq_fatal(dev, wq);
	}
}

void soft_cq_overruns(struct soft_dev *dev)
{
	/* flushing may overrun another queue */
	while (dev->overrun) {
		dev->overrun = false;
		fail_wqs(dev);
		for (uint32_t i = 0; i < SOFT_QPS; i++) {
			struct soft_qp *qp = dev->qps[i];

			if (!qp || qp->state == IBV_QPS_RESET ||
			    qp->state == IBV_QPS_ERR || !is_lost(qp))
				continue;
			soft_qp_error(dev, qp);
			soft_async_qp(dev, qp, IBV_EVENT_QP_FATAL);
		}
	}
}

void soft_cq_clean(struct soft_cq *cq, uint32_t qpn)
{
	uint32_t to = cq->head;

	for (uint32_t i = cq->head; i != cq->tail; i++) {
		const struct ibv_wc *wc = &cq->ring[i & cq->mask];

		if (wc->qp_num == qpn)
			continue;
		if (cq->times)
			cq->times[to & cq->mask] = cq->times[i & cq->mask];
		cq->ring[to++ & cq->mask] = *wc;
	}
	cq->tail = to;
	if ((int32_t)(cq->solicited - to) > 0)
		cq->solicited = to;
}

int soft_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct soft_cq *cq = soft_cq(ibv);
	struct soft_dev *dev = soft_dev_of(ibv->context);
	int got;

	soft_lock(dev);
	if (!cq->armed) {
		dev->polls++;
		if (!dev->covered && ++dev->idle_polls > COVER_AFTER)
			soft_cover(dev);
	}
	if (unlikely(!(++dev->all_polls % STAND_IN)))
		soft_stand_in(dev);
	if (cq->tail - cq->head < (uint32_t)max(n, 0))
		(void)soft_verbs_up->progress(dev);
	if (unlikely(cq->times) && cq->head != cq->tail)
		cq->cur_time = cq->times[cq->head & cq->mask];
	for (got = 0; got < n && cq->head != cq->tail; got++)
		wc[got] = cq->ring[cq->head++ & cq->mask];
	/* restart at 0: a large queue then stays in the cache */
	if (cq->head == cq->tail)
		cq->head = cq->tail = cq->solicited = 0;
	else if (got)
		cq->told = false;
	if (unlikely(!got && cq->overrun))
		got = -1;
	soft_unlock(dev);
	return got;
}

/*
 * Returns true if arming must raise an event at once, because the queue has an
 * entry of the kind that it is armed for, and no event has covered the entry.
 * UCX arms queues that are not empty, and sleeps. mlx5 compares the same two
 * indices, last_notified_index and last_solicit_index (Linux, struct
 * mlx5_ifc_cqc_bits).
 *
 * An event covers all entries that are present when the program reads it,
 * because the program polls afterwards. So arming before polling costs no
 * second wake-up. Entries that a later poll leaves behind are not covered.
 */
static bool has_untold(const struct soft_cq *cq)
{
	if (cq->head == cq->tail || cq->told)
		return false;
	return cq->armed == SOFT_ARM_ANY ||
	       (int32_t)(cq->solicited - cq->head) > 0;
}

void soft_cq_catch_up(struct soft_cq *cq, const struct soft_channel *ch)
{
	if ((struct soft_channel *)cq->ibv.channel == ch && cq->armed &&
	    has_untold(cq))
		raise_event(cq);
}

int soft_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct soft_cq *cq = soft_cq(ibv);
	struct soft_dev *dev = soft_dev_of(ibv->context);

	soft_lock(dev);
	/* arming for solicited entries does not narrow an earlier arming */
	if (cq->armed != SOFT_ARM_ANY)
		cq->armed = solicited_only ? SOFT_ARM_SOLICITED : SOFT_ARM_ANY;
	dev->idle_polls = 0;
	if (dev->covered)
		soft_uncover(dev);
	if (cq->armed && has_untold(cq))
		tell(cq);
	soft_unlock(dev);
	return 0;
}
