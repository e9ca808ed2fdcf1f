/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a few subscribers have a loss repaired while no time passes; the
 * loss of the last message shows after two round trips. Under the test's clock.
 */
#include "members.h"
#include "moved_clock.h"
#include "base/list.h"
#include "group/audience.h"
#include "group/group.h"
#include "soft/control/soft_ctl.h"

#define BEAT_US	10000u		/* longest pause before a heartbeat */

static void drop_all(bool on)
{
	struct soft_ctl_faults f = { .drop = on ? 1000000 : 0, .seed = 53 };
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	soft_ctl_close(ctl);
}

static uint32_t longest_rtt(void)
{
	uint32_t longest = 0;

	for (int i = 1; i <= SUBSCRIBERS; i++) {
		struct list *first = all[i].group->members.next;
		struct member *m;

		if (first == &all[i].group->members)
			return UINT32_MAX;
		m = list_entry(first, struct member, node);
		if (!m->rtt || m->audience != SUBSCRIBERS)
			return UINT32_MAX;
		longest = max(longest, m->rtt);
	}
	return longest;
}

/* Until all have reported, and their round trips are short. */
static void know_each_other(void)
{
	for (int i = 0; i < TURNS && longest_rtt() > BEAT_US / 8; i++) {
		for (int k = 0; k < 64; k++)
			turn(0);
		turn(1);
		now += 500;
	}
	assert_true(longest_rtt() <= BEAT_US / 8);
	/* the publisher has these round trips, too */
	for (int i = 0; i < 4000; i++) {
		turn(0);
		now += 1000;
	}
}

static void loss__of_few_NO_TIME_PASSES(void **state)
{
	join_all(RDMAMSG_GROUP_REPAIR);
	know_each_other();
	for (int i = 0; i < 20; i++) {
		now += BEAT_US;		/* from one request to the next */
		drop_all(true);
		publish(1);
		drop_all(false);
		publish(1);
		assert_true(comes_at_once(published));
	}
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		assert_int_equal(all[i].gaps, 0);
		assert_false(all[i].bad);
	}
	end_all();
}

static void loss__of_the_last_SHOWS_AFTER_TWO_ROUND_TRIPS(void **state)
{
	join_all(RDMAMSG_GROUP_REPAIR);
	know_each_other();
	/* the heartbeat of what was published before is far away */
	drop_all(true);
	publish(1);
	drop_all(false);
	assert_false(comes_at_once(published));
	now += 2 * longest_rtt() + 100;
	assert_true(2 * longest_rtt() + 100 < BEAT_US);
	assert_true(comes_at_once(published));
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss__of_few_NO_TIME_PASSES),
		cmocka_unit_test(loss__of_the_last_SHOWS_AFTER_TWO_ROUND_TRIPS),
	};

	return run_members("at_once", tests, sizeof(tests) / sizeof(*tests));
}
