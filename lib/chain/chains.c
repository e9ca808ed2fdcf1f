/* SPDX-License-Identifier: BSD-2-Clause */
/* The chains and teams of a context: on_done when settling, and the end. */
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "chain/carry.h"
#include "chain/chain.h"
#include "chain/meet.h"
#include "chain/native.h"
#include "chain/team.h"
#include "session/sessions.h"

#include <errno.h>

#include <rdmamsg/chain.h>

#define TELL_MAX	64	/* on_done in a row before the loop goes on */

/* A blocking call may wait for the chain. */
static void waited(struct rdmamsg_chain *c, const struct rdmamsg_chain_end *end)
{
	struct chains *chains = c->ctx->chains;

	if (chains->waited != c)
		return;
	chains->waited = NULL;
	chains->waited_end = *end;
}

void rdmamsg__chain_unwait(struct rdmamsg_chain *c)
{
	static const struct rdmamsg_chain_end freed = {
		.status = -ECANCELED,
		.text = "the program has freed the chain or the team in a "
			"handler",
	};

	waited(c, &freed);
}

void rdmamsg__chain_tell(struct rdmamsg_chain *c)
{
	struct rdmamsg *ctx = c->ctx;
	struct rdmamsg_chain_end end;

	list_del(&c->ended_node);
	c->state = CHAIN_IDLE;
	ctx->loop.told = true;
	waited(c, &c->end);
	if (c->team) {
		rdmamsg__team_done(c->team);
		return;
	}
	if (c->meeting) {
		rdmamsg__meeting_told(c);
		return;
	}
	end = c->end;		/* the handler may post or destroy it */
	rdmamsg__tell(&ctx->loop, c->on.on_done, c, &end);
}

void rdmamsg__chains_completed(struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	if (wc->wr_id & CARRY_WAKES)
		rdmamsg__carry_woken(ctx, wc);
	else
		rdmamsg__native_completed(ctx, wc);
}

/*
 * A handler may post a run that ends at once. So after TELL_MAX handlers in one
 * call of the program the rest waits for the timer, and the loop goes on.
 */
void rdmamsg__chains_settle(struct rdmamsg *ctx)
{
	struct chains *chains = ctx->chains;

	if (chains->round != ctx->sessions->rounds)
		chains->told = 0;
	chains->round = ctx->sessions->rounds;
	while (chains->told < TELL_MAX && !list_empty(&chains->ended)) {
		chains->told++;
		rdmamsg__chain_tell(list_first(&chains->ended,
					       struct rdmamsg_chain,
					       ended_node));
	}
	if (!list_empty(&chains->ended))
		rdmamsg__timer_set(&ctx->loop.timers, &chains->again, 0);
}

static void again(struct timer *t)
{
	struct chains *chains = list_entry(t, struct chains, again);

	if (!list_empty(&chains->ended))
		list_first(&chains->ended, struct rdmamsg_chain,
			   ended_node)->ctx->loop.work = true;
}

int rdmamsg__chains_open(struct rdmamsg *ctx)
{
	struct chains *chains = ctx->chains;

	list_init(&chains->all);
	list_init(&chains->teams);
	list_init(&chains->ended);
	rdmamsg__timer_init(&chains->again, again);
	return rdmamsg__timers_reserve(&ctx->loop.timers, 1);
}

void rdmamsg__chains_close(struct rdmamsg *ctx)
{
	struct chains *chains = ctx->chains;

	/* no handler can post another run, because the context is closing */
	while (!list_empty(&chains->ended))
		rdmamsg__chain_tell(list_first(&chains->ended,
					       struct rdmamsg_chain,
					       ended_node));
	rdmamsg__timer_stop(&ctx->loop.timers, &chains->again);
	while (!list_empty(&chains->teams))
		rdmamsg_team_destroy(list_first(&chains->teams,
						struct rdmamsg_team, node));
	while (!list_empty(&chains->all))
		rdmamsg__chain_delete(list_first(&chains->all,
						 struct rdmamsg_chain, node));
	rdmamsg__handles_free(&chains->natives);
	rdmamsg__handles_free(&chains->carries);
}
