/* SPDX-License-Identifier: BSD-2-Clause */
/* The targets and senders of a context: what settling does, and the end. */
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "dc/dc.h"
#include "device/path.h"
#include "session/ep.h"
#include "session/sessions.h"

#include <rdmamsg/dc.h>

int rdmamsg__dc_options_check(const struct rdmamsg_ep_options *ep,
			      uint32_t path)
{
	struct rdmamsg_path unused;
	int err;

	if (!ep || path == RDMAMSG_DC_CONNECTIONS)
		return 0;
	err = rdmamsg__ep_options_check(ep);
	return !err && ep->path ? rdmamsg__path_copy(&unused, ep->path) : err;
}

static void again(struct timer *t)
{
	list_entry(t, struct dcs, again)->ctx->loop.work = true;
}

int rdmamsg__dcs_open(struct rdmamsg *ctx)
{
	struct dcs *d = ctx->dcs;

	d->ctx = ctx;
	list_init(&d->targets);
	list_init(&d->senders);
	list_init(&d->due_targets);
	list_init(&d->due_senders);
	rdmamsg__timer_init(&d->again, again);
	return rdmamsg__timers_reserve(&ctx->loop.timers, 1);
}

void rdmamsg__dcs_wake(struct rdmamsg *ctx)
{
	if (!ctx->loop.in_callback)
		rdmamsg__loop_kick(&ctx->loop);
	ctx->loop.work = true;
}

/*
 * A callback may cause the next one at once. So a sender settles once in each
 * call of the program. What is left waits for the timer.
 */
void rdmamsg__dcs_settle(struct rdmamsg *ctx)
{
	struct dcs *d = ctx->dcs;

	while (!list_empty(&d->due_targets))
		rdmamsg__dc_target_settle(list_first(&d->due_targets,
						     struct rdmamsg_dc_target,
						     due));
	while (!list_empty(&d->due_senders)) {
		struct rdmamsg_dc_sender *s =
			list_first(&d->due_senders, struct rdmamsg_dc_sender,
				   due);

		if (s->round == ctx->sessions->rounds) {
			rdmamsg__timer_set(&ctx->loop.timers, &d->again, 0);
			return;
		}
		s->round = ctx->sessions->rounds;
		rdmamsg__dc_sender_settle(s);
	}
}

void rdmamsg__dcs_leave(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->dcs->senders)
		rdmamsg__dc_sender_leave(list_entry(n, struct rdmamsg_dc_sender,
						    node));
	list_for_each(n, &ctx->dcs->targets)
		rdmamsg__dc_target_leave(list_entry(n, struct rdmamsg_dc_target,
						    node));
}

void rdmamsg__dcs_cut(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->dcs->senders)
		rdmamsg__dc_sender_cut(list_entry(n, struct rdmamsg_dc_sender,
						  node));
	list_for_each(n, &ctx->dcs->targets)
		rdmamsg__dc_target_cut(list_entry(n, struct rdmamsg_dc_target,
						  node));
}

bool rdmamsg__dcs_have_left(const struct rdmamsg *ctx)
{
	struct list *n;

	/* what is due may call back */
	if (rdmamsg__dcs_due(ctx->dcs))
		return false;
	list_for_each(n, &ctx->dcs->senders)
		if (!rdmamsg__dc_sender_has_left(
			list_entry(n, struct rdmamsg_dc_sender, node)))
			return false;
	list_for_each(n, &ctx->dcs->targets)
		if (list_entry(n, struct rdmamsg_dc_target, node)->sessions)
			return false;
	return true;
}

/* All endpoints and listeners have ended. */
void rdmamsg__dcs_close(struct rdmamsg *ctx)
{
	rdmamsg__timer_stop(&ctx->loop.timers, &ctx->dcs->again);
	while (!list_empty(&ctx->dcs->senders))
		rdmamsg__dc_sender_free(list_first(&ctx->dcs->senders,
						   struct rdmamsg_dc_sender,
						   node));
	while (!list_empty(&ctx->dcs->targets))
		rdmamsg__dc_target_free(list_first(&ctx->dcs->targets,
						   struct rdmamsg_dc_target,
						   node));
	rdmamsg__handles_free(&ctx->dcs->ports);
}
