/* SPDX-License-Identifier: BSD-2-Clause */
/* Which addresses may listen together: as in Linux, cma_check_port(). */
#include "soft/soft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../own_fabric.h"

#define PATIENCE	"RDMAMSG_SOFT_PATIENCE"
#define REFUSED_MS	30	/* after which a request is refused by default */
#define REJ_INVALID_SERVICE 8
#define REJ_CONSUMER	28

static struct rdma_event_channel *ch;

static int setup(void **state)
{
	ch = soft_cma_create_event_channel();
	return ch ? 0 : -1;
}

static int teardown(void **state)
{
	soft_cma_destroy_event_channel(ch);
	return 0;
}

static struct rdma_cm_id *new_id(int afonly)
{
	struct rdma_cm_id *id;

	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	if (afonly >= 0)
		assert_int_equal(soft_cma_set_option(id, RDMA_OPTION_ID,
				 RDMA_OPTION_ID_AFONLY, &afonly,
				 sizeof(afonly)), 0);
	return id;
}

/* 0 or errno */
static int bind_to(struct rdma_cm_id *id, const char *addr, __be16 port)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = port,
	};
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = port };
	struct sockaddr *sa = (struct sockaddr *)&in;

	if (!inet_pton(AF_INET, addr, &in.sin_addr)) {
		assert_int_equal(inet_pton(AF_INET6, addr, &in6.sin6_addr), 1);
		sa = (struct sockaddr *)&in6;
	}
	return soft_cma_bind_addr(id, sa) ? errno : 0;
}

/* Expects 'want' when the second address is bound, in either order. */
static void expect_pair(const char *a, const char *b, int afonly, int want)
{
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *first = new_id(afonly);
		struct rdma_cm_id *second = new_id(afonly);
		__be16 port;

		assert_int_equal(bind_to(first, i ? b : a, 0), 0);
		port = soft_cma_get_src_port(first);
		assert_int_equal(bind_to(second, i ? a : b, port), want);
		assert_int_equal(soft_cma_destroy_id(first), 0);
		/* and nothing is left of the first */
		if (want)
			assert_int_equal(bind_to(second, i ? a : b, port), 0);
		assert_int_equal(soft_cma_destroy_id(second), 0);
	}
}

static void bind__all_and_one_address_EADDRNOTAVAIL(void **state)
{
	expect_pair("0.0.0.0", "127.0.0.1", -1, EADDRNOTAVAIL);
	expect_pair("::", "127.0.0.1", -1, EADDRNOTAVAIL);
	expect_pair("::", "::1", -1, EADDRNOTAVAIL);
	expect_pair("::", "::1", 1, EADDRNOTAVAIL);
}

static void bind__two_addresses_BOTH(void **state)
{
	expect_pair("127.0.0.1", "127.0.0.2", -1, 0);
	expect_pair("127.0.0.1", "::1", -1, 0);
	expect_pair("127.0.0.1", "127.0.0.1", -1, EADDRINUSE);
}

static void bind__families_apart_BOTH(void **state)
{
	expect_pair("0.0.0.0", "::1", 1, 0);
	expect_pair("::", "127.0.0.1", 1, 0);
	expect_pair("0.0.0.0", "::", 1, 0);
}

/* ---- one address on two links ----------------------------------------- */

static bool is_link_local(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(
		&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/* In place of that of the C library: this host has links 1 and 2. */
int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (is_link_local(addr))
		return 0;
	return (int)syscall(SYS_bind, fd, addr, len);
}

static int bind_on_link(struct rdma_cm_id *id, uint32_t link, __be16 port)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = port,
		.sin6_scope_id = link,
	};

	assert_int_equal(inet_pton(AF_INET6, "fe80::1", &in6.sin6_addr), 1);
	return soft_cma_bind_addr(id, (struct sockaddr *)&in6) ? errno : 0;
}

static void bind__one_address_on_two_links_BOTH(void **state)
{
	struct rdma_cm_id *id[3];
	__be16 port;

	for (int i = 0; i < 3; i++)
		id[i] = new_id(1);
	assert_int_equal(bind_on_link(id[0], 1, 0), 0);
	port = soft_cma_get_src_port(id[0]);
	assert_int_equal(bind_on_link(id[1], 2, port), 0);
	assert_int_equal(bind_on_link(id[2], 2, port), EADDRINUSE);
	for (int i = 0; i < 3; i++)
		assert_int_equal(soft_cma_destroy_id(id[i]), 0);
}

/* ---- requests before there is a listener ------------------------------ */

static bool has_event(const struct rdma_event_channel *of, int ms)
{
	struct pollfd p = { .fd = of->fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* Takes the next event. Returns its id. */
static struct rdma_cm_id *next(struct rdma_event_channel *of,
			       enum rdma_cm_event_type want, int *status)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	assert_true(has_event(of, 60000));
	assert_int_equal(soft_cma_get_cm_event(of, &ev), 0);
	assert_int_equal(ev->event, want);
	id = ev->id;
	if (status)
		*status = ev->status;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	return id;
}

static struct rdma_cm_id *call(struct rdma_event_channel *of, __be16 port)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_id *id;

	assert_int_equal(soft_cma_create_id(of, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, (struct sockaddr *)&to,
					       1000), 0);
	(void)next(of, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(soft_cma_resolve_route(id, 1000), 0);
	(void)next(of, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	assert_int_equal(soft_cma_connect(id, &param), 0);
	return id;
}

/* Opens the device with this patience. */
static struct rdma_event_channel *open_with(const char *patience)
{
	struct rdma_event_channel *ret;

	assert_int_equal(setenv(PATIENCE, patience, 1), 0);
	ret = soft_cma_create_event_channel();
	assert_int_equal(unsetenv(PATIENCE), 0);
	return ret;
}

static void connect__before_the_listener_WAITS(void **state)
{
	struct rdma_event_channel *of_client = open_with("600000");
	struct rdma_cm_id *server, *client, *request;
	int status;

	assert_non_null(of_client);
	ch = soft_cma_create_event_channel();
	assert_non_null(ch);
	server = new_id(-1);
	assert_int_equal(bind_to(server, "127.0.0.1", 0), 0);
	client = call(of_client, soft_cma_get_src_port(server));
	assert_false(has_event(of_client, 10 * REFUSED_MS));
	assert_int_equal(soft_cma_listen(server, 0), 0);
	request = next(ch, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	assert_int_equal(soft_cma_reject(request, NULL, 0), 0);
	(void)next(of_client, RDMA_CM_EVENT_REJECTED, &status);
	assert_int_equal(status, REJ_CONSUMER);
	assert_int_equal(soft_cma_destroy_id(request), 0);
	assert_int_equal(soft_cma_destroy_id(client), 0);
	assert_int_equal(soft_cma_destroy_id(server), 0);
	soft_cma_destroy_event_channel(of_client);
	soft_cma_destroy_event_channel(ch);
}

/* Until the program has answered the first. */
static void connect__beyond_the_backlog_WAITS(void **state)
{
	struct rdma_event_channel *of_client = soft_cma_create_event_channel();
	struct rdma_cm_id *server, *client[2], *request[2];
	struct rdma_conn_param param = { .qp_num = 1 };

	ch = soft_cma_create_event_channel();
	assert_true(of_client && ch);
	server = new_id(-1);
	assert_int_equal(bind_to(server, "127.0.0.1", 0), 0);
	assert_int_equal(soft_cma_listen(server, 1), 0);
	for (int i = 0; i < 2; i++)
		client[i] = call(of_client, soft_cma_get_src_port(server));
	request[0] = next(ch, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	assert_false(has_event(ch, 10 * REFUSED_MS));
	assert_int_equal(soft_cma_accept(request[0], &param), 0);
	request[1] = next(ch, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(soft_cma_destroy_id(request[i]), 0);
		assert_int_equal(soft_cma_destroy_id(client[i]), 0);
	}
	assert_int_equal(soft_cma_destroy_id(server), 0);
	soft_cma_destroy_event_channel(of_client);
	soft_cma_destroy_event_channel(ch);
}

static void connect__without_a_listener_IS_REFUSED(void **state)
{
	static const char *const patience[] = { "", "0", "10", "100" };
	struct rdma_cm_id *server, *client;
	int status;

	for (size_t i = 0; i < sizeof(patience) / sizeof(*patience); i++) {
		ch = open_with(patience[i]);
		assert_non_null(ch);
		server = new_id(-1);
		assert_int_equal(bind_to(server, "127.0.0.1", 0), 0);
		client = call(ch, soft_cma_get_src_port(server));
		(void)next(ch, RDMA_CM_EVENT_REJECTED, &status);
		assert_int_equal(status, REJ_INVALID_SERVICE);
		assert_int_equal(soft_cma_destroy_id(client), 0);
		assert_int_equal(soft_cma_destroy_id(server), 0);
		soft_cma_destroy_event_channel(ch);
	}
}

static void patience__that_is_none_EINVAL(void **state)
{
	static const char *const wrong[] = { "-1", "600001", "1s", " ", "x" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_null(open_with(wrong[i]));
		assert_int_equal(errno, EINVAL);
	}
}

static int bind_without_network(void)
{
	struct rdma_cm_id *id;

	assert_int_equal(setup(NULL), 0);
	id = new_id(-1);
	assert_int_equal(bind_to(id, "127.0.0.1", 0), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	id = new_id(-1);
	assert_int_equal(bind_to(id, "::1", 0), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	return teardown(NULL);
}

/* In a network namespace whose lo is down. */
static void bind__loopback_that_is_down_OK(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		(void)alarm(60);
		(void)setenv("CMOCKA_TEST_ABORT", "1", 1);
		_exit(unshare(CLONE_NEWNET) &&
		      unshare(CLONE_NEWUSER | CLONE_NEWNET) ? 77 :
		      bind_without_network());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		fprintf(stderr, "skip: a network of its own is not permitted\n");
		skip();
	}
	assert_int_equal(status, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bind__loopback_that_is_down_OK),
		TEST(bind__all_and_one_address_EADDRNOTAVAIL),
		TEST(bind__two_addresses_BOTH),
		TEST(bind__families_apart_BOTH),
		TEST(bind__one_address_on_two_links_BOTH),
		cmocka_unit_test(connect__before_the_listener_WAITS),
		cmocka_unit_test(connect__beyond_the_backlog_WAITS),
		cmocka_unit_test(connect__without_a_listener_IS_REFUSED),
		cmocka_unit_test(patience__that_is_none_EINVAL),
	};

	join_own_fabric("listen");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
