/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration: an alternate path over the port in use, so that no
 * second port is needed, and no port fails.
 */
#include "device.h"

#include <poll.h>

#define ALT_TIMEOUT	14
#define ARMED_MS	5000

static struct ibv_qp_attr alternate(void)
{
	struct ibv_qp_attr a = {
		.alt_port_num = port_num, .alt_timeout = ALT_TIMEOUT,
		.path_mig_state = IBV_MIG_REARM,
	};

	address(&a.alt_ah_attr, NULL);
	return a;
}

static int try_load(int i)
{
	struct ibv_qp_attr a = alternate();

	return -rdmamsg__verbs_ret(v->modify_qp(end[i].qp, &a, IBV_QP_ALT_PATH |
						IBV_QP_PATH_MIG_STATE));
}

/* Linux refuses alternate paths on Ethernet, and Soft-RoCE reports the flag. */
static void apm__device_supports_it(void)
{
	struct ibv_device_attr a;

	check_call(v->query_device(ctx, &a), 0);
	if (!has(PATH_MIGRATION, !is_iwarp() && a.device_cap_flags &
				 IBV_DEVICE_AUTO_PATH_MIG))
		skip_rest("the device reports no path migration");
	pair();
	if (!has(PATH_MIGRATION, !try_load(0)))
		skip_rest("the device refuses an alternate path");
}

static enum ibv_mig_state migration(int i)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	check_call(v->query_qp(end[i].qp, &a, IBV_QP_PATH_MIG_STATE, &init),
		   0);
	return a.path_mig_state;
}

/* Sends a message from either end. */
static void works(uint64_t id)
{
	for (int i = 0; i < 2; i++) {
		struct request r = request(IBV_WR_SEND, id, 0);

		receive(!i, 100 + id, 0, 0);
		post(i, &r);
		(void)sent(i, id, IBV_WC_SUCCESS);
		(void)received(!i, 100 + id, IBV_WC_SUCCESS);
	}
}

static void await_armed(void)
{
	const int64_t until = now_ms() + bound(ARMED_MS, NOT_ARMED);

	while (migration(0) != IBV_MIG_ARMED || migration(1) != IBV_MIG_ARMED) {
		if (now_ms() > until)
			fail(__FILE__, __LINE__, NOT_ARMED);
		(void)poll(NULL, 0, 1);
	}
}

/* Traffic tells each end that the other has loaded its path. */
static void arm(void)
{
	pair();
	for (int i = 0; i < 2; i++)
		check_is(try_load(i), 0);
	works(1);
	await_armed();
}

static void migrate(int i)
{
	struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_MIGRATED };

	check_call(v->modify_qp(end[i].qp, &a, IBV_QP_PATH_MIG_STATE), 0);
}

static void path__new_queue_pair_MIGRATED(void)
{
	pair();
	check_is(migration(0), IBV_MIG_MIGRATED);
	check_is(migration(1), IBV_MIG_MIGRATED);
}

static void path__loaded_at_one_end_REARM_ONLY(void)
{
	pair();
	check_is(try_load(0), 0);
	works(1);
	check_is(migration(0), IBV_MIG_REARM);
	check_is(migration(1), IBV_MIG_MIGRATED);
}

static void path__loaded_at_both_ends_ARMED(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	arm();
	check_call(v->query_qp(end[0].qp, &a, IBV_QP_ALT_PATH, &init), 0);
	check_is(a.alt_port_num, port_num);
	check_is(a.alt_timeout, ALT_TIMEOUT);
	check(!memcmp(&a.alt_ah_attr.grh.dgid, &gid, sizeof(gid)));
	works(2);
}

/* Both ends have the event, whichever has migrated by itself. */
static void path__migrated_by_hand_TOLD_AND_WORKS(void)
{
	bool told[2] = { false, false };

	arm();
	migrate(0);
	works(2);
	for (int n = 0; n < 2; n++) {
		struct ibv_async_event e = expect_event(IBV_EVENT_PATH_MIG);

		told[e.element.qp == end[1].qp] = true;
	}
	check(told[0] && told[1]);
	check_is(migration(0), IBV_MIG_MIGRATED);
	check_is(migration(1), IBV_MIG_MIGRATED);
	quiet();
}

static void path__migrated_under_load_NOTHING_IS_LOST(void)
{
	struct request r;

	arm();
	for (uint64_t i = 0; i < 16; i++)
		receive(1, 200 + i, 0, MEM);
	fill(0, 7);
	for (uint64_t i = 0; i < 16; i++) {
		r = request(IBV_WR_SEND, 10 + i, MEM);
		post(0, &r);
	}
	migrate(0);
	for (uint64_t i = 0; i < 16; i++) {
		(void)sent(0, 10 + i, IBV_WC_SUCCESS);
		(void)received(1, 200 + i, IBV_WC_SUCCESS);
	}
	same(MEM);
	quiet();
}

static void path__armed_again_MIGRATES_BACK(void)
{
	arm();
	migrate(0);
	works(2);
	(void)expect_event(IBV_EVENT_PATH_MIG);
	(void)expect_event(IBV_EVENT_PATH_MIG);
	for (int i = 0; i < 2; i++)
		check_is(try_load(i), 0);
	works(3);
	await_armed();
	migrate(1);
	works(4);
	quiet();
}

const struct device_case apm_cases[] = {
	GATE(apm__device_supports_it),
	CASE(path__new_queue_pair_MIGRATED),
	CASE(path__loaded_at_one_end_REARM_ONLY),
	CASE(path__loaded_at_both_ends_ARMED),
	CASE(path__migrated_by_hand_TOLD_AND_WORKS),
	CASE(path__migrated_under_load_NOTHING_IS_LOST),
	CASE(path__armed_again_MIGRATES_BACK),
	{ .name = NULL },
};
