/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table with open addressing. It is at most half full, and has no
 * tombstones.
 */
#include "base/qpmap.h"
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>

static void put(struct qpmap *map, uint32_t num, struct lane *lane)
{
	uint32_t at = rdmamsg__qpmap_hash(map, num);

	while (map->entries[at].lane)
		at = (at + 1) & map->mask;
	map->entries[at].num = num;
	map->entries[at].lane = lane;
}

static int grow(struct qpmap *map)
{
	uint32_t size = map->entries ? 2 * (map->mask + 1) : 64;
	struct qpmap bigger = {
		.entries = calloc(size, sizeof(*bigger.entries)),
		.mask = size - 1, .used = map->used,
	};

	if (!bigger.entries)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	for (uint32_t i = 0; map->entries && i <= map->mask; i++)
		if (map->entries[i].lane)
			put(&bigger, map->entries[i].num, map->entries[i].lane);
	free(map->entries);
	*map = bigger;
	return 0;
}

int rdmamsg__qpmap_add(struct qpmap *map, uint32_t num, struct lane *lane)
{
	if (!map->entries || 2 * (map->used + 1) > map->mask) {
		int ret = grow(map);

		if (ret)
			return ret;
	}
	put(map, num, lane);
	map->used++;
	return 0;
}

/* Moves back entries behind the gap whose search would stop at the gap. */
static void close_gap(struct qpmap *map, uint32_t gap)
{
	uint32_t at = gap;

	for (;;) {
		struct qpmap_entry *e;
		uint32_t home;

		at = (at + 1) & map->mask;
		e = &map->entries[at];
		if (!e->lane)
			break;
		home = rdmamsg__qpmap_hash(map, e->num);
		if (((at - home) & map->mask) < ((at - gap) & map->mask))
			continue;
		map->entries[gap] = *e;
		gap = at;
	}
	map->entries[gap].lane = NULL;
}

void rdmamsg__qpmap_del(struct qpmap *map, uint32_t num)
{
	uint32_t at;

	if (!map->used)
		return;
	for (at = rdmamsg__qpmap_hash(map, num); map->entries[at].lane;
	     at = (at + 1) & map->mask)
		if (map->entries[at].num == num) {
			map->used--;
			close_gap(map, at);
			return;
		}
}

void rdmamsg__qpmap_free(struct qpmap *map)
{
	free(map->entries);
	map->entries = NULL;
	map->used = 0;
}
