/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: arbitrary datagrams of one sender take a bounded amount of
 * memory, and the stream reports each number once.
 */
#include "group/parity.h"
#include "group/stream.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROOM	65536u
#define SILENT	0x80u	/* flag of the input: nothing comes for long */
#define LOOSE	0x80u	/* of its first byte: the stream has no order */
#define WINDOWS	9u	/* powers of two from 1 */
#define MOST	(1u << (WINDOWS - 1))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAGMENT	128u	/* bytes of one that parity has room for */

static struct stream_room room;
static struct parity *parity;
static uint32_t due;		/* lowest number that was not reported */
static bool given[MOST];	/* some above it, which came before their turn */

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* If the stream begins now, it begins with this number. */
static void begins_with(const struct stream *s, uint32_t number)
{
	if (!s->started)
		due = number;
}

static void turn_to(uint32_t number)
{
	for (due = number; given[due % MOST]; due++)
		given[due % MOST] = false;
}

static void on_message(struct stream *s, uint32_t number, const void *data,
		       uint32_t len)
{
	volatile uint8_t sum = 0;

	must(len <= room.max_message);
	for (uint32_t i = 0; i < len; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
	if (number == due) {
		turn_to(number + 1);
		return;
	}
	must(s->early && number - due < s->window && !given[number % MOST]);
	given[number % MOST] = true;
}

/* It has no message that was given. */
static void on_gap(struct stream *s, uint32_t first, uint32_t last)
{
	must(first == due);
	must(last - first < UINT32_MAX / 2 + 1u);
	for (uint32_t i = 0; i < MOST; i++)
		must(!given[(first + i) % MOST] || i > last - first);
	turn_to(last + 1);
}

static enum stream_result data_of(struct stream *s, const struct frame *f)
{
	begins_with(s, f->number + (f->index > 0));
	return rdmamsg__stream_data(s, f);
}

static void sent(struct stream *s, uint32_t number)
{
	begins_with(s, number);
	rdmamsg__stream_sent(s, number);
}

static void take(struct stream *s, const uint8_t *data, size_t len)
{
	struct frame_offer o;
	struct frame_range r;
	struct frame_wish w;
	struct frame f, made;

	if (rdmamsg__frame_decode(&f, data, len))
		return;
	switch (f.type) {
	case FRAME_DATA:
		if (data_of(s, &f) == STREAM_TAKEN)
			rdmamsg__parity_add(parity, &f, f.data);
		rdmamsg__stream_give_up(s, f.oldest);
		break;
	case FRAME_HEARTBEAT:
		if (!rdmamsg__offer_decode(&o, &f) && !s->started &&
		    f.number - o.first <= s->window) {
			begins_with(s, o.first);
			rdmamsg__stream_begin(s, o.first, f.number);
		}
		sent(s, f.number);
		if (f.flags & SILENT)
			rdmamsg__stream_give_up_all(s);
		break;
	case FRAME_END:
		sent(s, f.number);
		rdmamsg__stream_give_up(s, f.number);
		break;
	case FRAME_NACK:
		for (uint32_t i = 0; i < f.length; i++)
			if (!rdmamsg__range_decode(&r, &f, i))
				must(r.count && r.first <= r.last);
		break;
	case FRAME_PARITY:
		if (rdmamsg__parity_make(parity, &f, &made)) {
			must(made.data_len <= FRAGMENT);
			(void)data_of(s, &made);
		}
		break;
	case FRAME_REPORT:
		must(!rdmamsg__report_decode(&f).tag ||
		     f.flags & FRAME_TAGGED);
		(void)rdmamsg__wish_decode(&w, &f);
		break;
	}
}

static bool init(struct stream *s, uint8_t kind)
{
	static const struct stream_events events = { on_message, on_gap };

	room = (struct stream_room){ .max = ROOM, .max_message = ROOM / 4 };
	list_init(&room.streams);
	memset(given, 0, sizeof(given));
	if (rdmamsg__stream_init(s, &events, &room,
				 1u << (kind & ~LOOSE) % WINDOWS))
		return false;
	if (!(kind & LOOSE) || !rdmamsg__stream_unorder(s))
		return true;
	rdmamsg__stream_fini(s);
	return false;
}

/*
 * The input is a byte with the window and the order, then datagrams, each after
 * its length.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_range ranges[16];
	struct stream s;

	if (!size || !init(&s, *data))
		return 0;
	parity = rdmamsg__parity_new(FRAGMENT);
	must(parity);
	data++;
	size--;
	while (size > 1) {
		const struct stream_place from = { s.next + *data % 3, *data };
		size_t len = *data < size - 1 ? *data : size - 1;

		take(&s, data + 1, len);
		must(room.used <= ROOM);
		must(rdmamsg__stream_missing(&s, &from, ranges, 16) <= 16);
		data += 1 + len;
		size -= 1 + len;
	}
	rdmamsg__stream_fini(&s);
	free(parity);
	must(!room.used);
	return 0;
}
