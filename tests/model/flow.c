/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pause, cancel, abort. A paused end gets no message. The peer gets nothing of
 * a message that was cancelled. After an abort each accepted operation still
 * completes once, and messages were delivered in order up to some message.
 */
#include "model.h"
#include "sim.h"

#include <errno.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/flow.h>

#define PAUSES	3		/* most of a side */
#define CANCELS	4

bool aborted;

void flow_open(struct end *e)
{
	e->pauses = sim_once_in(2) ? sim_below(PAUSES + 1) : 0;
	e->cancels = sim_once_in(2) ? sim_below(CANCELS + 1) : 0;
	e->may_abort = sim_once_in(8);
	e->may_quit = sim_once_in(32);
}

static bool is_live(const struct end *e)
{
	return e->connected && !e->closed;
}

/* ---- pause ------------------------------------------------------------- */

bool end_can_pause(const struct end *e)
{
	return is_live(e) && !e->closing && !e->paused && e->pauses;
}

void end_pause(struct end *e)
{
	int ret;

	e->calling = true;
	ret = rdmamsg_ep_pause(e->ep);
	e->calling = false;
	sim_trace("%d: pauses: %d\n", e->index, ret);
	if (ret)
		sim_fail("%d: pausing: %d", e->index, ret);
	e->pauses--;
	e->paused = true;
	totals.pauses++;
}

bool end_can_resume(const struct end *e)
{
	return is_live(e) && e->paused;
}

void end_resume(struct end *e)
{
	int ret;

	sim_trace("%d: resumes\n", e->index);
	e->calling = true;
	ret = rdmamsg_ep_resume(e->ep);
	e->calling = e->paused = false;
	if (ret)
		sim_fail("%d: resuming: %d", e->index, ret);
}

void flow_check_delivery(const struct end *e)
{
	if (e->paused)
		sim_fail("%d: a delivery while paused", e->index);
}

/* ---- cancel ------------------------------------------------------------ */

bool end_can_cancel(const struct end *e)
{
	return is_live(e) && e->sent && e->cancels;
}

static bool is_right(const struct end *e, uint32_t n, int ret)
{
	switch (ret) {
	case 0:
		return e->out[n].cookie == COOKIE_OUT && !e->out[n].value &&
		       !e->out[n].canceled;
	case -EBUSY:
		return e->out[n].cookie == COOKIE_OUT;
	case -ENOENT:
		return e->out[n].cookie != COOKIE_OUT || e->out[n].canceled;
	default:
		return false;
	}
}

/* Mostly the last message, which is the most likely to wait. */
void end_cancel(struct end *e)
{
	uint32_t n = sim_once_in(2) ? e->sent - 1 : sim_below(e->sent);
	int ret;

	e->cancels--;
	e->calling = true;
	ret = rdmamsg_ep_cancel(e->ep, (void *)(uintptr_t)(n + 1));
	e->calling = false;
	sim_trace("%d: cancels message %u: %d\n", e->index, n, ret);
	if (!is_right(e, n, ret))
		sim_fail("%d: cancelling message %u: %d", e->index, n, ret);
	if (ret)
		return;
	e->out[n].canceled = true;
	totals.cancels++;
}

void flow_skip_canceled(struct end *e)
{
	const struct end *from = &ends[!e->index];

	while (e->received < from->sent &&
	       (from->out[e->received].canceled ||
		from->out[e->received].timed_out || e->in[e->received].refused))
		e->received++;
}

bool flow_may_have(const struct end *e, uint32_t n, int status)
{
	if (e->out[n].canceled || ends[!e->index].in[n].refused)
		return status == -ECANCELED;
	return !status || (aborted && status == -ECANCELED);
}

/* ---- abort ------------------------------------------------------------- */

static bool may_leave(const struct end *e)
{
	return is_live(e) && ends[!e->index].connected;
}

bool end_can_abort(const struct end *e)
{
	return may_leave(e) && e->may_abort;
}

/* Completions come before on_closed, which then tells the reason as it was. */
static bool ends_already(const struct end *e)
{
	const enum rdmamsg_cause cause = rdmamsg_ep_reason(e->ep)->cause;

	return cause != RDMAMSG_CAUSE_NONE && cause != RDMAMSG_CAUSE_CLOSED;
}

void end_abort(struct end *e)
{
	sim_trace("%d: aborts\n", e->index);
	totals.aborts++;
	aborted = true;
	e->left = true;
	e->aborts = !ends_already(e);
	e->may_abort = false;
	e->closing = true;
	e->paused = false;
	e->calling = true;
	rdmamsg_ep_abort(e->ep);
	e->calling = false;
}

bool end_can_quit(const struct end *e)
{
	return may_leave(e) && e->may_quit;
}

/* The program closes its context, whatever it has left to do. */
void end_quit(struct end *e)
{
	sim_trace("%d: closes its context\n", e->index);
	totals.quits++;
	aborted = e->aborts = e->left = true;
	e->closing = true;
	e->paused = false;
	rdmamsg_close(e->ctx);
	e->ctx = NULL;
	if (!e->closed)
		sim_fail("%d: on_closed has not come", e->index);
	e->held_count = 0;
	if (e->index)
		listener = NULL;
}

/* An abort may come when both sides have closed, or after the peer's. */
bool flow_may_end(const struct end *e)
{
	const bool both = plain && ends[0].aborts && ends[1].aborts;

	switch (e->why.cause) {
	case RDMAMSG_CAUSE_CLOSED:
		return true;
	case RDMAMSG_CAUSE_ABORTED:
		return aborted;
	default:
		return aborted && (!e->aborts || both);
	}
}
