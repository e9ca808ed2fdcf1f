/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys and values of kv-server, where clients can read them one-sided. */
#ifndef KV_STORE_H
#define KV_STORE_H

#include "wire.h"

struct store {
	struct kv_table table;			/* a region */
	struct kv_counter counters[KV_COUNTERS];	/* another */
	void *large[KV_SLOTS];	/* values that are not inline, or NULL */
	uint32_t used;		/* slots that are not free */
	uint32_t nr_counters;
};

struct store *store_create(void);	/* NULL: no memory */
void store_destroy(struct store *s);

/* The slot of the key, or NULL. */
const struct kv_slot *store_find(const struct store *s, const char *key,
				 size_t len);
const void *store_value(const struct store *s, const struct kv_slot *slot);

/*
 * Stores the item's value, or deletes its key, as the change with number 'seq'.
 * Returns KV_OK, KV_FULL or KV_ABSENT.
 */
int store_put(struct store *s, const struct kv_item *item, uint64_t seq);
int store_delete(struct store *s, const struct kv_item *item, uint64_t seq);

/* The counter of the name, which is made if necessary; NULL: too many. */
struct kv_counter *store_counter(struct store *s, const char *name, size_t len);

#endif
