/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the connection manager joins a group in the partition of the
 * interface. A member that asks for another one does not join.
 */
#include "base/base.h"
#include "device/verbs_api.h"
#include "soft/control/soft_ctl.h"
#include "../own_fabric.h"
#include "../until.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <rdmamsg/device.h>
#include <rdmamsg/group.h>

#define GROUP		"239.1.2.3"

struct member {
	struct rdmamsg_group *group;
	uint32_t joined, losses, closed, messages;
	struct rdmamsg_reason why;
};

static struct rdmamsg *ctx;
static struct soft_ctl *ctl;
static uint32_t changes;		/* of the partition that were told */

static void on_joined(struct rdmamsg_group *group)
{
	((struct member *)rdmamsg_group_user(group))->joined++;
}

static void on_lost(struct rdmamsg_group *group,
		    const struct rdmamsg_reason *why)
{
	((struct member *)rdmamsg_group_user(group))->losses++;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	((struct member *)rdmamsg_group_user(group))->messages++;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	struct member *m = rdmamsg_group_user(group);

	m->closed++;
	m->why = *why;
}

static int try_join(struct member *m, uint32_t pkey)
{
	static const struct rdmamsg_group_handlers handlers = {
		.size = sizeof(handlers), .on_joined = on_joined,
		.on_lost = on_lost, .on_message = on_message,
		.on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = m, .handlers = &handlers,
		.flags = RDMAMSG_GROUP_OWN, .source = "127.0.0.1",
		.pkey = pkey,
	};

	memset(m, 0, sizeof(*m));
	return rdmamsg_group_join(ctx, GROUP, &opts, &m->group);
}

static void join(struct member *m, uint32_t pkey)
{
	assert_int_equal(try_join(m, pkey), 0);
	UNTIL(ctx, m->joined || m->closed);
	assert_int_equal(m->closed, 0);
}

static void refused(uint32_t pkey, const char *text)
{
	struct member m;

	assert_int_equal(try_join(&m, pkey), 0);
	UNTIL(ctx, m.closed);
	assert_int_equal(m.joined, 0);
	assert_int_equal(m.why.cause, RDMAMSG_CAUSE_UNREACHABLE);
	assert_int_equal(m.why.error, -EHOSTUNREACH);
	assert_non_null(strstr(m.why.text, text));
}

static void on_event(struct rdmamsg *of, const struct rdmamsg_event *ev)
{
	changes += ev->type == IBV_EVENT_PKEY_CHANGE;
}

/* Groups that are joined when the event comes are lost. */
static void set_pkey(uint16_t pkey)
{
	uint32_t before = changes;

	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_PKEY, 1,
				      pkey), 0);
	UNTIL(ctx, changes > before);
}

static void set_up(const char *link, uint16_t pkey)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	join_own_fabric(link);
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", link, 1), 0);
	assert_int_equal(rdmamsg_open(&ctx, &opts), 0);
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	if (pkey)
		set_pkey(pkey);
}

static void tear_down(void)
{
	soft_ctl_close(ctl);
	rdmamsg_close(ctx);
}

/* Full and limited members of a partition are in one group. */
static void join__in_the_interfaces_partition_JOINS(void **state)
{
	struct member full, limited;

	set_up("ib", 0x8012);
	join(&full, 0x8012);
	join(&limited, 0x0012);
	assert_int_equal(rdmamsg_group_publish(full.group, "x", 1), 0);
	UNTIL(ctx, full.messages == 1 && limited.messages == 1);
	tear_down();
}

/* Those that have joined from the same address stay. */
static void join__in_another_EHOSTUNREACH(void **state)
{
	struct member any, same;

	set_up("ib", 0x8012);
	refused(0x8013, "partition 0x8012, and pkey asks for 0x8013");
	join(&any, 0);
	join(&same, 0x8012);
	refused(0xffff, "set source to an address in that partition");
	assert_int_equal(rdmamsg_group_publish(any.group, "x", 1), 0);
	UNTIL(ctx, any.messages == 1 && same.messages == 1);
	tear_down();
}

/* RoCE has the default partition only. */
static void join__without_infiniband_DEFAULT_ONLY(void **state)
{
	struct member m;

	set_up("ethernet", 0);
	refused(0x8013, "partition 0xffff");
	join(&m, 0x7fff);
	tear_down();
}

static void join__no_partition_EINVAL(void **state)
{
	static const uint32_t bad[] = { 0x8000, 0x10001 };
	struct member m;

	set_up("ib", 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "pkey 0x%x", bad[i]);
		assert_int_equal(try_join(&m, bad[i]), -EINVAL);
		assert_non_null(strstr(rdmamsg_error(), text));
	}
	tear_down();
}

/* The interface changes its partition: the member waits for its own. */
static void lost__joined_again_IN_ITS_PARTITION_ONLY(void **state)
{
	struct member own, any;

	set_up("ib", 0x8012);
	join(&own, 0x8012);
	join(&any, 0);
	set_pkey(0x8013);
	UNTIL(ctx, own.losses == 1 && any.joined == 2);
	join(&(struct member){ .group = NULL }, 0x8013);
	assert_int_equal(own.joined, 1);
	set_pkey(0x8012);
	UNTIL(ctx, own.joined == 2);
	assert_int_equal(own.losses, 1);
	assert_int_equal(own.closed, 0);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(join__in_the_interfaces_partition_JOINS),
		cmocka_unit_test(join__in_another_EHOSTUNREACH),
		cmocka_unit_test(join__without_infiniband_DEFAULT_ONLY),
		cmocka_unit_test(join__no_partition_EINVAL),
		cmocka_unit_test(lost__joined_again_IN_ITS_PARTITION_ONLY),
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
