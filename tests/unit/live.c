/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: what the liveness tick makes of what it meets on its way. */
#include "own_fabric.h"
#include "two_ends.h"

#define LARGE	((size_t)1 << 20)

static uint8_t large[LARGE];

/* The client takes its time, and answers with a large one. */
static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	const struct iovec iov = { large, sizeof(large) };
	struct side *s = rdmamsg_ep_user(ep);

	s->messages++;
	rdmamsg_msg_free(msg);
	if (s != &client)
		return;
	(void)poll(NULL, 0, 5);
	assert_int_equal(rdmamsg_sendv(ep, &iov, 1, 0, large), 0);
}

static void process(struct side *s)
{
	struct pollfd fd = { rdmamsg_fd(s->ctx), POLLIN, 0 };

	(void)poll(&fd, 1, 5);
	assert_true(rdmamsg_process(s->ctx) >= 0);
}

/* What it reads itself may be announced after it has looked at the clock. */
static void tick__announces_a_message_NOT_LATE_YET(void **state)
{
	static const struct rdmamsg_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_sent = on_sent, .on_message = on_message,
		.on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = RDMAMSG_NONE,
	};
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	connect_ends(&opts);
	assert_int_equal(rdmamsg_send(server.ep, "go", 2, 0, large), 0);
	/* acknowledged: it is in the queue that the client does not look at */
	while (!server.sent) {
		assert_true(rdmamsg__now_ms() < end);
		process(&server);
	}
	assert_int_equal(client.messages, 0);
	client.ep->rx_seen = rdmamsg__rx_count(client.ep);
	client.ep->live.fn(&client.ep->live);
	assert_int_equal(client.messages, 1);
	WAIT_FOR(client.closed || (server.messages && client.sent));
	assert_false(client.closed);
	assert_int_equal(client.status, 0);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tick__announces_a_message_NOT_LATE_YET),
	};

	join_own_fabric("live");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
