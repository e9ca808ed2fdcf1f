/* SPDX-License-Identifier: BSD-2-Clause */
/* Back-pressure: a pair of ends, and the cases of credits_held.c. */
#ifndef CREDITS_H
#define CREDITS_H

#include "clock.h"
#include "common.h"

static struct pair p;

static inline void check_no_rnr(void)
{
	assert_int_equal(end_stats(&p.c).rnr_errors, 0);
	assert_int_equal(end_stats(&p.s).rnr_errors, 0);
}

/* Turns keepalives off, because each of them grants credits as well. */
static inline void be_still(void)
{
	p.c.opts.dead_after_ms = p.s.opts.dead_after_ms = RDMAMSG_NONE;
}

/* Pool memory for about 400 messages of a receive buffer's size. */
static const struct rdmamsg_options little = {
	.size = sizeof(little), .max_registered = 4 << 20,
};

static inline void send_until_refused_from(struct end *e, size_t len)
{
	uint64_t quiet = 0;
	uint32_t n = 0;

	/* until refused, and the receiver has granted all that it can */
	while (quiet < 3) {
		uint64_t since = now_ms();
		bool soft = test_on_soft();
		int ret = end_send(e, HOW_SENDV, len, n);

		if (!ret) {
			n++;
			quiet = 0;
			assert_true(n < 100000);
			continue;
		}
		assert_int_equal(ret, -EAGAIN);
		test_pump(soft ? 1 : 200);
		check_notes();
		if (soft && clock_others_sleep() && test_idle())
			return;
		quiet = !soft && now_ms() - since >= 200 ? quiet + 1 : 0;
	}
}

static inline void send_until_refused(size_t len)
{
	send_until_refused_from(&p.c, len);
}

/* credits_held.c */
void held__until_the_limit_THEN_RECOVERS(void **state);
void held__inbox_without_on_message_PUSHES_BACK(void **state);
void limit__held_up_to_the_limit_SENDS_STILL(void **state);
void limit__other_sizes_before_ARE_GIVEN_BACK(void **state);
void limit__no_room_for_the_announcement_WAITS(void **state);
void alloc__beyond_the_limit_EAGAIN(void **state);
void limit__of_the_receiver_ITS_MESSAGES_WAIT(void **state);
void limit__of_the_receiver_NEVER_FITS_EMSGSIZE(void **state);
void limit__small_ones_held_and_freed_LARGE_ARRIVE(void **state);
void behind__a_waiting_one_HOLD_THEIR_CREDITS(void **state);
void both__full_of_what_they_send_ALL_ARRIVES(void **state);
void limit__waits_beyond_fetch_timeout_IS_NOT_PUNISHED(void **state);
void kept__of_one_peer_OTHERS_GO_ON(void **state);
void limit__too_small_and_no_memory_given_CLOSES(void **state);
void limit__smaller_ones_behind_WAIT_THEIR_TURN(void **state);
void limit__below_a_message_IT_COMES_ALONE(void **state);
void kept__of_one_server_LEAVES_HALF_TO_OTHERS(void **state);

#endif
