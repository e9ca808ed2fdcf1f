/* SPDX-License-Identifier: BSD-2-Clause */
/* Caches of registrations. */
#ifndef RDMAMSG_LIB_REGCACHE_H
#define RDMAMSG_LIB_REGCACHE_H

#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#include "base/list.h"

struct dev;

struct rdmamsg_cache {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;
	struct list entries;
	struct rdmamsg_cache_options opts;
	struct rdmamsg_cache_stats info;
};

/* -EINVAL, -ECHILD */
int rdmamsg__cache_check(const struct rdmamsg_cache *cache);

/* Memory and access that a region must have. */
struct cache_want {
	void *addr;
	size_t len;
	uint32_t access;
};

/* Finds or creates a region with that memory, registered with the device. */
int rdmamsg__cache_get(struct rdmamsg_cache *cache, struct dev *dev,
		       struct rdmamsg_pd *pd, const struct cache_want *want,
		       struct rdmamsg_region **ret);
void rdmamsg__caches_free(struct rdmamsg *ctx);

#endif
