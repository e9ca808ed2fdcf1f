/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a group on a device of no known kind, which may complete
 * datagrams in any order.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "../own_fabric.h"
#include "../until.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <rdmamsg/device.h>
#include <rdmamsg/group.h>
#include <rdmamsg/rdmamsg.h>

static uint32_t joined, closed;
static struct rdmamsg_reason last;

static void on_joined(struct rdmamsg_group *group)
{
	joined++;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	closed++;
	last = *why;
}

static void join__device_of_no_known_kind_EOPNOTSUPP(void **state)
{
	static const struct rdmamsg_group_handlers handlers = {
		.size = sizeof(handlers), .on_joined = on_joined,
		.on_closed = on_closed,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.source = "127.0.0.1",
	};
	struct rdmamsg_group *group;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	list_first(&ctx->devices->devs, struct dev, node)->device->kind =
		KIND_UNKNOWN;
	assert_int_equal(rdmamsg_group_join(ctx, "239.1.2.3", &opts, &group),
			 0);
	UNTIL(ctx, joined || closed);
	assert_int_equal(joined, 0);
	assert_int_equal(last.error, -EOPNOTSUPP);
	assert_non_null(strstr(last.text, "in which order the device"));
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(join__device_of_no_known_kind_EOPNOTSUPP),
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	join_own_fabric("unknown_kind");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
