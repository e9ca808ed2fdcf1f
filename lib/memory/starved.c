/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints that wait for memory. Memory that comes back wakes all of them:
 * what an endpoint lacks may be of another device, but the limit is the
 * context's. Where the system has refused, nothing tells when it would not any
 * more, so a timer tries again.
 */
#include "base/base.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "loop/ctx.h"
#include "session/ep.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#define AGAIN_MS	10
#define AGAIN_MAX_MS	1000

static void again(struct timer *t)
{
	rdmamsg__feed(list_entry(t, struct rdmamsg, again));
}

int rdmamsg__starved_init(struct rdmamsg *ctx)
{
	list_init(&ctx->starved);
	rdmamsg__timer_init(&ctx->again, again);
	return rdmamsg__timers_reserve(&ctx->loop.timers, 1);
}

void rdmamsg__starve(struct rdmamsg_ep *ep, int err)
{
	struct rdmamsg *ctx = ep->ctx;

	if (list_empty(&ep->starved_node))
		list_add_tail(&ctx->starved, &ep->starved_node);
	if (err == -ENOBUFS || err == -EAGAIN || ctx->again.pos >= 0)
		return;
	/* long after the last time this is another shortage */
	if (rdmamsg__now_ms() > ctx->again.when + 2 * ctx->again_ms)
		ctx->again_ms = 0;
	if (!ctx->again_ms)
		log_warn("ep %p waits for memory: %s", (void *)ep,
			 rdmamsg__text());
	ctx->again_ms = ctx->again_ms ?
			min(2 * ctx->again_ms, (uint32_t)AGAIN_MAX_MS) :
			AGAIN_MS;
	rdmamsg__timer_set(&ctx->loop.timers, &ctx->again, ctx->again_ms);
}

void rdmamsg__feed(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->starved)) {
		struct rdmamsg_ep *ep = list_first(&ctx->starved,
						   struct rdmamsg_ep,
						   starved_node);

		list_del(&ep->starved_node);
		rdmamsg__ep_touch(ep);
	}
}

bool rdmamsg__passes(int err)
{
	return err == -ENOBUFS || err == -EAGAIN || err == -ENOMEM ||
	       err == -EMFILE || err == -ENFILE || err == -EBUSY ||
	       err == -EINTR;
}
