/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timeouts of operations. Each operation completes once, with its end, or with
 * RDMAMSG_TIMED_OUT or RDMAMSG_OVERDUE after its time. RDMAMSG_TIMED_OUT is an
 * end: the peer has nothing of the operation, and never gets it. After
 * RDMAMSG_OVERDUE, on_late comes once with the end. The memory is the library's
 * until the end.
 */
#include "model.h"
#include "sim.h"

#include <rdmamsg/post.h>

static void on_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	ends_late(ep, cookie, status);
}

void late_open(struct end *e)
{
	e->times = sim_once_in(2);
}

/* From less than the life of a lane to more than several. */
bool late_give(const struct end *e, struct rdmamsg_op *op)
{
	if (!e->times || !op->cookie || sim_once_in(2))
		return false;
	op->timeout_ms = 1 + sim_below(1u << sim_below(15));
	op->on_late = on_late;
	return true;
}

bool late_complete(const struct end *e, enum cookie *cookie, bool timed,
		   int status)
{
	const bool told = status == RDMAMSG_TIMED_OUT ||
			  status == RDMAMSG_OVERDUE;

	if (told && !timed)
		sim_fail("%d: status %d without a timeout", e->index, status);
	totals.timed_out += status == RDMAMSG_TIMED_OUT;
	totals.overdue += status == RDMAMSG_OVERDUE;
	*cookie = status == RDMAMSG_OVERDUE ? COOKIE_OVERDUE : COOKIE_BACK;
	return status != RDMAMSG_OVERDUE;
}

void late_check_taken(const struct end *e, uint32_t n)
{
	const struct end *peer = &ends[!e->index];

	if (peer->in[n].asked || peer->received > n)
		sim_fail("%d: message %u has timed out, and the peer has it",
			 e->index, n);
}
