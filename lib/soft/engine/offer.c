/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/engine/offer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/calls.h"
#include "soft/engine/req.h"
#include "soft/fabric/count.h"
#include "soft/fabric/push.h"
#include "soft/verbs/access.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/layout.h"
#include "soft/verbs/qp.h"

#define OFFERS		8u	/* of a queue pair; a later one replaces one */
#define TAKE_MAX	(512u << 10)	/* bytes that a call to post may copy */

struct soft_offer {
	bool stands;			/* as far as is known */
	uint32_t rkey;
	uint64_t raddr;
	struct soft_range range[2];	/* of the region, of the queue pair */
};

struct soft_offers {
	uint32_t count;			/* of all that have come */
	struct soft_offer of[OFFERS];
};

/* ---- offering ---------------------------------------------------------- */

static bool may_offer(const struct soft_dev *dev, const struct soft_qp *qp,
		      const struct soft_mr *mr)
{
	return qp->ibv.qp_type == IBV_QPT_RC && qp->state == IBV_QPS_RTS &&
	       !dev->iwarp && !dev->faulty && !qp->far && qp->wire &&
	       !qp->wire->dead && qp->wire->shows && !mr->layout &&
	       mr->ibv.pd == &qp->pd->ibv &&
	       mr->access & IBV_ACCESS_REMOTE_READ &&
	       qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ;
}

/*
 * If the peer sleeps, this process would have to wake for its request. A peer
 * that polls chooses the faster way by itself, and gains nothing.
 */
static bool pays(const struct soft_wire *w)
{
	return atomic_load_explicit(&w->tx.shm->sleeping,
				    memory_order_relaxed);
}

void soft_offer_read(struct ibv_qp *ibv, const struct ibv_mr *ibv_mr,
		     uint64_t raddr, uint64_t len)
{
	const struct soft_mr *mr = (const struct soft_mr *)ibv_mr;
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp(ibv);
	struct soft_shown *shown;
	struct soft_rec *rec;
	const void *at;

	if (!len || len > TAKE_MAX)
		return;
	soft_lock(dev);
	at = may_offer(dev, qp, mr) && pays(qp->wire) ?
	     soft_mr_memory(mr, raddr, len) : NULL;
	rec = at ? soft_rec_new(dev, qp->wire, soft_vm_shown_len(2)) : NULL;
	if (rec) {
		shown = (struct soft_shown *)(rec + 1);
		memset(rec, 0, sizeof(*rec));
		rec->op = SOFT_OFFER;
		rec->code = SOFT_SHOWN;
		rec->dst = qp->attr.dest_qp_num;
		rec->src = qp->ibv.qp_num;
		rec->raddr = raddr;
		rec->rkey = ibv_mr->rkey;
		rec->bytes = (uint32_t)soft_vm_show_at(dev, qp->wire, at,
						       (uint32_t)len,
						       ibv_mr->rkey, shown);
		soft_vm_add_qp(qp->wire, qp->ibv.qp_num, shown);
		rec->bytes = (uint32_t)soft_vm_shown_len(shown->count);
		qp->offered = true;
		/* the message that follows rings */
		soft_ring_commit(&qp->wire->tx, sizeof(*rec) + rec->bytes);
		qp->wire->dirty = max(qp->wire->dirty, SOFT_QUIET);
		dev->bells_due = true;
	}
	soft_unlock(dev);
}

/* ---- taking ------------------------------------------------------------ */

/* Returns the place of the offer: that of one that it replaces, if there is. */
static struct soft_offer *place_of(struct soft_offers *all, uint32_t rkey,
				   uint64_t raddr)
{
	for (uint32_t i = 0; i < min(all->count, OFFERS); i++)
		if (all->of[i].rkey == rkey && all->of[i].raddr == raddr)
			return &all->of[i];
	return &all->of[all->count++ % OFFERS];
}

void soft_offer_arrives(struct soft_qp *qp, const struct soft_rec *rec,
			const struct soft_fetch *from)
{
	struct soft_offer *o;

	/* what lingers has no requests, and an initiator of DC changes peers */
	if (qp->ibv.qp_type != IBV_QPT_RC || qp->lingers ||
	    from->wire != qp->wire || from->shown.count != 2)
		return;
	if (!qp->offers)
		qp->offers = calloc(1, sizeof(*qp->offers));
	if (!qp->offers)
		return;
	o = place_of(qp->offers, rec->rkey, rec->raddr);
	o->stands = true;
	o->rkey = rec->rkey;
	o->raddr = rec->raddr;
	memcpy(o->range, from->shown.range, sizeof(o->range));
}

static struct soft_offer *find(struct soft_offers *all,
			       const struct soft_swqe *wqe)
{
	for (uint32_t i = 0; i < min(all->count, OFFERS); i++) {
		struct soft_offer *o = &all->of[i];
		/* below raddr it wraps, and is too large */
		const uint64_t skip = wqe->raddr - o->raddr;

		if (o->stands && o->rkey == wqe->rkey &&
		    skip <= o->range[0].len &&
		    wqe->length <= o->range[0].len - skip)
			return o;
	}
	return NULL;
}

/*
 * The read has to see what earlier requests have done, and completes after
 * them. And no later one may have a PSN yet.
 */
static bool is_alone(const struct soft_qp *qp, const struct soft_swqe *wqe)
{
	return qp->sq_head == qp->sq_next && qp->sq_next + 1 == qp->sq_tail &&
	       qp->psn_next == ((wqe->psn + 1) & SOFT_PSN_MASK) &&
	       qp->una == wqe->psn;
}

bool soft_offer_take(struct soft_dev *dev, struct soft_qp *qp,
		     struct soft_swqe *wqe)
{
	struct soft_fetch from = { .wire = qp->wire };
	struct soft_offer *o;
	uint64_t skip;

	if (likely(!qp->offers) || wqe->op != IBV_WR_RDMA_READ || wqe->push ||
	    !wqe->length || wqe->length > TAKE_MAX || dev->iwarp ||
	    dev->faulty || qp->state != IBV_QPS_RTS || !is_alone(qp, wqe) ||
	    soft_layout_in(dev, wqe->sge, wqe->num_sge))
		return false;
	o = find(qp->offers, wqe);
	if (!o)
		return false;
	skip = wqe->raddr - o->raddr;
	from.shown.count = 2;
	memcpy(from.shown.range, o->range, sizeof(o->range));
	from.shown.range[0].addr += skip;
	from.shown.range[0].len = wqe->length;
	if (!soft_vm_stands(&from) ||
	    soft_vm_scatter(dev, &qp->pd->ibv, wqe->sge, wqe->num_sge, 0,
			    &from, wqe->length)) {
		/* a request finds out why; the memory may have other bytes */
		o->stands = false;
		return false;
	}
	qp->psn_next = wqe->psn;
	wqe->done = true;
	soft_count_rcv(dev, qp->attr.port_num, wqe->length);
	return true;
}

void soft_offers_end(struct soft_dev *dev)
{
	for (uint32_t i = 0; dev->qps && i < SOFT_QPS; i++)
		if (dev->qps[i])
			soft_vm_end_offers(dev, dev->qps[i]);
}
