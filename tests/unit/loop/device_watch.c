/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: devices that a context watches without an endpoint. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "../../fds.h"
#include "../own_fabric.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rdmamsg/device.h>

#define WAIT_MS	60000		/* far beyond what anything takes */

static int removals, others;

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	assert_string_equal(ev->device, "soft0");
	assert_null(ev->ep);
	*(ev->type < 0 ? &removals : &others) += 1;
}

static struct rdmamsg *open_ctx(void)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg *ctx;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	removals = others = 0;
	assert_int_equal(rdmamsg_open(&ctx, &opts), 0);
	return ctx;
}

static struct dev *only_dev(const struct rdmamsg *ctx)
{
	const struct list *devs = &ctx->devices->devs;

	assert_false(list_empty(devs));
	assert_ptr_equal(devs->next, devs->prev);
	return list_first(devs, struct dev, node);
}

static void watch__twice_IS_ONE_USER(void **state)
{
	int before;
	struct rdmamsg *ctx = open_ctx();

	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(only_dev(ctx)->eps, 1);
	rdmamsg_close(ctx);
	/* the first one leaves what the library keeps for the process */
	before = open_fds();
	ctx = open_ctx();
	assert_int_equal(rdmamsg_device_watch(ctx, NULL), 0);
	assert_int_equal(only_dev(ctx)->eps, 1);
	rdmamsg_close(ctx);
	assert_int_equal(open_fds(), before);
}

static void watch__of_a_removed_device_ENDS(void **state)
{
	struct rdmamsg *ctx = open_ctx();
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;

	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	rdmamsg__dev_removed(only_dev(ctx));
	while (!list_empty(&ctx->devices->devs)) {
		assert_true(rdmamsg__now_ms() < end);
		assert_true(rdmamsg_wait(ctx, 100) >= 0);
	}
	assert_int_equal(removals, 1);
	assert_int_equal(others, 0);
	/* the device is watched again, if there is one */
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(only_dev(ctx)->eps, 1);
	rdmamsg_close(ctx);
}

static void watch__without_such_a_device_FAILS(void **state)
{
	struct rdmamsg *ctx = open_ctx();

	assert_int_equal(rdmamsg_device_watch(ctx, "nosuch"), -ENXIO);
	assert_non_null(strstr(rdmamsg_error(), "nosuch"));
	assert_int_equal(rdmamsg_device_watch(NULL, "soft0"), -EINVAL);
	assert_true(list_empty(&ctx->devices->devs));
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watch__twice_IS_ONE_USER),
		cmocka_unit_test(watch__of_a_removed_device_ENDS),
		cmocka_unit_test(watch__without_such_a_device_FAILS),
	};

	join_own_fabric("device-watch");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
