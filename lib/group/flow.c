/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of a publisher: it is at most a window of messages ahead of its
 * slowest subscriber, or of a quorum. Some messages ask for reports, early
 * enough that they come before the window is full; when it is, heartbeats ask.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/loop.h"
#include "base/util.h"
#include "group/audience.h"
#include "group/group.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/group.h>

#define QUESTIONS	4u	/* in a window */

static uint32_t lag_of(const struct rdmamsg_group *g,
		       const struct subscriber *s)
{
	const uint32_t lag = g->number - s->due;

	return (int32_t)lag > 0 ? lag : 0;
}

/* A subscriber that still gets its backlog says nothing of what is new. */
static bool counts(const struct rdmamsg_group *g, const struct subscriber *s)
{
	return !s->is_laggard &&
	       !(s->granted && (int32_t)(s->due - s->end) < 0) &&
	       (!g->opts.tag || s->last.tag == g->opts.tag);
}

static int compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Finds the messages that those which count all have. Too few for a quorum have
 * no more than before.
 */
static void find_floor(struct rdmamsg_group *g)
{
	const struct audience *a = g->audience;
	uint32_t lags[AUDIENCE_MAX], n = 0, last;

	for (uint32_t i = 0; i < a->count; i++)
		if (counts(g, &a->members[i]))
			lags[n++] = lag_of(g, &a->members[i]);
	qsort(lags, n, sizeof(*lags), compare);
	last = g->opts.flow == RDMAMSG_GROUP_FLOW_QUORUM ?
	       g->opts.flow_quorum : n;
	if (!last)
		g->flow.floor = g->number;
	else if (last <= n)
		g->flow.floor = g->number - lags[last - 1];
}

static bool is_full(const struct rdmamsg_group *g)
{
	return g->number - g->flow.floor >= g->opts.flow_window;
}

bool rdmamsg__flow_blocks(struct rdmamsg_group *g)
{
	if (g->flow.blocked)
		return true;		/* until rdmamsg__flow_look() */
	find_floor(g);
	if (!is_full(g))
		return false;
	g->flow.blocked = rdmamsg__now_us();
	rdmamsg__subscribers_ask(g);
	return true;
}

uint8_t rdmamsg__flow_asks(struct rdmamsg_group *g, uint32_t number)
{
	if (number - g->flow.asked < g->opts.flow_window / QUESTIONS)
		return 0;
	g->flow.asked = number;
	return FRAME_ASKS;
}

void rdmamsg__flow_advanced(struct rdmamsg_group *g, struct subscriber *s)
{
	if (s->is_laggard && lag_of(g, s) <= g->opts.flow_window / 2)
		s->is_laggard = false;
}

void rdmamsg__flow_look(struct rdmamsg_group *g)
{
	if (!g->flow.blocked)
		return;
	find_floor(g);
	if (is_full(g))
		return;
	g->flow.blocked = 0;
	rdmamsg__group_writable(g);
}

static bool has_held_up(const struct rdmamsg_group *g,
			const struct subscriber *s, uint64_t now)
{
	const uint64_t since = max(g->flow.blocked, s->advanced);

	return counts(g, s) && lag_of(g, s) >= g->opts.flow_window &&
	       g->opts.flow_limit_ms != RDMAMSG_NONE &&
	       now - min(now, since) >= 1000ull * g->opts.flow_limit_ms;
}

/* In a quorum others go ahead of a laggard. */
void rdmamsg__flow_tell(struct rdmamsg_group *g, uint64_t due)
{
	const uint64_t now = rdmamsg__now_us();

	if (g->opts.flow != RDMAMSG_GROUP_FLOW_SLOWEST || !g->flow.blocked)
		return;
	/* this process stood still: what they have sent is not read yet */
	if (now - due >= 1000ull * g->opts.flow_limit_ms)
		return;
	for (uint32_t i = 0; i < g->audience->count; i++) {
		struct subscriber *s = &g->audience->members[i];
		struct rdmamsg_group_member m;

		if (!has_held_up(g, s, now))
			continue;
		s->is_laggard = true;
		m = rdmamsg__subscriber_told(s);
		rdmamsg__tell(&g->ctx->loop, g->on.on_laggard, g, &m);
		if (g->state != GROUP_JOINED)
			return;
	}
}
