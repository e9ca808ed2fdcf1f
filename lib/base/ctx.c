/* SPDX-License-Identifier: BSD-2-Clause */
/* The check that a context can be used, and the numbers of contexts. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#define REUSED	1024u		/* numbers below this are given again */

static _Atomic bool taken[REUSED];
static _Atomic uint32_t beyond = REUSED;

int rdmamsg__ctx_check(const struct rdmamsg *ctx)
{
	if (likely(ctx && ctx->magic == CTX_MAGIC))
		return 0;
	if (!ctx)
		return rdmamsg__fail(-EINVAL, "the context is NULL");
	return rdmamsg__fail(-ECHILD, "this process was forked from the one "
			     "that opened the context, which cannot be used "
			     "here");
}

int rdmamsg__ctx_refuses(const struct rdmamsg *ctx)
{
	if (ctx->shutdown.inner && !ctx->closing)
		return 0;
	return rdmamsg__fail(-ESHUTDOWN, "the context is being %s",
			     ctx->closing ? "closed" : "shut down");
}

void rdmamsg__ctx_ended(struct rdmamsg *ctx, int error)
{
	if (ctx->shutdown.begun && error)
		ctx->shutdown.failed++;
}

uint32_t rdmamsg__ctx_number(void)
{
	for (uint32_t i = 0; i < REUSED; i++)
		if (!atomic_exchange(&taken[i], true))
			return i;
	return beyond++;
}

void rdmamsg__ctx_number_free(uint32_t number)
{
	if (number < REUSED)
		taken[number] = false;
}
