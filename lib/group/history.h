/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last messages that a publisher has sent, to be repeated. The number of
 * messages and their bytes are bounded. The oldest messages go first. The
 * functions do no I/O.
 */
#ifndef RDMAMSG_LIB_HISTORY_H
#define RDMAMSG_LIB_HISTORY_H

#include <stddef.h>
#include <stdint.h>

struct gather;

struct kept {
	uint64_t when;			/* ms, time of publishing */
	uint64_t before;		/* history.published at that time */
	uint64_t bytes_before;		/* history.added at that time */
	uint32_t number, len;
	uint8_t data[];
};

struct history {
	struct kept **ring;		/* by number */
	uint32_t mask;			/* of the ring */
	uint32_t oldest, next;		/* kept: oldest <= number < next */
	size_t bytes, max_bytes;	/* of data */
	uint64_t published;		/* datagrams; the owner sets it */
	uint64_t added;			/* bytes, ever */
};

/* Numbers begin with 'first'. 'messages' is a power of two. -ENOMEM */
int rdmamsg__history_init(struct history *h, uint32_t first, uint32_t messages,
			  size_t max_bytes);
void rdmamsg__history_fini(struct history *h);
/*
 * Returns the time of the newest message that must go to make room for 'len'
 * bytes, or 0 if none must go.
 */
uint64_t rdmamsg__history_victim(const struct history *h, uint32_t len);
/*
 * Keeps a copy as message number h->next. A message larger than max_bytes is
 * kept until the next one. -ENOMEM
 */
int rdmamsg__history_add(struct history *h, const struct gather *from,
			 uint64_t when, const struct kept **ret);
/* Forgets the newest message, of which nothing was sent. */
void rdmamsg__history_take_back(struct history *h);
/*
 * Returns history.published before the first message that is kept and that is
 * not older than 'when', or history.published if there is none.
 */
uint64_t rdmamsg__history_since(const struct history *h, uint64_t when);
/*
 * Returns the first of the messages below 'end' that are kept, at most as many
 * and with as many bytes, and not older than 'when'; 'end' if there is none.
 */
uint32_t rdmamsg__history_backlog(const struct history *h, uint32_t end,
				  uint32_t messages, uint64_t bytes,
				  uint64_t when);
/* Returns history.published before this message, or now if it is not kept. */
uint64_t rdmamsg__history_before(const struct history *h, uint32_t number);
/* Returns NULL if the message is not published yet, or not kept any more. */
const struct kept *rdmamsg__history_find(const struct history *h,
					 uint32_t number);

#endif
