/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: if an answer and the end of timeout_ms are both pending, the
 * timeout wins and the endpoint closes. A late answer must not leave an
 * endpoint without a deadline.
 */
#include "../../integration/clock.h"
#include "../own_fabric.h"
#include "../two_ends.h"
#include "device/verbs_api.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <rdmamsg/oob.h>

/* expires only when a test lets the time pass */
#define TIMEOUT_MS	(10 * WAIT_MS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool may_answer, answered;

int __real_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret);

/* The resolver does not answer for slow.invalid until the test releases it. */
int __wrap_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret)
{
	int gai;

	if (!host || strcmp(host, "slow.invalid"))
		return __real_getaddrinfo(host, port, hints, ret);
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	pthread_mutex_lock(&lock);
	while (!may_answer)
		pthread_cond_wait(&changed, &lock);
	gai = __real_getaddrinfo("127.0.0.1", port, hints, ret);
	answered = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return gai;
}

static void answer_now(void)
{
	pthread_mutex_lock(&lock);
	may_answer = true;
	pthread_cond_broadcast(&changed);
	while (!answered)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = on_closed,
};

static int set_up(void **state)
{
	clear_ends();
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return rdmamsg_open(&client.ctx, NULL) ||
	       rdmamsg_open(&server.ctx, NULL);
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

/* The events of the client that are pending; looking does not take them. */
static int pending(void)
{
	struct epoll_event events[8];

	return epoll_wait(rdmamsg_fd(client.ctx), events, 8, 0);
}

static void rest(void)
{
	(void)poll(NULL, 0, 1);
}

/* Lets the timeout expire while no loop turns. */
static void time_out(void)
{
	while (pending())
		assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_false(client.closed);
	clock_pass(TIMEOUT_MS);
	UNTIL_BY(rest(), pending() == 1);
}

/* Takes the timeout and the answer together. */
static void ends_at_once(bool has_queue_pair)
{
	UNTIL_BY(rest(), pending() == 2);
	assert_true(rdmamsg_process(client.ctx) >= 0);
	if (has_queue_pair)	/* which is drained first */
		UNTIL(client.ctx, client.closed);
	assert_true(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_null(client.ep);
}

static void name__resolved_too_late_ENDS(void **state)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &client, .handlers = &handlers,
		.timeout_ms = TIMEOUT_MS,
	};

	assert_int_equal(rdmamsg_connect(client.ctx, "slow.invalid", "1",
					 &opts, NULL), 0);
	time_out();
	answer_now();
	ends_at_once(false);
}

static struct rdmamsg_request *request;

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	request = req;
}

static void record__answered_too_late_ENDS(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &client, .handlers = &handlers,
		.timeout_ms = TIMEOUT_MS,
	};
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .handlers = &on,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_oob_listen(server.ctx, "127.0.0.1", "0",
					    &lopts, &l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	assert_int_equal(rdmamsg_oob_connect(client.ctx, "127.0.0.1", service,
					     &opts, NULL), 0);
	WAIT_FOR(request);
	time_out();
	opts.user = &server;
	assert_int_equal(rdmamsg_request_accept(request, &opts, NULL), 0);
	ends_at_once(true);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(name__resolved_too_late_ENDS),
		CASE(record__answered_too_late_ENDS),
	};

	join_own_fabric("late");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
