/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Async events. A process has one event queue for each device. Every context
 * that uses the device watches the queue, so that an idle context delays no
 * other. The first context that runs reads the event with the device's lock
 * held, and mails it to each context that it concerns.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "base/watch.h"
#include "device/cq.h"
#include "device/async.h"
#include "device/cached.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/use.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

/*
 * Returns true if this is the first dev of its context on the device. A context
 * has a dev for each protection domain, but gets an event once.
 */
static bool is_first(const struct dev *dev)
{
	struct list *n = dev->port_node.prev;

	while (n != &dev->device->ports &&
	       list_entry(n, struct dev, port_node)->ctx != dev->ctx)
		n = n->prev;
	return n == &dev->device->ports;
}

/* The caller holds d->lock, so no context of the device can go away. */
static void async_post(struct rdmamsg *ctx, struct rdmamsg_device *d,
		       int type, uint32_t port, const struct qp_owner *qp,
		       const void *of)
{
	struct async_mail *m = calloc(1, sizeof(*m));

	if (!m) {
		log_error("no memory for event '%s'",
			  rdmamsg__event_text(type));
		return;
	}
	list_init(&m->mail.node);
	m->mail.fn = ctx->devices->use->event;
	m->type = type;
	m->port = port;
	m->kind = qp ? qp->kind : QP_OF_NOBODY;
	m->key = qp ? qp->key : 0;
	m->of = of;
	m->d = d;
	m->own = (type == IBV_EVENT_QP_REQ_ERR &&
		  rdmamsg__quirks(d)->request_errors_are_own) ||
		 (type == IBV_EVENT_QP_FATAL &&
		  rdmamsg__quirks(d)->ends_as_local_error);
	snprintf(m->device, sizeof(m->device), "%s", d->name);
	rdmamsg__mail_post(&ctx->loop, &m->mail);
}

static void async_route(struct rdmamsg_device *d, struct ibv_async_event *ev,
			const struct device_use *use)
{
	const void *of = NULL;
	uint32_t port = 0;
	struct qp_owner qp;
	struct list *n;

	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		/*
		 * ibv_destroy_qp() waits for the ack, so the owner still exists
		 */
		if (ev->event_type == IBV_EVENT_QP_ACCESS_ERR ||
		    (ev->event_type == IBV_EVENT_QP_REQ_ERR &&
		     !rdmamsg__quirks(d)->request_errors_are_own))
			use->refused(ev->element.qp);
		qp = use->owner(ev->element.qp);
		if (qp.ctx)
			async_post(qp.ctx, d, ev->event_type, 0, &qp, NULL);
		return;
	/*
	 * A program may have made the queue for its own queue pairs, so its
	 * context pointer is unknown. Every context gets the event and looks
	 * for the queue.
	 */
	case IBV_EVENT_CQ_ERR:
		of = ev->element.cq;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		of = ev->element.srq;
		break;
	case IBV_EVENT_WQ_FATAL:
		of = ev->element.wq;
		break;
	/* mlx5 names a port nevertheless */
	case IBV_EVENT_DEVICE_FATAL:
		break;
	default:
		port = (uint32_t)ev->element.port_num;
		break;
	}
	list_for_each(n, &d->ports) {
		struct dev *dev = list_entry(n, struct dev, port_node);

		if (is_first(dev))
			async_post(dev->ctx, d, ev->event_type, port, NULL,
				   of);
	}
}

/* Mails the removal, once. The caller holds d->lock. */
static void post_removed(struct rdmamsg_device *d)
{
	struct list *n;

	list_for_each(n, &d->ports) {
		struct dev *dev = list_entry(n, struct dev, port_node);
		struct async_mail *m = is_first(dev) ? calloc(1, sizeof(*m)) :
				       NULL;

		/* without memory the dev closes later */
		if (!m)
			continue;
		list_init(&m->mail.node);
		m->mail.fn = dev->ctx->devices->use->removed;
		m->d = d;
		snprintf(m->device, sizeof(m->device), "%s", d->name);
		rdmamsg__mail_post(&dev->ctx->loop, &m->mail);
	}
}

void rdmamsg__async_removed(struct rdmamsg_device *d)
{
	pthread_mutex_lock(&d->lock);
	post_removed(d);
	pthread_mutex_unlock(&d->lock);
}

void rdmamsg__async_forget(struct rdmamsg_device *d, struct ibv_qp *qp)
{
	pthread_mutex_lock(&d->lock);
	qp->qp_context = NULL;
	pthread_mutex_unlock(&d->lock);
}

/*
 * Returns true if another dev of the context is on the same device. A context
 * watches each device once.
 */
static bool is_watched(const struct dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->ctx->devices->devs) {
		const struct dev *other = list_entry(n, struct dev, node);

		if (other != dev && other->device == dev->device)
			return true;
	}
	return false;
}

static int watch(struct rdmamsg *ctx, struct rdmamsg_device *d)
{
	int ret = rdmamsg__watch(&ctx->loop, d->verbs->async_fd, (char *)d + 1);

	if (ret || !d->removal.ch)
		return ret;
	ret = rdmamsg__watch(&ctx->loop, d->removal.ch->fd, (char *)d + 1);
	if (ret)
		rdmamsg__unwatch(&ctx->loop, d->verbs->async_fd);
	return ret;
}

int rdmamsg__async_start(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	if (!d->silent && !is_watched(dev))
		ret = watch(dev->ctx, d);
	if (!ret)
		list_add_tail(&d->ports, &dev->port_node);
	pthread_mutex_unlock(&d->lock);
	return ret;
}

void rdmamsg__async_stop(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;

	if (!is_watched(dev)) {
		rdmamsg__unwatch(&dev->ctx->loop, d->verbs->async_fd);
		if (d->removal.ch)
			rdmamsg__unwatch(&dev->ctx->loop, d->removal.ch->fd);
	}
	pthread_mutex_lock(&d->lock);
	list_del(&dev->port_node);
	pthread_mutex_unlock(&d->lock);
}

static int read_one(struct rdmamsg_device *d, const struct device_use *use)
{
	struct ibv_async_event ev;
	int ret = rdmamsg__v_get_async_event(d->v, d->verbs, &ev);

	if (ret)
		return ret;
	rdmamsg__cache_event(d->cache, &ev);
	async_route(d, &ev, use);
	d->v->ack_async_event(&ev);
	if (ev.event_type != IBV_EVENT_DEVICE_FATAL)
		return 0;
	if (!atomic_exchange(&d->gone, true))
		post_removed(d);
	/* no event can be read after this one */
	return -EIO;
}

/* Reads all events. Another context may have read them already. */
void rdmamsg__async_read(struct rdmamsg *ctx, struct rdmamsg_device *d)
{
	bool removed;
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	removed = rdmamsg__removal_read(d);
	while (!d->silent && !ret)
		ret = read_one(d, ctx->devices->use);
	/* the kernel has closed the queue, and the descriptor stays readable */
	if (ret == -EIO) {
		d->silent = true;
		if (!d->gone)
			log_warn("device %s reports no async events any more",
				 d->name);
	}
	if (d->silent)
		rdmamsg__unwatch(&ctx->loop, d->verbs->async_fd);
	pthread_mutex_unlock(&d->lock);
	if (removed)
		rdmamsg__device_removed(d);
}
