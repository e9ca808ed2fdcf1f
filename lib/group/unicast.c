/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups without multicast. The group is the address at which its publisher
 * listens; a subscriber asks there for the publisher's queue pair (the
 * connection manager's service lookup, SIDR), and reports to it. The publisher
 * sends each datagram to all who report. All else is as in other groups.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "cm/rdma/cm.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "group/audience.h"
#include "group/carrier.h"
#include "group/group.h"
#include "wire/frame.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define BACKLOG		128

struct unicast {
	struct cm_owner owner;
	struct rdmamsg_group *group;
	const struct verbs_api *v;
	struct rdma_cm_id *id;		/* that listens, or looks up */
};

/* ---- both sides -------------------------------------------------------- */

static void fail(struct rdmamsg_group *g, enum rdmamsg_cause cause, int error,
		 const char *what)
{
	char text[INET6_ADDRSTRLEN];

	rdmamsg__group_text(g, text);
	rdmamsg__group_fail(g, RDMAMSG_WHO_NETWORK, cause, error, "unicast:%s: "
			    "%s", text, what);
}

/* The group's key is bound to its address, as it is to an MGID elsewhere. */
static void name_group(struct rdmamsg_group *g)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&g->addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&g->addr;

	memset(&g->mgid, 0, sizeof(g->mgid));
	if (g->addr.ss_family == AF_INET6) {
		memcpy(&g->mgid, &v6->sin6_addr, sizeof(g->mgid));
		return;
	}
	g->mgid.raw[10] = g->mgid.raw[11] = 0xff;
	memcpy(g->mgid.raw + 12, &v4->sin_addr, 4);
}

/* The GID of the id's own address, as RoCE v2 has it if there are two. */
static int find_source(const struct carrier *c, const union ibv_gid *own)
{
	struct ibv_port_attr port;
	int found = -1;

	if (rdmamsg__v_query_port(c->v, c->dev->device->verbs, c->port, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;

		if (rdmamsg__v_query_gid_ex(c->v, c->dev->device->verbs,
					    c->port, (uint32_t)i, &e) ||
		    memcmp(&e.gid, own, sizeof(e.gid)))
			continue;
		if (found < 0 || e.gid_type == IBV_GID_TYPE_ROCE_V2)
			found = i;
	}
	return found;
}

void rdmamsg__unicast_quit(struct rdmamsg_group *g)
{
	struct unicast *u = g->rendezvous;

	if (!u)
		return;
	if (u->id)
		rdmamsg__cm_id_free(u->v, u->id);
	free(u);
	g->rendezvous = NULL;
}

static int new_id(struct rdmamsg_group *g,
		  void (*event)(struct rdmamsg *, struct cm_owner *,
				const struct cm_event *))
{
	struct unicast *u = calloc(1, sizeof(*u));

	if (!u)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	u->owner.event = event;
	u->group = g;
	u->v = g->carrier->v;
	g->rendezvous = u;
	return rdmamsg__cm_id_new(g->ctx, u->v, &u->owner, RDMA_PS_UDP,
				  &u->id);
}

/* ---- the publisher ----------------------------------------------------- */

static void answer(struct rdmamsg_group *g, const struct cm_event *ev)
{
	const struct frame f = {
		.type = FRAME_HEARTBEAT, .flags = FRAME_REPAIRS,
		.audience = rdmamsg__subscribers(g),
		.sender = g->id, .number = rdmamsg__group_sent(g),
		.oldest = rdmamsg__repair_oldest(g),
	};
	uint8_t payload[FRAME_HDR_LEN];
	struct rdma_conn_param param = {
		.qp_num = g->carrier->qp->qp_num, .private_data = payload,
		.private_data_len = sizeof(payload),
	};

	rdmamsg__frame_encode(&f, payload);
	if (g->audience->count == AUDIENCE_MAX)
		(void)rdmamsg__v_reject(ev->v, ev->id, NULL, 0);
	else
		(void)rdmamsg__v_accept(ev->v, ev->id, &param);
}

static void on_request(struct rdmamsg *ctx, struct cm_owner *owner,
		       const struct cm_event *ev)
{
	struct unicast *u = list_entry(owner, struct unicast, owner);
	struct rdmamsg_group *g = u->group;

	if (ev->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		fail(g, RDMAMSG_CAUSE_REMOVED, -ENODEV, "the device was "
		     "removed");
		return;
	}
	if (ev->type != RDMA_CM_EVENT_CONNECT_REQUEST)
		return;
	if (g->state == GROUP_JOINED ||
	    (g->state == GROUP_LEAVING && !g->leaving_sent))
		answer(g, ev);
	rdmamsg__cm_id_free(ev->v, ev->id);
}

static int listen_here(struct rdmamsg_group *g)
{
	const struct rdma_cm_id *own = g->carrier->id;
	struct unicast *u;
	int ret = new_id(g, on_request), source;

	if (ret)
		return ret;
	u = g->rendezvous;
	ret = rdmamsg__v_bind_addr(u->v, u->id, (struct sockaddr *)&g->addr);
	if (!ret)
		ret = rdmamsg__v_listen(u->v, u->id, BACKLOG);
	if (ret)
		return rdmamsg__cm_fail(g->ctx, ret, "listening for "
					"subscribers");
	source = find_source(g->carrier, &own->route.addr.addr.ibaddr.sgid);
	if (source < 0)
		return rdmamsg__fail(-EADDRNOTAVAIL, "device %s has no GID of "
				     "the group's address",
				     g->carrier->dev->device->name);
	rdmamsg__carrier_address(g->carrier, (uint8_t)source);
	return 0;
}

/* ---- the subscriber ---------------------------------------------------- */

/* Where the publisher is, as its datagrams will say. */
static struct carrier_peer place_of(const struct rdma_ud_param *ud,
				    const struct rdma_cm_id *id)
{
	static const union ibv_gid none;
	struct carrier_peer at = {
		.gid = ud->ah_attr.grh.dgid, .qpn = ud->qp_num,
		.slid = ud->ah_attr.dlid, .sl = ud->ah_attr.sl,
		.path_bits = ud->ah_attr.src_path_bits,
	};

	if (!memcmp(&at.gid, &none, sizeof(none)))
		at.gid = id->route.addr.addr.ibaddr.dgid;
	return at;
}

static void found(struct rdmamsg_group *g, const struct cm_event *ev)
{
	const struct datagram d = {
		.from = place_of(&ev->ud, g->rendezvous->id),
	};
	struct frame f;

	if (rdmamsg__frame_decode(&f, ev->ud.private_data,
				  min((size_t)ev->ud.private_data_len,
				      (size_t)FRAME_HDR_LEN)) ||
	    f.type != FRAME_HEARTBEAT) {
		fail(g, RDMAMSG_CAUSE_PROTOCOL, -EPROTO, "what listens there is "
		     "no publisher");
		return;
	}
	f.flags = FRAME_REPAIRS;	/* as it must be here */
	rdmamsg__carrier_address(g->carrier, ev->ud.ah_attr.grh.sgid_index);
	if (rdmamsg__member_expect(g, &f, &d))
		rdmamsg__group_joined(g, NULL);
	else
		fail(g, RDMAMSG_CAUSE_RESOURCES, -ENOMEM, "no memory for the "
		     "publisher");
}

static int look_up(struct unicast *u)
{
	struct rdma_conn_param param = {
		.qp_num = u->group->carrier->qp->qp_num,
	};

	return rdmamsg__v_connect(u->v, u->id, &param);
}

static void on_answer(struct rdmamsg *ctx, struct cm_owner *owner,
		      const struct cm_event *ev)
{
	struct unicast *u = list_entry(owner, struct unicast, owner);
	struct rdmamsg_group *g = u->group;
	int ret = 0;

	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = rdmamsg__v_resolve_route(u->v, u->id,
					       (int)g->opts.timeout_ms);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = look_up(u);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (g->state == GROUP_JOINING)
			found(g, ev);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		fail(g, RDMAMSG_CAUSE_REFUSED, -ECONNREFUSED, "no publisher "
		     "listens there, or it has 254 subscribers");
		break;
	default:
		fail(g, RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH,
		     rdma_event_str(ev->type));
	}
	if (ret)
		fail(g, RDMAMSG_CAUSE_UNREACHABLE, ret, strerror(-ret));
}

static int ask_there(struct rdmamsg_group *g)
{
	struct sockaddr_storage from = { 0 };
	struct unicast *u;
	int ret = new_id(g, on_answer);

	if (ret)
		return ret;
	u = g->rendezvous;
	/* through the device of the carrier */
	memcpy(&from, &g->carrier->id->route.addr.src_addr,
	       g->addr.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       sizeof(struct sockaddr_in));
	((struct sockaddr_in *)&from)->sin_port = 0;
	ret = rdmamsg__v_resolve_addr(u->v, u->id, from.ss_family ==
				      g->addr.ss_family ?
				      (struct sockaddr *)&from : NULL,
				      (struct sockaddr *)&g->addr,
				      (int)g->opts.timeout_ms);
	return ret ? rdmamsg__cm_fail(g->ctx, ret, "looking for the "
				      "publisher") : 0;
}

/* ---- for join.c -------------------------------------------------------- */

int rdmamsg__unicast_start(struct rdmamsg_group *g)
{
	int ret;

	name_group(g);
	ret = rdmamsg__group_prepare(g);
	if (ret)
		return ret;
	ret = g->opts.flags & RDMAMSG_GROUP_PUBLISH ? listen_here(g) :
						      ask_there(g);
	if (ret)
		rdmamsg__unicast_quit(g);
	return ret;
}

void rdmamsg__unicast_lost(struct rdmamsg_group *g, bool has_left)
{
	fail(g, has_left ? RDMAMSG_CAUSE_CLOSED : RDMAMSG_CAUSE_TIMEOUT,
	     has_left ? -ECONNRESET : -ETIMEDOUT, has_left ?
	     "the publisher has left" : "the publisher is silent");
}
