/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The graceful end of a context:
 *
 *	begin --> each connection closes, each group is left --> over
 *	              |  timeout_ms                           ^
 *	              +--------------> abort -----------------+
 *
 * Until it is over, the listeners reject with a reason that lets the peer try
 * elsewhere. Each settling looks whether something has ended, by a function that
 * takes the place of the usual one, so that other contexts need not ask.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "chain/chain.h"
#include "cm/connect.h"
#include "dc/dc.h"
#include "group/group.h"
#include "loop/wait.h"
#include "session/ep.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

static const char timed_out[] =
	"rdmamsg_shutdown: its timeout_ms has passed: not closed";

/*
 * Returns true if the endpoint ends by itself. Carriers belong to sessions, and
 * initiators to senders, which may still have messages for them. A chain that
 * runs has accepted steps. An accepted peer that has not sent SETUP
 * is refused when SETUP comes, because an end before that looks like a crash.
 */
static bool goes_on(const struct rdmamsg_ep *ep)
{
	return ep->connect.carrier || ep->connect.inner ||
	       (ep->chain && rdmamsg__chain_ep_runs(ep->chain)) ||
	       (ep->connect.passive && ep->state < EP_OPEN);
}

static void close_eps(struct rdmamsg *ctx)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (!goes_on(ep))
			rdmamsg_ep_close(ep);
	}
}

static bool is_empty(struct rdmamsg *ctx)
{
	return list_empty(&ctx->sessions->eps) && !rdmamsg__group_any(ctx) &&
	       rdmamsg__dcs_have_left(ctx);
}

static void end(struct rdmamsg *ctx)
{
	ctx->shutdown.over = true;
	rdmamsg__timer_stop(&ctx->loop.timers, &ctx->shutdown.timer);
	rdmamsg__listeners_stop(ctx);
	log_info("context %u is shut down: %u ends were not graceful",
		 ctx->number, ctx->shutdown.failed);
	ctx->loop.told = true;
	rdmamsg__tell(&ctx->loop, ctx->on.on_shutdown, ctx,
		      ctx->shutdown.failed);
}

static void go_on(struct rdmamsg *ctx)
{
	if (ctx->shutdown.over || ctx->closing)
		return;
	/* a run may have ended */
	if (!list_empty(&ctx->chains->all) || !list_empty(&ctx->chains->teams))
		close_eps(ctx);
	if (is_empty(ctx))
		end(ctx);
}

/* Takes the place of rdmamsg__settle_now(). */
static void settle(struct rdmamsg *ctx)
{
	rdmamsg__enter(ctx);
	do {
		rdmamsg__settle_now(ctx);
		go_on(ctx);
	} while (ctx->loop.work);
	rdmamsg__leave(ctx);
}

static void abort_all(struct rdmamsg *ctx)
{
	struct rdmamsg_group *g;
	struct list *n, *t;

	list_for_each_safe(n, t, &ctx->sessions->eps)
		rdmamsg__ep_abort(list_entry(n, struct rdmamsg_ep, node),
				  RDMAMSG_CAUSE_TIMEOUT, -ETIMEDOUT, timed_out);
	rdmamsg__dcs_cut(ctx);
	while ((g = rdmamsg__group_any(ctx)))
		rdmamsg__group_end(g, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_TIMEOUT,
				   -ETIMEDOUT, "%s", timed_out);
}

static void on_timer(struct timer *t)
{
	struct rdmamsg *ctx = list_entry(t, struct rdmamsg, shutdown.timer);

	if (!is_empty(ctx))
		abort_all(ctx);
	ctx->loop.work = true;
}

static int begin(struct rdmamsg *ctx)
{
	int ret = rdmamsg__timers_reserve(&ctx->loop.timers, 1);

	if (ret)
		return rdmamsg__fail(ret, "rdmamsg_shutdown: no memory");
	rdmamsg__timer_init(&ctx->shutdown.timer, on_timer);
	ctx->shutdown.begun = true;
	ctx->settle = settle;
	rdmamsg__teams_unform(ctx);
	rdmamsg__listeners_drain(ctx);
	rdmamsg__requests_turn_away(ctx);
	rdmamsg__groups_leave(ctx);
	rdmamsg__dcs_leave(ctx);
	close_eps(ctx);
	return 0;
}

/* If nothing is left to end, the timer tells so from the loop. */
static void set_timeout(struct rdmamsg *ctx, int timeout_ms)
{
	struct timers *timers = &ctx->loop.timers;
	struct timer *t = &ctx->shutdown.timer;

	if (is_empty(ctx))
		timeout_ms = 0;
	if (timeout_ms < 0)
		rdmamsg__timer_stop(timers, t);
	else
		rdmamsg__timer_set(timers, t, (uint64_t)timeout_ms);
}

int rdmamsg_shutdown(struct rdmamsg *ctx, int timeout_ms)
{
	int ret = rdmamsg__ctx_check(ctx);

	if (ret || ctx->closing || ctx->shutdown.over)
		return ret;
	/* no callback runs and nothing is freed meanwhile */
	rdmamsg__enter(ctx);
	if (!ctx->shutdown.begun)
		ret = begin(ctx);
	if (!ret)
		set_timeout(ctx, timeout_ms);
	rdmamsg__leave(ctx);
	if (ctx->loop.work && rdmamsg__loop_idle(&ctx->loop))
		rdmamsg__loop_kick(&ctx->loop);
	return ret;
}
