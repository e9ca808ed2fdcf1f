/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes messages from datagrams, for each member that sends. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/group.h"
#include "group/parity.h"
#include "group/seal.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/group.h>

#define WINDOW		16384u	/* messages that may wait for earlier ones */
#define FORGET_MS	30000u	/* silence before it may be forgotten */
#define FORGET_ONE_MS	1000u	/* if only one datagram has come */
#define MOVE_MS		100u	/* silence before it may have moved */
#define AHEAD		16384u	/* messages that it may be ahead then */
#define ASK_THERE_US	2000u	/* between two reports to other places */
#define LOOK_MS		(SILENT_MS / 8)	/* between two looks at the silence */

#define COUNT(m, counter, n) \
	((m)->st.counter += (n), (m)->group->st.counter += (n))

static struct member *member_of(struct stream *s)
{
	return list_entry(s, struct member, stream);
}

static void on_message(struct stream *s, uint32_t number, const void *data,
		       uint32_t len)
{
	struct member *m = member_of(s);
	const struct rdmamsg_group_message msg = {
		.data = data, .len = len, .number = number, .sender = &m->who,
		.is_backlog = m->in_backlog &&
			      (int32_t)(number - m->joined_at) < 0,
	};

	if (m->group->state != GROUP_JOINED)
		return;
	COUNT(m, received_messages, 1);
	COUNT(m, received_bytes, len);
	rdmamsg__tell(&m->group->ctx->loop, m->group->on.on_message, m->group,
		      &msg);
}

static void on_gap(struct stream *s, uint32_t first, uint32_t last)
{
	struct member *m = member_of(s);

	if (m->group->state != GROUP_JOINED)
		return;
	COUNT(m, gaps, 1);
	COUNT(m, lost_messages, last - first + 1);
	probe(group_gap, m->group, m->who.id, first, last);
	rdmamsg__tell(&m->group->ctx->loop, m->group->on.on_gap, m->group,
		      &m->who, first, last);
}

static const struct stream_events events = { on_message, on_gap };

/* ---- silence ---------------------------------------------------------- */

/* A look that is late by little is late for no such reason. */
static uint64_t late_ms(uint64_t when, uint64_t now)
{
	return now > when + LOOK_MS / 4 ? now - when : 0;
}

/*
 * Returns for how long this process did not run, or did not come back into the
 * library. The next look will take it from the silence of all members.
 */
static uint64_t stood_still(const struct rdmamsg_group *g, uint64_t now)
{
	return g->sweep.pos < 0 ? 0 :
	       late_ms(rdmamsg__timer_ms(&g->sweep), now);
}

uint64_t rdmamsg__member_silence(const struct member *m, uint64_t now)
{
	uint64_t silent = now - min(now, m->heard);

	return silent - min(silent, stood_still(m->group, now));
}

/* That time is not the senders': what they have sent is not read yet. */
static void skip(struct rdmamsg_group *g, uint64_t stood, uint64_t now)
{
	struct list *n;

	if (likely(!stood))
		return;
	g->went_on = now;
	list_for_each(n, &g->members) {
		struct member *m = list_entry(n, struct member, node);

		m->heard = min(m->heard + stood, now);
		m->came = min(m->came + stood, now);
	}
}

/* Without multicast a subscriber has joined one publisher. */
static bool is_publisher(const struct member *m)
{
	return m->group->unicast && m->who.id == m->group->publisher &&
	       !m->ended;
}

static void publisher_gone(struct member *m)
{
	struct rdmamsg_group *g = m->group;

	rdmamsg__stream_give_up_all(&m->stream);
	m->ended = true;
	g->ended_count++;
	if (g->state == GROUP_JOINED)
		rdmamsg__unicast_lost(g, false);
}

void rdmamsg__members_sweep(struct timer *t)
{
	struct rdmamsg_group *g = list_entry(t, struct rdmamsg_group, sweep);
	uint64_t now = rdmamsg__now_ms(), next = now + LOOK_MS;
	uint64_t stood = late_ms(rdmamsg__timer_ms(t), now);
	bool awaited = false;
	struct list *n;

	skip(g, stood, now);
	list_for_each(n, &g->members) {
		struct member *m = list_entry(n, struct member, node);
		bool silent = now >= m->heard + SILENT_MS;

		/* a callback may leave the group: nothing is told any more */
		if (g->state != GROUP_JOINED)
			break;
		awaited |= !silent || is_publisher(m);
		if (silent && !stood && is_publisher(m)) {
			publisher_gone(m);
			break;
		}
		if (m->stream.used && silent && !stood)
			rdmamsg__stream_give_up_all(&m->stream);
		else if (m->stream.used && !silent)
			next = min(next, m->heard + SILENT_MS);
	}
	if (g->room.used || (awaited && g->state == GROUP_JOINED))
		rdmamsg__timer_set(&g->ctx->loop.timers, t, next - now);
}

/* ---- members ---------------------------------------------------------- */

static void member_free(struct member *m)
{
	rdmamsg__carrier_forget_way(m->group->carrier, &m->way);
	rdmamsg__stream_fini(&m->stream);
	free(m->parity);
	list_del(&m->node);
	m->group->member_count--;
	m->group->ended_count -= m->ended;
	free(m);
}

void rdmamsg__members_free(struct rdmamsg_group *g)
{
	while (!list_empty(&g->members))
		member_free(list_first(&g->members, struct member, node));
}

void rdmamsg__members_quit(struct rdmamsg_group *g)
{
	struct list *n;

	list_for_each(n, &g->members)
		rdmamsg__carrier_forget_way(g->carrier,
					    &list_entry(n, struct member,
							node)->way);
}

int rdmamsg__member_send(struct member *m, const struct frame *f)
{
	struct carrier *c = m->group->carrier;
	int ret = m->way.ah ? 0 : rdmamsg__carrier_way(c, &m->from, &m->way);

	return ret ? ret : rdmamsg__group_send_frame(m->group, &m->way, f);
}

/*
 * Returns the member to forget, or NULL: one that has ended, or else the one
 * that was heard least recently, if it is silent. A member of one datagram may
 * be a forgery, and an unproven one a replay, so it is forgotten sooner. The
 * list is in the order in which members were heard.
 */
static struct member *victim(const struct rdmamsg_group *g, uint64_t now)
{
	struct member *oldest = list_entry(g->members.prev, struct member,
					   node);
	struct list *n;

	for (n = g->members.prev; n != &g->members; n = n->prev) {
		struct member *m = list_entry(n, struct member, node);
		bool young = rdmamsg__member_silence(m, now) < FORGET_ONE_MS;

		if (m->ended || (!young && m->st.received_datagrams == 1) ||
		    (m->unproven && now - m->began >= FORGET_ONE_MS))
			return m;
		if (young && !g->ended_count && !g->seal)
			break;
	}
	return rdmamsg__member_silence(oldest, now) >= FORGET_MS ? oldest :
								   NULL;
}

static bool make_room(struct rdmamsg_group *g, uint64_t now)
{
	struct member *m;

	if (g->member_count < g->opts.max_senders)
		return true;
	m = victim(g, now);
	if (!m)
		return false;
	rdmamsg__stream_give_up_all(&m->stream);
	member_free(m);
	return g->state == GROUP_JOINED || g->state == GROUP_JOINING;
}

static void set_place(struct member *m, const struct datagram *d)
{
	m->from = d->from;
	m->elsewhere = 0;
	m->here = rdmamsg__now_ms();
	rdmamsg__carrier_forget_way(m->group->carrier, &m->way);
	m->who.qp_num = d->from.qpn;
	memcpy(m->who.gid, &d->from.gid, sizeof(m->who.gid));
}

static int make_stream(struct rdmamsg_group *g, struct stream *s, bool repairs)
{
	int ret = rdmamsg__stream_init(s, &events, &g->room,
				       repairs ? WINDOW : 1);

	if (ret || !repairs || !(g->opts.flags & RDMAMSG_GROUP_UNORDERED))
		return ret;
	ret = rdmamsg__stream_unorder(s);
	if (ret)
		rdmamsg__stream_fini(s);
	return ret;
}

static struct member *member_new(struct rdmamsg_group *g,
				 const struct datagram *d,
				 const struct frame *f)
{
	bool repairs = g->opts.flags & RDMAMSG_GROUP_REPAIR &&
		       f->flags & FRAME_REPAIRS;
	uint64_t now = rdmamsg__now_ms();
	struct member *m;

	if (!make_room(g, now))
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->group = g;
	rdmamsg__proof_begin(m);
	if (make_stream(g, &m->stream, repairs)) {
		free(m);
		return NULL;
	}
	m->heard = m->came = m->began = now;
	m->who.id = f->sender;
	set_place(m, d);
	list_add(&g->members, &m->node);
	g->member_count++;
	rdmamsg__backlog_begin(m, f);
	return m;
}

bool rdmamsg__member_expect(struct rdmamsg_group *g, const struct frame *f,
			    const struct datagram *d)
{
	struct member *m = rdmamsg__member_find(g, f->sender);
	struct member *before = rdmamsg__member_find(g, g->publisher);

	if (before && before != m && !before->ended) {
		before->ended = true;
		g->ended_count++;
	}
	if (m)
		set_place(m, d);
	else
		m = member_new(g, d, f);
	if (!m)
		return false;
	g->publisher = m->who.id;
	g->ended_count -= m->ended;
	m->ended = m->known = false;
	m->token = m->rtt = m->unanswered = 0;
	m->heard = m->came = rdmamsg__now_ms();
	if (!m->stream.started && !m->wishes && !m->unproven)
		rdmamsg__stream_begin(&m->stream, f->number, f->number);
	m->report_at = rdmamsg__now_us();
	if (g->sweep.pos < 0)
		rdmamsg__timer_set(&g->ctx->loop.timers, &g->sweep, LOOK_MS);
	return true;
}

static bool is_at(const struct member *m, const struct carrier_peer *from)
{
	return m->from.qpn == from->qpn &&
	       !memcmp(&m->from.gid, &from->gid, sizeof(from->gid));
}

/*
 * If an id comes from two places at a time, it belongs to the first place. A
 * sender that has joined again (on_lost) has a new place, and goes on with its
 * next message. If the number does not fit, the first place must have been
 * silent for as long as if the sender were gone. An END moves nothing, because
 * the sender could not contradict it. Right after this process stood still, it
 * may read what others have sent before what the sender has.
 */
static bool may_move(struct member *m, const struct frame *f)
{
	uint64_t now = rdmamsg__now_ms();
	uint64_t silent = rdmamsg__member_silence(m, now);

	if (f->type == FRAME_END || silent < MOVE_MS ||
	    stood_still(m->group, now) || now < m->group->went_on + MOVE_MS)
		return false;
	if (rdmamsg__stream_expects(&m->stream, f->number, AHEAD))
		return true;
	if (silent < SILENT_MS || f->flags & FRAME_REPEATED)
		return false;
	/* a forged number must not make the sender's own messages late */
	if ((int32_t)(f->number - m->stream.next) < 0)
		rdmamsg__stream_restart(&m->stream);
	return m->group->state == GROUP_JOINED;
}

/*
 * Asks another place, from which frames of the sender come, whether it is
 * there: then the answer comes from there. Replays from many places must not
 * make as many reports.
 */
static void ask_there(struct member *m, const struct datagram *d)
{
	const uint64_t now = rdmamsg__now_us();

	if (now - m->asked_there < ASK_THERE_US)
		return;
	m->asked_there = now;
	rdmamsg__report_to(m, &d->from);
}

/* The sender has sent nothing later. */
static bool tells_new(const struct member *m, const struct frame *f)
{
	const struct stream_place heard = m->stream.heard;

	return (int32_t)(f->number - heard.number) > 0 ||
	       (f->type == FRAME_DATA && f->number == heard.number &&
		f->index >= heard.index);
}

static bool is_answer(const struct frame *f)
{
	return f->type == FRAME_HEARTBEAT && f->flags & FRAME_ANSWER;
}

/*
 * With a key nobody forges a frame, and the numbers guard against replays, so
 * that a frame is right wherever it comes from. The sender has moved if it goes
 * on elsewhere, or answers from there: see answered().
 */
static bool sealed_from(struct member *m, const struct datagram *d,
			const struct frame *f)
{
	const uint64_t now = rdmamsg__now_ms();

	if (is_answer(f))
		return true;
	if (m->unproven || now - m->here >= MOVE_MS)
		ask_there(m, d);
	if (m->unproven || !tells_new(m, f))
		return true;
	if (!m->elsewhere)
		m->elsewhere = now;
	else if (now - m->elsewhere >= MOVE_MS)
		set_place(m, d);
	return true;
}

static bool is_from(struct member *m, const struct datagram *d,
		    const struct frame *f)
{
	if (likely(is_at(m, &d->from))) {
		if (unlikely(f->sealed)) {
			m->here = rdmamsg__about_ms();
			m->elsewhere = 0;
		}
		return true;
	}
	if (f->sealed)
		return sealed_from(m, d, f);
	if (!may_move(m, f)) {
		COUNT(m, dropped_forged, 1);
		return false;
	}
	set_place(m, d);
	return true;
}

/*
 * Returns true if the sender has gone on after its END, which was forged then.
 * A late datagram is older than END.
 */
static bool is_alive(const struct member *m, const struct frame *f)
{
	uint32_t ahead = f->number - m->stream.next;

	return (f->type == FRAME_DATA && ahead < AHEAD) ||
	       (f->type == FRAME_HEARTBEAT && ahead - 1 < AHEAD);
}

struct member *rdmamsg__member_find(const struct rdmamsg_group *g, uint64_t id)
{
	struct list *n;

	list_for_each(n, &g->members) {
		struct member *m = list_entry(n, struct member, node);

		if (m->who.id == id)
			return m;
	}
	return NULL;
}

/* ---- datagrams -------------------------------------------------------- */

static bool is_own(const struct rdmamsg_group *g, const struct datagram *d)
{
	const struct carrier *c = g->carrier;

	return d->from.qpn == c->qp->qp_num &&
	       !memcmp(&d->from.gid, &c->sgid, sizeof(c->sgid));
}

static void raw(struct rdmamsg_group *g, const struct datagram *d)
{
	struct rdmamsg_group_sender who = { .qp_num = d->from.qpn };
	const struct rdmamsg_group_message msg = {
		.data = d->data, .len = d->len, .sender = &who,
		.has_imm = d->has_imm, .imm = d->imm, .grh = d->grh,
	};

	memcpy(who.gid, &d->from.gid, sizeof(who.gid));
	g->st.received_messages++;
	g->st.received_bytes += d->len;
	rdmamsg__tell(&g->ctx->loop, g->on.on_message, g, &msg);
}

/* Returns true if the frame is a repair that was missing here. */
static bool data(struct member *m, const struct frame *f)
{
	bool repeated = f->flags & FRAME_REPEATED;

	if (repeated)
		COUNT(m, received_repeated, 1);
	switch (rdmamsg__stream_data(&m->stream, f)) {
	case STREAM_TAKEN:
		if (unlikely(m->parity) && !repeated)
			rdmamsg__parity_add(m->parity, f, f->data);
		return repeated;
	case STREAM_OLD:
		COUNT(m, dropped_late, 1);
		break;
	case STREAM_DOUBLE:
		COUNT(m, dropped_double, 1);
		break;
	case STREAM_UNLIKE:
		COUNT(m, dropped_malformed, 1);
		break;
	case STREAM_TOO_LARGE:
		COUNT(m, dropped_large, 1);
		break;
	case STREAM_NO_ROOM:
		COUNT(m, dropped_memory, 1);
		break;
	}
	return false;
}

/* The first one shows that blocks come; what was before it is not known. */
static void parity(struct member *m, const struct frame *f)
{
	const uint64_t now = rdmamsg__now_us();
	struct parity *p = m->parity;
	struct frame made;

	if (m->stream.window == 1 || !m->stream.started)
		return;
	if (!p) {
		m->parity = p = rdmamsg__parity_new(m->group->mtu);
		if (p)
			p->came = now;
		return;
	}
	p->block_us = (uint32_t)min(now - p->came, (uint64_t)UINT32_MAX);
	p->came = now;
	/* what was taken out again may be in the sums, and come once more */
	if (m->evicted != m->stream.evicted)
		p->count = PARITY_MOST + 1;
	m->evicted = m->stream.evicted;
	if (rdmamsg__parity_make(p, f, &made) &&
	    rdmamsg__stream_data(&m->stream, &made) == STREAM_TAKEN)
		COUNT(m, recovered, 1);
	rdmamsg__stream_sent(&m->stream, f->number);
}

/*
 * With a key, a frame that tells nothing new may be a replay. Reports are
 * answered, unless they are too many, or none are made.
 */
static bool proves_life(const struct member *m, const struct frame *f)
{
	return likely(!f->sealed) || m->unproven || m->stream.window == 1 ||
	       m->audience == FRAME_AUDIENCE_MANY || tells_new(m, f);
}

static void take(struct member *m, const struct frame *f)
{
	struct rdmamsg_group *g = m->group;
	bool repaired = false;

	COUNT(m, received_datagrams, 1);
	if (unlikely(m->ended)) {
		if (!is_alive(m, f)) {
			COUNT(m, dropped_late, 1);
			return;
		}
		m->ended = false;
		g->ended_count--;
	}
	m->came = rdmamsg__about_ms();
	if (proves_life(m, f))
		m->heard = m->came;
	m->audience = f->audience;
	if (g->members.next != &m->node) {
		list_del(&m->node);
		list_add(&g->members, &m->node);
	}
	if (unlikely(g->sweep.pos < 0))
		rdmamsg__timer_set(&g->ctx->loop.timers, &g->sweep, LOOK_MS);
	if (unlikely(m->unproven)) {
		COUNT(m, dropped_unproven, 1);
		rdmamsg__backlog_held(m, f);
		rdmamsg__report_heard(m);
		return;
	}
	if (unlikely(m->wishes) && rdmamsg__backlog_holds(m, f)) {
		rdmamsg__report_heard(m);
		return;
	}
	if (unlikely(f->flags & FRAME_ASKS) && f->type != FRAME_END)
		rdmamsg__report_asked(m, f->number + (f->type == FRAME_DATA),
				      f->type == FRAME_HEARTBEAT);
	switch (f->type) {
	case FRAME_DATA:
		repaired = data(m, f);
		break;
	case FRAME_HEARTBEAT:
		rdmamsg__stream_sent(&m->stream, f->number);
		break;
	case FRAME_PARITY:
		parity(m, f);
		break;
	case FRAME_END:
		/*
		 * END: the sender answers no more requests. Frames that arrive
		 * behind END are older.
		 */
		rdmamsg__stream_sent(&m->stream, f->number);
		rdmamsg__stream_give_up(&m->stream, f->number);
		m->ended = true;
		g->ended_count++;
		if (g->unicast && m->who.id == g->publisher &&
		    g->state == GROUP_JOINED)
			rdmamsg__unicast_lost(g, true);
		return;
	case FRAME_NACK:
	case FRAME_REPORT:
		return;			/* never: they are for publishers */
	}
	if (m->stream.window > 1)
		rdmamsg__stream_give_up(&m->stream, f->oldest);
	rdmamsg__ask_heard(m, repaired);
	if (unlikely(f->type == FRAME_PARITY))
		rdmamsg__ask_now(m);
	rdmamsg__report_heard(m);
	if (unlikely(m->in_backlog))
		m->in_backlog = (int32_t)(m->stream.next - m->joined_at) < 0;
}

/* Returns true if the frame has the group's seal, or neither has one. */
static bool is_right(struct rdmamsg_group *g, const struct frame *f,
		     const struct datagram *d)
{
	if (likely(!g->seal && !f->sealed))
		return true;
	if (g->seal && f->sealed &&
	    rdmamsg__seal_right(g->seal, d->data, d->len))
		return true;
	g->st.dropped_key++;
	return false;
}

void rdmamsg__group_datagram(struct rdmamsg_group *g,
			     const struct datagram *d)
{
	struct member *m;
	struct frame f;

	if (!(g->opts.flags & RDMAMSG_GROUP_SUBSCRIBE) ||
	    g->state != GROUP_JOINED)
		return;		/* once it is joined again, that is missing */
	if (g->opts.flags & RDMAMSG_GROUP_RAW) {
		g->st.received_datagrams++;
		if (g->opts.flags & RDMAMSG_GROUP_OWN || !is_own(g, d))
			raw(g, d);
		else
			g->st.dropped_own++;
		return;
	}
	if (rdmamsg__frame_decode(&f, d->data, d->len) ||
	    f.type == FRAME_NACK || f.type == FRAME_REPORT) {
		g->st.dropped_malformed++;
		return;
	}
	if (f.sender == g->id && !(g->opts.flags & RDMAMSG_GROUP_OWN)) {
		g->st.dropped_own++;
		return;
	}
	if (!is_right(g, &f, d))
		return;
	m = rdmamsg__member_find(g, f.sender);
	/* a repair for others is older than what a late joiner begins with */
	if (!m && f.flags & FRAME_REPEATED) {
		g->st.dropped_late++;
		return;
	}
	if (!m)
		m = member_new(g, d, &f);
	if (!m)
		g->st.dropped_senders++;
	else if (is_from(m, d, &f))
		take(m, &f);
}

/* Copies come when it has been returned, and the next answer shows that. */
static void return_token(struct member *m, uint32_t token)
{
	m->known = m->token == token;
	if (m->known)
		return;
	m->token = token;
	m->unanswered = 0;
	rdmamsg__report(m);
}

/* It may have passed messages on their way to all, so its number is ignored. */
static void answered(struct member *m, const struct frame *f,
		     const struct datagram *d)
{
	COUNT(m, received_datagrams, 1);
	if (!rdmamsg__proof_answered(m, f))
		return;
	if (!is_at(m, &d->from))
		set_place(m, d);	/* with a key: it has the challenge */
	m->heard = m->came = rdmamsg__about_ms();
	m->audience = f->audience;
	rdmamsg__report_answered(m);
	rdmamsg__backlog_offered(m, f);
	if (m->group->unicast && m->group->state == GROUP_JOINED)
		return_token(m, f->length);
}

static bool is_for_publisher(const struct frame *f)
{
	return f->type == FRAME_NACK || f->type == FRAME_REPORT;
}

static void for_publisher(struct rdmamsg_group *g, const struct frame *f,
			  const struct datagram *d)
{
	if (f->type == FRAME_NACK)
		rdmamsg__repair_nack(g, f, d);
	else
		rdmamsg__subscriber_report(g, f, d);
}

/* Without multicast, all that the publisher sends comes so. */
static bool is_for_subscriber(const struct rdmamsg_group *g,
			      const struct frame *f)
{
	return g->state == GROUP_JOINED && !is_for_publisher(f) &&
	       (f->type == FRAME_DATA || is_answer(f) || g->unicast);
}

static void for_subscriber(struct member *m, const struct frame *f,
			   const struct datagram *d)
{
	if (is_answer(f))
		answered(m, f, d);
	else
		take(m, f);
}

/*
 * Handles a NACK or a REPORT to one of our groups, or a repair or an answer for
 * this subscriber alone.
 */
void rdmamsg__group_unicast(struct carrier *c, const struct datagram *d)
{
	struct list *n;
	struct frame f;

	if (rdmamsg__frame_decode(&f, d->data, d->len))
		return;
	list_for_each(n, &c->groups) {
		struct rdmamsg_group *g =
			list_entry(n, struct rdmamsg_group, node);
		struct member *m;

		if (is_for_publisher(&f) && f.sender == g->id) {
			if (is_right(g, &f, d))
				for_publisher(g, &f, d);
			return;
		}
		m = is_for_subscriber(g, &f) ?
		    rdmamsg__member_find(g, f.sender) : NULL;
		/* strangers can give a group the id of another's sender */
		if (!m || !is_right(g, &f, d))
			continue;
		if (is_from(m, d, &f)) {
			for_subscriber(m, &f, d);
			return;
		}
		if (g->state != GROUP_JOINED)
			return;		/* a callback has left it */
	}
}
