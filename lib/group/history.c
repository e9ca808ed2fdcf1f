/* SPDX-License-Identifier: BSD-2-Clause */
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
		.before = h->published,
	};
	rdmamsg__gather_copy(from, 0, k->data, len);
	while (h->oldest != h->next &&
	       is_full(h, h->next - h->oldest, h->bytes + len))
		drop_oldest(h);
	h->ring[h->next++ & h->mask] = k;
	h->bytes += len;
	*ret = k;
	return 0;
}

void rdmamsg__history_take_back(struct history *h)
{
	struct kept **at = &h->ring[--h->next & h->mask];

	h->bytes -= (*at)->len;
	free(*at);
	*at = NULL;
}

uint64_t rdmamsg__history_since(const struct history *h, uint64_t when)
{
	uint32_t first = 0, count = h->next - h->oldest;

	while (count) {
		uint32_t half = count / 2, at = h->oldest + first + half;

		if (h->ring[at & h->mask]->when < when) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	first += h->oldest;
	return first == h->next ? h->published : h->ring[first & h->mask]->before;
}

const struct kept *rdmamsg__history_find(const struct history *h,
					 uint32_t number)
{
	return number - h->oldest < h->next - h->oldest ?
	       h->ring[number & h->mask] : NULL;
}
