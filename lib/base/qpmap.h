/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the number of a queue pair to its endpoint, in constant time: a
 * completion of a shared receive says no more about where it belongs.
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
		struct lane *lane;	/* NULL: free */
	} *entries;
	uint32_t mask;			/* number of entries - 1 */
	uint32_t used;
};

/* -ENOMEM. The number must not be there. */
int rdmamsg__qpmap_add(struct qpmap *map, uint32_t num, struct lane *lane);
/* Nothing if that number is not there. */
void rdmamsg__qpmap_del(struct qpmap *map, uint32_t num);
void rdmamsg__qpmap_free(struct qpmap *map);

/* Numbers of a device are dense: the low bits tell most of them apart. */
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
