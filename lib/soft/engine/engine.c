/* SPDX-License-Identifier: BSD-2-Clause */
/* Distributes records from every wire to their queue pairs. */
#include "soft/engine/engine.h"

#include <stdint.h>
#include <string.h>

#include "base/util.h"
#include "soft/engine/apm.h"
#include "soft/engine/dc.h"
#include "soft/engine/eth.h"
#include "soft/engine/linger.h"
#include "soft/engine/offer.h"
#include "soft/engine/req.h"
#include "soft/engine/resp.h"
#include "soft/engine/ud.h"
#include "soft/fabric/count.h"
#include "soft/fabric/push.h"
#include "soft/fabric/upward.h"
#include "soft/fabric/vm.h"
#include "soft/verbs/qp.h"

#define BUDGET	64		/* records of one wire per round */
#define LARGE	15		/* extra cost of a fetched record */
#define LANDINGS 16		/* measure one in so many segments */
#define WOKEN_ROUNDS 64		/* in one call of the program */

static void dispatch(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_rec *rec, const void *payload)
{
	bool unreliable = rec->flags & SOFT_F_UNRELIABLE;
	struct soft_qp *qp;

	if (rec->op == SOFT_DATAGRAM &&
	    rec->src >> SOFT_QPN_BITS == w->peer) {
		soft_ud_arrives(dev, w, rec, payload);
		return;
	}
	if (unlikely(rec->op == SOFT_PACKET)) {
		soft_fabric_up->net_forwarded(dev, payload, rec->bytes);
		return;
	}
	if (rec->op == SOFT_FRAME && rec->src >> SOFT_QPN_BITS == w->peer) {
		soft_eth_arrives(dev, w, rec, payload);
		return;
	}
	if (rec->src >> SOFT_QPN_BITS != w->peer ||
	    rec->dst >> SOFT_QPN_BITS != dev->node) {
		w->rx.broken = true;
		return;
	}
	qp = soft_qp_find(dev, rec->dst);
	/* the number of a far peer may be one of this host as well */
	if (qp && (qp->far || qp->attr.dest_qp_num != rec->src || !soft_can_receive(qp) ||
		   qp->unreliable != unreliable ||
		   qp->ibv.qp_type == IBV_QPT_UD ||
		   qp->ibv.qp_type == IBV_QPT_RAW_PACKET)) {
		if (qp->dct && soft_dct_arrives(dev, qp, w, rec, payload))
			return;
		qp = NULL;
	}
	if (unlikely(!qp && !soft_is_request(rec->op)))
		qp = soft_linger_find(dev, rec->dst, rec->src);
	if (qp && unlikely(!qp->wire)) {
		/* the peer had no node when this end became ready */
		soft_wire_hold(w);
		qp->wire = w;
	}
	if (qp && unlikely(qp->wire->dead))
		qp = NULL;	/* a new process; the old one is dead */
	if (soft_is_request(rec->op)) {
		/*
		 * answers pass, because their requests were sent before the
		 * fault
		 */
		if (qp && unlikely(dev->faulty ||
				   (rec->flags ^ qp->path) & SOFT_F_PATH) &&
		    !soft_apm_arrives(dev, qp, rec))
			qp = NULL;
		if (qp) {
			soft_resp_request(dev, qp, rec, payload);
			soft_count_rcv(dev, qp->attr.port_num, rec->bytes);
		} else if (!unreliable) {
			soft_wire_lost(w, rec);
		}
	} else if (qp && unlikely(rec->op == SOFT_PATH)) {
		(void)soft_apm_arrives(dev, qp, rec);
	} else if (rec->op == SOFT_OFFER) {
		if (qp && rec->code == SOFT_SHOWN)
			soft_offer_arrives(qp, rec, payload);
	} else if (qp && !unreliable) {
		soft_req_answer(dev, qp, rec, payload);
		if (rec->bytes)
			soft_count_rcv(dev, qp->attr.port_num, rec->bytes);
	}
}

/* Returns how many ordinary records the record costs beyond one. */
static int dispatch_large(struct soft_dev *dev, struct soft_wire *w,
			  struct soft_rec *rec, const void *payload)
{
	struct soft_fetch from;
	uint64_t since;

	dev->copied |= rec->op != SOFT_OFFER;
	if (rec->code == SOFT_SHOWN &&
	    (rec->op == SOFT_SEND || rec->op == SOFT_WRITE ||
	     rec->op == SOFT_READ_RESP || rec->op == SOFT_OFFER)) {
		if (soft_vm_decode(w, rec, payload, &from))
			dispatch(dev, w, rec, &from);
		else
			w->rx.broken = true;
		return LARGE;
	}
	since = rec->bytes == SOFT_SEGMENT && !(++w->landed % LANDINGS) ?
		soft_now() : 0;
	dispatch(dev, w, rec, payload);
	if (since)
		soft_vm_landed(w, since);
	return 0;
}

static bool drain(struct soft_dev *dev, struct soft_wire *w)
{
	struct soft_rec rec;
	size_t avail, len;
	int n = 0;

	while (n < BUDGET && (avail = soft_ring_avail(&w->rx)) != 0) {
		const uint8_t *at = soft_ring_read(&w->rx);

		if (avail < sizeof(rec)) {
			w->rx.broken = true;
			break;
		}
		/*
		 * copy once, because the peer can change the ring after the
		 * check
		 */
		memcpy(&rec, at, sizeof(rec));
		if (rec.bytes > SOFT_SEGMENT ||
		    soft_ring_round(sizeof(rec) + rec.bytes) > avail) {
			w->rx.broken = true;
			break;
		}
		len = sizeof(rec) + rec.bytes;
		if (likely(rec.bytes < SOFT_SEGMENT &&
			   rec.code != SOFT_SHOWN))
			dispatch(dev, w, &rec, at + sizeof(rec));
		else
			n += dispatch_large(dev, w, &rec, at + sizeof(rec));
		soft_ring_consume(&w->rx, len);
		n++;
	}
	if (n)
		w->eaten = dev->bells_due = true;
	return n;
}

static void tell_lost(struct soft_dev *dev, struct soft_wire *w)
{
	while (w->lost_count) {
		const struct soft_lost *l = &w->lost[w->lost_count - 1];
		const struct soft_qp *qp = soft_qp_find(dev, l->dst);
		struct soft_rec *rec;

		/*
		 * a LOST NAK must not overtake answers that are still to be
		 * pushed
		 */
		if (qp && !list_empty(&qp->pend_node))
			return;
		rec = soft_rec_new(dev, w, 0);
		if (!rec)
			return;
		memset(rec, 0, sizeof(*rec));
		rec->op = SOFT_NAK;
		rec->code = SOFT_NAK_LOST;
		rec->aux = l->aux;
		rec->dst = l->src;
		rec->src = l->dst;
		rec->psn = l->psn;
		/* this end has closed, and reads nothing more */
		rec->imm = soft_linger_find(dev, l->dst, l->src) != NULL;
		soft_rec_commit(dev, w, 0);
		w->lost_count--;
	}
}

void soft_qp_pend(struct soft_dev *dev, struct soft_qp *qp)
{
	if (list_empty(&qp->pend_node))
		list_add_tail(&dev->pending, &qp->pend_node);
}

static bool push_pending(struct soft_dev *dev)
{
	struct list *last = dev->pending.prev;
	bool any = false;

	while (!list_empty(&dev->pending)) {
		struct list *n = dev->pending.next;
		struct soft_qp *qp = list_entry(n, struct soft_qp, pend_node);
		uint64_t before = qp->wire && !qp->wire->dead ?
				  qp->wire->tx.pos : 0;

		list_del(n);
		if (!soft_resp_push(dev, qp))
			soft_qp_pend(dev, qp);
		soft_req_push(dev, qp);
		any |= qp->far ? !list_empty(&qp->pend_node) :
		       qp->wire && !qp->wire->dead &&
		       qp->wire->tx.pos != before;
		if (n == last)
			break;
	}
	return any;
}

void soft_push_woken(struct soft_dev *dev)
{
	for (int i = 0; i < WOKEN_ROUNDS && dev->woken; i++) {
		dev->woken = false;
		(void)push_pending(dev);
	}
	if (dev->woken)
		soft_ring_bell(dev->bell);
	dev->woken = false;
}

bool soft_progress(struct soft_dev *dev)
{
	bool any = false;
	struct list *n, *t;

	list_for_each_safe(n, t, &dev->wires) {
		struct soft_wire *w = list_entry(n, struct soft_wire, node);

		any |= drain(dev, w);
		if (unlikely(w->lost_count))
			tell_lost(dev, w);
		if (unlikely(w->rx.broken || w->tx.broken))
			soft_wire_down(dev, w);
	}
	if (!list_empty(&dev->pending))
		any |= push_pending(dev);
	return any;
}
