/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: the addresses of listeners that an endpoint tells its peer. */
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "wire/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdmamsg/listener.h>

static struct rdmamsg_listener *second;

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = END_HANDLERS(NULL);
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	clear_ends();
	connect_ends(&opts);
	return rdmamsg_listen(server.ctx, "127.0.0.2", "0", &lopts, &second);
}

static uint32_t announced(void)
{
	struct proto_addresses a = { .count = 0 };

	rdmamsg__cm_addresses(server.ep, &a);
	return a.count;
}

static void address__of_each_listener_ANNOUNCED(void **state)
{
	assert_int_equal(announced(), 2);
}

/* A listener that drains takes no new connection. */
static void address__of_a_listener_that_drains_NOT_ANNOUNCED(void **state)
{
	assert_int_equal(rdmamsg_listener_drain(second), 0);
	assert_int_equal(announced(), 1);
}

/* The loopback addresses of this host are those of another host there. */
static void address__of_loopback_to_another_host_NOT_ANNOUNCED(void **state)
{
	struct sockaddr_in *local =
		(struct sockaddr_in *)&server.ep->connect.local_addr;

	assert_int_equal(local->sin_family, AF_INET);
	local->sin_addr.s_addr = htonl(0xc0000201);	/* 192.0.2.1 */
	assert_int_equal(announced(), 0);
}

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(address__of_each_listener_ANNOUNCED),
		T(address__of_a_listener_that_drains_NOT_ANNOUNCED),
		T(address__of_loopback_to_another_host_NOT_ANNOUNCED),
	};

	join_own_fabric("reach");
	return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
