/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of the program: created, connected, destroyed. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/async.h"
#include "device/cached.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/pd.h"
#include "device/verbs_call.h"
#include "qp/rawqp.h"
#include "cm/oob/oob.h"
#include "wire/proto.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

static _Atomic uint64_t last_serial;

struct rdmamsg_qp *rdmamsg__rawqp_of(const struct ibv_qp *ibv)
{
	uintptr_t context = (uintptr_t)ibv->qp_context;

	return context & RAWQP_TAG ?
	       (struct rdmamsg_qp *)(context - RAWQP_TAG) : NULL;
}

struct rdmamsg_qp *rdmamsg__rawqp_by_serial(const struct rdmamsg *ctx,
					    uint64_t serial)
{
	struct list *n;

	list_for_each(n, &ctx->qps) {
		struct rdmamsg_qp *q = list_entry(n, struct rdmamsg_qp, node);

		if (q->serial == serial)
			return q;
	}
	return NULL;
}

static bool has_wq(const struct rdmamsg_qp *q, const void *wq)
{
	for (uint32_t i = 0; q->wqs && i < q->rss.queues; i++)
		if (q->wqs[i] == wq)
			return true;
	return false;
}

struct rdmamsg_qp *rdmamsg__rawqp_using(const struct rdmamsg *ctx,
					const void *of)
{
	struct list *n;

	list_for_each(n, &ctx->qps) {
		struct rdmamsg_qp *q = list_entry(n, struct rdmamsg_qp, node);

		if (q->send_cq == of || q->recv_cq == of ||
		    q->opts.srq == of || has_wq(q, of))
			return q;
	}
	return NULL;
}

/* ---- the walk to RTS -------------------------------------------------- */

#define TO_RTR	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | \
		 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define SERVES	(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS	(IBV_QP_STATE | IBV_QP_SQ_PSN)
#define ISSUES	(IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

/* as qp_state_table in Linux, drivers/infiniband/core/verbs.c */
static const struct {
	int rtr, rts;
} masks[] = {
	[IBV_QPT_RC] = { TO_RTR | SERVES, TO_RTS | IBV_QP_TIMEOUT | ISSUES },
	[IBV_QPT_UC] = { TO_RTR, TO_RTS },
	[IBV_QPT_UD] = { IBV_QP_STATE, TO_RTS },
	[IBV_QPT_XRC_SEND] = { TO_RTR, TO_RTS | IBV_QP_TIMEOUT | ISSUES },
	[IBV_QPT_XRC_RECV] = { TO_RTR | SERVES, TO_RTS | IBV_QP_TIMEOUT },
	[IBV_QPT_RAW_PACKET] = { IBV_QP_STATE, IBV_QP_STATE },
};

static int walk(struct rdmamsg_qp *q, enum ibv_qp_state to)
{
	const struct rdmamsg_qp_options *o = &q->opts;
	struct ibv_qp_attr attr = { .qp_state = to };
	int mask, ret;

	rdmamsg__oob_attr(&q->oob, RDMAMSG_NONE, &attr, &mask);
	attr.qp_access_flags = o->access;
	attr.qkey = o->qkey;
	attr.min_rnr_timer = (uint8_t)o->min_rnr_timer;
	attr.timeout = (uint8_t)o->ack_timeout;
	attr.retry_cnt = (uint8_t)o->retry_count;
	attr.rnr_retry = (uint8_t)o->rnr_retry_count;
	attr.max_dest_rd_atomic = min(attr.max_dest_rd_atomic,
				      q->oob.local.resp_res);
	attr.max_rd_atomic = min(attr.max_rd_atomic, q->oob.local.init_depth);
	if (to == IBV_QPS_INIT && o->type == IBV_QPT_UD)
		mask = (mask & ~IBV_QP_ACCESS_FLAGS) | IBV_QP_QKEY;
	else if (to == IBV_QPS_INIT && o->type == IBV_QPT_RAW_PACKET)
		mask = IBV_QP_STATE | IBV_QP_PORT;
	else if (to == IBV_QPS_RTR)
		mask = masks[o->type].rtr;
	else if (to == IBV_QPS_RTS)
		mask = masks[o->type].rts;
	ret = rdmamsg__v_modify_qp(q->v, q->ibv, &attr, mask);
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair");
	q->state = to;
	return 0;
}

static int to_rts(struct rdmamsg_qp *q)
{
	int ret = walk(q, IBV_QPS_RTR);

	return ret ? ret : walk(q, IBV_QPS_RTS);
}

static int start(struct rdmamsg_qp *q)
{
	const struct ibv_device_attr *a = &q->dev->device->attr;
	struct proto_oob *r = &q->oob.local;
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
	};
	int ret;

	/*
	 * A queue pair with an indirection table has no states. mlx5 refuses
	 * steps (rdma-core v44.0, providers/mlx5/verbs.c, mlx5_modify_qp()).
	 */
	ret = q->opts.rss ? 0 : walk(q, IBV_QPS_INIT);
	if (ret)
		return ret;
	r->kind = PROTO_OOB_OFFER;
	r->qp_num = q->ibv->qp_num;
	r->resp_res = (uint8_t)min((int)q->opts.responder_resources,
				   a->max_qp_rd_atom);
	r->init_depth = (uint8_t)min((int)q->opts.initiator_depth,
				     a->max_qp_init_rd_atom);
	r->hello_len = (uint8_t)rdmamsg__hello_encode(&h, r->hello);
	if (q->opts.rss)
		return 0;
	return q->opts.type == IBV_QPT_UD ||
	       q->opts.type == IBV_QPT_RAW_PACKET ? to_rts(q) : 0;
}

/* ---- public ----------------------------------------------------------- */

/*
 * An srq of another protection domain is useless, because its receives name
 * memory of that domain.
 */
static int check_srq(const struct rdmamsg_qp *q)
{
	if (!q->opts.srq || q->opts.srq->pd == q->dev->pd)
		return 0;
	return rdmamsg__fail(-EPERM, "srq: it is in another protection domain "
			     "than the queue pair: make it in that of "
			     "rdmamsg_qp_verbs()");
}

static int make(struct rdmamsg_qp *q)
{
	struct ibv_device_attr_ex attr;
	int ret = rdmamsg__choose_device(q->opts.device, NULL, &q->v,
				       &q->device);

	if (!ret)
		ret = rdmamsg__dev_get(q->ctx, q->v, q->device, q->opts.pd,
				       &q->dev);
	if (ret)
		return ret;
	ret = rdmamsg__cache_extended(q->dev->device, &attr);
	if (ret)
		return ret;
	ret = rdmamsg__rawqp_check(&q->opts, &q->rss, &attr, q->device);
	if (!ret)
		ret = check_srq(q);
	if (!ret)
		ret = rdmamsg__path_local(&q->oob, q->dev->device, NULL);
	if (!ret)
		ret = rdmamsg__rawqp_make(q);
	return ret ? ret : start(q);
}

static int take_options(struct rdmamsg_qp *q,
			const struct rdmamsg_qp_options *opts)
{
	int ret = rdmamsg__opts_copy(&q->opts, sizeof(q->opts), opts,
				     "rdmamsg_qp_options");

	if (!ret)
		ret = rdmamsg__opts_copy(&q->on, sizeof(q->on),
					 q->opts.handlers,
					 "rdmamsg_qp_handlers");
	if (!ret)
		ret = rdmamsg__pd_check(q->ctx, q->opts.pd);
	if (ret) {
		q->opts.pd = NULL;
		return ret;
	}
	rdmamsg__pd_hold(q->opts.pd);
	ret = rdmamsg__rawqp_ranges(&q->opts, &q->on);
	if (!ret)
		ret = rdmamsg__path_copy(&q->oob.path, q->opts.path);
	if (!ret && q->opts.rss)
		ret = rdmamsg__opts_copy(&q->rss, sizeof(q->rss), q->opts.rss,
					 "rdmamsg_rss");
	q->user = q->opts.user;
	return ret;
}

/* Keeps the device open, because the queue pair outlives its context. */
static void keep_device(struct rdmamsg_qp *q)
{
	struct rdmamsg_device *d = q->dev->device;

	rdmamsg__device_keep(d);
	/* events of the queue pair have no context any more */
	pthread_mutex_lock(&d->lock);
	q->ctx = NULL;
	pthread_mutex_unlock(&d->lock);
	rdmamsg__dev_put(q->dev);
	q->dev = NULL;
}

/*
 * The device still uses the queue pair and its parts. Its events still have the
 * pointer to q. So nothing is freed.
 */
static void leave(struct rdmamsg_qp *q, const char *why)
{
	log_error("%s: the queue pair remains and device %s stays open until "
		  "the process ends", why, q->device);
	list_del(&q->node);
	rdmamsg__rawqp_unwatch(q);
	keep_device(q);
}

/* q may be only partly made. */
static void undo(struct rdmamsg_qp *q)
{
	if (!q->ibv || !rdmamsg__v_destroy_qp(q->v, q->ibv))
		rdmamsg__rawqp_unmake(q);
	else
		leave(q, "a queue pair could not be destroyed");
}

int rdmamsg_qp_create(struct rdmamsg *ctx,
		      const struct rdmamsg_qp_options *opts,
		      struct rdmamsg_qp **ret_q)
{
	struct rdmamsg_qp *q;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_q)
		return rdmamsg__fail(-EINVAL, "rdmamsg_qp_create: ret is NULL");
	q = calloc(1, sizeof(*q));
	if (!q)
		return rdmamsg__fail(-ENOMEM, "no memory for a queue pair");
	q->ctx = ctx;
	q->serial = atomic_fetch_add(&last_serial, 1) + 1;
	list_init(&q->node);
	list_init(&q->groups);
	rdmamsg__oob_psn(&q->oob);
	ret = take_options(q, opts);
	if (!ret)
		ret = make(q);
	if (ret) {
		undo(q);
		return ret;
	}
	/* the caller owns them */
	q->opts.path = NULL;
	q->opts.rss = NULL;
	q->opts.device = NULL;
	list_add_tail(&ctx->qps, &q->node);
	*ret_q = q;
	return 0;
}

static int qp_check(const struct rdmamsg_qp *q)
{
	if (!q)
		return rdmamsg__fail(-EINVAL, "the queue pair is NULL");
	return rdmamsg__ctx_check(q->ctx);
}

int rdmamsg_qp_destroy(struct rdmamsg_qp *q)
{
	int ret = q ? qp_check(q) : 0;

	if (ret || !q)
		return ret;
	ret = rdmamsg__try(rdmamsg__rawqp_leave_groups(q));
	if (ret)
		log_debug("qp 0x%x: %s", q->ibv->qp_num, rdmamsg__text());
	ret = rdmamsg__v_destroy_qp(q->v, q->ibv);
	if (ret == -EBUSY)
		return rdmamsg__fail(ret, "qp 0x%x is in a multicast group, or "
				     "has rules of flow steering: "
				     "ibv_detach_mcast() and "
				     "ibv_destroy_flow() take it out",
				     q->ibv->qp_num);
	if (ret && !q->dev->device->gone &&
	    !rdmamsg__device_lost(q->dev->device))
		return rdmamsg__fail_verbs(ret, "destroying a queue pair: it "
					   "is still there");
	/* a removed device leaves only our memory to free */
	if (ret)
		rdmamsg__async_forget(q->dev->device, q->ibv);
	rdmamsg__rawqp_unmake(q);
	return 0;
}

void rdmamsg__rawqps_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->qps)) {
		struct rdmamsg_qp *q = list_first(&ctx->qps, struct rdmamsg_qp,
						  node);

		if (rdmamsg__try(rdmamsg_qp_destroy(q)))
			leave(q, rdmamsg__text());
	}
}

void *rdmamsg_qp_user(const struct rdmamsg_qp *q)
{
	return q ? q->user : NULL;
}

int rdmamsg_qp_verbs(const struct rdmamsg_qp *q, struct rdmamsg_qp_objects *ret)
{
	struct rdmamsg_qp_objects v = { .size = sizeof(v) };
	int err = qp_check(q);

	if (err)
		return err;
	v.qp = q->ibv;
	v.qp_ex = q->ex;
	v.send_cq = q->send_cq;
	v.recv_cq = q->recv_cq;
	v.wqs = q->wqs;
	v.queues = q->wqs ? q->rss.queues : 0;
	v.peer_qp_num = q->oob.peer.qp_num;
	v.ah = q->ah;
	return rdmamsg__give(ret, &v, sizeof(v));
}

int rdmamsg_qp_resize_cq(struct rdmamsg_qp *q, struct ibv_cq *cq,
			 uint32_t entries)
{
	int ret = qp_check(q);

	if (ret)
		return ret;
	if (!cq || (cq != q->send_cq && cq != q->recv_cq))
		return rdmamsg__fail(-EINVAL, "rdmamsg_qp_resize_cq: not a "
				     "completion queue of the queue pair");
	return rdmamsg__rawqp_resize(q, cq, entries);
}

int rdmamsg_qp_register(struct rdmamsg_qp *q, void *addr, size_t len,
			int access, struct ibv_mr **ret_mr)
{
	int ret = qp_check(q);

	if (ret)
		return ret;
	if (!addr || !len || !ret_mr)
		return rdmamsg__fail(-EINVAL, "rdmamsg_qp_register: %s", ret_mr ?
				     "no memory to register" : "ret is NULL");
	ret = rdmamsg__device_mr_check(q->dev->device, len);
	if (ret)
		return ret;
	ret = rdmamsg__v_reg_mr(q->v, q->dev->pd, addr, len, access, ret_mr);
	return ret ? rdmamsg__fail_memory(ret, "registering memory", addr, len,
					  access & IBV_ACCESS_LOCAL_WRITE) : 0;
}

int rdmamsg_qp_deregister(struct rdmamsg_qp *q, struct ibv_mr *mr)
{
	int ret = qp_check(q);

	if (ret || !mr)
		return ret;
	ret = rdmamsg__v_dereg_mr(q->v, mr);
	return ret ? rdmamsg__fail_verbs(ret, "giving back memory") : 0;
}

int rdmamsg_qp_record(const struct rdmamsg_qp *q, void *buf, size_t size)
{
	int ret = qp_check(q);

	return ret ? ret : rdmamsg__oob_give(&q->oob.local, buf, size);
}

static int make_ah(struct rdmamsg_qp *q)
{
	struct ibv_ah_attr attr = { .dlid = 0 };
	struct ibv_ah *ah;
	int ret;

	rdmamsg__oob_address(&q->oob, RDMAMSG_NONE, &attr);
	ret = rdmamsg__v_create_ah(q->v, q->dev->pd, &attr, &ah);
	if (ret)
		return rdmamsg__fail_verbs(ret, "address handle");
	if (q->ah)
		(void)rdmamsg__v_destroy_ah(q->v, q->ah);
	q->ah = ah;
	return 0;
}

int rdmamsg_qp_connect(struct rdmamsg_qp *q, const void *record, size_t len)
{
	struct proto_oob peer, before;
	int ret = qp_check(q);

	if (ret)
		return ret;
	if (!record)
		return rdmamsg__fail(-EINVAL, "rdmamsg_qp_connect: record is "
				     "NULL");
	if (q->opts.type == IBV_QPT_RAW_PACKET)
		return rdmamsg__fail(-EINVAL, "a queue pair for raw packets "
				     "has no peer");
	if (q->state != IBV_QPS_INIT && q->opts.type != IBV_QPT_UD)
		return rdmamsg__fail(-EALREADY, "qp 0x%x has a peer",
				     q->ibv->qp_num);
	ret = rdmamsg__oob_decode(&peer, record, len);
	if (ret)
		return rdmamsg__oob_fail_record(ret);
	if (peer.kind != PROTO_OOB_OFFER)
		return rdmamsg__fail(-EPROTO, "not the record of a queue pair");
	before = q->oob.peer;
	q->oob.peer = peer;
	ret = rdmamsg__path_match(&q->oob);
	if (!ret)
		ret = q->opts.type == IBV_QPT_UD ? make_ah(q) : to_rts(q);
	if (ret)
		q->oob.peer = before;	/* the address handle is still for it */
	else
		q->mtu = min(q->oob.local.mtu, peer.mtu);
	return ret;
}

int rdmamsg_qp_query(const struct rdmamsg_qp *q, struct rdmamsg_qp_attr *attr)
{
	struct rdmamsg_qp_attr i = { .size = sizeof(i) };
	int ret = qp_check(q);

	if (ret)
		return ret;
	snprintf(i.device, sizeof(i.device), "%s", q->device);
	i.type = q->opts.type;
	i.state = q->state;
	i.qp_num = q->ibv->qp_num;
	i.peer_qp_num = q->oob.peer.qp_num;
	i.port = q->oob.port;
	i.mtu = q->mtu ? 128u << q->mtu : 0;
	i.pkey = q->oob.local.pkey;
	i.max_send = q->cap.max_send_wr;
	i.max_recv = q->opts.srq ? 0 : q->cap.max_recv_wr;
	i.max_send_sge = q->cap.max_send_sge;
	i.max_recv_sge = q->opts.srq ? 0 : q->cap.max_recv_sge;
	i.max_inline = q->cap.max_inline_data;
	i.create_flags = q->opts.create_flags;
	i.send_ops = q->opts.send_ops;
	i.queues = q->rss.queues;
	i.send_cq_entries = (uint32_t)q->send_cq->cqe;
	i.recv_cq_entries = (uint32_t)q->recv_cq->cqe;
	i.comp_vector = q->opts.comp_vector;
	i.send_cq_number = q->send_cq_number;
	i.recv_cq_number = q->recv_cq_number;
	return rdmamsg__give(attr, &i, sizeof(i));
}
