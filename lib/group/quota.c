/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "group/quota.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_at(const struct asker *a, const struct carrier_peer *p)
{
	static const union ibv_gid zero;

	return !memcmp(&a->gid, &p->gid, sizeof(a->gid)) &&
	       (a->slid == p->slid || memcmp(&a->gid, &zero, sizeof(zero)));
}

static void add(struct asker *a, uint64_t more, uint64_t most)
{
	a->left = (uint32_t)min(a->left + more, min(most + QUOTA_LEAST,
						    (uint64_t)UINT32_MAX));
}

static void start(struct asker *a, const struct quota_sent *s)
{
	a->left = QUOTA_LEAST;
	a->when = s->now;
	a->published = s->published;
	add(a, QUOTA_TIMES * s->recent, QUOTA_TIMES * s->recent);
}

static struct asker *refill(struct asker *a, const struct quota_sent *s)
{
	uint64_t least;

	if (!a->when) {
		start(a, s);
		return a;
	}
	a->when = max(a->when, s->now - min(s->now, (uint64_t)1000));
	least = (s->now - a->when) * QUOTA_LEAST / 1000;
	/* a part of a datagram is not lost if this is called often */
	a->when += least * 1000 / QUOTA_LEAST;
	add(a, QUOTA_TIMES * (s->published - a->published) + least,
	    QUOTA_TIMES * s->kept);
	a->published = s->published;
	return a;
}

/* Returns a place for another address, or NULL. */
static struct asker *place(struct quota *of, uint64_t now)
{
	struct asker *oldest = &of->at[0];

	if (of->count < QUOTA_ASKERS)
		return &of->at[of->count++];
	for (uint32_t i = 1; i < of->count; i++)
		if (of->at[i].when < oldest->when)
			oldest = &of->at[i];
	return now - oldest->when >= QUOTA_IDLE_MS ? oldest : NULL;
}

struct asker *rdmamsg__quota_of(struct quota *of,
				 const struct carrier_peer *by,
				 const struct quota_sent *sent)
{
	struct asker *a;

	for (uint32_t i = 0; i < of->count; i++)
		if (is_at(&of->at[i], by))
			return refill(&of->at[i], sent);
	a = place(of, sent->now);
	if (!a)
		return refill(&of->rest, sent);
	a->gid = by->gid;
	a->slid = by->slid;
	start(a, sent);
	return a;
}

void rdmamsg__quota_grant(struct asker *a, uint64_t more,
			  const struct quota_sent *sent)
{
	add(a, more, QUOTA_TIMES * sent->kept);
}

struct asker *rdmamsg__quota_of_all(struct quota *of,
				     const struct quota_sent *sent)
{
	return refill(&of->all, sent);
}
