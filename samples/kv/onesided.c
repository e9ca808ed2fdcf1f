/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading and counting in the server's memory. The server's program takes no
 * part: a client finds the slot of a key by itself, and sees by the sum of the
 * slot whether it has met a change.
 */
#include "client.h"

#include <rdmamsg/endpoint.h>

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Waits for the operation that the call has accepted, or not. */
static int finish(struct kv *kv, int ret)
{
	while (!ret && !kv->done) {
		int n = rdmamsg_wait(kv->ctx, -1);

		ret = n < 0 && n != -EINTR ? n : 0;
	}
	kv->done = false;
	if (!ret)
		ret = kv->status;
	if (ret)
		snprintf(kv->reason, sizeof(kv->reason), "%s",
			 rdmamsg_ep_reason(kv->ep)->text);
	return ret;
}

static int read_into(struct kv *kv, void *to, size_t len,
		     const struct rdmamsg_key *key, uint64_t offset)
{
	const struct rdmamsg_sge dst = { to, len, kv->region };

	return finish(kv, rdmamsg_read(kv->ep, &dst, 1, key, offset, 0, kv));
}

/* ---- values ----------------------------------------------------------- */

int kv_read_sequence(struct kv *kv, uint64_t *ret)
{
	int err = read_into(kv, kv->landing->words, sizeof(*ret), &kv->table,
			    offsetof(struct kv_table, seq));

	*ret = kv->landing->words[0];
	return err;
}

static int read_slots(struct kv *kv, uint32_t first, uint32_t at,
		      uint32_t count)
{
	const size_t width = sizeof(struct kv_slot);

	return read_into(kv, &kv->landing->slots[at], count * width, &kv->table,
			 offsetof(struct kv_table, slots) +
			 (first + at) * width);
}

/* -EAGAIN: it changes all the time */
static int repair(struct kv *kv, uint32_t first, uint32_t at)
{
	int err = 0;

	for (int i = 0; !err && i < KV_TRIES; i++) {
		if (kv_slot_whole(&kv->landing->slots[at]))
			return 0;
		kv->torn++;
		err = read_slots(kv, first, at, 1);
	}
	return err ? err : -EAGAIN;
}

int kv_read_slots(struct kv *kv, uint32_t first, uint32_t count)
{
	int err = read_slots(kv, first, 0, count);

	for (uint32_t i = 0; !err && i < count; i++)
		err = repair(kv, first, i);
	return err;
}

/* Returns true if the search ends at this slot. */
static bool look(const struct kv_slot *slot, const char *key,
		struct kv_item *ret)
{
	if (!slot->version) {
		ret->head = (struct kv_head){ .kind = KV_ABSENT };
		return true;
	}
	if (slot->key_len != strlen(key) ||
	    memcmp(slot->key, key, slot->key_len))
		return false;
	ret->head = (struct kv_head){
		.kind = slot->value_len == KV_GONE ? KV_ABSENT : KV_OK,
		.number = slot->seq,
	};
	if (slot->value_len != KV_GONE)
		ret->head.value_len = slot->value_len;
	ret->value = slot->value;
	return true;
}

static int ask(struct kv *kv, const char *key, struct kv_item *ret)
{
	return kv_ask(kv, KV_GET, key, NULL, 0, 0, ret);
}

int kv_get(struct kv *kv, const char *key, struct kv_item *ret)
{
	uint32_t at = kv_first_slot(key, strlen(key));
	int err = 0;

	for (uint32_t i = 0; !err && i < KV_SLOTS; i++) {
		err = kv_read_slots(kv, (at + i) % KV_SLOTS, 1);
		if (!err && look(kv->landing->slots, key, ret))
			return ret->head.value_len > KV_INLINE_MAX ?
				ask(kv, key, ret) : 0;
	}
	return !err || err == -EAGAIN ? ask(kv, key, ret) : err;
}

/* ---- counters --------------------------------------------------------- */

/* Asks where the counter is, unless it is the last one. */
static int find(struct kv *kv, const char *name, struct kv_item *ret)
{
	int err;

	ret->head = (struct kv_head){ .kind = KV_OK, .number = kv->place };
	if (kv->counter[0] && !strcmp(kv->counter, name))
		return 0;
	err = kv_ask(kv, KV_COUNTER, name, NULL, 0, 0, ret);
	if (err || ret->head.kind != KV_OK)
		return err;
	if (ret->head.number >= KV_COUNTERS)
		return -EPROTO;
	strcpy(kv->counter, name);
	kv->place = ret->head.number;
	return 0;
}

static int add_atomically(struct kv *kv, uint64_t number, struct kv_item *ret)
{
	const uint64_t offset = kv->place * sizeof(struct kv_counter);
	uint64_t before;
	int err = finish(kv, rdmamsg_fetch_add(kv->ep, &kv->counters, offset,
					       number, &before, 0, kv));

	if (!err)
		err = read_into(kv, kv->landing->words,
				sizeof(kv->landing->words), &kv->counters,
				offset);
	ret->head.number = before + number + kv->landing->words[1];
	return err;
}

int kv_add(struct kv *kv, const char *name, uint64_t number,
	   struct kv_item *ret)
{
	int err;

	if (!kv->tcp && !kv->no_atomics) {
		err = find(kv, name, ret);
		if (err || ret->head.kind != KV_OK)
			return err;
		err = add_atomically(kv, number, ret);
		if (err != -EOPNOTSUPP && err != -EACCES)
			return err;
		kv->no_atomics = true;
	}
	return kv_ask(kv, KV_ADD, name, NULL, 0, number, ret);
}
