/* SPDX-License-Identifier: BSD-2-Clause */
/* The window of packets that may be unanswered, with a clock of the test. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include "soft/transport/far.h"

#define MTU	1024u
#define MOST	256u			/* packets of 256 KB */
#define FIRST	16u
#define RTT	100000u			/* ns */

uint64_t __wrap_soft_now(void);

static uint64_t now;
static struct soft_far far;

uint64_t __wrap_soft_now(void)
{
	return now;
}

static int begin(void **state)
{
	now = 1000000000;
	memset(&far, 0, sizeof(far));
	far.mtu = MTU;
	soft_window_begin(&far);
	return 0;
}

/* A window of packets goes out, and is answered after a round trip. */
static void round_of(uint64_t rtt)
{
	const uint32_t n = soft_window_psns(&far);

	far.end = (far.end + n) & SOFT_PSN_MASK;
	soft_window_sent(&far, far.end);
	now += rtt;
	far.full = true;
	soft_window_answered(&far, (far.end + 1) & SOFT_PSN_MASK, n);
}

static void rounds(uint32_t n)
{
	while (n--)
		round_of(RTT);
}

static void window__without_losses_GROWS_TO_256_KB(void **state)
{
	assert_int_equal(soft_window_psns(&far), FIRST);
	rounds(1);
	assert_int_equal(soft_window_psns(&far), FIRST * 3 / 2);
	rounds(20);
	assert_int_equal(soft_window_psns(&far), MOST);
}

static void window__not_used_up_STAYS(void **state)
{
	for (int i = 0; i < 100; i++)
		soft_window_answered(&far, far.end, 1);
	assert_int_equal(soft_window_psns(&far), FIRST);
}

static void window__losses_of_a_round_trip_HALVE_IT_ONCE(void **state)
{
	rounds(20);
	soft_window_lost(&far, false);
	soft_window_lost(&far, false);
	soft_window_marked(&far);
	assert_int_equal(soft_window_psns(&far), MOST / 2);
	now += 2 * RTT;
	soft_window_lost(&far, false);
	assert_int_equal(soft_window_psns(&far), MOST / 4);
}

static void window__many_losses_LEAVE_A_PACKET(void **state)
{
	rounds(20);
	for (int i = 0; i < 50; i++) {
		now += 2 * RTT;
		soft_window_lost(&far, false);
	}
	assert_int_equal(soft_window_psns(&far), 1);
}

static void window__after_a_loss_GROWS_SLOWLY_THEN_FASTER(void **state)
{
	rounds(20);
	soft_window_lost(&far, false);
	rounds(33);
	assert_in_range(soft_window_psns(&far), MOST / 2 + 3, MOST / 2 + 5);
	rounds(600);
	assert_int_equal(soft_window_psns(&far), MOST);
}

static void window__marked_SHRINKS_BY_AN_EIGHTH(void **state)
{
	rounds(20);
	soft_window_marked(&far);
	soft_window_marked(&far);
	assert_int_equal(soft_window_psns(&far), MOST - MOST / 8);
}

static void window__late_LEAVES_16_PACKETS(void **state)
{
	rounds(20);
	round_of(2 * RTT + 400000);
	assert_int_equal(soft_window_psns(&far), MOST);
	round_of(2 * RTT + 600000);
	assert_in_range(soft_window_psns(&far), MOST - MOST / 8,
			MOST - MOST / 8 + 1);
	for (int i = 0; i < 100; i++)
		round_of(20 * RTT);
	assert_in_range(soft_window_psns(&far), 16, 17);
}

/* A delay does not make it slow, because it is not always the network's. */
static void window__late_once_GROWS_AGAIN(void **state)
{
	rounds(20);
	round_of(20 * RTT);
	rounds(40);
	assert_int_equal(soft_window_psns(&far), MOST);
}

static void window__timer_expired_BEGINS_WITH_A_PACKET(void **state)
{
	rounds(20);
	far.timeouts = 1;
	soft_window_lost(&far, true);
	assert_int_equal(soft_window_psns(&far), 1);
	rounds(20);
	assert_in_range(soft_window_psns(&far), MOST / 2, MOST / 2 + 4);
}

static void window__timer_was_wrong_AS_BEFORE(void **state)
{
	rounds(20);
	for (far.timeouts = 1; far.timeouts < 4; far.timeouts++) {
		now += 20 * RTT;
		soft_window_lost(&far, true);
	}
	soft_window_not_lost(&far);
	assert_int_equal(soft_window_psns(&far), MOST);
	/* it was right about a later loss */
	now += 2 * RTT;
	soft_window_lost(&far, false);
	soft_window_not_lost(&far);
	assert_int_equal(soft_window_psns(&far), MOST / 2);
}

#define WINDOW(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WINDOW(window__without_losses_GROWS_TO_256_KB),
		WINDOW(window__not_used_up_STAYS),
		WINDOW(window__losses_of_a_round_trip_HALVE_IT_ONCE),
		WINDOW(window__many_losses_LEAVE_A_PACKET),
		WINDOW(window__after_a_loss_GROWS_SLOWLY_THEN_FASTER),
		WINDOW(window__marked_SHRINKS_BY_AN_EIGHTH),
		WINDOW(window__late_LEAVES_16_PACKETS),
		WINDOW(window__late_once_GROWS_AGAIN),
		WINDOW(window__timer_expired_BEGINS_WITH_A_PACKET),
		WINDOW(window__timer_was_wrong_AS_BEFORE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
