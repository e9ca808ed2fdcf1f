/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the lane of a queue pair number in constant time. Needed because the
 * completion of a shared receive names only the queue pair.
 */
#ifndef RDMAMSG_LIB_QPMAP_H
#define RDMAMSG_LIB_QPMAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

struct lane;

struct qpmap {
	struct qpmap_entry {
		uint32_t num;
		struct lane *lane;	/* NULL if the entry is free */
	} *entries;
	uint32_t mask;			/* number of entries - 1 */
	uint32_t used;
};

/* Returns 0 or -ENOMEM. The number must not be in the map. */
int rdmamsg__qpmap_add(struct qpmap *map, uint32_t num, struct lane *lane);
/* Has no effect if the number is not in the map. */
void rdmamsg__qpmap_del(struct qpmap *map, uint32_t num);
void rdmamsg__qpmap_free(struct qpmap *map);

/*
 * The numbers of a device are dense, so the low bits differ for most of them.
 */
static inline uint32_t rdmamsg__qpmap_hash(const struct qpmap *map,
					   uint32_t num)
{
	return (num ^ num >> 14) & map->mask;
}

static inline struct lane *rdmamsg__qpmap_find(const struct qpmap *map,
						     uint32_t num)
{
	uint32_t at;

	if (unlikely(!map->used))
		return NULL;
	for (at = rdmamsg__qpmap_hash(map, num); map->entries[at].lane;
	     at = (at + 1) & map->mask)
		if (map->entries[at].num == num)
			return map->entries[at].lane;
	return NULL;
}

#endif
