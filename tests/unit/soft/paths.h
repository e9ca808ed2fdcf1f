/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair 0 has its paths on ports 1 and 2, queue pair 1 on ports 3 and 4,
 * so that each can lose its own.
 */
#ifndef TESTS_UNIT_SOFT_PATHS_H
#define TESTS_UNIT_SOFT_PATHS_H

#include "soft/control/soft_ctl.h"
#include "soft/fabric/limits.h"
#include "soft/soft.h"
#include "pair.h"
#include "../own_fabric.h"

static struct soft_ctl *ctl;
static const uint8_t alternate[2] = { 2, 4 };
static unsigned int moved[2], refused[2];	/* events seen */

static inline uint32_t self(void)
{
	return qp[0]->qp_num >> SOFT_QPN_BITS;
}

static inline void set_port(uint8_t port, enum soft_port state)
{
	assert_int_equal(soft_ctl_port(ctl, self(), port, state), 0);
}

static inline struct ibv_qp_attr query(struct ibv_qp *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(soft_query_qp(q, &a, IBV_QP_PATH_MIG_STATE, &init), 0);
	return a;
}

static inline struct ibv_qp_attr path(uint8_t port)
{
	return (struct ibv_qp_attr){
		.alt_ah_attr = {
			.port_num = port, .is_global = 1, .sl = port,
			.grh.dgid.raw = { [15] = 1 },
		},
		.alt_port_num = port, .alt_timeout = 9,
		.path_mig_state = IBV_MIG_REARM,
	};
}

static inline int modify(struct ibv_qp *q, struct ibv_qp_attr a, int mask)
{
	return soft_modify_qp(q, &a, mask);
}

static inline int migrate_by_hand(struct ibv_qp *q)
{
	return modify(q, (struct ibv_qp_attr){
			.path_mig_state = IBV_MIG_MIGRATED },
		      IBV_QP_PATH_MIG_STATE);
}

static inline void load(int i)
{
	assert_int_equal(modify(qp[i], path(alternate[i]),
				IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static inline void expect_state(struct ibv_qp *q, enum ibv_mig_state state)
{
	for (int i = 0; i < 20000 && query(q).path_mig_state != state; i++)
		(void)poll(NULL, 0, 1);
	assert_int_equal(query(q).path_mig_state, state);
}

static inline void arm(void)
{
	load(0);
	load(1);
	expect_state(qp[0], IBV_MIG_ARMED);
	expect_state(qp[1], IBV_MIG_ARMED);
}

static inline void rearm(void)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(modify(qp[i], path(0), IBV_QP_PATH_MIG_STATE),
				 0);
	expect_state(qp[0], IBV_MIG_ARMED);
	expect_state(qp[1], IBV_MIG_ARMED);
}

/* Reads all waiting events, and ignores those of ports. */
static inline void collect(void)
{
	struct ibv_async_event ev;

	while (event_waits()) {
		assert_int_equal(soft_get_async_event(c, &ev), 0);
		if (ev.event_type == IBV_EVENT_PATH_MIG)
			moved[ev.element.qp == qp[1]]++;
		else if (ev.event_type == IBV_EVENT_PATH_MIG_ERR)
			refused[ev.element.qp == qp[1]]++;
		soft_ack_async_event(&ev);
	}
}

static inline void expect_events(unsigned int m0, unsigned int m1,
				 unsigned int r0, unsigned int r1)
{
	for (int i = 0; i < 20000; i++) {
		collect();
		if (moved[0] >= m0 && moved[1] >= m1 && refused[0] >= r0 &&
		    refused[1] >= r1)
			break;
		(void)poll(NULL, 0, 1);
	}
	assert_int_equal(moved[0], m0);
	assert_int_equal(moved[1], m1);
	assert_int_equal(refused[0], r0);
	assert_int_equal(refused[1], r1);
	memset(moved, 0, sizeof(moved));
	memset(refused, 0, sizeof(refused));
}

static inline void expect_ports(uint8_t p0, uint8_t p1)
{
	const uint8_t want[2] = { p0, p1 };

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = query(qp[i]);

		assert_int_equal(a.path_mig_state, IBV_MIG_MIGRATED);
		assert_int_equal(a.port_num, want[i]);
	}
}

/* Resets both queue pairs and connects them again. */
static inline void connect_anew(void)
{
	for (int i = 0; i < 2; i++)
		enter(qp[i], IBV_QPS_RESET);
	for (int i = 0; i < 2; i++)
		walk(qp[i], qp[!i]->qp_num);
}

static inline int setup(void **state)
{
	if (setup_pair(state))
		return -1;
	memset(moved, 0, sizeof(moved));
	memset(refused, 0, sizeof(refused));
	return soft_ctl_open(NULL, &ctl);
}

static inline int teardown(void **state)
{
	set_port(0, SOFT_PORT_UP);
	soft_ctl_close(ctl);
	collect();
	return teardown_pair(state);
}

/* Writes to the other end, and expects this status. */
static inline void expect_write(enum ibv_wc_status status)
{
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, 1, 8,
			      (uintptr_t)mem[1], mr[1]->rkey), 0);
	expect(1, status);
}

/* The environment of such tests, on a fabric of their own. */
static inline void use_ports(const char *test)
{
	port_of[1] = 3;
	join_own_fabric(test);
	(void)setenv("RDMAMSG_SOFT_PORTS", "4", 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
