/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a publisher that leaves stays until all is sent, and then as
 * long as somebody asks for repairs, within bounds.
 */
#include "../own_fabric.h"
#include "base/base.h"
#include "base/util.h"
#include "device/verbs_api.h"
#include "group/group.h"
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdmamsg/group.h>

#define WAIT_MS		60000		/* far beyond what anything takes */
#define LINGER_MS	60u

static struct rdmamsg *ctx;
static struct rdmamsg_group *group;
static bool joined, closed;
static uint8_t large[200000];

static void on_joined(struct rdmamsg_group *g)
{
	joined = true;
}

static void on_closed(struct rdmamsg_group *g, const struct rdmamsg_reason *why)
{
	closed = true;
}

static void turn(void)
{
	assert_true(rdmamsg_wait(ctx, 1) >= 0);
}

static void join(uint32_t rate)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on, .rate = rate,
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		.linger_ms = LINGER_MS,
	};

	joined = closed = false;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(ctx, "239.1.2.3", &opts, &group),
			 0);
	for (uint64_t end = rdmamsg__now_ms() + WAIT_MS; !joined; turn())
		assert_true(rdmamsg__now_ms() < end);
}

static uint64_t closed_at(void)
{
	for (uint64_t end = rdmamsg__now_ms() + WAIT_MS; !closed; turn())
		assert_true(rdmamsg__now_ms() < end);
	return rdmamsg__now_ms();
}

/* The rate makes its last message take longer than linger_ms. */
static void linger__begins_WITH_THE_LAST_DATAGRAM(void **state)
{
	uint64_t sent = 0, end = rdmamsg__now_ms() + WAIT_MS;

	join(200);
	assert_int_equal(rdmamsg_group_publish(group, large, sizeof(large)), 0);
	assert_non_null(group->pending);
	rdmamsg_group_leave(group);
	while (!closed && group->pending) {
		sent = rdmamsg__now_ms();
		assert_true(sent < end);
		turn();
	}
	assert_false(closed);
	assert_true(closed_at() >= sent + LINGER_MS);
	rdmamsg_close(ctx);
}

static void request__while_leaving_EXTENDS_LINGER(void **state)
{
	static const uint8_t range[FRAME_RANGE_LEN] = { [4] = 1 };
	struct frame f = {
		.type = FRAME_NACK, .length = 1, .data = range,
		.data_len = sizeof(range),
	};
	const struct datagram d = { .from = { .qpn = 77 } };
	uint64_t asked = 0, bound, left, end = rdmamsg__now_ms() + WAIT_MS;

	join(RDMAMSG_NONE);
	assert_int_equal(rdmamsg_group_publish(group, large, 1), 0);
	f.sender = group->id;
	rdmamsg_group_leave(group);
	left = rdmamsg__now_ms();
	/* a request behind the end of a test that stood still is too late */
	while (asked < left + 2 * LINGER_MS && !closed &&
	       !group->leaving_sent) {
		asked = rdmamsg__now_ms();
		rdmamsg__repair_nack(group, &f, &d);
		turn();
	}
	/* a test that stands still may come to the end of it */
	bound = min(asked, left + 9 * LINGER_MS) + LINGER_MS;
	assert_true(closed_at() >= bound);
	rdmamsg_close(ctx);
	/* but not without end; a pause of the test is no end */
	do {
		join(RDMAMSG_NONE);
		assert_int_equal(rdmamsg_group_publish(group, large, 1), 0);
		f.sender = group->id;
		rdmamsg_group_leave(group);
		while (!closed) {
			asked = rdmamsg__now_ms();
			assert_true(asked < end);
			rdmamsg__repair_nack(group, &f, &d);
			turn();
		}
		left = rdmamsg__now_ms();
		rdmamsg_close(ctx);
	} while (left >= asked + LINGER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linger__begins_WITH_THE_LAST_DATAGRAM),
		cmocka_unit_test(request__while_leaving_EXTENDS_LINGER),
	};

	join_own_fabric("leave");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
