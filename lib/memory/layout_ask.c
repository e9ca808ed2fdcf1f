/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for keys of layouts: their checks, and their ends. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "device/device.h"
#include "device/umr.h"
#include "memory/layout.h"
#include "memory/layout_ask.h"
#include "memory/memory.h"
#include "memory/region.h"
#include "wire/layout.h"

#include <errno.h>
#include <stdlib.h>

/* ---- ends ------------------------------------------------------------- */

/*
 * A timer of the loop tells the program, because this may be in one of its
 * calls.
 */
static void make_due(struct layout_ask *a, int status)
{
	struct rdmamsg *ctx = a->ctx;

	a->status = status;
	list_del(&a->node);
	list_add_tail(&ctx->memory->asks_due, &a->node);
	rdmamsg__timer_set(&ctx->loop.timers, &ctx->memory->asks_timer, 0);
}

void rdmamsg__layout_asks_due(struct list *asks, int status)
{
	while (!list_empty(asks))
		make_due(list_first(asks, struct layout_ask, node), status);
}

void rdmamsg__layout_asks_cancel(const struct rdmamsg_layout *layout)
{
	struct list *n;

	list_for_each(n, &layout->region.ctx->memory->asks) {
		struct layout_ask *a = list_entry(n, struct layout_ask, of_ctx);

		if (a->layout != layout)
			continue;
		a->layout = NULL;
		make_due(a, -ECANCELED);
	}
}

void rdmamsg__layout_asks_drop(const struct rdmamsg *ctx, const void *owner)
{
	struct list *n;

	list_for_each(n, &ctx->memory->asks) {
		struct layout_ask *a = list_entry(n, struct layout_ask, of_ctx);

		if (a->owner == owner)
			make_due(a, -ECANCELED);
	}
}

void rdmamsg__layout_asks_dev(const struct dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->ctx->memory->asks) {
		struct layout_ask *a = list_entry(n, struct layout_ask, of_ctx);

		if (a->dev == dev && !a->status)
			a->status = -ECANCELED;
	}
}

static void end(struct layout_ask *a)
{
	struct layout_ask ask = *a;

	list_del(&a->node);
	list_del(&a->of_ctx);
	free(a);
	if (!ask.status)
		*ask.ret_len = rdmamsg__layout_key_bytes(ask.layout, ask.dev,
							 ask.buf);
	ask.ctx->loop.told = true;
	ask.done(&ask, ask.status);
}

static struct layout_ask *find(const struct memory *m, const void *owner)
{
	struct list *n;

	list_for_each(n, &m->asks) {
		struct layout_ask *a = list_entry(n, struct layout_ask, of_ctx);

		if (a->owner == owner)
			return a;
	}
	return NULL;
}

void rdmamsg__layout_asks_end(const struct rdmamsg *ctx, const void *owner)
{
	struct layout_ask *a;

	while ((a = find(ctx->memory, owner)))
		end(a);
}

/* Those that callbacks make have another turn of the loop. */
static void tell_due(struct timer *t)
{
	struct memory *m = list_entry(t, struct memory, asks_timer);
	uint32_t count = 0;
	struct list *n;

	list_for_each(n, &m->asks_due)
		count++;
	for (; count && !list_empty(&m->asks_due); count--)
		end(list_first(&m->asks_due, struct layout_ask, node));
}

int rdmamsg__layout_asks_init(struct rdmamsg *ctx)
{
	list_init(&ctx->memory->asks);
	list_init(&ctx->memory->asks_due);
	rdmamsg__timer_init(&ctx->memory->asks_timer, tell_due);
	return rdmamsg__timers_reserve(&ctx->loop.timers, 1);
}

/* ---- begin ------------------------------------------------------------ */

static int check(const struct layout_ask *a, size_t room)
{
	const char *lacks = !a->buf || !a->ret_len ?
			    "buf or ret_len is NULL" : !a->cookie ?
			    "the cookie is NULL, so that nothing would tell "
			    "that the key is there" :
			    !(a->layout->region.access & ACCESS_REMOTE) ?
			    "the layout allows a peer nothing" : NULL;
	size_t len;

	if (lacks)
		return rdmamsg__fail(-EINVAL, "the key of layout %llu: %s",
				     (unsigned long long)a->layout->region.id,
				     lacks);
	len = rdmamsg__layout_bytes(&a->layout->map->desc);
	if (room >= len)
		return 0;
	return rdmamsg__fail(-EMSGSIZE, "the key of layout %llu has %zu bytes, "
			     "there is room for %zu",
			     (unsigned long long)a->layout->region.id, len,
			     room);
}

/* Waits for the job, or is due at once without a job. */
static int wait_for_key(struct layout_ask *a)
{
	struct layout_job *job;
	int err = rdmamsg__layout_share(a->layout, a->dev, &job);

	if (err)
		return err;
	if (job)
		list_add_tail(&job->asks, &a->node);
	else
		make_due(a, 0);
	return 0;
}

int rdmamsg__layout_ask(const struct layout_ask *ask, size_t room)
{
	struct layout_ask *a;
	int err = check(ask, room);

	if (err)
		return err;
	a = malloc(sizeof(*a));
	if (!a)
		return rdmamsg__fail(-ENOMEM, "no memory for the key of a "
				     "layout");
	*a = *ask;
	a->ctx = ask->layout->region.ctx;
	/* while it waits for a job, its end is the end of its owner */
	a->status = -ECANCELED;
	list_init(&a->node);
	err = wait_for_key(a);
	if (err) {
		free(a);
		return err;
	}
	list_add_tail(&a->ctx->memory->asks, &a->of_ctx);
	/* some devices have defined it already */
	rdmamsg__dev_umr_poll(a->dev);
	return 0;
}
