/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "group/gather.h"
#include "group/history.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int rdmamsg__history_init(struct history *h, uint32_t first, uint32_t messages,
			  size_t max_bytes)
{
	assert(messages && !(messages & (messages - 1)));
	*h = (struct history){
		.ring = calloc(messages, sizeof(struct kept *)),
		.mask = messages - 1, .oldest = first, .next = first,
		.max_bytes = max_bytes,
	};
	return h->ring ? 0 : -ENOMEM;
}

static void drop_oldest(struct history *h)
{
	struct kept **at = &h->ring[h->oldest & h->mask];

	h->bytes -= (*at)->len;
	free(*at);
	*at = NULL;
	h->oldest++;
}

void rdmamsg__history_fini(struct history *h)
{
	while (h->ring && h->oldest != h->next)
		drop_oldest(h);
	free(h->ring);
	h->ring = NULL;
}

static bool is_full(const struct history *h, uint32_t count, size_t bytes)
{
	return count > h->mask || bytes > h->max_bytes;
}

uint64_t rdmamsg__history_victim(const struct history *h, uint32_t len)
{
	uint32_t count = h->next - h->oldest, number = h->oldest;
	size_t bytes = h->bytes + len;
	uint64_t when = 0;

	for (; count && is_full(h, count, bytes); count--, number++) {
		const struct kept *k = h->ring[number & h->mask];

		bytes -= k->len;
		when = k->when;
	}
	return when;
}

int rdmamsg__history_add(struct history *h, const struct gather *from,
			 uint64_t when, const struct kept **ret)
{
	const uint32_t len = (uint32_t)from->len;
	struct kept *k = malloc(sizeof(*k) + len);

	if (!k)
		return -ENOMEM;
	*k = (struct kept){
		.when = when, .number = h->next, .len = len,
		.before = h->published, .bytes_before = h->added,
	};
	rdmamsg__gather_copy(from, 0, k->data, len);
	while (h->oldest != h->next &&
	       is_full(h, h->next - h->oldest, h->bytes + len))
		drop_oldest(h);
	h->ring[h->next++ & h->mask] = k;
	h->bytes += len;
	h->added += len;
	*ret = k;
	return 0;
}

void rdmamsg__history_take_back(struct history *h)
{
	struct kept **at = &h->ring[--h->next & h->mask];

	h->bytes -= (*at)->len;
	h->added -= (*at)->len;
	free(*at);
	*at = NULL;
}

static uint64_t when_of(const struct kept *k)
{
	return k->when;
}

static uint64_t bytes_before(const struct kept *k)
{
	return k->bytes_before;
}

/* Returns the first number whose value is at least this; they do not fall. */
static uint32_t search(const struct history *h,
		       uint64_t (*value)(const struct kept *k), uint64_t least)
{
	uint32_t first = h->oldest, count = h->next - h->oldest;

	while (count) {
		const uint32_t half = count / 2;

		if (value(h->ring[(first + half) & h->mask]) < least) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return first;
}

uint64_t rdmamsg__history_since(const struct history *h, uint64_t when)
{
	return rdmamsg__history_before(h, search(h, when_of, when));
}

uint64_t rdmamsg__history_before(const struct history *h, uint32_t number)
{
	const struct kept *k = rdmamsg__history_find(h, number);

	return k ? k->before : h->published;
}

uint32_t rdmamsg__history_backlog(const struct history *h, uint32_t end,
				  uint32_t messages, uint64_t bytes,
				  uint64_t when)
{
	const uint32_t count = end - h->oldest;
	const struct kept *k = rdmamsg__history_find(h, end);
	const uint64_t sum = k ? k->bytes_before : h->added;
	uint32_t skip = count - min(count, messages);

	if (count > h->next - h->oldest)
		return end;
	skip = max(skip, search(h, when_of, when) - h->oldest);
	skip = max(skip, search(h, bytes_before, sum - min(sum, bytes)) -
			 h->oldest);
	return h->oldest + min(skip, count);
}

const struct kept *rdmamsg__history_find(const struct history *h,
					 uint32_t number)
{
	return number - h->oldest < h->next - h->oldest ?
	       h->ring[number & h->mask] : NULL;
}
