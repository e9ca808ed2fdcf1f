/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subscriber asks for missing messages. Of a few, each asks at once. Of many,
 * each waits for a short random time first: if they miss the same message, most
 * receive the repair before they ask.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/audience.h"
#include "group/backoff.h"
#include "group/carrier.h"
#include "group/group.h"
#include "group/parity.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* all times are in us */
#define STEP_US		1000u	/* of the pauses; without a round trip */
#define STEP_LEAST_US	100u	/* the publisher collects for so long */
#define STEP_MAX_US	10000u
#define AGAIN_US	10000u	/* after a request; doubles, see patience() */
#define AGAIN_LEAST_US	500u
#define AGAIN_EACH_US	20u	/* of many: for each subscriber */
#define AGAIN_MAX_US	500000u
#define DOUBLINGS	10u
#define PARITY_LEAST_US	50u
#define PARITY_US	10000u	/* longer blocks are not waited for */
#define PUT_OFFS	16u	/* of a request, while repairs arrive */
#define RANGES		80u	/* ranges in one datagram */

static void set_timer(struct rdmamsg_group *g)
{
	uint64_t first = UINT64_MAX;
	struct list *n;

	list_for_each(n, &g->members) {
		const struct member *m = list_entry(n, struct member, node);

		if (m->ask_at)
			first = min(first, m->ask_at);
		if (m->again_at)
			first = min(first, m->again_at);
	}
	if (first != UINT64_MAX)
		rdmamsg__timer_by(&g->ctx->loop.timers, &g->ask, first);
}

/* Asks for what is missing from this place on. */
static void send_nack(struct member *m, const struct stream_place *from)
{
	struct rdmamsg_group *g = m->group;
	uint32_t most = (g->carrier->mtu - FRAME_HDR_LEN - FRAME_SEAL_LEN) /
			FRAME_RANGE_LEN;
	struct frame_range ranges[RANGES];
	uint8_t payload[RANGES * FRAME_RANGE_LEN];
	struct frame f = {
		.type = FRAME_NACK, .sender = m->who.id, .data = payload,
	};

	f.length = rdmamsg__stream_missing(&m->stream, from, ranges,
					   min(most, RANGES));
	if (!f.length)
		return;
	for (uint32_t i = 0; i < f.length; i++)
		rdmamsg__range_encode(&ranges[i],
				      payload + (size_t)i * FRAME_RANGE_LEN);
	f.data_len = f.length * FRAME_RANGE_LEN;
	if (!rdmamsg__member_send(m, &f))
		g->st.asked++;
	probe(group_asked, g, m->who.id, f.length);
}

/* The publisher knows how few there are, and that this is one of them. */
static bool is_of_few(const struct member *m)
{
	return m->rtt && rdmamsg__audience_is_few(m->audience);
}

/* The round trip, and how many there are. */
static bool is_known(const struct member *m)
{
	return m->rtt && m->audience;
}

/* About as long as a repair takes, but for what the publisher collects. */
static uint32_t step(const struct member *m)
{
	return is_known(m) ? min(max(m->rtt, STEP_LEAST_US), STEP_MAX_US) :
	       STEP_US;
}

/*
 * Until the repair should have come, at first. The publisher collects requests
 * of many for about a round trip. If all of them ask again, because it is busy
 * or gone, the requests are AGAIN_EACH_US apart.
 */
static uint32_t first_patience(const struct member *m)
{
	uint32_t us;

	if (is_of_few(m))
		return min(max(4 * m->rtt, AGAIN_LEAST_US), AGAIN_US);
	if (!is_known(m))
		return AGAIN_US;
	us = 4 * m->rtt + step(m);
	us = max(us, m->audience == FRAME_AUDIENCE_MANY ? AGAIN_US :
		 max(AGAIN_EACH_US * m->audience, AGAIN_LEAST_US));
	return min(us, AGAIN_MAX_US);
}

/* It doubles from the fourth request on, of many from the second. */
static uint32_t patience(const struct member *m)
{
	const uint32_t waits = is_of_few(m) || !is_known(m) ? 2 : 0;

	return min(first_patience(m) << (m->asked > waits ?
					 min(m->asked - waits, DOUBLINGS) : 0),
		   AGAIN_MAX_US);
}

static void asks_no_more(struct member *m)
{
	m->ask_at = m->again_at = 0;
	m->asked = 0;
}

static void ask_again(struct member *m, uint64_t now)
{
	const struct stream_place from = { m->stream.next, 0 };
	uint32_t us;

	if (m->asked_next != m->stream.next)
		m->asked = 0;
	m->asked_next = m->stream.next;
	if (m->asked > 2)
		rdmamsg__carrier_forget_way(m->group->carrier, &m->way);
	send_nack(m, &from);
	us = patience(m);
	m->asked++;
	m->put_off = 0;
	m->ask_at = 0;
	m->asked_at = now;
	m->asked_to = m->stream.heard;
	m->again_at = now + us / 2 + rdmamsg__random_below(&m->group->seed, us);
}

/* Asks for what is new among the missing. */
static void ask_more(struct member *m, uint64_t now)
{
	send_nack(m, &m->asked_to);
	m->ask_at = 0;
	m->asked_at = now;
	m->asked_to = m->stream.heard;
	if (!m->again_at)
		m->again_at = now + patience(m);
}

static void ask(struct member *m, uint64_t now)
{
	if (!rdmamsg__stream_lacks(&m->stream)) {
		asks_no_more(m);
		return;
	}
	/* its messages are held for nothing */
	if (rdmamsg__member_silence(m, now / 1000) >= SILENT_MS) {
		asks_no_more(m);
		rdmamsg__stream_give_up_all(&m->stream);
		return;
	}
	if (m->again_at && m->again_at <= now)
		ask_again(m, now);
	else if (is_of_few(m))
		ask_more(m, now);
	else
		ask_again(m, now);
}

static bool is_due(const struct member *m, uint64_t now)
{
	return (m->ask_at && m->ask_at <= now) ||
	       (m->again_at && m->again_at <= now);
}

static void on_timer(struct timer *t)
{
	struct rdmamsg_group *g = list_entry(t, struct rdmamsg_group, ask);
	uint64_t now = rdmamsg__now_us();
	struct list *n;

	if (g->state != GROUP_JOINED)
		return;		/* rdmamsg__ask_joined() sets it again */
	list_for_each(n, &g->members) {
		struct member *m = list_entry(n, struct member, node);

		if (is_due(m, now))
			ask(m, now);
		if (g->state != GROUP_JOINED)
			return;
	}
	set_timer(g);
}

void rdmamsg__ask_init(struct rdmamsg_group *g)
{
	rdmamsg__timer_init(&g->ask, on_timer);
	g->seed = g->id;
}

void rdmamsg__ask_joined(struct rdmamsg_group *g)
{
	set_timer(g);
}

/* A random pause. */
static uint64_t pause(struct member *m)
{
	const uint32_t steps = is_known(m) ?
			       rdmamsg__backoff_steps(m->audience) :
			       BACKOFF_STEPS;

	return (uint64_t)step(m) * rdmamsg__backoff(&m->group->seed, steps);
}

/*
 * The parity of a block may make what is missing: it is awaited for somewhat
 * longer than a block takes, if that is not long.
 */
static uint32_t parity_wait(const struct member *m, uint64_t now)
{
	const struct parity *p = m->parity;
	uint32_t block;

	if (!p || p->block_us > PARITY_US)
		return 0;
	block = max(p->block_us + p->block_us / 2, PARITY_LEAST_US);
	return now - p->came < block ? block : 0;
}

/*
 * One of a few asks at once. But where much is lost, as many requests as losses
 * would be on the way: the next one waits for what else is missing then.
 */
static void new_loss(struct member *m, uint64_t now)
{
	const uint32_t wait = parity_wait(m, now);

	if (m->ask_at)
		return;
	if (!is_of_few(m)) {
		if (!m->again_at)
			m->ask_at = now + wait + pause(m);
	} else if (wait) {
		m->ask_at = now + wait;
	} else if (now - m->asked_at >= m->rtt / 4) {
		ask_more(m, now);
	} else {
		m->ask_at = m->asked_at + m->rtt / 4;
	}
	if (m->ask_at || m->again_at)
		rdmamsg__timer_by(&m->group->ctx->loop.timers, &m->group->ask,
				  m->ask_at ? m->ask_at : m->again_at);
}

/* Repairs are arriving, perhaps also of the rest. */
static void put_off(struct member *m, uint64_t now)
{
	const uint32_t us = is_of_few(m) ? patience(m) / 2 :
			    is_known(m) ? first_patience(m) / 2 : 2 * STEP_US;
	uint64_t *at = m->again_at ? &m->again_at : &m->ask_at;

	/* what is on the way would come twice */
	if (m->in_backlog && m->put_off_next != m->stream.next)
		m->put_off = 0;
	m->put_off_next = m->stream.next;
	if (!*at || *at >= now + us || m->put_off == PUT_OFFS)
		return;
	m->put_off++;
	*at = now + us + (is_of_few(m) ? 0 : pause(m));
}

void rdmamsg__ask_heard(struct member *m, bool repaired)
{
	struct rdmamsg_group *g = m->group;
	bool jumped;

	if (m->stream.window == 1 || g->state != GROUP_JOINED)
		return;
	jumped = rdmamsg__stream_jumped(&m->stream);
	if (!rdmamsg__stream_lacks(&m->stream))
		return;		/* the timer notices it */
	if (!m->ask_at && !m->again_at)
		m->asked_to = (struct stream_place){ m->stream.next, 0 };
	else if (!jumped) {
		if (repaired)
			put_off(m, rdmamsg__now_us());
		return;
	}
	new_loss(m, rdmamsg__now_us());
}

void rdmamsg__ask_now(struct member *m)
{
	const uint64_t now = rdmamsg__now_us();

	if (m->ask_at > now && is_of_few(m) && m->group->state == GROUP_JOINED)
		ask(m, now);
}
