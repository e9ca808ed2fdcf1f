/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table whose chains have about one record. */
#include "base/addrmap.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST	64u		/* number of buckets */

static pthread_once_t seeded = PTHREAD_ONCE_INIT;
static uint64_t seed[3];

/* Random multipliers keep a peer from filling one chain. */
static void make_seed(void)
{
	static const uint64_t fallback = 0x9e3779b97f4a7c15u;

	(void)!getrandom(seed, sizeof(seed), GRND_NONBLOCK);
	for (int i = 0; i < 3; i++)
		seed[i] = (seed[i] ^ fallback) | 1;
}

static uint32_t hash(const struct addr_key *key)
{
	uint64_t word[2], h;

	pthread_once(&seeded, make_seed);
	memcpy(word, key->addr, sizeof(word));
	h = (word[0] ^ key->scope) * seed[0];
	h = (h ^ h >> 32 ^ word[1]) * seed[1];
	h = (h ^ h >> 32 ^ (uintptr_t)key->of) * seed[2];
	return (uint32_t)(h >> 32);
}

void rdmamsg__addr_key(struct addr_key *key, const void *of,
		       const struct sockaddr_storage *addr)
{
	*key = (struct addr_key){ .of = of };
	if (addr->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 =
			(const struct sockaddr_in6 *)addr;

		memcpy(key->addr, &in6->sin6_addr, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			key->scope = in6->sin6_scope_id;
	} else if (addr->ss_family == AF_INET) {
		key->addr[10] = key->addr[11] = 0xff;
		memcpy(key->addr + 12,
		       &((const struct sockaddr_in *)addr)->sin_addr, 4);
	}
}

bool rdmamsg__addr_net(struct addr_key *key, const void *of)
{
	struct in6_addr in6;

	memcpy(&in6, key->addr, sizeof(in6));
	if (IN6_IS_ADDR_V4MAPPED(&in6) || IN6_IS_ADDR_LINKLOCAL(&in6) ||
	    IN6_IS_ADDR_LOOPBACK(&in6) || IN6_IS_ADDR_UNSPECIFIED(&in6))
		return false;
	memset(key->addr + 8, 0, 8);
	key->of = of;
	return true;
}

static bool is_same(const struct addr_key *a, const struct addr_key *b)
{
	return a->of == b->of && a->scope == b->scope &&
	       !memcmp(a->addr, b->addr, sizeof(a->addr));
}

void *rdmamsg__addrmap_find(const struct addrmap *map,
			    const struct addr_key *key)
{
	struct addr_node *n;

	if (!map->buckets)
		return NULL;
	for (n = map->buckets[hash(key) & map->mask]; n; n = n->next)
		if (is_same(&n->key, key))
			return n;
	return NULL;
}

static void add(struct addrmap *map, struct addr_node *n)
{
	struct addr_node **bucket = &map->buckets[hash(&n->key) & map->mask];

	n->next = *bucket;
	*bucket = n;
}

/* If there is no memory for more buckets, the chains become longer. */
static int grow(struct addrmap *map)
{
	uint32_t size = map->buckets ? 2 * (map->mask + 1) : FIRST;
	struct addrmap bigger = {
		.buckets = calloc(size, sizeof(*bigger.buckets)),
		.mask = size - 1, .count = map->count,
	};

	if (!bigger.buckets)
		return map->buckets ? 0 : -ENOMEM;
	for (uint32_t i = 0; map->buckets && i <= map->mask; i++)
		while (map->buckets[i]) {
			struct addr_node *n = map->buckets[i];

			map->buckets[i] = n->next;
			add(&bigger, n);
		}
	free(map->buckets);
	*map = bigger;
	return 0;
}

void *rdmamsg__addrmap_get(struct addrmap *map, const struct addr_key *key,
			   size_t size)
{
	struct addr_node *n = rdmamsg__addrmap_find(map, key);

	if (n) {
		n->refs++;
		return n;
	}
	if ((!map->buckets || map->count > map->mask) && grow(map))
		return NULL;
	n = calloc(1, size);
	if (!n)
		return NULL;
	n->key = *key;
	n->refs = 1;
	add(map, n);
	map->count++;
	return n;
}

bool rdmamsg__addrmap_put(struct addrmap *map, void *record)
{
	struct addr_node *node = record, **n;

	if (--node->refs)
		return false;
	n = &map->buckets[hash(&node->key) & map->mask];
	while (*n != node)
		n = &(*n)->next;
	*n = node->next;
	map->count--;
	free(node);
	return true;
}

void rdmamsg__addrmap_fini(struct addrmap *map)
{
	assert(!map->count);
	free(map->buckets);
	map->buckets = NULL;
}
