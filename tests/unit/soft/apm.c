/* SPDX-License-Identifier: BSD-2-Clause */
/* Alternate paths: attributes, arming, no path left, false records. */
#include "soft/engine/engine.h"
#include "soft/fabric/push.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "paths.h"

/* ---- what modify takes ------------------------------------------------ */

static void modify__bad_alternate_EINVAL(void **state)
{
	const int mask = IBV_QP_ALT_PATH;
	struct ibv_qp_attr a;

	a = path(0);
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(5);
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_ah_attr.port_num = 1;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_pkey_index = 1;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_timeout = 32;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_ah_attr.grh.sgid_index = 255;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	a = path(2);
	a.alt_ah_attr.is_global = 0;
	assert_int_equal(modify(qp[0], a, mask), EINVAL);
	assert_int_equal(query(qp[0]).alt_port_num, 0);
	/* the path in use may be the alternate one as well */
	assert_int_equal(modify(qp[0], path(1), mask), 0);
	assert_int_equal(query(qp[0]).alt_port_num, 1);
}

static void modify__illegal_migration_EINVAL(void **state)
{
	struct ibv_qp_attr armed = path(2);
	const int mask = IBV_QP_PATH_MIG_STATE;

	armed.path_mig_state = IBV_MIG_ARMED;
	/* nothing to migrate to */
	assert_int_equal(modify(qp[0], path(2), mask), EINVAL);
	assert_int_equal(modify(qp[0], armed, mask | IBV_QP_ALT_PATH), EINVAL);
	assert_int_equal(migrate_by_hand(qp[0]), 0);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_MIGRATED);
	load(0);
	assert_int_equal(migrate_by_hand(qp[0]), EINVAL);
	assert_int_equal(modify(qp[0], armed, mask), EINVAL);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	/* not behind the back of the other end */
	assert_int_equal(modify(qp[0], path(1), IBV_QP_ALT_PATH), EINVAL);
	assert_int_equal(query(qp[0]).alt_port_num, 2);
	enter(qp[0], IBV_QPS_SQD);
	assert_int_equal(migrate_by_hand(qp[0]), EINVAL);
	enter(qp[0], IBV_QPS_RTS);
	expect_events(0, 0, 0, 0);
}

static void modify__each_step_TAKEN(void **state)
{
	struct ibv_qp_attr a = path(2), reset = { .qp_state = IBV_QPS_RESET };
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC;

	assert_int_equal(soft_modify_qp(qp[0], &reset, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.ah_attr = path(1).alt_ah_attr;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = qp[1]->qp_num;
	assert_int_equal(modify(qp[0], a, IBV_QP_STATE | IBV_QP_PORT |
				IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(modify(qp[0], a, rtr | IBV_QP_PATH_MIG_STATE), EINVAL);
	a.alt_port_num = 5;
	assert_int_equal(modify(qp[0], a, rtr | IBV_QP_ALT_PATH), EINVAL);
	a.alt_port_num = 2;
	assert_int_equal(modify(qp[0], a, rtr | IBV_QP_ALT_PATH), 0);
	assert_int_equal(query(qp[0]).alt_port_num, 2);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(modify(qp[0], a, rts | IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_REARM);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	enter(qp[0], IBV_QPS_SQD);
	assert_int_equal(modify(qp[0], path(2), IBV_QP_ALT_PATH |
				IBV_QP_PATH_MIG_STATE), 0);
	expect_state(qp[0], IBV_MIG_ARMED);
	/* reset forgets all of it */
	assert_int_equal(soft_modify_qp(qp[0], &reset, IBV_QP_STATE), 0);
	assert_int_equal(query(qp[0]).alt_port_num, 0);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_MIGRATED);
}

static void capability__TOLD(void **state)
{
	struct ibv_device_attr a;

	assert_int_equal(soft_query_device(c, &a), 0);
	assert_true(a.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
}

/* ---- arming ----------------------------------------------------------- */

static void arm__one_end_STAYS_AT_REARM(void **state)
{
	load(0);
	expect_write(IBV_WC_SUCCESS);
	assert_int_equal(query(qp[0]).path_mig_state, IBV_MIG_REARM);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_MIGRATED);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	expect_state(qp[1], IBV_MIG_ARMED);
	expect_events(0, 0, 0, 0);
}

/* A lost request to arm repeats when the port is up. */
static void arm__port_down_WHEN_IT_IS_UP(void **state)
{
	for (uint8_t port = 1; port < 4; port += 2) {
		set_port(port, SOFT_PORT_BLACK_HOLE);
		load(0);
		load(1);
		assert_int_not_equal(query(qp[0]).path_mig_state,
				     IBV_MIG_ARMED);
		assert_int_not_equal(query(qp[1]).path_mig_state,
				     IBV_MIG_ARMED);
		set_port(port, SOFT_PORT_UP);
		expect_state(qp[0], IBV_MIG_ARMED);
		expect_state(qp[1], IBV_MIG_ARMED);
		connect_anew();
	}
}

static void arm__port_lost_before_RETRY_EXC(void **state)
{
	load(0);
	set_port(1, SOFT_PORT_DOWN);
	expect_write(IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 0, 0);
}

/* ---- no way ----------------------------------------------------------- */

static void alternate__down_PATH_MIG_ERR_then_RETRY_EXC(void **state)
{
	arm();
	set_port(2, SOFT_PORT_DOWN);
	expect_events(0, 0, 0, 0);
	set_port(1, SOFT_PORT_DOWN);
	expect_events(0, 0, 1, 0);
	expect_write(IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 0, 0);
	assert_int_equal(query(qp[0]).port_num, 1);
}

static void alternate__down_below_a_black_hole_PATH_MIG_ERR(void **state)
{
	arm();
	set_port(2, SOFT_PORT_DOWN);
	set_port(3, SOFT_PORT_BLACK_HOLE);
	expect_write(IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 1, 0);
}

static void alternate__up_in_time_MIGRATES(void **state)
{
	arm();
	set_port(2, SOFT_PORT_DOWN);
	set_port(1, SOFT_PORT_DOWN);
	expect_events(0, 0, 1, 0);
	set_port(2, SOFT_PORT_UP);
	expect_events(1, 1, 0, 0);
	expect_write(IBV_WC_SUCCESS);
	expect_ports(2, 4);
}

/* The alternate port seems active and drops all: one migration, no second. */
static void alternate__black_hole_PATH_MIG_then_RETRY_EXC(void **state)
{
	arm();
	set_port(2, SOFT_PORT_BLACK_HOLE);
	set_port(1, SOFT_PORT_DOWN);
	expect_events(1, 0, 0, 0);
	expect_write(IBV_WC_RETRY_EXC_ERR);
	expect_events(0, 0, 0, 0);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_ARMED);
}

static void alternate__dead_at_the_other_end_RETRY_EXC(void **state)
{
	arm();
	set_port(4, SOFT_PORT_DOWN);
	set_port(3, SOFT_PORT_BLACK_HOLE);
	expect_write(IBV_WC_RETRY_EXC_ERR);
	expect_events(1, 0, 0, 0);
}

/* ---- lies ------------------------------------------------------------- */

static void forge(int from, uint8_t op, uint8_t code, uint8_t flags)
{
	struct soft_dev *dev = soft_dev_of(c);
	struct soft_wire *w = soft_qp(qp[from])->wire;
	struct soft_rec *rec;

	soft_lock(dev);
	rec = soft_rec_new(dev, w, 0);
	if (rec) {
		memset(rec, 0, sizeof(*rec));
		rec->op = op;
		rec->code = code;
		rec->flags = flags;
		rec->src = qp[from]->qp_num;
		rec->dst = qp[!from]->qp_num;
		soft_rec_commit(dev, w, 0);
	}
	/* as somebody else's process would leave it to ours */
	(void)soft_progress(dev);
	soft_unlock(dev);
}

static void lies__to_one_who_has_no_alternate_IGNORED(void **state)
{
	for (unsigned int code = 0; code < 256; code++) {
		forge(0, SOFT_PATH, (uint8_t)code, 0);
		forge(0, SOFT_PATH, (uint8_t)code, SOFT_F_PATH);
		forge(0, SOFT_PATH, (uint8_t)code, 0xff);
	}
	expect_events(0, 0, 0, 0);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_MIGRATED);
	expect_write(IBV_WC_SUCCESS);
}

static void lies__to_one_who_waits_TWO_EVENTS(void **state)
{
	load(1);
	for (unsigned int code = 3; code < 256; code++)
		forge(0, SOFT_PATH, (uint8_t)code, SOFT_F_PATH * (code & 1));
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_REARM);
	/* that of an armed end, without having been asked */
	forge(0, SOFT_PATH, IBV_MIG_ARMED, 0);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_ARMED);
	for (int i = 0; i < 1000; i++) {
		forge(0, SOFT_PATH, (uint8_t)(i % 3), SOFT_F_PATH * (i & 1));
		forge(0, SOFT_ACK, 0, SOFT_F_PATH * (i & 1));
	}
	expect_events(0, 1, 0, 1);
	assert_int_equal(query(qp[1]).path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(query(qp[1]).qp_state, IBV_QPS_RTS);
}

/* ---- what is seen from outside ---------------------------------------- */

static void list__ports_and_migration_TOLD(void **state)
{
	struct soft_ctl_qp q[2];
	uint32_t index = 0;

	arm();
	assert_int_equal(soft_ctl_qps(ctl, self(), &index, q, 2), 2);
	assert_int_equal(q[0].port, 1);
	assert_int_equal(q[0].alt_port, 2);
	assert_int_equal(q[0].migration, IBV_MIG_ARMED);
	assert_int_equal(q[1].alt_port, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(modify__bad_alternate_EINVAL),
		TEST(modify__illegal_migration_EINVAL),
		TEST(modify__each_step_TAKEN),
		TEST(capability__TOLD),
		TEST(arm__one_end_STAYS_AT_REARM),
		TEST(arm__port_down_WHEN_IT_IS_UP),
		TEST(arm__port_lost_before_RETRY_EXC),
		TEST(alternate__down_PATH_MIG_ERR_then_RETRY_EXC),
		TEST(alternate__down_below_a_black_hole_PATH_MIG_ERR),
		TEST(alternate__up_in_time_MIGRATES),
		TEST(alternate__black_hole_PATH_MIG_then_RETRY_EXC),
		TEST(alternate__dead_at_the_other_end_RETRY_EXC),
		TEST(lies__to_one_who_has_no_alternate_IGNORED),
		TEST(lies__to_one_who_waits_TWO_EVENTS),
		TEST(list__ports_and_migration_TOLD),
	};

	use_ports("apm");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
