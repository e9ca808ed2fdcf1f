/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subscriber reports to each publisher that repairs: where it is, and how far
 * away. The answer tells it the round trip.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/audience.h"
#include "group/backoff.h"
#include "group/carrier.h"
#include "group/group.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define FIRST_US	10000u	/* most before the first report */
#define FIRST_MANY_US	1000000u
#define AGAIN_US	5000u	/* an answer may take, at first; doubles */
#define LONGEST_US	1000000u
#define ANSWERED_US	2000u	/* one report is, in so long */
#define DOUBTED_MS	2000u	/* nothing new, and no answer */
#define WISHES		8u	/* without an answer, in 1.3 s */
#define TOGETHER_US	16u	/* times the number of publishers */

/* Publishers want no reports of subscribers without repair, but to prove. */
static bool reports(const struct member *m)
{
	return m->stream.window > 1 || m->unproven;
}

static void set_timer(struct rdmamsg_group *g)
{
	uint64_t first = UINT64_MAX;
	struct list *n;

	list_for_each(n, &g->members) {
		const struct member *m = list_entry(n, struct member, node);

		if (m->report_at)
			first = min(first, m->report_at);
	}
	if (first != UINT64_MAX)
		rdmamsg__timer_by(&g->ctx->loop.timers, &g->report, first);
}

/*
 * Its part of the free receives, which other publishers use as well: so many of
 * its datagrams find one.
 */
static uint16_t free_receives(const struct member *m)
{
	const struct carrier *c = m->group->carrier;
	uint32_t publishers = 0;
	struct list *n;

	list_for_each(n, &c->groups)
		publishers += list_entry(n, struct rdmamsg_group,
					 node)->member_count;
	return (uint16_t)min(max((c->recv_depth - c->repost_count) /
				 max(publishers, 1u), 1u), UINT16_MAX + 0u);
}

/* way: NULL for the one to its place */
static void send_report(struct rdmamsg_group *g, struct member *m,
			const struct carrier_to *way, uint8_t flags)
{
	const struct frame_report r = {
		.id = g->report_id, .rtt = m->rtt,
		.lost = (uint32_t)m->st.lost_messages,
	};
	const struct frame_wish w = {
		.nonce = m->nonce, .messages = g->opts.backlog,
		.bytes = g->opts.backlog_bytes, .ms = g->opts.backlog_ms,
	};
	const uint32_t tag_at = FRAME_REPORT_LEN +
				(m->wishes ? FRAME_WISH_LEN : 0);
	const uint32_t len = tag_at + (g->opts.tag ? FRAME_TAG_LEN : 0);
	uint8_t payload[FRAME_REPORT_LEN + FRAME_WISH_LEN + FRAME_TAG_LEN];
	const struct frame f = {
		.type = FRAME_REPORT, .sender = m->who.id, .length = m->token,
		.flags = (uint8_t)(flags | (m->wishes ? FRAME_WISH : 0) |
				   (g->opts.tag ? FRAME_TAGGED : 0) |
				   (m->stream.window == 1 ? FRAME_PROVES : 0)),
		.number = m->wishes || m->unproven ? m->joined_at :
			  m->stream.next,
		.size = free_receives(m),
		.oldest = g->reports++, .challenge = rdmamsg__proof_challenge(m),
		.data = payload, .data_len = len,
	};

	rdmamsg__report_encode(&r, payload);
	rdmamsg__wish_encode(&w, payload + FRAME_REPORT_LEN);
	rdmamsg__tag_encode(g->opts.tag, payload + tag_at);
	if (way)
		(void)rdmamsg__try(rdmamsg__group_send_frame(g, way, &f));
	else
		(void)rdmamsg__member_send(m, &f);
}

/* A random time around this one, so that subscribers do not report together. */
static uint64_t about(struct rdmamsg_group *g, uint32_t us)
{
	return us - us / 4 + rdmamsg__random_below(&g->seed, us / 2);
}

static void report(struct member *m, uint64_t now)
{
	struct rdmamsg_group *g = m->group;
	uint32_t us = rdmamsg__audience_pause(m->audience) * 1000;

	/* it comes again with the next frame */
	if (m->ended || !reports(m) ||
	    now / 1000 - min(now / 1000, m->came) >= SILENT_MS) {
		m->report_at = 0;
		return;
	}
	if (m->wishes && !m->unproven && m->unanswered >= WISHES)
		rdmamsg__backlog_give_up(m);
	if (g->state != GROUP_JOINED)
		return;
	if (m->challenged &&
	    rdmamsg__member_silence(m, now / 1000) >= DOUBTED_MS)
		us = min(us, LONGEST_US);
	if (m->wishes || m->unproven || (g->unicast && !m->known) ||
	    (!m->rtt && m->audience < FRAME_AUDIENCE_MANY)) {
		us = min(us, AGAIN_US << min(m->unanswered, 10u));
		m->unanswered++;
	}
	if (now - m->way_at >= WAY_US) {
		rdmamsg__carrier_forget_way(g->carrier, &m->way);
		m->way_at = now;
	}
	m->reports++;
	/* of those that follow soon after it, the first one is answered */
	if (now - m->reported_at >= ANSWERED_US)
		m->reported_at = now;
	m->report_at = now + about(g, us);
	send_report(g, m, NULL, 0);
}

void rdmamsg__report(struct member *m)
{
	report(m, rdmamsg__now_us());
	if (m->report_at)
		rdmamsg__timer_by(&m->group->ctx->loop.timers,
				  &m->group->report, m->report_at);
}

void rdmamsg__report_to(struct member *m, const struct carrier_peer *at)
{
	struct rdmamsg_group *g = m->group;
	struct carrier_to way;

	if (!reports(m) || m->ended || g->state != GROUP_JOINED ||
	    rdmamsg__try(rdmamsg__carrier_way(g->carrier, at, &way)))
		return;
	send_report(g, m, &way, 0);
	rdmamsg__carrier_drop_ah(g->carrier, way.ah);
}

static void on_timer(struct timer *t)
{
	struct rdmamsg_group *g = list_entry(t, struct rdmamsg_group, report);
	uint64_t now = rdmamsg__now_us();
	/* of many, some report together: each look is at all of them */
	uint64_t soon = now + (uint64_t)TOGETHER_US * g->member_count;
	struct list *n;

	if (g->state != GROUP_JOINED)
		return;		/* rdmamsg__report_joined() sets it again */
	list_for_each(n, &g->members) {
		struct member *m = list_entry(n, struct member, node);

		if (m->report_at && m->report_at <= soon)
			report(m, now);
		if (g->state != GROUP_JOINED)
			return;
	}
	set_timer(g);
}

void rdmamsg__report_init(struct rdmamsg_group *g)
{
	rdmamsg__timer_init(&g->report, on_timer);
}

void rdmamsg__report_joined(struct rdmamsg_group *g)
{
	set_timer(g);
}

void rdmamsg__report_asked(struct member *m, uint32_t number, bool now)
{
	if (!reports(m))
		return;
	m->owes_now |= now;
	if (m->owes)
		return;
	m->owes = true;
	m->owed = number;
}

/*
 * It reports when it is where it was asked for, and before if it is asked
 * whether it has advanced. Those of many do not report together.
 */
static void report_owed(struct member *m)
{
	struct rdmamsg_group *g = m->group;
	const uint64_t now = rdmamsg__now_us();
	const bool is_there = (int32_t)(m->stream.next - m->owed) >= 0;

	if (!is_there && !m->owes_now)
		return;
	m->owes = !is_there;
	m->owes_now = false;
	if (rdmamsg__audience_is_few(m->audience)) {
		rdmamsg__report(m);
		return;
	}
	m->report_at = now + 1 + rdmamsg__random_below(&g->seed,
						   REPORT_SPREAD_US *
						   (1u + m->audience));
	rdmamsg__timer_by(&g->ctx->loop.timers, &g->report, m->report_at);
}

void rdmamsg__report_left(struct rdmamsg_group *g)
{
	struct list *n;

	list_for_each(n, &g->members) {
		struct member *m = list_entry(n, struct member, node);

		if (m->reports && !m->ended)
			send_report(g, m, NULL, FRAME_LEFT);
	}
}

void rdmamsg__report_heard(struct member *m)
{
	struct rdmamsg_group *g = m->group;
	uint64_t now;

	if (unlikely(m->owes) && g->state == GROUP_JOINED)
		report_owed(m);
	if (likely(m->report_at) || !reports(m) ||
	    g->state != GROUP_JOINED)
		return;
	now = rdmamsg__now_us();
	m->unanswered = 0;
	m->report_at = now + 1 +
		       rdmamsg__random_below(&g->seed, m->audience > 64 &&
					     !m->unproven ? FIRST_MANY_US :
					     FIRST_US);
	rdmamsg__timer_by(&g->ctx->loop.timers, &g->report, m->report_at);
}

void rdmamsg__report_answered(struct member *m)
{
	const uint64_t took = rdmamsg__now_us() - m->reported_at;
	uint32_t us;

	/* one that comes twice, or for an older report, tells nothing */
	if (!m->reported_at || took > LONGEST_US)
		return;
	m->reported_at = 0;
	us = max((uint32_t)took, 1u);
	/* a process that was not scheduled is not far away: trust short ones */
	if (!m->rtt || us < m->rtt)
		m->rtt = us;
	else
		m->rtt += (us - m->rtt + 7) / 8;
}
