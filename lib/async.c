/* SPDX-License-Identifier: BSD-2-Clause */
/* Async events: one context of a device reads them and passes them on. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct async_mail {
	struct mail mail;
	int type;
	uint32_t port;
	uint32_t ep_key;
	bool for_ep;
	const void *of;			/* ibv_cq or ibv_srq that it is about */
	bool rawqp;			/* of the program's: its own concern */
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

		if (!ep->dev || strcmp(ep->dev->device->name, m->device) ||
		    (m->for_ep && ep->key != m->ep_key))
			continue;
		rdmamsg__ep_reason(ep, who, cause, error,
				   "device %s reports: %s", m->device,
				   rdmamsg__event_text(m->type));
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

/* Not of another context, or the program's own, on the same device. */
static bool is_ours(struct rdmamsg *ctx, const struct async_mail *m)
{
	if (!m->of)
		return true;
	return m->type == IBV_EVENT_CQ_ERR ? has_cq(ctx, m->of) :
	       rdmamsg__srq_event(ctx, m->of, m->type);
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
	if (!is_ours(ctx, m)) {
		free(m);
		return;
	}
	if (m->type == IBV_EVENT_QP_LAST_WQE_REACHED) {
		if (ev.ep)
			rdmamsg__ep_last_wqe(ev.ep);
	} else if ((!m->for_ep || ev.ep) && !ctx->closing) {
		log_info("device %s port %u: %s", m->device, m->port, ev.name);
		if (ctx->opts.on_event) {
			ctx->in_callback++;
			ctx->opts.on_event(ctx, &ev);
			ctx->in_callback--;
		}
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

/* Under the lock: no context of the device can go away meanwhile. */
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
	snprintf(m->device, sizeof(m->device), "%s", d->name);
	rdmamsg__mail_post(ctx, &m->mail);
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

void rdmamsg__async_forget(struct ibv_qp *qp)
{
	pthread_mutex_lock(&rdmamsg__devices_lock);
	qp->qp_context = NULL;
	pthread_mutex_unlock(&rdmamsg__devices_lock);
}

void rdmamsg__async_start(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;

	if (!d->async_reader && !rdmamsg__watch(dev->ctx, d->verbs->async_fd,
						(char *)dev + 1))
		d->async_reader = dev;
}

/* The next context of the device takes over its async events. */
void rdmamsg__async_stop(struct dev *dev)
{
	struct rdmamsg_device *d = dev->device;
	struct list *n;

	if (d->async_reader != dev)
		return;
	rdmamsg__unwatch(dev->ctx, d->verbs->async_fd);
	d->async_reader = NULL;
	list_for_each(n, &d->ports) {
		struct dev *heir = list_entry(n, struct dev, port_node);

		if (!d->gone && !rdmamsg__watch(heir->ctx, d->verbs->async_fd,
						(char *)heir + 1)) {
			d->async_reader = heir;
			return;
		}
	}
}

void rdmamsg__dev_async(struct dev *dev)
{
	struct ibv_async_event ev;
	struct rdmamsg_device *d;

	pthread_mutex_lock(&rdmamsg__devices_lock);
	d = dev->device;
	while (d && d->async_reader == dev &&
	       !d->v->get_async_event(d->verbs, &ev)) {
		async_route(d, &ev);
		d->v->ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL) {
			/* nothing sensible can be read after this one */
			d->gone = true;
			rdmamsg__unwatch(dev->ctx, d->verbs->async_fd);
			d->async_reader = NULL;
		}
	}
	pthread_mutex_unlock(&rdmamsg__devices_lock);
}
