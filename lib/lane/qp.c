/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair of a lane and its queues: made, connected, freed. */
#include "base/base.h"
#include "base/qpmap.h"
#include "base/util.h"
#include "device/async.h"
#include "device/cached.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/late.h"
#include "device/masked.h"
#include "device/proof.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "lane/create_flags.h"
#include "lane/lane.h"
#include "lane/qp.h"
#include "lane/srq.h"
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

#define SLOTS_FEW	64u

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static int check_limits(const struct rdmamsg_ep_options *o,
			const struct rdmamsg_device *d, uint32_t send,
			uint32_t recv)
{
	uint32_t limit = (uint32_t)d->attr.max_qp_wr;

	if (send > limit)
		return rdmamsg__fail(-EINVAL, "send_depth %u: device %s allows "
				     "%u (its max_qp_wr is %u, %u are ours)",
				     o->tuning->send_depth, d->name,
				     limit - (send - o->tuning->send_depth),
				     limit, send - o->tuning->send_depth);
	if (recv > limit)
		return rdmamsg__fail(-EINVAL, "recv_depth %u: device %s allows "
				     "%u (its max_qp_wr is %u, %u are ours)",
				     o->tuning->recv_depth, d->name,
				     limit - RECV_RESERVE, limit, RECV_RESERVE);
	return 0;
}

static int check_create_flags(const struct rdmamsg_ep_options *o,
			      const struct rdmamsg_device *d)
{
	struct ibv_device_attr_ex attr;
	int ret;

	if (!o->tuning->create_flags)
		return 0;
	ret = rdmamsg__cache_extended(d, &attr);
	if (ret)
		return ret;
	return rdmamsg__create_flags_check(o->tuning->create_flags, IBV_QPT_RC,
					   &attr, d->name);
}

static uint32_t sends_of(const struct rdmamsg_ep_options *o)
{
	return o->tuning->send_depth + o->tuning->initiator_depth +
	       SEND_RESERVE;
}

static uint32_t receives_of(const struct rdmamsg_ep_options *o)
{
	return o->srq ? 0 : o->tuning->recv_depth + RECV_RESERVE;
}

int rdmamsg__lane_check(const struct lane *l,
			const struct rdmamsg_ep_options *o)
{
	const struct rdmamsg_device *d = l->dev->device;
	int ret = check_create_flags(o, d);

	if (!ret && o->srq && o->srq->opts.overcommit > 100 &&
	    rdmamsg__quirks(d)->cm_only)
		ret = rdmamsg__fail(-EOPNOTSUPP, "srq with overcommit %u: "
				    "device %s is iWARP, which ends a "
				    "connection when a message finds no "
				    "receive; only 100 is possible",
				    o->srq->opts.overcommit, d->name);
	return ret ? ret : check_limits(o, d, sends_of(o), receives_of(o));
}

/*
 * Makes a queue pair from attributes. If the device has masked atomics, the
 * queue pair also takes raw requests. All other requests are posted as ever,
 * since rdma-core lets both kinds interleave (ibv_wr_post(3)).
 */
static int make_qp(struct lane *l, struct ibv_qp_init_attr_ex *attr)
{
	struct rdmamsg_device *d = l->dev->device;
	const struct masked_caps masked = rdmamsg__device_masked(d);
	const bool has = masked_has(&masked, MASKED_SMALL);
	int ret = has ? rdmamsg__raw_create_qp(d, attr, &l->hot.qp) :
			-EOPNOTSUPP;

	l->raw = !ret;
	l->masked_swapped = masked.swapped;
	l->masked_sizes = has && (l->raw || d->v->post_masked) ?
			  (uint8_t)masked.sizes : 0;
	if (ret != -EOPNOTSUPP)
		return ret;
	/* some devices lack the extended call */
	return attr->create_flags ?
	       rdmamsg__v_create_qp_ex(d->v, d->verbs, attr, &l->hot.qp) :
	       rdmamsg__v_create_qp(d->v, l->dev->pd,
				    (struct ibv_qp_init_attr *)attr,
				    &l->hot.qp);
}

/* No attribute tells the largest inline size, so try smaller sizes. */
static int create_qp(struct lane *l, const struct rdmamsg_ep_options *o,
		     uint32_t send, uint32_t recv)
{
	struct rdmamsg_device *d = l->dev->device;
	struct ibv_qp_init_attr_ex attr;
	uint32_t inl = o->tuning->inline_max + PROTO_HDR_LEN +
		       (o->flags & RDMAMSG_EP_CRC ? PROTO_CRC_LEN : 0);
	int ret;

	for (;;) {
		memset(&attr, 0, sizeof(attr));
		attr.qp_context = l;
		attr.send_cq = l->cq->ibv;
		attr.recv_cq =
			l->srq ? l->srq->cq->ibv : l->cq->ibv;
		attr.srq = l->srq ? l->srq->ibv : NULL;
		attr.qp_type = IBV_QPT_RC;
		attr.cap.max_send_wr = send;
		attr.cap.max_recv_wr = recv;
		attr.cap.max_send_sge = (uint32_t)min(d->attr.max_sge,
						      RDMAMSG_SEGMENTS_MAX);
		attr.cap.max_recv_sge = 1;
		attr.cap.max_inline_data = inl;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD;
		if (o->tuning->create_flags)
			attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		attr.pd = l->dev->pd;
		attr.create_flags = o->tuning->create_flags;
		ret = make_qp(l, &attr);
		if (!ret || inl <= PROTO_HDR_LEN)
			break;
		inl = inl > 64 ? inl / 2 : PROTO_HDR_LEN;
	}
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair");
	l->cap = attr.cap;
	return 0;
}

static int alloc_queues(struct lane *l, uint32_t send, uint32_t recv,
			uint32_t slots)
{
	const bool alone = !rdmamsg__quirks(l->dev->device)->acks_in_order;

	l->sq.mask = slots - 1;
	l->sq.ops = 0;
	l->sq.slots =
		calloc(l->sq.mask + 1, sizeof(*l->sq.slots));
	l->came =
		alone ? calloc(l->sq.mask + 1, sizeof(*l->came)) : NULL;
	l->rq.slots =
		recv ? calloc(recv, sizeof(*l->rq.slots)) : NULL;
	if (!l->sq.slots || (alone && !l->came) || (recv && !l->rq.slots))
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	return 0;
}

/* The slots that a lane begins with. The reserve fits in any case. */
static uint32_t first_slots(const struct lane *l, uint32_t send,
			    const struct rdmamsg_ep_options *o)
{
	uint32_t few = max(SLOTS_FEW, pow2(send - o->tuning->send_depth + 1));

	return l->srq ? min(few, pow2(send)) : pow2(send);
}

bool rdmamsg__sq_grow(struct lane *l)
{
	const uint32_t size = 2 * (l->sq.mask + 1);
	struct op **slots;
	uint8_t *came;
	uint32_t n;

	if (!l->sq.more)
		return false;
	slots = calloc(size, sizeof(*slots));
	came = l->came ? calloc(size, sizeof(*came)) : NULL;
	if (!slots || (l->came && !came)) {
		free(slots);
		free(came);
		return false;		/* it is tried again */
	}
	for (uint32_t i = l->sq.done; i != (uint32_t)l->hot.sq_posted; i++) {
		slots[i & (size - 1)] = l->sq.slots[i & l->sq.mask];
		if (came)
			came[i & (size - 1)] = l->came[i & l->sq.mask];
	}
	free(l->sq.slots);
	free(l->came);
	l->sq.slots = slots;
	l->came = came;
	n = min(l->sq.more, l->sq.mask + 1);
	l->sq.mask = size - 1;
	l->sq.data += n;
	l->sq.total += n;
	l->sq.more -= n;
	return true;
}

bool rdmamsg__may_tear(const struct lane *l, uint32_t len)
{
	return len <= rdmamsg__quirks(l->dev->device)->torn_max;
}

void rdmamsg__sq_came(struct lane *l, uint32_t seq, uint8_t how)
{
	uint8_t *at = &l->came[seq & l->sq.mask];
	const uint32_t n = (seq - l->sq.done) & 0x7fffffffu;

	if (*at != CAME_NOT)
		return;			/* twice: a broken device */
	*at = how;
	for (uint32_t i = n + 1; how != CAME_WELL && i < rdmamsg__sq_used(l);
	     i++) {
		at = &l->came[(l->sq.done + i) & l->sq.mask];
		if (*at == CAME_WELL)
			*at = CAME_CANCELED;
	}
}

/* Sets what is the same for all inline messages. */
static void set_inline(struct lane *l,
		       const struct rdmamsg_ep_options *o)
{
	struct rdmamsg_hot_ep *h = &l->hot;

	h->wr.sg_list = &h->sge;
	h->wr.opcode = IBV_WR_SEND_WITH_IMM;
	h->wr.send_flags = IBV_SEND_INLINE;
	h->signal_every = o->flags & RDMAMSG_EP_SIGNAL_ALL || l->came ? 1 :
		max(min(o->tuning->send_depth / 4, 32u), 1u);
	h->signal_at = (uint32_t)h->sq_posted + h->signal_every - 1;
}

int rdmamsg__lane_make(struct lane *l, const struct rdmamsg_ep_options *o)
{
	const uint32_t send = sends_of(o), recv = receives_of(o);
	const uint32_t slots = first_slots(l, send, o);
	int ret = alloc_queues(l, send, recv, slots);

	if (ret)
		return ret;
	ret = l->came ? rdmamsg__dev_proof_open(l->dev) : 0;
	if (ret)
		return ret;
	ret = rdmamsg__cq_get(l->dev->queues, send + recv,
			      o->tuning->comp_vector,
			      o->flags & RDMAMSG_EP_OWN_CQ, &l->cq);
	if (ret)
		return ret;
	l->cq_share = send + recv;
	ret = create_qp(l, o, send, recv);
	if (!ret && l->srq)
		ret = rdmamsg__qpmap_add(&l->dev->qps, l->hot.qp->qp_num, l);
	if (ret)
		return ret;
	l->sq.total = min(send, slots);
	l->sq.more = send - l->sq.total;
	l->sq.data = o->tuning->send_depth - l->sq.more;
	l->doubts_reads = rdmamsg__quirks(l->dev->device)->doubtful_reads;
	l->flushes_failures = rdmamsg__flushes_failures(l->dev->device);
	l->read_done = l->sq.done - 1;	/* none */
	l->failed = l->drained = l->last_wqe = false;
	l->refused_peer = false;
	set_inline(l, o);
	return 0;
}

void rdmamsg__lane_destroy_qp(struct lane *l)
{
	int ret;

	if (!l->hot.qp)
		return;
	if (l->srq)
		rdmamsg__qpmap_del(&l->dev->qps, l->hot.qp->qp_num);
	ret = rdmamsg__v_destroy_qp(l->v, l->hot.qp);
	if (ret) {
		log_error("qp 0x%x could not be destroyed: %s",
			  l->hot.qp->qp_num, strerror(-ret));
		rdmamsg__async_forget(l->dev->device, l->hot.qp);
	}
	l->hot.qp = NULL;
}

void rdmamsg__lane_give_qp(struct lane *l, struct late_qp *ret)
{
	if (!l->hot.qp || rdmamsg__lane_error(l) ||
	    rdmamsg__late_take(l->dev, l->hot.qp, l->cq, l->cq_share, ret))
		return;
	if (l->srq)
		rdmamsg__qpmap_del(&l->dev->qps, l->hot.qp->qp_num);
	l->hot.qp = NULL;
	l->cq = NULL;
}

void rdmamsg__lane_unmake(struct lane *l)
{
	rdmamsg__lane_destroy_qp(l);
	if (l->cq)
		rdmamsg__cq_put(l->dev->queues, l->cq, l->cq_share);
	l->cq = NULL;
	free(l->sq.slots);
	free(l->came);
	free(l->rq.slots);
	l->sq.slots = NULL;
	l->came = NULL;
	l->rq.slots = l->rq.head = NULL;
}

static bool has_atomics(const struct lane *l)
{
	return l->dev->device->attr.atomic_cap != IBV_ATOMIC_NONE;
}

int rdmamsg__lane_step(struct lane *l, enum ibv_qp_state state,
		       struct ibv_qp_attr *attr)
{
	int mask, ret;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	ret = l->on->attr(l, attr, &mask);
	if (ret)
		return ret;
	if (mask & IBV_QP_ACCESS_FLAGS)
		/*
		 * rdma_cm sets the access flags only later. The peer reads for
		 * rendezvous, and writes 0 bytes as keepalive. Its keys decide
		 * which memory it reaches.
		 */
		attr->qp_access_flags = IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_WRITE |
					(has_atomics(l) ?
					 IBV_ACCESS_REMOTE_ATOMIC : 0);
	/* rdma_cm has the depths of the peer, so apply ours as well */
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr->max_dest_rd_atomic = min(attr->max_dest_rd_atomic,
					       l->resp_res);
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr->max_rd_atomic =
			min(attr->max_rd_atomic, l->init_depth);
	ret = rdmamsg__v_modify_qp(l->v, l->hot.qp, attr, mask);
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair");
	return 0;
}

int rdmamsg__lane_error(struct lane *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return rdmamsg__v_modify_qp(l->v, l->hot.qp, &attr, IBV_QP_STATE);
}

/*
 * Does not wait for an event that the device does not raise, because that would
 * wait until the deadline.
 */
bool rdmamsg__lane_is_drained(const struct lane *l)
{
	const struct quirks *q;

	if (!l->hot.qp || l->drained)
		return true;
	q = rdmamsg__quirks(l->dev->device);
	if (l->srq && !l->last_wqe && !q->no_last_wqe)
		return false;
	/*
	 * receives may be posted before the failure is known, and not flushed
	 */
	return !rdmamsg__sq_used(l) &&
	       (!rdmamsg__rq_posted(l) || q->keeps_receives);
}

/* Sets the MTU, and the largest length of one request. The port limits both. */
static int take_port(struct lane *l)
{
	struct ibv_port_attr port;
	int ret = rdmamsg__v_query_port(l->v, l->dev->device->verbs, l->port,
					&port);

	if (ret)
		return rdmamsg__fail_verbs(ret, "querying the port");
	l->chunk = READ_CHUNK;
	if (port.max_msg_sz)
		l->chunk = min(l->chunk, port.max_msg_sz);
	l->mtu = 128u << port.active_mtu;
	return 0;
}

int rdmamsg__lane_connect(struct lane *l)
{
	struct ibv_qp_attr attr;
	int ret = take_port(l);

	/* the connection manager takes both steps */
	if (!ret && rdmamsg__quirks(l->dev->device)->cm_only)
		return 0;
	if (!ret)
		ret = rdmamsg__lane_step(l, IBV_QPS_RTR, &attr);
	if (ret)
		return ret;
	l->mtu = 128u << attr.path_mtu;
	l->peer_qp_num = attr.dest_qp_num;
	l->resp_res = attr.max_dest_rd_atomic;
	ret = rdmamsg__lane_step(l, IBV_QPS_RTS, &attr);
	if (ret)
		return ret;
	l->init_depth = attr.max_rd_atomic;
	return 0;
}
