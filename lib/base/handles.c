/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/handles.h"
#include "base/util.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MIN	16u

static int grow(struct handles *h, uint32_t end)
{
	uint32_t size = min(max(2 * h->size, SIZE_MIN), end);
	void **at = realloc(h->at, size * sizeof(*at));

	if (!at)
		return -ENOMEM;
	memset(at + h->size, 0, (size - h->size) * sizeof(*at));
	h->at = at;
	h->size = size;
	return 0;
}

int rdmamsg__handle_give(struct handles *h, void *object, uint32_t first,
			 uint32_t end, uint32_t *number)
{
	uint32_t at = max(h->size, first);
	int err;

	/* search behind the last number given, then from the start */
	for (uint32_t i = 0; i < h->size; i++) {
		uint32_t next = (h->hint + i) % h->size;

		if (next >= first && !h->at[next]) {
			at = next;
			break;
		}
	}
	while (at >= h->size) {
		if (h->size >= end)
			return -EMFILE;
		err = grow(h, end);
		if (err)
			return err;
	}
	h->at[at] = object;
	h->hint = at + 1;
	*number = at;
	return 0;
}

void rdmamsg__handle_take(struct handles *h, const void *object,
			  uint32_t number)
{
	if (rdmamsg__handle_of(h, number) == object)
		h->at[number] = NULL;
}

void rdmamsg__handles_free(struct handles *h)
{
	free(h->at);
	*h = (struct handles){ .at = NULL };
}
