/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table with open addressing, in memory of fixed size: a client computes
 * where a key is, and needs no pointer. A deleted key keeps its slot until
 * another key takes it, so that keys behind it are found.
 */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#define USED_MAX	(KV_SLOTS / 4 * 3)	/* a free slot ends a search */

struct store *store_create(void)
{
	struct store *s = aligned_alloc(4096, (sizeof(*s) + 4095) & ~4095ul);

	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	for (uint32_t i = 0; i < KV_SLOTS; i++)
		s->table.slots[i].sum = kv_slot_sum(&s->table.slots[i]);
	return s;
}

void store_destroy(struct store *s)
{
	for (uint32_t i = 0; i < KV_SLOTS; i++)
		free(s->large[i]);
	free(s);
}

static bool has_key(const struct kv_slot *slot, const char *key, size_t len)
{
	return slot->key_len == len && !memcmp(slot->key, key, len);
}

/* The slot of the key or NULL; *room is where the key would go, or NULL. */
static struct kv_slot *search(struct store *s, const char *key, size_t len,
			      struct kv_slot **room)
{
	uint32_t at = kv_first_slot(key, len);
	struct kv_slot *slot;

	*room = NULL;
	for (;; at = (at + 1) % KV_SLOTS) {
		slot = &s->table.slots[at];
		if (!slot->version)
			break;
		if (has_key(slot, key, len))
			return slot;
		if (slot->value_len == KV_GONE && !*room)
			*room = slot;
	}
	if (!*room && s->used < USED_MAX)
		*room = slot;
	return NULL;
}

const struct kv_slot *store_find(const struct store *s, const char *key,
				 size_t len)
{
	struct kv_slot *room, *slot;

	slot = search((struct store *)s, key, len, &room);
	return slot && slot->value_len != KV_GONE ? slot : NULL;
}

const void *store_value(const struct store *s, const struct kv_slot *slot)
{
	const void *large = s->large[slot - s->table.slots];

	return large ? large : slot->value;
}

/*
 * The slot first, then the table's number: a client that has read the number
 * finds in the slots at least the changes up to it.
 */
static void publish_slot(struct store *s, struct kv_slot *slot,
			 struct kv_slot *new)
{
	new->version = slot->version + 1;
	new->sum = kv_slot_sum(new);
	s->used += !slot->version;
	*slot = *new;
	__atomic_store_n(&s->table.seq, new->seq, __ATOMIC_RELEASE);
}

/* A copy of a value that is not inline, *ret NULL for one that is. */
static bool copy_large(const struct kv_item *item, void **ret)
{
	*ret = NULL;
	if (item->head.value_len <= KV_INLINE_MAX)
		return true;
	*ret = malloc(item->head.value_len);
	if (*ret)
		memcpy(*ret, item->value, item->head.value_len);
	return *ret;
}

static void change(struct store *s, struct kv_slot *slot,
		   const struct kv_item *item, uint32_t value_len, void *large,
		   uint64_t seq)
{
	struct kv_slot new = {
		.seq = seq, .value_len = value_len,
		.key_len = item->head.key_len,
	};

	memcpy(new.key, item->key, new.key_len);
	if (value_len <= KV_INLINE_MAX && value_len)
		memcpy(new.value, item->value, value_len);
	publish_slot(s, slot, &new);
	free(s->large[slot - s->table.slots]);
	s->large[slot - s->table.slots] = large;
}

int store_put(struct store *s, const struct kv_item *item, uint64_t seq)
{
	struct kv_slot *room, *slot;
	void *large;

	slot = search(s, item->key, item->head.key_len, &room);
	if (!slot)
		slot = room;
	if (!slot || !copy_large(item, &large))
		return KV_FULL;
	change(s, slot, item, item->head.value_len, large, seq);
	return KV_OK;
}

int store_delete(struct store *s, const struct kv_item *item, uint64_t seq)
{
	struct kv_slot *room, *slot;

	slot = search(s, item->key, item->head.key_len, &room);
	if (!slot || slot->value_len == KV_GONE)
		return KV_ABSENT;
	change(s, slot, item, KV_GONE, NULL, seq);
	return KV_OK;
}

struct kv_counter *store_counter(struct store *s, const char *name, size_t len)
{
	struct kv_counter *c = s->counters;

	for (uint32_t i = 0; i < s->nr_counters; i++, c++)
		if (c->name_len == len && !memcmp(c->name, name, len))
			return c;
	if (s->nr_counters == KV_COUNTERS)
		return NULL;
	s->nr_counters++;
	memcpy(c->name, name, len);
	c->name_len = len;
	return c;
}
