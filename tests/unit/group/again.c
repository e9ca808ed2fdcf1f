/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a membership that the network has lost is joined again, and
 * nothing is missing then; with its device it ends.
 */
#include "members.h"
#include "cm/rdma/cm.h"
#include "group/carrier.h"
#include "group/group.h"
#include "session/poll.h"
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
		IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_PKEY_CHANGE,
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

static uint32_t qp_of(int i)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };

	assert_int_equal(rdmamsg_group_query(all[i].group, &info), 0);
	return info.qp_num;
}

static void raise_qp_fatal(int i)
{
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL, IBV_EVENT_QP_FATAL,
					qp_of(i)), 0);
}

/* Flushes the receives: their completions report the failure. */
static void set_qp_error(int i)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_int_equal(rdmamsg__verbs_soft.modify_qp(
					all[i].group->carrier->qp, &attr,
					IBV_QP_STATE), 0);
}

static void raise_multicast_error(int i)
{
	struct carrier *c = all[i].group->carrier;
	const struct cm_event ev = {
		.type = RDMA_CM_EVENT_MULTICAST_ERROR, .status = -ENETRESET,
		.ud = { .private_data = all[i].group },
	};

	c->owner.event(all[i].ctx, &c->owner, &ev);
}

/* One member fails at a time. The others keep their membership. */
static void member__that_fails_IS_JOINED_AGAIN(void **state)
{
	static void (*const failures[])(int i) = {
		raise_qp_fatal, set_qp_error, raise_multicast_error,
	};

	begin(RDMAMSG_GROUP_REPAIR);
	for (uint32_t k = 0; k < sizeof(failures) / sizeof(*failures); k++) {
		uint32_t before[] = { qp_of(0), qp_of(1) };

		for (int i = 0; i < 2; i++)
			failures[k](i);
		publish(50);
		for (int i = 0; i < 2; i++) {
			WAIT_FOR(all[i].losses == k + 1);
			WAIT_FOR(all[i].joined == k + 2);
			assert_int_not_equal(qp_of(i), before[i]);
			assert_int_equal(all[i].why.who, k < 2 ?
					 RDMAMSG_WHO_DEVICE :
					 RDMAMSG_WHO_NETWORK);
			assert_true(all[i].why.text[0]);
		}
		publish(1);
		for (int i = 1; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].due == published);
			assert_int_equal(all[i].messages, published);
			assert_false(all[i].bad);
			assert_true(i == 1 || !all[i].losses);
		}
	}
	end();
}

static void leave_lost(struct rdmamsg_group *group,
		       const struct rdmamsg_reason *why)
{
	rdmamsg_group_leave(group);
}

/* A publisher with a low rate has not sent all of its message. */
static void leave__lost_in_a_message_TELLS_IT(void **state)
{
	static uint8_t large[1 << 20];
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_lost = leave_lost,
		.on_closed = on_closed,
	};
	struct end slow = { 0 };
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on, .user = &slow,
		.flags = RDMAMSG_GROUP_PUBLISH, .rate = 100,
	};
	int ret;

	begin(0);
	assert_int_equal(rdmamsg_group_join(all[0].ctx, "239.1.2.9", &opts,
					    &slow.group), 0);
	while ((ret = rdmamsg_group_publish(slow.group, large,
					    sizeof(large))) ==
	       -ENOTCONN)
		turn(1);
	assert_int_equal(ret, 0);
	raise_event(IBV_EVENT_SM_CHANGE);
	WAIT_FOR(slow.closed);
	assert_int_equal(slow.why.error, -ENETRESET);
	assert_non_null(strstr(slow.why.text, "message 0"));
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

/* Completions may tell of the removal before its event does. */
static void device__removed_after_its_flush_ENDS_IT(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR);
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
	for (int i = 0; i <= SUBSCRIBERS; i++) {
		struct rdmamsg_group *g = all[i].group;

		UNTIL_BY((void)rdmamsg__cq_poll(all[i].ctx, 1 << 20),
			 g->state == GROUP_LOST);
		g->timer.fn(&g->timer);
		assert_int_equal(all[i].losses, 0);
	}
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
		cmocka_unit_test(member__that_fails_IS_JOINED_AGAIN),
		cmocka_unit_test(leave__lost_in_a_message_TELLS_IT),
		cmocka_unit_test(device__removed_ENDS_IT),
		cmocka_unit_test(device__removed_after_its_flush_ENDS_IT),
	};

	return run_members("again", tests, sizeof(tests) / sizeof(*tests));
}
