/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of DC: life, receives, initiators and the row that waits for them. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "dc/dc.h"
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

/* wr_id: the key, 1 bit for receives, 11 bits of index, 20 bits of slot */
#define WR_RECV		0x80000000u
#define WR_INDEX	20
#define WR_SLOTS	(1u << WR_INDEX)
#define PEERS		(1u << 20)
#define STALLED		20u	/* ticks without progress */
#define BATCH		16u	/* receives posted in one call */
#define DEAF		20u	/* pause after an address, in its times */

static uint64_t wr_id(const struct dc_port *p, uint32_t low)
{
	return (uint64_t)DC_KEY << 32 | p->index << WR_INDEX | low;
}

/* ---- receives ---------------------------------------------------------- */

static int post(struct dc_port *p, uint32_t slot)
{
	struct rdmamsg_msg *msg = p->recv[slot];
	struct ibv_sge sge = {
		(uintptr_t)msg->buf, (uint32_t)p->size, msg->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id(p, WR_RECV | slot), .sg_list = &sge,
		.num_sge = 1,
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
			.wr_id = wr_id(p, WR_RECV | slot), .sg_list = &sge[i],
			.num_sge = 1, .next = i + 1 < n ? &wr[i + 1] : NULL,
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

/* Posts again, or waits for memory. */
static void refill(struct dc_port *p)
{
	int err = p->failed ? 0 : rdmamsg__try(fill(p));

	if (unlikely(err && !p->failed))
		rdmamsg__starve(p->ctx, &p->starving, err);
}

static void fed(struct starving *w)
{
	struct dc_port *p = list_entry(w, struct dc_port, starving);

	refill(p);
	p->ops->fed(p);
}

static void received(struct dc_port *p, uint32_t slot, const struct ibv_wc *wc)
{
	struct rdmamsg_msg *msg = p->recv[slot];
	struct dc_frame f;
	bool kept = false;

	if (!msg || unlikely(p->failed))
		return;
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV &&
	    !rdmamsg__dcf_decode(&f, msg->buf, wc->byte_len))
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

/* ---- initiators -------------------------------------------------------- */

static void dci_free(struct port_dci *d)
{
	struct dc_port *p = d->port;

	if (d->dci.qp && rdmamsg__v_destroy_qp(p->dev->device->v, d->dci.qp))
		log_error("an initiator of DC could not be destroyed");
	if (d->cq) {
		rdmamsg__cq_drain(p->ctx, d->cq);
		rdmamsg__cq_put(p->dev, d->cq, PORT_SLOTS);
	}
	if (d->mem.mem)
		rdmamsg__stretch_unmap(&d->mem);
	free(d);
}

static int dci_make(struct port_dci *d)
{
	struct dev *dev = d->port->dev;
	int err;

	d->mem = (struct stretch){
		.dev = dev, .dir = DIR_OUT,
		.size = (size_t)PORT_SLOTS * PORT_SLOT,
	};
	list_init(&d->mem.spare_node);
	err = rdmamsg__stretch_map(&d->mem, true);
	if (err) {
		d->mem.mem = NULL;	/* dci_free() tests it */
		return err;
	}
	err = rdmamsg__cq_get(dev, PORT_SLOTS, VECTOR_ANY, false, &d->cq);
	if (!err)
		err = rdmamsg__dci_open(dev->device, dev->pd, d->cq->ibv,
					PORT_SLOTS, &d->dci);
	return err ? err : rdmamsg__dci_start(dev->device, &d->dci,
					      &d->port->path);
}

static int dci_new(struct dc_port *p)
{
	struct port_dci *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return rdmamsg__fail(-ENOMEM, "no memory for an initiator");
	d->port = p;
	err = dci_make(d);
	if (err) {
		rdmamsg__try_begin();
		dci_free(d);
		rdmamsg__try_end();
		return err;
	}
	d->index = p->dci_count;
	p->dcis[p->dci_count++] = d;
	return 0;
}

static void unbind(struct port_dci *d)
{
	if (!d->peer)
		return;
	d->peer->dci = NULL;
	d->peer = NULL;
	d->port->bound--;
}

/* Unbinds an initiator that another peer needs. */
static void evict(struct port_dci *d)
{
	unbind(d);
	if (d->port->ops->evicted)
		d->port->ops->evicted(d->port);
}

static bool is_idle(const struct port_dci *d)
{
	return d->sent == d->done && !d->broken && !d->dead;
}

/* Returns the idle initiator with a peer that was used the longest time ago. */
static struct port_dci *oldest(const struct dc_port *p)
{
	struct port_dci *found = NULL;

	for (uint32_t i = 0; i < p->dci_count; i++) {
		struct port_dci *d = p->dcis[i];

		if (d->peer && is_idle(d) && (!found || d->used < found->used))
			found = d;
	}
	return found;
}

static struct port_dci *unused(const struct dc_port *p)
{
	for (uint32_t i = 0; i < p->dci_count; i++)
		if (!p->dcis[i]->peer && is_idle(p->dcis[i]))
			return p->dcis[i];
	return NULL;
}

bool rdmamsg__port_unbind(struct dc_port *p)
{
	struct port_dci *d = oldest(p);

	if (!d)
		return false;
	evict(d);
	return true;
}

static struct port_dci *find_dci(struct dc_port *p)
{
	struct port_dci *d;

	if (p->ops->may_bind(p)) {
		d = unused(p);
		if (d)
			return d;
		if (p->dci_count < p->dci_max &&
		    !rdmamsg__try(dci_new(p)))
			return p->dcis[p->dci_count - 1];
		if (!p->dci_count) {
			log_error("port of DC: %s", rdmamsg__text());
			p->failed = true;
		}
	}
	return rdmamsg__port_unbind(p) ? unused(p) : NULL;
}

static bool take_dci(struct dc_peer *peer)
{
	struct port_dci *d = find_dci(peer->port);

	if (!d)
		return false;
	list_del(&peer->row);
	d->peer = peer;
	d->burst = 0;
	d->used = ++peer->port->uses;
	peer->dci = d;
	peer->port->bound++;
	return true;
}

bool rdmamsg__peer_bind(struct dc_peer *peer)
{
	if (likely(peer->dci != NULL))
		return rdmamsg__peer_room(peer);
	if (list_empty(&peer->port->row) && take_dci(peer))
		return true;
	if (list_empty(&peer->row))
		list_add_tail(&peer->port->row, &peer->row);
	return false;
}

void rdmamsg__port_serve(struct dc_port *p)
{
	while (!list_empty(&p->row) && !p->failed) {
		struct dc_peer *peer = list_first(&p->row, struct dc_peer,
						  row);

		if (!take_dci(peer))
			return;
		p->ops->pump(peer);
	}
}

void rdmamsg__peer_fail(struct dc_peer *peer)
{
	struct port_dci *d = peer->dci;

	if (d && d->sent != d->done)
		rdmamsg__dci_fail(d->port->dev->device, &d->dci);
}

void rdmamsg__peer_drop(struct dc_peer *peer)
{
	const struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR };
	struct port_dci *d = peer->dci;

	if (!d || d->sent == d->done)
		return;
	d->dead = d->broken = true;
	/* the device uses no memory of the requests any more */
	if (rdmamsg__v_destroy_qp(d->port->dev->device->v, d->dci.qp))
		log_error("an initiator of DC could not be destroyed");
	d->dci.qp = NULL;
	while (d->sent != d->done) {
		struct dc_tx tx = d->tx[d->done++ % PORT_SLOTS];

		d->port->ops->done(peer, &tx, &wc);
	}
	unbind(d);
}

/* ---- requests ---------------------------------------------------------- */

struct ibv_sge rdmamsg__peer_sge(const struct dc_peer *peer, uint32_t len)
{
	return (struct ibv_sge){
		(uintptr_t)rdmamsg__peer_slot(peer), len,
		peer->dci->mem.mr->lkey,
	};
}

/* A request that cannot be posted fails as if the device had refused it. */
void rdmamsg__peer_post(struct dc_peer *peer, struct ibv_send_wr *wr,
			struct dc_tx tx)
{
	struct port_dci *d = peer->dci;
	struct dc_port *p = d->port;
	struct ibv_wc wc;
	int err;

	wr->wr_id = wr_id(p, d->index);
	wr->send_flags |= IBV_SEND_SIGNALED;
	tx.slot = rdmamsg__peer_slot(peer);
	d->burst++;
	err = rdmamsg__dci_post(&d->dci, wr, &peer->to);
	if (likely(!err)) {
		d->tx[d->sent++ % PORT_SLOTS] = tx;
		return;
	}
	log_error("posting a request of DC failed: %s", strerror(-err));
	wc = (struct ibv_wc){ .status = IBV_WC_GENERAL_ERR };
	if (!d->broken)
		d->why = wc;
	d->broken = true;		/* the next tick recovers */
	p->ops->done(peer, &tx, &wc);
	rdmamsg__dci_fail(p->dev->device, &d->dci);
}

void rdmamsg__peer_send(struct dc_peer *peer, uint32_t len, struct dc_tx tx)
{
	struct ibv_sge sge = rdmamsg__peer_sge(peer, len);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
	};

	if (len <= peer->dci->dci.max_inline)
		wr.send_flags = IBV_SEND_INLINE;
	rdmamsg__peer_post(peer, &wr, tx);
}

/* The initiator is idle: the next peer's turn, if any waits. */
static void rest(struct port_dci *d)
{
	struct dc_port *p = d->port;
	struct dc_peer *peer = d->peer;

	d->used = ++p->uses;
	if (peer)
		p->ops->idle(peer, NULL);
	if (list_empty(&p->row) || !is_idle(d))
		return;
	if (d->peer) {
		peer = d->peer;
		evict(d);
		if (p->ops->wants(peer))
			list_add_tail(&p->row, &peer->row);
	}
	rdmamsg__port_serve(p);
}

static void recover(struct port_dci *d)
{
	struct dc_port *p = d->port;
	struct dc_peer *peer = d->peer;
	struct ibv_wc why = d->why;

	d->broken = false;
	d->sent = d->done = 0;
	unbind(d);
	if (rdmamsg__try(rdmamsg__dci_start(p->dev->device, &d->dci,
					    &p->path))) {
		log_error("port of DC: %s", rdmamsg__text());
		p->failed = true;
	}
	if (peer)
		p->ops->idle(peer, &why);
	rdmamsg__port_serve(p);
}

static void completed(struct port_dci *d, const struct ibv_wc *wc)
{
	struct dc_port *p = d->port;
	struct dc_tx tx;

	if (d->sent == d->done)
		return;
	tx = d->tx[d->done++ % PORT_SLOTS];
	if (unlikely(wc->status != IBV_WC_SUCCESS) && !d->broken) {
		d->broken = true;
		d->why = *wc;
	}
	if (d->peer)
		p->ops->done(d->peer, &tx, wc);
	if (unlikely(d->broken)) {
		if (d->sent == d->done)
			recover(d);
		return;
	}
	if (d->peer && rdmamsg__peer_room(d->peer))
		p->ops->pump(d->peer);
	if (d->sent == d->done)
		rest(d);
}

void rdmamsg__port_completed(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	const uint32_t low = (uint32_t)wc->wr_id;
	const uint32_t slot = low & (WR_SLOTS - 1);
	struct dc_port *p = rdmamsg__handle_of(&ctx->dcs->ports,
					       (low & ~WR_RECV) >> WR_INDEX);

	if (!p)
		return;
	if (!(low & WR_RECV)) {
		if (slot < p->dci_count)
			completed(p->dcis[slot], wc);
	} else if (slot < p->depth) {
		received(p, slot, wc);
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

/* Fails the requests that a peer does not take, however long it is retried. */
static void look(struct port_dci *d)
{
	if (d->broken && !d->dead && d->sent == d->done)
		recover(d);
	else if (d->sent == d->done || d->seen != d->done) {
		d->seen = d->done;
		d->stalled = 0;
	} else if (++d->stalled == STALLED && !d->dead) {
		rdmamsg__dci_fail(d->port->dev->device, &d->dci);
	}
}

static void tick(struct timer *t)
{
	struct dc_port *p = list_entry(t, struct dc_port, tick);

	rdmamsg__timer_set(&p->ctx->loop.timers, t, PORT_TICK_MS);
	if (p->dev->device->gone)
		p->failed = true;
	for (uint32_t i = 0; i < p->dci_count; i++)
		look(p->dcis[i]);
	p->ops->tick(p);
}

/* ---- peers ------------------------------------------------------------- */

static int make_ah(struct dc_port *p, struct ibv_ah_attr *attr,
		   struct ibv_ah **ret)
{
	const uint64_t from = rdmamsg__now_ms();
	uint64_t to;
	int err;

	if (from < p->deaf_until)
		return rdmamsg__fail(-EAGAIN, "an address did not answer a "
				     "moment ago");
	err = rdmamsg__v_create_ah(p->dev->device->v, p->dev->pd, attr, ret);
	to = rdmamsg__now_ms();
	if (err && to > from)
		p->deaf_until = to + DEAF * (to - from);
	return err ? rdmamsg__fail_verbs(err, "address of a peer of DC") : 0;
}

int rdmamsg__peer_open(struct dc_port *p, const struct dc_place *place,
		       uint64_t key, struct dc_peer *peer)
{
	struct oob to = p->path;
	struct ibv_ah_attr attr;
	int err;

	if (place->link != p->path.local.link ||
	    place->mtu != p->path.local.mtu)
		return rdmamsg__fail(-EHOSTUNREACH, "the peer's port has "
				     "another link layer or MTU");
	peer->port = p;
	list_init(&peer->row);
	to.local.lid = place->lid;
	memcpy(to.local.gid, place->gid, sizeof(to.local.gid));
	rdmamsg__loopback_address(&to, &attr);
	(void)!getrandom(&peer->generation, sizeof(peer->generation),
			 GRND_NONBLOCK);
	err = rdmamsg__handle_give(&p->peers, peer, 1, PEERS, &peer->handle);
	if (err)
		return rdmamsg__fail(err, "no handle for one more peer of DC");
	err = make_ah(p, &attr, &peer->to.ah);
	if (err) {
		rdmamsg__handle_take(&p->peers, peer, peer->handle);
		return err;
	}
	peer->to.dctn = place->dctn;
	peer->to.key = key;
	return 0;
}

void rdmamsg__peer_close(struct dc_peer *peer)
{
	struct dc_port *p = peer->port;

	if (peer->dci)
		unbind(peer->dci);
	list_del(&peer->row);
	rdmamsg__handle_take(&p->peers, peer, peer->handle);
	(void)rdmamsg__v_destroy_ah(p->dev->device->v, peer->to.ah);
}

struct dc_peer *rdmamsg__peer_of(const struct dc_port *p,
				 const struct dc_frame *f)
{
	struct dc_peer *peer = rdmamsg__handle_of(&p->peers, f->handle);

	return peer && peer->generation == f->generation ? peer : NULL;
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

static int find_path(struct dc_port *p, const struct sockaddr *local)
{
	const struct rdmamsg_path any = { .size = sizeof(any) };
	int err = rdmamsg__path_copy(&p->path.path, &any);

	return err ? err : rdmamsg__path_local(&p->path, p->dev->device, local);
}

static int make_srq(struct dc_port *p)
{
	const struct rdmamsg_device *d = p->dev->device;
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = p->depth, .max_sge = 1 },
	};
	const struct dct_attr dct = {
		.pd = p->dev->pd, .cq = p->cq->ibv, .key = p->key,
	};
	struct dct_attr with = dct;
	int err = rdmamsg__v_create_srq(d->v, p->dev->pd, &attr, &p->srq);

	if (err)
		return rdmamsg__fail_verbs(err, "receive queue of DC");
	with.srq = p->srq;
	err = rdmamsg__dct_open(d, &with, &p->path, &p->dct);
	return err ? err : fill(p);
}

static int make(struct dc_port *p, const struct port_wants *w)
{
	int err = rdmamsg__dc_supported(p->dev->device);

	if (!err)
		err = find_path(p, w->local);
	if (err)
		return err;
	p->depth = min(w->depth, (uint32_t)max(p->dev->device->attr.max_srq_wr,
					       1));
	p->dci_max = w->initiators;
	p->recv = calloc(p->depth, sizeof(struct rdmamsg_msg *));
	p->holes = calloc(p->depth, sizeof(*p->holes));
	p->dcis = calloc(p->dci_max, sizeof(struct port_dci *));
	if (!p->recv || !p->holes || !p->dcis)
		return rdmamsg__fail(-ENOMEM, "no memory for a port of DC");
	for (uint32_t i = 0; i < p->depth; i++)
		p->holes[p->hole_count++] = p->depth - 1 - i;
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
	err = rdmamsg__cq_get(p->dev, p->depth, VECTOR_ANY, false, &p->cq);
	if (!err)
		err = make_srq(p);
	/* no initiator, no use */
	return err ? err : dci_new(p);
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
		rdmamsg__cq_put(p->dev, p->cq, p->depth);
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
		dci_free(p->dcis[i]);
	free_receives(p);
	rdmamsg__dev_put(p->dev);
	rdmamsg__handles_free(&p->peers);
	free(p->recv);
	free(p->holes);
	free(p->dcis);
	free(p);
}
