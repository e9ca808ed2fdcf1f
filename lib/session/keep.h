/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages that the peer may not have yet. After the lane is lost they are
 * sent again over another lane. The payload of a message is copied when it is
 * posted first, so that its own memory belongs to the lane only.
 *
 * Entries have consecutive numbers, from 'first' to end - 1. Those from 'at' on
 * must be posted again; mostly at == end.
 */
#ifndef RDMAMSG_LIB_KEEP_H
#define RDMAMSG_LIB_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct op;
struct rdmamsg_ep;

struct keep_entry {
	struct op *op;			/* its request has failed, or NULL */
	uint64_t end;			/* of its bytes, as struct keep.head */
	uint32_t len;
	uint32_t tag;
	uint8_t type;			/* enum proto_type of the full form */
};

struct keep {
	uint32_t first, at, end;
	uint32_t mask;			/* number of entries - 1 */
	struct keep_entry *entries;		/* by number & mask */
	uint8_t *bytes;			/* a ring of payloads */
	uint32_t size;			/* of it */
	uint64_t head, tail;		/* bytes ever added, and released */
	uint32_t window;		/* of struct proto_resumable */
};

/*
 * -ENOMEM. 'size' is the limit of bytes; 'window' that of the peer. Entries
 * begin with number 'next'.
 */
int rdmamsg__keep_init(struct keep *k, uint32_t size, uint32_t window,
		       uint32_t next);
void rdmamsg__keep_free(struct keep *k);

static inline struct keep_entry *rdmamsg__kept(const struct keep *k,
					       uint32_t number)
{
	return &k->entries[number & k->mask];
}

/* Returns the payload of the entry. */
static inline uint8_t *rdmamsg__kept_bytes(const struct keep *k,
					   const struct keep_entry *e)
{
	return k->bytes + (e->end - e->len) % k->size;
}

static inline bool rdmamsg__keep_replays(const struct keep *k)
{
	return k->at != k->end;
}

/*
 * Returns true if 'count' messages with 'len' bytes together can be kept. No
 * message may be longer than half of the limit.
 */
bool rdmamsg__keep_room(const struct keep *k, uint32_t count, uint32_t len);
/*
 * Adds the message with number k->end. There must be room. Returns its entry,
 * whose payload the caller copies.
 */
struct keep_entry *rdmamsg__keep_add(struct keep *k, uint8_t type, uint32_t tag,
			       uint32_t len);
/*
 * Releases the first message; there must be one. Returns its request, which the
 * caller completes, or NULL.
 */
struct op *rdmamsg__keep_release(struct keep *k);

#endif
