/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics and negotiated values. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/page.h"
#include "base/util.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/pool.h"
#include "cm/connect.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

int rdmamsg_ep_get_stats(const struct rdmamsg_ep *ep,
			 struct rdmamsg_stats *stats)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };
	int ret = rdmamsg__ep_look(ep);

	if (ret)
		return ret;
	rdmamsg__ep_stats_add(&s, ep);
	return rdmamsg__give(stats, &s, sizeof(s));
}

int rdmamsg_get_stats(const struct rdmamsg *ctx, struct rdmamsg_stats *stats)
{
	struct rdmamsg_stats s;
	struct list *n;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	s = ctx->sessions->st;
	list_for_each(n, &ctx->sessions->eps)
		rdmamsg__ep_stats_add(&s,
				      list_entry(n, struct rdmamsg_ep, node));
	list_for_each(n, &ctx->devices->devs)
		s.msgs_lent += list_entry(n, struct dev, node)->msgs_out;
	s.endpoints = (uint64_t)ctx->sessions->ep_count;
	s.bytes_registered = rdmamsg__registered(ctx);
	return rdmamsg__give(stats, &s, sizeof(s));
}

/*
 * Sets the memory that an idle endpoint uses, without the device's own memory.
 */
static void memory(const struct rdmamsg_ep *ep, struct rdmamsg_ep_attr *i)
{
	i->bytes_private = whole_pages(sizeof(*ep));
	if (!ep->lane.dev)
		return;
	i->bytes_pinned = (uint64_t)rdmamsg__rq_posted(&ep->lane) *
			  ep->lane.recv_pool->buf_size;
	i->bytes_private +=
		(ep->lane.sq.mask + 1) *
			(sizeof(*ep->lane.sq.slots) +
			 (ep->lane.came ? sizeof(*ep->lane.came) : 0)) +
		ep->lane.rq.target * (sizeof(*ep->lane.rq.slots) +
				      sizeof(struct rdmamsg_msg)) +
		ep->send.op_count * sizeof(struct op);
}

int rdmamsg_ep_query(const struct rdmamsg_ep *ep, struct rdmamsg_ep_attr *attr)
{
	struct rdmamsg_ep_attr i = { .size = sizeof(i) };
	int ret = rdmamsg__ep_look(ep);

	if (ret)
		return ret;
	memcpy(&i.local, &ep->connect.local_addr, sizeof(union ep_addr));
	memcpy(&i.peer, &ep->connect.peer_addr, sizeof(union ep_addr));
	snprintf(i.device, sizeof(i.device), "%s", rdmamsg_ep_device_name(ep));
	i.port = ep->lane.port;
	i.qp_num = ep->lane.hot.qp ? ep->lane.hot.qp->qp_num : 0;
	i.peer_qp_num = ep->lane.peer_qp_num;
	i.mtu = ep->lane.mtu;
	memcpy(i.gid, ep->lane.gid.raw, sizeof(i.gid));
	i.inline_max = ep->send.can_inline ? ep->send.inline_max : 0;
	i.eager_max = ep->send.copy_max;
	i.pieces_max = ep->send.pieces_max;
	i.crc = ep->send.crc;
	i.max_send = ep->connect.peer.max_msg;
	i.max_receive = ep->rndv.announced_max ? ep->rndv.announced_max :
			ep->opts.max_msg_size;
	i.send_credits = ep->credit.limit - rdmamsg__tx_number(ep);
	i.send_depth = ep->tuning.send_depth;
	i.recv_depth = ep->tuning.recv_depth;
	i.responder_resources = ep->lane.resp_res;
	i.initiator_depth = ep->lane.init_depth;
	i.max_inline_data = ep->lane.cap.max_inline_data;
	i.max_send_sge = ep->lane.cap.max_send_sge;
	i.max_recv_sge = ep->lane.cap.max_recv_sge;
	if (ep->lane.cq) {
		i.cq_entries = (uint32_t)ep->lane.cq->ibv->cqe;
		i.comp_vector = ep->lane.cq->vector;
	}
	i.version = ep->connect.version;
	i.one_sided = ep->connect.features & PROTO_FEATURE_RMA ? 1 : 0;
	i.send_invalidate =
		ep->connect.features & PROTO_FEATURE_INVALIDATE ? 1 : 0;
	if (ep->lane.dev && ep->lane.dev->device) {
		i.atomic_scope = rdmamsg__atomic_scope(ep->lane.dev->device);
		i.guard = ep->lane.dev->single ? RDMAMSG_GUARD_DOMAIN :
					    RDMAMSG_GUARD_ADDRESS;
	}
	i.way = rdmamsg__ep_way(ep);
	memcpy(i.session, ep->connect.session, sizeof(i.session));
	memory(ep, &i);
	return rdmamsg__give(attr, &i, sizeof(i));
}

int rdmamsg_ep_verbs(const struct rdmamsg_ep *ep,
		     struct rdmamsg_ep_objects *ret)
{
	struct rdmamsg_ep_objects v = { .size = sizeof(v) };

	if (!ep)
		return rdmamsg__fail(-EINVAL, "rdmamsg_ep_verbs: ep is NULL");
	v.qp = ep->lane.hot.qp;
	if (ep->lane.dev && ep->lane.dev->device)
		v.pd = ep->lane.dev->pd;
	return rdmamsg__give(ret, &v, sizeof(v));
}
