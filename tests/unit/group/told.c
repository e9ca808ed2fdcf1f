/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: each message is told once, delivered or in a gap, also around a
 * lost membership and behind the end of a sender; and nobody repeats what was
 * not lost.
 */
#include "members.h"
#include "soft/control/soft_ctl.h"

static struct soft_ctl *ctl;

/* Messages go out while subscribers are between two queue pairs. */
static void lose_and_publish(uint32_t flags)
{
	join_all(flags);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	for (int k = 0; k < 6; k++) {
		assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL,
						IBV_EVENT_SM_CHANGE, 1), 0);
		publish(40);
	}
	for (int i = 0; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].losses && all[i].joined == all[i].losses + 1);
	soft_ctl_close(ctl);
}

static void membership__lost_TELLS_ALL_THE_SAME(void **state)
{
	lose_and_publish(0);
	/* its place is another one, which is believed after a moment */
	for (uint64_t end = rdmamsg__now_ms() + WAIT_MS;
	     all[1].due != published || all[2].due != published ||
	     all[3].due != published;) {
		assert_true(rdmamsg__now_ms() < end);
		publish(1);
		turn(10);
		turn(10);
	}
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		assert_int_equal(all[i].messages + all[i].lost, published);
		assert_false(all[i].bad);
	}
	end_all();
}

static void membership__lost_with_repair_LACKS_NOTHING(void **state)
{
	lose_and_publish(RDMAMSG_GROUP_REPAIR);
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].messages, published);
		assert_false(all[i].bad);
	}
	end_all();
}

/* A heartbeat in the middle of a message does not count the message. */
static void message__on_its_way_IS_NOT_ASKED_FOR(void **state)
{
	static uint8_t large[1 << 20];
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .rate = 5000,
		.flags = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_PUBLISH,
	};
	struct rdmamsg_group_stats s = { .size = sizeof(s) };
	struct rdmamsg_group *slow;

	join_all(RDMAMSG_GROUP_REPAIR);
	assert_int_equal(rdmamsg_group_join(all[0].ctx, GROUP, &opts, &slow),
			 0);
	for (int i = 0; i < 3; i++) {
		int ret;

		/* until the one before it has gone out */
		while ((ret = rdmamsg_group_publish(slow, large,
						    sizeof(large))) ==
		       -EAGAIN || ret == -ENOTCONN)
			turn(1);
		assert_int_equal(ret, 0);
	}
	while (rdmamsg_group_publish(slow, large, 1) == -EAGAIN)
		turn(1);
	assert_int_equal(rdmamsg_group_get_stats(slow, &s), 0);
	/* of a receiver that was not served in time, if any */
	assert_true(s.sent_repeated < s.sent_datagrams / 10);
	end_all();
}

/* ---- the first messages ----------------------------------------------- */

static struct {
	uint32_t messages, lost;
} early;

static void count_message(struct rdmamsg_group *group,
			  const struct rdmamsg_group_message *msg)
{
	early.messages++;
}

static void count_gap(struct rdmamsg_group *group,
		      const struct rdmamsg_group_sender *sender, uint32_t from,
		      uint32_t to)
{
	early.lost += to - from + 1;
}

/*
 * The subscriber was there before the publisher. All of it is lost, and then the
 * network is whole again.
 */
static void message__first_of_all_IS_MISSED(void **state)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_message = count_message,
		.on_gap = count_gap,
	};
	const struct soft_ctl_faults all_lost = { .drop = 1000000 };
	const struct soft_ctl_faults none = { .drop = 0 };

	join_all(0);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	for (uint32_t k = 0; k < 2; k++) {
		struct rdmamsg_group_options opts = {
			.size = sizeof(opts), .handlers = &on,
			.flags = RDMAMSG_GROUP_SUBSCRIBE |
				 (k ? RDMAMSG_GROUP_REPAIR : 0u),
		};
		struct rdmamsg_group_stats s = { .size = sizeof(s) };
		struct rdmamsg_group *from, *to;

		memset(&early, 0, sizeof(early));
		assert_int_equal(rdmamsg_group_join(all[1].ctx, "239.1.2.5",
						    &opts, &to), 0);
		WAIT_FOR(!rdmamsg_group_get_stats(to, &s) && s.joins);
		opts.flags ^= RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_PUBLISH;
		assert_int_equal(rdmamsg_group_join(all[0].ctx, "239.1.2.5",
						    &opts, &from), 0);
		WAIT_FOR(!rdmamsg_group_get_stats(from, &s) && s.joins);
		/* idle, and known */
		WAIT_FOR(!rdmamsg_group_get_stats(to, &s) && s.senders);
		assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &all_lost),
				 0);
		for (int i = 0; i < 5; i++)
			assert_int_equal(rdmamsg_group_publish(from, "x", 1),
					 0);
		turn(0);
		assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &none), 0);
		assert_int_equal(rdmamsg_group_publish(from, "x", 1), 0);
		WAIT_FOR(early.messages + early.lost == 6);
		assert_true(!k || early.messages == 6);
		rdmamsg_group_leave(from);
		rdmamsg_group_leave(to);
	}
	soft_ctl_close(ctl);
	end_all();
}

/* ---- behind the end --------------------------------------------------- */

#define NUMBERS	20u

static uint32_t told[NUMBERS];

static void note_message(struct rdmamsg_group *group,
			 const struct rdmamsg_group_message *msg)
{
	assert_true(msg->number < NUMBERS);
	told[msg->number]++;
}

static void note_gap(struct rdmamsg_group *group,
		     const struct rdmamsg_group_sender *sender, uint32_t first,
		     uint32_t last)
{
	for (; first <= last && first < NUMBERS; first++)
		told[first]++;
}

static void message__behind_the_end_IS_DROPPED(void **state)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_message = note_message,
		.on_gap = note_gap,
	};
	const struct soft_ctl_faults faults = {
		.duplicate = 200000, .reorder = 300000, .delay_us = 1000,
		.seed = 7,
	};
	const struct soft_ctl_faults none = { .drop = 0 };

	join_all(0);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	for (int k = 0; k < 20; k++) {
		struct rdmamsg_group_options opts = {
			.size = sizeof(opts), .handlers = &on,
		};
		struct rdmamsg_group *from, *to;

		memset(told, 0, sizeof(told));
		opts.flags = RDMAMSG_GROUP_SUBSCRIBE;
		assert_int_equal(rdmamsg_group_join(all[1].ctx, "239.1.2.4",
						    &opts, &to), 0);
		opts.flags = RDMAMSG_GROUP_PUBLISH;
		assert_int_equal(rdmamsg_group_join(all[0].ctx, "239.1.2.4",
						    &opts, &from), 0);
		WAIT_FOR(rdmamsg_group_publish(from, "x", 1) != -ENOTCONN);
		assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &faults),
				 0);
		for (uint32_t i = 1; i < NUMBERS; i++)
			assert_int_equal(rdmamsg_group_publish(from, "x", 1),
					 0);
		rdmamsg_group_leave(from);
		for (int i = 0; i < 20; i++)
			turn(2);
		assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &none), 0);
		for (uint32_t i = 0; i < NUMBERS; i++)
			assert_true(told[i] <= 1);
		rdmamsg_group_leave(to);
	}
	soft_ctl_close(ctl);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(membership__lost_TELLS_ALL_THE_SAME),
		cmocka_unit_test(membership__lost_with_repair_LACKS_NOTHING),
		cmocka_unit_test(message__on_its_way_IS_NOT_ASKED_FOR),
		cmocka_unit_test(message__first_of_all_IS_MISSED),
		cmocka_unit_test(message__behind_the_end_IS_DROPPED),
	};

	return run_members("told", tests, sizeof(tests) / sizeof(*tests));
}
