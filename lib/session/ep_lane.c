/* SPDX-License-Identifier: BSD-2-Clause */
/* The lane of an endpoint, and its other resources of a device. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/util.h"
#include "device/device.h"
#include "lane/lane.h"
#include "lane/qp.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/connector.h"
#include "session/ctrl.h"
#include "session/ep.h"
#include "session/lobby.h"
#include "session/recv.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/window.h"
#include "wire/flight.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/* The generation detects late completions when an index is used again. */
static int table_add(struct rdmamsg_ep *ep)
{
	struct sessions *s = ep->ctx->sessions;
	uint32_t index;
	int err = rdmamsg__handle_give(&s->table, ep, 0, EP_MAX, &index);

	if (err == -EMFILE)
		return rdmamsg__fail(err, "a context has at most %u endpoints",
				     EP_MAX);
	if (err)
		return rdmamsg__fail(err, "no memory for an endpoint");
	ep->key = index << 8 | (++s->generation & 0xff);
	ep->lane.hot.wr_id = (uint64_t)ep->key << 32;
	return 0;
}

static int get_ops(struct rdmamsg_ep *ep)
{
	ep->send.op_max = ep->lane.sq.total + ep->lane.sq.more +
			  ep->opts.send_queue + RNDV_MAX;
	return rdmamsg__ops_grow(ep);
}

/* If the header fits inline, so do 0 bytes of payload. */
static void set_inline_max(struct rdmamsg_ep *ep)
{
	uint32_t least = PROTO_HDR_LEN + (ep->opts.flags & RDMAMSG_EP_CRC ?
					  PROTO_CRC_LEN : 0);
	uint32_t inl = min(ep->lane.cap.max_inline_data,
			   ep->tuning.inline_max + least);

	ep->send.can_inline = inl >= least;
	ep->send.inline_max = ep->send.can_inline ? inl - least : 0;
}

/* Finds a pool to send from, with at least one buffer. */
static int get_pool(struct rdmamsg_ep *ep, struct rdmamsg_pool *owner,
		    size_t size, struct pool **ret)
{
	int err = rdmamsg__pool_get(ep->lane.dev, DIR_OUT, owner, size, ret);

	if (err)
		return err;
	rdmamsg__pool_use(*ret, false);
	return list_empty(&(*ret)->free_slabs) ?
	       rdmamsg__pool_grow(*ret, 1, NULL) : 0;
}

static int get_pools(struct rdmamsg_ep *ep)
{
	uint32_t size = max(ep->tuning.eager_max + PROTO_HDR_LEN,
			    (uint32_t)PROTO_RECV_MIN);
	int ret = get_pool(ep, ep->opts.send_pool, size, &ep->send.pool);

	if (!ret && ep->tuning.ctrl_pool)
		ret = get_pool(ep, ep->tuning.ctrl_pool, PROTO_RECV_MIN,
			       &ep->ctrl.pool);
	else
		ep->ctrl.pool = ep->send.pool;
	return ret ? ret : rdmamsg__lobby_receives(ep);
}

void rdmamsg__pools_put(struct rdmamsg_ep *ep)
{
	if (ep->send.pool)
		rdmamsg__pool_unuse(ep->send.pool);
	if (ep->ctrl.pool && ep->ctrl.pool != ep->send.pool)
		rdmamsg__pool_unuse(ep->ctrl.pool);
	if (ep->lane.recv_pool && !ep->lane.srq)
		rdmamsg__pool_unuse(ep->lane.recv_pool);
	rdmamsg__lobby_credit(ep);
	ep->send.pool = ep->ctrl.pool = ep->lane.recv_pool = NULL;
}

static int get_dev(struct rdmamsg_ep *ep)
{
	char room[64];
	const char *name = ep->connect.by->device_name(ep, room);

	if (ep->opts.flags & RDMAMSG_EP_GUARD)
		return rdmamsg__dev_single(ep->ctx, ep->lane.v, name,
					   &ep->lane.dev);
	return rdmamsg__dev_get(ep->ctx, ep->lane.v, name, ep->opts.pd,
				&ep->lane.dev);
}

int rdmamsg__ep_resources(struct rdmamsg_ep *ep)
{
	struct rdmamsg_device *d;
	int ret = get_dev(ep);

	if (ret)
		return ret;
	d = ep->lane.dev->device;
	ep->lane.init_depth = (uint8_t)min(ep->tuning.initiator_depth,
				      (uint32_t)d->attr.max_qp_init_rd_atom);
	ep->lane.resp_res = (uint8_t)min(ep->tuning.responder_resources,
				    (uint32_t)d->attr.max_qp_rd_atom);
	ret = rdmamsg__lane_check(&ep->lane, &ep->opts);
	if (!ret)
		ret = table_add(ep);
	if (!ret && ep->opts.srq)
		ret = rdmamsg__srq_join(ep);
	if (!ret)
		ret = rdmamsg__lane_make(&ep->lane, &ep->opts);
	if (!ret)
		ret = get_ops(ep);
	if (!ret)
		ret = get_pools(ep);
	if (ret)
		goto err;
	set_inline_max(ep);
	return 0;

err:
	rdmamsg__ep_resources_free(ep);
	return ret;
}

/* Also frees those of an endpoint that is not complete. */
void rdmamsg__ep_resources_free(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	if (!ep->lane.dev)
		return;
	rdmamsg__lane_destroy_qp(&ep->lane);
	rdmamsg__pools_put(ep);
	rdmamsg__max_msg_forget(ep);
	rdmamsg__srq_leave(ep);
	rdmamsg__lane_unmake(&ep->lane);
	/* after an earlier try, the key may belong to another endpoint */
	rdmamsg__handle_take(&ctx->sessions->table, ep, ep->key >> 8);
	if (ctx->last == ep)
		ctx->last = &rdmamsg__nobody;
	list_del(&ep->starving.node);
	rdmamsg__windows_free(ep);
	rdmamsg__rma_free(ep);
	rdmamsg__ops_free(ep);
	rdmamsg__dev_put(ep->lane.dev);
	ep->lane.dev = NULL;
}

int rdmamsg__qp_attr(struct lane *l, struct ibv_qp_attr *attr, int *mask)
{
	struct rdmamsg_ep *ep = rdmamsg__ep_of(l);
	enum ibv_qp_state state = attr->qp_state;
	int ret = ep->connect.by->attr(ep, attr, mask);

	if (ret == -EINVAL && (ep->connect.passive || state != IBV_QPS_INIT))
		/* the kernel has dropped the request without an event */
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair attributes");
	if (*mask & IBV_QP_MIN_RNR_TIMER)
		/* rdma_cm sets 0, which means the longest time, 655 ms */
		attr->min_rnr_timer = (uint8_t)ep->tuning.min_rnr_timer;
	/* ibv_modify_qp() ignores attributes that the mask excludes */
	rdmamsg__dead_transport(ep, attr);
	return 0;
}

int rdmamsg__qp_init(struct rdmamsg_ep *ep)
{
	struct ibv_qp_attr attr;
	int ret = rdmamsg__failover_check(ep);

	if (!ret)
		ret = rdmamsg__lane_step(&ep->lane, IBV_QPS_INIT, &attr);
	if (ret)
		return ret;
	rdmamsg__rx_refill(ep);
	if (ep->state >= EP_DRAINING)
		return rdmamsg__fail(ep->close.reason.error, "%s",
				     ep->close.reason.text);
	return 0;
}

int rdmamsg__qp_ready(struct rdmamsg_ep *ep)
{
	struct lane *l = &ep->lane;
	int ret;

	ep->connect.by->learn_port(ep);
	ret = rdmamsg__lane_connect(l);
	if (ret)
		return ret;
	ep->reads.free =
		min((uint32_t)l->init_depth, ep->tuning.initiator_depth);
	ep_debug(ep, "qp 0x%x on %s port %u: mtu %u, reads %u/%u",
		 l->hot.qp->qp_num, l->dev->device->name, l->port, l->mtu,
		 l->init_depth, l->resp_res);
	if (ep->carries && !rdmamsg__lane_proves(l))
		return rdmamsg__fail(-EOPNOTSUPP, "%s cannot take over: it "
				     "sends no reads, and its completions do "
				     "not tell what has arrived",
				     l->dev->device->name);
	return 0;
}
