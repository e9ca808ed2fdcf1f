/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subscribers of a publisher: what they report, what the program is told of
 * them, and a flush, which ends when all have been given what was published
 * before.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/audience.h"
#include "group/carrier.h"
#include "group/group.h"
#include "wire/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdmamsg/group.h>

#define RTT_MAX		100000u	/* us, that a subscriber may claim */
#define ANSWER_LEAST_MS	2u	/* between two answers to a subscriber */
#define MOVED_MS	100u	/* silent at the old place for so long */
#define STALE_MS	2500u	/* another may have its place */
#define STILL_MS	3000u	/* heartbeats come more often */
#define ASK_LEAST	100u	/* us, between two questions */
#define ASK_UNKNOWN	10000u	/* while the round trip is not known */
#define ASK_MOST	100000u
#define TIMERS		1

/* ---- flush ------------------------------------------------------------- */

static bool is_behind(const struct rdmamsg_group *g, const struct subscriber *s)
{
	return rdmamsg__flow_has(g, s) &&
	       (int32_t)(s->due - g->flush.end) < 0;
}

static uint32_t count_members(const struct rdmamsg_group *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->audience->count; i++)
		n += rdmamsg__flow_has(g, &g->audience->members[i]);
	return n;
}

static uint32_t count_behind(const struct rdmamsg_group *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->audience->count; i++)
		n += is_behind(g, &g->audience->members[i]);
	return n;
}

static void flush_done(struct rdmamsg_group *g)
{
	const struct rdmamsg_group_flushed f = {
		.size = sizeof(f), .end = g->flush.end,
		.members = count_members(g) + g->flush.gone,
		.behind = count_behind(g), .gone = g->flush.gone,
		.uncounted = g->audience->more,
	};

	g->flush.runs = false;
	rdmamsg__tell(&g->ctx->loop, g->on.on_flushed, g, &f);
}

/* ---- questions --------------------------------------------------------- */

/* Reports of many are spread, so a question waits for their time as well. */
static uint32_t first_pause(const struct rdmamsg_group *g)
{
	const uint32_t rtt = rdmamsg__audience_rtt(g->audience);
	const uint32_t least = max(ASK_LEAST, 2 * REPORT_SPREAD_US *
					      g->audience->count);

	return rtt ? max(2 * rtt, least) : max(ASK_UNKNOWN, least);
}

static bool is_flush_over(const struct rdmamsg_group *g)
{
	return rdmamsg__now_us() >= g->flush.by || !count_behind(g);
}

static void ask(struct rdmamsg_group *g)
{
	uint64_t us = g->asking.pause;

	if (g->flush.runs)
		us = min(us, g->flush.by - min(g->flush.by,
					       rdmamsg__now_us()));
	if (g->state == GROUP_JOINED || g->state == GROUP_LEAVING)
		(void)rdmamsg__group_say(g);
	rdmamsg__timer_set_us(&g->ctx->loop.timers, &g->asking.timer, us);
	g->asking.pause = min(2 * g->asking.pause, ASK_MOST);
}

void rdmamsg__subscribers_ask(struct rdmamsg_group *g)
{
	g->asking.pause = first_pause(g);
	ask(g);
}

/* A callback that an exception leaves must not end the questions. */
static void on_timer(struct timer *t)
{
	struct rdmamsg_group *g = list_entry(t, struct rdmamsg_group,
					     asking.timer);
	const uint64_t due = t->when;

	if ((g->flush.runs && !is_flush_over(g)) || g->flow.blocked)
		ask(g);
	if (g->state == GROUP_JOINED)
		rdmamsg__flow_tell(g, due);
	if (g->state == GROUP_JOINED)
		rdmamsg__subscribers_look(g);
	if (g->flush.runs && is_flush_over(g))
		flush_done(g);
}

/* ---- the call ---------------------------------------------------------- */

void rdmamsg__flush_end(struct rdmamsg_group *g)
{
	if (g->flush.runs)
		flush_done(g);
}

int rdmamsg_group_flush(struct rdmamsg_group *g, uint32_t timeout_ms)
{
	int ret = g ? rdmamsg__ctx_check(g->ctx) :
		  rdmamsg__fail(-EINVAL, "rdmamsg_group_flush: the group is "
				"NULL");

	if (ret)
		return ret;
	if (!g->audience)
		return rdmamsg__fail(-EOPNOTSUPP, "rdmamsg_group_flush: "
				     "subscribers report to publishers with "
				     "RDMAMSG_GROUP_REPAIR only");
	if (g->state >= GROUP_LEAVING ||
	    (g->state != GROUP_JOINED && !g->lost))
		return rdmamsg__fail(-ENOTCONN, "rdmamsg_group_flush: the "
				     "group is not joined");
	if (g->flush.runs)
		return rdmamsg__fail(-EBUSY, "rdmamsg_group_flush: one at a "
				     "time: wait for on_flushed");
	g->flush.runs = true;
	g->flush.end = g->number;
	g->flush.gone = 0;
	g->flush.by = timeout_ms == RDMAMSG_NONE ? UINT64_MAX :
		      rdmamsg__now_us() + 1000ull * timeout_ms;
	if (count_behind(g))
		rdmamsg__subscribers_ask(g);
	else
		rdmamsg__timer_set(&g->ctx->loop.timers, &g->asking.timer, 0);
	return 0;
}

/* ---- reports ----------------------------------------------------------- */

static void forget(struct rdmamsg_group *g, struct subscriber *s)
{
	g->flush.gone += g->flush.runs && is_behind(g, s);
	rdmamsg__carrier_forget_way(g->carrier, &s->way);
	rdmamsg__audience_forget(g->audience, s);
}

/* A callback may leave the group or throw, so it is the last step. */
static void forget_silent(struct rdmamsg_group *g, struct subscriber *s)
{
	const bool lags = rdmamsg__flow_lags(g, s);
	struct rdmamsg_group_member m;

	if (lags) {
		s->is_laggard = true;
		s->lag = g->number - s->due;
		m = rdmamsg__subscriber_told(s);
	}
	forget(g, s);
	if (lags)
		rdmamsg__tell(&g->ctx->loop, g->on.on_laggard, g, &m);
}

/* Nobody could be heard until now. */
static void hear_all(struct audience *a, uint64_t now)
{
	for (uint32_t i = 0; i < a->count; i++)
		a->members[i].heard = now;
	a->looked = now;
}

void rdmamsg__subscribers_joined(struct rdmamsg_group *g)
{
	hear_all(g->audience, rdmamsg__now_ms());
	if (g->flow.blocked)
		g->flow.blocked = rdmamsg__now_us();
}

void rdmamsg__subscribers_look(struct rdmamsg_group *g)
{
	const uint64_t now = rdmamsg__now_ms();
	struct subscriber *s;

	/* this process stood still: what they have sent is not read yet */
	if (now - g->audience->looked >= STILL_MS)
		hear_all(g->audience, now);
	g->audience->looked = now;
	while ((s = rdmamsg__audience_gone(g->audience, now))) {
		forget_silent(g, s);
		if (g->state != GROUP_JOINED && g->state != GROUP_LEAVING)
			return;
	}
	if (g->flush.runs && !count_behind(g))
		flush_done(g);
	rdmamsg__flow_look(g);
}

uint8_t rdmamsg__subscribers(const struct rdmamsg_group *g)
{
	return g->audience ? rdmamsg__audience_announced(g->audience) : 0;
}

const struct carrier_to *rdmamsg__way_to(struct rdmamsg_group *g,
					 struct subscriber *s)
{
	return s->way.ah || !rdmamsg__carrier_way(g->carrier, &s->at,
						  &s->way) ? &s->way : NULL;
}

const struct carrier_to *rdmamsg__subscriber_way(struct rdmamsg_group *g,
						 const struct carrier_peer *at)
{
	struct subscriber *s = rdmamsg__audience_find(g->audience, at);

	return s ? rdmamsg__way_to(g, s) : NULL;
}

static void answer(struct rdmamsg_group *g, const struct subscriber *s,
		   uint64_t challenge, bool wishes)
{
	const struct frame_offer o = {
		.nonce = s->nonce, .first = s->first, .granted = s->granted,
		.less = s->less,
	};
	uint8_t payload[FRAME_OFFER_LEN];
	const struct frame f = {
		.type = FRAME_HEARTBEAT, .audience = rdmamsg__subscribers(g),
		.flags = FRAME_REPAIRS | FRAME_ANSWER |
			 (wishes ? FRAME_WISH : 0u),
		.sender = g->id, .number = rdmamsg__group_sent(g),
		.oldest = rdmamsg__repair_oldest(g), .data = payload,
		.data_len = wishes ? sizeof(payload) : 0,
		.challenge = challenge, .length = s->token,
	};
	const struct carrier_to *way = rdmamsg__subscriber_way(g, &s->at);

	rdmamsg__offer_encode(&o, payload);
	if (way)
		(void)rdmamsg__try(rdmamsg__group_send_frame(g, way, &f));
}

/* Returns true if it has proved where it is, and gets a backlog. */
static bool grant(struct rdmamsg_group *g, struct subscriber *s,
		  const struct frame *f, const struct frame_wish *w)
{
	if (s->granted || !s->nonce || w->nonce != s->nonce)
		return false;
	s->granted = true;
	s->end = f->number;
	s->first = rdmamsg__repair_grant(g, &s->at, f->number, w, &s->less);
	return true;
}

/* Another id at the same place is another subscriber. */
static void identify(struct subscriber *s, const struct frame_report *r)
{
	if (s->nonce && s->last.id == r->id)
		return;
	s->granted = false;
	if (getrandom(&s->nonce, sizeof(s->nonce), 0) != sizeof(s->nonce))
		s->nonce = 0;		/* and is granted nothing */
}

/* With a key nobody can change the count of reports. Counts a replay. */
static bool is_replay(struct rdmamsg_group *g, const struct subscriber *s,
		      const struct frame *f, const struct frame_report *r)
{
	const bool replay = f->sealed && s->heard && s->last.id == r->id &&
			    (int32_t)(r->before - s->last.before) <= 0;

	g->st.dropped_unproven += replay;
	return replay;
}

static struct subscriber *with_id(const struct audience *a, uint64_t id)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->members[i].last.id == id)
			return &a->members[i];
	return NULL;
}

/* With a key an id is believed, and without one only the address. */
static void left(struct rdmamsg_group *g, const struct frame *f,
		 const struct carrier_peer *at)
{
	const struct frame_report r = rdmamsg__report_decode(f);
	struct subscriber *s = f->sealed ? with_id(g->audience, r.id) :
			       rdmamsg__audience_find(g->audience, at);

	if (!s || s->last.id != r.id || is_replay(g, s, f, &r))
		return;
	s->due = f->number;
	forget(g, s);
}

/* The new address is not proved. */
static void move(struct rdmamsg_group *g, struct subscriber *s,
		 const struct carrier_peer *at)
{
	rdmamsg__carrier_forget_way(g->carrier, &s->way);
	s->at = *at;
	s->nonce = 0;
	s->token = 0;
	s->proved = false;
}

/* Returns NULL if the report may be a replay, and for lack of room. */
static struct subscriber *sealed_place(struct rdmamsg_group *g,
				       const struct frame *f,
				       const struct frame_report *r,
				       const struct carrier_peer *at,
				       uint64_t now)
{
	struct audience *a = g->audience;
	struct subscriber *s = with_id(a, r->id);
	struct subscriber *there = rdmamsg__audience_find(a, at);

	if (s && is_replay(g, s, f, r))
		return NULL;
	/* a recorded report must not change what is known of another */
	if (there && there != s && now - min(now, there->heard) >= STALE_MS) {
		forget(g, there);
		s = with_id(a, r->id);	/* the others have moved up */
		there = NULL;
	}
	if (there && there != s) {
		rdmamsg__proof_give(g, f, at);
		return NULL;
	}
	if (s && !there)
		move(g, s, at);
	if (!s)
		s = rdmamsg__audience_place(a, at);
	if (!s)
		rdmamsg__proof_give(g, f, at);
	return s;
}

/* It keeps its id when it joins again, and is elsewhere then. */
static struct subscriber *place_of(struct rdmamsg_group *g,
				   const struct carrier_peer *at, uint64_t id,
				   uint64_t now)
{
	struct audience *a = g->audience;
	struct subscriber *s = rdmamsg__audience_find(a, at);

	for (uint32_t i = 0; i < a->count && !s; i++) {
		if (a->members[i].last.id != id ||
		    now - min(now, a->members[i].heard) < MOVED_MS)
			continue;
		s = &a->members[i];
		move(g, s, at);
	}
	return s ? s : rdmamsg__audience_place(a, at);
}

/*
 * Copies go to a subscriber when it has returned its token. Returns true if it
 * has with this report.
 */
static bool prove(struct subscriber *s, const struct frame *f)
{
	const bool before = s->proved;

	s->proved |= s->token && f->length == s->token;
	while (!s->token &&
	       getrandom(&s->token, sizeof(s->token), 0) == sizeof(s->token))
		;
	return s->proved && !before;
}

/* Of a way that is old; it stays if there is no other. */
static void renew_way(struct rdmamsg_group *g, struct subscriber *s,
		      uint64_t now)
{
	struct carrier_to fresh;

	if (now - s->way_at < WAY_US ||
	    rdmamsg__carrier_way(g->carrier, &s->at, &fresh))
		return;
	rdmamsg__carrier_forget_way(g->carrier, &s->way);
	s->way = fresh;
	s->way_at = now;
}

static void reported(struct rdmamsg_group *g, const struct frame *f,
		     const struct carrier_peer *at)
{
	const uint64_t now = rdmamsg__now_ms();
	const struct frame_report r = rdmamsg__report_decode(f);
	struct subscriber *s = f->sealed ? sealed_place(g, f, &r, at, now) :
			       place_of(g, at, r.id, now);
	struct frame_wish w;
	bool wishes, granted, proved;

	if (!s)
		return;
	proved = g->unicast && prove(s, f);
	granted = false;
	wishes = !rdmamsg__wish_decode(&w, f);
	if (wishes) {
		identify(s, &r);
		granted = grant(g, s, f, &w);
		rdmamsg__repair_wanted(g);
	}
	s->last = r;
	s->last.rtt = min(s->last.rtt, RTT_MAX);
	if (!s->advanced || (int32_t)(f->number - s->farthest) > 0) {
		s->farthest = f->number;
		s->advanced = rdmamsg__now_us();
	}
	s->due = f->number;
	s->lag = rdmamsg__group_sent(g) - s->due;
	s->heard = s->reported = now;
	rdmamsg__flow_advanced(g, s);
	/* answers to a flood of them would leave no room for messages */
	if (s->reports && now - min(now, s->answered) < ANSWER_LEAST_MS &&
	    !granted && !proved)
		return;
	renew_way(g, s, 1000 * now);
	s->reports++;
	s->answered = now;
	answer(g, s, f->challenge, wishes);
}

void rdmamsg__subscriber_report(struct rdmamsg_group *g, const struct frame *f,
				const struct datagram *d)
{
	if (g->state != GROUP_JOINED && g->state != GROUP_LEAVING)
		return;
	if (!g->audience || f->flags & FRAME_PROVES) {
		if (!(f->flags & FRAME_LEFT))
			rdmamsg__proof_give(g, f, &d->from);
		return;
	}
	if (f->flags & FRAME_LEFT)
		left(g, f, &d->from);
	else
		reported(g, f, &d->from);
	rdmamsg__subscribers_look(g);
}

void rdmamsg__subscribers_quit(struct rdmamsg_group *g)
{
	for (uint32_t i = 0; g->audience && i < g->audience->count; i++)
		rdmamsg__carrier_forget_way(g->carrier,
					    &g->audience->members[i].way);
}

/* ---- diagnosis --------------------------------------------------------- */

struct rdmamsg_group_member
rdmamsg__subscriber_told(const struct subscriber *s)
{
	const uint64_t now = rdmamsg__now_ms();
	struct rdmamsg_group_member m = {
		.size = sizeof(m), .id = s->last.id, .qp_num = s->at.qpn,
		.lost = s->last.lost, .rtt_us = s->last.rtt,
		.lag = (int32_t)s->lag > 0 ? s->lag : 0, .tag = s->last.tag,
		.receives = s->last.receives,
		.age_ms = (uint32_t)(now - min(now, s->reported)),
		.is_laggard = s->is_laggard,
	};

	memcpy(m.gid, &s->at.gid, sizeof(m.gid));
	return m;
}

int rdmamsg_group_members(const struct rdmamsg_group *g,
			  int (*on_member)(const struct rdmamsg_group_member *m,
					   void *user), void *user)
{
	int ret = g ? rdmamsg__ctx_check(g->ctx) :
		  rdmamsg__fail(-EINVAL, "rdmamsg_group_members: the group is "
				"NULL");

	if (ret)
		return ret;
	if (!on_member)
		return rdmamsg__fail(-EINVAL, "rdmamsg_group_members: "
				     "on_member is NULL");
	for (uint32_t i = 0; g->audience && i < g->audience->count; i++) {
		const struct rdmamsg_group_member m =
			rdmamsg__subscriber_told(&g->audience->members[i]);

		ret = on_member(&m, user);
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- all of them ------------------------------------------------------- */

int rdmamsg__subscribers_new(struct rdmamsg_group *g)
{
	struct audience *a = calloc(1, sizeof(*a) + AUDIENCE_MAX *
					       sizeof(struct subscriber));

	if (!a || rdmamsg__timers_reserve(&g->ctx->loop.timers, TIMERS)) {
		free(a);
		return rdmamsg__fail(-ENOMEM, "no memory for a group");
	}
	a->members = (struct subscriber *)(a + 1);
	rdmamsg__timer_init(&g->asking.timer, on_timer);
	g->audience = a;
	rdmamsg__flow_init(g);
	return 0;
}

void rdmamsg__subscribers_free(struct rdmamsg_group *g)
{
	if (!g->audience)
		return;
	rdmamsg__subscribers_quit(g);
	rdmamsg__timer_stop(&g->ctx->loop.timers, &g->asking.timer);
	rdmamsg__timers_release(&g->ctx->loop.timers, TIMERS);
	free(g->audience);
	g->audience = NULL;
}
