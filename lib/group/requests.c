/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/addrmap.h"
#include "base/util.h"
#include "group/requests.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool same(const struct carrier_peer *a, const struct carrier_peer *b)
{
	return a->qpn == b->qpn && !memcmp(&a->gid, &b->gid, sizeof(a->gid));
}

static bool same_address(const struct carrier_peer *a,
			 const struct carrier_peer *b)
{
	return a->slid == b->slid && !memcmp(&a->gid, &b->gid, sizeof(a->gid));
}

/* Joins b to a if both are of whole messages, and overlap or are adjacent. */
static bool join_messages(struct frame_range *a, const struct frame_range *b)
{
	uint32_t first, end;

	if (a->first || a->last != FRAME_TO_END || b->first ||
	    b->last != FRAME_TO_END)
		return false;
	if ((int32_t)(b->number - (a->number + a->count)) > 0 ||
	    (int32_t)(a->number - (b->number + b->count)) > 0)
		return false;
	first = (int32_t)(b->number - a->number) < 0 ? b->number : a->number;
	end = a->number + a->count;
	if ((int32_t)(b->number + b->count - end) > 0)
		end = b->number + b->count;
	a->number = first;
	a->count = end - first;
	return true;
}

/* Likewise for fragments of one message. */
static bool join_fragments(struct frame_range *a, const struct frame_range *b)
{
	if (a->count != 1 || b->count != 1 || a->number != b->number ||
	    b->first > a->last + 1u || a->first > b->last + 1u)
		return false;
	a->first = min(a->first, b->first);
	a->last = max(a->last, b->last);
	return true;
}

static uint32_t size(const struct frame_range *r)
{
	return r->count == 1 && r->last != FRAME_TO_END ?
	       r->last - r->first + 1u : r->count;
}

/*
 * A range that two have asked for goes to all. So no large request swallows a
 * small one, whose owner would then share the fate of the other.
 */
static bool fits(const struct frame_range *both, const struct frame_range *a,
		 const struct frame_range *b)
{
	return size(both) / 2 <= min(size(a), size(b));
}

static uint32_t count_of(const struct requests *r,
			 const struct carrier_peer *by)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->count; i++)
		n += same_address(&r->at[i].by, by);
	return n;
}

void rdmamsg__requests_add(struct requests *r, const struct frame_range *range,
			   const struct carrier_peer *by)
{
	for (uint32_t i = 0; i < r->count; i++) {
		struct request *q = &r->at[i];
		struct frame_range both = q->range;

		if (!join_fragments(&both, range) &&
		    !join_messages(&both, range))
			continue;
		if (!same(&q->by, by) &&
		    (r->apart || !fits(&both, &q->range, range)))
			continue;
		q->range = both;
		q->several |= !same(&q->by, by);
		return;
	}
	if (!rdmamsg__is_fair(count_of(r, by), REQUESTS_MAX - r->count, 1) ||
	    r->count == REQUESTS_MAX) {
		r->dropped++;
		return;
	}
	r->at[r->count++] = (struct request){ .range = *range, .by = *by };
}

void rdmamsg__requests_next(struct requests *r, bool remove)
{
	const struct carrier_peer last = r->at[r->turn].by;
	uint32_t at = r->turn + !remove;

	if (remove)
		memmove(r->at + at, r->at + at + 1,
			(--r->count - at) * sizeof(*r->at));
	r->turn = 0;
	for (uint32_t i = 0; i < r->count; i++) {
		r->turn = (at + i) % r->count;
		if (!same_address(&r->at[r->turn].by, &last))
			return;
	}
	if (r->count)
		r->turn = at % r->count;
}
