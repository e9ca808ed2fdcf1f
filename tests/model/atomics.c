/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics on the words of the peer's board. Only this side changes them, and
 * they are executed in the order of the calls.
 *
 * An addition adds 1 to a field of its own, so the field counts how often it
 * was executed. A swap compares and replaces some bits of a small value. Its
 * result must be one of the values that the swaps before it may have left.
 */
#include "model.h"
#include "sim.h"
#include "../post.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#define FIELD		2u		/* bits of an addition in its word */
#define HALF		16u		/* fields in 4 bytes */
#define UNTOUCHED	0xeeeeeeeeeeeeeeeeull
#define VALUES		4u		/* of a word of swaps */

static uint32_t flags(void)
{
	return sim_once_in(4) ? (uint32_t)RDMAMSG_FENCE : 0;
}

static const struct rdmamsg_key *key_for(const struct end *e)
{
	return &ends[!e->index].key;
}

static int post(struct end *e, struct touch *t, struct rdmamsg_op op)
{
	t->timed = late_give(e, &op);
	return rdmamsg_post(e->ep, &op);
}

/* ---- additions --------------------------------------------------------- */

static uint64_t offset_of(uint32_t slot)
{
	return offsetof(struct board, words) + slot * sizeof(uint64_t);
}

/* Adds with 4 bytes, those that have the field. */
static int add_half(struct end *e, struct touch *t, void *cookie)
{
	const bool upper = t->version >= HALF;
	const uint32_t add = 1u << t->version % HALF * FIELD;
	const uint32_t boundary = 0xaaaaaaaau;	/* the top bit of each field */

	t->half = true;
	return post(e, t, op_add(
		key_for(e),
		offset_of(t->slot) + (upper == (BYTE_ORDER == LITTLE_ENDIAN)
					      ? sizeof(add)
					      : 0),
		sizeof(add), &add, sim_once_in(2) ? &boundary : NULL,
		&t->result, flags(), cookie));
}

static int add_fields(struct end *e, struct touch *t, void *cookie)
{
	const uint64_t add = 1ull << t->version * FIELD;
	const uint64_t boundary = 0xaaaaaaaaaaaaaaaaull;

	if (sim_once_in(2))
		return add_half(e, t, cookie);
	return post(e, t, op_add(
		key_for(e), offset_of(t->slot), sizeof(add), &add,
		sim_once_in(2) ? &boundary : NULL, &t->result, flags(),
		cookie));
}

static int add_plain(struct end *e, struct touch *t, void *cookie)
{
	const uint64_t add = 1ull << t->version * FIELD;

	if (!e->times)
		return rdmamsg_fetch_add(e->ep, key_for(e), offset_of(t->slot),
					 add, &t->result, flags(), cookie);
	return post(e, t, op_add(key_for(e), offset_of(t->slot), 0, &add, NULL,
				 &t->result, flags(), cookie));
}

static int add(struct end *e, struct touch *t, void *cookie)
{
	int ret;

	t->version = e->adds[t->slot]++;
	ret = sim_once_in(2) ? add_fields(e, t, cookie) :
	      add_plain(e, t, cookie);
	if (ret)
		e->adds[t->slot]--;
	return ret;
}

static uint32_t field(uint64_t word, uint32_t n)
{
	return (uint32_t)(word >> n * FIELD) & ((1u << FIELD) - 1);
}

static bool taken_back(const struct touch *t)
{
	return t->status == RDMAMSG_TIMED_OUT;
}

/* The value before must have each earlier addition, and no later one. */
static void check_sum(const struct end *e, const struct touch *t)
{
	const bool upper = t->version >= HALF;
	uint64_t was = t->result;
	uint32_t half;

	if (t->half) {
		memcpy(&half, &t->result, sizeof(half));
		was = upper ? (uint64_t)half << 32 : half;
	}
	for (uint32_t i = 0; i < e->touched; i++) {
		const struct touch *o = &e->touch[i];
		uint32_t times = field(was, o->version);

		if (o->kind != TOUCH_ADD || o->slot != t->slot ||
		    (t->half && upper != (o->version >= HALF)))
			continue;
		if (times > (o->version < t->version && !taken_back(o)) ||
		    (!times && o->version < t->version &&
		     o->cookie == COOKIE_BACK && !o->status))
			sim_fail("%d: addition %u of word %u sees that "
				 "addition %u was executed %u times", e->index,
				 t->version, t->slot, o->version, times);
	}
}

/* ---- swaps ------------------------------------------------------------- */

static int swap_plain(struct end *e, struct touch *t, uint64_t offset,
		      void *cookie)
{
	const struct post_swap s = {
		.expected = &t->swap.expected, .desired = &t->swap.desired,
	};

	if (!e->times)
		return rdmamsg_compare_swap(e->ep, key_for(e), offset,
					    t->swap.expected, t->swap.desired,
					    &t->result, flags(), cookie);
	return post(e, t, op_swap(key_for(e), offset, 0, &s, &t->result,
				  flags(), cookie));
}

static int swap(struct end *e, struct touch *t, void *cookie)
{
	const uint64_t offset = offsetof(struct board, swaps) +
				t->slot * sizeof(uint64_t);
	const struct post_swap s = {
		&t->swap.expected, &t->swap.compare, &t->swap.desired,
		&t->swap.replace,
	};

	t->swap.expected = sim_below(VALUES);
	t->swap.desired = sim_below(VALUES);
	t->swap.compare = t->swap.replace = UINT64_MAX;
	if (sim_once_in(2))
		return swap_plain(e, t, offset, cookie);
	t->swap.compare = sim_below(VALUES);
	t->swap.replace = sim_below(VALUES);
	return post(e, t, op_swap(key_for(e), offset, sizeof(uint64_t), &s,
				  &t->result, flags(), cookie));
}

/* Returns the set of values after t, 1 << value for each. */
static uint32_t swapped(const struct touch *t, uint32_t set)
{
	uint32_t next = 0;

	for (uint64_t v = 0; v < VALUES; v++) {
		if (!(set & 1u << v))
			continue;
		if ((v ^ t->swap.expected) & t->swap.compare)
			next |= 1u << v;
		else
			next |= 1u << ((v & ~t->swap.replace) |
				       (t->swap.desired & t->swap.replace));
	}
	return next;
}

static bool has_result(const struct touch *t)
{
	return t->cookie == COOKIE_BACK && !t->status;
}

/* Returns the values that the word may have before operation 'end'. */
static uint32_t values_before(const struct end *e, uint32_t slot, uint32_t end)
{
	uint32_t set = 1;

	for (uint32_t i = 0; i < end; i++) {
		const struct touch *o = &e->touch[i];

		if (o->kind != TOUCH_SWAP || o->slot != slot ||
		    taken_back(o))
			continue;
		if (has_result(o))
			set = swapped(o, 1u << o->result);
		else
			set |= swapped(o, set);
	}
	return set;
}

static void check_swap(const struct end *e, const struct touch *t)
{
	uint32_t set = values_before(e, t->slot, (uint32_t)(t - e->touch));

	if (t->result >= VALUES || !(set & 1u << t->result))
		sim_fail("%d: swap %u of word %u sees 0x%llx, not one of set "
			 "0x%x", e->index, (uint32_t)(t - e->touch), t->slot,
			 (unsigned long long)t->result, set);
}

/* ---- both -------------------------------------------------------------- */

int atomic_begin(struct end *e, struct touch *t, void *cookie)
{
	t->slot %= WORDS;
	t->result = UNTOUCHED;
	return t->kind == TOUCH_ADD ? add(e, t, cookie) : swap(e, t, cookie);
}

void atomic_check_untouched(const struct end *e, const struct touch *t)
{
	if (t->result != UNTOUCHED)
		sim_fail("%d: an atomic operation has timed out, and wrote "
			 "result 0x%llx", e->index,
			 (unsigned long long)t->result);
}

void atomic_check_result(const struct end *e, const struct touch *t)
{
	if (t->kind == TOUCH_ADD)
		check_sum(e, t);
	else
		check_swap(e, t);
}

static void check_add(const struct end *e, const struct touch *t)
{
	uint32_t times = field(board_for(e)->words[t->slot], t->version);

	if (times > !taken_back(t) || (!times && has_result(t)))
		sim_fail("%d: addition %u of word %u, status %d, was executed "
			 "%u times", e->index, t->version, t->slot, t->status,
			 times);
}

static void check_word(const struct end *e, uint32_t slot)
{
	const struct board *b = board_for(e);
	uint32_t set = values_before(e, slot, e->touched);

	if (e->adds[slot] < 64 / FIELD &&
	    b->words[slot] >> e->adds[slot] * FIELD)
		sim_fail("%d: word %u has an addition that was not accepted",
			 e->index, slot);
	if (b->swaps[slot] >= VALUES || !(set & 1u << b->swaps[slot]))
		sim_fail("%d: word %u of swaps has 0x%llx, not one of set 0x%x",
			 e->index, slot, (unsigned long long)b->swaps[slot],
			 set);
}

void atomics_check(const struct end *e)
{
	for (uint32_t n = 0; n < e->touched; n++)
		if (e->touch[n].kind == TOUCH_ADD)
			check_add(e, &e->touch[n]);
	for (uint32_t i = 0; i < WORDS; i++)
		check_word(e, i);
}
