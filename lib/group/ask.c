/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subscriber asks for missing messages after a short random pause. If many
 * subscribers miss the same message, most receive the repair before they ask.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/probe.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/backoff.h"
#include "group/carrier.h"
#include "group/group.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define AGAIN_MS	10u	/* after it; doubles from the third on */
#define AGAIN_MAX_MS	500u
#define PUT_OFFS	16u	/* of a request, while repairs arrive */
#define RANGES		80u	/* ranges in one datagram */

static void set_timer(struct rdmamsg_group *g, uint64_t now)
{
	uint64_t first = UINT64_MAX;
	struct list *n;

	list_for_each(n, &g->members) {
		const struct member *m = list_entry(n, struct member, node);

		if (m->ask_at)
			first = min(first, m->ask_at);
	}
	if (first != UINT64_MAX)
		rdmamsg__timer_set(&g->ctx->loop.timers, &g->ask,
				   first > now ? first - now : 1);
}

static void send_nack(struct rdmamsg_group *g, const struct member *m)
{
	uint32_t most = (g->carrier->mtu - FRAME_HDR_LEN) / FRAME_RANGE_LEN;
	struct frame_range ranges[RANGES];
	uint8_t payload[RANGES * FRAME_RANGE_LEN];
	struct frame f = {
		.type = FRAME_NACK, .sender = m->who.id, .data = payload,
	};
	struct carrier_to to;

	f.length = rdmamsg__stream_missing(&m->stream, ranges,
					   min(most, RANGES));
	if (!f.length)
		return;
	for (uint32_t i = 0; i < f.length; i++)
		rdmamsg__range_encode(&ranges[i],
				      payload + (size_t)i * FRAME_RANGE_LEN);
	f.data_len = f.length * FRAME_RANGE_LEN;
	if (rdmamsg__carrier_way(g->carrier, &m->from, &to))
		return;
	if (!rdmamsg__group_send_frame(g, &to, &f))
		g->st.asked++;
	probe(group_asked, g, m->who.id, f.length);
	rdmamsg__carrier_drop_ah(g->carrier, to.ah);
}

static void ask(struct member *m, uint64_t now)
{
	struct rdmamsg_group *g = m->group;
	uint32_t ms;

	if (!rdmamsg__stream_lacks(&m->stream)) {
		m->ask_at = 0;
		m->asked = 0;
		return;
	}
	/* its messages are held for nothing */
	if (rdmamsg__member_silence(m, now) >= SILENT_MS) {
		m->ask_at = 0;
		m->asked = 0;
		rdmamsg__stream_give_up_all(&m->stream);
		return;
	}
	if (m->asked_next != m->stream.next)
		m->asked = 0;
	m->asked_next = m->stream.next;
	send_nack(g, m);
	ms = min(AGAIN_MS << (m->asked > 2 ? min(m->asked - 2, 10u) : 0),
		 AGAIN_MAX_MS);
	m->asked++;
	m->put_off = 0;
	m->ask_at = now + ms / 2 + rdmamsg__random_below(&g->seed, ms);
}

static void on_timer(struct timer *t)
{
	struct rdmamsg_group *g = list_entry(t, struct rdmamsg_group, ask);
	uint64_t now = rdmamsg__now_ms();
	struct list *n;

	if (g->state != GROUP_JOINED)
		return;		/* rdmamsg__ask_joined() sets it again */
	list_for_each(n, &g->members) {
		struct member *m = list_entry(n, struct member, node);

		if (m->ask_at && m->ask_at <= now)
			ask(m, now);
		if (g->state != GROUP_JOINED)
			return;
	}
	set_timer(g, now);
}

void rdmamsg__ask_init(struct rdmamsg_group *g)
{
	rdmamsg__timer_init(&g->ask, on_timer);
	g->seed = g->id;
}

void rdmamsg__ask_joined(struct rdmamsg_group *g)
{
	set_timer(g, rdmamsg__now_ms());
}

void rdmamsg__ask_heard(struct member *m, bool repaired)
{
	struct rdmamsg_group *g = m->group;
	uint64_t now;

	if (m->stream.window == 1 || g->state != GROUP_JOINED)
		return;
	if (!rdmamsg__stream_lacks(&m->stream))
		return;		/* the timer notices it */
	now = rdmamsg__now_ms();
	if (!m->ask_at) {
		m->ask_at = now + rdmamsg__backoff(&g->seed);
		m->asked = 0;
		m->put_off = 0;
		set_timer(g, now);
	} else if (repaired && m->ask_at < now + 2 && m->put_off < PUT_OFFS) {
		/* repairs are arriving, perhaps also of the rest */
		m->put_off++;
		m->ask_at = now + 2 + rdmamsg__backoff(&g->seed);
	}
}
