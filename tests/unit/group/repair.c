/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: with repair every message arrives once and in order, whatever the
 * fabric loses, doubles and disorders; without it every loss is in a gap.
 */
#include "members.h"
#include "soft/control/soft_ctl.h"

static void set_faults(uint32_t drop, uint32_t duplicate, uint32_t reorder)
{
	struct soft_ctl_faults f = {
		.drop = drop, .duplicate = duplicate, .reorder = reorder,
		.delay_us = reorder ? 1000 : 0, .seed = 53,
	};
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	soft_ctl_close(ctl);
}

static void repair__of_what_is_lost_IS_COMPLETE(void **state)
{
	static const uint32_t faults[][3] = {
		{ 0, 0, 0 }, { 10000, 0, 0 }, { 0, 20000, 20000 },
		{ 50000, 10000, 10000 },
	};
	const uint32_t count = 10000;

	for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++) {
		join_all(RDMAMSG_GROUP_REPAIR);
		set_faults(faults[k][0], faults[k][1], faults[k][2]);
		publish(count - 1);
		for (int i = 1; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].due == count);
			assert_int_equal(all[i].messages, count);
			assert_int_equal(all[i].gaps, 0);
			assert_false(all[i].bad);
		}
		set_faults(0, 0, 0);
		rdmamsg_group_leave(all[0].group);
		WAIT_FOR(all[0].closed);
		end_all();
	}
}

/* All messages are whole at once but the lost one, which follows them. */
static void repair__unordered_HOLDS_UP_NOTHING(void **state)
{
	const uint32_t rounds = 20;

	unordered = true;
	join_all(RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_UNORDERED);
	for (uint32_t k = 1; k <= rounds; k++) {
		set_faults(1000000, 0, 0);
		publish(1);
		set_faults(0, 0, 0);
		publish(1);
		for (int i = 1; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].messages == published);
			assert_int_equal(all[i].early, k);
			assert_int_equal(all[i].late, k);
			assert_int_equal(all[i].gaps, 0);
			assert_false(all[i].bad);
		}
	}
	end_all();
	unordered = false;
}

static void loss__without_repair_IS_IN_A_GAP(void **state)
{
	const uint32_t count = 10000;

	join_all(0);
	set_faults(10000, 0, 0);
	publish(count - 1);
	set_faults(0, 0, 0);
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == count + 1);
		assert_int_equal(all[i].messages + all[i].lost, count + 1);
		assert_true(all[i].gaps > 0);
	}
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repair__of_what_is_lost_IS_COMPLETE),
		cmocka_unit_test(repair__unordered_HOLDS_UP_NOTHING),
		cmocka_unit_test(loss__without_repair_IS_IN_A_GAP),
	};

	return run_members("repair", tests, sizeof(tests) / sizeof(*tests));
}
