/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/engine/order.h"

#include <stdbool.h>
#include <stdint.h>

#include "soft/engine/engine.h"
#include "soft/engine/fate.h"
#include "soft/engine/req.h"
#include "soft/engine/resp.h"

#define LATE_NS	50000ull	/* of an answer that is late */

/* The request stays in the queue until the peer has answered it. */
static void tell(struct soft_dev *dev, struct soft_qp *qp,
		 struct soft_swqe *wqe)
{
	soft_sq_complete(dev, qp, wqe, IBV_WC_SUCCESS);
	wqe->told = true;
	qp->told++;
}

/* Among themselves, requests other than reads complete in order. */
void soft_order_pushed(struct soft_dev *dev, struct soft_qp *qp)
{
	uint32_t from = qp->sq_next;

	/* the entries that have completed early have an end, too */
	if (!soft_fate_early(dev, qp) || qp->told >= qp->cap.max_send_wr)
		return;
	while (from != qp->sq_head) {
		const struct soft_swqe *wqe = wqe_at(qp, from - 1);

		if (wqe->told && !is_read(wqe))
			break;
		from--;
	}
	for (; from != qp->sq_next && qp->told < qp->cap.max_send_wr; from++) {
		struct soft_swqe *wqe = wqe_at(qp, from);

		if (!is_read(wqe))
			tell(dev, qp, wqe);
	}
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
			tell(dev, qp, wqe);
	}
	while (qp->sq_head != qp->sq_next) {
		struct soft_swqe *wqe = wqe_at(qp, qp->sq_head);

		if (!wqe->told || !is_answered(qp, wqe))
			break;
		qp->sq_head++;
		soft_sq_complete(dev, qp, wqe, IBV_WC_SUCCESS);
	}
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
