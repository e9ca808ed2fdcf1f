/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: whose request for another lane the passive side of a session
 * accepts, and its answer to each other one.
 */
#include "base/ctx.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"
#include "session/connector.h"
#include "session/door.h"
#include "session/resume.h"
#include "session/sessions.h"
#include "../session/lanes.h"

#include <sys/socket.h>
#include <rdmamsg/listener.h>

static struct connector by;	/* the connection manager, but for answers */
static unsigned int rejected;
static enum proto_reject answer;
static const struct rdmamsg_ep *accepted_for;
static struct door *door;

static void note_reject(struct rdmamsg_request *req, enum proto_reject code,
			const void *data, size_t len)
{
	rejected++;
	answer = code;
}

/* The connection fails. */
static int note_accept(struct rdmamsg_ep *ep, struct rdmamsg_request *req)
{
	accepted_for = ep->carries;
	return rdmamsg__fail(-ECONNRESET, "gone");
}

static void drop_nothing(struct rdmamsg_request *req)
{
}

static int set_up_answers(void **state)
{
	by = rdmamsg__by_cm;
	by.accept = note_accept;
	by.reject = note_reject;
	by.drop = drop_nothing;
	rejected = 0;
	accepted_for = NULL;
	door = rdmamsg__door_new(&(const struct rdmamsg_listen_options){
		.backlog = 16, .max_requests = 16, .max_half_open = 16,
		.max_endpoints = 16, .setup_timeout_ms = 5000,
		.slow_ms = RDMAMSG_NONE,
	});
	return door ? set_up(state) : -1;
}

static int tear_down_door(void **state)
{
	rdmamsg__door_close(door);
	return tear_down(state);
}

static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
};

static struct rdmamsg_ep_options with_failover(void)
{
	return (struct rdmamsg_ep_options){
		.size = sizeof(struct rdmamsg_ep_options),
		.handlers = &handlers, .failover = &failover,
	};
}

static void connect_both(void)
{
	struct rdmamsg_ep_options opts = with_failover();

	connect_ends(&opts);
}

/* The next request of the client comes to a listener of the server. */
static void ask(bool draining)
{
	const struct resume *r = client.ep->resume;
	struct rdmamsg_listener l = {
		.by = &by, .ctx = server.ctx, .door = door,
		.draining = draining,
	};
	uint8_t proof[PROTO_LANE_DATA_LEN];
	const struct proto_hello hello = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.features = PROTO_FEATURE_LANE, .epoch = r->epoch + 1,
		.data = proof, .data_len = sizeof(proof),
	};
	static const struct sockaddr_storage from = { .ss_family = AF_INET };
	struct visitor v = { .door = NULL };
	struct rdmamsg_request *req;

	assert_int_equal(rdmamsg__door_admit(door, &from, DOOR_REQUEST, &v), 0);
	assert_int_equal(rdmamsg__lane_prove(r, true, hello.epoch, proof), 0);
	assert_int_equal(rdmamsg__request_new(&l, &hello, &v, &req), 0);
	rdmamsg__lane_arrived(req);
}

static void session__that_ends_REFUSED(void **state)
{
	connect_both();
	rdmamsg_ep_abort(server.ep);
	assert_int_equal(server.ep->state, EP_DRAINING);
	ask(false);
	assert_null(accepted_for);
	assert_int_equal(rejected, 1);
	assert_int_equal(answer, PROTO_REJECT_SESSION);
}

/* Both sides have the id, and only one of them waits for requests. */
static void session__of_one_context_IS_THAT_OF_THE_PASSIVE_SIDE(void **state)
{
	struct rdmamsg_ep_options opts = with_failover();

	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	client.ctx = server.ctx;
	listen_and_connect(&opts);
	ask(false);
	client.ctx = NULL;
	assert_ptr_equal(accepted_for, server.ep);
}

static void draining__lane_is_up_LIMIT(void **state)
{
	connect_both();
	ask(true);
	assert_null(accepted_for);
	assert_int_equal(rejected, 1);
	assert_int_equal(answer, PROTO_REJECT_LIMIT);
}

/* Even a listener that drains replaces a lost lane. */
static void draining__lane_is_lost_ACCEPTED(void **state)
{
	connect_both();
	lose(&server);
	assert_int_not_equal(server.ep->resume->lane, LANE_UP);
	ask(true);
	assert_ptr_equal(accepted_for, server.ep);
	assert_int_equal(rejected, 0);
}

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up_answers, \
						tear_down_door)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(session__that_ends_REFUSED),
		T(session__of_one_context_IS_THAT_OF_THE_PASSIVE_SIDE),
		T(draining__lane_is_up_LIMIT),
		T(draining__lane_is_lost_ACCEPTED),
	};

	join_own_fabric("lane");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
