/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls within callbacks. The seed decides for each end how many calls a
 * callback makes at most, and how often it makes each of them. A program that
 * streams sends in on_complete, and other programs close or move there. The
 * calls that drive the context must refuse.
 *
 * No callback runs within a call: see e->calling.
 */
#include "model.h"
#include "sim.h"

#include <errno.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/flow.h>

#define CALLS_MAX	4		/* in one callback */

static void try_process(struct end *e)
{
	int ret = sim_once_in(2) ? rdmamsg_process(e->ctx) :
		  rdmamsg_wait(e->ctx, 0);

	rdmamsg_close(e->ctx);
	if (ret != -EDEADLK)
		sim_fail("%d: driving the context in a callback: %d", e->index,
			 ret);
}

static bool can_process(const struct end *e)
{
	return e->within;
}

static bool can_query(const struct end *e)
{
	return e->connected && !e->closed;
}

static void query(struct end *e)
{
	struct rdmamsg_ep_attr attr = { .size = sizeof(attr) };
	struct rdmamsg_ep_flow_attr flow = { .size = sizeof(flow) };
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };
	char text[64];

	if (rdmamsg_ep_query(e->ep, &attr) ||
	    rdmamsg_ep_flow_query(e->ep, &flow) ||
	    rdmamsg_ep_path_query(e->ep, &path) ||
	    (!plain && !rdmamsg_ep_history(e->ep, text, sizeof(text))))
		sim_fail("%d: query: %s", e->index, rdmamsg_error());
	if (flow.paused != e->paused && !e->left)
		sim_fail("%d: paused is %u", e->index, flow.paused);
	if (path.down != e->down || path.resumes != e->resumes)
		sim_fail("%d: down %u, %u times resumed", e->index, path.down,
			 path.resumes);
	if (flow.queued > e->sent + e->touched)
		sim_fail("%d: %u operations are queued", e->index, flow.queued);
}

/* Closes although it has more to send. */
static bool can_close_early(const struct end *e)
{
	return e->hasty && e->connected && !e->closed && !e->closing;
}

static void close_early(struct end *e)
{
	e->to_send = e->sent;
	e->to_touch = e->touched;
	end_close(e);
}

static const struct {
	bool (*can)(const struct end *e);
	void (*call)(struct end *e);
	uint32_t weight;
} calls[INSIDE_CALLS] = {
	{ end_can_send, end_send, 64 },
	{ end_can_touch, end_touch, 32 },
	{ end_can_free, end_free, 8 },
	{ end_can_pause, end_pause, 8 },
	{ end_can_resume, end_resume, 8 },
	{ end_can_cancel, end_cancel, 8 },
	{ end_can_move, end_move, 4 },
	{ end_can_close, end_close, 4 },
	{ can_process, try_process, 2 },
	{ can_query, query, 8 },
	{ can_close_early, close_early, 1 },
	{ end_can_abort, end_abort, 1 },
};

void inside_open(struct end *e)
{
	e->inside = sim_once_in(4) ? 0 : 1 + sim_below(CALLS_MAX);
	e->stubborn = sim_once_in(4);
	e->hasty = sim_once_in(16);
	for (uint32_t i = 0; i < INSIDE_CALLS; i++)
		e->weights[i] = calls[i].weight << sim_below(4);
}

/* Makes one of the calls, if it is possible now. */
static void call(struct end *e)
{
	uint32_t sum = 0, at, i = 0;

	for (uint32_t k = 0; k < INSIDE_CALLS; k++)
		sum += e->weights[k];
	for (at = sim_below(sum); at >= e->weights[i]; i++)
		at -= e->weights[i];
	/* a program may send again before on_writable */
	if (e->stubborn && e->within)
		e->blocked = false;
	if (!calls[i].can(e))
		return;
	calls[i].call(e);
	totals.calls += e->within;
}

static void cork(struct end *e)
{
	if (rdmamsg_cork(e->ctx))
		sim_fail("%d: cork: %s", e->index, rdmamsg_error());
}

static void uncork(struct end *e)
{
	e->calling = true;
	if (rdmamsg_uncork(e->ctx))
		sim_fail("%d: uncork: %s", e->index, rdmamsg_error());
	e->calling = false;
}

static void call_some(struct end *e, uint32_t count, bool corks)
{
	if (corks)
		cork(e);
	while (count--)
		call(e);
	if (corks)
		uncork(e);
}

void inside_callback(struct end *e)
{
	uint32_t count = e->inside ? sim_below(e->inside + 1) : 0;

	e->within = true;
	call_some(e, count, sim_once_in(8));
	e->within = false;
}

void inside_cork(struct end *e)
{
	call_some(e, 1 + sim_below(CALLS_MAX), true);
}

void inside_closed(struct end *e, struct rdmamsg_ep *ep)
{
	int ret;

	if (!e->inside)
		return;
	rdmamsg_ep_close(ep);
	rdmamsg_ep_abort(ep);
	ret = rdmamsg_send(ep, "", 1, 0, NULL);
	if (ret != -ESHUTDOWN)
		sim_fail("%d: sending in on_closed: %d", e->index, ret);
	ret = plain ? -ESHUTDOWN : rdmamsg_ep_migrate(ep, NULL);
	if (ret != -ESHUTDOWN)
		sim_fail("%d: moving in on_closed: %d", e->index, ret);
}
