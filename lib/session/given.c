/* SPDX-License-Identifier: BSD-2-Clause */
/* Remembering keys that were given to a peer. */
#include "base/base.h"
#include "base/util.h"
#include "memory/region.h"
#include "session/given.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

static int make_room(struct given *g)
{
	const uint32_t room = max(2 * g->room, 16u);
	struct given_key *keys;

	if (g->count < g->room)
		return 0;
	if (g->count == KEYS_MAX)
		return rdmamsg__fail(-ENOSPC, "the peer has %d keys: with "
				     "failover it gets no more", KEYS_MAX);
	keys = realloc(g->keys, room * sizeof(*keys));
	if (!keys)
		return rdmamsg__fail(-ENOMEM, "no memory for a key");
	g->keys = keys;
	g->room = room;
	return 0;
}

int rdmamsg__given_add(struct given *g, const struct rdmamsg_region *region,
		       uint32_t rkey)
{
	int ret;

	for (uint32_t i = 0; i < g->count; i++) {
		struct given_key *k = &g->keys[i];

		if (k->region == region->id && k->rkey == rkey) {
			k->revocations = region->revocations;
			return 0;
		}
	}
	ret = make_room(g);
	if (!ret)
		g->keys[g->count++] = (struct given_key){
			region->id, rkey, region->revocations,
		};
	return ret;
}

void rdmamsg__given_free(struct given *g)
{
	free(g->keys);
	*g = (struct given){ .keys = NULL };
}
