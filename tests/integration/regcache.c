/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache keeps registrations of memory that is used again. */
#include "rma_pair.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rma.h>

static struct rdmamsg_cache_stats
cache_info(const struct rdmamsg_cache *cache)
{
	struct rdmamsg_cache_stats i = { .size = sizeof(i) };

	assert_int_equal(rdmamsg_cache_get_stats(cache, &i), 0);
	return i;
}

static struct rdmamsg_region *get(struct rdmamsg_cache *cache, size_t at,
				  size_t len)
{
	struct rdmamsg_region *region;

	if (rdmamsg_cache_get(cache, p.c.ep, near + at, len,
			      RDMAMSG_ACCESS_LOCAL_WRITE, &region))
		fail_msg("rdmamsg_cache_get: %s", rdmamsg_error());
	return region;
}

static void cache__full_LEAST_RECENT_GOES(void **state)
{
	const struct rdmamsg_cache_options opts = {
		.size = sizeof(opts), .max_bytes = 100000, .max_regions = 3,
	};
	struct rdmamsg_region *a, *b;
	struct rdmamsg_sge s;
	struct rdmamsg_cache *cache;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, &opts, &cache), 0);
	a = get(cache, 0, 40000);
	b = get(cache, 100, 1000);		/* inside of a */
	assert_ptr_equal(a, b);
	assert_int_equal(cache_info(cache).hits, 1);
	assert_int_equal(rdmamsg_cache_put(cache, a), 0);
	/* a cached region is usable like any other */
	s = (struct rdmamsg_sge){ near, 40000, b };
	memcpy(far, pattern(2), 40000);
	assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, cookie()), 0);
	assert_int_equal(rdmamsg_cache_put(cache, b), 0);
	/* a region stays while an operation uses it */
	assert_error(rdmamsg_cache_invalidate(cache, near + 39999, 1), -EBUSY,
		     "in use");
	WAIT_FOR(p.c.sent_ok == 1);
	assert_memory_equal(near, pattern(2), 40000);

	assert_int_equal(rdmamsg_cache_put(cache, get(cache, 50000, 40000)), 0);
	assert_int_equal(rdmamsg_cache_put(cache, get(cache, 0, 40000)), 0);
	assert_int_equal(cache_info(cache).hits, 2);
	/*
	 * 80000 bytes are cached; the second region, not the first, makes room
	 */
	a = get(cache, 100000, 30000);
	assert_int_equal(cache_info(cache).evictions, 1);
	assert_int_equal(cache_info(cache).bytes, 70000);
	b = get(cache, 0, 10);
	assert_int_equal(cache_info(cache).hits, 3);
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near + 200000, 40000, 0,
				       &near_region), -ENOBUFS, "fit");
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near + 200000, 400000, 0,
				       &near_region), -ENOBUFS, "fit");
	assert_error(rdmamsg_region_destroy(a), -EINVAL, "cache");
	assert_error(rdmamsg_cache_destroy(cache), -EBUSY, "in use");
	assert_int_equal(rdmamsg_cache_put(cache, a), 0);
	assert_error(rdmamsg_cache_put(cache, a), -EINVAL, "not got");
	assert_int_equal(rdmamsg_cache_put(cache, b), 0);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 100, 1), 0);
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 40000, 1000),
			 0);
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	assert_int_equal(rdmamsg_cache_destroy(NULL), 0);
	/* the context frees this cache, with a region in it */
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, NULL, &cache), 0);
	(void)get(cache, 0, 1000);
	rma_end();
}

static uint64_t key_len(struct rdmamsg_region *region, uint32_t access)
{
	struct rdmamsg_key_attr info = { .size = sizeof(info) };
	struct rdmamsg_key k;

	assert_int_equal(rdmamsg_region_get_key(region, p.c.ep, &k), 0);
	assert_int_equal(rdmamsg_key_query(&k, &info), 0);
	assert_int_equal(info.access, access);
	return info.len;
}

static struct rdmamsg_region *get_for(struct rdmamsg_cache *cache, size_t at,
				      size_t len, uint32_t access)
{
	struct rdmamsg_region *region;

	assert_int_equal(rdmamsg_cache_get(cache, p.c.ep, near + at, len,
					   access, &region), 0);
	assert_int_equal(rdmamsg_cache_put(cache, region), 0);
	return region;
}

/* A key covers only the requested bytes. */
static void cache__for_a_peer_NOTHING_MORE(void **state)
{
	struct rdmamsg_region *all, *part;
	struct rdmamsg_cache *cache;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, NULL, &cache), 0);
	all = get_for(cache, 0, 40000, ACCESS_ALL);
	assert_int_equal(key_len(all, ACCESS_ALL), 40000);
	part = get_for(cache, 4096, 4096, RDMAMSG_ACCESS_READ);
	assert_int_equal(key_len(part, RDMAMSG_ACCESS_READ), 4096);
	assert_int_equal(key_len(get_for(cache, 0, 40000, RDMAMSG_ACCESS_READ),
				 RDMAMSG_ACCESS_READ), 40000);
	assert_int_equal(cache_info(cache).hits, 0);
	assert_ptr_equal(get_for(cache, 4096, 4096, RDMAMSG_ACCESS_READ), part);
	assert_int_equal(cache_info(cache).hits, 1);
	/* a region without remote access gives no key either */
	assert_error(rdmamsg_region_get_key(get_for(cache, 0, 10, 0), p.c.ep,
					   &key), -EINVAL, "nothing");
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	rma_end();
}

static void cache__lengths_beyond_all_ARE_TAKEN(void **state)
{
	const struct rdmamsg_cache_options opts = {
		.size = sizeof(opts), .max_bytes = 100000,
	};
	struct rdmamsg_region *region;
	struct rdmamsg_cache *cache;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, &opts, &cache), 0);
	(void)get_for(cache, 0, 1000, 0);
	/* an empty range is in no region */
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 500, 0), 0);
	assert_int_equal(cache_info(cache).regions, 1);
	/* a request beyond the cap evicts nothing */
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near, 100001, 0, &region),
		     -ENOBUFS, "fit");
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 1000, SIZE_MAX -
						  (uintptr_t)near - 1000), 0);
	assert_int_equal(cache_info(cache).regions, 1);
	assert_int_equal(rdmamsg_cache_invalidate(cache, near + 500, SIZE_MAX),
			 0);
	assert_int_equal(cache_info(cache).regions, 0);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	rma_end();
}

static void put__into_another_cache_EINVAL(void **state)
{
	struct rdmamsg_cache *cache, *other;
	struct rdmamsg_region *region;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, NULL, &cache), 0);
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, NULL, &other), 0);
	region = get(cache, 0, 1000);
	assert_error(rdmamsg_cache_put(other, region), -EINVAL, "not got");
	assert_error(rdmamsg_cache_put(other, near_region), -EINVAL, "not got");
	/* the region still belongs to the first cache */
	assert_error(rdmamsg_cache_destroy(cache), -EBUSY, "in use");
	assert_int_equal(rdmamsg_cache_put(cache, region), 0);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	assert_int_equal(rdmamsg_cache_destroy(other), 0);
	rma_end();
}

/* The region would fit without the others, but some of them are in use. */
static void cache__too_much_in_use_KEEPS_THE_REST(void **state)
{
	const struct rdmamsg_cache_options opts = {
		.size = sizeof(opts), .max_bytes = 100000, .max_regions = 2,
	};
	struct rdmamsg_region *unused, *used, *none;
	struct rdmamsg_cache *cache;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, &opts, &cache), 0);
	unused = get_for(cache, 0, 30000, 0);
	used = get(cache, 50000, 40000);
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near + 100000, 70000, 0,
				       &none), -ENOBUFS, "in use");
	assert_int_equal(cache_info(cache).evictions, 0);
	assert_ptr_equal(get_for(cache, 0, 30000, 0), unused);
	/*
	 * if evicting the unused region makes enough room, the cache evicts it
	 */
	assert_int_equal(rdmamsg_cache_put(cache, get(cache, 100000, 60000)),
			 0);
	assert_int_equal(cache_info(cache).evictions, 1);
	assert_int_equal(cache_info(cache).bytes, 100000);
	assert_int_equal(rdmamsg_cache_put(cache, used), 0);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	rma_end();
}

/* Checks that the cache has registered, dropped and counted nothing. */
static void check_untouched(struct rdmamsg_cache *cache,
			    const struct rdmamsg_ep *ep, int error,
			    const char *word)
{
	struct rdmamsg_cache_stats before = cache_info(cache), after;
	struct rdmamsg_region *region;

	assert_error(rdmamsg_cache_get(cache, ep, near, 1000, 0, &region),
		     error, word);
	assert_error(rdmamsg_cache_get(cache, ep, near + 5000, 1000, 0,
				       &region), error, word);
	after = cache_info(cache);
	assert_int_equal(after.bytes, before.bytes);
	assert_int_equal(after.regions, before.regions);
	assert_int_equal(after.hits, before.hits);
	assert_int_equal(after.misses, before.misses);
	assert_int_equal(after.evictions, before.evictions);
}

static void cache__wrong_endpoint_LEAVES_IT(void **state)
{
	const struct rdmamsg_cache_options opts = {
		.size = sizeof(opts), .max_regions = 1,
	};
	struct rdmamsg_region *region;
	struct rdmamsg_cache *cache;
	struct rdmamsg_ep *ep;

	rma_pair();
	assert_int_equal(rdmamsg_cache_create(p.c.ctx, &opts, &cache), 0);
	region = get_for(cache, 0, 1000, 0);
	check_untouched(cache, p.s.ep, -EINVAL, "another context");
	/* invalid access flags change nothing either */
	assert_error(rdmamsg_cache_get(cache, p.c.ep, near, 1000, 1u << 31,
				       &near_region), -EINVAL, "access");
	assert_ptr_equal(get_for(cache, 0, 1000, 0), region);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	pair_close(&p);
	check_untouched(cache, ep, -ENOTCONN, "no device");
	assert_int_equal(cache_info(cache).regions, 1);
	rdmamsg_ep_release(ep);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	rma_fini();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(cache__full_LEAST_RECENT_GOES),
		TEST(cache__for_a_peer_NOTHING_MORE),
		TEST(cache__lengths_beyond_all_ARE_TAKEN),
		TEST(put__into_another_cache_EINVAL),
		TEST(cache__too_much_in_use_KEEPS_THE_REST),
		TEST(cache__wrong_endpoint_LEAVES_IT),
	};

	return test_main(tests, NULL, argc, argv);
}
