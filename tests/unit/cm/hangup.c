/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a connection has failed, and the connection manager reports
 * DISCONNECTED before the program is told. Only the peer's own disconnect makes
 * the peer the cause.
 */
#include "../own_fabric.h"
#include "../two_ends.h"
#include "cm/rdma/cm.h"
#include "device/verbs_api.h"
#include "session/ep.h"

#include <errno.h>
#include <rdma/rdma_cma.h>

/* Ends a connection for the network's sake; then comes the event. */
static void fail_and_disconnect(int status)
{
	static const struct rdmamsg_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};
	const struct cm_event ev = {
		.type = RDMA_CM_EVENT_DISCONNECTED, .status = status,
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	clear_ends();
	connect_ends(&opts);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			disconnect__nobody_has_answered_IS_NOT_THE_PEERS),
		cmocka_unit_test(disconnect__of_the_peer_IS_THE_CAUSE),
	};

	join_own_fabric("hangup");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
