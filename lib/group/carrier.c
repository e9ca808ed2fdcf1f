/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "group/carrier.h"
#include "group/group.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"
#include "session/poll.h"

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

#define GRH		((uint32_t)sizeof(struct ibv_grh))
#define LINE		64u
#define REPOSTS		16u	/* receives posted in one call */
#define INLINE		256u
#define DEAF		20u	/* times as long as it has taken in vain */

/* wr_id: the key, 1 bit for receives, 10 bits of index, 21 bits of slot */
#define WR_RECV		0x80000000u
#define WR_INDEX	21
#define WR_SLOTS	(1u << WR_INDEX)

struct old_ah {
	struct list node;
	struct ibv_ah *ah;
	uint32_t sent;			/* carrier.sent when it was dropped */
};

static uint64_t wr_id(const struct carrier *c, uint32_t low)
{
	return (uint64_t)GROUP_KEY << 32 | c->index << WR_INDEX | low;
}

static uint32_t recv_size(const struct carrier *c)
{
	return (GRH + c->mtu + LINE - 1) / LINE * LINE;
}

static uint8_t *recv_buf(const struct carrier *c, uint32_t slot)
{
	return (uint8_t *)c->recv_mem.mem + (size_t)slot * recv_size(c);
}

static uint32_t send_size(const struct carrier *c)
{
	return (c->mtu + LINE - 1) / LINE * LINE;
}

/* ---- receives --------------------------------------------------------- */

struct recv_slot {
	struct ibv_recv_wr wr;
	struct ibv_sge sge;
};

static int post_receives(struct carrier *c)
{
	struct ibv_recv_wr *bad;
	int ret;

	if (!c->reposts)
		return 0;
	ret = rdmamsg__verbs_ret(ibv_post_recv(c->qp, c->reposts, &bad));
	c->reposts = NULL;
	c->repost_count = 0;
	return ret;
}

static int add_receive(struct carrier *c, uint32_t slot)
{
	struct recv_slot *r = &c->recv_slots[slot];

	r->wr.next = c->reposts;
	c->reposts = &r->wr;
	return ++c->repost_count >= min(REPOSTS, c->recv_depth / 4) ?
	       post_receives(c) : 0;
}

static int make_receives(struct carrier *c)
{
	struct recv_slot *slots = calloc(c->recv_depth, sizeof(*slots));
	int ret = 0;

	c->recv_slots = slots;
	if (!slots)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	for (uint32_t i = 0; i < c->recv_depth && !ret; i++) {
		slots[i].sge = (struct ibv_sge){
			(uintptr_t)recv_buf(c, i), GRH + c->mtu,
			c->recv_mem.mr->lkey,
		};
		slots[i].wr = (struct ibv_recv_wr){
			.wr_id = wr_id(c, WR_RECV | i),
			.sg_list = &slots[i].sge, .num_sge = 1,
		};
		ret = add_receive(c, i);
	}
	if (!ret)
		ret = post_receives(c);
	return ret ? rdmamsg__fail_verbs(ret, "receives of a group") : 0;
}

/* ---- the queue pair --------------------------------------------------- */

static int map(struct carrier *c, struct stretch *s, enum direction dir,
	       size_t size)
{
	int ret;

	*s = (struct stretch){
		.dev = c->dev, .dir = dir, .posted = dir == DIR_IN,
		.size = (size + 4095) & ~(size_t)4095,
	};
	ret = rdmamsg__stretch_map(s, true);
	if (ret)
		s->mem = NULL;		/* unmake() tests it */
	return ret;
}

/* Takes port, P_Key and Q_Key for INIT from the id. */
static int start_qp(struct carrier *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask, ret = rdmamsg__v_init_qp_attr(c->v, c->id, &attr, &mask);

	if (!ret)
		ret = rdmamsg__v_modify_qp(c->v, c->qp, &attr, mask);
	c->port = attr.port_num;
	c->qkey = attr.qkey;
	attr.qp_state = IBV_QPS_RTR;
	if (!ret)
		ret = rdmamsg__v_modify_qp(c->v, c->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	if (!ret)
		ret = rdmamsg__v_modify_qp(c->v, c->qp, &attr,
					   IBV_QP_STATE | IBV_QP_SQ_PSN);
	return ret ? rdmamsg__fail_verbs(ret, "queue pair of a group") : 0;
}

static int make_qp(struct carrier *c)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = c->cq->ibv, .recv_cq = c->cq->ibv,
		.qp_type = IBV_QPT_UD,
		.cap = {
			.max_send_wr = c->send_depth,
			.max_recv_wr = c->recv_depth,
			.max_send_sge = 1, .max_recv_sge = 1,
			.max_inline_data = INLINE,
		},
	};
	int ret = rdmamsg__v_create_qp(c->v, c->dev->pd, &attr, &c->qp);

	if (ret) {
		attr.cap.max_inline_data = 0;
		ret = rdmamsg__v_create_qp(c->v, c->dev->pd, &attr, &c->qp);
	}
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair of a group");
	c->max_inline = attr.cap.max_inline_data;
	return start_qp(c);
}

static int find_mtu(struct carrier *c)
{
	struct ibv_port_attr attr;
	int ret = rdmamsg__v_query_port(c->v, c->dev->device->verbs,
					c->id->port_num, &attr);

	if (ret)
		return rdmamsg__fail_verbs(ret, "port of a group");
	c->mtu = 128u << attr.active_mtu;
	c->is_ib = attr.link_layer != IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static int make(struct carrier *c)
{
	struct id_device on;
	int ret;

	if (!c->v->id_device(c->id, &on))
		return rdmamsg__fail(-ENODEV, "no RDMA device leads to the "
				     "group");
	if (c->device && rdmamsg__asked_by_name(c->device) &&
	    strcmp(c->device, on.name))
		return rdmamsg__fail(-ENODEV, "the way to the group is through "
				     "device %s, not %s", on.name, c->device);
	ret = rdmamsg__dev_get(c->ctx, c->v, on.name, NULL, &c->dev);
	if (ret)
		return ret;
	if (!c->dev->device->attr.max_mcast_grp)
		return rdmamsg__fail(-EOPNOTSUPP, "device %s has no multicast",
				     on.name);
	ret = find_mtu(c);
	if (!ret)
		ret = rdmamsg__cq_get(c->dev, c->send_depth + c->recv_depth, 0,
				      false, &c->cq);
	if (!ret)
		ret = map(c, &c->recv_mem, DIR_IN,
			  (size_t)recv_size(c) * c->recv_depth);
	if (!ret)
		ret = map(c, &c->send_mem, DIR_OUT,
			  (size_t)send_size(c) * c->send_depth);
	if (!ret)
		ret = make_qp(c);
	/* before any join, so that no datagram is missed after it */
	return ret ? ret : make_receives(c);
}

static void drop_old_ahs(struct carrier *c, bool all)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &c->old_ahs) {
		struct old_ah *old = list_entry(n, struct old_ah, node);

		if (!all && (int32_t)(c->done - old->sent) < 0)
			return;
		(void)rdmamsg__v_destroy_ah(c->v, old->ah);
		list_del(n);
		free(old);
	}
}

int rdmamsg__carrier_way(struct carrier *c, const struct carrier_peer *peer,
			 struct carrier_to *ret)
{
	struct ibv_ah_attr attr = {
		.grh = {
			.dgid = peer->gid, .sgid_index = c->sgid_index,
			.hop_limit = 64,
		},
		.is_global = 1, .dlid = peer->slid, .sl = peer->sl,
		.src_path_bits = peer->path_bits, .port_num = c->port,
	};
	struct ibv_ah *ah;
	uint64_t from = rdmamsg__now_ms(), to;
	int err;

	if (from < c->deaf_until)
		return -EAGAIN;
	err = rdmamsg__v_create_ah(c->v, c->dev->pd, &attr, &ah);
	to = rdmamsg__now_ms();
	if (err && to > from)
		c->deaf_until = to + DEAF * (to - from);
	if (!err)
		*ret = (struct carrier_to){ ah, peer->qpn, c->qkey, NULL,
					     false };
	return err;
}

void rdmamsg__carrier_drop_ah(struct carrier *c, struct ibv_ah *ah)
{
	struct old_ah *old;

	if (c->done == c->sent) {
		(void)rdmamsg__v_destroy_ah(c->v, ah);
		return;
	}
	old = malloc(sizeof(*old));
	if (!old) {
		log_error("no memory: an address handle stays");
		return;
	}
	*old = (struct old_ah){ .ah = ah, .sent = c->sent };
	list_add_tail(&c->old_ahs, &old->node);
}

static void unmake(struct carrier *c)
{
	rdmamsg__handle_take(&c->ctx->groups->table, c, c->index);
	if (c->qp && rdmamsg__v_destroy_qp(c->v, c->qp))
		log_error("a queue pair of a group could not be destroyed");
	/*
	 * poll the remaining completions before their CQ entries are given back
	 */
	if (c->cq) {
		rdmamsg__cq_drain(c->ctx, c->cq);
		rdmamsg__cq_put(c->dev, c->cq, c->send_depth + c->recv_depth);
	}
	drop_old_ahs(c, true);
	if (c->recv_mem.mem)
		rdmamsg__stretch_unmap(&c->recv_mem);
	if (c->send_mem.mem)
		rdmamsg__stretch_unmap(&c->send_mem);
	free(c->recv_slots);
	if (c->dev)
		rdmamsg__dev_put(c->dev);
	if (c->id)
		rdmamsg__cm_id_free(c->v, c->id);
}

static void carrier_free(struct carrier *c)
{
	/* no new group finds it while callbacks run, in unmake() */
	list_del(&c->node);
	unmake(c);
	free(c->source);
	free(c->device);
	free(c);
}

/* ---- the connection manager ------------------------------------------- */

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
	int ret = rdmamsg__try(make(c));

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
				      "no way to the group");
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

static int source_addr(const struct carrier *c, const struct sockaddr *group,
		       struct sockaddr_storage *src)
{
	struct addrinfo *ai;

	if (c->source) {
		if (rdmamsg__resolve_numeric(c->source, NULL, 0, &ai))
			return rdmamsg__fail(-EINVAL, "source '%s' is not a "
					     "numeric address", c->source);
		memcpy(src, ai->ai_addr, ai->ai_addrlen);
		freeaddrinfo(ai);
		if (!c->bound && src->ss_family != group->sa_family)
			return rdmamsg__fail(-EINVAL, "source '%s' is not of "
					     "the group's address family",
					     c->source);
		return 1;
	}
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
			return rdmamsg__cm_fail(c->ctx, ret,
						"source of a group");
		ret = make(c);
		if (!ret)
			c->state = CARRIER_READY;
		return ret;
	}
	ret = rdmamsg__v_resolve_addr(c->v, c->id, bound ?
				      (struct sockaddr *)&src : NULL,
				      (struct sockaddr *)(uintptr_t)group, ms);
	return ret ? rdmamsg__cm_fail(c->ctx, ret, "address of a group") : 0;
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

/* A queue pair is at most once in a group; one that has ended is still in it. */
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
	s = socket(group->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
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

/* ---- datagrams -------------------------------------------------------- */

uint32_t rdmamsg__carrier_room(const struct carrier *c)
{
	return c->send_depth - (c->sent - c->done);
}

static uint32_t send_slot(const struct carrier *c)
{
	return c->sent & (c->send_depth - 1);
}

void *rdmamsg__carrier_buffer(struct carrier *c)
{
	if (!rdmamsg__carrier_room(c))
		return NULL;
	return (uint8_t *)c->send_mem.mem +
	       (size_t)send_slot(c) * send_size(c);
}

int rdmamsg__carrier_send(struct carrier *c, uint32_t len,
			  const struct carrier_to *to)
{
	uint32_t slot = send_slot(c), every = c->send_depth / 4;
	struct ibv_sge sge = {
		(uintptr_t)rdmamsg__carrier_buffer(c), len,
		c->send_mem.mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id(c, slot), .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {
			.ah = to->ah, .remote_qpn = to->qpn,
			.remote_qkey = to->qkey,
		},
	};
	int ret;

	if (to->imm) {
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htobe32(*to->imm);
	}
	/* a full queue always has a signaled request that will complete */
	if (slot % every == every - 1 || to->signaled)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (len <= c->max_inline)
		wr.send_flags |= IBV_SEND_INLINE;
	ret = rdmamsg__verbs_ret(ibv_post_send(c->qp, &wr, &bad));
	if (!ret)
		c->sent++;
	return ret;
}

static void map_ipv4(union ibv_gid *gid, const uint8_t addr[static 4])
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, addr, 4);
}

/*
 * RoCE v2 over IPv4 has the IPv4 header in the second half, and nothing useful
 * in the first half (InfiniBand Annex 17, as in ibv_init_ah_from_wc() of
 * rdma-core).
 */
static void addresses(struct datagram *d)
{
	const uint8_t *ip = (const uint8_t *)d->grh + 20;

	if (ip[0] == 0x45 && ip[9] == IPPROTO_UDP &&
	    (((const uint8_t *)d->grh)[0] & 0xf0) != 0x60) {
		map_ipv4(&d->from.gid, ip + 12);
		map_ipv4(&d->to, ip + 16);
	} else {
		d->from.gid = d->grh->sgid;
		d->to = d->grh->dgid;
	}
}

/* Finds the group by the destination GID, which is the MGID in multicast. */
static struct rdmamsg_group *find_group(const struct carrier *c,
					const union ibv_gid *to)
{
	struct list *n;

	list_for_each(n, &c->groups) {
		struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, node);

		if (g->attached && !memcmp(&g->mgid, to, sizeof(*to)))
			return g;
	}
	return NULL;
}

static void received(struct carrier *c, uint32_t slot,
		     const struct ibv_wc *wc)
{
	const uint8_t *buf = recv_buf(c, slot);
	struct datagram d = {
		.data = buf + GRH, .len = wc->byte_len - GRH,
		.from = {
			.qpn = wc->src_qp, .slid = wc->slid, .sl = wc->sl,
			.path_bits = wc->dlid_path_bits,
		},
		.has_imm = wc->wc_flags & IBV_WC_WITH_IMM,
	};
	struct rdmamsg_group *g;

	if (wc->byte_len < GRH || !(wc->wc_flags & IBV_WC_GRH))
		return;
	if (d.has_imm)
		d.imm = be32toh(wc->imm_data);
	d.grh = (const struct ibv_grh *)(const void *)buf;
	addresses(&d);
	g = find_group(c, &d.to);
	if (g)
		rdmamsg__group_datagram(g, &d);
	else
		rdmamsg__group_unicast(c, &d);
}

/* Ends groups whose last datagram has completed. Makes no callbacks. */
static void drain(struct carrier *c)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &c->draining) {
		struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, wait_node);

		if ((int32_t)(c->done - g->drained_at) >= 0)
			rdmamsg__group_left(g);
	}
}

static void sent(struct carrier *c, uint32_t slot)
{
	/* it completes all requests up to its own */
	uint32_t count = ((slot - c->done) & (c->send_depth - 1)) + 1;

	if (count > c->sent - c->done)
		return;
	c->done += count;
	if (unlikely(!list_empty(&c->old_ahs)))
		drop_old_ahs(c, false);
	if (unlikely(!list_empty(&c->draining)))
		drain(c);
	/* a callback may leave any group, but the carrier stays for now */
	while (!list_empty(&c->waiting) && rdmamsg__carrier_room(c)) {
		struct rdmamsg_group *g = list_first(&c->waiting,
						     struct rdmamsg_group,
						     wait_node);

		list_del(&g->wait_node);
		rdmamsg__group_writable(g);
	}
}

static void broken(struct carrier *c, const struct ibv_wc *wc)
{
	char text[128];

	if (c->state != CARRIER_READY)
		return;
	snprintf(text, sizeof(text), "the queue pair of the group has failed: "
		 "%s", ibv_wc_status_str(wc->status));
	rdmamsg__carrier_lost(c, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_TRANSPORT,
			      -EIO, text);
}

void rdmamsg__carrier_done(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	uint32_t low = (uint32_t)wc->wr_id;
	struct carrier *c =
		rdmamsg__handle_of(&ctx->groups->table,
				   (low & ~WR_RECV) >> WR_INDEX);
	uint32_t slot = low & (WR_SLOTS - 1);

	if (!c || !c->qp)
		return;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		broken(c, wc);
	} else if (!(low & WR_RECV)) {
		if (slot < c->send_depth)
			sent(c, slot);
	} else if (slot < c->recv_depth) {
		received(c, slot, wc);
		if (c->state == CARRIER_READY && add_receive(c, slot))
			rdmamsg__carrier_lost(c, RDMAMSG_WHO_DEVICE,
					      RDMAMSG_CAUSE_TRANSPORT, -EIO,
					      "a receive of the group could "
					      "not be posted");
	}
}
