/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a publisher has published last, to be repeated. Bounded by a number of
 * messages and by bytes; the oldest go first. It does no I/O.
 */
#ifndef RDMAMSG_LIB_HISTORY_H
#define RDMAMSG_LIB_HISTORY_H

#include <stddef.h>
#include <stdint.h>

struct kept {
	uint64_t when;			/* it was published, ms */
	uint32_t number, len;
	uint8_t data[];
};

struct history {
	struct kept **ring;		/* by number */
	uint32_t mask;			/* of the ring */
	uint32_t oldest, next;		/* numbers; those between are kept */
	size_t bytes, max_bytes;	/* of data */
};

/* The numbers begin with 'first'. 'messages' is a power of two. -ENOMEM */
int rdmamsg__history_init(struct history *h, uint32_t first, uint32_t messages,
			  size_t max_bytes);
void rdmamsg__history_fini(struct history *h);
/* When the last of those that have to go for 'len' more bytes came; 0: none. */
uint64_t rdmamsg__history_victim(const struct history *h, uint32_t len);
/*
 * Keeps a copy under the next number. A message larger than max_bytes is kept
 * until the next one. -ENOMEM
 */
int rdmamsg__history_add(struct history *h, const void *data, uint32_t len,
			 uint64_t when, const struct kept **ret);
/* NULL: not published yet, or not kept any more. */
const struct kept *rdmamsg__history_find(const struct history *h,
					 uint32_t number);

#endif
