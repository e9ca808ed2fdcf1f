/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subscriber that joins late can have what each publisher has kept. Its first
 * reports tell what it wants. The answer to the first one has a nonce, and the
 * next one returns it, so that nobody can let a publisher send 16 MB to the
 * address of another. Then the publisher tells where its backlog begins, and
 * the messages are asked for as if they had been lost. Until then its frames
 * are dropped: what was in them is asked for as well.
 */
#include "base/ctx.h"
#include "base/loop.h"
#include "base/util.h"
#include "group/group.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/group.h>

static void begin(struct member *m, uint32_t first, uint32_t end, bool less)
{
	struct rdmamsg_group *g = m->group;
	const uint32_t count = m->joined_at - first;

	m->wishes = false;
	m->in_backlog = count > 0;
	rdmamsg__stream_begin(&m->stream, first, first);
	rdmamsg__tell(&g->ctx->loop, g->on.on_backlog, g, &m->who, first, count,
		      less);
	rdmamsg__stream_sent(&m->stream, end);
}

/* Nobody knows whether it has kept anything. */
static void begin_without(struct member *m)
{
	begin(m, m->joined_at, m->held_up, m->joined_at > 0);
}

void rdmamsg__backlog_begin(struct member *m, const struct frame *f)
{
	const struct rdmamsg_group_options *o = &m->group->opts;

	m->wishes = o->backlog || o->backlog_bytes || o->backlog_ms;
	/* the rest of a message that has begun is of no use */
	m->joined_at = f->number + ((f->type == FRAME_DATA && f->index) ||
				    f->type == FRAME_PARITY);
	m->held_up = m->joined_at;
}

void rdmamsg__backlog_held(struct member *m, const struct frame *f)
{
	const uint32_t end = f->number + (f->type == FRAME_DATA ||
					  f->type == FRAME_PARITY);

	if ((int32_t)(end - m->held_up) > 0)
		m->held_up = end;
}

bool rdmamsg__backlog_holds(struct member *m, const struct frame *f)
{
	const bool keeps = m->stream.window > 1 && f->type != FRAME_END &&
			   (int32_t)(f->oldest - m->joined_at) < 0;

	if (!keeps)
		begin_without(m);
	else
		rdmamsg__backlog_held(m, f);
	return m->wishes;
}

void rdmamsg__backlog_give_up(struct member *m)
{
	begin_without(m);
}

void rdmamsg__backlog_offered(struct member *m, const struct frame *f)
{
	struct frame_offer o;

	if (!m->wishes)
		return;
	if (rdmamsg__offer_decode(&o, f)) {
		begin_without(m);	/* it knows no wishes */
		return;
	}
	if (!o.granted) {
		if (m->nonce == o.nonce)
			return;		/* the same twice */
		if (!m->nonce)
			m->unanswered = 0;
		m->nonce = o.nonce;
		rdmamsg__report(m);
		return;
	}
	if (m->joined_at - o.first > m->stream.window)
		o.first = m->joined_at;
	if ((int32_t)(f->number - m->held_up) > 0)
		m->held_up = f->number;
	begin(m, o.first, m->held_up, o.less);
	if (m->group->state == GROUP_JOINED)
		rdmamsg__ask_heard(m, false);
}
