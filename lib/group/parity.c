/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "group/parity.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct parity *rdmamsg__parity_new(uint32_t size)
{
	struct parity *p = calloc(1, sizeof(*p) + FRAME_PARITY_LEN + size);

	if (p)
		p->room = size;
	return p;
}

static bool is_before(struct stream_place a, struct stream_place b)
{
	return a.number == b.number ? a.index < b.index :
				      (int32_t)(a.number - b.number) < 0;
}

/* Adds to the data, which is shorter by zeros. */
static void add_data(struct parity *p, const uint8_t *data, uint32_t len)
{
	uint8_t *to = p->payload + FRAME_PARITY_LEN;
	const uint32_t both = min(p->len, len);
	uint32_t i = 0;

	for (; i + 8 <= both; i += 8) {
		uint64_t a, b;

		memcpy(&a, to + i, 8);
		memcpy(&b, data + i, 8);
		a ^= b;
		memcpy(to + i, &a, 8);
	}
	for (; i < both; i++)
		to[i] ^= data[i];
	if (len > both) {
		memcpy(to + both, data + both, len - both);
		p->len = len;
	}
}

static void add_place(struct parity *p, struct stream_place at)
{
	if (!p->count || is_before(at, p->first))
		p->first = at;
	if (!p->count || is_before(p->last, at))
		p->last = at;
}

static void add_sum(struct parity *p, uint32_t number, uint16_t index,
		    uint32_t length)
{
	p->sum.number ^= number;
	p->sum.index ^= index;
	p->sum.length ^= length;
}

void rdmamsg__parity_add(struct parity *p, const struct frame *f,
			 const uint8_t *data)
{
	if (f->data_len > p->room)
		return;			/* a subscriber's: missing, then */
	add_place(p, (struct stream_place){ f->number, f->index });
	add_sum(p, f->number, f->index, f->length);
	add_data(p, data, f->data_len);
	p->count++;
}

static void begin(struct parity *p)
{
	p->count = 0;
	p->len = 0;
	p->sum = (struct frame_parity){ .count = 0 };
}

void rdmamsg__parity_end(struct parity *p, struct frame *f)
{
	p->sum.count = (uint16_t)p->count;
	p->sum.first = p->first.number;
	p->sum.first_index = (uint16_t)p->first.index;
	p->sum.last_index = (uint16_t)p->last.index;
	rdmamsg__parity_encode(&p->sum, p->payload);
	f->number = p->last.number;
	f->data = p->payload;
	f->data_len = FRAME_PARITY_LEN + p->len;
	begin(p);
}

/* All that has come is of this block, and all but one of the block has. */
static bool is_usable(const struct parity *p, const struct frame_parity *b,
		      struct stream_place first, struct stream_place last)
{
	return b->count && b->count <= PARITY_MOST &&
	       p->count == b->count - 1u && !is_before(last, first) &&
	       (!p->count || (!is_before(p->first, first) &&
			      !is_before(last, p->last)));
}

/* The sums describe the missing fragment, which must make sense. */
static bool describe(struct parity *p, const struct frame *f,
		     struct stream_place first, struct stream_place last,
		     struct frame *ret)
{
	const struct stream_place at = { p->sum.number, p->sum.index };

	*ret = (struct frame){
		.type = FRAME_DATA, .flags = f->flags, .sender = f->sender,
		.audience = f->audience, .oldest = f->oldest,
		.number = at.number, .index = (uint16_t)at.index,
		.length = p->sum.length, .size = f->size,
		.data = p->payload + FRAME_PARITY_LEN,
	};
	return !is_before(at, first) && !is_before(last, at) &&
	       rdmamsg__fragment_len(ret, &ret->data_len) &&
	       ret->data_len <= p->len;
}

static bool make(struct parity *p, const struct frame *f, struct frame *ret)
{
	const uint8_t *data = f->data + FRAME_PARITY_LEN;
	const uint32_t len = f->data_len - FRAME_PARITY_LEN;
	struct frame_parity b;
	struct stream_place first, last;

	rdmamsg__parity_decode(&b, f);
	first = (struct stream_place){ b.first, b.first_index };
	last = (struct stream_place){ f->number, b.last_index };
	if (len > p->room || !is_usable(p, &b, first, last))
		return false;
	add_sum(p, b.number, b.index, b.length);
	add_data(p, data, len);
	return describe(p, f, first, last, ret);
}

bool rdmamsg__parity_make(struct parity *p, const struct frame *f,
			  struct frame *ret)
{
	const bool made = make(p, f, ret);

	begin(p);
	return made;
}
