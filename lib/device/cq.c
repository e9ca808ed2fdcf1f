/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. The endpoints of a context on one device share a queue, or
 * an endpoint owns a queue. A queue has room for all requests of its endpoints,
 * signaled or not, because a flush completes them all. So it cannot overrun.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "base/watch.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/early.h"
#include "device/use.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#define CQ_FIRST	1024
#define CQ_FIXED	16384	/* for devices that cannot resize */

void rdmamsg__cq_inline(struct rdmamsg *ctx)
{
	struct list *n, *m;
	struct ibv_cq *only = NULL;
	int count = 0;

	list_for_each(n, &ctx->devices->devs)
		list_for_each(m, &list_entry(n, struct dev, node)->cqs) {
			only = list_entry(m, struct cq, node)->ibv;
			count++;
		}
	ctx->hot.cq = count == 1 && !ctx->devices->early ? only : NULL;
	/* the next call starts the inline poll again, in rdmamsg__leave() */
	ctx->hot.polls = ctx->hot.polls < -HOT_INSIDE / 2 ? -HOT_INSIDE :
			 min(ctx->hot.polls, 0);
	ctx->loop.work = true;
}

static uint32_t limit_of(const struct rdmamsg_device *d)
{
	return (uint32_t)max(d->attr.max_cqe, 1);
}

/*
 * A vector is an interrupt, and mostly a processor. Contexts belong to threads,
 * so each gets the next one.
 */
uint32_t rdmamsg__comp_vector(const struct rdmamsg *ctx,
			      const struct ibv_context *verbs, uint32_t option)
{
	if (option == VECTOR_ANY)
		return ctx->number % (uint32_t)max(verbs->num_comp_vectors, 1);
	return option == RDMAMSG_NONE ? 0 : option;
}

static int check(const struct rdmamsg_device *d, uint32_t entries,
		 uint32_t vector)
{
	if (entries > limit_of(d))
		return rdmamsg__fail(-EINVAL, "send_depth and recv_depth, or "
				     "the depth of a shared receive queue, "
				     "need a completion queue of %u, device %s "
				     "has at most %u", entries, d->name,
				     limit_of(d));
	if (vector >= (uint32_t)max(d->verbs->num_comp_vectors, 1))
		return rdmamsg__fail(-EINVAL, "comp_vector %u: device %s has "
				     "%d (num_comp_vectors)", vector, d->name,
				     d->verbs->num_comp_vectors);
	return 0;
}

/*
 * Returns true if the device can resize completion queues. No attribute tells,
 * so try once. Two contexts may try at the same time, with the same result.
 */
static bool grows(struct rdmamsg_device *d)
{
	struct ibv_cq *cq;
	int ret;

	if (d->cq_resize != RESIZE_UNKNOWN)
		return d->cq_resize == RESIZE_WORKS;
	if (rdmamsg__v_create_cq(d->v, d->verbs, 16, NULL, NULL, 0, &cq))
		return true;
	ret = rdmamsg__v_resize_cq(d->v, cq, 64);
	d->cq_resize = ret == -EOPNOTSUPP || ret == -ENOSYS ? RESIZE_FAILS :
		       RESIZE_WORKS;
	if (rdmamsg__v_destroy_cq(d->v, cq))
		log_error("device %s: a completion queue could not be "
			  "destroyed", d->name);
	return d->cq_resize == RESIZE_WORKS;
}

/*
 * Polling one queue is faster than polling two. So a queue that can grow starts
 * small, and a queue that cannot grow has room for later endpoints.
 */
static uint32_t room_for(const struct dev *dev, uint32_t entries, bool own)
{
	uint32_t room = CQ_FIRST;
	struct list *n;

	if (own)
		return entries;
	if (!grows(dev->device)) {
		room = CQ_FIXED;
		list_for_each(n, &dev->cqs) {
			const struct cq *cq = list_entry(n, struct cq, node);

			if (!cq->own)
				room = max(room, 2 * cq->room);
		}
	}
	return min(max(room, entries), limit_of(dev->device));
}

static int cq_new(struct dev *dev, uint32_t entries, uint32_t vector, bool own,
		  struct cq **ret_cq)
{
	uint32_t room = room_for(dev, entries, own);
	struct rdmamsg_device *d = dev->device;
	struct cq *cq;
	int ret;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return rdmamsg__fail(-ENOMEM,
				     "no memory for a completion queue");
	/* the limit is an upper bound, so a smaller queue may fail too */
	ret = rdmamsg__v_create_cq(d->v, d->verbs, room, dev, dev->channel,
				   vector, &cq->ibv);
	while (ret && room > entries) {
		room = max(room / 2, entries);
		ret = rdmamsg__v_create_cq(d->v, d->verbs, room, dev,
					   dev->channel, vector, &cq->ibv);
	}
	if (ret) {
		rdmamsg__fail_verbs(ret, "completion queue");
		goto err_cq;
	}
	ret = rdmamsg__verbs_ret(ibv_req_notify_cq(cq->ibv, 0));
	if (ret) {
		rdmamsg__fail_verbs(ret, "arming a completion queue");
		goto err_ibv;
	}
	cq->room = room;
	cq->vector = vector;
	cq->own = own;
	list_add_tail(&dev->cqs, &cq->node);
	rdmamsg__cq_inline(dev->ctx);
	*ret_cq = cq;
	return 0;

err_ibv:
	(void)rdmamsg__v_destroy_cq(d->v, cq->ibv);
err_cq:
	free(cq);
	return ret;
}

static int arm(struct cq *cq)
{
	int ret = rdmamsg__verbs_ret(ibv_req_notify_cq(cq->ibv, 0));

	cq->unarmed = ret;
	return ret;
}

static bool make_room(struct dev *dev, struct cq *cq, uint32_t entries)
{
	uint32_t limit = limit_of(dev->device), room;
	uint64_t need;

	cq->used -= atomic_exchange(&cq->late, 0);
	need = (uint64_t)cq->used + entries;
	if (need <= cq->room)
		return true;
	if (need > limit || !grows(dev->device))
		return false;
	room = (uint32_t)min(max(need, 2 * (uint64_t)cq->room),
			     (uint64_t)limit);
	if (rdmamsg__v_resize_cq(dev->device->v, cq->ibv, room))
		return false;
	cq->room = room;
	return true;
}

static bool suits(struct dev *dev, struct cq *cq, uint32_t entries,
		  uint32_t vector)
{
	return !cq->own && cq->vector == vector &&
	       make_room(dev, cq, entries) && (!cq->unarmed || !arm(cq));
}

int rdmamsg__cq_get(struct dev *dev, uint32_t entries, uint32_t vector,
		    bool own, struct cq **ret)
{
	struct cq *cq = NULL;
	struct list *n;
	int err;

	vector = rdmamsg__comp_vector(dev->ctx, dev->device->verbs, vector);
	err = check(dev->device, entries, vector);
	if (err)
		return err;
	for (n = dev->cqs.next; n != &dev->cqs && !own && !cq; n = n->next)
		if (suits(dev, list_entry(n, struct cq, node), entries, vector))
			cq = list_entry(n, struct cq, node);
	if (!cq) {
		err = cq_new(dev, entries, vector, own, &cq);
		if (err)
			return err;
	}
	cq->used += entries;
	*ret = cq;
	return 0;
}

int rdmamsg__cq_more(struct dev *dev, struct cq *cq, uint32_t entries)
{
	if (!make_room(dev, cq, entries))
		return rdmamsg__fail(-ENOSPC, "a completion queue cannot have "
				     "%u entries more", entries);
	cq->used += entries;
	return 0;
}

static void cq_free(struct dev *dev, struct cq *cq)
{
	if (cq->events)
		dev->device->v->ack_cq_events(cq->ibv, cq->events);
	if (rdmamsg__v_destroy_cq(dev->device->v, cq->ibv))
		log_error("device %s: a completion queue could not be "
			  "destroyed", dev->device->name);
	rdmamsg__early_drop(dev->ctx, &cq->early);
	list_del(&cq->node);
	free(cq);
}

void rdmamsg__cq_put(struct dev *dev, struct cq *cq, uint32_t entries)
{
	cq->used -= entries;
	if (!cq->own)
		return;
	cq_free(dev, cq);
	rdmamsg__cq_inline(dev->ctx);
}

void rdmamsg__cqs_free(struct dev *dev)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &dev->cqs)
		cq_free(dev, list_entry(n, struct cq, node));
	rdmamsg__cq_inline(dev->ctx);
}

void rdmamsg__cqs_take_out(struct dev *dev, struct list *to)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &dev->cqs) {
		rdmamsg__early_drop(dev->ctx,
				    &list_entry(n, struct cq, node)->early);
		list_del(n);
		list_add_tail(to, n);
	}
	rdmamsg__cq_inline(dev->ctx);
}

void rdmamsg__cq_take_out(struct dev *dev, struct cq *cq)
{
	rdmamsg__early_drop(dev->ctx, &cq->early);
	list_del(&cq->node);
	rdmamsg__cq_inline(dev->ctx);
}

/*
 * Takes one event and arms the queue. Then the caller must poll. The poll finds
 * completions from before the arming, and later ones raise a new event. The
 * descriptor stays readable if there are more events.
 */
int rdmamsg__cq_rearm(struct dev *dev)
{
	const struct verbs_api *v = dev->device->v;
	struct ibv_cq *ibv;
	struct list *n;
	int err;

	err = rdmamsg__v_get_cq_event(v, dev->channel, &ibv);
	/* the channel of a removed device stays readable, but has no event */
	if (err == -EIO && dev->device->gone)
		rdmamsg__unwatch(&dev->ctx->loop, dev->channel->fd);
	if (err)
		return 0;
	list_for_each(n, &dev->cqs) {
		struct cq *cq = list_entry(n, struct cq, node);

		if (cq->ibv != ibv)
			continue;
		/* acknowledge many at once, because each call takes a mutex */
		if (++cq->events == 1024) {
			v->ack_cq_events(ibv, cq->events);
			cq->events = 0;
		}
		err = arm(cq);
		if (unlikely(err))
			dev->ctx->devices->use->cq_failed(
				dev->ctx, cq, err,
				"arming the completion queue");
		return 1;
	}
	/* of a queue that was taken out: its end waits for this */
	v->ack_cq_events(ibv, 1);
	return 1;
}
