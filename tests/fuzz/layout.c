/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a description of a layout is refused, or each of its bytes is
 * inside of a source, and it survives a round trip.
 */
#include "wire/layout.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

/* Sets l to arrays that have room for its counts. Returns the memory. */
static void *room(struct layout *l)
{
	void *mem = calloc(1, rdmamsg__layout_room(l));

	must(mem != NULL);
	rdmamsg__layout_place(l, mem);
	return mem;
}

static void inside(const struct layout *l, uint64_t at)
{
	struct layout_run run;

	rdmamsg__layout_at(l, at, &run);
	must(run.source < l->sources);
	must(run.len && run.offset < l->source[run.source].len &&
	     run.len <= l->source[run.source].len - run.offset);
}

static void round_trip(const struct layout *l)
{
	const size_t len = rdmamsg__layout_bytes(l);
	uint8_t *bytes = malloc(len), *again = malloc(len);
	struct layout copy;
	uint64_t total;
	uint32_t part;
	void *mem;

	must(bytes && again);
	rdmamsg__layout_encode(l, bytes);
	must(!rdmamsg__layout_head(&copy, bytes, len, &total));
	must(total == l->len);
	mem = room(&copy);
	must(!rdmamsg__layout_decode(&copy, bytes, len));
	must(!rdmamsg__layout_check(&copy, &part));
	must(copy.len == l->len && copy.depth == l->depth);
	rdmamsg__layout_encode(&copy, again);
	must(!memcmp(bytes, again, len));
	free(mem);
	free(bytes);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct layout l;
	uint64_t total, at = 0;
	uint32_t part;
	void *mem;

	if (rdmamsg__layout_head(&l, data, size, &total))
		return 0;
	mem = room(&l);
	if (!rdmamsg__layout_decode(&l, data, size) &&
	    !rdmamsg__layout_check(&l, &part)) {
		must(l.len && l.depth >= 1 && l.depth <= LAYOUT_DEPTH);
		inside(&l, 0);
		inside(&l, l.len - 1);
		for (int i = 0; i < 1000 && at < l.len; i++) {
			struct layout_run run;

			inside(&l, at);
			rdmamsg__layout_at(&l, at, &run);
			must(run.len <= l.len - at);
			at += run.len;
		}
		round_trip(&l);
	}
	free(mem);
	return 0;
}
