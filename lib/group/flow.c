/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of a publisher: it is at most a window of messages ahead of its
 * slowest subscriber, or of a quorum, and at most as many datagrams as that has
 * receives for. Some messages ask for reports, early enough that they come
 * before this is reached; when it is, heartbeats ask.
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

bool rdmamsg__flow_has(const struct rdmamsg_group *g,
		       const struct subscriber *s)
{
	return g->opts.flow == RDMAMSG_GROUP_FLOW_RATE || !g->opts.tag ||
	       s->last.tag == g->opts.tag;
}

/* A subscriber that still gets its backlog says nothing of what is new. */
static bool counts(const struct rdmamsg_group *g, const struct subscriber *s)
{
	return !s->is_laggard &&
	       !(s->granted && (int32_t)(s->due - s->end) < 0) &&
	       rdmamsg__flow_has(g, s);
}

/* Datagrams that may have been published when its receives are used up. */
static uint64_t allowed_by(const struct rdmamsg_group *g,
			   const struct subscriber *s)
{
	const uint64_t before = lag_of(g, s) ?
				rdmamsg__repair_before(g, s->due) :
				rdmamsg__published(g);

	return s->last.receives ? before + s->last.receives : UINT64_MAX;
}

static bool is_held_up(const struct rdmamsg_group *g,
		       const struct subscriber *s)
{
	return lag_of(g, s) >= g->opts.flow_window ||
	       rdmamsg__published(g) >= allowed_by(g, s);
}

struct place {
	bool holds_up;
	uint32_t lag, receives;
	uint64_t allowed;
};

static int compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->holds_up != y->holds_up)
		return x->holds_up - y->holds_up;
	return x->lag < y->lag ? -1 : x->lag > y->lag;
}

/*
 * Finds the messages that those which count all have, and the datagrams that
 * they all have receives for. Too few for a quorum have no more than before.
 */
static void find_floor(struct rdmamsg_group *g)
{
	const struct audience *a = g->audience;
	struct place places[AUDIENCE_MAX];
	uint32_t n = 0, last;

	for (uint32_t i = 0; i < a->count; i++) {
		const struct subscriber *s = &a->members[i];

		if (counts(g, s))
			places[n++] = (struct place){
				.holds_up = is_held_up(g, s),
				.lag = lag_of(g, s),
				.receives = s->last.receives,
				.allowed = allowed_by(g, s),
			};
	}
	qsort(places, n, sizeof(*places), compare);
	last = g->opts.flow == RDMAMSG_GROUP_FLOW_QUORUM ?
	       g->opts.flow_quorum : n;
	if (last > n)
		return;
	g->flow.floor = g->number - (last ? places[last - 1].lag : 0);
	rdmamsg__flow_init(g);
	for (uint32_t i = 0; i < last; i++) {
		const struct place *p = &places[i];

		g->flow.allowed = min(g->flow.allowed, p->allowed);
		if (p->receives)
			g->flow.receives = min(g->flow.receives, p->receives);
	}
}

void rdmamsg__flow_init(struct rdmamsg_group *g)
{
	g->flow.allowed = UINT64_MAX;
	g->flow.receives = UINT32_MAX;
}

static bool is_full(const struct rdmamsg_group *g)
{
	return g->number - g->flow.floor >= g->opts.flow_window ||
	       rdmamsg__published(g) >= g->flow.allowed;
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
	const uint64_t published = rdmamsg__published(g);

	if (number - g->flow.asked < g->opts.flow_window / QUESTIONS &&
	    published - g->flow.asked_at < g->flow.receives / QUESTIONS)
		return 0;
	g->flow.asked = number;
	g->flow.asked_at = published;
	return FRAME_ASKS;
}

void rdmamsg__flow_advanced(struct rdmamsg_group *g, struct subscriber *s)
{
	if (s->is_laggard && lag_of(g, s) <= g->opts.flow_window / 2 &&
	    !is_held_up(g, s))
		s->is_laggard = false;
	/* what it has receives for may have become less */
	if (counts(g, s)) {
		g->flow.allowed = min(g->flow.allowed, allowed_by(g, s));
		if (s->last.receives)
			g->flow.receives = min(g->flow.receives,
					       s->last.receives);
	}
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

	return counts(g, s) && is_held_up(g, s) &&
	       g->opts.flow_limit_ms != RDMAMSG_NONE &&
	       now - min(now, since) >= 1000ull * g->opts.flow_limit_ms;
}

/* One without a lag has held up nobody. */
bool rdmamsg__flow_lags(const struct rdmamsg_group *g,
			const struct subscriber *s)
{
	return g->opts.flow == RDMAMSG_GROUP_FLOW_SLOWEST &&
	       g->state == GROUP_JOINED && counts(g, s) && lag_of(g, s);
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
