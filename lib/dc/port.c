/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of DC: life, receives, peers. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/dci.h"
#include "dc/port.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/loopback.h"
#include "device/verbs_call.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/poll.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <infiniband/verbs.h>

#define PEERS		(1u << 20)
#define BATCH		16u	/* receives posted in one call */
#define DEAF		20u	/* pause after an address, in its times */

/* ---- receives ---------------------------------------------------------- */

static int post(struct dc_port *p, uint32_t slot)
{
	struct rdmamsg_msg *msg = p->recv[slot];
	struct ibv_sge sge = {
		(uintptr_t)msg->buf, (uint32_t)p->size, msg->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = rdmamsg__port_wr_id(p, WR_RECV | slot),
		.sg_list = &sge, .num_sge = 1,
	};

	return rdmamsg__verbs_ret(ibv_post_srq_recv(p->srq, &wr, &bad));
}

/* Gives 'n' slots without a receive a buffer each. Returns how many have one */
static uint32_t take_buffers(struct dc_port *p, uint32_t n, int *err)
{
	uint32_t got = 0;

	*err = 0;
	while (got < n && !*err) {
		struct rdmamsg_msg *msg = rdmamsg__pool_take(p->pool);

		if (msg)
			p->recv[p->holes[p->hole_count - 1 - got++]] = msg;
		else
			*err = rdmamsg__pool_grow(p->pool, n - got, NULL);
	}
	return got;
}

/* Posts the last 'n' slots without a receive, in one call. */
static int post_some(struct dc_port *p, uint32_t n)
{
	struct ibv_recv_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];
	int err;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t slot = p->holes[p->hole_count - 1 - i];
		const struct rdmamsg_msg *msg = p->recv[slot];

		sge[i] = (struct ibv_sge){
			(uintptr_t)msg->buf, (uint32_t)p->size, msg->lkey,
		};
		wr[i] = (struct ibv_recv_wr){
			.wr_id = rdmamsg__port_wr_id(p, WR_RECV | slot),
			.sg_list = &sge[i], .num_sge = 1,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
		};
	}
	err = rdmamsg__verbs_ret(ibv_post_srq_recv(p->srq, wr, &bad));
	if (!err) {
		p->hole_count -= n;
		return 0;
	}
	/* some may be posted: the buffers stay until the port ends */
	p->failed = true;
	return rdmamsg__fail_verbs(err, "posting receives of DC");
}

/* Posts all slots that have no receive. Returns 0 or -errno. */
static int fill(struct dc_port *p)
{
	int err = 0;

	while (p->hole_count && !err) {
		const uint32_t n = take_buffers(p, min(p->hole_count, BATCH),
						&err);
		int ret = n ? post_some(p, n) : 0;

		err = ret ? ret : err;
	}
	return err;
}

/* Takes slots into use. They have no receives yet. */
static void open_slots(struct dc_port *p, uint32_t receives)
{
	while (p->receives < receives)
		p->holes[p->hole_count++] = p->receives++;
}

/* Posts again, or waits for memory. */
static void refill(struct dc_port *p)
{
	int err = p->failed ? 0 : rdmamsg__try(fill(p));

	if (unlikely(err && !p->failed))
		rdmamsg__starve(p->ctx, &p->starving, err);
}

void rdmamsg__port_receive(struct dc_port *p, uint32_t receives)
{
	receives = min(receives, p->depth);
	if (receives <= p->receives ||
	    rdmamsg__try(rdmamsg__cq_more(p->dev, p->cq,
					  receives - p->receives)))
		return;
	open_slots(p, receives);
	refill(p);
}

static void fed(struct starving *w)
{
	struct dc_port *p = list_entry(w, struct dc_port, starving);

	refill(p);
	p->ops->fed(p);
}

/* An old peer is told in the answer to its request: target.c. */
static int decode(struct dc_port *p, const struct rdmamsg_msg *msg, size_t len,
		  struct dc_frame *ret)
{
	int err = rdmamsg__dcf_decode(ret, msg->buf, len);

	if (err == -EPROTONOSUPPORT && !p->told_version)
		log_info("dc: ignoring frames of version %u: this library "
			 "speaks version %d", ((uint8_t *)msg->buf)[1],
			 DCF_VERSION);
	p->told_version |= err == -EPROTONOSUPPORT;
	return err;
}

static void received(struct dc_port *p, uint32_t slot, const struct ibv_wc *wc)
{
	struct rdmamsg_msg *msg = p->recv[slot];
	struct dc_frame f;
	bool kept = false;

	if (!msg || unlikely(p->failed))
		return;
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV &&
	    !decode(p, msg, wc->byte_len, &f))
		kept = p->ops->frame(p, &f, msg, wc->byte_len);
	if (likely(!kept) && wc->status == IBV_WC_SUCCESS && !post(p, slot))
		return;
	if (!kept)
		rdmamsg__pool_return(msg);
	p->recv[slot] = NULL;
	p->holes[p->hole_count++] = slot;
	/* anybody with the key can send too much; other errors lose frames */
	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_LOC_LEN_ERR)
		p->failed = true;
	else if (p->hole_count >= PORT_LAZY)
		refill(p);
}

void rdmamsg__port_completed(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	const uint32_t low = (uint32_t)wc->wr_id;
	const uint32_t slot = low & ((1u << WR_PORT) - 1);
	const uint32_t dci = slot >> WR_DCI;
	struct dc_port *p = rdmamsg__handle_of(&ctx->dcs->ports,
					       (low & ~WR_RECV) >> WR_PORT);

	if (!p)
		return;
	if (low & WR_RECV) {
		if (slot < p->depth)
			received(p, slot, wc);
	} else if (dci < p->dci_count) {
		rdmamsg__port_dci_completed(p->dcis[dci], low, wc);
	}
}

static bool uses(const struct dc_port *p, const struct cq *cq)
{
	for (uint32_t i = 0; i < p->dci_count; i++)
		if (p->dcis[i]->cq == cq)
			return true;
	return p->cq == cq;
}

void rdmamsg__ports_cq_failed(struct rdmamsg *ctx, const struct cq *cq)
{
	for (uint32_t i = 0; i < ctx->dcs->ports.size; i++) {
		struct dc_port *p = rdmamsg__handle_of(&ctx->dcs->ports, i);

		if (p && uses(p, cq))
			p->failed = true;
	}
}

/* ---- time -------------------------------------------------------------- */

static void tick(struct timer *t)
{
	struct dc_port *p = list_entry(t, struct dc_port, tick);

	rdmamsg__timer_set(&p->ctx->loop.timers, t, PORT_TICK_MS);
	if (p->dev->device->gone)
		p->failed = true;
	for (uint32_t i = 0; i < p->dci_count; i++)
		rdmamsg__port_dci_look(p->dcis[i]);
	/* a peer that has ended may have left its place in the row */
	rdmamsg__port_serve(p);
	p->ops->tick(p);
}

/* ---- peers ------------------------------------------------------------- */

/*
 * Returns true if the peer is at the address that it has asked from, which has
 * just answered the CM. InfiniBand looks for no address.
 */
static bool is_own(const struct dc_place *place,
		   const struct sockaddr_storage *from)
{
	union ibv_gid gid;

	if (!from || place->link != PROTO_OOB_ETHERNET)
		return from != NULL;
	rdmamsg__addr_gid((const struct sockaddr *)from, &gid);
	return !memcmp(gid.raw, place->gid, sizeof(gid.raw));
}

static int make_ah(struct dc_port *p, struct ibv_ah_attr *attr,
		   const struct dc_place *place,
		   const struct sockaddr_storage *from, struct ibv_ah **ret)
{
	const bool own = is_own(place, from);
	const uint64_t begin = rdmamsg__now_ms();
	uint64_t end;
	int err;

	if (!own && begin < p->deaf_until)
		return rdmamsg__fail(-EAGAIN, "an address did not answer a "
				     "moment ago");
	err = rdmamsg__v_create_ah(p->dev->device->v, p->dev->pd, attr, ret);
	end = rdmamsg__now_ms();
	if (err && !own && end > begin)
		p->deaf_until = end + (from ? PORT_DEAF_MS :
					      DEAF * (end - begin));
	return err ? rdmamsg__fail_verbs(err, "address of a peer of DC") : 0;
}

int rdmamsg__peer_open(struct dc_port *p, const struct dc_place *place,
		       uint64_t key, const struct sockaddr_storage *from,
		       struct dc_peer *peer)
{
	struct oob to = p->path;
	struct ibv_ah_attr attr;
	int err;

	if (place->link != p->path.local.link ||
	    place->mtu != p->path.local.mtu)
		return rdmamsg__fail(-EHOSTUNREACH, "the peer's port has "
				     "another link layer or MTU");
	peer->port = p;
	peer->origin = &p->any;
	list_init(&peer->row);
	to.local.lid = place->lid;
	memcpy(to.local.gid, place->gid, sizeof(to.local.gid));
	rdmamsg__loopback_address(&to, &attr);
	if (getrandom(&peer->token, sizeof(peer->token), GRND_NONBLOCK) !=
	    sizeof(peer->token))
		return rdmamsg__fail(-EAGAIN, "getrandom: the kernel has no "
				     "random bytes for a session of DC");
	err = rdmamsg__handle_give(&p->peers, peer, 1, PEERS, &peer->handle);
	if (err)
		return rdmamsg__fail(err, "no handle for one more peer of DC");
	err = make_ah(p, &attr, place, from, &peer->to.ah);
	if (err) {
		rdmamsg__handle_take(&p->peers, peer, peer->handle);
		return err;
	}
	peer->to.dctn = place->dctn;
	peer->to.key = key;
	return 0;
}

int rdmamsg__peer_limit(struct dc_peer *peer, void **slot)
{
	struct dc_origin *o = *slot;

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return rdmamsg__fail(-ENOMEM, "no memory for the "
					     "address of a peer of DC");
		rdmamsg__origin_init(o);
		o->slot = slot;
		*slot = o;
	}
	o->peers++;
	peer->origin = o;
	peer->doubtful = 1;
	return 0;
}

static void origin_put(struct dc_peer *peer)
{
	struct dc_origin *o = peer->origin;

	if (o == &peer->port->any || --o->peers)
		return;
	*o->slot = NULL;
	free(o);
}

void rdmamsg__peer_close(struct dc_peer *peer)
{
	struct dc_port *p = peer->port;

	if (peer->dci)
		rdmamsg__port_dci_unbind(peer->dci);
	rdmamsg__port_leave_row(peer);
	origin_put(peer);
	rdmamsg__handle_take(&p->peers, peer, peer->handle);
	(void)rdmamsg__v_destroy_ah(p->dev->device->v, peer->to.ah);
}

struct dc_peer *rdmamsg__peer_of(const struct dc_port *p,
				 const struct dc_frame *f)
{
	struct dc_peer *peer = rdmamsg__handle_of(&p->peers, f->handle);

	return peer && peer->token == f->token ? peer : NULL;
}

/* ---- life -------------------------------------------------------------- */

void rdmamsg__port_place(const struct dc_port *p, struct dc_place *ret)
{
	*ret = (struct dc_place){
		.dctn = p->dct->qp_num, .lid = p->path.local.lid,
		.mtu = p->path.local.mtu, .link = p->path.local.link,
	};
	memcpy(ret->gid, p->path.local.gid, sizeof(ret->gid));
}

/* Tuning of connections that counts for queue pairs of DC, too. */
static void take_tuning(struct dc_port *p, const struct rdmamsg_ep_tuning *t)
{
	p->dci_attr = (struct dci_attr){
		/* endpoints have no timeout without end, either */
		.ack_timeout = t->ack_timeout == RDMAMSG_NONE ? 0 :
			       t->ack_timeout,
		.retry_count = t->retry_count,
		.rnr_retry_count = t->rnr_retry_count,
		.depth = t->initiator_depth,
	};
	p->min_rnr_timer = t->min_rnr_timer;
	if (!p->path.path.traffic_class)
		p->path.path.traffic_class = t->tos;
}

static int find_path(struct dc_port *p, const struct port_wants *w)
{
	const struct rdmamsg_path any = { .size = sizeof(any) };
	int err = rdmamsg__path_copy(&p->path.path, w->ep && w->ep->path ?
				     w->ep->path : &any);

	if (!err && w->ep)
		take_tuning(p, w->ep->tuning);
	return err ? err : rdmamsg__path_local(&p->path, p->dev->device,
					       w->local);
}

static int make_srq(struct dc_port *p)
{
	const struct rdmamsg_device *d = p->dev->device;
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = p->depth, .max_sge = 1 },
	};
	struct dct_attr dct = {
		.pd = p->dev->pd, .cq = p->cq->ibv, .key = p->key,
		.min_rnr_timer = p->min_rnr_timer,
	};
	int err = rdmamsg__v_create_srq(d->v, p->dev->pd, &attr, &p->srq);

	if (err)
		return rdmamsg__fail_verbs(err, "receive queue of DC");
	dct.srq = p->srq;
	err = rdmamsg__dct_open(d, &dct, &p->path, &p->dct);
	return err ? err : fill(p);
}

static int make(struct dc_port *p, const struct port_wants *w)
{
	int err = rdmamsg__dc_supported(p->dev->device);
	uint32_t receives;

	if (!err)
		err = find_path(p, w);
	if (err)
		return err;
	p->depth = min(w->depth, (uint32_t)max(p->dev->device->attr.max_srq_wr,
					       1));
	p->dci_max = min(w->initiators, PORT_DCIS);
	p->recv = calloc(p->depth, sizeof(struct rdmamsg_msg *));
	p->holes = calloc(p->depth, sizeof(*p->holes));
	p->dcis = calloc(p->dci_max, sizeof(struct port_dci *));
	if (!p->recv || !p->holes || !p->dcis)
		return rdmamsg__fail(-ENOMEM, "no memory for a port of DC");
	err = rdmamsg__handle_give(&p->ctx->dcs->ports, p, 0, PORT_PORTS,
				   &p->index);
	if (err)
		return rdmamsg__fail(err, "a context has at most %u ports of "
				     "DC", PORT_PORTS);
	err = rdmamsg__timers_reserve(&p->ctx->loop.timers, 1);
	if (err)
		return rdmamsg__fail(err, "no memory for a timer");
	p->ticks = true;
	err = rdmamsg__pool_get(p->dev, DIR_IN, NULL, w->size, &p->pool);
	if (err)
		return err;
	rdmamsg__pool_use(p->pool, true);
	receives = min(w->receives ?: p->depth, p->depth);
	err = rdmamsg__cq_get(p->dev, receives, VECTOR_ANY, false, &p->cq);
	if (err)
		return err;
	open_slots(p, receives);
	err = make_srq(p);
	/* no initiator, no use */
	return err ? err : rdmamsg__port_dci_new(p);
}

int rdmamsg__port_open(const struct port_wants *w, struct dc_port **ret)
{
	struct dc_port *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return rdmamsg__fail(-ENOMEM, "no memory for a port of DC");
	p->ctx = w->dev->ctx;
	p->dev = w->dev;
	p->ops = w->ops;
	p->owner = w->owner;
	p->key = w->key;
	p->size = w->size;
	list_init(&p->node);
	list_init(&p->row);
	list_init(&p->doubts);
	rdmamsg__origin_init(&p->any);
	list_init(&p->starving.node);
	p->starving.fed = fed;
	rdmamsg__timer_init(&p->tick, tick);
	/* the caller keeps the device if this fails */
	p->dev->eps++;
	err = make(p, w);
	if (err) {
		rdmamsg__try_begin();
		rdmamsg__port_close(p);
		rdmamsg__try_end();
		return err;
	}
	w->dev->eps--;
	rdmamsg__timer_set(&p->ctx->loop.timers, &p->tick, PORT_TICK_MS);
	*ret = p;
	return 0;
}

static void free_receives(struct dc_port *p)
{
	const struct verbs_api *v = p->dev->device->v;

	if (p->dct && rdmamsg__v_destroy_qp(v, p->dct))
		log_error("a target of DC could not be destroyed");
	if (p->cq) {
		rdmamsg__cq_drain(p->ctx, p->cq);
		rdmamsg__cq_put(p->dev, p->cq, p->receives);
	}
	if (p->srq && rdmamsg__v_destroy_srq(v, p->srq))
		log_error("a receive queue of DC could not be destroyed");
	for (uint32_t i = 0; i < p->depth && p->recv; i++)
		if (p->recv[i])
			rdmamsg__pool_return(p->recv[i]);
	if (p->pool)
		rdmamsg__pool_unuse(p->pool);
}

void rdmamsg__port_close(struct dc_port *p)
{
	/* first, so that late completions find no port */
	rdmamsg__handle_take(&p->ctx->dcs->ports, p, p->index);
	list_del(&p->node);
	list_del(&p->starving.node);
	if (p->ticks) {
		rdmamsg__timer_stop(&p->ctx->loop.timers, &p->tick);
		rdmamsg__timers_release(&p->ctx->loop.timers, 1);
	}
	for (uint32_t i = 0; i < p->dci_count; i++)
		rdmamsg__port_dci_free(p->dcis[i]);
	free_receives(p);
	rdmamsg__dev_put(p->dev);
	rdmamsg__handles_free(&p->peers);
	free(p->recv);
	free(p->holes);
	free(p->dcis);
	free(p);
}
