/* SPDX-License-Identifier: BSD-2-Clause */
#include "dc/lease.h"

#include "base/base.h"
#include "base/list.h"
#include "base/util.h"
#include "dc/dc.h"
#include "dc/flight.h"
#include "dc/port.h"
#include "dc/session.h"
#include "wire/dc_frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* The clock of rdmamsg__about_ms() is late, and ticks of the target vary. */
#define LEASE_MS	(DCF_FORGET_MS - 1000u)
#define ASK		3u	/* ticks from ASK to ASK */

_Static_assert(2 * ASK * PORT_TICK_MS < LEASE_MS, "a busy sender has a lease");

/* A message that completes later has a later time. */
static bool holds(const struct dc_lease *l)
{
	return rdmamsg__about_ms() < l->until;
}

void rdmamsg__lease_init(struct dc_session *x)
{
	list_init(&x->lease.asked_for);
	list_init(&x->lease.doubts);
}

void rdmamsg__lease_greet(struct dc_session *x)
{
	x->lease.asked = rdmamsg__about_ms();
}

void rdmamsg__lease_begin(struct dc_session *x)
{
	x->lease.until = x->lease.asked + LEASE_MS;
}

void rdmamsg__lease_tick(struct dc_session *x)
{
	struct dc_lease *l = &x->lease;

	if (++l->ticks >= ASK &&
	    (rdmamsg__lease_waits(l) || x->number != l->number))
		l->due = true;
}

static void begin_ask(struct dc_session *x)
{
	struct dc_lease *l = &x->lease;

	l->ask += l->ask == UINT32_MAX ? 2 : 1;
	l->asked = rdmamsg__about_ms();
	l->number = x->number;
	l->out = true;
	while (!list_empty(&l->doubts)) {
		struct list *n = l->doubts.next;

		list_del(n);
		list_add_tail(&l->asked_for, n);
	}
}

void rdmamsg__lease_ask(struct dc_session *x)
{
	struct dc_lease *l = &x->lease;

	/* the target may not have reached this side with its first answer */
	if (!l->out)
		begin_ask(x);
	l->due = false;
	l->ticks = 0;
	rdmamsg__session_frame(x, DCF_ASK, l->ask, 0);
	rdmamsg__peer_send(&x->peer, DCF_LEN, (struct dc_tx){
				.kind = FLIGHT_FRAME, .late = true });
}

static void complete_first(struct dc_session *x, struct list *msgs)
{
	rdmamsg__flight_end(x, list_first(msgs, struct dc_msg, node), 0);
}

void rdmamsg__lease_credit(struct dc_session *x, const struct dc_frame *f)
{
	struct dc_lease *l = &x->lease;

	if (!l->out || f->tag != l->ask)
		return;
	l->out = false;
	l->until = l->asked + LEASE_MS;
	/* the target has taken these before the ASK */
	while (!list_empty(&l->asked_for))
		complete_first(x, &l->asked_for);
	while (holds(l) && !list_empty(&l->doubts))
		complete_first(x, &l->doubts);
	l->due = !list_empty(&l->doubts);
}

static void doubt(struct dc_session *x, struct dc_msg *m)
{
	list_add_tail(&x->lease.doubts, &m->node);
	x->lease.due |= !x->lease.out;
}

void rdmamsg__lease_complete(struct dc_session *x, void *cookie)
{
	struct dc_msg *m;

	if (!cookie || likely(holds(&x->lease))) {
		rdmamsg__dc_complete(x->a, cookie, 0);
		return;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		log_error("no memory for a message in doubt");
		rdmamsg__dc_complete(x->a, cookie, -ECANCELED);
		return;
	}
	m->kind = DC_COPY;
	m->cookie = cookie;
	doubt(x, m);
}

void rdmamsg__lease_complete_msg(struct dc_session *x, struct dc_msg *m)
{
	if (likely(holds(&x->lease))) {
		rdmamsg__flight_end(x, m, 0);
		return;
	}
	list_del(&m->node);
	doubt(x, m);
}
