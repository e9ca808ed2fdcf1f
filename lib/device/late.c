/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs that are destroyed late, and the objects that they use. */
#include "base/base.h"
#include "base/list.h"
#include "device/async.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/late.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

struct late_srq {
	struct list node;
	struct ibv_srq *ibv;
};

/* Objects without a dev. */
struct parked {
	struct list srqs;		/* struct late_srq */
	struct list cqs;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
};

struct late {
	struct rdmamsg_device *device;
	struct late *queues;		/* of dev->queues; NULL: itself */
	/* under late_lock */
	unsigned int users;		/* late queue pairs */
	struct parked parked;
	bool closed;			/* no dev has it: the last user frees */
};

static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what is parked --------------------------------------------------- */

static void init(struct parked *p)
{
	memset(p, 0, sizeof(*p));
	list_init(&p->srqs);
	list_init(&p->cqs);
}

static bool is_empty(const struct parked *p)
{
	return list_empty(&p->srqs) && list_empty(&p->cqs) && !p->channel &&
	       !p->pd;
}

static void move_list(struct list *from, struct list *to)
{
	while (!list_empty(from)) {
		struct list *n = from->next;

		list_del(n);
		list_add_tail(to, n);
	}
}

static void move(struct parked *from, struct parked *to)
{
	init(to);
	move_list(&from->srqs, &to->srqs);
	move_list(&from->cqs, &to->cqs);
	to->channel = from->channel;
	to->pd = from->pd;
	from->channel = NULL;
	from->pd = NULL;
}

static void check(const struct rdmamsg_device *d, int err, const char *what)
{
	if (err)
		log_error("device %s: a %s could not be destroyed: %s",
			  d->name, what, strerror(-err));
}

static void free_cq(const struct rdmamsg_device *d, struct cq *cq)
{
	if (cq->events)
		d->v->ack_cq_events(cq->ibv, cq->events);
	check(d, rdmamsg__v_destroy_cq(d->v, cq->ibv), "completion queue");
	free(cq);
}

static void free_parked(const struct rdmamsg_device *d, struct parked *p)
{
	while (!list_empty(&p->srqs)) {
		struct late_srq *q = list_first(&p->srqs, struct late_srq,
						node);

		list_del(&q->node);
		check(d, rdmamsg__v_destroy_srq(d->v, q->ibv),
		      "shared receive queue");
		free(q);
	}
	while (!list_empty(&p->cqs)) {
		struct cq *cq = list_first(&p->cqs, struct cq, node);

		list_del(&cq->node);
		free_cq(d, cq);
	}
	if (p->channel)
		check(d, rdmamsg__v_destroy_comp_channel(d->v, p->channel),
		      "completion channel");
	if (p->pd)
		check(d, rdmamsg__v_dealloc_pd(d->v, p->pd),
		      "protection domain");
}

/*
 * The last user frees what is parked. Until then it counts, so that its dev
 * frees nothing that these objects use.
 */
static void leave(struct late *l)
{
	struct parked p;
	bool last;

	pthread_mutex_lock(&late_lock);
	while (l->users == 1 && !is_empty(&l->parked)) {
		move(&l->parked, &p);
		pthread_mutex_unlock(&late_lock);
		free_parked(l->device, &p);
		pthread_mutex_lock(&late_lock);
	}
	last = !--l->users && l->closed;
	pthread_mutex_unlock(&late_lock);
	if (!last)
		return;
	rdmamsg__device_put(l->device);
	free(l);
}

/* ---- queue pairs ------------------------------------------------------ */

static struct late *late_of(struct dev *dev)
{
	if (dev->late)
		return dev->late;
	dev->late = calloc(1, sizeof(*dev->late));
	if (!dev->late)
		return NULL;
	dev->late->device = dev->device;
	init(&dev->late->parked);
	return dev->late;
}

int rdmamsg__late_take(struct dev *dev, struct ibv_qp *qp, struct cq *cq,
		       uint32_t share, struct late_qp *ret)
{
	struct late *l = late_of(dev), *queues = late_of(dev->queues);

	if (!l || !queues)
		return -ENOMEM;
	pthread_mutex_lock(&late_lock);
	l->users++;
	if (queues != l) {
		l->queues = queues;
		queues->users++;
	}
	pthread_mutex_unlock(&late_lock);
	if (cq->own)
		rdmamsg__cq_take_out(dev->queues, cq);
	rdmamsg__async_forget(dev->device, qp);
	*ret = (struct late_qp){ qp, cq, share, l };
	return 0;
}

void rdmamsg__late_destroy(struct late_qp *qp)
{
	struct late *l = qp->late, *queues;
	const struct rdmamsg_device *d;

	if (!qp->ibv)
		return;
	d = l->device;
	queues = l->queues;
	check(d, rdmamsg__v_destroy_qp(d->v, qp->ibv), "queue pair");
	if (qp->cq->own)
		free_cq(d, qp->cq);
	else
		atomic_fetch_add(&qp->cq->late, qp->share);
	leave(l);
	if (queues)
		leave(queues);
	qp->ibv = NULL;
}

/* ---- objects of a dev ------------------------------------------------- */

bool rdmamsg__late_pd(struct dev *dev)
{
	struct late *l = dev->late;
	bool used = false;

	pthread_mutex_lock(&late_lock);
	if (l && l->users) {
		l->parked.pd = dev->pd;
		used = true;
	}
	pthread_mutex_unlock(&late_lock);
	return used;
}

bool rdmamsg__late_srq(struct dev *dev, struct ibv_srq *srq)
{
	struct late_srq *q = dev->late ? malloc(sizeof(*q)) : NULL;
	bool used;

	if (!q)
		return false;
	q->ibv = srq;
	pthread_mutex_lock(&late_lock);
	used = dev->late->users;
	if (used)
		list_add_tail(&dev->late->parked.srqs, &q->node);
	pthread_mutex_unlock(&late_lock);
	if (!used)
		free(q);
	return used;
}

bool rdmamsg__late_close(struct dev *dev)
{
	struct late *l = dev->late;
	bool used;

	if (!l)
		return false;
	pthread_mutex_lock(&late_lock);
	used = l->users;
	if (used) {
		rdmamsg__cqs_take_out(dev, &l->parked.cqs);
		l->parked.channel = dev->single ? NULL : dev->channel;
		if (dev->owner || dev->single)
			l->parked.pd = dev->pd;
		l->closed = true;
	}
	pthread_mutex_unlock(&late_lock);
	if (!used)
		free(l);
	dev->late = NULL;
	return used;
}
