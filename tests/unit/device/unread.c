/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a table of a port that cannot be read is the error, and not an
 * entry that was not found. The soft HCA fails the reads.
 */
#include "device/choose.h"
#include "soft/control/soft_ctl.h"
#include "../own_fabric.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

static struct rdmamsg *ctx;
static struct soft_ctl *ctl;

static int set_up(void **state)
{
	join_own_fabric("unread");
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	/* keeps the device, and so its settings */
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	return 0;
}

static int tear_down(void **state)
{
	soft_ctl_close(ctl);
	rdmamsg_close(ctx);
	return 0;
}

static void set(enum soft_attr what, uint8_t port, uint64_t value)
{
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, what, port, value),
			 0);
}

/* Creates a queue pair with this path, and destroys it. */
static int make(const struct rdmamsg_path *path)
{
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .path = path,
	};
	struct rdmamsg_qp *q;
	int ret = rdmamsg_qp_create(ctx, &o, &q);

	if (!ret)
		assert_int_equal(rdmamsg_qp_destroy(q), 0);
	return ret;
}

static void assert_text(int ret, int error, const char *text)
{
	if (ret != error || !strstr(rdmamsg_error(), text))
		fail_msg("%d: '%s', not %d and '%s'", ret, rdmamsg_error(),
			 error, text);
}

static void gids__unreadable_THE_ERROR_IS_TOLD(void **state)
{
	struct rdmamsg_path path = { .size = sizeof(path) };

	assert_int_equal(make(&path), 0);
	set(SOFT_ATTR_GID_ERROR, 1, EIO);
	assert_text(make(&path), -EIO, "entry 0 of the GID table of soft0 "
		    "port 1");
	path.gid_index = 1;
	assert_text(make(&path), -EIO, "entry 1 of the GID table of soft0 "
		    "port 1");
	path.gid_index = 200;
	assert_text(make(&path), -EINVAL, "gid_index 200: there is no such");
	path.gid_index = 0;
	path.port = 2;
	assert_int_equal(make(&path), 0);
	set(SOFT_ATTR_GID_ERROR, 1, 0);
	path.port = 0;
	assert_int_equal(make(&path), 0);
}

/* A LID is no address on Ethernet. */
static void gids__none_on_ethernet_ENODEV(void **state)
{
	struct rdmamsg_path path = { .size = sizeof(path), .port = 1 };
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .device = "soft0", .path = &path,
	};
	struct rdmamsg_ep *ep;

	set(SOFT_ATTR_GID_ERROR, 1, ENODATA);
	assert_text(make(&path), -ENODEV, "device soft0 port 1 has no GID");
	assert_text(rdmamsg_oob_offer(ctx, &o, &ep), -ENODEV,
		    "device soft0 port 1 has no GID");
	path.port = 2;
	assert_int_equal(make(&path), 0);
}

static void pkeys__unreadable_THE_ERROR_IS_TOLD(void **state)
{
	struct rdmamsg_path path = { .size = sizeof(path), .pkey = 0x7fff };

	assert_int_equal(make(&path), 0);
	set(SOFT_ATTR_PKEY_ERROR, 1, EPERM);
	assert_text(make(&path), -EPERM, "entry 0 of the P_Key table of soft0 "
		    "port 1");
	path.pkey = 0;
	assert_text(make(&path), -EPERM, "entry 0 of the P_Key table");
	set(SOFT_ATTR_PKEY_ERROR, 1, 0);
	path.pkey = 0x1234;
	assert_text(make(&path), -EINVAL, "is not in that partition");
}

/* Another port, or another device, may have the address. */
static void address__gids_unreadable_THE_ERROR_IS_TOLD(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const struct verbs_api *v;
	char *name = NULL;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	set(SOFT_ATTR_GID_ERROR, 1, EIO);
	assert_int_equal(rdmamsg__choose_device("soft", (struct sockaddr *)&in,
						&v, &name), 0);
	assert_string_equal(name, "soft0");
	set(SOFT_ATTR_GID_ERROR, 2, EIO);
	assert_text(rdmamsg__choose_device("soft", (struct sockaddr *)&in, &v,
					   &name), -EIO,
		    "entry 0 of the GID table of soft0 port");
	/* without an address GIDs do not matter yet */
	assert_int_equal(rdmamsg__choose_device("soft", NULL, &v, &name), 0);
	free(name);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(gids__unreadable_THE_ERROR_IS_TOLD),
		TEST(gids__none_on_ethernet_ENODEV),
		TEST(pkeys__unreadable_THE_ERROR_IS_TOLD),
		TEST(address__gids_unreadable_THE_ERROR_IS_TOLD),
	};

	(void)unsetenv("RDMAMSG_DEVICE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
