/* SPDX-License-Identifier: BSD-2-Clause */
/* Delivers async events of devices to endpoints and to the program. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/submit.h"
#include "device/async.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/use.h"
#include "group/carrier.h"
#include "group/group.h"
#include "lane/srq.h"
#include "loop/device_use.h"
#include "memory/region.h"
#include "qp/rawqp.h"
#include "session/ep.h"
#include "session/resume.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

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
	const char *what = rdmamsg__event_text(m->type);
	int error = -EIO;
	char regions[64];
	struct list *n, *t;

	switch (m->type) {
	case IBV_EVENT_QP_ACCESS_ERR:	/* it refused a peer's request */
		who = RDMAMSG_WHO_PEER;
		cause = RDMAMSG_CAUSE_ACCESS;
		error = -EACCES;
		break;
	case IBV_EVENT_QP_FATAL:
		if (m->own) {
			who = RDMAMSG_WHO_NETWORK;
			error = -ECONNRESET;
			what = rdmamsg__unsent_text();
		}
		break;
	case IBV_EVENT_QP_REQ_ERR:
		if (m->own) {
			who = RDMAMSG_WHO_NETWORK;
			error = -ECONNRESET;
			what = "a read of the peer could not be answered: the "
			       "connection has ended, or the peer has no "
			       "access";
			break;
		}
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
	list_for_each_safe(n, t, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);
		bool forgiven;

		if (!ep->lane.dev || ep->lane.dev->device != m->d ||
		    (m->kind == QP_OF_EP && ep->key != m->key))
			continue;
		forgiven = cause == RDMAMSG_CAUSE_ACCESS &&
			   rdmamsg__resume_forgives(ep, NULL);
		regions[0] = 0;
		if (cause == RDMAMSG_CAUSE_ACCESS)
			rdmamsg__region_guess(ep->lane.dev, ep->key, regions,
					      sizeof(regions));
		if (who == RDMAMSG_WHO_PEER && !forgiven)
			rdmamsg__ep_offended(ep);
		rdmamsg__ep_reason(ep, who, forgiven ?
				   RDMAMSG_CAUSE_TRANSPORT : cause, forgiven ?
				   -ECONNRESET : error,
				   "device %s reports: %s%s", m->device, what,
				   regions);
		rdmamsg__ep_kill(ep);
	}
}

static const struct cq *find_cq(const struct rdmamsg *ctx, const void *ibv)
{
	struct list *n, *m;

	list_for_each(n, &ctx->devices->devs)
		list_for_each(m, &list_entry(n, struct dev, node)->cqs) {
			struct cq *cq = list_entry(m, struct cq, node);

			if (cq->ibv == ibv)
				return cq;
		}
	return NULL;
}

/*
 * Sets ev->ep and ev->qp. Returns false if on_event does not get the event: its
 * endpoint or queue pair has ended, its queue is of another context or is
 * unknown, or the library has asked for the event itself.
 */
static bool is_for_program(struct rdmamsg *ctx, const struct async_mail *m,
			   struct rdmamsg_event *ev)
{
	switch (m->kind) {
	case QP_OF_EP:
		ev->ep = rdmamsg__handle_of(&ctx->sessions->table,
					    (uint32_t)m->key >> 8);
		if (ev->ep && ev->ep->key != m->key)
			ev->ep = NULL;
		return ev->ep && m->type != IBV_EVENT_QP_LAST_WQE_REACHED;
	case QP_OF_PROGRAM:
		ev->qp = rdmamsg__rawqp_by_serial(ctx, m->key);
		return ev->qp;
	default:
		break;
	}
	if (!m->of)
		return true;
	ev->qp = rdmamsg__rawqp_using(ctx, m->of);
	if (ev->qp)
		return true;
	return m->type == IBV_EVENT_CQ_ERR ? find_cq(ctx, m->of) != NULL :
	       rdmamsg__srq_event(ctx, m->of, m->type);
}

/* Ends or tries again what the event concerns, after on_event. */
static void handle(struct rdmamsg *ctx, const struct async_mail *m)
{
	const struct cq *cq;

	if (m->kind == QP_OF_PROGRAM)
		return;
	if (m->kind == QP_OF_GROUPS) {
		if (is_fatal(m->type))
			rdmamsg__carrier_failed(ctx, m->key, m->type);
		return;
	}
	if (m->of) {
		cq = m->type == IBV_EVENT_CQ_ERR ? find_cq(ctx, m->of) : NULL;
		if (cq)
			ctx->devices->use->cq_failed(
				ctx, cq, -EIO, rdmamsg__event_text(m->type));
		return;
	}
	if (is_fatal(m->type))
		async_fail_eps(ctx, m);
	if (m->kind == QP_OF_EP)
		return;
	rdmamsg__failover_port(ctx, m->d, m->type, m->port);
	rdmamsg__groups_event(ctx, m->d, m->type, m->port);
}

static void tell(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	if (ctx->closing)
		return;
	log_info("device %s port %u: %s", ev->device, ev->port, ev->name);
	probe(device_event, ev->device, ev->port, ev->type, ev->name);
	rdmamsg__tell(&ctx->loop, ctx->on.on_event, ctx, ev);
}

void rdmamsg__deliver_event(struct rdmamsg *ctx, struct mail *mail)
{
	struct async_mail *m = list_entry(mail, struct async_mail, mail);
	struct rdmamsg_event ev = {
		.size = sizeof(ev), .type = m->type,
		.name = rdmamsg__event_text(m->type), .device = m->device,
		.port = m->port,
	};

	if (is_for_program(ctx, m, &ev))
		tell(ctx, &ev);
	if (ev.ep && m->type == IBV_EVENT_QP_LAST_WQE_REACHED)
		rdmamsg__ep_last_wqe(ev.ep);
	handle(ctx, m);
	if (ev.ep)
		rdmamsg__failover_event(ev.ep, m->type);
	free(m);
}

static void end_endpoints(struct rdmamsg *ctx, const struct rdmamsg_device *d)
{
	struct list *n, *t;

	/* check d->gone, because another device may be at this address now */
	list_for_each_safe(n, t, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (ep->lane.dev && ep->lane.dev->device == d && d->gone &&
		    ep->state < EP_DRAINING)
			rdmamsg__ep_removed(ep);
	}
}

void rdmamsg__deliver_removed(struct rdmamsg *ctx, struct mail *mail)
{
	struct async_mail *m = list_entry(mail, struct async_mail, mail);
	const struct rdmamsg_event ev = {
		.size = sizeof(ev), .type = -1,
		.name = rdmamsg__event_text(-1), .device = m->device,
	};

	tell(ctx, &ev);
	end_endpoints(ctx, m->d);
	rdmamsg__groups_removed(ctx, m->d);
	rdmamsg__watched_removed(ctx, m->d);
	rdmamsg__devs_gone(ctx, m->d);
	free(m);
}

struct qp_owner rdmamsg__qp_owner(const struct ibv_qp *ibv)
{
	const struct rdmamsg_qp *q = rdmamsg__rawqp_of(ibv);
	const struct carrier *c = rdmamsg__carrier_of(ibv);
	const struct rdmamsg_ep *ep = rdmamsg__ep_of(ibv->qp_context);

	/* ibv_destroy_qp() waits for the ack, so the owner still exists */
	if (q)
		return (struct qp_owner){ q->ctx, QP_OF_PROGRAM, q->serial };
	if (c)
		return (struct qp_owner){ c->ctx, QP_OF_GROUPS,
					  rdmamsg__carrier_key(c) };
	if (!ep)
		return (struct qp_owner){ 0 };
	return (struct qp_owner){ ep->ctx, QP_OF_EP, ep->key };
}

void rdmamsg__qp_refused(const struct ibv_qp *ibv)
{
	struct rdmamsg_ep *ep = rdmamsg__rawqp_of(ibv) ||
				rdmamsg__carrier_of(ibv) ? NULL :
				rdmamsg__ep_of(ibv->qp_context);

	if (ep)
		ep->lane.refused_peer = true;
}
