/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of the program, on the heap of the context. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "loop/left.h"
#include "loop/timer.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/timer.h>

struct rdmamsg_timer {
	struct timer t;
	struct list node;		/* ctx->timers */
	struct rdmamsg *ctx;
	void (*on_timer)(struct rdmamsg_timer *timer, void *user);
	void *user;
	uint64_t due;			/* ms */
	uint32_t repeat;		/* ms; 0: once */
};

/* Expires at t->due or later: the clock in ms may be up to one behind. */
static void run_until_due(struct rdmamsg_timer *t, uint64_t now)
{
	rdmamsg__timer_set(&t->ctx->loop.timers, &t->t,
			   t->due > now ? t->due - now : 0);
}

/* Passes over the times that have been missed. */
static void repeat(struct rdmamsg_timer *t)
{
	uint64_t now = rdmamsg__now_ms();

	t->due += t->repeat;
	if (t->due <= now)
		t->due += ((now - t->due) / t->repeat + 1) * t->repeat;
	run_until_due(t, now);
}

static void expired(struct timer *timer)
{
	struct rdmamsg_timer *t = list_entry(timer, struct rdmamsg_timer, t);

	/* before the callback, which may stop or destroy the timer */
	if (t->repeat)
		repeat(t);
	rdmamsg__tell(&t->ctx->loop, t->on_timer, t, t->user);
}

static int check_open(const struct rdmamsg *ctx)
{
	int ret = rdmamsg__ctx_check(ctx);

	if (!ret && ctx->closing)
		ret = rdmamsg__fail(-ECANCELED, "the context is being closed");
	return ret;
}

int rdmamsg_timer_create(struct rdmamsg *ctx,
			 void (*on_timer)(struct rdmamsg_timer *timer,
					  void *user),
			 void *user, struct rdmamsg_timer **ret_timer)
{
	struct rdmamsg_timer *t;
	int ret = check_open(ctx);

	if (ret)
		return ret;
	if (!on_timer || !ret_timer)
		return rdmamsg__fail(-EINVAL, "rdmamsg_timer_create: %s is NULL",
				     on_timer ? "ret" : "on_timer");
	t = calloc(1, sizeof(*t));
	if (!t || rdmamsg__timers_reserve(&ctx->loop.timers, 1)) {
		free(t);
		return rdmamsg__fail(-ENOMEM, "rdmamsg_timer_create: no memory");
	}
	rdmamsg__timer_init(&t->t, expired);
	t->ctx = ctx;
	t->on_timer = on_timer;
	t->user = user;
	list_add_tail(&ctx->timers, &t->node);
	*ret_timer = t;
	return 0;
}

int rdmamsg_timer_start(struct rdmamsg_timer *t, uint32_t delay_ms,
			uint32_t repeat_ms)
{
	uint64_t now;
	int ret;

	if (!t)
		return rdmamsg__fail(-EINVAL, "the timer is NULL");
	ret = check_open(t->ctx);
	if (ret)
		return ret;
	if (delay_ms > INT32_MAX || repeat_ms > INT32_MAX)
		return rdmamsg__fail(-EINVAL, "rdmamsg_timer_start: %u ms: at "
				     "most %d", max(delay_ms, repeat_ms),
				     INT32_MAX);
	now = rdmamsg__now_ms();
	/*
	 * A part of the current ms has passed already. And a callback that
	 * starts its own timer must not be called again in the same turn.
	 */
	t->due = now + delay_ms + (delay_ms || rdmamsg__in_callback(t->ctx));
	t->repeat = repeat_ms;
	run_until_due(t, now);
	return 0;
}

int rdmamsg_timer_stop(struct rdmamsg_timer *t)
{
	int ret;

	if (!t)
		return rdmamsg__fail(-EINVAL, "the timer is NULL");
	ret = rdmamsg__ctx_check(t->ctx);
	if (ret)
		return ret;
	rdmamsg__timer_stop(&t->ctx->loop.timers, &t->t);
	return 0;
}

void rdmamsg_timer_destroy(struct rdmamsg_timer *t)
{
	/* in a forked child the context is the parent's */
	if (!t || rdmamsg_timer_stop(t))
		return;
	rdmamsg__timers_release(&t->ctx->loop.timers, 1);
	list_del(&t->node);
	free(t);
}

void rdmamsg__user_timers_stop(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->timers)
		(void)rdmamsg_timer_stop(list_entry(n, struct rdmamsg_timer,
						    node));
}

void rdmamsg__user_timers_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->timers))
		rdmamsg_timer_destroy(list_first(&ctx->timers,
						 struct rdmamsg_timer, node));
}
