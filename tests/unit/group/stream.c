/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a sender's fragments become messages, once each and in order, and
 * every message that does not come is in a gap.
 */
#include "group/stream.h"
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SIZE	100u			/* of a fragment */
#define WINDOW	64u

/* ---- a subscriber ----------------------------------------------------- */

static struct {
	uint32_t due;			/* told of all below */
	uint32_t messages, gaps, lost;
	uint32_t first, last;		/* of the last gap */
} got;

static uint8_t byte_of(uint32_t number, uint32_t at)
{
	return (uint8_t)(number * 7 + at * 13 + at / 256);
}

static void on_message(struct stream *s, uint32_t number, const void *data,
		       uint32_t len)
{
	const uint8_t *bytes = data;

	assert_int_equal(number, got.due);
	for (uint32_t i = 0; i < len; i++)
		if (bytes[i] != byte_of(number, i))
			fail_msg("byte %u of message %u", i, number);
	got.due++;
	got.messages++;
}

static void on_gap(struct stream *s, uint32_t first, uint32_t last)
{
	assert_int_equal(first, got.due);
	assert_true(last - first < 1u << 31);
	got.due = last + 1;
	got.gaps++;
	got.lost += last - first + 1;
	got.first = first;
	got.last = last;
}

static const struct stream_events events = { on_message, on_gap };
static struct stream_room room;
static struct stream stream;

static void begin(uint32_t window, uint32_t first)
{
	memset(&got, 0, sizeof(got));
	got.due = first;
	room = (struct stream_room){ .max = 1 << 20, .max_message = 100000 };
	list_init(&room.streams);
	assert_int_equal(rdmamsg__stream_init(&stream, &events, &room, window),
			 0);
}

static void end(void)
{
	rdmamsg__stream_fini(&stream);
	assert_int_equal(room.used, 0);
}

/* ---- a sender --------------------------------------------------------- */

static enum stream_result fragment(uint32_t number, uint32_t length,
				   uint32_t index)
{
	uint8_t data[SIZE];
	struct frame f = {
		.type = FRAME_DATA, .number = number, .length = length,
		.size = SIZE, .index = (uint16_t)index, .data = data,
		.data_len = length - index * SIZE,
	};

	if (f.data_len > SIZE)
		f.data_len = SIZE;
	for (uint32_t i = 0; i < f.data_len; i++)
		data[i] = byte_of(number, index * SIZE + i);
	return rdmamsg__stream_data(&stream, &f);
}

static void message(uint32_t number, uint32_t length)
{
	for (uint32_t i = 0; i < rdmamsg__frame_count(length, SIZE); i++)
		assert_int_equal(fragment(number, length, i), STREAM_TAKEN);
}

static uint32_t missing(struct frame_range *r, uint32_t max)
{
	const struct stream_place first = { stream.next, 0 };

	return rdmamsg__stream_missing(&stream, &first, r, max);
}

/* ---- tests ------------------------------------------------------------ */

static void messages__in_order_ARRIVE(void **state)
{
	for (uint32_t window = 1; window <= WINDOW; window *= WINDOW) {
		begin(window, UINT32_MAX - 2);
		for (uint32_t i = 0; i < 10; i++)
			message(UINT32_MAX - 2 + i, i * 57);
		assert_int_equal(got.messages, 10);
		assert_int_equal(got.gaps, 0);
		end();
	}
}

static void loss__without_repair_IS_TOLD_AT_ONCE(void **state)
{
	begin(1, 5);
	message(5, 10);
	message(8, 10);
	assert_int_equal(got.gaps, 1);
	assert_int_equal(got.first, 6);
	assert_int_equal(got.last, 7);
	assert_int_equal(got.messages, 2);
	/* a fragment of a message is missing */
	assert_int_equal(fragment(9, 250, 0), STREAM_TAKEN);
	assert_int_equal(fragment(9, 250, 2), STREAM_TAKEN);
	assert_int_equal(got.gaps, 1);
	message(10, 300);
	assert_int_equal(got.gaps, 2);
	assert_int_equal(got.first, 9);
	assert_int_equal(got.last, 9);
	/* the last ones */
	rdmamsg__stream_sent(&stream, 13);
	assert_int_equal(got.gaps, 3);
	assert_int_equal(got.last, 12);
	assert_int_equal(got.messages, 3);
	end();
}

static void joiner__in_a_message_BEGINS_WITH_THE_NEXT(void **state)
{
	begin(WINDOW, 4);
	assert_int_equal(fragment(3, 250, 1), STREAM_OLD);
	assert_int_equal(fragment(3, 250, 2), STREAM_OLD);
	message(4, 250);
	assert_int_equal(got.messages, 1);
	assert_int_equal(got.gaps, 0);
	assert_int_equal(missing(&(struct frame_range){ 0 }, 1), 0);
	end();
	begin(1, 7);
	rdmamsg__stream_sent(&stream, 7);
	message(7, 0);
	assert_int_equal(got.messages, 1);
	end();
}

static void fragments__doubled_COUNT_ONCE(void **state)
{
	begin(WINDOW, 0);
	assert_int_equal(fragment(0, 150, 0), STREAM_TAKEN);
	assert_int_equal(fragment(0, 150, 0), STREAM_DOUBLE);
	assert_int_equal(fragment(0, 160, 1), STREAM_UNLIKE);
	assert_int_equal(fragment(0, 150, 1), STREAM_TAKEN);
	assert_int_equal(fragment(0, 150, 1), STREAM_OLD);
	assert_int_equal(got.messages, 1);
	end();
}

static void message__too_large_IS_A_GAP(void **state)
{
	for (uint32_t window = 1; window <= WINDOW; window *= WINDOW) {
		begin(window, 0);
		room.max_message = 250;
		message(0, 250);
		assert_int_equal(fragment(1, 251, 0), STREAM_TOO_LARGE);
		assert_int_equal(got.gaps, 1);
		assert_int_equal(fragment(1, 251, 1), STREAM_OLD);
		message(2, 250);
		assert_int_equal(got.messages, 2);
		assert_int_equal(got.lost, 1);
		end();
	}
	/* it waits for its turn */
	begin(WINDOW, 0);
	room.max_message = 250;
	message(0, 1);
	assert_int_equal(fragment(2, 251, 0), STREAM_TOO_LARGE);
	assert_int_equal(fragment(2, 251, 1), STREAM_TOO_LARGE);
	assert_int_equal(got.gaps, 0);
	message(1, 1);
	assert_int_equal(got.gaps, 1);
	message(3, 1);
	assert_int_equal(got.messages, 3);
	end();
}

static void missing__of_messages_and_fragments_IS_NAMED(void **state)
{
	struct frame_range r[8];

	begin(WINDOW, 0);
	message(0, 1);
	assert_int_equal(fragment(3, 950, 1), STREAM_TAKEN);
	assert_int_equal(fragment(3, 950, 5), STREAM_TAKEN);
	assert_int_equal(missing(r, 8), 3);
	assert_int_equal(r[0].number, 1);
	assert_int_equal(r[0].count, 2);
	assert_int_equal(r[0].first, 0);
	assert_int_equal(r[0].last, FRAME_TO_END);
	assert_int_equal(r[1].number, 3);
	assert_int_equal(r[1].first, 0);
	assert_int_equal(r[1].last, 0);
	assert_int_equal(r[2].first, 2);
	assert_int_equal(r[2].last, 4);
	/* and now also the rest of it */
	rdmamsg__stream_sent(&stream, 5);
	assert_int_equal(missing(r, 8), 5);
	assert_int_equal(r[3].number, 3);
	assert_int_equal(r[3].first, 6);
	assert_int_equal(r[3].last, 9);
	assert_int_equal(r[4].number, 4);
	assert_int_equal(r[4].count, 1);
	assert_int_equal(missing(r, 2), 2);
	end();
}

static void expect_new(uint32_t number, uint16_t first, uint16_t last,
		       const struct stream_place *from)
{
	struct frame_range r[2];

	assert_true(rdmamsg__stream_jumped(&stream));
	assert_false(rdmamsg__stream_jumped(&stream));
	assert_int_equal(rdmamsg__stream_missing(&stream, from, r, 2), 1);
	assert_int_equal(r[0].number, number);
	assert_int_equal(r[0].first, first);
	assert_int_equal(r[0].last, last);
}

/* A late fragment is no loss, and a new loss is asked for once. */
static void loss__that_is_new_IS_TOLD_ONCE(void **state)
{
	const uint32_t at = UINT32_MAX - 4;
	struct stream_place from;

	begin(WINDOW, at);
	message(at, 10);
	assert_false(rdmamsg__stream_jumped(&stream));
	from = stream.heard;
	message(at + 2, 10);
	expect_new(at + 1, 0, FRAME_TO_END, &from);
	from = stream.heard;
	message(at + 3, 10);
	message(at + 1, 10);
	assert_false(rdmamsg__stream_jumped(&stream));
	/* at + 4 is missing, then a fragment of at + 5, then its end */
	(void)fragment(at + 5, 5 * SIZE, 0);
	expect_new(at + 4, 0, FRAME_TO_END, &from);
	from = stream.heard;
	(void)fragment(at + 5, 5 * SIZE, 2);
	expect_new(at + 5, 1, 1, &from);
	from = stream.heard;
	rdmamsg__stream_sent(&stream, at + 6);
	expect_new(at + 5, 3, 4, &from);
	from = stream.heard;
	rdmamsg__stream_sent(&stream, at + 6);
	assert_false(rdmamsg__stream_jumped(&stream));
	assert_int_equal(rdmamsg__stream_missing(&stream, &from,
						 &(struct frame_range){ 0 }, 1),
			 0);
	end();
}

/* ---- without order ----------------------------------------------------- */

static uint8_t times[1000];		/* that a message was given */
static uint32_t order[1000], given;

static void on_any(struct stream *s, uint32_t number, const void *data,
		   uint32_t len)
{
	const uint8_t *bytes = data;

	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(bytes[i], byte_of(number, i));
	times[number]++;
	order[given++] = number;
}

static void on_any_gap(struct stream *s, uint32_t first, uint32_t last)
{
	for (uint32_t n = first; n <= last; n++)
		times[n] += 100;
	got.gaps++;
}

static void begin_unordered(void)
{
	static const struct stream_events any = { on_any, on_any_gap };

	begin(WINDOW, 0);
	stream.on = &any;
	memset(times, 0, sizeof(times));
	given = 0;
	assert_int_equal(rdmamsg__stream_unorder(&stream), 0);
}

static void unordered__messages_COME_WHEN_WHOLE(void **state)
{
	static const uint32_t expected[] = { 0, 2, 3, 1, 6 };

	begin_unordered();
	message(0, 10);
	message(2, 10);
	assert_int_equal(fragment(3, 250, 0), STREAM_TAKEN);
	assert_int_equal(fragment(3, 250, 2), STREAM_TAKEN);
	assert_int_equal(fragment(3, 250, 1), STREAM_TAKEN);
	assert_int_equal(fragment(2, 10, 0), STREAM_DOUBLE);
	assert_int_equal(fragment(3, 250, 1), STREAM_DOUBLE);
	message(1, 10);
	assert_int_equal(stream.next, 4);
	assert_int_equal(fragment(2, 10, 0), STREAM_OLD);
	message(6, 10);
	assert_int_equal(got.gaps, 0);
	/* a gap is what was not given */
	rdmamsg__stream_give_up(&stream, 8);
	assert_int_equal(got.gaps, 2);
	assert_int_equal(given, 5);
	assert_memory_equal(order, expected, sizeof(expected));
	for (uint32_t n = 0; n < 8; n++)
		assert_int_equal(times[n], n == 4 || n == 5 || n == 7 ? 100 : 1);
	assert_int_equal(stream.used, 0);
	end();
}

static void unordered__what_was_given_IS_NOT_MISSING(void **state)
{
	struct frame_range r[4];

	begin_unordered();
	message(0, 10);
	message(2, 10);
	message(4, 250);
	message(5, 10);
	assert_int_equal(missing(r, 4), 2);
	assert_int_equal(r[0].number, 1);
	assert_int_equal(r[0].count, 1);
	assert_int_equal(r[1].number, 3);
	assert_int_equal(r[1].count, 1);
	end();
}

/* Fragments of a message of 'n' bytes, of which some are lost. */
static void some_of(uint32_t n, uint32_t first, uint32_t last,
		    unsigned int *seed)
{
	for (uint32_t i = first;
	     i < rdmamsg__frame_count(n, SIZE) && i <= last; i++)
		if (rand_r(seed) % 4)
			(void)fragment(n, n, i);
}

static void unordered__lost_and_repaired_EACH_COMES_ONCE(void **state)
{
	enum { COUNT = 1000 };
	struct frame_range r[8];
	unsigned int seed = 7;

	begin_unordered();
	message(0, 10);
	for (uint32_t n = 1; stream.next < COUNT;) {
		if (n < COUNT && n - stream.next < WINDOW / 2) {
			some_of(n, 0, FRAME_TO_END, &seed);
			n++;
		}
		if (n == COUNT)
			rdmamsg__stream_sent(&stream, COUNT);
		for (uint32_t c = missing(r, 8); c; c--)
			for (uint32_t k = 0; k < r[c - 1].count; k++)
				some_of(r[c - 1].number + k, r[c - 1].first,
					r[c - 1].last, &seed);
	}
	assert_int_equal(given, COUNT);
	assert_int_equal(got.gaps, 0);
	for (uint32_t n = 0; n < COUNT; n++)
		assert_int_equal(times[n], 1);
	end();
}

/* Every frame and every repetition may be lost. */
static void losses__with_repair_ARE_REPAIRED(void **state)
{
	enum { COUNT = 20000 };
	static uint32_t length[COUNT];
	struct frame_range r[8];
	unsigned int seed = 53;
	uint32_t first = UINT32_MAX - 7, sent = 0;

	begin(WINDOW, first);
	for (uint32_t i = 0; i < COUNT; i++)
		length[i] = (uint32_t)rand_r(&seed) % 700;
	message(first, length[0]);
	while (got.messages < COUNT) {
		uint32_t n;

		/* the sender is ahead by less than the window */
		if (sent < COUNT - 1 && first + sent - got.due + 2 < WINDOW) {
			uint32_t len = length[++sent];

			n = rdmamsg__frame_count(len, SIZE);
			for (uint32_t i = 0; i < n; i++)
				if (rand_r(&seed) % 100)
					(void)fragment(first + sent, len, i);
		} else if (sent == COUNT - 1) {
			rdmamsg__stream_sent(&stream, first + COUNT);
		}
		n = missing(r, 8);
		for (uint32_t k = 0; k < n; k++)
			for (uint32_t m = 0; m < r[k].count; m++) {
				uint32_t at = r[k].number + m;
				uint32_t len = length[at - first];
				uint32_t c = rdmamsg__frame_count(len, SIZE);

				for (uint32_t i = r[k].first;
				     i < c && i <= r[k].last; i++)
					if (rand_r(&seed) % 10)
						(void)fragment(at, len, i);
			}
	}
	assert_int_equal(got.gaps, 0);
	end();
}

static void loss__beyond_the_window_IS_A_GAP(void **state)
{
	begin(4, 0);
	message(0, 1);
	message(2, 150);
	message(3, 150);
	message(4, 150);
	assert_int_equal(got.messages, 1);
	message(5, 150);
	assert_int_equal(got.gaps, 1);
	assert_int_equal(got.first, 1);
	assert_int_equal(got.last, 1);
	assert_int_equal(got.messages, 5);
	/* what the sender does not keep any more */
	message(9, 1);
	message(7, 1);
	rdmamsg__stream_give_up(&stream, 8);
	assert_int_equal(got.gaps, 2);
	assert_int_equal(got.messages, 6);
	rdmamsg__stream_give_up(&stream, 8);
	message(8, 1);
	assert_int_equal(got.messages, 8);
	assert_int_equal(got.gaps, 2);
	end();
}

static void room__is_for_what_is_due_FIRST(void **state)
{
	struct frame_range r[8];

	begin(8, 0);
	room.max = 2000;
	message(0, 1);
	message(2, 700);
	message(3, 700);
	assert_int_equal(fragment(4, 700, 0), STREAM_NO_ROOM);
	assert_true(room.used <= room.max);
	/* message 1 takes the place of message 3 */
	message(1, 700);
	assert_int_equal(got.messages, 3);
	assert_int_equal(missing(r, 8), 2);
	assert_int_equal(r[0].number, 3);
	assert_int_equal(r[1].number, 4);
	assert_int_equal(r[1].last, 0);
	message(3, 700);
	message(4, 700);
	assert_int_equal(got.messages, 5);
	assert_int_equal(got.gaps, 0);
	end();
}

static uint32_t others;

static void on_other(struct stream *s, uint32_t number, const void *data,
		     uint32_t len)
{
	others++;
}

static void on_others_gap(struct stream *s, uint32_t first, uint32_t last)
{
	fail_msg("%u to %u are lost", first, last);
}

/* One has taken all of it, by messages that wait for earlier ones. */
static void room__is_shared_BY_THE_SENDERS(void **state)
{
	static const struct stream_events on = { on_other, on_others_gap };
	static const uint8_t bytes[SIZE];
	struct frame f = {
		.type = FRAME_DATA, .length = 700, .size = SIZE,
		.data = bytes, .data_len = SIZE,
	};
	struct stream other;
	uint32_t n;

	begin(WINDOW, 0);
	room.max = 8000;
	assert_int_equal(rdmamsg__stream_init(&other, &on, &room, WINDOW), 0);
	others = 0;
	message(0, 1);
	for (n = 2; n < WINDOW; n++)
		if (fragment(n, 700, 0) == STREAM_NO_ROOM)
			break;
	assert_true(n > 5 && n < WINDOW);
	/* the other one needs less than that */
	for (f.number = 0; f.number < 2; f.number++)
		for (f.index = 0; f.index < 7; f.index++)
			assert_int_equal(rdmamsg__stream_data(&other, &f),
					 STREAM_TAKEN);
	assert_int_equal(others, 2);
	assert_true(room.used <= room.max);
	/* it gets no more than half */
	f.index = 0;
	for (f.number = 3; f.number < WINDOW; f.number++)
		if (rdmamsg__stream_data(&other, &f) == STREAM_NO_ROOM)
			break;
	assert_in_range(other.used, room.max / 4, room.max / 2);
	assert_in_range(stream.used, room.max / 4, 3 * room.max / 4);
	assert_int_equal(stream.used + other.used, room.used);
	/* and the first one lacks nothing in the end */
	rdmamsg__stream_fini(&other);
	message(1, 700);
	for (uint32_t i = 2; i < n; i++)
		for (uint32_t k = 0; k < 7; k++)
			(void)fragment(i, 700, k);
	assert_int_equal(got.due, n);
	assert_int_equal(got.gaps, 0);
	end();
}

static void sender__that_lies_COSTS_LITTLE(void **state)
{
	struct frame_range r[8];

	for (uint32_t window = 1; window <= WINDOW; window *= WINDOW) {
		begin(window, 0);
		message(0, 1);
		for (uint32_t i = 1; i < 10000; i++) {
			uint32_t number = i * 0x7fffff00u;

			rdmamsg__stream_sent(&stream, number);
			(void)fragment(number + 0x7ffffff0u, 99999, i % 1000);
			assert_true(missing(r, 8) <= 8);
			assert_true(room.used <= room.max);
			/* the gaps were checked; numbers behind are old */
		}
		end();
	}
}

/* The sender is gone: what came whole is delivered, the rest is a gap. */
static void give_up__of_all_TELLS_ALL_THAT_WAS_HEARD_OF(void **state)
{
	begin(WINDOW, 0);
	message(0, 10);
	message(2, 10);
	message(3, 3 * SIZE);
	assert_int_equal(fragment(4, 3 * SIZE, 0), STREAM_TAKEN);
	assert_int_equal(got.due, 1);
	rdmamsg__stream_give_up_all(&stream);
	assert_int_equal(got.due, 5);
	assert_int_equal(got.messages, 3);
	assert_int_equal(got.lost, 2);
	assert_false(rdmamsg__stream_lacks(&stream));
	assert_int_equal(room.used, 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages__in_order_ARRIVE),
		cmocka_unit_test(loss__without_repair_IS_TOLD_AT_ONCE),
		cmocka_unit_test(joiner__in_a_message_BEGINS_WITH_THE_NEXT),
		cmocka_unit_test(fragments__doubled_COUNT_ONCE),
		cmocka_unit_test(message__too_large_IS_A_GAP),
		cmocka_unit_test(missing__of_messages_and_fragments_IS_NAMED),
		cmocka_unit_test(loss__that_is_new_IS_TOLD_ONCE),
		cmocka_unit_test(unordered__messages_COME_WHEN_WHOLE),
		cmocka_unit_test(unordered__what_was_given_IS_NOT_MISSING),
		cmocka_unit_test(unordered__lost_and_repaired_EACH_COMES_ONCE),
		cmocka_unit_test(losses__with_repair_ARE_REPAIRED),
		cmocka_unit_test(loss__beyond_the_window_IS_A_GAP),
		cmocka_unit_test(room__is_for_what_is_due_FIRST),
		cmocka_unit_test(room__is_shared_BY_THE_SENDERS),
		cmocka_unit_test(give_up__of_all_TELLS_ALL_THAT_WAS_HEARD_OF),
		cmocka_unit_test(sender__that_lies_COSTS_LITTLE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
