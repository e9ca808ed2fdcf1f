/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: requests for the same become one, to be answered to all, and a
 * history keeps what is young, and no more than it may.
 */
#include "group/history.h"
#include "group/requests.h"
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct requests requests;

static void ask(uint32_t who, uint32_t number, uint32_t count, uint16_t first,
		uint16_t last)
{
	const struct carrier_peer by = { .qpn = who };
	const struct frame_range r = { number, count, first, last };

	rdmamsg__requests_add(&requests, &r, &by);
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

static void requests__too_many_ARE_DROPPED(void **state)
{
	for (uint32_t i = 0; i < 2 * REQUESTS_MAX; i++)
		ask(1, 10 * i, 1, 0, FRAME_TO_END);
	assert_int_equal(requests.count, REQUESTS_MAX);
	assert_int_equal(requests.dropped, REQUESTS_MAX);
}

static void history__is_bounded_BY_COUNT_AND_BYTES(void **state)
{
	static uint8_t data[1000];
	struct history h;
	const struct kept *k;

	assert_int_equal(rdmamsg__history_init(&h, UINT32_MAX - 1, 8, 2500), 0);
	assert_null(rdmamsg__history_find(&h, UINT32_MAX - 1));
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(rdmamsg__history_victim(&h, 10),
				 i < 8 ? 0 : 100 + i - 8);
		assert_int_equal(rdmamsg__history_add(&h, data, 10, 100 + i,
						      &k), 0);
		assert_int_equal(k->number, UINT32_MAX - 1 + i);
		assert_ptr_equal(rdmamsg__history_find(&h, k->number), k);
	}
	assert_int_equal(h.next - h.oldest, 8);
	assert_null(rdmamsg__history_find(&h, h.oldest - 1));
	assert_null(rdmamsg__history_find(&h, h.next));
	/* 8 of 10 bytes and 2 of 1000: no room for a third */
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg__history_add(&h, data, 1000, 200 + i,
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
		cmocka_unit_test(history__is_bounded_BY_COUNT_AND_BYTES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
