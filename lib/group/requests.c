/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "group/requests.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool same(const struct carrier_peer *a, const struct carrier_peer *b)
{
	return a->qpn == b->qpn && !memcmp(&a->gid, &b->gid, sizeof(a->gid));
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

void rdmamsg__requests_add(struct requests *r, const struct frame_range *range,
			   const struct carrier_peer *by)
{
	for (uint32_t i = 0; i < r->count; i++) {
		struct request *q = &r->at[i];

		if (!join_fragments(&q->range, range) &&
		    !join_messages(&q->range, range))
			continue;
		q->several |= !same(&q->by, by);
		return;
	}
	if (r->count == REQUESTS_MAX) {
		r->dropped++;
		return;
	}
	r->at[r->count++] = (struct request){ .range = *range, .by = *by };
}
