/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A key is 32 random bits. A peer that did not receive a key has to guess all
 * 32 bits, even if it knows other keys. A freed key tells nothing about later
 * keys. For a window of type 2 the program chooses the lower 8 bits at each
 * bind, so only the upper 24 bits are random.
 *
 * The table uses open addressing with linear probing. The upper 24 bits of a
 * key are the index of its home. No two keys have the same upper 24 bits, so a
 * window keeps its place when its key changes. At most half of the places are
 * taken.
 */
#include "soft/fabric/key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "soft/fabric/limits.h"
#include "soft/fabric/ring.h"

#define ROOM_FIRST	64u

/* ---- random numbers --------------------------------------------------- */

/* getrandom(2) returns up to 256 bytes in one call, or fails. */
_Static_assert(SOFT_KEY_POOL * sizeof(uint32_t) <= 256, "one call");

static int draw(struct soft_keys *keys, uint32_t *ret)
{
	if (!keys->pooled) {
		if (getrandom(keys->pool, sizeof(keys->pool), 0) !=
		    sizeof(keys->pool))
			return errno;
		keys->pooled = SOFT_KEY_POOL;
	}
	*ret = keys->pool[--keys->pooled];
	keys->pool[keys->pooled] = 0;
	return 0;
}

/* ---- places ----------------------------------------------------------- */

static struct soft_key *free_place(const struct soft_keys *keys, uint32_t key)
{
	uint32_t i = key >> 8;

	while (keys->at[i & keys->mask].key)
		i++;
	return &keys->at[i & keys->mask];
}

struct soft_key *soft_key_like(const struct soft_keys *keys, uint32_t key)
{
	for (uint32_t i = key >> 8;; i++) {
		struct soft_key *k = &keys->at[i & keys->mask];

		if (!k->key)
			return NULL;
		if (k->key >> 8 == key >> 8)
			return k;
	}
}

static int grow(struct soft_keys *keys)
{
	uint32_t room = keys->mask + 1;
	struct soft_keys twice = { .mask = 2 * room - 1 };

	twice.at = calloc(2 * (size_t)room, sizeof(*twice.at));
	if (!twice.at)
		return ENOMEM;
	for (uint32_t i = 0; i < room; i++)
		if (keys->at[i].key)
			*free_place(&twice, keys->at[i].key) = keys->at[i];
	free(keys->at);
	keys->at = twice.at;
	keys->mask = twice.mask;
	return 0;
}

int soft_keys_init(struct soft_keys *keys)
{
	keys->at = calloc(ROOM_FIRST, sizeof(*keys->at));
	keys->mask = ROOM_FIRST - 1;
	return keys->at ? 0 : ENOMEM;
}

void soft_keys_fini(struct soft_keys *keys)
{
	free(keys->at);
}

/* ---- keys ------------------------------------------------------------- */

int soft_key_new(struct soft_keys *keys, struct soft_mr *mr, struct soft_mw *mw,
		 uint32_t *ret)
{
	uint32_t key = 0;
	struct soft_key *k;
	int err = 0;

	if (keys->count >= SOFT_MAX_MR)
		return ENOMEM;
	if (2 * (keys->count + 1) > keys->mask + 1)
		err = grow(keys);
	/*
	 * a key is never 0; a program may change the lower 8 bits of a window
	 */
	while (!err && (!(mw ? key >> 8 : key) || soft_key_like(keys, key)))
		err = draw(keys, &key);
	if (err)
		return err;
	k = free_place(keys, key);
	k->key = key;
	k->counter = (uint16_t)(keys->made++ & (SOFT_WITHDRAWN - 1));
	k->window = mw;
	if (mw)
		k->mw = mw;
	else
		k->mr = mr;
	keys->count++;
	*ret = key;
	return 0;
}

/*
 * Moves up the keys behind the gap. A key never moves before its home, because
 * a search begins at the home and ends at the first gap.
 */
static void close_gap(struct soft_keys *keys, uint32_t gap)
{
	for (uint32_t i = gap + 1; keys->at[i & keys->mask].key; i++) {
		const struct soft_key *k = &keys->at[i & keys->mask];
		uint32_t from_home = (i - (k->key >> 8)) & keys->mask;

		if (from_home < ((i - gap) & keys->mask))
			continue;
		keys->at[gap & keys->mask] = *k;
		gap = i;
	}
	memset(&keys->at[gap & keys->mask], 0, sizeof(*keys->at));
}

void soft_key_free(struct soft_keys *keys, uint32_t key)
{
	const struct soft_key *k = soft_key_at(keys, key);

	if (!key || !k)
		return;
	keys->count--;
	close_gap(keys, (uint32_t)(k - keys->at));
}

void soft_key_free_all(struct soft_keys *keys, const struct soft_mw *mw)
{
	uint32_t i = 0;

	while (i <= keys->mask) {
		const struct soft_key *k = &keys->at[i];

		if (k->key && k->window && k->mw == mw)
			soft_key_free(keys, k->key);	/* refills place i */
		else
			i++;
	}
}
