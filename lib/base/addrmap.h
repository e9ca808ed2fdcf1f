/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table of records by the IP address of a peer. The port does not
 * matter.
 */
#ifndef RDMAMSG_LIB_ADDRMAP_H
#define RDMAMSG_LIB_ADDRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addr_key {
	const void *of;		/* an object, or NULL */
	uint8_t addr[16];	/* IPv4 is mapped into IPv6 */
	uint64_t scope;		/* if the address is link-local */
};

/* First member of each record. */
struct addr_node {
	struct addr_node *next;	/* in its bucket */
	struct addr_key key;
	uint32_t refs;
};

struct addrmap {
	struct addr_node **buckets;
	uint32_t mask;		/* number of buckets - 1 */
	uint32_t count;
};

void rdmamsg__addr_key(struct addr_key *key, const void *of,
		       const struct sockaddr_storage *addr);
/*
 * Makes the key of an address that of its /64, which is a record of 'of'.
 * Returns false if it has none: IPv4, and link-local addresses.
 */
bool rdmamsg__addr_net(struct addr_key *key, const void *of);
/* Returns NULL if the map has no such record. */
void *rdmamsg__addrmap_find(const struct addrmap *map,
			    const struct addr_key *key);
/*
 * Finds or creates the record, and takes a reference. A new record has 'size'
 * bytes, zero beyond the node. Returns NULL if there is no memory.
 */
void *rdmamsg__addrmap_get(struct addrmap *map, const struct addr_key *key,
			   size_t size);
/* Frees the record and returns true if this was the last reference. */
bool rdmamsg__addrmap_put(struct addrmap *map, void *record);
/* The map must be empty. */
void rdmamsg__addrmap_fini(struct addrmap *map);

/*
 * Returns true if one address may take 'more' of a resource that all addresses
 * share. An address that has nothing may always take something. After that the
 * rule is
 *
 *   used + more <= 2 * (left - more)
 *
 * so that at least a third is left for the others.
 */
static inline bool rdmamsg__is_fair(size_t used, size_t left, size_t more)
{
	return !used ||
	       (more <= left && used + more <= 2 * (left - more));
}

#endif
