/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a membership that the network has lost is joined again, and
 * nothing is missing then; with its device it ends.
 */
#include "members.h"
#include "soft/control/soft_ctl.h"

static struct soft_ctl *ctl;

static void raise_event(enum ibv_event_type type)
{
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL, type, 1), 0);
}

/* There is a fabric once somebody has joined. */
static void begin(uint32_t flags)
{
	join_all(flags);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
}

static void end(void)
{
	soft_ctl_close(ctl);
	end_all();
}

static void membership__lost_IS_JOINED_AGAIN(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_SM_CHANGE, IBV_EVENT_LID_CHANGE,
		IBV_EVENT_CLIENT_REREGISTER,
	};
	uint32_t count = 1;

	begin(RDMAMSG_GROUP_REPAIR);
	for (uint32_t k = 0; k < sizeof(types) / sizeof(*types); k++) {
		raise_event(types[k]);
		for (int i = 0; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].losses == k + 1);
			assert_int_equal(all[i].why.who, RDMAMSG_WHO_NETWORK);
			assert_int_equal(all[i].why.error, -ENETRESET);
		}
		/* some of it before all are back */
		publish(100);
		count += 100;
		for (int i = 0; i <= SUBSCRIBERS; i++)
			WAIT_FOR(all[i].joined == k + 2);
		for (int i = 1; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].due == count);
			assert_int_equal(all[i].messages, count);
			assert_int_equal(all[i].gaps, 0);
			assert_false(all[i].bad);
		}
	}
	end();
}

static void port__down_and_up_again_LACKS_NOTHING(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR);
	for (uint32_t k = 1; k <= 3; k++) {
		assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 1,
					       SOFT_PORT_DOWN), 0);
		publish(50);
		for (int i = 0; i <= SUBSCRIBERS; i++)
			assert_int_equal(all[i].losses, k - 1);
		assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 1,
					       SOFT_PORT_UP), 0);
		for (int i = 0; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].losses == k);
			WAIT_FOR(all[i].joined == k + 1);
		}
		publish(1);
		for (int i = 1; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].due == published);
			assert_int_equal(all[i].messages, published);
			assert_false(all[i].bad);
		}
	}
	end();
}

static void event__that_changes_nothing_IS_IGNORED(void **state)
{
	begin(0);
	raise_event(IBV_EVENT_GID_CHANGE);
	raise_event(IBV_EVENT_PORT_ACTIVE);
	/* what they would have lost by it */
	for (int i = 0; i < 20; i++)
		turn(1);
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == 2);
		assert_int_equal(all[i].losses, 0);
		assert_int_equal(all[i].joined, 1);
	}
	end();
}

static void device__removed_ENDS_IT(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR);
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
	for (int i = 0; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].closed);
		assert_int_equal(all[i].why.cause, RDMAMSG_CAUSE_REMOVED);
		assert_int_equal(all[i].losses, 0);
	}
	assert_int_equal(soft_ctl_add(ctl, SOFT_CTL_ALL), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(membership__lost_IS_JOINED_AGAIN),
		cmocka_unit_test(port__down_and_up_again_LACKS_NOTHING),
		cmocka_unit_test(event__that_changes_nothing_IS_IGNORED),
		cmocka_unit_test(device__removed_ENDS_IT),
	};

	return run_members("again", tests, sizeof(tests) / sizeof(*tests));
}
