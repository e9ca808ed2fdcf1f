/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the connection manager takes the partition of the interface on
 * the way to the peer. An endpoint that asks for another one does not connect.
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
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

static struct rdmamsg *ctx;
static struct soft_ctl *ctl;
/* of the side that accepts: as it accepts, or the listener by itself */
static struct rdmamsg_path wanted, listening;
static struct rdmamsg_ep *accepted;
static unsigned int connected, closed;
static int accept_error;
static char not_moved[256];
static struct rdmamsg_reason why;

static void on_connected(struct rdmamsg_ep *ep)
{
	connected++;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *r)
{
	closed++;
	if (ep != accepted)
		why = *r;
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	if (ev->change == RDMAMSG_PATH_CHANGE_NOT_MOVED)
		(void)snprintf(not_moved, sizeof(not_moved), "%s", ev->text);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = on_closed, .on_path = on_path,
};

static const struct rdmamsg_failover lanes = {
	.size = sizeof(lanes), .rungs = RDMAMSG_RUNG_LANE,
};

static struct rdmamsg_ep_options options(const struct rdmamsg_path *path)
{
	return (struct rdmamsg_ep_options) {
		.size = sizeof(struct rdmamsg_ep_options),
		.handlers = &handlers, .path = path, .failover = &lanes,
	};
}

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	const struct rdmamsg_ep_options o = options(wanted.pkey ? &wanted :
						    NULL);

	accept_error = rdmamsg_request_accept(req, &o, &accepted);
}

static void set_pkey(uint16_t pkey)
{
	assert_int_equal(soft_ctl_set(ctl, SOFT_CTL_ALL, SOFT_ATTR_PKEY, 1,
				      pkey), 0);
}

/* Listens. The interface is in this partition. */
static void set_up(const char *link, uint16_t pkey, char port[static 8])
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_ep_options eo = options(&listening);
	const struct rdmamsg_listen_options asks = {
		.size = sizeof(asks), .handlers = &on,
	}, accepts = {
		.size = sizeof(accepts), .ep = &eo,
	};
	struct rdmamsg_listener *l;

	join_own_fabric(link);
	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", link, 1), 0);
	connected = closed = 0;
	accept_error = 0;
	accepted = NULL;
	memset(&why, 0, sizeof(why));
	wanted = (struct rdmamsg_path){ .size = sizeof(wanted) };
	listening.size = sizeof(listening);
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_device_watch(ctx, "soft0"), 0);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	if (pkey)
		set_pkey(pkey);
	assert_int_equal(rdmamsg_listen(ctx, "127.0.0.1", "0",
					listening.pkey ? &accepts : &asks, &l),
			 0);
	(void)snprintf(port, 8, "%u", rdmamsg_listener_port(l));
}

static void tear_down(void)
{
	soft_ctl_close(ctl);
	rdmamsg_close(ctx);
}

static struct rdmamsg_ep *connect_in(const char *port, uint32_t pkey)
{
	const struct rdmamsg_path path = {
		.size = sizeof(path), .pkey = pkey,
	};
	const struct rdmamsg_ep_options o = options(&path);
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_connect(ctx, "127.0.0.1", port, &o, &ep), 0);
	return ep;
}

static void refused(const char *port, uint32_t pkey, const char *text)
{
	unsigned int before = closed;

	(void)connect_in(port, pkey);
	UNTIL(ctx, closed > before);
	assert_int_equal(connected, 0);
	assert_int_equal(why.cause, RDMAMSG_CAUSE_UNREACHABLE);
	assert_int_equal(why.error, -EHOSTUNREACH);
	assert_non_null(strstr(why.text, text));
}

/* Full and limited members of a partition talk. */
static void connect__in_the_interfaces_partition_CONNECTS(void **state)
{
	static const uint32_t same[] = { 0x8012, 0x0012 };
	char port[8];

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		listening.pkey = i ? 0 : same[1];
		set_up("ib", 0x8012, port);
		wanted.pkey = i ? same[0] : 0;
		(void)connect_in(port, same[i]);
		UNTIL(ctx, connected == 2);
		assert_int_equal(accept_error, 0);
		tear_down();
		listening.pkey = 0;
	}
}

static void connect__in_another_EHOSTUNREACH(void **state)
{
	char port[8];

	set_up("ib", 0x8012, port);
	refused(port, 0x8013, "partition 0x8012, and pkey asks for 0x8013");
	refused(port, 0xffff, "set source to an address in that partition");
	tear_down();
}

/* RoCE and iWARP have the default partition only. */
static void connect__without_infiniband_DEFAULT_ONLY(void **state)
{
	static const char *const links[] = { "ethernet", "iwarp" };
	char port[8];

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		set_up(links[i], 0, port);
		refused(port, 0x8013, "partition 0xffff");
		(void)connect_in(port, 0x7fff);
		UNTIL(ctx, connected == 2);
		tear_down();
	}
}

static void accept__in_another_EHOSTUNREACH(void **state)
{
	char port[8];

	for (int i = 0; i < 2; i++) {
		listening.pkey = i ? 0x8013 : 0;
		set_up("ib", 0x8012, port);
		wanted.pkey = i ? 0 : 0x8013;
		(void)connect_in(port, 0x8012);
		UNTIL(ctx, closed == 1);
		assert_int_equal(accept_error, i ? 0 : -EHOSTUNREACH);
		assert_int_equal(why.error, -ENOBUFS);
		tear_down();
	}
	listening.pkey = 0;
}

static void connect__no_partition_or_more_EINVAL(void **state)
{
	const struct {
		struct rdmamsg_path path;
		const char *text;
	} bad[] = {
		{ { .pkey = 0 }, "pkey alone" },
		{ { .pkey = 0xffff, .port = 1 }, "pkey alone" },
		{ { .pkey = 0xffff, .psn = 1 }, "pkey alone" },
		{ { .pkey_index = 1 }, "pkey alone" },
		{ { .pkey = 0x8000 }, "pkey 0x8000" },
		{ { .pkey = 0x10001 }, "pkey 0x10001" },
	};
	struct rdmamsg_ep *ep;
	char port[8];

	set_up("ib", 0, port);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rdmamsg_path path = bad[i].path;
		const struct rdmamsg_ep_options o = options(&path);

		path.size = sizeof(path);
		assert_int_equal(rdmamsg_connect(ctx, "127.0.0.1", port, &o,
						 &ep), -EINVAL);
		assert_non_null(strstr(rdmamsg_error(), bad[i].text));
	}
	tear_down();
}

/* Another lane of the session needs a way through the partition, too. */
static void lane__in_another_NOT_MOVED(void **state)
{
	const struct rdmamsg_migrate_options lane = {
		.size = sizeof(lane), .lane = 1,
	};
	struct rdmamsg_ep *ep;
	char port[8];

	set_up("ib", 0x8012, port);
	ep = connect_in(port, 0x8012);
	UNTIL(ctx, connected == 2);
	set_pkey(0x8013);
	not_moved[0] = 0;
	assert_int_equal(rdmamsg_ep_migrate(ep, &lane), 0);
	UNTIL(ctx, not_moved[0]);
	assert_non_null(strstr(not_moved, "partition 0x8013"));
	assert_int_equal(closed, 0);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__in_the_interfaces_partition_CONNECTS),
		cmocka_unit_test(connect__in_another_EHOSTUNREACH),
		cmocka_unit_test(connect__without_infiniband_DEFAULT_ONLY),
		cmocka_unit_test(accept__in_another_EHOSTUNREACH),
		cmocka_unit_test(connect__no_partition_or_more_EINVAL),
		cmocka_unit_test(lane__in_another_NOT_MOVED),
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
