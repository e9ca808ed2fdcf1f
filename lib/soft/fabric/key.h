/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of keys, from lkey or rkey to a region or window. All L. */
#ifndef SOFT_FABRIC_KEY_H
#define SOFT_FABRIC_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

struct soft_mr;
struct soft_mw;

#define SOFT_KEY_POOL	64		/* random numbers per getrandom() */

/* An entry of the table. */
struct soft_key {
	uint32_t key;			/* 0: free */
	uint16_t counter;		/* index into withdrawn[] of rings */
	bool window;
	union {
		struct soft_mr *mr;
		struct soft_mw *mw;
	};
};

struct soft_keys {
	struct soft_key *at;
	uint32_t mask;			/* places - 1 */
	uint32_t count;
	uint32_t made;			/* keys since the device was opened */
	uint32_t pool[SOFT_KEY_POOL], pooled;
};

/* Returns 0 or an errno. */
int soft_keys_init(struct soft_keys *keys);
void soft_keys_fini(struct soft_keys *keys);

/*
 * Makes a key for a region or a window. The other argument is NULL. Returns 0
 * or an errno.
 */
int soft_key_new(struct soft_keys *keys, struct soft_mr *mr, struct soft_mw *mw,
		 uint32_t *ret);
void soft_key_free(struct soft_keys *keys, uint32_t key);
/* Frees all keys of a window. */
void soft_key_free_all(struct soft_keys *keys, const struct soft_mw *mw);
/* Returns the place of the key with the same upper 24 bits, or NULL. */
struct soft_key *soft_key_like(const struct soft_keys *keys, uint32_t key);
/* Returns the place of a key, or NULL. */
static inline const struct soft_key *soft_key_at(const struct soft_keys *keys,
						 uint32_t key)
{
	for (uint32_t i = key >> 8;; i++) {
		const struct soft_key *k = &keys->at[i & keys->mask];

		if (likely(k->key == key))
			return k;
		if (!k->key)
			return NULL;
	}
}

static inline struct soft_mr *soft_key_region(const struct soft_keys *keys,
					      uint32_t key)
{
	const struct soft_key *k = soft_key_at(keys, key);

	return likely(k && !k->window) ? k->mr : NULL;
}

static inline struct soft_mw *soft_key_window(const struct soft_keys *keys,
					      uint32_t key)
{
	const struct soft_key *k = soft_key_at(keys, key);

	return k && k->window ? k->mw : NULL;
}

#endif
