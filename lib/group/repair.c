/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A publisher repeats what subscribers ask for. If two subscribers ask for the
 * same message, it repeats the message to all. Heartbeats have the next number,
 * so that the loss of the last message is noticed.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/audience.h"
#include "group/carrier.h"
#include "group/gather.h"
#include "group/group.h"
#include "group/history.h"
#include "group/pace.h"
#include "group/quota.h"
#include "group/requests.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COLLECT_US	2000u	/* collect requests before answering, at most */
#define COLLECT_LEAST	100u	/* us */
#define BEAT_US		10000u	/* after a message, at most; doubles */
#define BEAT_LEAST	100u	/* us, for what timers cost */
#define BEAT_MAX_US	2000000u
#define TIMERS		4
#define RANGES		80u	/* of a request, as ask.c sends them */
#define RECENT_MS	1000u	/* an asker has received what is younger */
#define LINGERS		10u	/* of linger_ms, even if requests still come */

struct repair {
	struct rdmamsg_group *group;
	struct history history;
	struct requests requests;
	struct quota quota;
	bool answering;			/* collecting is over */
	struct pace pace;		/* half of the group's rate */
	struct timer collect, beat, linger, room;
	uint64_t sent_at;		/* us, the last message; it is kept */
	uint32_t beat_us;		/* the last pause; 0: none yet */
	uint64_t leave_by;		/* ms, even if requests come */
};

/* ---- answers ---------------------------------------------------------- */

/* Returns the way to the asker, or NULL. */
static const struct carrier_to *way_to(struct rdmamsg_group *g,
				       struct request *q)
{
	const struct carrier_to *known = rdmamsg__subscriber_way(g, &q->by);

	if (known)
		return known;
	return q->to.ah || !rdmamsg__carrier_way(g->carrier, &q->by, &q->to) ?
	       &q->to : NULL;
}

/*
 * Repeats fragments up to range.last, but at most 'most'. A larger range.last
 * means all fragments. Returns 1 if 'most' have been sent and some are left.
 */
static int repeat(struct rdmamsg_group *g, const struct kept *k,
		  struct request *q, uint32_t *index, uint32_t most)
{
	const struct carrier_to *to = q->several ? &g->to : way_to(g, q);
	const uint32_t count =
		rdmamsg__frame_count(k->len, rdmamsg__group_fragment(g));
	const uint32_t last = min((uint32_t)q->range.last, count - 1);
	const struct iovec piece = { (void *)(uintptr_t)k->data, k->len };
	const struct gather from = { &piece, 1, k->len };
	int ret;

	probe(group_repeated, g, k->number, *index);
	most = min(*index + (uint64_t)most - 1, (uint64_t)last);
	ret = rdmamsg__group_send(g, to, k->number, &from, FRAME_REPEATED,
				  index, most);
	return !ret && most < last ? 1 : ret;
}

static struct quota_sent sent_so_far(struct rdmamsg_group *g)
{
	const uint64_t now = rdmamsg__now_ms();
	const uint64_t recent = max(g->opts.history_ms, RECENT_MS);
	struct history *h = &g->repair->history;
	struct quota_sent s = { .now = now };

	h->published = s.published = rdmamsg__published(g);
	s.recent = s.published -
		   rdmamsg__history_since(h, now > recent ? now - recent : 0);
	s.kept = s.published - rdmamsg__history_since(h, 0);
	return s;
}

/*
 * A range that several have asked for goes to all while there is a budget for
 * it, then to the first of them. What no way leads to goes to all, too.
 * Returns NULL if there is no budget for it.
 */
static struct asker *asker_of(struct rdmamsg_group *g, struct request *q)
{
	const struct quota_sent s = sent_so_far(g);
	struct quota *of = &g->repair->quota;
	struct asker *a;

	if (!q->several) {
		a = rdmamsg__quota_of(of, &q->by, &s);
		/* nobody costs address handles for what is not sent */
		if (!a->left)
			return NULL;
		if (way_to(g, q))
			return a;
		if (g->unicast)
			return NULL;	/* to all costs as many copies */
		q->several = true;
	}
	a = rdmamsg__quota_of_all(of, &s);
	if (a->left)
		return a;
	a = rdmamsg__quota_of(of, &q->by, &s);
	if (!a->left || !way_to(g, q))
		return NULL;
	q->several = false;
	return a;
}

/*
 * Repeats the next message of a request, as far as there is a budget. Returns 1
 * if the request goes on, 0 if it is answered, -EAGAIN if there is no room for
 * the rest, and -EDQUOT if there is no budget for it.
 */
static int answer(struct rdmamsg_group *g, struct request *q)
{
	const struct history *h = &g->repair->history;
	struct frame_range *r = &q->range;
	const struct kept *k;
	struct asker *a;
	uint32_t index = r->first;
	int ret;

	/* pass over messages that are not kept any more */
	if ((int32_t)(h->oldest - r->number) > 0 && r->count > 1) {
		uint32_t skip = min(h->oldest - r->number, r->count - 1);

		r->number += skip;
		r->count -= skip;
	}
	k = rdmamsg__history_find(h, r->number);
	if (!k) {
		bool is_old = (int32_t)(h->oldest - r->number) > 0;

		/* it is not kept any more, or not published yet */
		r->number++;
		return --r->count && is_old;
	}
	a = asker_of(g, q);
	if (!a)
		return -EDQUOT;
	ret = repeat(g, k, q, &index, a->left);
	a->left -= index - r->first;
	r->first = (uint16_t)index;
	if (ret == -EAGAIN)
		return ret;
	if (ret == 1)
		return -EDQUOT;
	r->number++;
	r->count--;
	r->first = 0;
	return r->count && !ret;
}

void rdmamsg__repair_pace(struct rdmamsg_group *g, uint32_t rate)
{
	if (g->repair)
		rdmamsg__pace_init(&g->repair->pace, rate, rdmamsg__now_ns());
}

bool rdmamsg__repair_may_send(struct rdmamsg_group *g)
{
	struct repair *p = g->repair;

	if (p->pace.tokens ||
	    rdmamsg__pace_refill(&p->pace, rdmamsg__now_ns()))
		return true;
	/* the timer is idle while requests are answered */
	rdmamsg__timer_set_us(&g->ctx->loop.timers, &p->collect,
			      rdmamsg__pace_wait(&p->pace));
	return false;
}

void rdmamsg__repair_sent(struct rdmamsg_group *g)
{
	rdmamsg__pace_take(&g->repair->pace, 1);
	g->st.sent_repeated++;
}

void rdmamsg__repair_pump(struct rdmamsg_group *g)
{
	struct repair *p = g->repair;
	struct requests *r;

	if (!p || !p->answering ||
	    (g->state != GROUP_JOINED && g->state != GROUP_LEAVING))
		return;
	r = &p->requests;
	while (r->count) {
		struct request *q = &r->at[r->turn];
		int ret = answer(g, q);

		if (ret == -EAGAIN)
			return;
		r->dropped += ret == -EDQUOT;
		if (ret != 1 && q->to.ah)
			rdmamsg__carrier_drop_ah(g->carrier, q->to.ah);
		rdmamsg__requests_next(r, ret != 1);
	}
	p->answering = false;
}

static void collected(struct timer *t)
{
	struct repair *p = list_entry(t, struct repair, collect);

	p->answering = true;
	rdmamsg__repair_pump(p->group);
}

/* Stays for linger_ms from now on, but not longer than leave_by. */
static void linger(struct rdmamsg_group *g)
{
	struct repair *p = g->repair;
	uint64_t now = rdmamsg__now_ms();
	uint64_t left = p->leave_by > now ? p->leave_by - now : 0;

	rdmamsg__timer_set(&g->ctx->loop.timers, &p->linger,
			   min(left, (uint64_t)g->opts.linger_ms));
}

/*
 * Others may miss the same, and ask soon. One of a few is answered at once.
 */
static void answer_soon(struct rdmamsg_group *g, const struct carrier_peer *by)
{
	struct repair *p = g->repair;
	const uint32_t rtt = rdmamsg__audience_rtt(g->audience);

	if (rdmamsg__audience_is_few(rdmamsg__subscribers(g)) &&
	    rdmamsg__audience_find(g->audience, by)) {
		p->answering = true;
		rdmamsg__repair_pump(g);
	} else if (p->collect.pos < 0) {
		rdmamsg__timer_set_us(&g->ctx->loop.timers, &p->collect, rtt ?
				      min(max(rtt, COLLECT_LEAST), COLLECT_US) :
				      COLLECT_US);
	}
}

void rdmamsg__repair_nack(struct rdmamsg_group *g, const struct frame *f,
			  const struct datagram *d)
{
	struct repair *p = g->repair;
	struct quota_sent s;
	struct frame_range range;

	if (!p)
		return;
	g->st.requests++;
	s = sent_so_far(g);
	if (!rdmamsg__quota_of(&p->quota, &d->from, &s)->left) {
		p->requests.dropped += min(f->length, RANGES);
		return;
	}
	for (uint32_t i = 0; i < min(f->length, RANGES); i++)
		if (!rdmamsg__range_decode(&range, f, i))
			rdmamsg__requests_add(&p->requests, &range, &d->from);
	if (p->requests.count && !p->answering)
		answer_soon(g, &d->from);
	rdmamsg__repair_wanted(g);
}

void rdmamsg__repair_wanted(struct rdmamsg_group *g)
{
	if (g->state == GROUP_LEAVING && !g->leaving_sent)
		linger(g);
}

/* ---- heartbeats ------------------------------------------------------- */

/* The loss of the last message is noticed after two round trips. */
static uint32_t first_beat(const struct repair *p)
{
	const uint32_t rtt = rdmamsg__audience_rtt(p->group->audience);

	return rtt ? min(max(2 * rtt, BEAT_LEAST), BEAT_US) : BEAT_US;
}

static void set_beat(struct repair *p, uint64_t us)
{
	rdmamsg__timer_set_us(&p->group->ctx->loop.timers, &p->beat, us);
}

static void beat(struct timer *t)
{
	struct repair *p = list_entry(t, struct repair, beat);
	struct rdmamsg_group *g = p->group;
	const uint64_t passed = rdmamsg__now_us() - p->sent_at;
	const uint32_t first = first_beat(p);

	if (g->state != GROUP_JOINED && g->state != GROUP_LEAVING)
		return;
	if (!p->beat_us && passed < first) {
		set_beat(p, first - passed);	/* others have followed */
		return;
	}
	rdmamsg__group_end_block(g);
	(void)rdmamsg__group_say(g);
	p->beat_us = min(2 * max(p->beat_us, first), BEAT_MAX_US);
	set_beat(p, p->beat_us);
	rdmamsg__subscribers_look(g);
}

void rdmamsg__repair_beat(struct rdmamsg_group *g)
{
	struct repair *p = g->repair;

	if (!p->beat_us && p->beat.pos >= 0)
		return;			/* it looks at sent_at */
	p->beat_us = 0;
	set_beat(p, first_beat(p));
}

/* ---- history ---------------------------------------------------------- */

uint32_t rdmamsg__repair_oldest(const struct rdmamsg_group *g)
{
	return g->repair ? g->repair->history.oldest : g->number;
}

uint32_t rdmamsg__repair_grant(struct rdmamsg_group *g,
			       const struct carrier_peer *at, uint32_t end,
			       const struct frame_wish *w, bool *less)
{
	const struct quota_sent s = sent_so_far(g);
	const struct history *h = &g->repair->history;
	const uint32_t most = w->messages ? w->messages : UINT32_MAX;
	const uint64_t bytes = w->bytes ? w->bytes : UINT64_MAX;
	const uint64_t when = w->ms ? s.now - min(s.now, (uint64_t)w->ms) : 0;
	const uint32_t first = rdmamsg__history_backlog(h, end, most, bytes,
							when);

	*less = first && (int32_t)(first - h->oldest) <= 0 &&
		end - first < most;
	rdmamsg__quota_grant(rdmamsg__quota_of(&g->repair->quota, at, &s),
			     QUOTA_TIMES *
			     (s.published - rdmamsg__history_before(h, first)),
			     &s);
	return first;
}

bool rdmamsg__repair_pending(const struct rdmamsg_group *g)
{
	return g->repair && g->repair->requests.count;
}

uint64_t rdmamsg__repair_dropped(const struct rdmamsg_group *g)
{
	return g->repair ? g->repair->requests.dropped : 0;
}

int rdmamsg__repair_keep(struct rdmamsg_group *g, const struct gather *from,
			 const struct kept **ret)
{
	struct repair *p = g->repair;
	const uint64_t us = rdmamsg__now_us(), now = us / 1000;
	uint64_t victim = rdmamsg__history_victim(&p->history,
						  (uint32_t)from->len);
	int err;

	/* give subscribers that have lost it the time to ask */
	if (victim && now - victim < g->opts.history_ms) {
		if (p->room.pos < 0)
			rdmamsg__timer_set(&g->ctx->loop.timers, &p->room,
					   victim + g->opts.history_ms - now);
		return -EAGAIN;
	}
	p->history.published = rdmamsg__published(g);
	err = rdmamsg__history_add(&p->history, from, now, ret);
	if (err)
		return rdmamsg__fail(err, "no memory to keep %zu bytes for "
				     "repair", from->len);
	p->sent_at = us;
	return 0;
}

uint64_t rdmamsg__repair_before(const struct rdmamsg_group *g, uint32_t number)
{
	const struct history *h = &g->repair->history;

	return rdmamsg__history_before(h, (int32_t)(number - h->oldest) < 0 ?
					  h->oldest : number);
}

void rdmamsg__repair_take_back(struct rdmamsg_group *g)
{
	rdmamsg__history_take_back(&g->repair->history);
}

static void has_room(struct timer *t)
{
	rdmamsg__group_writable(list_entry(t, struct repair, room)->group);
}

/* ---- joined again ----------------------------------------------------- */

static void drop_requests(struct rdmamsg_group *g)
{
	struct requests *r = &g->repair->requests;

	for (uint32_t i = 0; i < r->count; i++)
		if (r->at[i].to.ah)
			rdmamsg__carrier_drop_ah(g->carrier, r->at[i].to.ah);
	r->count = r->turn = 0;
}

/* Drops all requests. Subscribers ask again, at the new place. */
void rdmamsg__repair_lost(struct rdmamsg_group *g)
{
	if (!g->repair)
		return;
	drop_requests(g);
	g->repair->answering = false;
}

void rdmamsg__repair_joined(struct rdmamsg_group *g)
{
	struct repair *p = g->repair;

	if (!p)
		return;
	rdmamsg__subscribers_joined(g);
	if (!g->number)
		return;
	p->beat_us = BEAT_US / 2;
	set_beat(p, 1000);
}

/* ---- the end ---------------------------------------------------------- */

static void lingered(struct timer *t)
{
	struct rdmamsg_group *g = list_entry(t, struct repair, linger)->group;

	/* rdmamsg__repair_leave() follows the last datagram of a message */
	if (g->state == GROUP_LEAVING && !g->pending)
		rdmamsg__leave_sent(g);
}

void rdmamsg__repair_leave(struct rdmamsg_group *g)
{
	g->repair->leave_by = rdmamsg__now_ms() +
			      (uint64_t)LINGERS * g->opts.linger_ms;
	linger(g);
}

int rdmamsg__repair_new(struct rdmamsg_group *g)
{
	struct repair *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	ret = rdmamsg__history_init(&p->history, g->number, g->opts.history,
				    g->opts.history_bytes);
	if (!ret)
		ret = rdmamsg__timers_reserve(&g->ctx->loop.timers, TIMERS);
	if (ret) {
		rdmamsg__history_fini(&p->history);
		free(p);
		return rdmamsg__fail(ret, "no memory for a group");
	}
	p->group = g;
	p->requests.apart = g->unicast;
	rdmamsg__timer_init(&p->collect, collected);
	rdmamsg__timer_init(&p->beat, beat);
	rdmamsg__timer_init(&p->linger, lingered);
	rdmamsg__timer_init(&p->room, has_room);
	g->repair = p;
	return 0;
}

void rdmamsg__repair_free(struct rdmamsg_group *g)
{
	struct repair *p = g->repair;
	struct timers *timers = &g->ctx->loop.timers;

	if (!p)
		return;
	drop_requests(g);
	rdmamsg__timer_stop(timers, &p->collect);
	rdmamsg__timer_stop(timers, &p->beat);
	rdmamsg__timer_stop(timers, &p->linger);
	rdmamsg__timer_stop(timers, &p->room);
	rdmamsg__timers_release(timers, TIMERS);
	rdmamsg__history_fini(&p->history);
	free(p);
	g->repair = NULL;
}
