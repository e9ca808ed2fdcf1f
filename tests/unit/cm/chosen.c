/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the soft HCA is chosen by itself where there are other devices,
 * if none of them leads to any address of the peer. The other device is the
 * soft HCA, too, behind a table that the test controls, and no address is a
 * loopback address.
 */
#include "device/verbs_api.h"
#include "lane/qp.h"
#include "session/ep.h"
#include "session/resume.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>

/* in place of rdmamsg__verbs_system */
extern struct verbs_api __wrap_rdmamsg__verbs_system;
struct verbs_api __wrap_rdmamsg__verbs_system;
#define table	__wrap_rdmamsg__verbs_system
/* errno of address resolution on the device: 127.0.0.2, 127.0.0.1 */
static int refuses[2];
static unsigned int asked;

bool __wrap_rdmamsg__addr_is_loopback(const struct sockaddr *addr);
int __real_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret);

bool __wrap_rdmamsg__addr_is_loopback(const struct sockaddr *addr)
{
	return false;
}

int __wrap_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret)
{
	int gai;

	if (strcmp(host, "two.invalid"))
		return __real_getaddrinfo(host, port, hints, ret);
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	gai = __real_getaddrinfo("127.0.0.2", port, hints, ret);
	return gai ? gai : __real_getaddrinfo("127.0.0.1", port, hints,
					      &(*ret)->ai_next);
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *from,
			struct sockaddr *to, int ms)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)to;
	int err = refuses[in->sin_addr.s_addr == htonl(INADDR_LOOPBACK)];

	asked++;
	if (!err)
		return rdmamsg__verbs_soft.resolve_addr(id, from, to, ms);
	errno = err;
	return -1;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers = END_HANDLERS(on_message);
static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	.timeout_ms = 60000,
};
static struct rdmamsg_ep_options opts;

static int set_up(void **state)
{
	clear_ends();
	table = rdmamsg__verbs_soft;
	table.resolve_addr = resolve_addr;
	rdmamsg__verbs = &table;
	refuses[0] = refuses[1] = ENODEV;
	asked = 0;
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
	};
	return 0;
}

static int tear_down(void **state)
{
	if (client.ctx)
		rdmamsg_close(client.ctx);
	if (server.ctx)
		rdmamsg_close(server.ctx);
	return 0;
}

/* Listens on the soft HCA by name, which is the same fabric. */
static void listen_on_soft(void)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts, .device = "soft",
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	opts.user = &server;
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	opts.user = &client;
}

static void dial(const char *host)
{
	struct rdmamsg_ep *ep;

	listen_on_soft();
	assert_int_equal(rdmamsg_connect(client.ctx, host, service, &opts,
					 &ep), 0);
	WAIT_FOR(client.ep || client.closed);
}

static void connect__no_device_leads_there_ON_THE_SOFT_HCA(void **state)
{
	dial("two.invalid");
	assert_non_null(client.ep);
	assert_ptr_equal(client.ep->lane.v, &rdmamsg__verbs_soft);
	/* each address first on the devices */
	assert_int_equal(asked, 2);
}

static void connect__device_leads_to_another_address_ON_IT(void **state)
{
	refuses[1] = 0;
	dial("two.invalid");
	assert_non_null(client.ep);
	assert_ptr_equal(client.ep->lane.v, &table);
}

static void connect__host_of_a_device_is_down_UNREACHABLE(void **state)
{
	refuses[1] = EHOSTUNREACH;
	dial("two.invalid");
	assert_null(client.ep);
	assert_int_equal(asked, 2);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_UNREACHABLE);
}

static void connect__other_devices_asked_for_ENODEV(void **state)
{
	struct rdmamsg_ep *ep;

	opts.device = "hw";
	listen_on_soft();
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &opts, &ep), -ENODEV);
	assert_int_equal(asked, 1);
}

static struct ibv_device **no_devices(int *n)
{
	errno = ENOSYS;
	return NULL;
}

static unsigned int again;

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	again += strstr(line, "trying the soft HCA") != NULL;
}

/* On a host without devices all addresses are the soft HCA's from the first. */
static void connect__soft_hca_leads_nowhere_IS_TRIED_ONCE(void **state)
{
	struct rdmamsg_ep *ep;

	table.get_device_list = no_devices;
	again = 0;
	listen_on_soft();
	(void)rdmamsg_connect(client.ctx, "192.0.2.1", service, &opts, &ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ADDRESS);
	assert_int_equal(again, 0);
}

/* The device comes back, and with it the session. */
static void session__has_lost_its_device_WAITS_FOR_IT(void **state)
{
	refuses[1] = 0;
	opts.failover = &failover;
	dial("127.0.0.1");
	assert_ptr_equal(client.ep->lane.v, &table);
	refuses[1] = ENODEV;
	asked = 0;
	(void)rdmamsg__lane_error(&client.ep->lane);
	WAIT_FOR(asked >= 3);
	assert_false(client.closed);
	assert_int_not_equal(client.ep->resume->lane, LANE_UP);
	refuses[1] = 0;
	WAIT_FOR(client.ep->resume->lane == LANE_UP);
	assert_ptr_equal(client.ep->lane.v, &table);
	assert_int_equal(rdmamsg_send(client.ep, "hi", 2, 0, NULL), 0);
	WAIT_FOR(server.messages == 1);
}

/* One on the soft HCA finds it again in the same way. */
static void session__of_the_soft_hca_FINDS_IT_AGAIN(void **state)
{
	opts.failover = &failover;
	dial("127.0.0.1");
	assert_ptr_equal(client.ep->lane.v, &rdmamsg__verbs_soft);
	(void)rdmamsg__lane_error(&client.ep->lane);
	WAIT_FOR(client.ep->resume->lanes == 1 &&
		 client.ep->resume->lane == LANE_UP);
	assert_ptr_equal(client.ep->lane.v, &rdmamsg__verbs_soft);
}

#define CASE(t)	cmocka_unit_test_setup_teardown(t, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(connect__no_device_leads_there_ON_THE_SOFT_HCA),
		CASE(connect__device_leads_to_another_address_ON_IT),
		CASE(connect__host_of_a_device_is_down_UNREACHABLE),
		CASE(connect__other_devices_asked_for_ENODEV),
		CASE(connect__soft_hca_leads_nowhere_IS_TRIED_ONCE),
		CASE(session__has_lost_its_device_WAITS_FOR_IT),
		CASE(session__of_the_soft_hca_FINDS_IT_AGAIN),
	};

	join_own_fabric("chosen");
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
