/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: what the liveness tick makes of what it meets on its way. */
#include "internal.h"
#include "own_fabric.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define LARGE	((size_t)1 << 20)
#define TURNS	1000	/* of at most 10 ms each, until a wait is in vain */

struct side {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	unsigned int messages, sent;
	int status;
	bool closed;
};

static struct side client, server;
static uint8_t large[LARGE];

static void on_connected(struct rdmamsg_ep *ep)
{
	((struct side *)rdmamsg_ep_user(ep))->ep = ep;
}

static void on_sent(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->sent++;
	s->status = status;
}

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

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	((struct side *)rdmamsg_ep_user(ep))->closed = true;
}

static void process(struct side *s)
{
	struct pollfd fd = { rdmamsg_fd(s->ctx), POLLIN, 0 };

	(void)poll(&fd, 1, 5);
	assert_true(rdmamsg_process(s->ctx) >= 0);
}

#define WAIT_FOR(condition) \
	do { \
		for (int i_ = 0; i_ < TURNS && !(condition); i_++) { \
			process(&client); \
			process(&server); \
		} \
		if (!(condition)) \
			fail_msg("waited in vain for %s", #condition); \
	} while (0)

static void connect_both(void)
{
	static const struct rdmamsg_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_sent = on_sent, .on_message = on_message,
		.on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = &server,
		.dead_after_ms = RDMAMSG_NONE,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;
	char port[8];

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	opts.user = &client;
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", port, &opts,
					 NULL), 0);
	WAIT_FOR(client.ep && server.ep);
}

/* What it reads itself may be announced after it has looked at the clock. */
static void tick__announces_a_message_NOT_LATE_YET(void **state)
{
	struct pollfd fd;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	connect_both();
	assert_int_equal(rdmamsg_send(server.ep, "go", 2, 0, NULL), 0);
	fd = (struct pollfd){ rdmamsg_fd(client.ctx), POLLIN, 0 };
	process(&server);
	assert_int_equal(poll(&fd, 1, 10 * TURNS), 1);
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
