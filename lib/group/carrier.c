/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carriers: groups with the same way share one, and a new carrier resolves its
 * way through the connection manager.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "group/carrier.h"
#include "group/group.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

static void carrier_free(struct carrier *c)
{
	/* first, so that no group finds it in callbacks of unmake() */
	list_del(&c->node);
	rdmamsg__carrier_unmake(c);
	free(c->source);
	free(c->device);
	free(c);
}

void rdmamsg__carrier_lost(struct carrier *c, enum rdmamsg_who who,
			   enum rdmamsg_cause cause, int error,
			   const char *text)
{
	struct list *n, *t;

	c->state = CARRIER_FAILED;
	list_for_each_safe(n, t, &c->groups)
		rdmamsg__group_fail(list_entry(n, struct rdmamsg_group, node),
				    who, cause, error, "%s", text);
}

void rdmamsg__carrier_end(struct carrier *c, enum rdmamsg_cause cause,
			  int error, const char *text)
{
	struct list *n, *t;

	c->state = CARRIER_FAILED;
	list_for_each_safe(n, t, &c->groups)
		rdmamsg__group_end(list_entry(n, struct rdmamsg_group, node),
				   RDMAMSG_WHO_DEVICE, cause, error, "%s",
				   text);
}

void rdmamsg__carrier_address(struct carrier *c, uint8_t sgid_index)
{
	struct ibv_gid_entry e = { .gid_index = sgid_index };

	c->sgid_index = sgid_index;
	if (!rdmamsg__v_query_gid_ex(c->v, c->dev->device->verbs, c->port,
				     sgid_index, &e))
		c->sgid = e.gid;
	c->addressed = true;
}

static void resolved(struct carrier *c)
{
	struct list *n, *t;
	int ret = rdmamsg__try(rdmamsg__carrier_make(c));

	if (ret) {
		rdmamsg__carrier_lost(c, RDMAMSG_WHO_LOCAL,
				      RDMAMSG_CAUSE_RESOURCES, ret,
				      rdmamsg__text());
		return;
	}
	c->state = CARRIER_READY;
	list_for_each_safe(n, t, &c->groups)
		rdmamsg__group_ready(list_entry(n, struct rdmamsg_group, node));
}

static void on_event(struct rdmamsg *ctx, struct cm_owner *owner,
		     const struct cm_event *ev)
{
	struct carrier *c = list_entry(owner, struct carrier, owner);

	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		resolved(c);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		rdmamsg__carrier_lost(c, RDMAMSG_WHO_NETWORK,
				      RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH,
				      "no way to the group: set source to an "
				      "address of an RDMA device");
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		rdmamsg__group_event((struct rdmamsg_group *)
				     (uintptr_t)ev->ud.private_data, ev);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		rdmamsg__carrier_end(c, RDMAMSG_CAUSE_REMOVED, -ENODEV,
				     "the RDMA device was removed");
		break;
	default:
		break;
	}
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static int given_source(const struct carrier *c, const struct sockaddr *group,
			struct sockaddr_storage *src)
{
	struct addrinfo *ai;

	if (rdmamsg__resolve_numeric(c->source, NULL, 0, &ai))
		return rdmamsg__fail(-EINVAL, "source '%s' is not a numeric "
				     "address", c->source);
	memcpy(src, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	if (!c->bound && src->ss_family != group->sa_family)
		return rdmamsg__fail(-EINVAL, "source '%s' is not of the "
				     "group's address family", c->source);
	return rdmamsg__asked_by_name(c->device) ?
	       rdmamsg__device_check(c->v, c->device, true) : 0;
}

static int source_addr(const struct carrier *c, const struct sockaddr *group,
		       struct sockaddr_storage *src)
{
	if (c->source)
		return given_source(c, group, src) ?: 1;
	if (rdmamsg__is_soft(c->v)) {
		/* the soft HCA has all addresses of this host */
		((struct sockaddr_in *)src)->sin_family = AF_INET;
		((struct sockaddr_in *)src)->sin_addr.s_addr =
			htonl(INADDR_LOOPBACK);
		return c->bound;
	}
	if (!rdmamsg__asked_by_name(c->device))
		return 0;
	return rdmamsg__device_addr(c->v, c->device, group->sa_family, src) ?:
	       1;
}

/* Names what the program has asked for, or may ask for. */
static int no_way(const struct carrier *c, int err)
{
	char what[128];

	if (c->ps == RDMA_PS_IPOIB && err == -EINVAL)
		return rdmamsg__fail(-EOPNOTSUPP, "no port of InfiniBand leads "
				     "to the group: RDMAMSG_GROUP_IPOIB needs "
				     "one, leave it out on Ethernet");
	if (c->source)
		snprintf(what, sizeof(what), "source %s of a group", c->source);
	else if (rdmamsg__asked_by_name(c->device))
		snprintf(what, sizeof(what), "way to the group through device "
			 "%s", c->device);
	else
		snprintf(what, sizeof(what), "way to the group by the host's "
			 "routes (set source or device)");
	return rdmamsg__cm_fail(c->ctx, err, what);
}

static int start(struct carrier *c, const struct sockaddr *group, int ms)
{
	struct sockaddr_storage src = { 0 };
	int bound = source_addr(c, group, &src), ret;

	if (bound < 0)
		return bound;
	ret = rdmamsg__cm_id_new(c->ctx, c->v, &c->owner, c->ps, &c->id);
	if (ret)
		return ret;
	if (c->bound) {
		ret = rdmamsg__v_bind_addr(c->v, c->id,
					   (struct sockaddr *)&src);
		if (ret)
			return no_way(c, ret);
		ret = rdmamsg__carrier_make(c);
		if (!ret)
			c->state = CARRIER_READY;
		return ret;
	}
	ret = rdmamsg__v_resolve_addr(c->v, c->id, bound ?
				      (struct sockaddr *)&src : NULL,
				      (struct sockaddr *)(uintptr_t)group, ms);
	return ret ? no_way(c, ret) : 0;
}

static int carrier_new(struct rdmamsg *ctx,
		       const struct sockaddr_storage *group,
		       const struct carrier_wants *wants, uint32_t ms,
		       struct carrier **ret_c)
{
	struct carrier *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	c->ctx = ctx;
	c->owner.event = on_event;
	c->ps = wants->ps;
	c->bound = wants->bound;
	c->unicast = wants->unicast;
	c->via = wants->via;
	c->recv_depth = wants->recv_depth;
	c->send_depth = wants->send_depth;
	list_init(&c->groups);
	list_init(&c->waiting);
	list_init(&c->draining);
	list_init(&c->old_ahs);
	list_add_tail(&ctx->groups->carriers, &c->node);
	c->v = rdmamsg__choose_group(wants->device);
	c->source = wants->source ? strdup(wants->source) : NULL;
	c->device = wants->device ? strdup(wants->device) : NULL;
	if ((wants->source && !c->source) || (wants->device && !c->device))
		ret = rdmamsg__fail(-ENOMEM, "no memory for a group");
	else
		ret = rdmamsg__handle_give(&ctx->groups->table, c, 0, CARRIERS,
					   &c->index);
	if (ret == -EMFILE)
		rdmamsg__fail(ret, "a context has at most %u queue pairs for "
			      "groups", CARRIERS);
	if (!ret)
		ret = start(c, (const struct sockaddr *)group, (int)ms);
	if (ret) {
		rdmamsg__try_begin();
		carrier_free(c);
		rdmamsg__try_end();
		return ret;
	}
	c->users = 1;
	*ret_c = c;
	return 0;
}

static bool has_group(const struct list *groups, const struct carrier *c,
		      const struct sockaddr_storage *addr)
{
	struct list *n;

	list_for_each(n, groups) {
		const struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, node);

		if (g->carrier == c && !memcmp(&g->addr, addr, sizeof(*addr)))
			return true;
	}
	return false;
}

/*
 * A queue pair is in a group at most once, and a group that has ended is still
 * attached.
 */
static bool serves(const struct carrier *c,
		   const struct sockaddr_storage *addr)
{
	return has_group(&c->groups, c, addr) ||
	       has_group(&c->ctx->groups->dead, c, addr);
}

void rdmamsg__carrier_route(const struct sockaddr_storage *group,
			    struct carrier_wants *wants)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	int s;

	wants->via = (struct sockaddr_storage){ .ss_family = group->ss_family };
	if (wants->source || rdmamsg__asked_by_name(wants->device))
		return;
	s = fd_high(socket(group->ss_family, SOCK_DGRAM | SOCK_CLOEXEC,
			   0));
	if (s < 0)
		return;
	/* a UDP socket sends nothing when it connects */
	if (!connect(s, (const struct sockaddr *)group, sizeof(*group)) &&
	    !getsockname(s, (struct sockaddr *)&from, &len)) {
		wants->via = from;
		/* in both families the port is there */
		((struct sockaddr_in *)&wants->via)->sin_port = 0;
	}
	close(s);
}

int rdmamsg__carrier_get(struct rdmamsg *ctx,
			 const struct sockaddr_storage *group,
			 const struct carrier_wants *wants, uint32_t timeout_ms,
			 struct carrier **ret)
{
	struct list *n;

	list_for_each(n, &ctx->groups->carriers) {
		struct carrier *c = list_entry(n, struct carrier, node);

		if (c->state != CARRIER_FAILED && c->ps == wants->ps &&
		    c->bound == wants->bound &&
		    c->unicast == wants->unicast &&
		    same(c->source, wants->source) &&
		    same(c->device, wants->device) &&
		    !memcmp(&c->via, &wants->via, sizeof(c->via)) &&
		    c->recv_depth == wants->recv_depth &&
		    c->send_depth == wants->send_depth && !serves(c, group)) {
			c->users++;
			*ret = c;
			return 0;
		}
	}
	return carrier_new(ctx, group, wants, timeout_ms, ret);
}

void rdmamsg__carrier_put(struct carrier *c)
{
	if (!--c->users)
		carrier_free(c);
}
