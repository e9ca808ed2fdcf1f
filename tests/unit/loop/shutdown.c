/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: the call that shuts a context down and waits for the end. */
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"

#include <errno.h>
#include <rdmamsg/listener.h>

static struct rdmamsg_ep_options opts;

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = END_HANDLERS(NULL);

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	clear_ends();
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
	};
	return 0;
}

static void shutdown_wait__of_NULL_EINVAL(void **state)
{
	assert_int_equal(rdmamsg_shutdown_wait(NULL, 0), -EINVAL);
}

static void shutdown_wait__nothing_open_AT_ONCE(void **state)
{
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_shutdown_wait(server.ctx, -1), 0);
	/* it is over, so that the next call has nothing to wait for */
	assert_int_equal(rdmamsg_shutdown_wait(server.ctx, -1), 0);
}

/* Nobody drives the peer, so it does not answer the CLOSE. */
static void shutdown_wait__peer_is_silent_COUNTS_IT(void **state)
{
	connect_ends(&opts);
	assert_int_equal(rdmamsg_shutdown_wait(server.ctx, 50), 1);
	assert_true(server.closed);
	assert_int_equal(server.why.who, RDMAMSG_WHO_LOCAL);
	WAIT_FOR(client.closed);
}

/* The peer has closed, too, before the call waits. */
static void shutdown_wait__peer_closes_COUNTS_NOTHING(void **state)
{
	connect_ends(&opts);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(rdmamsg_shutdown_wait(server.ctx, -1), 0);
}

static void shutdown_wait__afterwards_NOTHING_BEGINS(void **state)
{
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_shutdown_wait(server.ctx, 50), 1);
	opts.user = &server;
	assert_true(rdmamsg_listen(server.ctx, "127.0.0.1", "0", NULL, &l) < 0);
	assert_true(rdmamsg_connect(server.ctx, "127.0.0.1", service, &opts,
				    &ep) < 0);
}

static int answer;

static void shut_down(struct rdmamsg *ctx, void *arg)
{
	answer = rdmamsg_shutdown_wait(ctx, -1);
}

static void shutdown_wait__in_a_callback_EDEADLK(void **state)
{
	connect_ends(&opts);
	answer = 0;
	assert_int_equal(rdmamsg_submit(server.ctx, shut_down, NULL), 0);
	WAIT_FOR(answer);
	assert_int_equal(answer, -EDEADLK);
	/* it has begun nothing */
	for (int i = 0; i < 5; i++)
		both();
	assert_false(server.closed);
}

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(shutdown_wait__of_NULL_EINVAL),
		T(shutdown_wait__nothing_open_AT_ONCE),
		T(shutdown_wait__peer_is_silent_COUNTS_IT),
		T(shutdown_wait__peer_closes_COUNTS_NOTHING),
		T(shutdown_wait__afterwards_NOTHING_BEGINS),
		T(shutdown_wait__in_a_callback_EDEADLK),
	};

	join_own_fabric("shutdown");
	return cmocka_run_group_tests_name("shutdown", tests, NULL, NULL);
}
