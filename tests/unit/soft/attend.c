/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that waits for the device's own doorbell: another process rings it,
 * and the events of the channel are not lost.
 */
#include "soft/fabric/dev.h"
#include "soft/soft.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/ctx.h"
#include "other.h"

#include <poll.h>

#include "../own_fabric.h"

#define BOUND_MS	30000

struct order {
	enum ibv_wr_opcode op;
	uint32_t rkey;
	uint64_t addr;
};

static struct other other;
static int near;			/* the doorbell */

/* The other process posts what it is told to, and says when it is done. */
static int obey(int fd)
{
	struct order o;

	while (read(fd, &o, sizeof(o)) == sizeof(o)) {
		assert_int_equal(post(qp[1], o.op, 1, 8, o.addr, o.rkey), 0);
		expect(1, IBV_WC_SUCCESS);
		assert_true(say(fd));
	}
	return 0;
}

static void order(enum ibv_wr_opcode op)
{
	const struct order o = { op, mr[0]->rkey, (uintptr_t)mem[0] };

	assert_int_equal(write(other.fd, &o, sizeof(o)), sizeof(o));
}

static bool is_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static int set_up(void **state)
{
	with_channel = true;
	other = start_other(obey);
	near = soft_attend_fd(channel);
	assert_true(near >= 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(post_recv(qp[0], 2, 8), 0);
	assert_int_equal(soft_req_notify_cq(cq, 0), 0);
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(shutdown(other.fd, SHUT_WR), 0);
	end_other(&other, 0);
	return 0;
}

static bool is_empty(void)
{
	struct soft_dev *dev = soft_dev_of(c);
	bool empty;

	soft_lock(dev);
	empty = soft_cq(cq)->head == soft_cq(cq)->tail;
	soft_unlock(dev);
	return empty;
}

/*
 * Waits as a loop does, until what the other process sends is in the queue. The
 * doorbell may ring for something else before.
 */
static void wait_for_send(void)
{
	uint64_t rung;

	assert_true(soft_attend_wait(channel));
	order(IBV_WR_SEND);
	do {
		assert_true(is_readable(near, BOUND_MS));
		assert_int_equal(read(near, &rung, sizeof(rung)), sizeof(rung));
		soft_attend_woken(channel);
	} while (is_empty() && soft_attend_wait(channel));
	soft_attend_woken(channel);
	assert_true(hear(other.fd));
}

/* Takes the event of the channel, if there is one, and arms the queue again. */
static unsigned int take_event(void)
{
	struct ibv_cq *from;
	void *context;

	if (!is_readable(channel->fd, 0))
		return 0;
	assert_int_equal(soft_get_cq_event(channel, &from, &context), 0);
	assert_ptr_equal(from, cq);
	soft_ack_cq_events(cq, 1);
	assert_int_equal(soft_req_notify_cq(cq, 0), 0);
	return 1;
}

/* The thread may be awake for another reason, and then raises one. */
static void messages__while_waiting_RAISE_HARDLY_AN_EVENT(void **state)
{
	unsigned int events = 0;

	for (int i = 0; i < 200; i++) {
		wait_for_send();
		expect(2, IBV_WC_SUCCESS);
		soft_attend_done(channel);
		events += take_event();
		assert_int_equal(post_recv(qp[0], 2, 8), 0);
	}
	assert_true(events < 100);
}

static void message__not_polled_RAISES_THE_EVENT_afterwards(void **state)
{
	wait_for_send();
	soft_attend_done(channel);
	assert_int_equal(take_event(), 1);
	expect(2, IBV_WC_SUCCESS);
}

static void message__while_nobody_attends_RAISES_AN_EVENT(void **state)
{
	order(IBV_WR_SEND);
	assert_true(is_readable(channel->fd, BOUND_MS));
	assert_true(hear(other.fd));
	assert_int_equal(take_event(), 1);
	expect(2, IBV_WC_SUCCESS);
}

/* The thread does what the program has no time for. */
static void write__while_the_program_is_busy_IS_DONE(void **state)
{
	mem[0][0] = 1;
	wait_for_send();
	order(IBV_WR_RDMA_WRITE);	/* the other process has 0 there */
	assert_true(is_readable(other.fd, BOUND_MS) && hear(other.fd));
	soft_attend_done(channel);
	assert_int_equal(mem[0][0], 0);
	expect(2, IBV_WC_SUCCESS);
}

static void channel__second_one_HAS_NO_DOORBELL(void **state)
{
	struct ibv_comp_channel *second = soft_create_comp_channel(c);

	assert_non_null(second);
	assert_int_equal(soft_attend_fd(second), -1);
	assert_int_equal(soft_attend_fd(channel), near);
	assert_int_equal(soft_destroy_comp_channel(second), 0);
}

static void channel__of_the_doorbell_destroyed_NEXT_ONE_HAS_IT(void **state)
{
	struct ibv_comp_channel *first, *second;

	assert_int_equal(open_device(NULL), 0);
	first = soft_create_comp_channel(c);
	second = soft_create_comp_channel(c);
	assert_non_null(first);
	assert_non_null(second);
	near = soft_attend_fd(first);
	assert_true(near >= 0);
	assert_int_equal(soft_attend_fd(second), -1);
	assert_true(soft_attend_wait(first));
	assert_int_equal(soft_destroy_comp_channel(first), 0);
	assert_int_equal(soft_attend_fd(second), near);
	assert_int_equal(soft_destroy_comp_channel(second), 0);
	assert_int_equal(close_device(NULL), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages__while_waiting_RAISE_HARDLY_AN_EVENT),
		TEST(message__not_polled_RAISES_THE_EVENT_afterwards),
		TEST(message__while_nobody_attends_RAISES_AN_EVENT),
		TEST(write__while_the_program_is_busy_IS_DONE),
		TEST(channel__second_one_HAS_NO_DOORBELL),
		cmocka_unit_test(
			channel__of_the_doorbell_destroyed_NEXT_ONE_HAS_IT),
	};

	join_own_fabric("soft-attend");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
