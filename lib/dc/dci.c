/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initiators of a port: their peers, the row of peers that wait, requests and
 * completions.
 */
#include "base/base.h"
#include "base/list.h"
#include "base/util.h"
#include "dc/dci.h"
#include "dc/port.h"
#include "device/cq.h"
#include "device/dc.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "memory/stretch.h"
#include "session/poll.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define PORT_ASK	UINT8_MAX	/* kind of an empty write */
#define POSITION_MASK	((1u << WR_DCI) - 1)
#define STALLED		20u	/* ticks without progress */
#define LOST		40u	/* ticks without the completions of a failure */

/* ---- life -------------------------------------------------------------- */

void rdmamsg__port_dci_free(struct port_dci *d)
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
		.size = (size_t)PORT_SLOTS * PORT_STRIDE,
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
					      &d->port->dci_attr,
					      &d->port->path);
}

int rdmamsg__port_dci_new(struct dc_port *p)
{
	struct port_dci *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return rdmamsg__fail(-ENOMEM, "no memory for an initiator");
	d->port = p;
	err = dci_make(d);
	if (err) {
		rdmamsg__try_begin();
		rdmamsg__port_dci_free(d);
		rdmamsg__try_end();
		return err;
	}
	d->index = p->dci_count;
	p->dcis[p->dci_count++] = d;
	return 0;
}

/* ---- limits of origins ------------------------------------------------- */

#define DOUBT	64u	/* requests to take after one that was not taken */

void rdmamsg__origin_init(struct dc_origin *o)
{
	list_init(&o->row.node);
	list_init(&o->row.peers);
	list_init(&o->doubts.node);
	list_init(&o->doubts.peers);
}

static uint32_t share_of_origin(const struct dc_port *p)
{
	return max(p->dci_max / 2, 1u);
}

/* Of all origins. It leaves trusted peers the other half. */
static uint32_t share_of_doubtful(const struct dc_port *p)
{
	return max(p->dci_max / 2, 1u);
}

/* Of one origin. It leaves new peers of others the rest. */
static uint32_t share_of_its_doubtful(const struct dc_port *p)
{
	return max(p->dci_max / 4, 1u);
}

static bool is_full(const struct dc_port *p, const struct dc_origin *o)
{
	return o != &p->any && o->bound >= share_of_origin(p);
}

/* Lets an initiator find the peers that wait, if it may be theirs. */
static void place(struct list *row, struct dc_queue *q, bool may)
{
	if (!may || list_empty(&q->peers))
		list_del(&q->node);
	else if (list_empty(&q->node))
		list_add_tail(row, &q->node);
}

static void place_origin(struct dc_port *p, struct dc_origin *o)
{
	const bool may = !is_full(p, o);

	place(&p->row, &o->row, may);
	place(&p->doubts, &o->doubts,
	      may && o->doubtful < share_of_its_doubtful(p));
}

static void wait_in_row(struct dc_peer *peer)
{
	struct dc_origin *o = peer->origin;

	list_add_tail(peer->doubtful ? &o->doubts.peers : &o->row.peers,
		      &peer->row);
	peer->port->waiting++;
	place_origin(peer->port, o);
}

void rdmamsg__port_leave_row(struct dc_peer *peer)
{
	struct dc_origin *o = peer->origin;

	if (list_empty(&peer->row))
		return;
	list_del(&peer->row);
	peer->port->waiting--;
	/* the next turn is another origin's */
	list_del(peer->doubtful ? &o->doubts.node : &o->row.node);
	place_origin(peer->port, o);
}

static void count(struct dc_peer *peer)
{
	peer->port->bound++;
	peer->origin->bound++;
	peer->counted = peer->doubtful;
	peer->port->doubtful += peer->counted;
	peer->origin->doubtful += peer->counted;
}

static void uncount_doubtful(struct dc_peer *peer)
{
	peer->port->doubtful -= peer->counted;
	peer->origin->doubtful -= peer->counted;
	peer->counted = false;
	place_origin(peer->port, peer->origin);
}

void rdmamsg__peer_taken(struct dc_peer *peer)
{
	if (likely(!peer->doubtful) || --peer->doubtful)
		return;
	uncount_doubtful(peer);
}

void rdmamsg__port_dci_unbind(struct port_dci *d)
{
	struct dc_peer *peer = d->peer;

	if (!peer)
		return;
	peer->dci = NULL;
	d->peer = NULL;
	d->port->bound--;
	peer->origin->bound--;
	uncount_doubtful(peer);
}

/* ---- requests ---------------------------------------------------------- */

struct ibv_sge rdmamsg__peer_sge(const struct dc_peer *peer, uint32_t len)
{
	return (struct ibv_sge){
		(uintptr_t)rdmamsg__peer_slot(peer), len,
		peer->dci->mem.mr->lkey,
	};
}

/* A completion confirms all requests before it, so only some have one. */
static bool is_signaled(const struct port_dci *d, const struct dc_tx *tx)
{
	return !tx->late || d->silent + 1 == PORT_SILENT || d->port->waiting;
}

static uint64_t next_wr_id(const struct port_dci *d)
{
	return rdmamsg__port_wr_id(d->port, d->index << WR_DCI |
				   (d->sent & POSITION_MASK));
}

static void posted(struct port_dci *d, const struct dc_tx *tx, bool signaled)
{
	d->tx[d->sent++ % PORT_SLOTS] = *tx;
	d->silent = signaled ? 0 : d->silent + 1;
}

static int post(struct port_dci *d, struct ibv_send_wr *wr,
		const struct dc_to *to, const struct dc_tx *tx)
{
	const bool signaled = is_signaled(d, tx);
	int err;

	wr->wr_id = next_wr_id(d);
	if (signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	err = rdmamsg__dci_post(&d->dci, wr, to);
	if (likely(!err))
		posted(d, tx, signaled);
	return err;
}

/* Posts an empty write, whose completion confirms the requests before it. */
static void ask(struct port_dci *d)
{
	const struct dc_tx tx = { .kind = PORT_ASK };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	int err = 0;

	if (d->silent && !d->dead)
		err = post(d, &wr, &d->peer->to, &tx);
	if (likely(!err))
		return;
	log_error("asking for a completion of DC failed: %s", strerror(-err));
	d->port->failed = true;
}

/* Initiators that are not in use otherwise become idle soon. */
static void ask_all(struct dc_port *p)
{
	for (uint32_t i = 0; i < p->dci_count; i++)
		ask(p->dcis[i]);
}

void rdmamsg__peer_ask(struct dc_peer *peer)
{
	if (peer->dci)
		ask(peer->dci);
}

/* The requests flush. Those that the device has done have no completion. */
static void fail(struct port_dci *d)
{
	rdmamsg__dci_fail(d->port->dev->device, &d->dci);
	ask(d);
}

void rdmamsg__peer_fail(struct dc_peer *peer)
{
	struct port_dci *d = peer->dci;

	if (d && d->sent != d->done)
		fail(d);
}

/* The request fails as if the device had refused it. */
static void not_posted(struct dc_peer *peer, const struct dc_tx *tx, int err)
{
	const struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	struct port_dci *d = peer->dci;

	log_error("posting a request of DC failed: %s", strerror(-err));
	if (!d->broken)
		d->why = wc;
	d->broken = true;		/* the next tick recovers */
	d->port->ops->done(peer, tx, &wc);
	fail(d);
}

void rdmamsg__peer_post(struct dc_peer *peer, struct ibv_send_wr *wr,
			struct dc_tx tx)
{
	struct port_dci *d = peer->dci;
	int err;

	tx.slot = rdmamsg__peer_slot(peer);
	d->burst++;
	err = post(d, wr, &peer->to, &tx);
	if (unlikely(err))
		not_posted(peer, &tx, err);
}

void rdmamsg__peer_send_small(struct dc_peer *peer, const struct dc_frame *f,
			      const void *body, size_t len, struct dc_tx tx)
{
	struct port_dci *d = peer->dci;
	const bool signaled = is_signaled(d, &tx);
	uint8_t header[DCF_LEN];
	const struct ibv_data_buf parts[] = {
		{ header, sizeof(header) }, { (void *)(uintptr_t)body, len },
	};
	int err;

	rdmamsg__dcf_encode(f, header);
	d->burst++;
	err = rdmamsg__dci_send(&d->dci, &peer->to, next_wr_id(d),
				signaled ? IBV_SEND_SIGNALED : 0,
				len ? 2 : 1, parts);
	if (likely(!err))
		posted(d, &tx, signaled);
	else
		not_posted(peer, &tx, err);
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

/* ---- the row ----------------------------------------------------------- */

/* Unbinds an initiator that another peer needs. */
static void evict(struct port_dci *d)
{
	rdmamsg__port_dci_unbind(d);
	if (d->port->ops->evicted)
		d->port->ops->evicted(d->port);
}

static bool is_idle(const struct port_dci *d)
{
	return d->sent == d->done && !d->broken && !d->dead;
}

/*
 * Returns the idle initiator with a peer that was used the longest time ago.
 * o: of this origin, or NULL; doubtful: of a doubtful peer.
 */
static struct port_dci *oldest(const struct dc_port *p,
			       const struct dc_origin *o, bool doubtful)
{
	struct port_dci *found = NULL;

	for (uint32_t i = 0; i < p->dci_count; i++) {
		struct port_dci *d = p->dcis[i];

		if (d->peer && is_idle(d) && (!o || d->peer->origin == o) &&
		    (!doubtful || d->peer->counted) &&
		    (!found || d->used < found->used))
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

/* Unbinds an idle initiator, as oldest() finds it. Returns false if none is. */
static bool unbind_one(struct dc_port *p, const struct dc_origin *o,
		       bool doubtful)
{
	struct port_dci *d = oldest(p, o, doubtful);

	if (d)
		evict(d);
	else
		ask_all(p);
	return d != NULL;
}

bool rdmamsg__port_unbind(struct dc_port *p)
{
	return unbind_one(p, NULL, false);
}

/* Returns true if no limit keeps the peer from an initiator. */
static bool may_take(const struct dc_peer *peer)
{
	struct dc_port *p = peer->port;
	struct dc_origin *o = peer->origin;

	while (is_full(p, o))
		if (!unbind_one(p, o, false))
			return false;
	while (peer->doubtful && o->doubtful >= share_of_its_doubtful(p))
		if (!unbind_one(p, o, true))
			return false;
	while (peer->doubtful && p->doubtful >= share_of_doubtful(p))
		if (!unbind_one(p, NULL, true))
			return false;
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
		    !rdmamsg__try(rdmamsg__port_dci_new(p)))
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
	struct port_dci *d = may_take(peer) ? find_dci(peer->port) : NULL;

	if (!d)
		return false;
	rdmamsg__port_leave_row(peer);
	d->peer = peer;
	d->burst = 0;
	d->used = ++peer->port->uses;
	peer->dci = d;
	peer->port->after_doubtful = peer->doubtful;
	count(peer);
	place_origin(peer->port, peer->origin);
	return true;
}

bool rdmamsg__peer_bind(struct dc_peer *peer)
{
	const struct dc_port *p = peer->port;

	if (likely(peer->dci != NULL))
		return rdmamsg__peer_room(peer);
	if (!list_empty(&peer->row))
		return false;
	if (list_empty(peer->doubtful ? &p->doubts : &p->row) && take_dci(peer))
		return true;
	wait_in_row(peer);
	return false;
}

/* Returns the queue whose turn it is, or NULL. */
static struct dc_queue *next_queue(const struct dc_port *p)
{
	const bool doubtful = !list_empty(&p->doubts) &&
			      p->doubtful < share_of_doubtful(p);
	const bool trusted = !list_empty(&p->row);

	if (doubtful && !(trusted && p->after_doubtful))
		return list_first(&p->doubts, struct dc_queue, node);
	return trusted ? list_first(&p->row, struct dc_queue, node) : NULL;
}

void rdmamsg__port_serve(struct dc_port *p)
{
	struct dc_queue *q;

	while (!p->failed && (q = next_queue(p))) {
		struct dc_peer *peer = list_first(&q->peers, struct dc_peer,
						  row);

		if (!take_dci(peer))
			return;
		p->ops->pump(peer);
	}
}

/* ---- completions ------------------------------------------------------- */

/* Tells of the request that was posted first. */
static void finish(struct port_dci *d, struct dc_peer *peer,
		   const struct ibv_wc *wc)
{
	const struct dc_tx tx = d->tx[d->done++ % PORT_SLOTS];

	if (peer && tx.kind != PORT_ASK)
		d->port->ops->done(peer, &tx, wc);
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
	while (d->sent != d->done)
		finish(d, peer, &wc);
	rdmamsg__port_dci_unbind(d);
}

/* The initiator is idle: the next peer's turn, if any waits. */
static void rest(struct port_dci *d)
{
	struct dc_port *p = d->port;
	struct dc_peer *peer = d->peer;

	d->used = ++p->uses;
	if (peer)
		p->ops->idle(peer, NULL);
	if (!p->waiting || !is_idle(d))
		return;
	if (d->peer) {
		peer = d->peer;
		evict(d);
		if (p->ops->wants(peer))
			wait_in_row(peer);
	}
	rdmamsg__port_serve(p);
}

/* Returns a peer that waits, and whose answers go where those of 'peer' go. */
static struct dc_peer *find_alike(const struct dc_peer *peer, struct list *peers)
{
	struct list *n;

	list_for_each(n, peers) {
		struct dc_peer *other = list_entry(n, struct dc_peer, row);

		/* nobody knows the key of another's port */
		if (other->to.dctn == peer->to.dctn &&
		    other->to.key == peer->to.key)
			return other;
	}
	return NULL;
}

/*
 * A peer does not answer. Those of the same process need no initiator to find
 * that out one after the other.
 */
static void fail_alike(const struct dc_peer *peer, const struct ibv_wc *why)
{
	struct dc_origin *o = peer->origin;
	struct dc_peer *other;

	while ((other = find_alike(peer, &o->doubts.peers)) ||
	       (other = find_alike(peer, &o->row.peers))) {
		rdmamsg__port_leave_row(other);
		other->doubtful = DOUBT;
		peer->port->ops->idle(other, why);
	}
}

static bool is_silent(const struct port_dci *d)
{
	return d->stalled >= STALLED || d->why.status == IBV_WC_RETRY_EXC_ERR ||
	       d->why.status == IBV_WC_RNR_RETRY_EXC_ERR;
}

static void recover(struct port_dci *d)
{
	struct dc_port *p = d->port;
	struct dc_peer *peer = d->peer;
	struct ibv_wc why = d->why;
	const bool silent = is_silent(d);

	d->broken = false;
	d->sent = d->done = d->silent = d->stalled = 0;
	rdmamsg__port_dci_unbind(d);
	if (peer && peer->origin != &p->any)
		peer->doubtful = DOUBT;
	if (rdmamsg__try(rdmamsg__dci_start(p->dev->device, &d->dci,
					    &p->dci_attr,
					    &p->path))) {
		log_error("port of DC: %s", rdmamsg__text());
		p->failed = true;
	}
	if (peer && silent && peer->origin != &p->any)
		fail_alike(peer, &why);
	if (peer)
		p->ops->idle(peer, &why);
	rdmamsg__port_serve(p);
}

/*
 * The last of the requests has this completion. Those before are done, or have
 * flushed behind one that failed.
 */
static void confirm(struct port_dci *d, uint32_t count, bool flushed,
		    const struct ibv_wc *wc)
{
	const struct ibv_wc earlier = {
		.status = flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS,
	};

	while (count--)
		finish(d, d->peer, count ? &earlier : wc);
}

void rdmamsg__port_dci_completed(struct port_dci *d, uint32_t low,
				 const struct ibv_wc *wc)
{
	const uint32_t before = (low - d->done) & POSITION_MASK;
	const bool flushed = d->broken;
	struct dc_port *p = d->port;

	if (before >= d->sent - d->done)
		return;
	if (unlikely(wc->status != IBV_WC_SUCCESS) && !d->broken) {
		d->broken = true;
		d->why = *wc;
	}
	confirm(d, before + 1, flushed, wc);
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

/* Returns the ticks without progress after which requests fail. */
static uint32_t patience(const struct dc_port *p)
{
	return p->ops->patience && p->waiting ? p->ops->patience : STALLED;
}

/* Fails the requests that a peer does not take, however long it is retried. */
void rdmamsg__port_dci_look(struct port_dci *d)
{
	ask(d);
	if (d->broken && !d->dead && d->sent == d->done)
		recover(d);
	else if (d->sent == d->done || d->seen != d->done) {
		d->seen = d->done;
		d->stalled = 0;
	} else if (d->stalled < STALLED) {
		if (++d->stalled < patience(d->port))
			return;
		d->stalled = STALLED;
		if (!d->dead)
			fail(d);
	} else if (++d->stalled == LOST) {
		d->port->failed = true;
	}
}
