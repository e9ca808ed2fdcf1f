/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, memory and the number of native runs. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/timer.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/channel.h"
#include "chain/native.h"
#include "device/cq.h"
#include "device/cross.h"
#include "device/device.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#define NATIVES		(1u << 20)

int rdmamsg__native_queue(struct native *n, uint32_t queue)
{
	if (!n->queues[queue])
		n->queues[queue] = calloc(1, sizeof(*n->queues[queue]));
	return n->queues[queue] ? 0 : rdmamsg__fail(-ENOMEM, "no memory for a "
						    "queue of a chain");
}

int rdmamsg__native_calculates(struct native *n, uint32_t queue)
{
	struct nqueue *q = n->queues[queue];
	int err;

	if (q->cross.qp)
		return 0;
	err = rdmamsg__channel_cq(n->dev, NATIVE_CALCS, &q->cq, &q->num);
	if (!err)
		err = rdmamsg__channel_circle(n->dev, q->cq, NATIVE_CALCS,
					      &q->cross);
	if (!err)
		return 0;
	/* the next run tries again */
	rdmamsg__cross_close(n->dev->device, &q->cross);
	rdmamsg__channel_drop(n->dev, q->cq);
	q->cq = NULL;
	return err;
}

static int open_all(struct native *n)
{
	/* results of calculations are one-sided writes */
	int err = rdmamsg__channel_memory(n->dev, NATIVE_AREAS,
					  IBV_ACCESS_LOCAL_WRITE |
					  IBV_ACCESS_REMOTE_WRITE, &n->areas,
					  &n->mr);

	if (!err)
		err = rdmamsg__cq_get(n->dev, NATIVE_WAITS, VECTOR_ANY, false,
				      &n->cq);
	return err ? err : rdmamsg__channel_circle(n->dev, n->cq->ibv,
						   NATIVE_WAITS, &n->end);
}

int rdmamsg__native_open(struct rdmamsg_chain *c, struct dev *dev,
			 struct native **ret)
{
	const struct rdmamsg_device *d = dev->device;
	struct native *n = calloc(1, sizeof(*n));
	int err;

	if (!n || rdmamsg__timers_reserve(&c->ctx->loop.timers, 1)) {
		free(n);
		return rdmamsg__fail(-ENOMEM, "no memory for native runs");
	}
	n->chain = c;
	n->ctx = c->ctx;
	rdmamsg__timer_init(&n->look, rdmamsg__native_look);
	err = rdmamsg__handle_give(&c->ctx->chains->natives, n, 1, NATIVES,
				   &n->handle);
	if (err)
		err = rdmamsg__fail(err, "no memory for native runs");
	if (!err)
		err = rdmamsg__dev_get(c->ctx, d->v, d->name, dev->owner,
				       &n->dev);
	if (!err)
		err = open_all(n);
	if (err)
		rdmamsg__native_free(n);
	else
		*ret = n;
	return err;
}

static void free_objects(struct native *n)
{
	const struct rdmamsg_device *d = n->dev->device;

	rdmamsg__cross_close(d, &n->end);
	if (n->cq)
		rdmamsg__cq_put(n->dev, n->cq, NATIVE_WAITS);
	for (uint32_t i = 0; i < RDMAMSG_CHAIN_QUEUES; i++)
		if (n->queues[i])
			rdmamsg__cross_close(d, &n->queues[i]->cross);
	for (uint32_t i = 0; i < RDMAMSG_CHAIN_QUEUES; i++) {
		if (n->queues[i])
			rdmamsg__channel_drop(n->dev, n->queues[i]->cq);
		free(n->queues[i]);
	}
	rdmamsg__channel_unmap(n->dev, n->areas, NATIVE_AREAS, n->mr);
	rdmamsg__dev_put(n->dev);
}

void rdmamsg__native_free(struct native *n)
{
	if (!n)
		return;
	rdmamsg__timer_stop(&n->ctx->loop.timers, &n->look);
	rdmamsg__timers_release(&n->ctx->loop.timers, 1);
	if (n->handle)
		rdmamsg__handle_take(&n->ctx->chains->natives, n, n->handle);
	if (n->dev)
		free_objects(n);
	free(n->requests);
	free(n);
}
