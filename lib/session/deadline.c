/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The deadline of an operation. An operation that has not begun leaves the send
 * queue, as rdmamsg_ep_cancel() takes it. One that has begun cannot be
 * taken from the device: the program is told now, and once more at its end,
 * because until then the device may use the memory.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "session/deadline.h"
#include "session/ep.h"
#include "session/flow.h"
#include "session/rma.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/post.h>

_Static_assert(RDMAMSG_TIMED_OUT == -ETIMEDOUT && RDMAMSG_OVERDUE == -ETIME,
	       "as in the header");

struct op_deadline {
	struct timer timer;
	struct op_deadline *next;	/* of those that are not in use */
	struct rdmamsg_ep *ep;
	void *cookie;
	void (*on_late)(struct rdmamsg_ep *ep, void *cookie, int status);
	bool told;			/* RDMAMSG_OVERDUE */
};

/* Returns the operation if it has not begun. */
static struct op *find_queued(const struct rdmamsg_ep *ep,
			      const struct op_deadline *d)
{
	struct list *n;

	list_for_each(n, &ep->send.queue) {
		struct op *op = list_entry(n, struct op, node);

		if (op->tell != TELL_DEADLINE || op->cookie != d)
			continue;
		return op->kind == OP_RMA && (((struct rma *)op)->begun ||
					      ((struct rma *)op)->again) ?
		       NULL : op;
	}
	return NULL;
}

static void take_back(struct rdmamsg_ep *ep, struct op *op)
{
	rdmamsg__flow_take_back(ep, op);
	if (op->kind == OP_RMA) {
		/* a read behind it in the queue asks for its own turn */
		ep->reads.wants[READ_RMA] = false;
		rdmamsg__rma_end(ep, op, RDMAMSG_TIMED_OUT);
	} else {
		rdmamsg__op_complete(ep, op, RDMAMSG_TIMED_OUT);
	}
}

static void expired(struct timer *t)
{
	struct op_deadline *d = list_entry(t, struct op_deadline, timer);
	struct rdmamsg_ep *ep = d->ep;
	struct op *op = find_queued(ep, d);

	ep->ctx->loop.told = true;
	if (op) {
		take_back(ep, op);
		return;
	}
	d->told = true;
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_complete, ep, d->cookie,
		      RDMAMSG_OVERDUE);
}

/* A deadline that was in use before has its place in the heap already. */
static struct op_deadline *take(struct rdmamsg *ctx)
{
	struct op_deadline *d = ctx->sessions->deadlines;

	if (d) {
		ctx->sessions->deadlines = d->next;
		return d;
	}
	d = malloc(sizeof(*d));
	if (d && rdmamsg__timers_reserve(&ctx->loop.timers, 1)) {
		free(d);
		d = NULL;
	}
	return d;
}

static void put(struct rdmamsg *ctx, struct op_deadline *d)
{
	d->next = ctx->sessions->deadlines;
	ctx->sessions->deadlines = d;
}

int rdmamsg__deadline_new(struct rdmamsg_ep *ep, const struct rdmamsg_op *op,
			  struct op_deadline **ret)
{
	struct op_deadline *d = take(ep->ctx);

	if (!d)
		return rdmamsg__fail(-ENOMEM, "no memory for a deadline");
	*d = (struct op_deadline){
		.ep = ep, .cookie = op->cookie, .on_late = op->on_late,
	};
	rdmamsg__timer_init(&d->timer, expired);
	/* a part of the current ms has passed already */
	rdmamsg__timer_set(&ep->ctx->loop.timers, &d->timer,
			   (uint64_t)op->timeout_ms + 1);
	*ret = d;
	return 0;
}

void rdmamsg__deadline_stop(struct rdmamsg_ep *ep, struct op_deadline *d)
{
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &d->timer);
}

void rdmamsg__deadline_drop(struct rdmamsg_ep *ep, struct op_deadline *d)
{
	rdmamsg__deadline_stop(ep, d);
	put(ep->ctx, d);
}

void rdmamsg__deadline_tell(struct rdmamsg_ep *ep, struct op_deadline *d,
			    int status)
{
	const struct op_deadline was = *d;

	put(ep->ctx, d);
	if (was.told)
		rdmamsg__tell(&ep->ctx->loop, was.on_late, ep, was.cookie,
			      status);
	else
		rdmamsg__tell(&ep->ctx->loop, ep->on.on_complete, ep,
			      was.cookie, status);
}

const void *rdmamsg__deadline_cookie(const struct op_deadline *d)
{
	return d->told ? NULL : d->cookie;
}

void rdmamsg__deadlines_free(struct sessions *s)
{
	while (s->deadlines) {
		struct op_deadline *d = s->deadlines;

		s->deadlines = d->next;
		free(d);
	}
}
