/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds orders that cannot end. A trial run lets each message arrive at once.
 * Waits and enables count from the start of the run and only grow, so one order
 * of the queues decides for all orders.
 */
#include "base/base.h"
#include "base/util.h"
#include "chain/chain.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX	200

struct trial {
	const struct rdmamsg_chain *c;
	struct {
		uint32_t head, done, allowed;
	} q[RDMAMSG_CHAIN_QUEUES];
};

static bool may_run(const struct trial *t, uint32_t queue)
{
	return t->q[queue].head != NO_STEP &&
	       t->q[queue].done < t->q[queue].allowed;
}

/* Returns true if the head of the queue is done. */
static bool try_head(struct trial *t, uint32_t queue)
{
	const struct step *s = &t->c->steps[t->q[queue].head];
	uint32_t n = s->n;

	if (s->kind == STEP_WAIT && t->q[s->other].done < n)
		return false;
	if (s->kind == STEP_ENABLE) {
		n = n ? n : t->c->queues[s->other].count;
		t->q[s->other].allowed = max(t->q[s->other].allowed, n);
	}
	t->q[queue].done++;
	t->q[queue].head = s->next;
	return true;
}

/* Lets all queues go on as far as they can. */
static void run(struct trial *t)
{
	bool goes_on = true;

	while (goes_on) {
		goes_on = false;
		for (uint32_t i = 0; i < t->c->queue_count; i++)
			while (may_run(t, i) && try_head(t, i))
				goes_on = true;
	}
}

/* Returns the queue with a step that enables more of this queue. */
static uint32_t enabler(const struct trial *t, uint32_t queue)
{
	for (uint32_t i = 0; i < t->c->queue_count; i++) {
		for (uint32_t k = t->q[i].head; k != NO_STEP;
		     k = t->c->steps[k].next) {
			const struct step *s = &t->c->steps[k];

			if (s->kind == STEP_ENABLE && s->other == queue &&
			    (!s->n || s->n > t->q[queue].allowed))
				return i;
		}
	}
	return NO_QUEUE;
}

/*
 * Returns the queue for which the stuck queue waits. NO_QUEUE: it waits for
 * steps that do not exist.
 */
static uint32_t blocker(const struct trial *t, uint32_t queue)
{
	const struct step *s = &t->c->steps[t->q[queue].head];

	if (!may_run(t, queue))
		return enabler(t, queue);
	return s->n > t->c->queues[s->other].count ? NO_QUEUE : s->other;
}

static int impossible(const struct trial *t, uint32_t queue)
{
	uint32_t head = t->q[queue].head;
	const struct step *s = &t->c->steps[head];
	char step[80];

	rdmamsg__step_text(t->c, head, step, sizeof(step));
	if (!may_run(t, queue))
		return rdmamsg__fail(-EDEADLK, "chain: nothing enables %s of "
				     "queue %u", step, queue);
	return rdmamsg__fail(-EDEADLK, "chain: %s of queue %u cannot end: "
			     "queue %u has %u steps", step, queue, s->other,
			     t->c->queues[s->other].count);
}

/* The queues wait for each other, beginning with this one. */
static int cycle(const struct trial *t, uint32_t first)
{
	uint32_t queue = first;
	char text[TEXT_MAX], step[80];
	int len = 0;

	do {
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"%s waits for ", rdmamsg__step_text(t->c,
				t->q[queue].head, step, sizeof(step)));
		queue = blocker(t, queue);
	} while (queue != first && len < TEXT_MAX - 60);
	(void)snprintf(text + min(len, TEXT_MAX - 20),
		       sizeof(text) - (size_t)min(len, TEXT_MAX - 20),
		       queue == first ? "step %u" : "...", t->q[first].head);
	return rdmamsg__fail(-EDEADLK, "chain: a cycle: %s", text);
}

int rdmamsg__chain_check(const struct rdmamsg_chain *c)
{
	uint64_t seen = 0;
	struct trial t;
	uint32_t queue = 0, next;

	t.c = c;
	for (uint32_t i = 0; i < c->queue_count; i++) {
		t.q[i].head = c->queues[i].first;
		t.q[i].done = 0;
		t.q[i].allowed = c->managed >> i & 1 ? 0 : UINT32_MAX;
	}
	run(&t);
	while (queue < c->queue_count && t.q[queue].head == NO_STEP)
		queue++;
	if (queue == c->queue_count)
		return 0;
	/* follow the queues from a stuck one to the first that repeats */
	while (!(seen >> queue & 1)) {
		seen |= 1ull << queue;
		next = blocker(&t, queue);
		if (next == NO_QUEUE)
			return impossible(&t, queue);
		queue = next;
	}
	return cycle(&t, queue);
}
