/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the soft HCA's connection manager that Linux refuses, and what they
 * leave behind: as in Linux, cma.c and ucma.c.
 */
#include "soft/cm/id.h"
#include "soft/cma/calls.h"
#include "soft/cma/cma.h"
#include "soft/fabric/limits.h"
#include "soft/soft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../own_fabric.h"

#define REASON	24	/* of a reject; any but that of a program, 28 */

static struct rdma_event_channel *ch;
static struct rdma_cm_id *listener, *client, *request;

static int set_up_link(const char *link)
{
	if (setenv("RDMAMSG_SOFT_LINK", link, 1))
		return -1;
	listener = client = request = NULL;
	ch = soft_cma_create_event_channel();
	return ch ? 0 : -1;
}

static int set_up(void **state)
{
	return set_up_link("ib");
}

static int set_up_iwarp(void **state)
{
	return set_up_link("iwarp");
}

static int tear_down(void **state)
{
	struct rdma_cm_id *ids[] = { listener, client, request };

	for (int i = 0; i < 3; i++)
		if (ids[i] && soft_cma_destroy_id(ids[i]))
			return -1;
	soft_cma_destroy_event_channel(ch);
	return 0;
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(soft_cma_create_id(ch, &id, NULL, ps), 0);
	return id;
}

static struct sockaddr_in ip(const char *text, __be16 port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = port };

	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return in;
}

/* Takes the next event. Returns its id. */
static struct rdma_cm_id *next(enum rdma_cm_event_type want, int *status)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	assert_int_equal(poll(&p, 1, 60000), 1);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, want);
	id = ev->id;
	if (status)
		*status = ev->status;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	return id;
}

static void listen_at_loopback(enum rdma_port_space ps)
{
	struct sockaddr_in at = ip("127.0.0.1", 0);

	listener = new_id(ps);
	assert_int_equal(soft_cma_bind_addr(listener, (struct sockaddr *)&at),
			 0);
	assert_int_equal(soft_cma_listen(listener, 1), 0);
}

/* The client knows the way to the listener. */
static void find_route(enum rdma_port_space ps)
{
	struct sockaddr_in to;

	listen_at_loopback(ps);
	to = ip("127.0.0.1", soft_cma_get_src_port(listener));
	client = new_id(ps);
	assert_int_equal(soft_cma_resolve_addr(client, NULL,
					       (struct sockaddr *)&to, 1000),
			 0);
	(void)next(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(soft_cma_resolve_route(client, 1000), 0);
	(void)next(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
}

static void ask(enum rdma_port_space ps)
{
	struct rdma_conn_param param = { .qp_num = 1, .retry_count = 7 };

	find_route(ps);
	assert_int_equal(soft_cma_connect(client, &param), 0);
	request = next(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

static void accept_it(void)
{
	struct rdma_conn_param param = { .qp_num = 2 };

	ask(RDMA_PS_TCP);
	assert_int_equal(soft_cma_accept(request, &param), 0);
	(void)next(RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
}

/* ---- addresses --------------------------------------------------------- */

static void resolve__bound_id_KEEPS_ITS_ADDRESS(void **state)
{
	struct sockaddr_in at = ip("127.0.0.2", 0), src = ip("127.0.0.3", 0);
	struct sockaddr_in to = ip("127.0.0.1", htons(1));

	client = new_id(RDMA_PS_TCP);
	assert_int_equal(soft_cma_bind_addr(client, (struct sockaddr *)&at), 0);
	assert_int_equal(soft_cma_resolve_addr(client, (struct sockaddr *)&src,
					       (struct sockaddr *)&to, 1000),
			 0);
	(void)next(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(client->route.addr.src_sin.sin_addr.s_addr,
			 at.sin_addr.s_addr);
}

static void resolve__wildcard_LEADS_NOWHERE(void **state)
{
	struct sockaddr_in to = ip("0.0.0.0", htons(1));
	int status = 0;

	client = new_id(RDMA_PS_TCP);
	assert_int_equal(soft_cma_resolve_addr(client, NULL,
					       (struct sockaddr *)&to, 1000),
			 0);
	(void)next(RDMA_CM_EVENT_ADDR_ERROR, &status);
	assert_int_equal(status, -ENODEV);
}

static void resolve__source_of_another_family_EINVAL(void **state)
{
	struct sockaddr_in src = ip("127.0.0.1", 0);
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6, .sin6_port = htons(1),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};

	client = new_id(RDMA_PS_TCP);
	assert_int_equal(soft_cma_resolve_addr(client, (struct sockaddr *)&src,
					       (struct sockaddr *)&to, 1000),
			 -1);
	assert_int_equal(errno, EINVAL);
}

/* ---- connecting -------------------------------------------------------- */

/* The program's parameters as the kernel gets them. */
static int connect_with(uint8_t reads, uint8_t served, uint8_t private_len)
{
	const struct rdma_ucm_connect cmd = {
		.id = cma_id(client)->handle,
		.conn_param = {
			.valid = 1, .qp_num = 1, .initiator_depth = reads,
			.responder_resources = served,
			.private_data_len = private_len,
		},
	};

	return soft_cm_connect(cma_file(client), &cmd);
}

static void connect__beyond_a_limit_EINVAL(void **state)
{
	find_route(RDMA_PS_TCP);
	assert_int_equal(connect_with(SOFT_MAX_RD + 1, 0, 0), -EINVAL);
	assert_int_equal(connect_with(0, SOFT_MAX_RD + 1, 0), -EINVAL);
	assert_int_equal(connect_with(0, 0, 57), -EINVAL);
	assert_int_equal(connect_with(SOFT_MAX_RD, SOFT_MAX_RD, 56), 0);
	request = next(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

static void disconnect__of_a_datagram_EINVAL(void **state)
{
	struct rdma_conn_param param = { .qp_num = 2 };

	ask(RDMA_PS_UDP);
	assert_int_equal(soft_cma_accept(request, &param), 0);
	(void)next(RDMA_CM_EVENT_ESTABLISHED, NULL);
	assert_int_equal(soft_cma_disconnect(request), -1);
	assert_int_equal(errno, EINVAL);
}

static void establish__after_the_end_ECONNRESET(void **state)
{
	accept_it();
	assert_int_equal(soft_cma_establish(client), 0);
	(void)next(RDMA_CM_EVENT_ESTABLISHED, NULL);
	assert_int_equal(soft_cma_disconnect(request), 0);
	(void)next(RDMA_CM_EVENT_DISCONNECTED, NULL);
	assert_int_equal(soft_cma_establish(client), -1);
	assert_int_equal(errno, ECONNRESET);
}

/* A message has come before the peer's last word. */
static int notify(const struct rdma_cm_id *of)
{
	struct rdma_cm_id *id = (struct rdma_cm_id *)of;
	const struct rdma_ucm_notify cmd = {
		.id = cma_id(id)->handle, .event = IBV_EVENT_COMM_EST,
	};

	return soft_cm_notify(cma_file(id), &cmd);
}

static void notify__twice_EISCONN(void **state)
{
	accept_it();
	assert_int_equal(notify(request), 0);
	(void)next(RDMA_CM_EVENT_ESTABLISHED, NULL);
	assert_int_equal(notify(request), -EISCONN);
}

static void notify__on_iwarp_OK(void **state)
{
	client = new_id(RDMA_PS_TCP);
	assert_int_equal(notify(client), 0);
}

static void reject__for_a_reason_IS_ITS_STATUS(void **state)
{
	struct rdma_ucm_reject cmd = { .reason = REASON };
	int status;

	ask(RDMA_PS_TCP);
	cmd.id = cma_id(request)->handle;
	assert_int_equal(soft_cm_reject(cma_file(request), &cmd), 0);
	(void)next(RDMA_CM_EVENT_REJECTED, &status);
	assert_int_equal(status, REASON);
}

/* ---- paths ------------------------------------------------------------- */

static uint32_t paths_of(struct rdma_cm_id *id)
{
	struct rdma_ucm_query_route_resp resp = { .num_paths = 0 };

	assert_int_equal(soft_cm_query_route(cma_file(id), cma_id(id)->handle,
					     &resp), 0);
	return resp.num_paths;
}

static void path__of_who_connects_IS_THERE(void **state)
{
	find_route(RDMA_PS_TCP);
	assert_int_equal(paths_of(client), 1);
}

static void path__of_a_listener_IS_NONE(void **state)
{
	listen_at_loopback(RDMA_PS_TCP);
	assert_int_equal(paths_of(listener), 0);
}

static void path__on_iwarp_IS_NONE(void **state)
{
	find_route(RDMA_PS_TCP);
	assert_int_equal(paths_of(client), 0);
}

#define IB(fn)		cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
#define IWARP(fn)	\
	cmocka_unit_test_setup_teardown(fn, set_up_iwarp, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IB(resolve__bound_id_KEEPS_ITS_ADDRESS),
		IB(resolve__wildcard_LEADS_NOWHERE),
		IB(resolve__source_of_another_family_EINVAL),
		IB(connect__beyond_a_limit_EINVAL),
		IB(disconnect__of_a_datagram_EINVAL),
		IB(establish__after_the_end_ECONNRESET),
		IB(notify__twice_EISCONN),
		IWARP(notify__on_iwarp_OK),
		IB(reject__for_a_reason_IS_ITS_STATUS),
		IB(path__of_who_connects_IS_THERE),
		IB(path__of_a_listener_IS_NONE),
		IWARP(path__on_iwarp_IS_NONE),
	};

	join_own_fabric("cm-calls");
	return cmocka_run_group_tests_name("cm_calls", tests, NULL, NULL);
}
