/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * With a key nobody can forge a frame, but whoever has recorded the frames of a
 * membership can replay them later. So a subscriber believes a sender only when
 * that has answered a challenge, which its reports carry; until then its frames
 * are dropped, and with repair asked for as if they had been lost. Numbers in
 * the past of a proven sender are dropped as they are without a key.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "group/carrier.h"
#include "group/group.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>

#define LEAST_US	200u	/* between two answers to those not counted */

/* ---- the subscriber ---------------------------------------------------- */

void rdmamsg__proof_begin(struct member *m)
{
	m->unproven = m->group->seal != NULL;
}

/* Without random numbers the last answer would do once more. */
uint64_t rdmamsg__proof_challenge(struct member *m)
{
	if (!m->challenged && m->group->seal)
		m->challenged = getrandom(&m->challenge, sizeof(m->challenge),
					  0) == sizeof(m->challenge);
	return m->challenge;
}

static bool is_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/*
 * It begins with the first number that was heard, if all from there on can be
 * repaired. What is farther in the past may be a replay.
 */
static void begin(struct member *m, uint32_t now)
{
	const uint32_t window = m->stream.window;

	if (is_before(m->held_up, now))
		m->held_up = now;
	/* nobody has sealed where unicast.c has it from */
	if (is_before(now + 1, m->joined_at))
		m->joined_at = m->held_up = now;
	if (window == 1 ? is_before(m->joined_at, now) :
	    is_before(m->joined_at + window, now))
		m->joined_at = m->held_up = now;
	if (m->wishes)
		return;			/* its backlog comes first */
	rdmamsg__stream_begin(&m->stream, m->joined_at, m->held_up);
	rdmamsg__ask_heard(m, false);
}

bool rdmamsg__proof_answered(struct member *m, const struct frame *f)
{
	if (likely(!f->sealed))
		return true;
	if (!m->challenged || f->challenge != m->challenge)
		return false;
	/* the next report has another: whoever has recorded this has nothing */
	m->challenged = false;
	if (m->unproven) {
		m->unproven = false;
		begin(m, f->number);
	}
	return m->group->state == GROUP_JOINED;
}

/* ---- the publisher ----------------------------------------------------- */

void rdmamsg__proof_give(struct rdmamsg_group *g, const struct frame *f,
			 const struct carrier_peer *at)
{
	/* a wish is not answered, and not refused */
	static const uint8_t offer[FRAME_OFFER_LEN];
	const bool wishes = f->flags & FRAME_WISH;
	const struct frame answer = {
		.type = FRAME_HEARTBEAT, .audience = rdmamsg__subscribers(g),
		.flags = FRAME_ANSWER | (g->repair ? FRAME_REPAIRS : 0u) |
			 (wishes ? FRAME_WISH : 0u),
		.data = offer, .data_len = wishes ? sizeof(offer) : 0,
		.sender = g->id, .number = rdmamsg__group_sent(g),
		.oldest = rdmamsg__repair_oldest(g),
		.challenge = f->challenge,
	};
	const uint64_t now = rdmamsg__now_us();
	struct carrier_to way;

	if (!g->seal || now - g->proved_at < LEAST_US)
		return;
	g->proved_at = now;
	if (rdmamsg__try(rdmamsg__carrier_way(g->carrier, at, &way)))
		return;
	(void)rdmamsg__try(rdmamsg__group_send_frame(g, &way, &answer));
	rdmamsg__carrier_drop_ah(g->carrier, way.ah);
}
