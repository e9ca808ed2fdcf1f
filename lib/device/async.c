/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Async events. A device has one queue of them in a process, which every
 * context of the device watches, so that an idle context holds up no other.
 * The context that is driven first reads an event under the device's lock, and
 * mails it to each context that it concerns.
 */
#include "base/base.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "base/watch.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "lane/srq.h"
#include "loop/ctx.h"
#include "memory/region.h"
#include "qp/rawqp.h"
#include "session/ep.h"

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

struct async_mail {
	struct mail mail;
	int type;
	uint32_t port;
	uint32_t ep_key;
	bool for_ep;
	const void *of;			/* ibv_cq or ibv_srq that it is about */
	bool rawqp;			/* of the program's: its own concern */
	const struct rdmamsg_device *d;	/* which may have been closed since */
	char device[64];
};

static bool is_fatal(int type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_CQ_ERR ||
	       type == IBV_EVENT_DEVICE_FATAL;
}

static void async_fail_eps(struct rdmamsg *ctx, const struct async_mail *m)
{
	enum rdmamsg_who who = RDMAMSG_WHO_DEVICE;
	enum rdmamsg_cause cause = RDMAMSG_CAUSE_TRANSPORT;
	int error = -EIO;
	char regions[64];
	struct list *n, *t;

	switch (m->type) {
	case IBV_EVENT_QP_ACCESS_ERR:	/* the device refused its requests */
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_ACCESS;
		error = -EACCES;
		break;
	case IBV_EVENT_QP_REQ_ERR:
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_PROTOCOL;
		error = -EPROTO;
		break;
	case IBV_EVENT_DEVICE_FATAL:
		cause = RDMAMSG_CAUSE_REMOVED;
		break;
	default:
		break;
	}
	list_for_each_safe(n, t, &ctx->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (!ep->lane.dev || ep->lane.dev->device != m->d ||
		    (m->for_ep && ep->key != m->ep_key))
			continue;
		regions[0] = 0;
		if (cause == RDMAMSG_CAUSE_ACCESS)
			rdmamsg__region_guess(ep, regions, sizeof(regions));
		if (who == RDMAMSG_WHO_PEER)
			rdmamsg__ep_offended(ep);
		rdmamsg__ep_reason(ep, who, cause, error,
				   "device %s reports: %s%s", m->device,
				   rdmamsg__event_text(m->type), regions);
		rdmamsg__ep_kill(ep);
	}
}

static bool has_cq(const struct rdmamsg *ctx, const void *ibv)
{
	struct list *n, *m;

	list_for_each(n, &ctx->devs)
		list_for_each(m, &list_entry(n, struct dev, node)->cqs)
			if (list_entry(m, struct cq, node)->ibv == ibv)
				return true;
	return false;
}

/*
 * An event about a queue of another context or of the program, or one that the
 * library has asked for itself, is not for on_event.
 */
static bool is_for_program(struct rdmamsg *ctx, const struct async_mail *m)
{
	if (!m->of)
		return true;
	return m->type == IBV_EVENT_CQ_ERR ? has_cq(ctx, m->of) :
	       rdmamsg__srq_event(ctx, m->of, m->type);
}

static void tell(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	if (ctx->closing)
		return;
	log_info("device %s port %u: %s", ev->device, ev->port, ev->name);
	rdmamsg__tell(&ctx->loop, ctx->opts.on_event, ctx, ev);
}

static void async_deliver(struct rdmamsg *ctx, struct mail *mail)
{
	struct async_mail *m = list_entry(mail, struct async_mail, mail);
	struct rdmamsg_event ev = {
		.size = sizeof(ev), .type = m->type,
		.name = rdmamsg__event_text(m->type), .device = m->device,
		.port = m->port,
	};

	if (m->for_ep)
		ev.ep = m->ep_key >> 8 < ctx->table_size ?
			ctx->table[m->ep_key >> 8] : NULL;
	if (ev.ep && ev.ep->key != m->ep_key)
		ev.ep = NULL;
	if (!is_for_program(ctx, m)) {
		free(m);
		return;
	}
	if (m->type == IBV_EVENT_QP_LAST_WQE_REACHED) {
		if (ev.ep)
			rdmamsg__ep_last_wqe(ev.ep);
	} else if (!m->for_ep || ev.ep) {
		tell(ctx, &ev);
	}
	if (is_fatal(m->type) && !m->rawqp)
		async_fail_eps(ctx, m);
	free(m);
}

/* A context has as many parts of a device as domains: it is told once. */
static bool is_first(const struct dev *dev)
{
	struct list *n = dev->port_node.prev;

	while (n != &dev->device->ports &&
	       list_entry(n, struct dev, port_node)->ctx != dev->ctx)
		n = n->prev;
	return n == &dev->device->ports;
}

/* Under the device's lock: no context of it can go away meanwhile. */
static void async_post(struct rdmamsg *ctx, struct rdmamsg_device *d,
		       int type, uint32_t port, const struct rdmamsg_ep *ep,
		       const void *of, bool rawqp)
{
	struct async_mail *m = calloc(1, sizeof(*m));

	if (!m) {
		log_error("no memory for event '%s'",
			  rdmamsg__event_text(type));
		return;
	}
	list_init(&m->mail.node);
	m->mail.fn = async_deliver;
	m->type = type;
	m->port = port;
	m->for_ep = ep;
	m->rawqp = rawqp;
	m->ep_key = ep ? ep->key : 0;
	m->of = of;
	m->d = d;
	snprintf(m->device, sizeof(m->device), "%s", d->name);
	rdmamsg__mail_post(&ctx->loop, &m->mail);
}

static void async_route(struct rdmamsg_device *d, struct ibv_async_event *ev)
{
	struct rdmamsg_qp *rawqp;
	const void *of = NULL;
	struct rdmamsg_ep *ep;
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
		/* ibv_destroy_qp() waits for our ack: the owner is there */
		rawqp = rdmamsg__rawqp_of(ev->element.qp);
		if (rawqp && rawqp->ctx)
			async_post(rawqp->ctx, d, ev->event_type, 0, NULL,
				   NULL, true);
		if (rawqp)
			return;
		ep = ev->element.qp->qp_context;
		if (ep)
			async_post(ep->ctx, d, ev->event_type, 0, ep, NULL,
				   false);
		return;
	/*
	 * A program may have made these for its own queue pairs: what their
	 * contexts point to is not known, so each of ours looks for itself.
	 */
	case IBV_EVENT_CQ_ERR:
		of = ev->element.cq;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		of = ev->element.srq;
		break;
	case IBV_EVENT_WQ_FATAL:
		return;		/* none of ours */
	default:
		break;
	}
	list_for_each(n, &d->ports) {
		struct dev *dev = list_entry(n, struct dev, port_node);

		if (is_first(dev))
			async_post(dev->ctx, d, ev->event_type, of ? 0 :
				   (uint32_t)ev->element.port_num, NULL, of,
				   false);
	}
}

static void removed_deliver(struct rdmamsg *ctx, struct mail *mail)
{
	struct async_mail *m = list_entry(mail, struct async_mail, mail);
	const struct rdmamsg_event ev = {
		.size = sizeof(ev), .type = -1,
		.name = rdmamsg__event_text(-1), .device = m->device,
	};

	tell(ctx, &ev);
	rdmamsg__device_gone(ctx, m->d);
	free(m);
}

/* Under the device's lock, once: the last event of the device. */
static void post_removed(struct rdmamsg_device *d)
{
	struct list *n;

	list_for_each(n, &d->ports) {
		struct dev *dev = list_entry(n, struct dev, port_node);
		struct async_mail *m = is_first(dev) ? calloc(1, sizeof(*m)) :
				       NULL;

		/* without memory it waits for its own event, or lingers */
		if (!m)
			continue;
		list_init(&m->mail.node);
		m->mail.fn = removed_deliver;
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

/* A context watches each device once, however many domains it has there. */
static bool is_watched(const struct dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->ctx->devs) {
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

static int read_one(struct rdmamsg_device *d)
{
	struct ibv_async_event ev;
	int ret = rdmamsg__v_get_async_event(d->v, d->verbs, &ev);

	if (ret)
		return ret;
	async_route(d, &ev);
	d->v->ack_async_event(&ev);
	if (ev.event_type != IBV_EVENT_DEVICE_FATAL)
		return 0;
	if (!atomic_exchange(&d->gone, true))
		post_removed(d);
	/* nothing sensible can be read after this one */
	return -EIO;
}

/* Other contexts may have read what has woken this one. */
void rdmamsg__async_read(struct rdmamsg *ctx, struct rdmamsg_device *d)
{
	bool removed;
	int ret = 0;

	pthread_mutex_lock(&d->lock);
	removed = rdmamsg__removal_read(d);
	while (!d->silent && !ret)
		ret = read_one(d);
	/* the kernel has cut us off: the descriptor would stay readable */
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
