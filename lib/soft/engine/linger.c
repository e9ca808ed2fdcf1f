/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/engine/linger.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/engine/req.h"
#include "soft/fabric/msg.h"
#include "soft/fabric/wire.h"
#include "soft/verbs/qp.h"

#define SOON_NS		1u
/* Linux gives up a closed socket after so long: tcp.rst, tcp_orphan_retries. */
#define ORPHAN_NS	100000000000ull

struct linger {
	struct list node;		/* dev->lingering */
	struct soft_qp qp;		/* its requests alone, all completed */
	uint32_t cm_id;			/* handle of its connection */
	uint32_t peer;			/* node */
	uint32_t end;			/* number behind the last request */
	bool delivered;			/* or refused */
	bool over;			/* without a FIN */
	struct soft_wire *wire;		/* of fin; NULL: no fin yet */
	size_t fin_len;
	_Alignas(struct soft_msg) uint8_t fin[SOFT_MSG_MAX];
};

static struct linger *linger_of(struct soft_qp *qp)
{
	return list_entry(qp, struct linger, qp);
}

static void linger_free(struct soft_dev *dev, struct linger *l)
{
	struct soft_qp *qp = &l->qp;

	soft_timer_stop(&qp->timer);
	soft_timer_stop(&qp->late);
	list_del(&qp->pend_node);
	list_del(&l->node);
	while (qp->sq_head != qp->sq_tail)
		soft_sq_complete(dev, qp, wqe_at(qp, qp->sq_head++),
				 IBV_WC_WR_FLUSH_ERR);
	soft_sq_fini(qp);
	soft_wire_put(dev, qp->wire);
	soft_wire_put(dev, l->wire);
	free(l);
}

/* Nobody has answered for too long. */
static void expired(struct soft_dev *dev, struct soft_timer *t)
{
	linger_free(dev, linger_of(list_entry(t, struct soft_qp, late)));
}

static void go_on(struct soft_dev *dev, struct soft_timer *t)
{
	struct linger *l = linger_of(list_entry(t, struct soft_qp, timer));

	if (!l->over && (!l->wire || !soft_port_carries(dev, 1)))
		return;
	/* the message may be for this process, and end a wire */
	list_del(&l->node);
	if (!l->over)
		(void)soft_wire_send(dev, l->wire,
				     (const struct soft_msg *)l->fin,
				     l->fin_len);
	linger_free(dev, l);
}

/*
 * Sends the FIN, if there is one, or frees what is over. The timer does so
 * afterwards, because a record of the wire may be at work.
 */
static void soon(struct soft_dev *dev, struct linger *l)
{
	if (!l->delivered && !l->over)
		return;
	l->qp.state = IBV_QPS_ERR;
	l->qp.timer.fn = go_on;
	soft_timer_set(dev, &l->qp.timer, SOON_NS);
}

static struct linger *linger_new(struct soft_dev *dev, uint32_t cm_id,
				 uint32_t peer)
{
	struct linger *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->cm_id = cm_id;
	l->peer = peer;
	l->qp.lingers = true;
	list_init(&l->qp.pend_node);
	list_init(&l->qp.wait_node);
	list_init(&l->qp.windows);
	list_init(&l->qp.opened);
	list_init(&l->qp.timer.node);
	list_init(&l->qp.late.node);
	l->qp.timer.fn = soft_req_timer;
	l->qp.late.fn = expired;
	soft_timer_set(dev, &l->qp.late, ORPHAN_NS);
	list_add_tail(&dev->lingering, &l->node);
	return l;
}

static struct linger *of_id(const struct soft_dev *dev, uint32_t cm_id)
{
	struct list *n;

	list_for_each(n, &dev->lingering) {
		struct linger *l = list_entry(n, struct linger, node);

		if (l->cm_id == cm_id && !l->over)
			return l;
	}
	return NULL;
}

/* ---- the requests ----------------------------------------------------- */

/* Returns the end of those that must arrive, or sq_head. */
static uint32_t end_of(const struct soft_qp *qp)
{
	uint32_t end = qp->sq_tail;

	while (end != qp->sq_head) {
		const struct soft_swqe *wqe = &qp->sq[(end - 1) & qp->sq_mask];

		if (wqe->told && !is_read(wqe) && !is_local(wqe))
			break;
		end--;
	}
	return end;
}

/*
 * Takes over a request. The program has no use for the answer to a read, but the
 * peer counts it.
 */
static void take_over(struct soft_qp *to, struct soft_qp *from, uint32_t i)
{
	struct soft_swqe *old = wqe_at(from, i), *wqe = wqe_at(to, i);
	struct ibv_sge *sge = wqe->sge;
	uint8_t *data = wqe->data;

	*wqe = *old;
	wqe->sge = sge;
	wqe->data = data;
	wqe->told = true;
	wqe->done |= is_local(wqe);
	wqe->taken = NULL;
	to->told++;
	if (wqe->inlined)
		memcpy(data, old->data, wqe->length);
	if (!old->told || !old->taken)
		return;
	wqe->taken = old->taken;
	to->taken += wqe->length;
	from->taken -= wqe->length;
	old->taken = NULL;
}

static void begin(struct soft_dev *dev, struct linger *l, struct soft_qp *from,
		  uint32_t end)
{
	struct soft_qp *qp = &l->qp;

	qp->ibv.qp_num = from->ibv.qp_num;
	qp->ibv.qp_type = from->ibv.qp_type;
	qp->state = IBV_QPS_RTS;
	qp->attr = from->attr;
	soft_wire_hold(from->wire);
	qp->wire = from->wire;
	qp->sq_head = from->sq_head;
	/* behind the last one that is kept, some may have been pushed */
	qp->sq_next = (int32_t)(from->sq_next - end) > 0 ? end : from->sq_next;
	qp->sq_tail = end;
	qp->begun = from->begun;
	qp->una = from->una;
	qp->psn_next = from->psn_next;
	qp->tries = from->tries;
	qp->drawn = from->drawn;
	qp->decided = from->decided;
	for (uint32_t i = qp->sq_head; i != end; i++) {
		take_over(qp, from, i);
		qp->reads_out += is_read(wqe_at(qp, i)) &&
				 !wqe_at(qp, i)->done &&
				 (int32_t)(i - qp->sq_next) < 0;
	}
	/* their ACKs come without a doorbell, unless the device heeds them */
	soft_heed(dev);
	soft_req_wait(dev, qp, SOON_NS);
}

void soft_linger_new(struct soft_dev *dev, struct soft_qp *qp)
{
	const uint32_t end = end_of(qp);
	struct linger *l;
	uint32_t psn;

	if (end == qp->sq_head || !qp->wire || qp->wire->dead)
		return;
	psn = (wqe_at(qp, end - 1)->psn + 1) & SOFT_PSN_MASK;
	if (!psn_before(qp->una, psn))
		return;
	l = linger_new(dev, qp->cm_id, qp->wire->peer);
	if (!l)
		return;
	l->end = psn;
	l->qp.ibv.context = qp->ibv.context;
	l->qp.cap = qp->cap;
	if (soft_sq_init(&l->qp)) {
		linger_free(dev, l);
		return;
	}
	l->qp.ibv.context = NULL;	/* the program may close it */
	begin(dev, l, qp, end);
}

void soft_linger_answered(struct soft_dev *dev, struct soft_qp *qp)
{
	if (!psn_before(qp->una, linger_of(qp)->end))
		soft_linger_over(dev, qp);
}

void soft_linger_over(struct soft_dev *dev, struct soft_qp *qp)
{
	struct linger *l = linger_of(qp);

	l->delivered = true;
	soon(dev, l);
}

struct soft_qp *soft_linger_find(const struct soft_dev *dev, uint32_t dst,
				 uint32_t src)
{
	struct list *n;

	list_for_each(n, &dev->lingering) {
		struct linger *l = list_entry(n, struct linger, node);

		if (l->qp.ibv.qp_num == dst && l->qp.attr.dest_qp_num == src &&
		    l->qp.wire && !l->over)
			return &l->qp;
	}
	return NULL;
}

/* ---- the end ---------------------------------------------------------- */

void soft_linger_fin(struct soft_dev *dev, struct soft_wire *w, uint32_t cm_id,
		     const struct soft_msg *fin, size_t len)
{
	struct linger *l = of_id(dev, cm_id);

	if (!l && soft_port_carries(dev, 1)) {
		(void)soft_wire_send(dev, w, fin, len);
		return;
	}
	if (!l) {
		l = linger_new(dev, cm_id, w->peer);
		if (!l)
			return;
		l->delivered = true;
	}
	soft_wire_hold(w);
	l->wire = w;
	memcpy(l->fin, fin, len);
	l->fin_len = len;
	soon(dev, l);
}

void soft_linger_stop(struct soft_dev *dev, uint32_t cm_id, uint32_t peer)
{
	struct linger *l = of_id(dev, cm_id);

	if (!l || l->peer != peer)
		return;
	l->over = true;
	soon(dev, l);
}

void soft_linger_ports(struct soft_dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->lingering)
		soon(dev, list_entry(n, struct linger, node));
}

void soft_linger_wire_down(struct soft_dev *dev, const struct soft_wire *w)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &dev->lingering) {
		struct linger *l = list_entry(n, struct linger, node);

		if (l->qp.wire == w || l->wire == w)
			linger_free(dev, l);
	}
}
