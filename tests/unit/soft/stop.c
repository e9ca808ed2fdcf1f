/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer whose process is stopped, and killed while stopped. */
#include "soft/control/soft_ctl.h"
#include "other.h"

#include "../own_fabric.h"

/* Far longer than three tries with an ack timeout of 1 ms. */
#define LONG_MS	300

static int waits(int fd)
{
	return hear(fd) ? 0 : 1;
}

static struct other start_stopped(void)
{
	struct other o = start_other(waits);
	int status;

	assert_int_equal(kill(o.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(o.pid, &status, WUNTRACED), o.pid);
	assert_true(WIFSTOPPED(status));
	return o;
}

static void write_to(const struct other *o, uint64_t id)
{
	mem[0][id] = (uint8_t)(id + 1);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_WRITE, id, 8, o->addr,
			      o->rkey), 0);
}

static void expect_silence(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < LONG_MS; i++) {
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
		(void)poll(NULL, 0, 1);
	}
}

static void stopped__for_long_GOES_ON(void **state)
{
	struct other o = start_stopped();

	for (uint64_t i = 0; i < 8; i++)
		write_to(&o, i);
	expect_silence();
	assert_int_equal(kill(o.pid, SIGCONT), 0);
	for (uint64_t i = 0; i < 8; i++)
		expect(i, IBV_WC_SUCCESS);
	assert_true(say(o.fd));
	end_other(&o, 0);
}

static void stopped__then_killed_RETRY_EXC(void **state)
{
	struct other o = start_stopped();

	write_to(&o, 0);
	write_to(&o, 1);
	expect_silence();
	assert_int_equal(kill(o.pid, SIGKILL), 0);
	expect(0, IBV_WC_RETRY_EXC_ERR);
	expect(1, IBV_WC_WR_FLUSH_ERR);
	end_other(&o, SIGKILL);
}

/* A stopped node times out, and rdmamsg-soft-ctl(1) still sees the others. */
static void stopped__others_are_still_told_OF(void **state)
{
	struct other o = start_stopped();
	struct soft_ctl_node node;
	struct soft_ctl *ctl;
	uint32_t next = 0;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_next(ctl, &next, &node), -ETIMEDOUT);
	assert_int_equal(soft_ctl_next(ctl, &next, &node), 0);
	assert_int_equal(node.pid, getpid());
	soft_ctl_close(ctl);
	assert_int_equal(kill(o.pid, SIGCONT), 0);
	assert_true(say(o.fd));
	end_other(&o, 0);
}

static void stopped__behind_a_black_hole_RETRY_EXC(void **state)
{
	struct other o = start_stopped();
	struct soft_ctl *ctl;
	uint32_t node = qp[0]->qp_num >> 14;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_port(ctl, node, 0, SOFT_PORT_BLACK_HOLE), 0);
	write_to(&o, 0);
	expect(0, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(soft_ctl_port(ctl, node, 0, SOFT_PORT_UP), 0);
	soft_ctl_close(ctl);
	assert_int_equal(kill(o.pid, SIGCONT), 0);
	assert_true(say(o.fd));
	end_other(&o, 0);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/*
 * The death of the peer's process does not cut short a try that is under way.
 */
static void killed__behind_a_black_hole_TAKES_ALL_TRIES(void **state)
{
	struct soft_ctl *ctl;
	struct other o;
	uint64_t began;
	uint32_t node;

	ack_timeout = 15;		/* 134 ms */
	o = start_other(waits);
	ack_timeout = 8;
	node = qp[0]->qp_num >> 14;
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_port(ctl, node, 0, SOFT_PORT_BLACK_HOLE), 0);
	began = now_ms();
	write_to(&o, 0);
	assert_int_equal(kill(o.pid, SIGKILL), 0);
	expect(0, IBV_WC_RETRY_EXC_ERR);
	assert_true(now_ms() - began >= 3 * 134);
	assert_int_equal(soft_ctl_port(ctl, node, 0, SOFT_PORT_UP), 0);
	soft_ctl_close(ctl);
	end_other(&o, SIGKILL);
}

/* A queue pair can be brought to an end at any time. */
static void stopped__modify_to_ERR_FLUSHES(void **state)
{
	struct other o = start_stopped();

	write_to(&o, 0);
	enter(qp[0], IBV_QPS_ERR);
	expect(0, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(kill(o.pid, SIGCONT), 0);
	assert_true(say(o.fd));
	end_other(&o, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped__for_long_GOES_ON),
		cmocka_unit_test(stopped__then_killed_RETRY_EXC),
		cmocka_unit_test(stopped__others_are_still_told_OF),
		cmocka_unit_test(stopped__behind_a_black_hole_RETRY_EXC),
		cmocka_unit_test(killed__behind_a_black_hole_TAKES_ALL_TRIES),
		cmocka_unit_test(stopped__modify_to_ERR_FLUSHES),
	};

	join_own_fabric("stop");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
