/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair of a carrier, its memory, and address handles of peers. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/page.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "group/carrier.h"
#include "group/group.h"
#include "cm/rdma/cm.h"
#include "memory/stretch.h"
#include "session/poll.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define INLINE		256u
#define DEAF		20u	/* pause after a failed call, in its times */

struct old_ah {
	struct list node;
	struct ibv_ah *ah;
	uint32_t sent;			/* carrier.sent when it was dropped */
};

static int map(struct carrier *c, struct stretch *s, enum direction dir,
	       size_t size)
{
	int ret;

	*s = (struct stretch){
		.dev = c->dev, .dir = dir, .posted = dir == DIR_IN,
		.size = whole_pages(size),
	};
	ret = rdmamsg__stretch_map(s, true);
	if (ret)
		s->mem = NULL;		/* rdmamsg__carrier_unmake() tests it */
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

static int no_multicast(const struct carrier *c, const char *name)
{
	const char *why = "", *mend = "";

	if (rdmamsg__is_iwarp(c->dev->device)) {
		why = ", as no iWARP device has";
		if (rdmamsg__is_soft(c->v) || rdmamsg__soft_below())
			mend = ": RDMAMSG_SOFT_LINK is iwarp here: set it to "
			       "ethernet or ib";
	} else if (c->dev->device->attr.max_mcast_grp) {
		why = " that the library can use: it does not know in which "
		      "order the device completes datagrams";
	}
	if (!*mend && !rdmamsg__is_iwarp(c->dev->device) && !c->unicast)
		mend = ": a group without it is unicast:ADDRESS:PORT, at which "
		       "its publisher listens";
	return rdmamsg__fail(-EOPNOTSUPP, "device %s has no multicast%s%s",
			     name, why, mend);
}

static int make_qp(struct carrier *c)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = (char *)c + CARRIER_TAG,
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
	c->notes = calloc(c->send_depth, sizeof(*c->notes));
	if (!c->notes)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
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

int rdmamsg__carrier_make(struct carrier *c)
{
	struct id_device on;
	int ret;

	if (!c->v->id_device(c->id, &on))
		return rdmamsg__fail(-ENODEV, "no RDMA device leads to the "
				     "group: set source to an address of one");
	if (c->device && rdmamsg__asked_by_name(c->device) &&
	    strcmp(c->device, on.name))
		return rdmamsg__fail(-ENODEV, "the way to the group is through "
				     "device %s, not %s", on.name, c->device);
	ret = rdmamsg__dev_get(c->ctx, c->v, on.name, NULL, &c->dev);
	if (ret)
		return ret;
	if ((!c->dev->device->attr.max_mcast_grp && !c->unicast) ||
	    !rdmamsg__quirks(c->dev->device)->acks_in_order)
		return no_multicast(c, on.name);
	ret = find_mtu(c);
	if (!ret)
		ret = rdmamsg__cq_get(c->dev, c->send_depth + c->recv_depth,
				      VECTOR_ANY, false, &c->cq);
	if (!ret)
		ret = map(c, &c->recv_mem, DIR_IN,
			  (size_t)rdmamsg__carrier_recv_size(c) *
			  c->recv_depth);
	if (!ret)
		ret = map(c, &c->send_mem, DIR_OUT,
			  (size_t)rdmamsg__carrier_send_size(c) *
			  c->send_depth);
	if (!ret)
		ret = make_qp(c);
	/* before any join, so that no datagram is missed after it */
	return ret ? ret : rdmamsg__carrier_receives(c);
}

void rdmamsg__carrier_old_ahs(struct carrier *c, bool all)
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

int rdmamsg__carrier_known_way(struct carrier *c,
			       const struct carrier_peer *peer,
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
	int err = rdmamsg__v_create_ah(c->v, c->dev->pd, &attr, &ah);

	if (!err)
		*ret = (struct carrier_to){
			.ah = ah, .qpn = peer->qpn, .qkey = c->qkey,
		};
	return err;
}

int rdmamsg__carrier_way(struct carrier *c, const struct carrier_peer *peer,
			 struct carrier_to *ret)
{
	uint64_t from = rdmamsg__now_ms(), to;
	int err;

	if (from < c->deaf_until)
		return -EAGAIN;
	err = rdmamsg__carrier_known_way(c, peer, ret);
	to = rdmamsg__now_ms();
	if (err && to > from)
		c->deaf_until = to + DEAF * (to - from);
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

void rdmamsg__carrier_forget_way(struct carrier *c, struct carrier_to *way)
{
	if (way->ah)
		rdmamsg__carrier_drop_ah(c, way->ah);
	way->ah = NULL;
}

void rdmamsg__carrier_unmake(struct carrier *c)
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
	rdmamsg__carrier_old_ahs(c, true);
	if (c->recv_mem.mem)
		rdmamsg__stretch_unmap(&c->recv_mem);
	if (c->send_mem.mem)
		rdmamsg__stretch_unmap(&c->send_mem);
	free(c->recv_slots);
	free(c->notes);
	if (c->dev)
		rdmamsg__dev_put(c->dev);
	if (c->id)
		rdmamsg__cm_id_free(c->v, c->id);
}
