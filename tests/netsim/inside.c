/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of the transport, which no program sees. */
#include "netsim.h"

#include <string.h>

#include "base/util.h"
#include "soft/fabric/count.h"
#include "soft/transport/far.h"

#define HALF	(SOFT_PSN_MASK / 2)

static uint32_t distance(uint32_t from, uint32_t to)
{
	return (to - from) & SOFT_PSN_MASK;
}

/* una <= next <= end, and a timer runs if una < next. */
static void check_requester(const struct end *e, const struct soft_qp *qp)
{
	const struct soft_far *far = qp->far;
	const uint32_t out = distance(qp->una, far->next);

	if (!far->asks)
		return;
	if (out > HALF || distance(far->next, far->end) > HALF)
		sim_fail("end %d: una %06x, next %06x, end %06x", e->index,
			 qp->una, far->next, far->end);
	if (out && list_empty(&far->timer.node))
		sim_fail("end %d: %u unanswered, no timer", e->index, out);
	if (qp->reads_out > max(qp->attr.max_rd_atomic, 1))
		sim_fail("end %d: %u reads unanswered", e->index,
			 qp->reads_out);
}

void inside_check(const struct end *e)
{
	const struct soft_qp *qp = soft_qp(e->qp);

	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
		check_requester(e, qp);
}

void inside_begin(void)
{
	memset(sim_dev->count, 0, sizeof(*sim_dev->count));
}

/*
 * Without loss, no timer expires, and only what was refused for want of a
 * receive goes out again.
 */
static void check_calm(void)
{
	const _Atomic uint64_t *count = sim_dev->count[0];

	if (!plan.calm || !plan.sure)
		return;
	if (count[SOFT_ACK_TIMEOUTS] || (!count[SOFT_RNR_NAKS] &&
	    (count[SOFT_DUPLICATES] || count[SOFT_DISORDER])))
		sim_fail("%u timeouts, %u duplicates, %u out of order",
			 (unsigned int)count[SOFT_ACK_TIMEOUTS],
			 (unsigned int)count[SOFT_DUPLICATES],
			 (unsigned int)count[SOFT_DISORDER]);
}

void inside_rest(const struct end *e)
{
	const struct soft_qp *qp = soft_qp(e->qp);
	const struct soft_far *far = qp->far;

	if (!list_empty(&sim_dev->pending) || !list_empty(&far->timer.node) ||
	    !list_empty(&qp->timer.node))
		sim_fail("end %d: work or a timer is left", e->index);
	check_calm();
	if (qp->state != IBV_QPS_RTS)
		return;
	if (qp->sq_head != qp->sq_tail || qp->sq_next != qp->sq_tail ||
	    qp->reads_out || qp->waiting || qp->una != qp->psn_next)
		sim_fail("end %d: requests are left: head %u, next %u, "
			 "tail %u, %u reads, una %06x of %06x", e->index,
			 qp->sq_head, qp->sq_next, qp->sq_tail, qp->reads_out,
			 qp->una, qp->psn_next);
	if (qp->rd_head != qp->rd_tail || far->redo_head != far->redo_tail ||
	    far->repeats || qp->ack_due || qp->nak_due || far->gap)
		sim_fail("end %d: answers are left", e->index);
	if (far->asks && far->next != qp->una)
		sim_fail("end %d: packets are left", e->index);
}
