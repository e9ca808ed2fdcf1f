/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A publisher leaves when all its messages are sent. With repair it waits until
 * no more repairs are asked for. Frames of type END tell the subscribers.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/carrier.h"
#include "group/group.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/group.h>

#define ENDS		3u	/* END frames at once, because one may be lost */
#define LATER		2	/* further ones, after a pause each */
#define LATER_MS	10u	/* the first pause; the next is twice as long */
#define DRAIN_MS	1000u	/* longest wait for the last completion */

void rdmamsg__group_left(struct rdmamsg_group *g)
{
	rdmamsg__group_end(g, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED, 0,
			   "left");
}

/*
 * The END frames are signaled. Their completions confirm all earlier datagrams.
 */
static int send_ends(struct rdmamsg_group *g, int count)
{
	const struct frame f = {
		.type = FRAME_END, .flags = g->repair ? FRAME_REPAIRS : 0u,
		.audience = rdmamsg__subscribers(g),
		.sender = g->id, .number = g->number,
		.oldest = rdmamsg__repair_oldest(g),
	};
	struct carrier_to to = g->to;
	int ret = 0;

	to.signaled = true;
	for (int i = 0; i < count && !ret; i++)
		ret = rdmamsg__group_send_frame(g, &to, &f);
	return ret;
}

/*
 * A subscriber that has lost the last message for lack of receives loses what
 * follows at once as well. So some END frames come later. Returns true if
 * rdmamsg__leave_sent() goes on when there is room, or after a pause.
 */
static bool ends_are_due(struct rdmamsg_group *g)
{
	struct timers *timers = &g->ctx->loop.timers;
	struct carrier *c = g->carrier;
	/* some requests of a queue never complete before others are sent */
	const uint32_t each = rdmamsg__group_copies(g);
	const uint32_t most = max(c->send_depth / 4 * 3 / each, 1u);
	const uint32_t count = g->end_rounds ? 1 : min(most, ENDS);

	if (g->opts.flags & RDMAMSG_GROUP_RAW || g->end_rounds > LATER)
		return false;
	if (rdmamsg__carrier_room(c) < min(count * each, c->send_depth)) {
		list_add_tail(&c->waiting, &g->wait_node);
		if (g->timer.pos < 0)
			rdmamsg__timer_set(timers, &g->timer, DRAIN_MS);
		return true;
	}
	if (send_ends(g, (int)count))
		g->end_rounds = LATER;
	if (g->end_rounds++ == LATER)
		return false;
	g->end_pauses = true;
	rdmamsg__timer_set(timers, &g->timer,
			   LATER_MS << (g->end_rounds - 1));
	return true;
}

void rdmamsg__leave_sent(struct rdmamsg_group *g)
{
	struct carrier *c = g->carrier;

	g->leaving_sent = true;
	/* rdmamsg__group_writable() calls this function again */
	if (g->pending || g->end_pauses)
		return;
	list_del(&g->wait_node);
	if (ends_are_due(g))
		return;
	if (c->done == c->sent) {
		rdmamsg__group_left(g);
		return;
	}
	g->drained_at = c->sent;
	list_add_tail(&c->draining, &g->wait_node);
	rdmamsg__timer_set(&g->ctx->loop.timers, &g->timer, DRAIN_MS);
}

void rdmamsg__leave_timeout(struct rdmamsg_group *g)
{
	if (!g->end_pauses) {
		rdmamsg__group_left(g);
		return;
	}
	g->end_pauses = false;
	rdmamsg__leave_sent(g);
}

void rdmamsg_group_leave(struct rdmamsg_group *g)
{
	struct rdmamsg *ctx;

	if (!g || rdmamsg__ctx_check(g->ctx))
		return;
	ctx = g->ctx;
	if (g->state == GROUP_LEAVING || g->state == GROUP_ENDED)
		return;
	if (g->state == GROUP_JOINED)
		rdmamsg__report_left(g);
	if (g->state == GROUP_JOINED && g->st.sent_messages) {
		g->state = GROUP_LEAVING;
		if (g->repair)
			rdmamsg__repair_leave(g);
		else
			rdmamsg__leave_sent(g);
	} else if (g->pending) {
		rdmamsg__group_end(g, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_CLOSED,
				   -ENETRESET, "left while the membership was "
				   "lost: message %u was not sent whole: wait "
				   "for on_joined", rdmamsg__group_sent(g));
	} else {
		rdmamsg__group_left(g);
	}
	if (rdmamsg__loop_idle(&ctx->loop))
		rdmamsg__settle(ctx);
}

static void leave_all(struct list *groups)
{
	struct list *n, *t;

	list_for_each_safe(n, t, groups)
		rdmamsg_group_leave(list_entry(n, struct rdmamsg_group, node));
}

void rdmamsg__groups_leave(struct rdmamsg *ctx)
{
	struct list *n;

	list_for_each(n, &ctx->groups->carriers)
		leave_all(&list_entry(n, struct carrier, node)->groups);
	leave_all(&ctx->groups->homeless);
}
