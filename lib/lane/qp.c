/* SPDX-License-Identifier: BSD-2-Clause */
/* What an endpoint needs of a device, and the walk of its queue pair. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/qpmap.h"
#include "base/util.h"
#include "device/async.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "lane/create_flags.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/connector.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/window.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static int check_limits(const struct rdmamsg_ep *ep,
			const struct rdmamsg_device *d, uint32_t send,
			uint32_t recv)
{
	uint32_t limit = (uint32_t)d->attr.max_qp_wr;

	if (send > limit)
		return rdmamsg__fail(-EINVAL, "send_depth %u: device %s allows "
				     "%u (its max_qp_wr is %u, %u are ours)",
				     ep->opts.send_depth, d->name,
				     limit - (send - ep->opts.send_depth),
				     limit, send - ep->opts.send_depth);
	if (recv > limit)
		return rdmamsg__fail(-EINVAL, "recv_depth %u: device %s allows "
				     "%u (its max_qp_wr is %u, %u are ours)",
				     ep->opts.recv_depth, d->name,
				     limit - RECV_RESERVE, limit, RECV_RESERVE);
	return 0;
}

static int check_create_flags(const struct rdmamsg_ep *ep,
			      const struct rdmamsg_device *d)
{
	struct ibv_device_attr_ex attr = { .comp_mask = 0 };
	int ret;

	if (!ep->opts.create_flags)
		return 0;
	ret = rdmamsg__v_query_device_ex(d->v, d->verbs, &attr);
	if (ret)
		return rdmamsg__fail_verbs(ret, "querying the RDMA device");
	return rdmamsg__create_flags_check(ep->opts.create_flags, IBV_QPT_RC,
					   &attr, d->name);
}

/* Inline size has no limit to ask for: the device is asked by trying. */
static int create_qp(struct rdmamsg_ep *ep, uint32_t send, uint32_t recv)
{
	struct rdmamsg_device *d = ep->lane.dev->device;
	const bool ex = ep->opts.create_flags;
	struct ibv_qp_init_attr_ex attr;
	uint32_t inl = ep->opts.inline_max + PROTO_HDR_LEN;
	int ret;

	for (;;) {
		memset(&attr, 0, sizeof(attr));
		attr.qp_context = ep;
		attr.send_cq = ep->lane.cq->ibv;
		attr.recv_cq =
			ep->lane.srq ? ep->lane.srq->cq->ibv : ep->lane.cq->ibv;
		attr.srq = ep->lane.srq ? ep->lane.srq->ibv : NULL;
		attr.qp_type = IBV_QPT_RC;
		attr.cap.max_send_wr = send;
		attr.cap.max_recv_wr = recv;
		attr.cap.max_send_sge = (uint32_t)min(d->attr.max_sge,
						      RDMAMSG_SEGMENTS_MAX);
		attr.cap.max_recv_sge = 1;
		attr.cap.max_inline_data = inl;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD |
				 IBV_QP_INIT_ATTR_CREATE_FLAGS;
		attr.pd = ep->lane.dev->pd;
		attr.create_flags = ep->opts.create_flags;
		/* the extended call is not for a plain one on every device */
		ret = ex ? rdmamsg__v_create_qp_ex(d->v, d->verbs, &attr,
						   &ep->lane.hot.qp) :
			   rdmamsg__v_create_qp(d->v, ep->lane.dev->pd,
						(struct ibv_qp_init_attr *)
						&attr, &ep->lane.hot.qp);
		if (!ret || inl <= PROTO_HDR_LEN)
			break;
		inl = inl > 64 ? inl / 2 : PROTO_HDR_LEN;
	}
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair");
	ep->lane.cap = attr.cap;
	inl = min(attr.cap.max_inline_data,
		  ep->opts.inline_max + PROTO_HDR_LEN);
	/* 0 bytes of payload fit as long as the header does */
	ep->send.can_inline = inl >= PROTO_HDR_LEN;
	ep->send.inline_max = ep->send.can_inline ? inl - PROTO_HDR_LEN : 0;
	return 0;
}

static int table_add(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;
	uint32_t i, size = ctx->sessions->table_size;
	struct rdmamsg_ep **table;

	/*
	 * Starting past the last one used keeps an index unused for long
	 * after it was freed; the generation is for what comes even later.
	 */
	for (i = 0; i < size; i++) {
		uint32_t at = (ctx->sessions->table_hint + i) % size;

		if (!ctx->sessions->table[at]) {
			i = at;
			goto found;
		}
	}
	if (size >= EP_MAX)
		return rdmamsg__fail(-EMFILE,
				     "a context has at most %u endpoints",
				     EP_MAX);
	size = size ? 2 * size : 16;
	table = realloc(ctx->sessions->table, size * sizeof(*table));
	if (!table)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	memset(table + ctx->sessions->table_size, 0,
	       (size - ctx->sessions->table_size) * sizeof(*table));
	i = ctx->sessions->table_size;
	ctx->sessions->table = table;
	ctx->sessions->table_size = size;
found:
	ctx->sessions->table[i] = ep;
	ctx->sessions->table_hint = i + 1;
	ep->key = i << 8 | (++ctx->sessions->generation & 0xff);
	ep->lane.hot.wr_id = (uint64_t)ep->key << 32;
	return 0;
}

static int alloc_queues(struct rdmamsg_ep *ep, uint32_t send, uint32_t recv)
{
	ep->lane.sq.mask = pow2(send) - 1;
	ep->lane.sq.ops = 0;
	ep->lane.sq.slots =
		calloc(ep->lane.sq.mask + 1, sizeof(*ep->lane.sq.slots));
	ep->lane.rq.slots =
		recv ? calloc(recv, sizeof(*ep->lane.rq.slots)) : NULL;
	if (!ep->lane.sq.slots || (recv && !ep->lane.rq.slots))
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	ep->send.op_max = send + ep->opts.send_queue + RNDV_MAX;
	return rdmamsg__ops_grow(ep);
}

/* What does not change from one inline message to the next. */
static void tx_inline(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;

	h->sge[0].addr = (uintptr_t)&h->hdr;
	h->sge[0].length = PROTO_HDR_LEN;
	h->wr.sg_list = h->sge;
	h->wr.opcode = IBV_WR_SEND;
	h->wr.send_flags = IBV_SEND_INLINE;
	h->signal_every = ep->opts.flags & RDMAMSG_EP_SIGNAL_ALL ? 1 :
		max(min(ep->opts.send_depth / 4, 32u), 1u);
	h->signal_at = (uint32_t)h->sq_posted + h->signal_every - 1;
}

/* A pool to send from, with a buffer to begin with. */
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
	uint32_t size = max(ep->opts.eager_max + PROTO_HDR_LEN,
			    (uint32_t)PROTO_RECV_MIN);
	int ret = get_pool(ep, ep->opts.send_pool, size, &ep->send.pool);

	if (!ret && ep->opts.ctrl_pool)
		ret = get_pool(ep, ep->opts.ctrl_pool, PROTO_RECV_MIN,
			       &ep->ctrl.pool);
	else
		ep->ctrl.pool = ep->send.pool;
	return ret ? ret : rdmamsg__lobby_receives(ep);
}

static void put_pools(struct rdmamsg_ep *ep)
{
	if (ep->send.pool)
		rdmamsg__pool_unuse(ep->send.pool);
	if (ep->ctrl.pool && ep->ctrl.pool != ep->send.pool)
		rdmamsg__pool_unuse(ep->ctrl.pool);
	if (ep->lane.recv_pool && !ep->lane.srq)
		rdmamsg__pool_unuse(ep->lane.recv_pool);
	rdmamsg__lobby_credit(ep);
	ep->send.pool = ep->ctrl.pool = ep->lane.recv_pool = NULL;
	rdmamsg__max_msg_forget(ep);
}

static int get_dev(struct rdmamsg_ep *ep)
{
	char room[64];
	const char *name = ep->connect.by->device(ep, room);

	if (ep->opts.flags & RDMAMSG_EP_GUARD)
		return rdmamsg__dev_single(ep->ctx, ep->lane.v, name,
					   &ep->lane.dev);
	return rdmamsg__dev_get(ep->ctx, ep->lane.v, name, ep->opts.pd,
				&ep->lane.dev);
}

int rdmamsg__ep_resources(struct rdmamsg_ep *ep)
{
	struct rdmamsg_device *d;
	uint32_t send, recv;
	int ret = get_dev(ep);

	if (ret)
		return ret;
	d = ep->lane.dev->device;
	ret = rdmamsg__device_carries(d->name,
				      d->verbs->device->transport_type);
	if (ret)
		goto err;
	ep->lane.init_depth = (uint8_t)min(ep->opts.initiator_depth,
				      (uint32_t)d->attr.max_qp_init_rd_atom);
	ep->lane.resp_res = (uint8_t)min(ep->opts.responder_resources,
				    (uint32_t)d->attr.max_qp_rd_atom);
	send = ep->opts.send_depth + ep->opts.initiator_depth + SEND_RESERVE;
	recv = ep->opts.srq ? 0 : ep->opts.recv_depth + RECV_RESERVE;
	ret = check_create_flags(ep, d);
	if (!ret)
		ret = check_limits(ep, d, send, recv);
	if (ret)
		goto err;
	ret = table_add(ep);
	if (ret)
		goto err;
	if (ep->opts.srq)
		ret = rdmamsg__srq_join(ep);
	if (ret)
		goto err;
	ret = alloc_queues(ep, send, recv);
	if (ret)
		goto err;
	ret = rdmamsg__cq_get(ep->lane.dev->queues, send + recv,
			      ep->opts.comp_vector,
			      ep->opts.flags & RDMAMSG_EP_OWN_CQ, &ep->lane.cq);
	if (ret)
		goto err;
	ep->lane.cq_share = send + recv;
	ret = create_qp(ep, send, recv);
	if (!ret && ep->lane.srq)
		ret = rdmamsg__qpmap_add(&ep->lane.dev->qps, ep->lane.hot.qp->qp_num,
					 ep);
	if (ret)
		goto err;
	ret = get_pools(ep);
	if (ret)
		goto err;
	ep->lane.sq.data = ep->opts.send_depth;
	ep->lane.sq.total = send;
	ep->lane.doubts_reads = rdmamsg__quirks(d)->doubtful_reads;
	ep->lane.doubted = 0;
	tx_inline(ep);
	return 0;

err:
	rdmamsg__ep_resources_free(ep);
	return ret;
}

void rdmamsg__qp_destroy(struct rdmamsg_ep *ep)
{
	int ret;

	if (!ep->lane.hot.qp)
		return;
	if (ep->lane.srq)
		rdmamsg__qpmap_del(&ep->lane.dev->qps, ep->lane.hot.qp->qp_num);
	ret = rdmamsg__v_destroy_qp(ep->lane.v, ep->lane.hot.qp);
	if (ret) {
		log_error("qp 0x%x could not be destroyed: %s",
			  ep->lane.hot.qp->qp_num, strerror(-ret));
		rdmamsg__async_forget(ep->lane.dev->device, ep->lane.hot.qp);
	}
	ep->lane.hot.qp = NULL;
}

/* Also of a half-built endpoint. */
void rdmamsg__ep_resources_free(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	if (!ep->lane.dev)
		return;
	rdmamsg__qp_destroy(ep);
	put_pools(ep);
	rdmamsg__srq_leave(ep);
	if (ep->lane.cq)
		rdmamsg__cq_put(ep->lane.dev->queues, ep->lane.cq,
				ep->lane.cq_share);
	ep->lane.cq = NULL;
	/* of an earlier try, the key may be somebody else's by now */
	if (ep->key >> 8 < ctx->sessions->table_size &&
	    ctx->sessions->table[ep->key >> 8] == ep)
		ctx->sessions->table[ep->key >> 8] = NULL;
	if (ctx->last == ep)
		ctx->last = &rdmamsg__nobody;
	list_del(&ep->starving.node);
	rdmamsg__windows_free(ep);
	rdmamsg__rma_free(ep);
	free(ep->lane.sq.slots);
	free(ep->lane.rq.slots);
	rdmamsg__ops_free(ep);
	ep->lane.sq.slots = NULL;
	ep->lane.rq.slots = ep->lane.rq.head = NULL;
	rdmamsg__dev_put(ep->lane.dev);
	ep->lane.dev = NULL;
}

static bool has_atomics(const struct rdmamsg_ep *ep)
{
	return ep->lane.dev->device->attr.atomic_cap != IBV_ATOMIC_NONE;
}

static int walk(struct rdmamsg_ep *ep, enum ibv_qp_state state,
		struct ibv_qp_attr *attr)
{
	const struct verbs_api *v = ep->lane.v;
	int mask, ret;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	ret = ep->connect.by->attr(ep, attr, &mask);
	if (ret == -EINVAL && (ep->connect.passive || state != IBV_QPS_INIT))
		/* the kernel has dropped the request, and does not say so */
		return rdmamsg__fail(-ECONNRESET,
				     "the peer has gone meanwhile");
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair attributes");
	if (mask & IBV_QP_ACCESS_FLAGS)
		/*
		 * rdma_cm knows only later what the peer may do: read, for
		 * rendezvous, and write, for keepalives (of no bytes); what
		 * memory it reaches, the keys given to it decide
		 */
		attr->qp_access_flags = IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_WRITE |
					(has_atomics(ep) ?
					 IBV_ACCESS_REMOTE_ATOMIC : 0);
	/* rdma_cm knows what the peer has, not what was asked for here */
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr->max_dest_rd_atomic = min(attr->max_dest_rd_atomic,
					       ep->lane.resp_res);
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr->max_rd_atomic =
			min(attr->max_rd_atomic, ep->lane.init_depth);
	if (mask & IBV_QP_MIN_RNR_TIMER)
		/* rdma_cm leaves 0 here, which is the longest: 655 ms */
		attr->min_rnr_timer = (uint8_t)ep->opts.min_rnr_timer;
	/* the mask says in which step they count */
	rdmamsg__dead_transport(ep, attr);
	ret = rdmamsg__v_modify_qp(v, ep->lane.hot.qp, attr, mask);
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair");
	return 0;
}

int rdmamsg__qp_init(struct rdmamsg_ep *ep)
{
	struct ibv_qp_attr attr;
	int ret = walk(ep, IBV_QPS_INIT, &attr);

	if (ret)
		return ret;
	rdmamsg__rx_refill(ep);
	if (ep->state >= EP_DRAINING)
		return rdmamsg__fail(ep->close.reason.error, "%s",
				     ep->close.reason.text);
	return 0;
}

/* The port it is on, and what that carries at once. */
static int take_port(struct rdmamsg_ep *ep)
{
	struct ibv_port_attr port;
	int ret;

	ep->connect.by->port(ep);
	ret = rdmamsg__v_query_port(ep->lane.v, ep->lane.dev->device->verbs,
				    ep->lane.port, &port);
	if (ret)
		return rdmamsg__fail_verbs(ret, "querying the port");
	ep->lane.chunk = READ_CHUNK;
	if (port.max_msg_sz)
		ep->lane.chunk = min(ep->lane.chunk, port.max_msg_sz);
	return 0;
}

int rdmamsg__qp_ready(struct rdmamsg_ep *ep)
{
	struct ibv_qp_attr attr;
	int ret = take_port(ep);

	if (!ret)
		ret = walk(ep, IBV_QPS_RTR, &attr);
	if (ret)
		return ret;
	ep->lane.mtu = 128u << attr.path_mtu;
	ep->lane.peer_qp_num = attr.dest_qp_num;
	ep->lane.resp_res = attr.max_dest_rd_atomic;
	ret = walk(ep, IBV_QPS_RTS, &attr);
	if (ret)
		return ret;
	ep->lane.init_depth = attr.max_rd_atomic;
	ep->reads.free = min((uint32_t)ep->lane.init_depth,
			     ep->opts.initiator_depth);
	log_info("ep %p qp 0x%x on %s port %u: mtu %u, reads %u/%u", (void *)ep,
		 ep->lane.hot.qp->qp_num, ep->lane.dev->device->name, ep->lane.port,
		 ep->lane.mtu, ep->lane.init_depth, ep->lane.resp_res);
	return 0;
}

int rdmamsg__qp_error(struct rdmamsg_ep *ep)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return rdmamsg__v_modify_qp(ep->lane.v, ep->lane.hot.qp, &attr,
				    IBV_QP_STATE);
}
