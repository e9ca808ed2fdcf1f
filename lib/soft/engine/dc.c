/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dynamically connected transport. An initiator pushes the record DC_CONNECT
 * before its first request to a target. The record has the access key, the
 * number of the session, and the PSN of the first request. The target makes a
 * responder for the initiator, in place of one that it has. Then requests and
 * answers are those of RC. The number of an initiator names its process, so a
 * process has at most SOFT_QPS responders at a target, whatever it pushes.
 *
 *   initiator                      target
 *      | DC_CONNECT, request, ...     |
 *      |----------------------------->|   the key is right: a responder
 *      |           ACKs, answers      |   executes the requests
 *      |<-----------------------------|
 *      | all requests are complete:   |   the key is wrong: NAK_ACCESS, and
 *      | the next target              |   the responder is in ERR
 *
 * If the target answers LOST, the initiator connects again with the same number
 * of its session, which changes nothing at a responder that exists. So no
 * request executes twice. DC_LEAVE frees a responder early. If the ring is full,
 * the record is left out. Then the responder stays until its initiator connects
 * again, or until the wire dies.
 */
#include "soft/engine/dc.h"

#include <string.h>

#include "base/util.h"
#include "soft/engine/apm.h"
#include "soft/engine/engine.h"
#include "soft/engine/resp.h"
#include "soft/fabric/count.h"
#include "soft/fabric/push.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/dc.h"
#include "soft/verbs/stream.h"

/* ---- initiators ------------------------------------------------------- */

static bool is_dead(const struct soft_qp *qp)
{
	return !qp->wire || qp->wire->dead;
}

/* Pushes a record without payload. Returns false if the ring is full. */
static bool push(struct soft_dev *dev, struct soft_qp *qp, enum soft_op op)
{
	struct soft_rec *rec = soft_rec_new(dev, qp->wire, 0);

	if (!rec)
		return false;
	memset(rec, 0, sizeof(*rec));
	rec->op = (uint8_t)op;
	rec->dst = qp->attr.dest_qp_num;
	rec->src = qp->ibv.qp_num;
	rec->psn = qp->dci->first;
	rec->raddr = qp->dci->key;
	rec->srqn = qp->dci->session;
	soft_rec_commit_quiet(dev, qp->wire);
	return true;
}

/* If the target is absent, there is no wire, as for RC. */
static void turn_to(struct soft_dev *dev, struct soft_qp *qp,
		    const struct soft_swqe *wqe, uint64_t key)
{
	const uint32_t node = wqe->dest_qpn >> SOFT_QPN_BITS;
	struct soft_dci *dci = qp->dci;

	soft_wire_put(dev, qp->wire);
	qp->wire = NULL;
	qp->dials = false;
	qp->dial_until = 0;
	if (!wqe->ah->far &&
	    (wqe->ah->node < 0 || wqe->ah->node == (int)node))
		qp->dials = soft_wire_get(dev, node, &qp->wire) == -EAGAIN;
	qp->attr.dest_qp_num = wqe->dest_qpn;
	dci->key = key;
	dci->first = wqe->psn;
	dci->session = ++dev->dc_sessions;
	dci->aimed = true;
	dci->connected = false;
}

bool soft_dci_aim(struct soft_dev *dev, struct soft_qp *qp,
		  const struct soft_swqe *wqe)
{
	const bool idle = qp->sq_head == qp->sq_next;
	struct soft_dci *dci = qp->dci;
	const uint64_t key = dci->keys[wqe - qp->sq];

	if (!dci->aimed || dci->key != key ||
	    qp->attr.dest_qp_num != wqe->dest_qpn || (idle && is_dead(qp))) {
		if (!idle) {
			soft_heed(dev);
			return false;
		}
		turn_to(dev, qp, wqe, key);
	}
	if (likely(dci->connected) || is_dead(qp))
		return true;
	dci->connected = push(dev, qp, SOFT_DC_CONNECT);
	if (!dci->connected)
		soft_qp_pend(dev, qp);
	return dci->connected;
}

void soft_dci_leave(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_dci *dci = qp->dci;

	if (dci->connected && !is_dead(qp))
		(void)push(dev, qp, SOFT_DC_LEAVE);
	dci->aimed = dci->connected = false;
}

/* ---- targets ---------------------------------------------------------- */

/* Begins with an initiator. */
static void begin(const struct soft_qp *target, struct soft_dcr *r,
		  struct soft_wire *w, const struct soft_rec *rec)
{
	struct soft_qp *qp = &r->qp;

	soft_wire_hold(w);
	qp->wire = w;
	r->session = rec->srqn;
	qp->attr = target->attr;
	qp->attr.dest_qp_num = rec->src;
	qp->attr.max_dest_rd_atomic = SOFT_MAX_RD;
	qp->state = IBV_QPS_RTR;
	qp->epsn = rec->psn & SOFT_PSN_MASK;
}

static void violated(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_dct *dct = qp->dct;

	if (dct->violations != UINT32_MAX)
		dct->violations++;
	if (!dct->armed)
		return;
	dct->armed = false;
	soft_async_qp(dev, qp, IBV_EVENT_QP_ACCESS_ERR);
}

static void on_connect(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_wire *w, const struct soft_rec *rec)
{
	struct soft_dcr *r = soft_dcr_find(qp->dct, rec->src);

	if (unlikely(dev->faulty) && !soft_port_carries(dev, qp->attr.port_num))
		return;
	if (r && r->qp.wire == w && r->session == rec->srqn)
		return;
	/* an initiator that breaks its session off may be amid a message */
	if (r)
		soft_dcr_free(dev, r);
	r = soft_dcr_new(qp, rec->src);
	if (!r)
		return;
	begin(qp, r, w, rec);
	if (rec->raddr == qp->dct->key)
		return;
	violated(dev, qp);
	soft_refuse(dev, &r->qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
}

static bool on_request(struct soft_dev *dev, struct soft_dcr *r,
		       const struct soft_rec *rec, const void *payload)
{
	struct soft_qp *qp = &r->qp;

	/* behind a refused request */
	if (qp->state == IBV_QPS_ERR)
		return true;
	if (unlikely(dev->faulty || rec->flags & SOFT_F_PATH) &&
	    !soft_apm_arrives(dev, qp, rec))
		return false;
	soft_resp_request(dev, qp, rec, payload);
	soft_count_rcv(dev, qp->attr.port_num, rec->bytes);
	return true;
}

bool soft_dct_arrives(struct soft_dev *dev, struct soft_qp *qp,
		      struct soft_wire *w, const struct soft_rec *rec,
		      const void *payload)
{
	struct soft_dcr *r;

	if (qp->state != IBV_QPS_RTR || rec->flags & SOFT_F_UNRELIABLE)
		return false;
	if (rec->op == SOFT_DC_CONNECT) {
		on_connect(dev, qp, w, rec);
		return true;
	}
	r = soft_dcr_find(qp->dct, rec->src);
	if (!r || r->qp.wire != w)
		return false;
	if (rec->op == SOFT_DC_LEAVE)
		soft_dcr_free(dev, r);
	else if (soft_is_request(rec->op))
		return on_request(dev, r, rec, payload);
	return true;
}

/* ---- the end ---------------------------------------------------------- */

/* Ends the responders of a wire, or all if w is NULL. */
static void end(struct soft_dev *dev, struct soft_dct *dct,
		const struct soft_wire *w)
{
	struct list *n, *t;

	for (int i = 0; i < SOFT_DCRS; i++)
		list_for_each_safe(n, t, &dct->dcrs[i]) {
			struct soft_dcr *r = list_entry(n, struct soft_dcr,
							node);

			if (w && r->qp.wire != w)
				continue;
			/* push a due NAK if the ring has room */
			(void)soft_resp_push(dev, &r->qp);
			soft_dcr_free(dev, r);
		}
}

void soft_dct_wire_down(struct soft_dev *dev, const struct soft_wire *w)
{
	struct list *n;

	list_for_each(n, &dev->targets)
		end(dev, list_entry(n, struct soft_dct, node), w);
}

void soft_dc_over(struct soft_dev *dev, struct soft_qp *qp)
{
	struct soft_dci *dci = qp->dci;

	if (qp->dct) {
		end(dev, qp->dct, NULL);
		list_del(&qp->dct->node);
		return;
	}
	soft_dci_leave(dev, qp);
	if (dci->streams)
		dci->streams->count = 0;
}
