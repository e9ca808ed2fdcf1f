/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects requests between two calls of the program, as in a callback. The
 * inline poll must not run meanwhile, so the context is entered.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/loop.h"
#include "loop/wait.h"
#include "session/tx.h"

#include <errno.h>
#include <stddef.h>

#include <rdmamsg/flow.h>
#include <rdmamsg/rdmamsg.h>

static int check(const struct rdmamsg *ctx, const char *name)
{
	return ctx ? rdmamsg__ctx_check(ctx) :
	       rdmamsg__fail(-EINVAL, "%s: ctx is NULL", name);
}

/* Returns true if a callback runs, whose requests are collected anyway. */
static bool in_callback(const struct rdmamsg *ctx)
{
	return ctx->loop.in_callback && !ctx->loop.corks;
}

int rdmamsg_cork(struct rdmamsg *ctx)
{
	int ret = check(ctx, "rdmamsg_cork");

	if (ret || in_callback(ctx))
		return ret;
	if (!ctx->loop.corks++) {
		ctx->loop.cork_idle = rdmamsg__tx_burst_begin(ctx);
		rdmamsg__enter(ctx);
	}
	return 0;
}

int rdmamsg_uncork(struct rdmamsg *ctx)
{
	int ret = check(ctx, "rdmamsg_uncork");

	if (ret || in_callback(ctx))
		return ret;
	if (!ctx->loop.corks)
		return rdmamsg__fail(-EINVAL, "rdmamsg_uncork without "
				     "rdmamsg_cork");
	if (!--ctx->loop.corks) {
		rdmamsg__leave(ctx);
		rdmamsg__tx_burst_end(ctx, ctx->loop.cork_idle);
	}
	return 0;
}

int rdmamsg__deadlock(const struct rdmamsg *ctx, const char *name)
{
	return rdmamsg__fail(-EDEADLK, "%s %s would wait for itself", name,
			     ctx->loop.corks ? "between rdmamsg_cork() and "
			     "rdmamsg_uncork()" : "in a callback");
}

void rdmamsg__cork_drop(struct rdmamsg *ctx)
{
	if (!ctx->loop.corks)
		return;
	ctx->loop.corks = 1;
	(void)rdmamsg_uncork(ctx);
}
