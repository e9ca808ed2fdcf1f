/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for messages that are kept until the peer has them. */
#include "base/base.h"
#include "base/util.h"
#include "session/keep.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int rdmamsg__keep_init(struct keep *k, uint32_t size, uint32_t window,
		       uint32_t next)
{
	uint32_t count = 1;

	/* the credits of the peer, and messages that it has and not told */
	while (count < 2 * window)
		count *= 2;
	k->entries = calloc(count, sizeof(*k->entries));
	k->bytes = malloc(size);
	if (!k->entries || !k->bytes) {
		rdmamsg__keep_free(k);
		return rdmamsg__fail(-ENOMEM, "no memory to keep messages");
	}
	k->mask = count - 1;
	k->size = size;
	k->window = window;
	k->first = k->at = k->end = next;
	k->head = k->tail = 0;
	return 0;
}

void rdmamsg__keep_free(struct keep *k)
{
	free(k->entries);
	free(k->bytes);
	k->entries = NULL;
	k->bytes = NULL;
}

/* A payload is in one piece: returns the bytes that it leaves unused. */
static uint32_t gap(const struct keep *k, uint32_t len)
{
	uint32_t left = k->size - (uint32_t)(k->head % k->size);

	return len > left ? left : 0;
}

bool rdmamsg__keep_room(const struct keep *k, uint32_t count, uint32_t len)
{
	/* each of several messages is shorter, and so is its gap */
	return k->end - k->first + count <= k->mask + 1 &&
	       k->head - k->tail + gap(k, len) + len <= k->size;
}

struct keep_entry *rdmamsg__keep_add(struct keep *k, uint8_t type, uint32_t tag,
			       uint32_t len)
{
	struct keep_entry *e = rdmamsg__kept(k, k->end);

	k->head += gap(k, len) + len;
	*e = (struct keep_entry){
		.end = k->head, .len = len, .tag = tag, .type = type,
	};
	/* unless a replay is going on, the caller posts the message now */
	k->at += k->at == k->end;
	k->end++;
	return e;
}

struct op *rdmamsg__keep_release(struct keep *k)
{
	struct keep_entry *e = rdmamsg__kept(k, k->first);
	struct op *op = e->op;

	e->op = NULL;
	k->tail = e->end;
	k->at += k->at == k->first;
	k->first++;
	return op;
}
