/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the counters of what the device refuses and of what subscribers
 * ask for, and the MLID of a group on an InfiniBand link.
 */
#include "members.h"
#include "base/ctx.h"
#include "device/device.h"
#include "soft/control/soft_ctl.h"

#include <stdlib.h>

#include <rdmamsg/memory.h>

#define MLID_FIRST	0xc000
#define MLID_LAST	0xfffe

static struct rdmamsg_group_stats counters(struct rdmamsg_group *group)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_group_get_stats(group, &st), 0);
	return st;
}

/* ---- refused by the device -------------------------------------------- */

static int refuse_post(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad)
{
	*bad = wr;
	return ENOMEM;
}

static void datagram__refused_by_the_device_IS_COUNTED(void **state)
{
	struct rdmamsg_group_stats before, st;
	struct ibv_context_ops *ops;
	struct rdmamsg_group *g;
	int (*post)(struct ibv_qp *qp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad);

	join_all(0);
	g = all[0].group;
	before = counters(g);
	assert_int_equal(before.sent_failed, 0);
	ops = &list_entry(all[0].ctx->devices->devs.next, struct dev,
			  node)->device->verbs->ops;
	post = ops->post_send;
	ops->post_send = refuse_post;
	assert_int_equal(rdmamsg_group_publish(g, "x", 1), -ENOMEM);
	ops->post_send = post;
	st = counters(g);
	assert_int_equal(st.sent_failed, 1);
	assert_int_equal(st.sent_datagrams, before.sent_datagrams);
	assert_int_equal(st.sent_messages, before.sent_messages);
	/* the publisher goes on, and no number is missing */
	publish(3);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].gaps, 0);
	}
	assert_int_equal(counters(g).sent_failed, 1);
	end_all();
}

/* ---- asked for -------------------------------------------------------- */

static void set_loss(uint32_t millionths)
{
	const struct soft_ctl_faults f = { .drop = millionths };
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	soft_ctl_close(ctl);
}

/* Loses one message for all subscribers, and has them notice. */
static void lose_one(void)
{
	set_loss(1000000);
	publish(1);
	turn(0);
	set_loss(0);
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
}

static uint64_t asked_by_all(void)
{
	uint64_t n = 0;

	for (int i = 1; i <= SUBSCRIBERS; i++)
		n += counters(all[i].group).asked;
	return n;
}

static void request__of_a_subscriber_COUNTS_AT_BOTH(void **state)
{
	join_all(RDMAMSG_GROUP_REPAIR);
	assert_int_equal(asked_by_all(), 0);
	lose_one();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		assert_int_equal(all[i].messages, published);
	assert_true(asked_by_all() >= 1);
	/* nothing is lost now, so the publisher gets every request */
	WAIT_FOR(counters(all[0].group).requests == asked_by_all());
	assert_true(counters(all[0].group).sent_repeated >= 1);
	assert_int_equal(counters(all[0].group).asked, 0);
	end_all();
}

static void request__without_repair_IS_NEVER_SENT(void **state)
{
	join_all(0);
	lose_one();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		assert_int_equal(all[i].lost, 1);
	assert_int_equal(asked_by_all(), 0);
	assert_int_equal(counters(all[0].group).requests, 0);
	end_all();
}

/* ---- the MLID --------------------------------------------------------- */

static uint16_t mlid_of(struct rdmamsg_group *group)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };

	assert_int_equal(rdmamsg_group_query(group, &info), 0);
	return info.mlid;
}

static void mlid__on_ethernet_IS_ZERO(void **state)
{
	join_all(0);
	assert_int_equal(mlid_of(all[0].group), 0);
	end_all();
}

static void join_link_ib(void)
{
	join_own_fabric("counts-ib");
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", "ib", 1), 0);
}

static void mlid__on_infiniband_IS_THE_SAME_FOR_ALL(void **state)
{
	const struct rdmamsg_group_options opts = { .size = sizeof(opts) };
	struct rdmamsg_group *other;
	uint16_t mlid;

	join_link_ib();
	join_all(0);
	mlid = mlid_of(all[0].group);
	assert_in_range(mlid, MLID_FIRST, MLID_LAST);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		assert_int_equal(mlid_of(all[i].group), mlid);
	assert_int_equal(rdmamsg_group_join(all[0].ctx, "239.1.2.4", &opts,
					    &other), 0);
	WAIT_FOR(counters(other).joins);
	assert_in_range(mlid_of(other), MLID_FIRST, MLID_LAST);
	assert_int_not_equal(mlid_of(other), mlid);
	publish(10);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagram__refused_by_the_device_IS_COUNTED),
		cmocka_unit_test(request__of_a_subscriber_COUNTS_AT_BOTH),
		cmocka_unit_test(request__without_repair_IS_NEVER_SENT),
		cmocka_unit_test(mlid__on_ethernet_IS_ZERO),
		cmocka_unit_test(mlid__on_infiniband_IS_THE_SAME_FOR_ALL),
	};

	(void)unsetenv("RDMAMSG_SOFT_LINK");
	return run_members("counts", tests, sizeof(tests) / sizeof(*tests));
}
