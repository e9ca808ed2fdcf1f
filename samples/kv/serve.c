/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request that reads is answered at once. One that changes something goes to
 * the log first. When the disk has it, the change is made, published and
 * answered: nobody sees a value that a crash could take back. At the start the
 * same function makes the changes that are in the log.
 */
#include "server.h"

#include <err.h>

static struct kv_item answer_to(const struct kv_item *item, int kind)
{
	return (struct kv_item){ .head = {
		.magic = KV_MAGIC, .kind = kind, .id = item->head.id,
	} };
}

static void answer(struct session *to, const struct kv_item *with)
{
	static char bytes[KV_ITEM_MAX];

	session_answer(to, bytes, kv_build(bytes, with));
}

/* ---- changes ---------------------------------------------------------- */

/* Makes the change, returns the kind of the answer, and sets its number. */
static int change_value(struct server *s, const struct kv_item *item,
			uint64_t *number)
{
	/* a log that was written anew has the numbers */
	const uint64_t seq = item->head.number ? item->head.number :
				s->store->table.seq + 1;
	int kind = item->head.kind == KV_PUT ?
			store_put(s->store, item, seq) :
			store_delete(s->store, item, seq);

	*number = seq;
	if (kind == KV_OK && !s->replaying)
		publish_change(s, item, seq);
	return kind;
}

static uint64_t value_of(const struct kv_counter *c)
{
	return __atomic_load_n(&c->by_atomics, __ATOMIC_RELAXED) +
	       c->by_message;
}

static int add(struct server *s, const struct kv_item *item, uint64_t *number)
{
	struct kv_counter *c = store_counter(s->store, item->key,
					     item->head.key_len);

	if (!c)
		return KV_FULL;
	c->by_message += item->head.number;
	*number = value_of(c);
	return KV_OK;
}

/* Later the memory knows better than the log. */
static int restore(struct server *s, const struct kv_item *item)
{
	struct kv_counter *c = s->replaying ?
		store_counter(s->store, item->key, item->head.key_len) : NULL;

	if (c) {
		c->by_atomics = item->head.number;
		s->saved[c - s->store->counters] = item->head.number;
	}
	return KV_OK;
}

static int make_change(struct server *s, const struct kv_item *item,
		       uint64_t *number)
{
	switch (item->head.kind) {
	case KV_PUT:
	case KV_DELETE:
		return change_value(s, item, number);
	case KV_ADD:
		return add(s, item, number);
	case KV_SAVED:
		return restore(s, item);
	case KV_SEQUENCE:
		s->store->table.seq = item->head.number;
		return KV_OK;
	}
	return KV_MALFORMED;
}

static void on_record(void *user, const struct kv_item *item, void *waiter,
		      int error)
{
	struct kv_item with = answer_to(item, KV_REFUSED);

	if (!error)
		with.head.kind = make_change(user, item, &with.head.number);
	if (waiter)
		answer(waiter, &with);
}

static void on_idle(void *user)
{
	struct server *s = user;

	if (s->stopping)
		server_stop(s);
}

void serve_open(struct server *s, const char *log)
{
	s->store = store_create();
	if (!s->store)
		errx(1, "no memory for the table");
	s->log.user = s;
	s->log.on_record = on_record;
	s->log.on_idle = on_idle;
	s->replaying = true;
	log_open(&s->log, log);
	s->replaying = false;
	compact(s);
	log_start(&s->log, &s->loop);
}

static void save(struct server *s, const struct kv_counter *c)
{
	const uint64_t now = __atomic_load_n(&c->by_atomics, __ATOMIC_RELAXED);
	uint64_t *saved = &s->saved[c - s->store->counters];
	const struct kv_item item = { {
		.magic = KV_MAGIC, .kind = KV_SAVED,
		.key_len = (uint16_t)c->name_len, .number = now,
	}, c->name, NULL };

	if (now != *saved && !log_add(&s->log, &item, NULL))
		*saved = now;
}

void serve_save(struct server *s)
{
	for (uint32_t i = 0; i < s->store->nr_counters; i++)
		save(s, &s->store->counters[i]);
}

/* ---- requests --------------------------------------------------------- */

static void get(struct server *s, struct session *from,
		const struct kv_item *item)
{
	const struct kv_slot *slot = store_find(s->store, item->key,
						item->head.key_len);
	struct kv_item with = answer_to(item, slot ? KV_OK : KV_ABSENT);

	if (slot) {
		with.head.number = slot->seq;
		with.head.value_len = slot->value_len;
		with.value = store_value(s->store, slot);
	}
	answer(from, &with);
}

/* Where a counter is, for atomic operations. */
static void place(struct server *s, struct session *from,
		  const struct kv_item *item)
{
	const struct kv_counter *c = store_counter(s->store, item->key,
						   item->head.key_len);
	struct kv_item with = answer_to(item, c ? KV_OK : KV_FULL);

	if (c)
		with.head.number = (uint64_t)(c - s->store->counters);
	answer(from, &with);
}

static void change(struct server *s, struct session *from,
		   const struct kv_item *item)
{
	const struct kv_item refused = answer_to(item, KV_REFUSED);
	struct kv_item record = *item;

	if (record.head.kind != KV_ADD)
		record.head.number = 0;		/* the server gives it one */
	if (s->stopping || log_add(&s->log, &record, from))
		answer(from, &refused);
}

void serve_item(struct server *s, struct session *from,
		const struct kv_item *item)
{
	const struct kv_item malformed = answer_to(item, KV_MALFORMED);

	session_begin(from);
	switch (item->head.key_len ? item->head.kind : 0) {
	case KV_GET:
		get(s, from, item);
		break;
	case KV_COUNTER:
		place(s, from, item);
		break;
	case KV_PUT:
	case KV_DELETE:
	case KV_ADD:
		change(s, from, item);
		break;
	default:
		answer(from, &malformed);
	}
}
