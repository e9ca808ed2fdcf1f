/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a listener without an address takes peers of IPv4 and of IPv6.
 * On iWARP that needs an id for each, on one port.
 */
#include "../iwarp_ends.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

static unsigned int v4_taken;		/* ports that IPv4 does not have */

static int listen_unless_taken(struct rdma_cm_id *id, int backlog)
{
	if (v4_taken && id->route.addr.src_addr.sa_family == AF_INET) {
		v4_taken--;
		errno = EADDRINUSE;
		return -1;
	}
	return nulldev_verbs.listen(id, backlog);
}

static int set_up(void **state)
{
	device = nulldev_verbs;
	device.listen = listen_unless_taken;
	use_iwarp(1);
	return open_both();
}

static int tear_down(void **state)
{
	leave_iwarp();
	v4_taken = 0;
	return nulldev_counts.ids || nulldev_counts.qps ? -1 : 0;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = on_closed,
};

static int try_listen(const char *host, const char *at,
		      struct rdmamsg_listener **ret)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &server, .handlers = &handlers,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};

	return rdmamsg_listen(server.ctx, host, at, &lopts, ret);
}

static void listen_all(const char *at)
{
	struct rdmamsg_listener *l;

	assert_int_equal(try_listen(NULL, at, &l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
}

static void connect_to(const char *host)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &client, .handlers = &handlers,
	};

	client.ep = server.ep = NULL;
	client.closed = false;
	assert_int_equal(rdmamsg_connect(client.ctx, host, service, &opts,
					 NULL), 0);
	WAIT_FOR(client.closed || (client.ep && server.ep));
	assert_false(client.closed);
}

static void listen__all_of_iwarp_TAKES_BOTH_FAMILIES(void **state)
{
	listen_all("0");
	assert_int_equal(nulldev_counts.ids, 2);
	connect_to("127.0.0.1");
	connect_to("::1");
}

static void listen__all_of_infiniband_TAKES_BOTH_FAMILIES(void **state)
{
	nulldev_device.transport_type = IBV_TRANSPORT_IB;
	listen_all("0");
	assert_int_equal(nulldev_counts.ids, 1);
	connect_to("127.0.0.1");
	connect_to("::1");
}

static void listen__any_port_TAKES_ONE_FREE_IN_BOTH(void **state)
{
	v4_taken = 3;
	listen_all("0");
	assert_int_equal(v4_taken, 0);
	assert_int_equal(nulldev_counts.ids, 2);
	connect_to("127.0.0.1");
	connect_to("::1");
}

static void listen__port_taken_in_one_family_EADDRINUSE(void **state)
{
	struct rdmamsg_listener *l;

	v4_taken = 1;
	assert_int_equal(try_listen(NULL, "7471", &l), -EADDRINUSE);
	assert_int_equal(v4_taken, 0);
	assert_int_equal(nulldev_counts.ids, 0);
	listen_all("7471");
	assert_int_equal(atoi(service), 7471);
	connect_to("127.0.0.1");
	connect_to("::1");
}

static void listen__one_address_TAKES_ONE_FAMILY(void **state)
{
	struct rdmamsg_listener *l;

	assert_int_equal(try_listen("0.0.0.0", "0", &l), 0);
	assert_int_equal(nulldev_counts.ids, 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(listen__all_of_iwarp_TAKES_BOTH_FAMILIES),
		TEST(listen__all_of_infiniband_TAKES_BOTH_FAMILIES),
		TEST(listen__any_port_TAKES_ONE_FREE_IN_BOTH),
		TEST(listen__port_taken_in_one_family_EADDRINUSE),
		TEST(listen__one_address_TAKES_ONE_FAMILY),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
