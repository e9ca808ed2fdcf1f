/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a context that counts and keeps registered memory. */
#ifndef RDMAMSG_LIB_MEMORY_H
#define RDMAMSG_LIB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addrmap.h"
#include "base/list.h"
#include "base/timer.h"
#include "memory/stretch.h"

struct rdmamsg;

/* Part of what waits for memory. */
struct starving {
	struct list node;		/* empty: it does not wait */
	void (*fed)(struct starving *w);
};

struct memory {
	/*
	 * Given by lib/loop: a region is in use, and somebody waits for that to
	 * end. Operations whose end nobody is told of shall tell now.
	 */
	void (*ask)(struct rdmamsg *ctx);
	struct budget budget[DIRECTIONS];
	struct list starved;		/* struct starving */
	struct timer again;		/* for those, when the system refuses */
	uint32_t again_ms;
	uint64_t regions;		/* ids given to keys */
	struct addrmap accounts;	/* struct account */
	struct list region_list;
	struct list caches;
	struct list pool_list;		/* struct rdmamsg_pool */
};

/* starved.c: waiting for memory */
int rdmamsg__starved_init(struct rdmamsg *ctx);
/* fed() comes when memory has come back; for other errors, after a while. */
void rdmamsg__starve(struct rdmamsg *ctx, struct starving *w, int err);
void rdmamsg__feed(struct memory *m);
/* Whether what failed with this error may succeed later. */
bool rdmamsg__passes(int err);

#endif
