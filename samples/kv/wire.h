/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes between kv-server and its clients. A request, an answer, a change
 * that is published and a record of the log are all an item: a head, the key,
 * the value. Over TCP items follow each other; a message has one.
 *
 * Numbers are in host order. A host of the other byte order finds another magic
 * number, and is refused.
 */
#ifndef KV_WIRE_H
#define KV_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_MAGIC	0x6b763031u	/* changes with the format */
#define KV_ITEM_MAX	65536		/* bytes: rdmamsg_send() copies these */
#define KV_KEY_MAX	40		/* bytes */
#define KV_VALUE_MAX	(KV_ITEM_MAX - KV_KEY_MAX - sizeof(struct kv_head))

enum kv_kind {
	/* requests, and changes */
	KV_GET = 1,
	KV_PUT,
	KV_DELETE,
	KV_ADD,			/* 'number' to a counter */
	KV_COUNTER,		/* its place, and makes it if necessary */
	/* in the log or the group only */
	KV_SAVED,		/* the sum of a counter's atomic additions */
	KV_SEQUENCE,		/* changes so far */
	/* answers */
	KV_OK = 32,
	KV_ABSENT,		/* no such key */
	KV_FULL,		/* no room for another key or counter */
	KV_REFUSED,		/* the log cannot be written, or the end */
	KV_MALFORMED,		/* no such request */
};

struct kv_head {
	uint32_t magic;
	uint16_t kind;		/* enum kv_kind */
	uint16_t key_len;	/* bytes */
	uint32_t value_len;	/* bytes */
	uint32_t id;		/* the client's; its answer has the same */
	/*
	 * Request: the addend. Answer: the sum, the place of a counter, or the
	 * sequence number of the change that stored the value. Change: its
	 * sequence number.
	 */
	uint64_t number;
};

struct kv_item {
	struct kv_head head;
	const char *key;	/* not terminated */
	const void *value;
};

/*
 * Finds the item at the beginning of len bytes. Returns its bytes; 0: more have
 * to come; -1: this is no item.
 */
long kv_parse(const void *bytes, size_t len, struct kv_item *ret);
/* Writes the item to 'to', KV_ITEM_MAX bytes, and returns its bytes. */
size_t kv_build(void *to, const struct kv_item *item);
/* A sum of 64 bits over the bytes, which goes on from another one or 0. */
uint64_t kv_sum(uint64_t sum, const void *bytes, size_t len);

/* ---- memory that clients read one-sided ------------------------------- */

#define KV_SLOTS	4096		/* a power of 2 */
#define KV_INLINE_MAX	184		/* bytes of a value in the slot */
#define KV_GONE		UINT32_MAX	/* value_len of a deleted key */

/*
 * A read that meets a change may bring old and new bytes in any mixture. So
 * 'version' is another after each change, and 'sum' is over all other members:
 * a mixture has a wrong sum.
 */
struct kv_slot {
	uint64_t sum;
	uint64_t version;	/* 0: no key has ever been here */
	uint64_t seq;		/* of the change that made it */
	uint32_t value_len;	/* above KV_INLINE_MAX: ask with KV_GET */
	uint32_t key_len;
	char key[KV_KEY_MAX];
	char value[KV_INLINE_MAX];
};

/* Open addressing: a key is in the first slot of its hash, or one after it. */
struct kv_table {
	uint64_t seq;		/* of the last change; 8 bytes are never torn */
	char unused[248];
	struct kv_slot slots[KV_SLOTS];
};

uint64_t kv_slot_sum(const struct kv_slot *slot);
/* Returns true if the slot is not torn and its lengths are in range. */
bool kv_slot_whole(const struct kv_slot *slot);
uint32_t kv_first_slot(const char *key, size_t len);

#define KV_COUNTERS	256

/*
 * Devices need not be atomic with the processor, so each of the two has its own
 * word. The counter is the sum of both.
 */
struct kv_counter {
	uint64_t by_atomics;	/* clients, one-sided */
	uint64_t by_message;	/* the server, for requests */
	char name[KV_KEY_MAX];
	uint64_t name_len;
};

/* The server's setup_data: a client has it when it is connected. */
struct kv_hello {
	uint32_t magic;
	uint32_t slots;
	uint32_t counters;
	uint32_t unused;
	uint8_t table_key[32];		/* struct rdmamsg_key */
	uint8_t counter_key[32];
	char group[64];			/* "": changes are not published */
};

#endif
