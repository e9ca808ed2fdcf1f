/* SPDX-License-Identifier: BSD-2-Clause */
#include "session.h"

#define OPEN_MAX	64	/* requests of one client */

void session_init(struct session *s, const struct session_ways *ways)
{
	*s = (struct session){ .ways = ways, .refs = 1 };
}

static void release(struct session *s)
{
	if (!--s->refs)
		s->ways->free(s);
}

void session_begin(struct session *s)
{
	s->refs++;
	if (++s->open < OPEN_MAX || s->held)
		return;
	s->held = true;
	s->ways->hold(s);
}

void session_end(struct session *s)
{
	s->open--;
	if (s->held && !s->closed && s->open <= OPEN_MAX / 2) {
		s->held = false;
		s->ways->go_on(s);
	}
	release(s);
}

void session_close(struct session *s)
{
	s->closed = true;
	release(s);
}

void session_answer(struct session *s, const void *bytes, size_t len)
{
	if (s->closed)
		session_end(s);
	else
		s->ways->answer(s, bytes, len);
}
