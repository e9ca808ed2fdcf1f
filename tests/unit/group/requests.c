/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: requests for the same become one, to be answered to all, no
 * address crowds out the requests of others, and a history keeps what is young,
 * and no more than it may.
 */
#include "group/gather.h"
#include "group/history.h"
#include "group/requests.h"
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct requests requests;

static void ask_from(uint8_t address, uint32_t who, uint32_t number,
		     uint32_t count, uint16_t first, uint16_t last)
{
	const struct carrier_peer by = {
		.qpn = who, .gid.raw[15] = address,
	};
	const struct frame_range r = { number, count, first, last };

	rdmamsg__requests_add(&requests, &r, &by);
}

static void ask(uint32_t who, uint32_t number, uint32_t count, uint16_t first,
		uint16_t last)
{
	ask_from(0, who, number, count, first, last);
}

static void is(uint32_t at, uint32_t number, uint32_t count, uint16_t first,
	       uint16_t last, bool several)
{
	const struct request *q = &requests.at[at];

	assert_int_equal(q->range.number, number);
	assert_int_equal(q->range.count, count);
	assert_int_equal(q->range.first, first);
	assert_int_equal(q->range.last, last);
	assert_int_equal(q->several, several);
}

static int begin(void **state)
{
	memset(&requests, 0, sizeof(requests));
	return 0;
}

static void requests__of_one_ARE_JOINED(void **state)
{
	ask(1, 7, 1, 0, FRAME_TO_END);
	ask(1, 8, 2, 0, FRAME_TO_END);
	ask(1, 6, 1, 0, FRAME_TO_END);
	assert_int_equal(requests.count, 1);
	is(0, 6, 4, 0, FRAME_TO_END, false);
	ask(1, 20, 1, 3, 4);
	ask(1, 20, 1, 5, 9);
	ask(1, 20, 1, 11, 12);
	assert_int_equal(requests.count, 3);
	is(1, 20, 1, 3, 9, false);
	is(2, 20, 1, 11, 12, false);
}

static void requests__of_hundreds_ARE_ONE(void **state)
{
	for (uint32_t who = 1; who <= 500; who++) {
		ask(who, UINT32_MAX, 3, 0, FRAME_TO_END);
		ask(who, 50, 1, 2, 2);
	}
	assert_int_equal(requests.count, 2);
	is(0, UINT32_MAX, 3, 0, FRAME_TO_END, true);
	is(1, 50, 1, 2, 2, true);
	assert_int_equal(requests.dropped, 0);
}

/* Other queue pairs of one address count as one. */
static void requests__too_many_ARE_DROPPED(void **state)
{
	uint32_t first;

	for (uint32_t i = 0; i < 2 * REQUESTS_MAX; i++)
		ask(i % 7, 10 * i, 1, 0, FRAME_TO_END);
	first = requests.count;
	assert_in_range(first, REQUESTS_MAX / 2, REQUESTS_MAX * 2 / 3 + 1);
	assert_int_equal(requests.dropped, 2 * REQUESTS_MAX - first);
	for (uint8_t address = 1; address < 40; address++)
		ask_from(address, 1, 100000u * address, 1, 0, FRAME_TO_END);
	assert_int_equal(requests.count, first + 39);
	for (uint32_t i = 0; i < 2 * REQUESTS_MAX; i++)
		ask_from((uint8_t)i, 1, 10 * i + 5, 1, 0, FRAME_TO_END);
	assert_int_equal(requests.count, REQUESTS_MAX);
}

/* Else its owner would wait for the budget of the other. */
static void requests__large_and_small_STAY_APART(void **state)
{
	ask_from(1, 1, 0, 16384, 0, FRAME_TO_END);
	ask_from(2, 2, 100, 1, 0, FRAME_TO_END);
	ask_from(1, 1, 20000, 1, 0, 200);
	ask_from(2, 2, 20000, 1, 5, 5);
	assert_int_equal(requests.count, 4);
	is(0, 0, 16384, 0, FRAME_TO_END, false);
	is(1, 100, 1, 0, FRAME_TO_END, false);
	is(3, 20000, 1, 5, 5, false);
	/* nearly the same */
	ask_from(3, 3, 1, 16384, 0, FRAME_TO_END);
	assert_int_equal(requests.count, 4);
	is(0, 0, 16385, 0, FRAME_TO_END, true);
}

/* Returns the address of the request that has its turn. */
static uint8_t turn(bool remove)
{
	uint8_t address = requests.at[requests.turn].by.gid.raw[15];

	rdmamsg__requests_next(&requests, remove);
	return address;
}

static void requests__of_one_DO_NOT_DELAY_OTHERS(void **state)
{
	for (uint32_t i = 0; i < 100; i++)
		ask_from(1, 1, 10 * i, 5, 0, FRAME_TO_END);
	ask_from(2, 2, 5000, 2, 0, FRAME_TO_END);
	ask_from(3, 3, 6000, 1, 0, FRAME_TO_END);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(turn(false), 1);
		assert_int_equal(turn(i == 4), 2);
		assert_int_equal(turn(i == 4), 3);
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(turn(true), 1);
	assert_int_equal(requests.count, 0);
	assert_int_equal(requests.turn, 0);
}

static void history__is_bounded_BY_COUNT_AND_BYTES(void **state)
{
	static uint8_t data[1000];
	const struct iovec piece = { data, sizeof(data) };
	const struct gather small = { &piece, 1, 10 };
	const struct gather large = { &piece, 1, sizeof(data) };
	struct history h;
	const struct kept *k;

	assert_int_equal(rdmamsg__history_init(&h, UINT32_MAX - 1, 8, 2500), 0);
	assert_null(rdmamsg__history_find(&h, UINT32_MAX - 1));
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(rdmamsg__history_victim(&h, 10),
				 i < 8 ? 0 : 100 + i - 8);
		h.published = 3 * i;
		assert_int_equal(rdmamsg__history_add(&h, &small, 100 + i,
						      &k), 0);
		assert_int_equal(k->number, UINT32_MAX - 1 + i);
		assert_ptr_equal(rdmamsg__history_find(&h, k->number), k);
		h.published += 3;
	}
	assert_int_equal(h.next - h.oldest, 8);
	assert_int_equal(rdmamsg__history_since(&h, 0), 3 * 12);
	assert_int_equal(rdmamsg__history_since(&h, 115), 3 * 15);
	assert_int_equal(rdmamsg__history_since(&h, 119), 3 * 19);
	assert_int_equal(rdmamsg__history_since(&h, 120), 3 * 20);
	assert_null(rdmamsg__history_find(&h, h.oldest - 1));
	assert_null(rdmamsg__history_find(&h, h.next));
	/* 8 of 10 bytes and 2 of 1000: no room for a third */
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg__history_add(&h, &large, 200 + i,
						      &k), 0);
	assert_int_equal(h.next - h.oldest, 2);
	assert_int_equal(rdmamsg__history_victim(&h, 1000), 201);
	assert_int_equal(rdmamsg__history_victim(&h, 2000), 202);
	/* larger than all of it: alone */
	assert_int_equal(rdmamsg__history_victim(&h, 9000), 202);
	rdmamsg__history_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(requests__of_one_ARE_JOINED, begin),
		cmocka_unit_test_setup(requests__of_hundreds_ARE_ONE, begin),
		cmocka_unit_test_setup(requests__too_many_ARE_DROPPED, begin),
		cmocka_unit_test_setup(requests__large_and_small_STAY_APART,
				       begin),
		cmocka_unit_test_setup(requests__of_one_DO_NOT_DELAY_OTHERS,
				       begin),
		cmocka_unit_test(history__is_bounded_BY_COUNT_AND_BYTES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
