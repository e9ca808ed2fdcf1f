/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: of 64 publishers each of 64 subscribers gets everything, in the
 * order of each, though datagrams are lost.
 */
#include "../own_fabric.h"
#include "../until.h"
#include "base/base.h"
#include "device/verbs_api.h"
#include "group/group.h"
#include "soft/control/soft_ctl.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rdmamsg/group.h>

#define GROUP		"239.1.2.4"
#define EACH		64		/* publishers, and subscribers */
#define RECEIVES	512u
#define MESSAGES	30u

struct end {
	struct rdmamsg *ctx;
	struct rdmamsg_group *group;
	bool joined, bad;
	uint32_t published, flushes, missed;
	uint32_t due[EACH];		/* of each publisher */
	uint32_t complete;		/* publishers, of which it has all */
};

/* publishers, then subscribers */
static struct end all[2 * EACH];
static uint32_t end;			/* of the numbers that are awaited */

static int publisher_of(uint64_t id)
{
	for (int i = 0; i < EACH; i++)
		if (all[i].group->id == id)
			return i;
	fail();
	return 0;
}

static void on_joined(struct rdmamsg_group *group)
{
	((struct end *)rdmamsg_group_user(group))->joined = true;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	struct end *m = rdmamsg_group_user(group);
	const uint64_t said[2] = { msg->sender->id, msg->number };
	uint32_t *due = &m->due[publisher_of(msg->sender->id)];

	m->bad |= msg->number != *due || msg->len != sizeof(said) ||
		  memcmp(msg->data, said, sizeof(said)) != 0;
	if (++*due == end)
		m->complete++;
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	((struct end *)rdmamsg_group_user(group))->bad = true;
}

static void on_flushed(struct rdmamsg_group *group,
		       const struct rdmamsg_group_flushed *flushed)
{
	struct end *m = rdmamsg_group_user(group);

	m->bad |= flushed->members != EACH || flushed->behind ||
		  flushed->gone || flushed->uncounted;
	m->flushes++;
}

static const struct rdmamsg_group_handlers handlers = {
	.size = sizeof(handlers), .on_joined = on_joined,
	.on_message = on_message, .on_gap = on_gap, .on_flushed = on_flushed,
};

static void turn(int ms)
{
	struct pollfd fds[2 * EACH];

	for (int i = 0; i < 2 * EACH; i++)
		fds[i] = (struct pollfd){ rdmamsg_fd(all[i].ctx), POLLIN, 0 };
	(void)poll(fds, 2 * EACH, ms);
	for (int i = 0; i < 2 * EACH; i++)
		assert_true(rdmamsg_process(all[i].ctx) >= 0);
}

#define WAIT_FOR(condition)	UNTIL_BY(turn(10), condition)

static void join(struct end *m, uint32_t flags)
{
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = m,
		.flags = flags | RDMAMSG_GROUP_REPAIR,
		.recv_depth = RECEIVES, .flow = flags & RDMAMSG_GROUP_PUBLISH ?
			RDMAMSG_GROUP_FLOW_SLOWEST : RDMAMSG_GROUP_FLOW_RATE,
		.flow_limit_ms = RDMAMSG_NONE,
	};

	assert_int_equal(rdmamsg_open(&m->ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(m->ctx, GROUP, &opts, &m->group),
			 0);
	UNTIL(m->ctx, m->joined);
}

/* Publishes what has room of the messages below 'end'. */
static void publish(struct end *m)
{
	while (m->published < end) {
		const uint64_t say[2] = { m->group->id, m->published };
		const int ret = rdmamsg_group_publish(m->group, say,
						      sizeof(say));

		if (ret == -EAGAIN)
			return;
		assert_int_equal(ret, 0);
		m->published++;
	}
}

static void publish_all(void)
{
	for (int i = 0; i < EACH; i++)
		publish(&all[i]);
	turn(10);
}

static bool have_all(void)
{
	for (int i = EACH; i < 2 * EACH; i++)
		if (all[i].complete < EACH)
			return false;
	return true;
}

static void until(uint32_t number)
{
	end = number;
	for (int i = EACH; i < 2 * EACH; i++)
		all[i].complete = 0;
	UNTIL_BY(publish_all(), have_all());
}

/* All datagrams are lost with this probability, in millionths. */
static void drop(uint32_t share)
{
	const struct soft_ctl_faults f = { .drop = share, .seed = 53 };
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	soft_ctl_close(ctl);
}

static bool all_flushed(void)
{
	for (int i = 0; i < EACH; i++)
		if (!all[i].flushes)
			return false;
	return true;
}

static void many__each_with_each_EVERYTHING_IN_ORDER(void **state)
{
	for (int i = 0; i < 2 * EACH; i++)
		join(&all[i], i < EACH ? RDMAMSG_GROUP_PUBLISH :
					 RDMAMSG_GROUP_SUBSCRIBE);
	/* they know all publishers, and are no late joiners any more */
	until(1);
	drop(10000);
	until(1 + MESSAGES);
	for (int i = 0; i < EACH; i++)
		assert_int_equal(rdmamsg_group_flush(all[i].group, WAIT_MS), 0);
	WAIT_FOR(all_flushed());
	drop(0);
	for (int i = 0; i < 2 * EACH; i++) {
		assert_false(all[i].bad);
		rdmamsg_close(all[i].ctx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many__each_with_each_EVERYTHING_IN_ORDER),
	};

	join_own_fabric("many");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
