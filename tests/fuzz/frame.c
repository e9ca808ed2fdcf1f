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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAGMENT	128u	/* bytes of one that parity has room for */

static struct stream_room room;
static struct parity *parity;
static bool begun;
static uint32_t due;

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void turn(uint32_t first, uint32_t last)
{
	must(!begun || first == due);
	must(last - first < UINT32_MAX / 2 + 1u);
	begun = true;
	due = last + 1;
}

static void on_message(struct stream *s, uint32_t number, const void *data,
		       uint32_t len)
{
	volatile uint8_t sum = 0;

	must(len <= room.max_message);
	for (uint32_t i = 0; i < len; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
	turn(number, number);
}

static void on_gap(struct stream *s, uint32_t first, uint32_t last)
{
	turn(first, last);
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
		if (rdmamsg__stream_data(s, &f) == STREAM_TAKEN)
			rdmamsg__parity_add(parity, &f, f.data);
		rdmamsg__stream_give_up(s, f.oldest);
		break;
	case FRAME_HEARTBEAT:
		if (!rdmamsg__offer_decode(&o, &f) && !s->started &&
		    f.number - o.first <= s->window)
			rdmamsg__stream_begin(s, o.first, f.number);
		rdmamsg__stream_sent(s, f.number);
		if (f.flags & SILENT)
			rdmamsg__stream_give_up_all(s);
		break;
	case FRAME_END:
		rdmamsg__stream_sent(s, f.number);
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
			(void)rdmamsg__stream_data(s, &made);
		}
		break;
	case FRAME_REPORT:
		(void)rdmamsg__report_decode(&f);
		(void)rdmamsg__wish_decode(&w, &f);
		break;
	}
}

/*
 * The input is a byte with the window, then datagrams, each after its length.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct stream_events events = { on_message, on_gap };
	struct frame_range ranges[16];
	struct stream s;

	if (!size)
		return 0;
	room = (struct stream_room){ .max = ROOM, .max_message = ROOM / 4 };
	list_init(&room.streams);
	begun = false;
	if (rdmamsg__stream_init(&s, &events, &room, 1u << *data % 9))
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
