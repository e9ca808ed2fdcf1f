/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lost membership is joined again, with another queue pair, because the
 * address, key or partition of the old queue pair may be obsolete. Published
 * messages and received messages stay with the group.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/async.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "group/carrier.h"
#include "group/group.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

#define AGAIN_MS	50u	/* after the first failure; doubles */
#define AGAIN_MAX_MS	5000u
#define UNANSWERED_MAX	20u	/* pauses of AGAIN_MS, see awaits_removal() */

void rdmamsg__group_lost(struct rdmamsg_group *g)
{
	uint32_t ms;

	if (g->state == GROUP_JOINED) {
		/* reset only after a while, so that repeated losses back off */
		if (rdmamsg__now_ms() - g->joined_at > AGAIN_MAX_MS)
			g->tries = 0;
		g->lost_told = false;
		g->unanswered = 0;
		rdmamsg__repair_lost(g);
	}
	ms = g->tries ? AGAIN_MS << min(g->tries - 1, 10u) : 0;
	log_info("a group is joined again: %s", g->reason.text);
	probe(group_lost, g, (const char *)g->reason.text);
	list_del(&g->wait_node);
	g->state = GROUP_LOST;
	g->lost = true;
	g->tries++;
	rdmamsg__timer_set(&g->ctx->loop.timers, &g->timer,
			   min(ms, AGAIN_MAX_MS));
}

/*
 * The completions of a removed device may arrive before the event that ends the
 * group. So if the device does not answer, waits for that event for a second.
 */
static bool awaits_removal(struct rdmamsg_group *g)
{
	const struct carrier *c = g->carrier;
	struct ibv_port_attr attr;

	if (!c || !c->dev || !c->port || g->unanswered == UNANSWERED_MAX ||
	    !rdmamsg__v_query_port(c->v, c->dev->device->verbs, c->port, &attr))
		return false;
	g->unanswered++;
	rdmamsg__timer_set(&g->ctx->loop.timers, &g->timer, AGAIN_MS);
	return true;
}

void rdmamsg__group_again(struct rdmamsg_group *g)
{
	int ret;

	if (!g->lost_told && awaits_removal(g))
		return;
	if (!g->lost_told) {
		g->lost_told = true;
		rdmamsg__tell(&g->ctx->loop, g->on.on_lost, g, &g->reason);
		if (g->state != GROUP_LOST)
			return;
	}
	/* callbacks may run meanwhile, and leave the group */
	rdmamsg__group_quit(g);
	if (g->state != GROUP_LOST)
		return;
	list_del(&g->node);
	list_add_tail(&g->ctx->groups->homeless, &g->node);
	ret = rdmamsg__try(rdmamsg__group_start(g));
	if (ret)
		rdmamsg__group_lost(g);
}

/* ---- events of devices ------------------------------------------------ */

/* Returns true if the source address of datagrams has changed or is gone. */
static bool has_moved(const struct carrier *c)
{
	struct ibv_gid_entry e;
	int ret;

	if (!c->addressed)
		return false;
	ret = rdmamsg__v_query_gid_ex(c->v, c->dev->device->verbs, c->port,
				      c->sgid_index, &e);
	return ret || memcmp(&e.gid, &c->sgid, sizeof(e.gid));
}

/* Returns true if the carrier's groups must join again because of the event. */
static bool concerns(struct carrier *c, int type)
{
	bool was_down = c->port_down;

	switch (type) {
	case IBV_EVENT_PORT_ERR:
		c->port_down = true;
		return false;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		return true;
	case IBV_EVENT_PORT_ACTIVE:
		/* meanwhile the switches may have forgotten the port */
		c->port_down = false;
		return was_down || has_moved(c);
	case IBV_EVENT_GID_CHANGE:
		return has_moved(c);
	default:
		return false;
	}
}

void rdmamsg__groups_event(struct rdmamsg *ctx,
			   const struct rdmamsg_device *d, int type,
			   uint32_t port)
{
	struct list *n;

	list_for_each(n, &ctx->groups->carriers) {
		struct carrier *c = list_entry(n, struct carrier, node);

		if (c->state != CARRIER_READY || c->dev->device != d ||
		    c->port != port || !concerns(c, type))
			continue;
		rdmamsg__carrier_lost(c, RDMAMSG_WHO_NETWORK,
				      RDMAMSG_CAUSE_TRANSPORT, -ENETRESET,
				      rdmamsg__event_text(type));
	}
}

/* A number of a queue pair is not used again soon, an index is. */
uint64_t rdmamsg__carrier_key(const struct carrier *c)
{
	return (uint64_t)c->index << 32 | c->qp->qp_num;
}

struct carrier *rdmamsg__carrier_of(const struct ibv_qp *ibv)
{
	uintptr_t context = (uintptr_t)ibv->qp_context;

	return context & CARRIER_TAG ?
	       (struct carrier *)(context - CARRIER_TAG) : NULL;
}

void rdmamsg__carrier_failed(struct rdmamsg *ctx, uint64_t key, int type)
{
	struct list *n;

	list_for_each(n, &ctx->groups->carriers) {
		struct carrier *c = list_entry(n, struct carrier, node);

		if (c->state != CARRIER_READY || !c->qp ||
		    rdmamsg__carrier_key(c) != key)
			continue;
		rdmamsg__carrier_lost(c, RDMAMSG_WHO_DEVICE,
				      RDMAMSG_CAUSE_TRANSPORT, -EIO,
				      rdmamsg__event_text(type));
		return;
	}
}

void rdmamsg__groups_removed(struct rdmamsg *ctx,
			     const struct rdmamsg_device *d)
{
	struct list *n;

	/* check d->gone, because another device may be at this address now */
	list_for_each(n, &ctx->groups->carriers) {
		struct carrier *c = list_entry(n, struct carrier, node);

		if (c->dev && c->dev->device == d && d->gone)
			rdmamsg__carrier_end(c, RDMAMSG_CAUSE_REMOVED, -ENODEV,
					     "the RDMA device was removed");
	}
}

void rdmamsg__groups_cq_failed(struct rdmamsg *ctx, const struct cq *cq,
			       int err, const char *what)
{
	struct list *n;

	list_for_each(n, &ctx->groups->carriers) {
		struct carrier *c = list_entry(n, struct carrier, node);

		if (c->cq == cq)
			rdmamsg__carrier_end(c, RDMAMSG_CAUSE_TRANSPORT, err,
					     what);
	}
}
