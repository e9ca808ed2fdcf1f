/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management through a port that drops everything. */
#include "soft/control/soft_ctl.h"
#include "soft/soft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../own_fabric.h"

#define SILENCE_MS	300	/* of what must not come */
#define WAIT_MS		60000

static struct rdma_event_channel *ch;
static struct rdma_cm_id *listener, *client, *server;
static struct soft_ctl *ctl;

static void expect_nothing(void)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, SILENCE_MS), 0);
}

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, type);
	id = ev->id;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	return id;
}

static void port(enum soft_port state)
{
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 1, state), 0);
}

static int setup(void **state)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	ch = soft_cma_create_event_channel();
	if (!ch || soft_ctl_open(NULL, &ctl) ||
	    soft_cma_create_id(ch, &listener, NULL, RDMA_PS_TCP) ||
	    soft_cma_bind_addr(listener, (struct sockaddr *)&addr) ||
	    soft_cma_listen(listener, 0) ||
	    soft_cma_create_id(ch, &client, NULL, RDMA_PS_TCP))
		return -1;
	addr.sin_port = soft_cma_get_src_port(listener);
	if (soft_cma_resolve_addr(client, NULL, (struct sockaddr *)&addr, 1000))
		return -1;
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (soft_cma_resolve_route(client, 1000))
		return -1;
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	server = NULL;
	return 0;
}

static int teardown(void **state)
{
	port(SOFT_PORT_UP);
	if (server)
		assert_int_equal(soft_cma_destroy_id(server), 0);
	assert_int_equal(soft_cma_destroy_id(client), 0);
	assert_int_equal(soft_cma_destroy_id(listener), 0);
	soft_ctl_close(ctl);
	soft_cma_destroy_event_channel(ch);
	return 0;
}

/* The device repeats a request until the port is up. */
static void connect_through(enum soft_port state)
{
	struct rdma_conn_param p = { .qp_num = 1 };

	port(state);
	assert_int_equal(soft_cma_connect(client, &p), 0);
	expect_nothing();
	port(SOFT_PORT_UP);
	server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void connect__through_a_black_hole_WAITS(void **state)
{
	connect_through(SOFT_PORT_BLACK_HOLE);
}

static void connect__through_a_port_that_is_down_WAITS(void **state)
{
	connect_through(SOFT_PORT_DOWN);
}

static void disconnect__through_a_black_hole_TELLS_NOBODY(void **state)
{
	struct rdma_conn_param p = { .qp_num = 1 };

	assert_int_equal(soft_cma_connect(client, &p), 0);
	server = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(soft_cma_accept(server, &p), 0);
	expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(soft_cma_establish(client), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ESTABLISHED), server);
	port(SOFT_PORT_BLACK_HOLE);
	assert_int_equal(soft_cma_disconnect(client), 0);
	/* when nobody has answered for long enough, and only there */
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED), client);
	expect_nothing();
	port(SOFT_PORT_UP);
	assert_int_equal(soft_cma_disconnect(server), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED), server);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__through_a_black_hole_WAITS),
		TEST(connect__through_a_port_that_is_down_WAITS),
		TEST(disconnect__through_a_black_hole_TELLS_NOBODY),
	};

	join_own_fabric("cut");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
