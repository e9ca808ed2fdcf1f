/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/engine/order.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/util.h"
#include "soft/engine/engine.h"
#include "soft/engine/fate.h"
#include "soft/engine/linger.h"
#include "soft/engine/req.h"
#include "soft/engine/resp.h"
#include "soft/verbs/access.h"

/* A send buffer of TCP: as tcp_wmem[2] (Linux 6.1, net/ipv4/tcp.c). */
#define TAKES	(4u << 20)
#define LATE_NS	50000ull	/* of an answer that is late */

/*
 * Copies the payload: the program may change it after the completion, and the
 * request may have to be repeated. Returns false if the request must wait.
 */
static bool take(struct soft_qp *qp, const struct soft_swqe *wqe, uint8_t **ret)
{
	uint8_t *copy = NULL;

	if (wqe->inlined || !wqe->length) {
		*ret = NULL;
		return true;
	}
	if (wqe->length <= TAKES - qp->taken)
		copy = malloc(wqe->length);
	if (!copy)
		return false;
	if (soft_gather(qp, wqe->sge, wqe->num_sge, 0, copy, wqe->length)) {
		/* the error follows when the request is pushed */
		free(copy);
		return false;
	}
	qp->taken += wqe->length;
	*ret = copy;
	return true;
}

/* The request stays in the queue until the peer has answered it. */
static void tell(struct soft_dev *dev, struct soft_qp *qp,
		 struct soft_swqe *wqe, uint8_t *taken)
{
	soft_sq_complete(dev, qp, wqe, IBV_WC_SUCCESS);
	wqe->told = true;
	wqe->taken = taken;
	qp->told++;
}

static bool tell_early(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe)
{
	uint8_t *taken;

	/* the entries that have completed early have an end, too */
	if (qp->told >= qp->cap.max_send_wr || !take(qp, wqe, &taken))
		return false;
	tell(dev, qp, wqe, taken);
	return true;
}

/*
 * Completes requests other than reads up to 'end'. Among themselves they
 * complete in order.
 */
static void tell_until(struct soft_dev *dev, struct soft_qp *qp, uint32_t end)
{
	uint32_t from = end;

	while (from != qp->sq_head) {
		const struct soft_swqe *wqe = wqe_at(qp, from - 1);

		if (wqe->told && !is_read(wqe))
			break;
		from--;
	}
	for (; from != end; from++) {
		struct soft_swqe *wqe = wqe_at(qp, from);

		if (!is_read(wqe) && !tell_early(dev, qp, wqe))
			break;
	}
}

void soft_order_pushed(struct soft_dev *dev, struct soft_qp *qp)
{
	if (soft_fate_early(dev, qp))
		tell_until(dev, qp, qp->sq_next);
}

void soft_order_lost(struct soft_dev *dev, struct soft_qp *qp)
{
	uint32_t reads = qp->reads_out, end = qp->sq_next;

	if (!dev->order)
		return;
	while (end != qp->sq_tail) {
		const struct soft_swqe *wqe = wqe_at(qp, end);

		/* these wait for what is before them */
		if (is_local(wqe) || wqe->status ||
		    (wqe->flags & IBV_SEND_FENCE && reads) ||
		    (is_read(wqe) && reads++ >= max(qp->attr.max_rd_atomic, 1)))
			break;
		end++;
	}
	tell_until(dev, qp, end);
}

bool soft_order_has_arrived(const struct soft_qp *qp,
			    const struct soft_swqe *wqe)
{
	return !is_read(wqe) && !is_local(wqe) &&
	       psn_before(wqe->psn, qp->una);
}

static bool is_answered(const struct soft_qp *qp, const struct soft_swqe *wqe)
{
	return is_read(wqe) ? wqe->done :
	       is_local(wqe) || psn_before(wqe->psn, qp->una);
}

void soft_order_answered(struct soft_dev *dev, struct soft_qp *qp)
{
	bool read_waits = false;

	for (uint32_t i = qp->sq_head; i != qp->sq_next; i++) {
		struct soft_swqe *wqe = wqe_at(qp, i);
		bool answered = is_answered(qp, wqe);

		/* reads complete in order as well */
		if (is_read(wqe))
			read_waits |= !answered;
		else if (!answered && !wqe->told)
			break;
		if (!wqe->told && !(is_read(wqe) && read_waits))
			tell(dev, qp, wqe, NULL);
	}
	while (qp->sq_head != qp->sq_next) {
		struct soft_swqe *wqe = wqe_at(qp, qp->sq_head);

		if (!wqe->told || !is_answered(qp, wqe))
			break;
		qp->sq_head++;
		soft_sq_complete(dev, qp, wqe, IBV_WC_SUCCESS);
	}
	if (unlikely(qp->lingers))
		soft_linger_answered(dev, qp);
}

static void answer_now(struct soft_dev *dev, struct soft_timer *t)
{
	struct soft_qp *qp = list_entry(t, struct soft_qp, late);

	qp->reads_late = false;
	if (!soft_resp_push(dev, qp))
		soft_qp_pend(dev, qp);
}

void soft_order_read(struct soft_dev *dev, struct soft_qp *qp)
{
	if (qp->reads_late || !soft_fate_late(dev, qp))
		return;
	qp->reads_late = true;
	qp->late.fn = answer_now;
	soft_timer_set(dev, &qp->late, LATE_NS);
}
