/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for memory. Freed memory wakes all waiters, also those that need
 * memory of another device, because the limit is of the context. If the system
 * has refused memory, no event tells that it is available, so a timer tries
 * again.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "memory/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#define AGAIN_MS	10
#define AGAIN_MAX_MS	1000

static void again(struct timer *t)
{
	rdmamsg__feed(list_entry(t, struct memory, again));
}

int rdmamsg__starved_init(struct rdmamsg *ctx)
{
	struct memory *m = ctx->memory;

	list_init(&m->starved);
	rdmamsg__timer_init(&m->again, again);
	return rdmamsg__timers_reserve(&ctx->loop.timers, 1);
}

void rdmamsg__starve(struct rdmamsg *ctx, struct starving *w, int err)
{
	struct memory *m = ctx->memory;

	if (list_empty(&w->node))
		list_add_tail(&m->starved, &w->node);
	if (err == -ENOBUFS || err == -EAGAIN || m->again.pos >= 0)
		return;
	/* a long time after the last try, this is a new shortage */
	if (rdmamsg__now_ms() > m->again.when + 2 * m->again_ms)
		m->again_ms = 0;
	if (!m->again_ms)
		log_warn("endpoints wait for memory: %s", rdmamsg__text());
	m->again_ms = m->again_ms ?
		      min(2 * m->again_ms, (uint32_t)AGAIN_MAX_MS) : AGAIN_MS;
	rdmamsg__timer_set(&ctx->loop.timers, &m->again, m->again_ms);
}

void rdmamsg__feed(struct memory *m)
{
	while (!list_empty(&m->starved)) {
		struct starving *w = list_first(&m->starved, struct starving,
						node);

		list_del(&w->node);
		w->fed(w);
	}
}

bool rdmamsg__passes(int err)
{
	return err == -ENOBUFS || err == -EAGAIN || err == -ENOMEM ||
	       err == -EMFILE || err == -ENFILE || err == -EBUSY ||
	       err == -EINTR;
}
