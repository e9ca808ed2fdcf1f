/* SPDX-License-Identifier: BSD-2-Clause */
/* The channels of a team: opened, connected like the endpoints, closed. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/timer.h"
#include "base/util.h"
#include "chain/chain.h"
#include "chain/native.h"
#include "chain/team.h"
#include "device/cq.h"
#include "device/cross.h"
#include "device/device.h"
#include "device/loopback.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "wire/team.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <infiniband/verbs.h>

#define CHANNEL_SENDS	16u	/* requests of a run on a channel: waits, too */
/* the steps of an all-reduce of 32: calculations, and two waits with each */
#define QUEUE_SENDS	(8u * (NATIVE_COUNT + 2) + NATIVE_STEPS)
#define END_SENDS	(NATIVE_MEMBERS + 1)
#define AREAS		(2u * NATIVE_BYTES)
#define CHANNEL_BYTES	((size_t)NATIVE_SLOTS * NATIVE_BYTES)
#define NATIVES		(1u << 20)
#define RNR_ENDLESS	7	/* the endpoint bounds the time */
#define RNR_TIMER	12	/* 0.64 ms */
#define PSN_MASK	0xffffffu

/* ---- whether a team can ------------------------------------------------ */

static int check_end(const struct chain_ep *end, const struct dev *dev)
{
	const struct rdmamsg_ep *ep = end->ep;

	if (!ep)
		return rdmamsg__fail(-ENOTCONN, "an endpoint has ended");
	if (ep->lane.dev != dev)
		return rdmamsg__fail(-EOPNOTSUPP, "the endpoints are on "
				     "several devices or protection domains");
	if (ep->connect.features & (PROTO_FEATURE_RESUME | PROTO_FEATURE_PATH))
		return rdmamsg__fail(-EOPNOTSUPP, "an endpoint can move to "
				     "another path or device");
	return 0;
}

/* Writes the device of all endpoints to *ret. */
static int check_team(const struct rdmamsg_team *t, struct dev **ret)
{
	struct dev *dev = NULL;
	int err = 0;

	for (uint32_t i = 0; i < t->size && !err; i++) {
		const struct chain_ep *end = t->members[i];

		if (i == t->rank)
			continue;
		if (end->ep && !dev)
			dev = end->ep->lane.dev;
		err = check_end(end, dev);
	}
	if (!err && rdmamsg__is_iwarp(dev->device))
		err = rdmamsg__fail(-EOPNOTSUPP, "iWARP has no cross-channel "
				    "queue pairs");
	if (!err && dev->single)
		err = rdmamsg__fail(-EOPNOTSUPP, "each endpoint has a "
				    "protection domain of its own");
	*ret = dev;
	return err;
}

/* ---- objects ----------------------------------------------------------- */

static int get_memory(struct native *n, uint32_t size)
{
	const struct rdmamsg_device *d = n->dev->device;
	struct pages pages;
	void *mem;
	int err;

	n->size = size * CHANNEL_BYTES + AREAS;
	mem = rdmamsg__pages_map(n->size, NULL, &pages);
	if (mem == MAP_FAILED)
		return rdmamsg__fail(-ENOMEM, "no memory for %zu bytes",
				     n->size);
	n->mem = mem;
	n->areas = n->mem + size * CHANNEL_BYTES;
	err = rdmamsg__v_reg_mr(d->v, n->dev->pd, n->mem, n->size,
				IBV_ACCESS_LOCAL_WRITE |
				IBV_ACCESS_REMOTE_WRITE, &n->mr);
	return err ? rdmamsg__fail_verbs(err, "memory of a team") : 0;
}

/* Creates a queue that nobody arms, and gets its number. */
static int new_cq(const struct native *n, uint32_t entries, struct ibv_cq **ret,
		  uint32_t *number)
{
	const struct rdmamsg_device *d = n->dev->device;
	int err = rdmamsg__v_create_cq(d->v, d->verbs, (int)entries, NULL,
				       NULL, 0, ret);

	if (err)
		return rdmamsg__fail_verbs(err, "completion queue of a team");
	return rdmamsg__cross_number(d, *ret, number);
}

/* Connects a queue pair to itself. */
static int close_circle(const struct native *n, const struct cross *c,
			const struct oob *path)
{
	static const enum ibv_qp_state steps[3] = {
		IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
	};
	int err = 0;

	for (uint32_t i = 0; i < 3 && !err; i++)
		err = rdmamsg__loopback_step(n->dev->device, c->qp, path,
					     c->qp->qp_num, steps[i]);
	return err;
}

static int open_queue(struct native *n, const struct oob *path)
{
	struct cross_attr a = {
		.pd = n->dev->pd,
		.cap = {
			.max_send_wr = QUEUE_SENDS, .max_recv_wr = 1,
			.max_send_sge = 2, .max_recv_sge = 1,
		},
	};
	int err = new_cq(n, QUEUE_SENDS, &n->mark_cq, &n->mark_num);

	a.send_cq = a.recv_cq = n->mark_cq;
	if (!err)
		err = rdmamsg__cross_open(n->dev->device, &a, &n->queue);
	return err ? err : close_circle(n, &n->queue, path);
}

static int open_end(struct native *n, const struct oob *path)
{
	struct cross_attr a = {
		.pd = n->dev->pd,
		.cap = {
			.max_send_wr = END_SENDS, .max_recv_wr = 1,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};
	int err = rdmamsg__cq_get(n->dev, END_SENDS, VECTOR_ANY, false, &n->cq);

	if (err)
		return err;
	a.send_cq = a.recv_cq = n->cq->ibv;
	err = rdmamsg__cross_open(n->dev->device, &a, &n->end);
	return err ? err : close_circle(n, &n->end, path);
}

static int open_channel(struct native *n, uint32_t rank)
{
	struct channel *ch = &n->channels[rank];
	struct cross_attr a = {
		.pd = n->dev->pd,
		.cap = {
			.max_send_wr = CHANNEL_SENDS,
			.max_recv_wr = NATIVE_SLOTS,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};
	int err = new_cq(n, CHANNEL_SENDS, &ch->send_cq, &ch->send_num);

	ch->slots = n->mem + rank * CHANNEL_BYTES;
	if (!err)
		err = new_cq(n, NATIVE_SLOTS, &ch->recv_cq, &ch->recv_num);
	a.send_cq = ch->send_cq;
	a.recv_cq = ch->recv_cq;
	return err ? err : rdmamsg__cross_open(n->dev->device, &a, &ch->cross);
}

static int open_all(struct native *n)
{
	const struct rdmamsg_team *t = n->team;
	struct oob path;
	int err = get_memory(n, t->size);

	if (!err)
		err = rdmamsg__loopback_path(n->dev->device, 0, &path);
	if (!err)
		err = open_queue(n, &path);
	if (!err)
		err = open_end(n, &path);
	for (uint32_t i = 0; i < t->size && !err; i++)
		err = i == t->rank ? 0 : open_channel(n, i);
	return err;
}

static int new_native(struct rdmamsg_team *t, struct dev *dev,
		      struct native **ret)
{
	const struct rdmamsg_device *d = dev->device;
	struct native *n = calloc(1, sizeof(*n));
	int err;

	if (n)
		n->channels = calloc(t->size, sizeof(*n->channels));
	if (!n || !n->channels ||
	    rdmamsg__timers_reserve(&t->ctx->loop.timers, 1)) {
		free(n ? n->channels : NULL);
		free(n);
		return rdmamsg__fail(-ENOMEM, "no memory for a team");
	}
	n->team = t;
	n->ctx = t->ctx;
	rdmamsg__timer_init(&n->look, rdmamsg__native_look);
	*ret = n;
	err = rdmamsg__handle_give(&t->ctx->chains->natives, n, 1, NATIVES,
				   &n->handle);
	if (err)
		return rdmamsg__fail(err, "no memory for a team");
	return rdmamsg__dev_get(t->ctx, d->v, d->name, dev->owner, &n->dev);
}

int rdmamsg__native_open(struct rdmamsg_team *t, struct native **ret)
{
	struct native *n = NULL;
	struct dev *dev;
	int err = check_team(t, &dev);

	if (!err)
		err = new_native(t, dev, &n);
	if (!err)
		err = open_all(n);
	if (!err)
		*ret = n;
	else
		rdmamsg__native_free(n);
	return err;
}

/* ---- connecting -------------------------------------------------------- */

void rdmamsg__native_offer(const struct native *n, uint32_t rank,
			   struct proto_team_meet *ret)
{
	struct channel *ch = &n->channels[rank];

	if (getrandom(&ch->psn, sizeof(ch->psn), GRND_NONBLOCK) < 0)
		ch->psn = (uint32_t)rdmamsg__now_ms();
	ch->psn &= PSN_MASK;
	*ret = (struct proto_team_meet){
		.can = true, .qp_num = ch->cross.qp->qp_num, .psn = ch->psn,
	};
}

int rdmamsg__channel_refill(struct native *n, struct channel *ch)
{
	struct ibv_sge sge[NATIVE_SLOTS];
	struct ibv_recv_wr wr[NATIVE_SLOTS], *bad;
	uint32_t count = NATIVE_SLOTS - (ch->posted - ch->used);

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t slot = (ch->posted + i) % NATIVE_SLOTS;

		sge[i] = (struct ibv_sge){
			(uintptr_t)ch->slots + slot * NATIVE_BYTES,
			NATIVE_BYTES, n->mr->lkey,
		};
		wr[i] = (struct ibv_recv_wr){
			.sg_list = &sge[i], .num_sge = 1,
			.next = i + 1 < count ? &wr[i + 1] : NULL,
		};
	}
	ch->posted += count;
	return count ? rdmamsg__verbs_ret(ibv_post_recv(ch->cross.qp, wr, &bad))
		     : 0;
}

static int walk(struct native *n, struct channel *ch, struct ibv_qp_attr *a,
		const struct proto_team_meet *peer)
{
	const struct verbs_api *v = n->dev->device->v;
	int err;

	a->qp_state = IBV_QPS_INIT;
	a->qp_access_flags = 0;
	err = rdmamsg__v_modify_qp(v, ch->cross.qp, a, IBV_QP_STATE |
				   IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   IBV_QP_ACCESS_FLAGS);
	if (!err)
		err = rdmamsg__channel_refill(n, ch);
	a->qp_state = IBV_QPS_RTR;
	a->dest_qp_num = peer->qp_num;
	a->rq_psn = peer->psn;
	a->max_dest_rd_atomic = 0;
	a->min_rnr_timer = RNR_TIMER;
	if (!err)
		err = rdmamsg__v_modify_qp(v, ch->cross.qp, a, IBV_QP_STATE |
					   IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER);
	a->qp_state = IBV_QPS_RTS;
	a->sq_psn = ch->psn;
	a->rnr_retry = RNR_ENDLESS;
	a->max_rd_atomic = 0;
	if (!err)
		err = rdmamsg__v_modify_qp(v, ch->cross.qp, a, IBV_QP_STATE |
					   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

/* The channel has the path and the deadlines of the endpoint. */
int rdmamsg__native_connect(struct native *n, uint32_t rank,
			    const struct proto_team_meet *peer)
{
	const struct rdmamsg_ep *ep = n->team->members[rank]->ep;
	struct ibv_qp_attr attr;
	int err;

	if (!ep)
		return rdmamsg__fail(-ENOTCONN, "an endpoint has ended");
	err = rdmamsg__v_query_qp(n->dev->device->v, ep->lane.hot.qp, &attr,
				  IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				  IBV_QP_PORT | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT);
	if (!err)
		err = walk(n, &n->channels[rank], &attr, peer);
	return err ? rdmamsg__fail(err, "connecting a channel: %s",
				   strerror(-err)) : 0;
}

/* ---- the end ----------------------------------------------------------- */

static void free_cq(const struct native *n, struct ibv_cq *cq)
{
	if (cq && rdmamsg__v_destroy_cq(n->dev->device->v, cq))
		log_error("device %s: a completion queue of a team could not "
			  "be destroyed", n->dev->device->name);
}

static void free_objects(struct native *n)
{
	const struct rdmamsg_device *d = n->dev->device;

	rdmamsg__cross_close(d, &n->end);
	rdmamsg__cross_close(d, &n->queue);
	for (uint32_t i = 0; i < n->team->size; i++)
		rdmamsg__cross_close(d, &n->channels[i].cross);
	for (uint32_t i = 0; i < n->team->size; i++) {
		free_cq(n, n->channels[i].send_cq);
		free_cq(n, n->channels[i].recv_cq);
	}
	free_cq(n, n->mark_cq);
	if (n->cq)
		rdmamsg__cq_put(n->dev, n->cq, END_SENDS);
	if (n->mr)
		(void)rdmamsg__v_dereg_mr(d->v, n->mr);
	if (n->mem)
		(void)munmap(n->mem, n->size);
	rdmamsg__dev_put(n->dev);
}

void rdmamsg__native_free(struct native *n)
{
	if (!n)
		return;
	rdmamsg__timer_stop(&n->ctx->loop.timers, &n->look);
	rdmamsg__timers_release(&n->ctx->loop.timers, 1);
	if (n->handle)
		rdmamsg__handle_take(&n->ctx->chains->natives, n, n->handle);
	if (n->dev)
		free_objects(n);
	free(n->channels);
	free(n);
}
