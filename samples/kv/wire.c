/* SPDX-License-Identifier: BSD-2-Clause */
/* Items and slots: lengths that a stranger has written are checked here. */
#include "wire.h"

#include <string.h>

long kv_parse(const void *bytes, size_t len, struct kv_item *ret)
{
	struct kv_head *head = &ret->head;
	size_t all;

	if (len < sizeof(*head))
		return 0;
	memcpy(head, bytes, sizeof(*head));
	if (head->magic != KV_MAGIC || head->key_len > KV_KEY_MAX ||
	    head->value_len > KV_VALUE_MAX)
		return -1;
	ret->key = (const char *)bytes + sizeof(*head);
	ret->value = ret->key + head->key_len;
	all = sizeof(*head) + head->key_len + head->value_len;
	return len < all ? 0 : (long)all;
}

size_t kv_build(void *to, const struct kv_item *item)
{
	const struct kv_head *head = &item->head;
	char *at = to;

	memcpy(at, head, sizeof(*head));
	at += sizeof(*head);
	if (head->key_len)
		memcpy(at, item->key, head->key_len);
	at += head->key_len;
	if (head->value_len)
		memcpy(at, item->value, head->value_len);
	return at + head->value_len - (char *)to;
}

/* FNV-1a, of words instead of bytes, because all data goes through it. */
uint64_t kv_sum(uint64_t sum, const void *bytes, size_t len)
{
	const char *at = bytes;

	for (sum ^= 0xcbf29ce484222325; len; ) {
		size_t n = len < 8 ? len : 8;
		uint64_t word = n;

		memcpy(&word, at, n);
		sum = (sum ^ word) * 0x100000001b3;
		sum ^= sum >> 32;
		at += n;
		len -= n;
	}
	return sum;
}

uint64_t kv_slot_sum(const struct kv_slot *slot)
{
	return kv_sum(0, &slot->version,
		      sizeof(*slot) - offsetof(struct kv_slot, version));
}

bool kv_slot_whole(const struct kv_slot *slot)
{
	return slot->sum == kv_slot_sum(slot) && slot->key_len <= KV_KEY_MAX &&
	       (slot->value_len <= KV_VALUE_MAX || slot->value_len == KV_GONE);
}

uint32_t kv_first_slot(const char *key, size_t len)
{
	return kv_sum(0, key, len) % KV_SLOTS;
}
