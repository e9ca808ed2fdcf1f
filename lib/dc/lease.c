/* SPDX-License-Identifier: BSD-2-Clause */
#include "dc/lease.h"

#include "base/base.h"
#include "base/list.h"
#include "base/util.h"
#include "wire/dc_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The clock of rdmamsg__about_ms() is late, and ticks of the target vary. */
#define LEASE_MS	(DCF_FORGET_MS - 1000u)
#define PAUSE		3u	/* ticks from ASK to ASK */

void rdmamsg__lease_init(struct dc_lease *l)
{
	list_init(&l->asked_for);
	list_init(&l->doubts);
}

void rdmamsg__lease_greet(struct dc_lease *l)
{
	l->asked = rdmamsg__about_ms();
}

void rdmamsg__lease_begin(struct dc_lease *l)
{
	l->until = l->asked + LEASE_MS;
}

void rdmamsg__lease_tick(struct dc_lease *l, uint32_t number)
{
	if (++l->ticks >= PAUSE &&
	    (rdmamsg__lease_waits(l) || number != l->number))
		l->due = true;
}

static void begin_ask(struct dc_lease *l, uint32_t number)
{
	l->ask += l->ask == UINT32_MAX ? 2 : 1;
	l->asked = rdmamsg__about_ms();
	l->number = number;
	l->out = true;
	while (!list_empty(&l->doubts)) {
		struct list *n = l->doubts.next;

		list_del(n);
		list_add_tail(&l->asked_for, n);
	}
}

uint32_t rdmamsg__lease_ask(struct dc_lease *l, uint32_t number)
{
	/* the target may not have reached this side with its first answer */
	if (!l->out)
		begin_ask(l, number);
	l->due = false;
	l->ticks = 0;
	return l->ask;
}

void rdmamsg__lease_answer(struct dc_lease *l, uint32_t ask)
{
	if (!l->out || ask != l->ask)
		return;
	l->out = l->due = false;
	l->until = l->asked + LEASE_MS;
}

void rdmamsg__lease_doubt(struct dc_lease *l, struct list *node)
{
	list_add_tail(&l->doubts, node);
	l->due |= !l->out;
}

static struct list *take_first(struct list *msgs)
{
	struct list *n = msgs->next;

	if (n == msgs)
		return NULL;
	list_del(n);
	return n;
}

struct list *rdmamsg__lease_next(struct dc_lease *l)
{
	/* the target has taken these before the ASK, however late its answer */
	if (!l->out && !list_empty(&l->asked_for))
		return take_first(&l->asked_for);
	if (!list_empty(&l->doubts) && rdmamsg__lease_holds(l))
		return take_first(&l->doubts);
	l->due |= !l->out && !list_empty(&l->doubts);
	return NULL;
}

struct list *rdmamsg__lease_drop(struct dc_lease *l)
{
	return take_first(list_empty(&l->asked_for) ? &l->doubts :
			  &l->asked_for);
}
