/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules for both ends while they work: a receiver keeps no more messages of a
 * peer than its credits allow.
 */
#include "chaos.h"

#include <stdio.h>

#define EVERY_MS	50

/* Counts messages that the receiver never gets. */
static uint32_t taken_back(struct journal *tx_j, const struct record *tx,
			   uint32_t from, uint32_t end)
{
	const uint8_t *state = record_tx(tx_j, tx);
	uint32_t count = 0;

	for (; from < end; from++)
		count += state[from] == TX_TIMED_OUT ||
			 state[from] == TX_CANCELED;
	return count;
}

/*
 * Counts messages in the receiver's memory that its program has not got yet.
 * Each message keeps its credit until the program gets it, so recv_depth is the
 * bound. This check reads the two ends one after the other and allows twice the
 * bound.
 */
static void kept(struct round *r, struct journal *tx_j,
		 const struct record *tx, struct journal *rx_j, const struct record *rx)
{
	struct plan p = plan_of(r->board, tx->id);
	uint32_t there = *(volatile const uint32_t *)&tx->in_memory;
	uint32_t given, most = 2 * p.side[rx->side].recv_depth + 64;

	/*
	 * reading this counter last makes the count too small, never too large
	 */
	given = judge_behind(rx_j, rx);
	given += taken_back(tx_j, tx, given, there);
	if (there > given && there - given > most)
		round_violation(r, "connection %08x: side %u keeps %u messages "
				"that its program has not got, its recv_depth "
				"is %u", tx->id, rx->side, there - given,
				p.side[rx->side].recv_depth);
}

static void connection(struct round *r, struct journal *cj,
		       const struct record *c)
{
	const struct record *s;
	struct journal *sj;

	if (!c->connected || c->closed)
		return;
	sj = judge_peer(r, c, &s);
	if (!sj || s->closed)
		return;
	kept(r, cj, c, sj, s);
	kept(r, sj, s, cj, c);
}

void watch(struct round *r)
{
	static uint64_t next;

	if (now_ms() < next)
		return;
	next = now_ms() + EVERY_MS;
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		uint32_t life = r->process[slot].life;
		struct journal *j = life ? r->journal[slot][life - 1] : NULL;

		for (uint32_t i = 0; j && i < j->records && !r->violations; i++)
			if (!j->record[i].side)
				connection(r, j, &j->record[i]);
	}
}
