/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A log grows with each change. At the start it is replaced by one of what
 * there is now, if most of it is history.
 */
#include "server.h"

#define SPARE	(1u << 20)	/* bytes of history that are not worth it */

static struct kv_item item_of(int kind, const char *key, size_t len,
			      uint64_t number)
{
	return (struct kv_item){ {
		.magic = KV_MAGIC, .kind = (uint16_t)kind,
		.key_len = (uint16_t)len, .number = number,
	}, key, NULL };
}

static bool is_used(const struct kv_slot *slot)
{
	return slot->version && slot->value_len != KV_GONE;
}

static size_t bytes_now(const struct store *st)
{
	size_t ret = 0;

	for (uint32_t i = 0; i < KV_SLOTS; i++)
		if (is_used(&st->table.slots[i]))
			ret += sizeof(struct kv_slot) +
			       st->table.slots[i].value_len;
	return ret;
}

/* Each value keeps the number of its change. */
static void write_values(struct log *log, const struct store *st)
{
	for (uint32_t i = 0; i < KV_SLOTS; i++) {
		const struct kv_slot *slot = &st->table.slots[i];
		struct kv_item item = item_of(KV_PUT, slot->key, slot->key_len,
					      slot->seq);

		if (!is_used(slot))
			continue;
		item.head.value_len = slot->value_len;
		item.value = store_value(st, slot);
		log_add_anew(log, &item);
	}
}

static void write_counters(struct log *log, const struct store *st)
{
	for (uint32_t i = 0; i < st->nr_counters; i++) {
		const struct kv_counter *c = &st->counters[i];
		struct kv_item item = item_of(KV_ADD, c->name, c->name_len,
					      c->by_message);

		log_add_anew(log, &item);
		item.head.kind = KV_SAVED;
		item.head.number = c->by_atomics;
		log_add_anew(log, &item);
	}
}

/* The number of the last change, which may have been a deletion, at last. */
void compact(struct server *s)
{
	const struct kv_item last = item_of(KV_SEQUENCE, NULL, 0,
					    s->store->table.seq);

	if (s->log.size < 2 * bytes_now(s->store) + SPARE)
		return;
	log_begin_anew(&s->log);
	write_values(&s->log, s->store);
	write_counters(&s->log, s->store);
	log_add_anew(&s->log, &last);
	log_end_anew(&s->log);
}
