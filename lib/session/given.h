/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of regions that a program has got for one peer. */
#ifndef RDMAMSG_LIB_GIVEN_H
#define RDMAMSG_LIB_GIVEN_H

#include <stdint.h>

struct rdmamsg_region;

#define KEYS_MAX	4096		/* keys that one peer gets */

struct given {
	struct given_key {
		uint64_t region;
		uint32_t rkey;
		uint32_t revocations;	/* of the region, when it was given */
	} *keys;
	uint32_t count, room;
};

/* Adds a key, unless it is there. -ENOMEM, -ENOSPC */
int rdmamsg__given_add(struct given *g, const struct rdmamsg_region *region,
		       uint32_t rkey);
void rdmamsg__given_free(struct given *g);

#endif
