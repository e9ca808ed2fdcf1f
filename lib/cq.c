/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: shared by the endpoints of a context on one device,
 * never smaller than what those can have outstanding (a flush reports every
 * request, signalled or not), so an overrun cannot happen.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define CQ_FIRST	1024

/* The inline poll works while there is exactly one queue. */
static void hot_update(struct rdmamsg *ctx)
{
	struct list *n, *m;
	struct ibv_cq *only = NULL;
	int count = 0;

	list_for_each(n, &ctx->devs)
		list_for_each(m, &list_entry(n, struct dev, node)->cqs) {
			only = list_entry(m, struct cq, node)->ibv;
			count++;
		}
	ctx->hot.cq = count == 1 ? only : NULL;
	/* rdmamsg__leave() knows more; inside of a call it stays as it is */
	ctx->hot.polls = min(ctx->hot.polls, 0);
	ctx->work = true;
}

static int cq_new(struct dev *dev, uint32_t entries, struct cq **ret_cq)
{
	struct rdmamsg_device *d = dev->device;
	uint32_t limit = (uint32_t)max(d->attr.max_cqe, 1), room = CQ_FIRST;
	struct cq *cq;
	int ret;

	if (entries > limit)
		return rdmamsg__fail(-EINVAL, "send_depth and recv_depth need a "
				     "completion queue of %u, device %s has at "
				     "most %u", entries, d->name, limit);
	if (!list_empty(&dev->cqs))
		room = 4 * list_entry(dev->cqs.prev, struct cq, node)->room;
	room = min(max(room, entries), limit);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return rdmamsg__fail(-ENOMEM, "no memory for a completion queue");
	/* limits are upper bounds: less than the limit may fail as well */
	errno = 0;
	cq->ibv = d->v->create_cq(d->verbs, (int)room, dev, dev->channel, 0);
	if (!cq->ibv && room > entries) {
		room = entries;
		cq->ibv = d->v->create_cq(d->verbs, (int)room, dev,
					  dev->channel, 0);
	}
	if (!cq->ibv) {
		ret = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
					  "completion queue");
		goto err_cq;
	}
	ret = rdmamsg__verbs_ret(ibv_req_notify_cq(cq->ibv, 0));
	if (ret) {
		rdmamsg__fail_verbs(ret, "arming a completion queue");
		goto err_ibv;
	}
	cq->room = room;
	list_add_tail(&dev->cqs, &cq->node);
	hot_update(dev->ctx);
	*ret_cq = cq;
	return 0;

err_ibv:
	(void)d->v->destroy_cq(cq->ibv);
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

/* Completions may never be seen: better an end than a wait without one. */
static void cq_failed(struct rdmamsg *ctx, const struct cq *cq, int err,
		      const char *what)
{
	struct list *n;

	list_for_each(n, &ctx->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (ep->cq != cq)
			continue;
		rdmamsg__ep_device_failed(ep, err, what);
	}
}

int rdmamsg__cq_get(struct dev *dev, uint32_t entries, struct cq **ret)
{
	struct cq *cq = NULL;
	struct list *n;
	int err;

	list_for_each(n, &dev->cqs) {
		cq = list_entry(n, struct cq, node);
		if (cq->room - cq->used >= entries &&
		    (!cq->unarmed || !arm(cq)))
			break;
		cq = NULL;
	}
	if (!cq) {
		err = cq_new(dev, entries, &cq);
		if (err)
			return err;
	}
	cq->used += entries;
	*ret = cq;
	return 0;
}

void rdmamsg__cqs_free(struct dev *dev)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &dev->cqs) {
		struct cq *cq = list_entry(n, struct cq, node);

		if (cq->events)
			dev->device->v->ack_cq_events(cq->ibv, cq->events);
		if (dev->device->v->destroy_cq(cq->ibv))
			log_error("device %s: a completion queue could not be "
				  "destroyed", dev->device->name);
		list_del(&cq->node);
		free(cq);
	}
	hot_update(dev->ctx);
}

/*
 * One event, then arm, and the caller polls: what came before arming is
 * found by that poll, what comes after raises the next event. More events
 * keep the descriptor readable.
 */
int rdmamsg__cq_rearm(struct dev *dev)
{
	const struct verbs_api *v = dev->device->v;
	struct ibv_cq *ibv;
	struct list *n;
	void *arg;
	int err;

	if (v->get_cq_event(dev->channel, &ibv, &arg))
		return 0;
	list_for_each(n, &dev->cqs) {
		struct cq *cq = list_entry(n, struct cq, node);

		if (cq->ibv != ibv)
			continue;
		/* acknowledged in bunches: each takes a mutex */
		if (++cq->events == 1024) {
			v->ack_cq_events(ibv, cq->events);
			cq->events = 0;
		}
		err = arm(cq);
		if (unlikely(err))
			cq_failed(dev->ctx, cq, err,
				  "arming the completion queue");
	}
	return 1;
}

int rdmamsg__cq_poll(struct rdmamsg *ctx, int budget)
{
	struct ibv_wc wc[16];
	struct list *n, *m;
	int total = 0;

	list_for_each(n, &ctx->devs) {
		struct dev *dev = list_entry(n, struct dev, node);

		list_for_each(m, &dev->cqs) {
			struct cq *cq = list_entry(m, struct cq, node);
			int got, sum = 0;

			do {
				got = ibv_poll_cq(cq->ibv, 16, wc);
				if (unlikely(got < 0)) {
					cq_failed(ctx, cq, -EIO,
						  "polling the completion queue");
					break;
				}
				rdmamsg__dispatch(ctx, wc, got);
				sum += got;
			} while (got == 16 && sum < budget);
			total += sum;
		}
	}
	return total;
}
