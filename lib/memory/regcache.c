/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache of registrations for memory that is used again. The cache hooks no
 * function: the program calls rdmamsg_cache_invalidate().
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "memory/memory.h"
#include "memory/regcache.h"
#include "memory/region.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define DEFAULT_BYTES	((size_t)256 << 20)
#define DEFAULT_REGIONS	256

struct cached {
	struct list node;		/* of the cache, least recent first */
	const struct rdmamsg_cache *cache;
	struct rdmamsg_region *region;
	uint32_t users;			/* gets without a put */
};

int rdmamsg__cache_check(const struct rdmamsg_cache *cache)
{
	if (cache)
		return rdmamsg__ctx_check(cache->ctx);
	return rdmamsg__fail(-EINVAL, "the cache is NULL");
}

static bool is_used(const struct cached *c)
{
	return c->users || c->region->busy;
}

static bool overlaps(const struct cached *c, const void *addr, size_t len)
{
	uintptr_t from = (uintptr_t)addr, at = (uintptr_t)c->region->addr;

	/* compare differences: 'from + len' could wrap around */
	return at - from < len || (len && from - at < c->region->len);
}

/* Removes c. Returns an error if peers may still reach the memory. */
static int drop(struct rdmamsg_cache *cache, struct cached *c)
{
	int ret;

	cache->info.regions--;
	cache->info.bytes -= c->region->len;
	list_del(&c->node);
	ret = rdmamsg__region_free(c->region);
	free(c);
	return ret;
}

/* Returns true if 'len' bytes fit beside the regions in use. */
static bool can_fit(const struct rdmamsg_cache *cache, size_t len)
{
	const struct rdmamsg_cache_options *o = &cache->opts;
	uint32_t regions = 0;
	size_t bytes = 0;
	struct list *n;

	list_for_each(n, &cache->entries) {
		const struct cached *c = list_entry(n, struct cached, node);

		if (!is_used(c))
			continue;
		regions++;
		bytes += c->region->len;
	}
	return regions < o->max_regions && len <= o->max_bytes - bytes;
}

/* Drops the least recently used region not in use. There must be one. */
static void evict(struct rdmamsg_cache *cache)
{
	struct list *n = cache->entries.next;

	while (is_used(list_entry(n, struct cached, node)))
		n = n->next;
	/* ignore an error: the memory is still the program's, and mapped */
	(void)drop(cache, list_entry(n, struct cached, node));
	cache->info.evictions++;
}

static int make_room(struct rdmamsg_cache *cache, size_t len)
{
	const struct rdmamsg_cache_options *o = &cache->opts;

	if (len > o->max_bytes)
		return rdmamsg__fail(-ENOBUFS, "the cache may have %zu bytes "
				     "in all: %zu do not fit", o->max_bytes,
				     len);
	/* evict nothing if there will not be enough room */
	if (!can_fit(cache, len)) {
		cache->ctx->memory->ask(cache->ctx);
		return rdmamsg__fail(-ENOBUFS, "the cache may have %u regions "
				     "of %zu bytes in all: %zu more do not fit "
				     "beside what is in use", o->max_regions,
				     o->max_bytes, len);
	}
	while (cache->info.regions >= o->max_regions ||
	       len > o->max_bytes - cache->info.bytes)
		evict(cache);
	return 0;
}

/*
 * Returns true if the region serves this request. With remote access its range
 * and remote access must be the same, because a key reaches the whole region.
 */
static bool suits(const struct rdmamsg_region *region,
		  const struct rdmamsg_pd *pd, uintptr_t at, size_t len,
		  uint32_t access)
{
	uintptr_t offset = at - (uintptr_t)region->addr;

	if (region->pd != pd)
		return false;
	if ((region->access ^ access) & ACCESS_REMOTE)
		return false;
	if (access & ACCESS_REMOTE && (offset || len != region->len))
		return false;
	return offset < region->len && len <= region->len - offset &&
	       (region->access & access) == access;
}

static struct cached *find(const struct rdmamsg_cache *cache,
			   const struct rdmamsg_pd *pd, const void *addr,
			   size_t len, uint32_t access)
{
	struct list *n;

	/* the most recently used first */
	for (n = cache->entries.prev; n != &cache->entries; n = n->prev) {
		struct cached *c = list_entry(n, struct cached, node);

		if (suits(c->region, pd, (uintptr_t)addr, len, access))
			return c;
	}
	return NULL;
}

static int cached_new(struct rdmamsg_cache *cache, struct rdmamsg_pd *pd,
		      void *addr, size_t len, uint32_t access,
		      struct cached **ret)
{
	struct cached *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return rdmamsg__fail(-ENOMEM, "no memory for a region");
	err = rdmamsg_region_create(cache->ctx, addr, len, access, &c->region);
	if (err)
		goto err_c;
	/* after region_create(), so that bad arguments evict nothing */
	err = make_room(cache, len);
	if (err)
		goto err_region;
	rdmamsg__region_put_in(c->region, pd);
	c->cache = cache;
	c->region->cached = c;
	list_add_tail(&cache->entries, &c->node);
	cache->info.regions++;
	cache->info.bytes += len;
	*ret = c;
	return 0;

err_region:
	(void)rdmamsg__region_free(c->region);
err_c:
	free(c);
	return err;
}

static void cache_free(struct rdmamsg_cache *cache)
{
	while (!list_empty(&cache->entries))
		(void)drop(cache, list_first(&cache->entries, struct cached,
					     node));
	list_del(&cache->node);
	free(cache);
}

void rdmamsg__caches_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->memory->caches))
		cache_free(list_first(&ctx->memory->caches,
				      struct rdmamsg_cache, node));
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_cache_create(struct rdmamsg *ctx,
			 const struct rdmamsg_cache_options *opts,
			 struct rdmamsg_cache **ret)
{
	struct rdmamsg_cache *cache;
	int err = rdmamsg__ctx_check(ctx);

	if (err)
		return err;
	if (!ret)
		return rdmamsg__fail(-EINVAL, "rdmamsg_cache_create: ret is "
				     "NULL");
	cache = calloc(1, sizeof(*cache));
	if (!cache)
		return rdmamsg__fail(-ENOMEM, "no memory for a cache");
	err = rdmamsg__opts_copy(&cache->opts, sizeof(cache->opts), opts,
				 "rdmamsg_cache_options");
	if (err) {
		free(cache);
		return err;
	}
	if (!cache->opts.max_bytes)
		cache->opts.max_bytes = DEFAULT_BYTES;
	if (!cache->opts.max_regions)
		cache->opts.max_regions = DEFAULT_REGIONS;
	cache->ctx = ctx;
	list_init(&cache->entries);
	list_add_tail(&ctx->memory->caches, &cache->node);
	*ret = cache;
	return 0;
}

int rdmamsg__cache_get(struct rdmamsg_cache *cache, struct dev *dev,
		       struct rdmamsg_pd *pd, const struct cache_want *want,
		       struct rdmamsg_region **ret)
{
	struct cached *c = find(cache, pd, want->addr, want->len,
				want->access);
	bool hit = c;
	int err = 0;

	if (hit)
		cache->info.hits++;
	else
		cache->info.misses++;
	if (!hit)
		err = cached_new(cache, pd, want->addr, want->len,
				 want->access, &c);
	if (err)
		return err;
	err = rdmamsg__region_register(c->region, dev);
	if (err) {
		if (!hit)
			(void)drop(cache, c);
		return err;
	}
	list_del(&c->node);
	list_add_tail(&cache->entries, &c->node);
	c->users++;
	*ret = c->region;
	return 0;
}

int rdmamsg_cache_put(struct rdmamsg_cache *cache,
		      struct rdmamsg_region *region)
{
	struct cached *c = region ? region->cached : NULL;
	int err = rdmamsg__cache_check(cache);

	if (err)
		return err;
	if (!c || c->cache != cache || !c->users)
		return rdmamsg__fail(-EINVAL, "rdmamsg_cache_put: the region "
				     "was not got from the cache");
	c->users--;
	return 0;
}

int rdmamsg_cache_invalidate(struct rdmamsg_cache *cache, const void *addr,
			     size_t len)
{
	struct list *n, *t;
	int err = rdmamsg__cache_check(cache), ret = 0;

	if (err)
		return err;
	list_for_each(n, &cache->entries) {
		struct cached *c = list_entry(n, struct cached, node);

		if (!overlaps(c, addr, len) || !is_used(c))
			continue;
		cache->ctx->memory->ask(cache->ctx);
		return rdmamsg__fail(-EBUSY, "region %llu in this memory is in "
				     "use", (unsigned long long)c->region->id);
	}
	list_for_each_safe(n, t, &cache->entries) {
		struct cached *c = list_entry(n, struct cached, node);

		err = overlaps(c, addr, len) ? drop(cache, c) : 0;
		ret = ret ? ret : err;
	}
	return ret ? rdmamsg__region_fail(ret) : 0;
}

int rdmamsg_cache_get_stats(const struct rdmamsg_cache *cache,
			    struct rdmamsg_cache_stats *stats)
{
	int err = rdmamsg__cache_check(cache);

	return err ? err : rdmamsg__give(stats, &cache->info,
					 sizeof(cache->info));
}

int rdmamsg_cache_destroy(struct rdmamsg_cache *cache)
{
	int err;

	if (!cache)
		return 0;
	/* the whole address space */
	err = rdmamsg_cache_invalidate(cache, NULL, SIZE_MAX);
	if (!err)
		cache_free(cache);
	return err;
}
