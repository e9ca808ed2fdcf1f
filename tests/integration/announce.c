/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server with two addresses, and a client that knows the first of them. When
 * that is gone, the session goes on at the other one, which the server has
 * announced. The server is a process of its own.
 */
#include "common.h"
#include "echo_back.h"
#include "harm.h"

#include <poll.h>
#include <netinet/in.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>

#define WINDOW		8u	/* echoes under way */
#define DEAD_MS		4000
#define SECOND		"127.0.0.2"

static const struct rdmamsg_failover lanes = {
	.size = sizeof(lanes), .rungs = RDMAMSG_RUNG_LANE,
	.timeout_ms = 100000,
};

static void ask(struct end *e)
{
	e->opts.failover = &lanes;
	e->opts.dead_after_ms = DEAD_MS;
}

/* ---- the server ------------------------------------------------------- */

/* Otherwise it listens again when the device is back, and is found there. */
static void on_failed(struct rdmamsg_listener *listener, int error)
{
	rdmamsg_listener_close(listener);
}

static struct rdmamsg_listener *listen_at(struct end *e, const char *host)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = accept_end,
		.on_failed = on_failed,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = e, .handlers = &on,
	};
	struct rdmamsg_listener *l;

	if (rdmamsg_listen(e->ctx, host, "0", &opts, &l))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	return l;
}

/* Returns true once, when the parent has said something. */
static bool was_told(void)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
	char byte;

	return poll(&fd, 1, 0) > 0 && read(fd.fd, &byte, 1) == 1;
}

/*
 * Echoes messages. Listens at two addresses, the argument being the second, or
 * "any". Closes the first listener when it is told to.
 */
static int role_server(int argc, char **argv)
{
	struct rdmamsg_listener *first, *second;
	struct end e;

	errors_are_fine = texts_are_fine = true;
	end_init(&e, "server", test_open(NULL));
	e.expect_nothing = true;
	e.then_message = echo;
	e.then_writable = send_back;
	ask(&e);
	first = listen_at(&e, test_addr());
	second = listen_at(&e, strcmp(argv[0], "any") ? argv[0] : NULL);
	say("%u %u\n", rdmamsg_listener_port(first),
	    rdmamsg_listener_port(second));
	while (!e.closed) {
		test_pump(100);
		if (was_told()) {
			rdmamsg_listener_close(first);
			say("gone\n");
		}
	}
	check_notes();
	return e.why.cause != RDMAMSG_CAUSE_CLOSED;
}

static const struct role roles[] = { { "server", role_server }, { NULL } };

/* ---- the client ------------------------------------------------------- */

static struct child child;
static struct end client;
static unsigned int first_port, second_port, down, resumed;
static bool pouring;

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	down += ev->change == RDMAMSG_PATH_CHANGE_DOWN;
	resumed += ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
}

static void send_one(struct end *e)
{
	uint32_t tag = (uint32_t)e->sent;
	int ret = pouring ? end_send(e, HOW_SENDV, mixed_size(tag), tag) : 0;

	if (ret && ret != -EAGAIN && ret != -EIO)
		note("rdmamsg_sendv: %s", rdmamsg_error());
}

/* An echo makes room for the next message. */
static void on_echo(struct end *e, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
	send_one(e);
}

static void fill(struct end *e)
{
	while (pouring && e->sent < e->received + WINDOW) {
		size_t before = e->sent;

		send_one(e);
		if (e->sent == before)
			return;
	}
}

static void start(const char *second)
{
	char line[32], port[8];

	down = resumed = 0;
	harm_find();
	child_start(&child, "server", second);
	child_line(&child, line, sizeof(line));
	if (sscanf(line, "%u %u", &first_port, &second_port) != 2)
		fail_msg("the server said '%s'", line);
	end_init(&client, "client", test_open(NULL));
	client.peer = &client;
	client.then_message = on_echo;
	client.then_writable = fill;
	client.on.on_path = on_path;
	ask(&client);
	snprintf(port, sizeof(port), "%u", first_port);
	assert_int_equal(rdmamsg_connect(client.ctx, test_addr(), port,
					 &client.opts, &client.ep), 0);
	WAIT_FOR(client.connected || client.closed);
	assert_false(client.closed);
	errors_are_fine = texts_are_fine = true;
	pouring = true;
	fill(&client);
	WAIT_FOR(client.received > WINDOW);
}

static unsigned int peer_port(void)
{
	struct rdmamsg_ep_attr attr = end_info(&client);

	/* an IPv6 address has it at the same place */
	return ntohs(((struct sockaddr_in *)&attr.peer)->sin_port);
}

/* The session has gone on at the second address, without loss. */
static void expect_moved(void)
{
	size_t before;

	WAIT_FOR(resumed || client.closed);
	if (client.closed)
		fail_msg("closed: %s", client.why.text);
	assert_int_equal(peer_port(), second_port);
	fill(&client);
	before = client.received;
	WAIT_FOR(client.received > before + 2 * WINDOW);
	assert_int_equal(resumed, 1);
}

static void stop_all(void)
{
	pouring = false;
	WAIT_FOR(client.received == client.sent);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(client.received, client.expected_count);
	end_check_cookies(&client);
	assert_int_equal(child_wait(&child), 0);
	end_fini(&client);
}

/* The first listener has gone, and then its connection is lost. */
static void address__gone_RESUMES_AT_THE_ANNOUNCED_ONE(void **state)
{
	char line[16];

	if (!test_on_soft())
		skip_because("packets of one host to itself never leave it");
	start(SECOND);
	child_say(&child, "x");
	child_line(&child, line, sizeof(line));
	assert_string_equal(line, "gone");
	harm_silence(true);
	WAIT_PASSING(down);
	harm_silence(false);
	expect_moved();
	stop_all();
}

/*
 * The listener at the first address is closed when it fails with its device. The
 * other one is at no address, and announces those of all devices.
 */
static void device__gone_RESUMES_AT_THE_ANNOUNCED_ADDRESS(void **state)
{
	start("any");
	harm_remove();
	WAIT_FOR(down);
	WAIT_FOR(harm_removed());
	harm_add();
	expect_moved();
	stop_all();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(address__gone_RESUMES_AT_THE_ANNOUNCED_ONE),
		TEST(device__gone_RESUMES_AT_THE_ANNOUNCED_ADDRESS),
	};

	return test_main(tests, roles, argc, argv);
}
