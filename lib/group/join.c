/* SPDX-License-Identifier: BSD-2-Clause */
/* Memberships: joining, joined, left. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "group/audience.h"
#include "group/carrier.h"
#include "group/group.h"
#include "group/parity.h"
#include "group/seal.h"
#include "cm/rdma/cm.h"
#include "session/hmac.h"
#include "session/secret.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/group.h>

#define BOTH	(RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_SUBSCRIBE)
#define FLAGS	(BOTH | RDMAMSG_GROUP_OWN | RDMAMSG_GROUP_RAW | \
		 RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_IPOIB | \
		 RDMAMSG_GROUP_UNORDERED)
#define GREETS	3	/* HEARTBEATs, because one may be lost */
#define TIMERS	5	/* per group */

/* ---- options ---------------------------------------------------------- */

static const struct range ranges[] = {
#define R(field, def, lowest, highest) \
	RANGE_OF(struct rdmamsg_group_options, field, def, 0, lowest, highest)
	R(timeout_ms, 10000, 1, 3600000),
	R(max_message, 1 << 20, 1, 16 << 20),
	R(max_held, 16 << 20, 1 << 16, 1 << 30),
	R(max_senders, 64, 1, 65536),
	R(recv_depth, 1024, 16, 65536),
	R(send_depth, 256, 16, 65536),
	RANGE_OF(struct rdmamsg_group_options, rate, 0, RDMAMSG_NONE, 100,
		 100000000),
	R(history, 16384, 16, 16384),
	R(history_ms, 100, 1, 60000),
	R(history_bytes, 16 << 20, 1 << 16, 1 << 30),
	R(linger_ms, 500, 1, 3600000),
	R(parity, 0, 0, PARITY_MOST),
	R(flow_quorum, 1, 1, AUDIENCE_MAX),
	R(flow_window, 512, 1, 16384),
	RANGE_OF(struct rdmamsg_group_options, flow_limit_ms, 1000,
		 UINT32_MAX, 1, 3600000),
#undef R
};

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static int copy_text(const char **text)
{
	char *copy = *text ? strdup(*text) : NULL;

	if (*text && !copy)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	*text = copy;
	return 0;
}

static int check_options(const struct rdmamsg_group_options *o)
{
	if (o->flags & ~(uint32_t)FLAGS)
		return rdmamsg__fail(-EINVAL, "flags 0x%x of a group: unknown",
				     o->flags & ~(uint32_t)FLAGS);
	if (o->flags & RDMAMSG_GROUP_UNORDERED &&
	    !(o->flags & RDMAMSG_GROUP_REPAIR))
		return rdmamsg__fail(-EINVAL, "RDMAMSG_GROUP_UNORDERED needs "
				     "RDMAMSG_GROUP_REPAIR: without it no "
				     "message waits for another");
	if ((o->backlog || o->backlog_bytes || o->backlog_ms) &&
	    !(o->flags & RDMAMSG_GROUP_REPAIR))
		return rdmamsg__fail(-EINVAL, "backlog needs "
				     "RDMAMSG_GROUP_REPAIR: without it "
				     "publishers keep nothing");
	if (o->flags & RDMAMSG_GROUP_RAW &&
	    (o->flow || o->backlog || o->backlog_bytes || o->backlog_ms))
		return rdmamsg__fail(-EINVAL, "flow and backlog with "
				     "RDMAMSG_GROUP_RAW: plain datagrams have "
				     "no numbers");
	if (o->flags & RDMAMSG_GROUP_RAW && (o->key || o->key_len ||
					     o->key_file))
		return rdmamsg__fail(-EINVAL, "a key with RDMAMSG_GROUP_RAW: "
				     "plain datagrams have no seal");
	if (o->flow > RDMAMSG_GROUP_FLOW_QUORUM)
		return rdmamsg__fail(-EINVAL, "flow %u of a group: unknown",
				     o->flow);
	if (o->parity && !(o->flags & RDMAMSG_GROUP_REPAIR))
		return rdmamsg__fail(-EINVAL, "parity needs "
				     "RDMAMSG_GROUP_REPAIR: without it no "
				     "message waits for another");
	if (o->flow && !(o->flags & RDMAMSG_GROUP_REPAIR))
		return rdmamsg__fail(-EINVAL, "flow needs "
				     "RDMAMSG_GROUP_REPAIR: without it "
				     "subscribers do not report");
	return 0;
}

static int take_options(struct rdmamsg_group *g,
			const struct rdmamsg_group_options *opts)
{
	struct rdmamsg_group_options *o = &g->opts;
	int ret = rdmamsg__opts_copy(o, sizeof(*o), opts,
				     "rdmamsg_group_options");

	if (!ret)
		ret = rdmamsg__opts_copy(&g->on, sizeof(g->on), o->handlers,
					 "rdmamsg_group_handlers");
	if (!ret)
		ret = rdmamsg__set_ranges(o, ranges,
					  sizeof(ranges) / sizeof(*ranges));
	if (ret) {
		o->source = o->device = NULL;
		return ret;
	}
	ret = copy_text(&o->source);
	if (ret)
		o->source = o->device = NULL;
	else
		ret = copy_text(&o->device);
	if (ret) {
		o->device = NULL;
		return ret;
	}
	ret = check_options(o);
	if (ret)
		return ret;
	if (!(o->flags & BOTH))
		o->flags |= BOTH;
	ret = o->pkey ? rdmamsg__cm_pkey_valid(o->pkey) : 0;
	if (ret)
		return ret;
	if (o->max_held < o->max_message)
		return rdmamsg__fail(-EINVAL, "max_held %u: at least "
				     "max_message, %u", o->max_held,
				     o->max_message);
	ret = rdmamsg__secret_new(o->key, o->key_len, o->key_file, &g->key);
	if (ret)
		return ret;
	/* they are the program's */
	o->key = NULL;
	o->key_file = NULL;
	o->send_depth = pow2(o->send_depth);
	o->history = pow2(o->history);
	g->user = o->user;
	g->room.max = 2 * (size_t)o->max_held;
	g->room.max_message = o->max_message;
	return 0;
}

/* ---- the end ---------------------------------------------------------- */

static void set_reason(struct rdmamsg_group *g, enum rdmamsg_who who,
		       enum rdmamsg_cause cause, int error, const char *fmt,
		       va_list ap)
{
	g->reason.size = sizeof(g->reason);
	g->reason.who = who;
	g->reason.cause = cause;
	g->reason.error = error;
	g->reason.cm_event = -1;
	vsnprintf(g->reason.text, sizeof(g->reason.text), fmt, ap);
}

static void end(struct rdmamsg_group *g)
{
	g->state = GROUP_ENDED;
	list_del(&g->wait_node);
	list_del(&g->node);
	list_add_tail(&g->ctx->groups->dead, &g->node);
	g->ctx->loop.work = true;
	/* a call of the program: on_closed comes with the next turn */
	if (rdmamsg__loop_idle(&g->ctx->loop))
		rdmamsg__loop_kick(&g->ctx->loop);
}

void rdmamsg__group_end(struct rdmamsg_group *g, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error, const char *fmt,
			...)
{
	va_list ap;

	if (g->state == GROUP_ENDED)
		return;
	va_start(ap, fmt);
	set_reason(g, who, cause, error, fmt, ap);
	va_end(ap);
	end(g);
}

void rdmamsg__group_fail(struct rdmamsg_group *g, enum rdmamsg_who who,
			 enum rdmamsg_cause cause, int error, const char *fmt,
			 ...)
{
	va_list ap;

	if (g->state == GROUP_ENDED || g->state == GROUP_LOST)
		return;
	va_start(ap, fmt);
	set_reason(g, who, cause, error, fmt, ap);
	va_end(ap);
	if (g->state == GROUP_JOINED ||
	    (g->lost && g->state != GROUP_LEAVING))
		rdmamsg__group_lost(g);
	else
		end(g);
}

/* Leaves only what was joined. */
void rdmamsg__group_quit(struct rdmamsg_group *g)
{
	struct carrier *c = g->carrier;
	int ret = 0;

	if (!c)
		return;
	if (g->attached)
		ret = rdmamsg__v_detach_mcast(c->v, c->qp, &g->mgid, g->mlid);
	if (ret)
		log_info("detaching from a group: %s", strerror(-ret));
	ret = 0;
	if (g->listed)
		ret = rdmamsg__v_leave_multicast(c->v, c->id,
						 (struct sockaddr *)
						 &g->join_addr);
	if (ret)
		log_info("leaving a group: %s", strerror(-ret));
	g->attached = g->listed = false;
	rdmamsg__roce6_leave(g);
	rdmamsg__unicast_quit(g);
	rdmamsg__carrier_unnote(c, g);
	g->untold_count = 0;
	rdmamsg__carrier_forget_way(c, &g->to);
	rdmamsg__members_quit(g);
	rdmamsg__subscribers_quit(g);
	g->alone = false;
	g->carrier = NULL;
	list_del(&g->wait_node);
	list_del(&g->node);
	rdmamsg__carrier_put(c);
}

static void free_options(struct rdmamsg_group *g)
{
	free((char *)(uintptr_t)g->opts.source);
	free((char *)(uintptr_t)g->opts.device);
}

static void group_free(struct rdmamsg_group *g)
{
	rdmamsg__timer_stop(&g->ctx->loop.timers, &g->timer);
	rdmamsg__timer_stop(&g->ctx->loop.timers, &g->ask);
	rdmamsg__timer_stop(&g->ctx->loop.timers, &g->report);
	rdmamsg__timer_stop(&g->ctx->loop.timers, &g->sweep);
	rdmamsg__timer_stop(&g->ctx->loop.timers, &g->pace_timer);
	rdmamsg__timers_release(&g->ctx->loop.timers, TIMERS);
	rdmamsg__repair_free(g);
	rdmamsg__subscribers_free(g);
	rdmamsg__members_free(g);
	list_del(&g->node);
	rdmamsg__group_quit(g);
	free(g->pending);
	free(g->parity);
	rdmamsg__hmac_free(g->seal);
	rdmamsg__secret_free(g->key);
	free_options(g);
	free(g);
}

void rdmamsg__groups_settle(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->groups->dead)) {
		struct rdmamsg_group *g = list_first(&ctx->groups->dead,
						     struct rdmamsg_group,
						     node);

		ctx->loop.told = true;
		/* a handler that an exception leaves is not called again */
		rdmamsg__flush_end(g);
		if (!g->closed_told) {
			g->closed_told = true;
			rdmamsg__ctx_ended(ctx, g->reason.error);
			rdmamsg__tell(&ctx->loop, g->on.on_closed, g,
				      &g->reason);
		}
		group_free(g);
	}
}

struct rdmamsg_group *rdmamsg__group_any(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->groups->carriers) {
		struct carrier *c = list_entry(n, struct carrier, node);

		if (!list_empty(&c->groups))
			return list_first(&c->groups, struct rdmamsg_group,
					  node);
	}
	return list_empty(&ctx->groups->homeless) ? NULL :
	       list_first(&ctx->groups->homeless, struct rdmamsg_group, node);
}

/* Ends all groups, because the context is being closed. */
void rdmamsg__groups_free(struct rdmamsg *ctx)
{
	struct rdmamsg_group *g;

	while ((g = rdmamsg__group_any(ctx)))
		rdmamsg__group_end(g, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
				   -ECANCELED, "the context was closed");
	rdmamsg__groups_settle(ctx);
	rdmamsg__handles_free(&ctx->groups->table);
}

/* ---- joining ---------------------------------------------------------- */

/* The group may be joined again elsewhere. */
static int prepare_seal(struct rdmamsg_group *g)
{
	rdmamsg__hmac_free(g->seal);
	g->seal = NULL;
	return g->key ? rdmamsg__seal_new(g->key, &g->mgid, &g->seal) : 0;
}

static int prepare_parity(struct rdmamsg_group *g)
{
	if (!g->opts.parity || g->parity ||
	    !(g->opts.flags & RDMAMSG_GROUP_PUBLISH))
		return 0;
	g->parity = rdmamsg__parity_new(g->mtu);
	return g->parity ? 0 : rdmamsg__fail(-ENOMEM, "no memory for a group");
}

int rdmamsg__group_prepare(struct rdmamsg_group *g)
{
	const struct carrier *c = g->carrier;
	int ret;

	if (!g->mtu) {
		g->mtu = c->mtu;
		rdmamsg__group_pace_init(g);
	}
	/* fragments keep their size, because they may be repeated */
	if (c->mtu < g->mtu)
		return rdmamsg__fail(-EMSGSIZE, "the MTU of device %s has "
				     "become smaller: %u instead of %u",
				     c->dev->device->name, c->mtu, g->mtu);
	ret = prepare_seal(g);
	return ret ? ret : prepare_parity(g);
}

static int enter(struct rdmamsg_group *g, const struct rdma_ud_param *ud)
{
	struct carrier *c = g->carrier;
	struct ibv_ah_attr attr = ud->ah_attr;
	int ret;

	g->mgid = attr.grh.dgid;
	ret = rdmamsg__group_prepare(g);
	if (ret)
		return ret;
	g->mlid = attr.dlid;
	g->sl = attr.sl;
	rdmamsg__carrier_address(c, attr.grh.sgid_index);
	g->to = (struct carrier_to){ .qpn = ud->qp_num, .qkey = ud->qkey };
	ret = rdmamsg__v_create_ah(c->v, c->dev->pd, &attr, &g->to.ah);
	if (ret)
		return rdmamsg__fail_verbs(ret, "address handle of a group");
	if (!(g->opts.flags & RDMAMSG_GROUP_SUBSCRIBE))
		return 0;
	ret = rdmamsg__v_attach_mcast(c->v, c->qp, &g->mgid, g->mlid);
	if (ret)
		return rdmamsg__fail_verbs(ret, "attaching to a group");
	g->attached = true;
	return 0;
}

/*
 * Subscribers know the publisher before its first message. So they notice if
 * this message is lost.
 */
static void greet(struct rdmamsg_group *g)
{
	if (!(g->opts.flags & RDMAMSG_GROUP_PUBLISH) ||
	    g->opts.flags & RDMAMSG_GROUP_RAW)
		return;
	for (int i = 0; i < GREETS && !rdmamsg__group_say(g); i++)
		;
}

static void warn_if_alone(const struct rdmamsg_group *g)
{
	const char *alone = rdmamsg__soft_alone(g->carrier->v);

	if (alone)
		log_warn("context %u: the soft HCA joins a group for this host "
			 "only: %s", g->ctx->number, alone);
}

void rdmamsg__group_joined(struct rdmamsg_group *g,
			   const struct rdma_ud_param *ud)
{
	int ret = ud ? rdmamsg__try(enter(g, ud)) : 0;

	if (ret) {
		rdmamsg__group_fail(g, RDMAMSG_WHO_LOCAL,
				    RDMAMSG_CAUSE_RESOURCES, ret, "%s",
				    rdmamsg__text());
		return;
	}
	g->state = GROUP_JOINED;
	g->st.joins++;
	g->joined_at = rdmamsg__now_ms();
	probe(group_joined, g, g->id);
	rdmamsg__timer_stop(&g->ctx->loop.timers, &g->timer);
	warn_if_alone(g);
	greet(g);
	rdmamsg__tell(&g->ctx->loop, g->on.on_joined, g);
	if (g->state != GROUP_JOINED)
		return;
	rdmamsg__repair_joined(g);
	/* subscribers that have joined know by it that it lives */
	if (g->unicast && g->repair)
		rdmamsg__repair_beat(g);
	rdmamsg__ask_joined(g);
	rdmamsg__report_joined(g);
	rdmamsg__group_writable(g);
}

static int join_as(struct rdmamsg_group *g, uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags,
		.addr = (struct sockaddr *)(uintptr_t)
			rdmamsg__group_sockaddr(g),
	};

	return rdmamsg__v_join_multicast(g->carrier->v, g->carrier->id, &attr,
					 g);
}

/*
 * A pure publisher joins as send-only member, because it needs no datagrams of
 * others. Some subnet managers do not support such members, so falls back on
 * full membership (Linux 6.1, cma_join_ib_multicast()).
 */
static int join_cm(struct rdmamsg_group *g)
{
	int ret = -EOPNOTSUPP;

	if (!(g->opts.flags & RDMAMSG_GROUP_SUBSCRIBE))
		ret = join_as(g, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	return ret ? join_as(g, RDMA_MC_JOIN_FLAG_FULLMEMBER) : 0;
}

/* The connection manager joins in the partition of the id. */
static int check_pkey(struct rdmamsg_group *g)
{
	int ret = rdmamsg__try(rdmamsg__cm_check_pkey((uint16_t)g->opts.pkey,
						      g->carrier->id));

	if (ret)
		rdmamsg__group_fail(g, RDMAMSG_WHO_LOCAL,
				    RDMAMSG_CAUSE_UNREACHABLE, ret, "%s",
				    rdmamsg__text());
	return ret;
}

static void start_unicast(struct rdmamsg_group *g)
{
	int ret = rdmamsg__try(rdmamsg__unicast_start(g));

	if (ret) {
		rdmamsg__group_fail(g, RDMAMSG_WHO_LOCAL,
				    RDMAMSG_CAUSE_RESOURCES, ret, "%s",
				    rdmamsg__text());
		return;
	}
	if (!(g->opts.flags & RDMAMSG_GROUP_PUBLISH))
		return;			/* the publisher has to answer */
	g->alone = true;
	rdmamsg__timer_set(&g->ctx->loop.timers, &g->timer, 0);
}

/* Makes no callback, because a call of the program may lead here. */
void rdmamsg__group_ready(struct rdmamsg_group *g)
{
	int ret;

	g->state = GROUP_JOINING;
	if (check_pkey(g))
		return;
	if (g->unicast) {
		start_unicast(g);
		return;
	}
	ret = join_cm(g);
	if (!ret) {
		g->listed = true;
		return;
	}
	if (rdmamsg__roce6_serves(g, ret)) {
		g->alone = true;
		rdmamsg__timer_set(&g->ctx->loop.timers, &g->timer, 0);
		return;
	}
	rdmamsg__group_fail(g, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_RESOURCES, ret,
			    "joining the group: %s", strerror(-ret));
}

/*
 * The soft HCA has found members of another link layer: soft/fabric/groups.h.
 * Only two link layers of the soft HCA have multicast.
 */
static bool is_unlike(const struct rdmamsg_group *g, const struct cm_event *ev)
{
	return ev->type == RDMA_CM_EVENT_MULTICAST_ERROR &&
	       ev->status == -EPROTOTYPE &&
	       (rdmamsg__is_soft(g->carrier->v) || rdmamsg__soft_below());
}

static void refuse_unlike(struct rdmamsg_group *g)
{
	const struct carrier *c = g->carrier;
	struct ibv_port_attr port = { 0 };
	bool ib = !rdmamsg__v_query_port(c->v, c->dev->device->verbs, c->port,
					 &port) &&
		  port.link_layer == IBV_LINK_LAYER_INFINIBAND;

	rdmamsg__group_fail(g, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_UNREACHABLE,
			    -EHOSTUNREACH, "soft HCA: the group has members of "
			    "another link layer: RDMAMSG_SOFT_LINK is %s here "
			    "and %s there: give all members the same one",
			    ib ? "ib" : "ethernet", ib ? "ethernet" : "ib");
}

void rdmamsg__group_event(struct rdmamsg_group *g, const struct cm_event *ev)
{
	if (is_unlike(g, ev))
		refuse_unlike(g);
	else if (ev->type != RDMA_CM_EVENT_MULTICAST_JOIN)
		rdmamsg__group_fail(g, RDMAMSG_WHO_NETWORK,
				    RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH,
				    g->state == GROUP_JOINED ?
				    "the group was lost: %s" :
				    "the group cannot be joined: %s",
				    strerror(-ev->status));
	else if (g->state == GROUP_JOINING)
		rdmamsg__group_joined(g, &ev->ud);
}

/*
 * Joins a group that the connection manager does not support. Nothing answers,
 * so the join is done at once.
 */
static void join_alone(struct rdmamsg_group *g)
{
	struct rdma_ud_param ud;
	int ret = g->unicast ? 0 : rdmamsg__try(rdmamsg__roce6_join(g, &ud));

	if (!ret)
		rdmamsg__group_joined(g, g->unicast ? NULL : &ud);
	else
		rdmamsg__group_fail(g, RDMAMSG_WHO_LOCAL,
				    RDMAMSG_CAUSE_RESOURCES, ret, "%s",
				    rdmamsg__text());
}

static void on_timer(struct timer *t)
{
	struct rdmamsg_group *g = list_entry(t, struct rdmamsg_group, timer);

	switch (g->state) {
	case GROUP_WAITING:
	case GROUP_JOINING:
		if (g->alone)
			join_alone(g);
		else
			rdmamsg__group_fail(g, RDMAMSG_WHO_NETWORK,
					    RDMAMSG_CAUSE_TIMEOUT, -ETIMEDOUT,
					    "the group could not be joined in "
					    "%u ms (timeout_ms)",
					    g->opts.timeout_ms);
		break;
	case GROUP_LOST:
		rdmamsg__group_again(g);
		break;
	case GROUP_LEAVING:
		rdmamsg__leave_timeout(g);
		break;
	default:
		break;
	}
}

/* It publishes without multicast: its address is that of the group. */
static bool listens(const struct rdmamsg_group *g)
{
	return g->unicast && g->opts.flags & RDMAMSG_GROUP_PUBLISH;
}

int rdmamsg__group_start(struct rdmamsg_group *g)
{
	char own[INET6_ADDRSTRLEN];
	struct carrier_wants wants = {
		.source = g->opts.source,
		.device = rdmamsg__asked(g->opts.device),
		.ps = g->opts.flags & RDMAMSG_GROUP_IPOIB ? RDMA_PS_IPOIB :
		      RDMA_PS_UDP,
		.bound = g->is_mgid || listens(g), .unicast = g->unicast,
		.recv_depth = g->opts.recv_depth,
		.send_depth = g->opts.send_depth,
	};
	int ret;

	if (listens(g)) {
		rdmamsg__group_text(g, own);
		wants.source = own;
	}
	rdmamsg__carrier_route(&g->addr, &wants);
	ret = rdmamsg__carrier_get(g->ctx, &g->addr, &wants, g->opts.timeout_ms,
				   &g->carrier);
	if (ret)
		return ret;
	g->state = GROUP_WAITING;
	list_del(&g->node);
	list_add_tail(&g->carrier->groups, &g->node);
	rdmamsg__timer_set(&g->ctx->loop.timers, &g->timer,
			   g->opts.timeout_ms);
	if (g->carrier->state == CARRIER_READY)
		rdmamsg__group_ready(g);
	return 0;
}

static void on_paced(struct timer *t)
{
	rdmamsg__group_writable(list_entry(t, struct rdmamsg_group,
					   pace_timer));
}

int rdmamsg_group_join(struct rdmamsg *ctx, const char *address,
		       const struct rdmamsg_group_options *opts,
		       struct rdmamsg_group **ret_g)
{
	struct rdmamsg_group *g;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_g)
		return rdmamsg__fail(-EINVAL, "rdmamsg_group_join: ret is "
				     "NULL");
	ret = rdmamsg__ctx_takes(ctx);
	if (ret)
		return ret;
	g = calloc(1, sizeof(*g));
	if (!g)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	g->ctx = ctx;
	g->object = ++ctx->objects;
	list_init(&g->node);
	list_init(&g->wait_node);
	list_init(&g->members);
	list_init(&g->room.streams);
	g->socket = -1;
	rdmamsg__timer_init(&g->timer, on_timer);
	ret = take_options(g, opts);
	if (!ret)
		ret = rdmamsg__group_address(g, address);
	if (!ret && (getrandom(&g->id, sizeof(g->id), 0) != sizeof(g->id) ||
		     getrandom(&g->report_id, sizeof(g->report_id), 0) !=
		     sizeof(g->report_id)))
		ret = rdmamsg__fail(-EIO, "no random numbers");
	if (!ret)
		ret = rdmamsg__timers_reserve(&ctx->loop.timers, TIMERS);
	if (ret) {
		rdmamsg__secret_free(g->key);
		free_options(g);
		free(g);
		return ret;
	}
	rdmamsg__ask_init(g);
	rdmamsg__report_init(g);
	rdmamsg__timer_init(&g->pace_timer, on_paced);
	rdmamsg__timer_init(&g->sweep, rdmamsg__members_sweep);
	if (g->opts.flags & RDMAMSG_GROUP_REPAIR &&
	    g->opts.flags & RDMAMSG_GROUP_PUBLISH &&
	    !(g->opts.flags & RDMAMSG_GROUP_RAW))
		ret = rdmamsg__subscribers_new(g);
	if (!ret && g->audience)
		ret = rdmamsg__repair_new(g);
	if (!ret)
		ret = rdmamsg__group_start(g);
	if (ret) {
		group_free(g);
		return ret;
	}
	*ret_g = g;
	return 0;
}

void *rdmamsg_group_user(const struct rdmamsg_group *g)
{
	return g ? g->user : NULL;
}
