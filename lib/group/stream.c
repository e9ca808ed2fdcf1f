/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/list.h"
#include "base/util.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A message with at least one fragment. The bitmap and the data follow. */
struct part {
	uint32_t number;
	uint32_t length;
	uint32_t count, got;		/* fragments: in all, present */
	uint16_t size;
	bool dropped;			/* too large, so it becomes a gap */
	size_t bytes;			/* counted in room->used */
	uint8_t *data;
	uint64_t have[];		/* bitmap of present fragments */
};

int rdmamsg__stream_init(struct stream *s, const struct stream_events *on,
			 struct stream_room *room, uint32_t window)
{
	assert(window && !(window & (window - 1)));
	*s = (struct stream){ .on = on, .room = room, .window = window };
	list_init(&s->node);
	s->parts = calloc(window, sizeof(struct part *));
	if (!s->parts)
		return -ENOMEM;
	list_add(&room->streams, &s->node);
	return 0;
}

static bool before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* ---- before their turn ------------------------------------------------- */

int rdmamsg__stream_unorder(struct stream *s)
{
	s->early = calloc((s->window + 63) / 64, sizeof(*s->early));
	return s->early ? 0 : -ENOMEM;
}

static uint64_t *early_word(const struct stream *s, uint32_t number)
{
	return &s->early[(number & (s->window - 1)) / 64];
}

/* In that word: a window of less than 64 is a part of it. */
static uint64_t early_bit(const struct stream *s, uint32_t number)
{
	return 1ull << (number & (s->window - 1)) % 64;
}

/* The number is within the window. */
static bool is_early(const struct stream *s, uint32_t number)
{
	return s->early && *early_word(s, number) & early_bit(s, number);
}

static void give_early(struct stream *s, uint32_t number, const void *data,
		       uint32_t len)
{
	*early_word(s, number) |= early_bit(s, number);
	s->on->message(s, number, data, len);
}

/* It is the turn of this number. Returns true if it was given before. */
static bool was_early(struct stream *s, uint32_t number)
{
	if (!is_early(s, number))
		return false;
	*early_word(s, number) &= ~early_bit(s, number);
	return true;
}

/* ---- parts ------------------------------------------------------------ */

static struct part **slot(const struct stream *s, uint32_t number)
{
	return &s->parts[number & (s->window - 1)];
}

static bool complete(const struct part *p)
{
	return p && p->got == p->count;
}

static bool has(const struct part *p, uint32_t index)
{
	return p->have[index / 64] >> index % 64 & 1;
}

static void part_free(struct stream *s, uint32_t number)
{
	struct part **at = slot(s, number), *p = *at;

	if (!p)
		return;
	s->room->used -= p->bytes;
	s->used -= p->bytes;
	s->part_count--;
	*at = NULL;
	free(p);
}

static bool fits(const struct stream_room *r, size_t bytes)
{
	return bytes <= r->max - r->used;
}

/* The room must have a stream. */
static struct stream *largest(const struct stream_room *r)
{
	struct stream *most = list_first(&r->streams, struct stream, node);
	struct list *n;

	list_for_each(n, &r->streams) {
		struct stream *s = list_entry(n, struct stream, node);

		if (s->used > most->used)
			most = s;
	}
	return most;
}

static void evict(struct stream *s)
{
	s->evicted++;
	part_free(s, s->top--);
}

/*
 * Frees parts of later messages until there is room: those of this stream, and
 * then those of streams that use more than this one would. Later messages can
 * be repeated later.
 */
static bool make_room(struct stream *s, uint32_t number, size_t bytes)
{
	struct stream *most;

	while (!fits(s->room, bytes) && s->part_count && before(number, s->top))
		evict(s);
	while (!fits(s->room, bytes)) {
		most = largest(s->room);
		if (most->used <= s->used + bytes)
			return false;
		evict(most);
	}
	return true;
}

/* Creates a part. If size is 0, the message is dropped. */
static struct part *part_new(struct stream *s, uint32_t number,
			     uint32_t length, uint16_t size)
{
	uint32_t count = size ? rdmamsg__frame_count(length, size) : 0;
	size_t words = (count + 63) / 64;
	size_t bytes = sizeof(struct part) + words * 8 + length;
	struct part *p;

	if (!make_room(s, number, bytes))
		return NULL;
	p = malloc(bytes);
	if (!p)
		return NULL;
	*p = (struct part){
		.number = number, .length = length, .count = count,
		.size = size, .dropped = !size, .bytes = bytes,
		.data = (uint8_t *)(p->have + words),
	};
	memset(p->have, 0, words * 8);
	s->room->used += bytes;
	s->used += bytes;
	if (!s->part_count++ || before(s->top, number))
		s->top = number;
	*slot(s, number) = p;
	return p;
}

void rdmamsg__stream_fini(struct stream *s)
{
	for (uint32_t i = 0; s->part_count && i < s->window; i++)
		part_free(s, i);
	list_del(&s->node);
	free(s->early);
	free(s->parts);
	s->parts = NULL;
}

/* ---- order ------------------------------------------------------------ */

/* All messages below 'number' are done, even those never heard of. */
static void turn_to(struct stream *s, uint32_t number)
{
	s->next = number;
	if (!before(s->heard.number, number))
		return;
	s->heard = (struct stream_place){ number, 0 };
}

/* Delivers the complete messages that are due. */
static void deliver(struct stream *s)
{
	for (;;) {
		uint32_t number = s->next;
		struct part *p = *slot(s, number);

		if (!complete(p) && !was_early(s, number))
			return;
		turn_to(s, number + 1);
		if (!p)
			continue;
		if (p->dropped)
			s->on->gap(s, number, number);
		else
			s->on->message(s, number, p->data, p->length);
		part_free(s, number);
	}
}

/*
 * Ends the turn of all messages below 'end': delivers the complete ones, and
 * reports the others as gaps. Only numbers in the window can have a part. So a
 * sender with a wrong number costs at most one window.
 */
static void pass(struct stream *s, uint32_t end)
{
	uint32_t left = end - s->next, first = s->next;
	uint32_t look = min(left, s->window);

	for (uint32_t i = 0; i < look; i++) {
		uint32_t number = s->next;
		struct part *p = *slot(s, number);
		bool early = was_early(s, number);

		turn_to(s, number + 1);
		if (!early && (!complete(p) || p->dropped)) {
			part_free(s, number);
			continue;
		}
		if (first != number)
			s->on->gap(s, first, number - 1);
		if (!early)
			s->on->message(s, number, p->data, p->length);
		part_free(s, number);
		first = number + 1;
	}
	turn_to(s, end);
	if (first != end)
		s->on->gap(s, first, end - 1);
}

static bool is_behind(struct stream_place a, struct stream_place b)
{
	return a.number == b.number ? a.index > b.index :
				      before(b.number, a.number);
}

/*
 * Notes that all before 'end' was sent, and from 'first' on has come. Ignores
 * numbers that are past.
 */
static void hear(struct stream *s, struct stream_place first,
		 struct stream_place end)
{
	if (before(end.number, s->next) || !is_behind(end, s->heard))
		return;
	s->jumped |= is_behind(first, s->heard);
	s->heard = end;
}

/* All messages below this number were sent. */
static void hear_of(struct stream *s, uint32_t number)
{
	const struct stream_place end = { number, 0 };

	hear(s, end, end);
}

/* Starts with this number. A late joiner starts with the next whole message. */
static void start(struct stream *s, uint32_t number)
{
	s->started = true;
	s->next = number;
	s->heard = (struct stream_place){ number, 0 };
}

void rdmamsg__stream_begin(struct stream *s, uint32_t first, uint32_t end)
{
	start(s, first);
	rdmamsg__stream_sent(s, end);
}

void rdmamsg__stream_give_up(struct stream *s, uint32_t number)
{
	if (!s->started || !before(s->next, number))
		return;
	hear_of(s, number);
	pass(s, number);
	deliver(s);
}

void rdmamsg__stream_give_up_all(struct stream *s)
{
	rdmamsg__stream_give_up(s, s->heard.number + (s->heard.index > 0));
}

void rdmamsg__stream_restart(struct stream *s)
{
	rdmamsg__stream_give_up_all(s);
	s->started = false;
}

bool rdmamsg__stream_expects(const struct stream *s, uint32_t number,
			     uint32_t ahead)
{
	return !s->started ||
	       number - s->next <= s->heard.number - s->next + ahead;
}

void rdmamsg__stream_sent(struct stream *s, uint32_t number)
{
	if (!s->started) {
		start(s, number);
		return;
	}
	if (before(number, s->next))
		return;
	hear_of(s, number);
	if (s->window == 1)
		rdmamsg__stream_give_up(s, number);
	else if (number - s->next > s->window)
		rdmamsg__stream_give_up(s, number - s->window);
}

/* ---- fragments -------------------------------------------------------- */

static enum stream_result add(struct stream *s, struct part *p,
			      const struct frame *f)
{
	if (p->dropped || p->length != f->length || p->size != f->size)
		return STREAM_UNLIKE;
	if (has(p, f->index))
		return STREAM_DOUBLE;
	memcpy(p->data + (size_t)f->index * f->size, f->data, f->data_len);
	p->have[f->index / 64] |= 1ull << f->index % 64;
	p->got++;
	if (f->number == s->next) {
		deliver(s);
	} else if (s->early && complete(p)) {
		give_early(s, f->number, p->data, p->length);
		part_free(s, f->number);
	}
	return STREAM_TAKEN;
}

/* Marks the message as a gap, so that it is not asked for again. */
static enum stream_result drop(struct stream *s, uint32_t number)
{
	if (!*slot(s, number) && part_new(s, number, 0, 0) &&
	    number == s->next)
		deliver(s);
	return STREAM_TOO_LARGE;
}

enum stream_result rdmamsg__stream_data(struct stream *s,
					const struct frame *f)
{
	uint32_t count = rdmamsg__frame_count(f->length, f->size);
	struct part *p;

	if (!s->started)
		start(s, f->index ? f->number + 1 : f->number);
	if (before(f->number, s->next))
		return STREAM_OLD;
	hear(s, (struct stream_place){ f->number, f->index },
	     f->index + 1u < count ?
	     (struct stream_place){ f->number, f->index + 1u } :
	     (struct stream_place){ f->number + 1, 0 });
	/* the window must include this message */
	if (f->number - s->next >= s->window)
		rdmamsg__stream_give_up(s, f->number - s->window + 1);
	if (is_early(s, f->number))
		return STREAM_DOUBLE;
	if (f->length > s->room->max_message)
		return drop(s, f->number);
	p = *slot(s, f->number);
	if (p)
		return add(s, p, f);
	if (count == 1 && f->number == s->next) {
		turn_to(s, f->number + 1);
		s->on->message(s, f->number, f->data, f->data_len);
		deliver(s);
		return STREAM_TAKEN;
	}
	if (count == 1 && s->early) {
		give_early(s, f->number, f->data, f->data_len);
		return STREAM_TAKEN;
	}
	p = part_new(s, f->number, f->length, f->size);
	return p ? add(s, p, f) : STREAM_NO_ROOM;
}

/* ---- missing messages ------------------------------------------------- */

struct ranges {
	struct frame_range *at;
	uint32_t count, max;
};

static bool put(struct ranges *r, uint32_t number, uint32_t first,
		uint32_t last)
{
	struct frame_range *prev = r->count ? &r->at[r->count - 1] : NULL;

	if (prev && !first && last == FRAME_TO_END && !prev->first &&
	    prev->last == FRAME_TO_END &&
	    prev->number + prev->count == number) {
		prev->count++;
		return true;
	}
	if (r->count == r->max)
		return false;
	r->at[r->count++] = (struct frame_range){
		.number = number, .count = 1,
		.first = (uint16_t)first, .last = (uint16_t)last,
	};
	return true;
}

/* Adds the missing fragments of a part from i on, below 'end'. */
static bool put_part(struct ranges *r, const struct part *p, uint32_t i,
		     uint32_t end)
{
	uint32_t first;

	while (i < end) {
		if (has(p, i)) {
			i++;
			continue;
		}
		for (first = i; i < end && !has(p, i); i++)
			;
		if (!put(r, p->number, first, i - 1))
			return false;
	}
	return true;
}

bool rdmamsg__stream_lacks(const struct stream *s)
{
	const struct part *p = *slot(s, s->next);

	if (!s->started)
		return false;
	if (s->next != s->heard.number)
		return true;
	return s->heard.index && (!p || p->got < s->heard.index);
}

bool rdmamsg__stream_jumped(struct stream *s)
{
	const bool jumped = s->jumped;

	s->jumped = false;
	return jumped;
}

uint32_t rdmamsg__stream_missing(const struct stream *s,
				 const struct stream_place *from,
				 struct frame_range *ranges, uint32_t max)
{
	const bool is_past = before(from->number, s->next);
	struct ranges r = { .at = ranges, .max = max };
	uint32_t n = is_past ? s->next : from->number;
	uint32_t first = is_past ? 0 : from->index;

	for (; before(n, s->heard.number); n++, first = 0) {
		const struct part *p =
			n - s->next < s->window ? *slot(s, n) : NULL;

		if (n - s->next < s->window && is_early(s, n))
			continue;
		if (p ? !put_part(&r, p, first, p->count) :
			!put(&r, n, first, FRAME_TO_END))
			return r.count;
	}
	if (n == s->heard.number && s->heard.index > first) {
		const struct part *p = *slot(s, n);

		if (p)
			(void)put_part(&r, p, first,
				       min(p->count, s->heard.index));
		else
			(void)put(&r, n, first, s->heard.index - 1);
	}
	return r.count;
}
