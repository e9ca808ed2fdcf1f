/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a connection has failed, and the connection manager reports
 * DISCONNECTED before the program is told. Only the peer's own disconnect makes
 * the peer the cause. An attempt whose time is over keeps its reason, whatever
 * the peer answers then.
 */
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"
#include "base/timer.h"
#include "cm/rdma/cm.h"
#include "device/verbs_api.h"
#include "session/close.h"
#include "session/ep.h"

#include <errno.h>
#include <rdma/rdma_cma.h>

static void connect_both(void)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	clear_ends();
	connect_ends(&opts);
}

/* Ends a connection for the network's sake; then comes the event. */
static void fail_and_disconnect(int status)
{
	const struct cm_event ev = {
		.type = RDMA_CM_EVENT_DISCONNECTED, .status = status,
	};

	connect_both();
	rdmamsg__ep_reason(client.ep, RDMAMSG_WHO_NETWORK,
			   RDMAMSG_CAUSE_TRANSPORT, -ETIMEDOUT, "cut");
	rdmamsg__ep_kill(client.ep);
	rdmamsg__ep_cm_event(client.ctx, &client.ep->connect.owner, &ev);
	WAIT_FOR(client.closed && server.closed);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

static void disconnect__nobody_has_answered_IS_NOT_THE_PEERS(void **state)
{
	fail_and_disconnect(-ETIMEDOUT);
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_string_equal(client.why.text, "cut");
}

static void disconnect__of_the_peer_IS_THE_CAUSE(void **state)
{
	fail_and_disconnect(0);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
}

/* Both sides have said CLOSE; the answer to this side's may still come. */
static void disconnect__behind_the_peers_CLOSE_IS_NO_ABORT(void **state)
{
	const struct cm_event ev = { .type = RDMA_CM_EVENT_DISCONNECTED };

	connect_both();
	rdmamsg_ep_close(client.ep);
	assert_int_equal(client.ep->state, EP_CLOSING);
	client.ep->close.seen = true;
	rdmamsg__ep_cm_event(client.ctx, &client.ep->connect.owner, &ev);
	assert_int_equal(client.ep->state, EP_CLOSING);
	assert_int_equal(client.ep->close.reason.cause, RDMAMSG_CAUSE_CLOSED);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

/* Linux tells so of a connection that works, too. */
static void unreachable__while_it_is_open_STAYS_OPEN(void **state)
{
	const struct cm_event ev = {
		.type = RDMA_CM_EVENT_UNREACHABLE, .status = -EHOSTUNREACH,
	};

	connect_both();
	rdmamsg__ep_cm_event(client.ctx, &client.ep->connect.owner, &ev);
	assert_int_equal(client.ep->state, EP_OPEN);
	assert_int_equal(client.ep->close.failing, 0);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

/* ---- attempts --------------------------------------------------------- */

static struct rdmamsg_request *requests[4];
static unsigned int request_count;

static void put_off(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	requests[request_count++] = req;
}

/* Listens with room for one unanswered request. */
static void listen_for_one(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_off,
	};
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = &on, .max_requests = 1,
	};
	struct rdmamsg_listener *l;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	clear_ends();
	request_count = 0;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &o, &l),
			 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
}

static void dial(struct side *s)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_closed = on_closed,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = s, .handlers = &handlers,
		.timeout_ms = WAIT_MS,
	};

	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &opts, &s->ep), 0);
}

/* The client's loop alone turns. */
static void turn(void)
{
	struct pollfd fd = { rdmamsg_fd(client.ctx), POLLIN, 0 };

	(void)poll(&fd, 1, 10);
	assert_true(rdmamsg_process(client.ctx) >= 0);
}

/* The time of the attempt is over now. */
static void end_time(struct rdmamsg_ep *ep)
{
	ep->deadline = rdmamsg__now_ms();
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &ep->timer);
	rdmamsg__ep_deadline(&ep->timer);
}

static void close_both(void)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

static void reject__after_the_time_IS_NO_HANGUP(void **state)
{
	const struct cm_event ev = {
		.type = RDMA_CM_EVENT_REJECTED, .status = 28,
	};

	listen_for_one();
	dial(&client);
	WAIT_FOR(request_count == 1);
	assert_int_equal(client.ep->state, EP_REQUESTED);
	end_time(client.ep);
	rdmamsg__ep_cm_event(client.ctx, &client.ep->connect.owner, &ev);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(client.why.error, -ETIMEDOUT);
	close_both();
}

/* The peer's device remembers the queue pair's number; another one works. */
static void reject__stale_connection_IS_TRIED_AGAIN(void **state)
{
	const struct cm_event ev = {
		.type = RDMA_CM_EVENT_REJECTED, .status = 10,
	};

	listen_for_one();
	dial(&client);
	WAIT_FOR(request_count == 1);
	rdmamsg__ep_cm_event(client.ctx, &client.ep->connect.owner, &ev);
	assert_int_equal(client.ep->state, EP_BACKOFF);
	UNTIL_BY(turn(), client.ep->state == EP_REQUESTED);
	close_both();
}

/* Ends the time of an attempt in this state, after the peer's limit. */
static void limit_then(enum ep_state at)
{
	struct side first = { .ep = NULL };

	listen_for_one();
	dial(&first);
	WAIT_FOR(request_count == 1);
	dial(&client);
	WAIT_FOR(client.ep->state == EP_BACKOFF);
	UNTIL_BY(turn(), client.ep->state == at);
	end_time(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_int_equal(client.why.error, -ENOBUFS);
	assert_non_null(strstr(client.why.text, "max_requests"));
	close_both();
}

static void limit__and_the_time_ends_in_back_off_IS_TOLD(void **state)
{
	limit_then(EP_BACKOFF);
}

static void limit__and_the_next_is_not_answered_IS_TOLD(void **state)
{
	limit_then(EP_REQUESTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			disconnect__nobody_has_answered_IS_NOT_THE_PEERS),
		cmocka_unit_test(disconnect__of_the_peer_IS_THE_CAUSE),
		cmocka_unit_test(
			disconnect__behind_the_peers_CLOSE_IS_NO_ABORT),
		cmocka_unit_test(unreachable__while_it_is_open_STAYS_OPEN),
		cmocka_unit_test(reject__after_the_time_IS_NO_HANGUP),
		cmocka_unit_test(reject__stale_connection_IS_TRIED_AGAIN),
		cmocka_unit_test(limit__and_the_time_ends_in_back_off_IS_TOLD),
		cmocka_unit_test(limit__and_the_next_is_not_answered_IS_TOLD),
	};

	join_own_fabric("hangup");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
