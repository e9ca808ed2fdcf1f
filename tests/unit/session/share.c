/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the share of one address in a context's receive memory and in a
 * shared receive queue. Another address always finds room.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "memory/memory.h"
#include "session/ep.h"
#include "session/sessions.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <stdlib.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>

#define SLAB	((size_t)256 << 10)
#define MANY	200
#define KEPT	4096

static const char near_by[] = "127.0.0.1", other[] = "127.0.0.2";
static struct rdmamsg_listener *listener;
static struct rdmamsg_msg *kept[KEPT];
static unsigned int connected, kept_count;
static bool keep;

static void on_open(struct rdmamsg_ep *ep)
{
	on_connected(ep);
	connected++;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	if (keep && kept_count < KEPT)
		kept[kept_count++] = msg;
	else
		rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_open,
	.on_message = on_message, .on_complete = on_complete,
	.on_closed = on_closed,
};

static void open_server(const struct rdmamsg_options *opts, uint32_t srq_depth,
			uint32_t max_per_source)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = srq_depth,
	};
	struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &handlers, .user = &server,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &ep, .max_per_source = max_per_source,
	};

	clear_ends();
	connected = kept_count = 0;
	keep = false;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, opts), 0);
	if (srq_depth)
		assert_int_equal(rdmamsg_srq_create(server.ctx, &so, &ep.srq),
				 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "0.0.0.0", "0", &lo,
					&listener), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(listener));
}

static void close_both(void)
{
	while (kept_count)
		rdmamsg_msg_free(kept[--kept_count]);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* Returns false if the server refuses; client.why then gives the reason. */
static bool join(const char *from)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = &client,
		.source = from,
	};
	unsigned int before = connected;

	client.closed = false;
	client.ep = NULL;
	assert_int_equal(rdmamsg_connect(client.ctx, near_by, service, &opts,
					 NULL), 0);
	WAIT_FOR((connected == before + 2 && client.ep) || client.closed);
	return !client.closed;
}

static unsigned int join_all(const char *from)
{
	unsigned int n = 0;

	while (n < MANY && join(from))
		n++;
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_RESOURCES);
	return n;
}

static uint64_t refused_for_memory(void)
{
	struct rdmamsg_listener_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_listener_get_stats(listener, &s), 0);
	return s.rejected_memory;
}

static void expect_other_gets_in(unsigned int first)
{
	assert_true(first > 2);
	assert_non_null(strstr(client.why.text, "max_per_source"));
	assert_true(refused_for_memory() > 0);
	assert_true(join(other));
	client.sent = 0;
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, &client), 0);
	WAIT_FOR(client.sent == 1 && server.messages);
	/* memory is left for a third address */
	assert_true(join("127.0.0.3"));
}

static const struct rdmamsg_options little = {
	.size = sizeof(little), .max_registered = 64 * SLAB,
	.max_send_registered = 16 * SLAB,
};

static void accept__one_address_LEAVES_MEMORY(void **state)
{
	open_server(&little, 0, 0);
	expect_other_gets_in(join_all(near_by));
	close_both();
}

static void accept__one_address_LEAVES_SHARED_RECEIVES(void **state)
{
	open_server(NULL, 256, 0);
	expect_other_gets_in(join_all(near_by));
	close_both();
}

static void accept__max_per_source_GIVES_ALL_TO_ONE(void **state)
{
	unsigned int shared;

	open_server(NULL, 256, 0);
	shared = join_all(near_by);
	close_both();
	open_server(NULL, 256, RDMAMSG_NONE);
	assert_true(join_all(near_by) > shared);
	assert_false(join(other));
	close_both();
}

/* Closed connections return their share. */
static void accept__after_connections_ended_IS_AS_BEFORE(void **state)
{
	unsigned int first, again;

	open_server(&little, 0, 0);
	first = join_all(near_by);
	/* closing the client's context ends all connections at once */
	rdmamsg_close(client.ctx);
	client.ctx = NULL;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	WAIT_FOR(list_empty(&server.ctx->sessions->eps));
	connected = 0;
	again = join_all(near_by);
	assert_int_equal(again, first);
	close_both();
}

/* ---- messages that the program keeps ---------------------------------- */

static const struct rdmamsg_options more = {
	.size = sizeof(more), .max_registered = 256 * SLAB,
	.max_send_registered = 64 * SLAB,
};

static void send_large(void)
{
	static uint8_t bytes[4 << 20];
	struct iovec iov = { bytes, sizeof(bytes) };

	assert_int_equal(rdmamsg_sendv(client.ep, &iov, 1, 0, &client), 0);
}

/* The first message of a connection does not wait for memory. */
static void lend__one_address_LEAVES_MEMORY(void **state)
{
	struct rdmamsg_ep *greedy[12];
	unsigned int n = 0;

	open_server(&more, 0, 0);
	keep = true;
	for (int i = 0; i < 12; i++) {
		assert_true(join(near_by));
		greedy[i] = client.ep;
	}
	do {
		assert_true(n < 12);
		client.ep = greedy[n++];
		send_large();
		WAIT_FOR(client.sent == n ||
			 !list_empty(&server.ctx->memory->starved));
	} while (client.sent == n);
	assert_int_equal(client.sent, n - 1);
	assert_true(n > 3);
	assert_true(join(other));
	send_large();
	WAIT_FOR(client.sent == n);
	/* free the kept messages, so that the waiting message arrives */
	keep = false;
	while (kept_count)
		rdmamsg_msg_free(kept[--kept_count]);
	WAIT_FOR(client.sent == n + 1);
	close_both();
}

/*
 * The announced largest message holds memory only as long as endpoints exist.
 */
static void accept__after_the_last_one_ended_NOTHING_IS_HELD(void **state)
{
	open_server(NULL, 0, 0);
	assert_true(join(near_by));
	assert_true(server.ctx->memory->budget[DIR_IN].largest > 0);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && !server.ctx->sessions->ep_count);
	assert_int_equal(server.ctx->memory->budget[DIR_IN].largest, 0);
	close_both();
}

static uint64_t offences(void)
{
	struct rdmamsg_listener_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_listener_get_stats(listener, &s), 0);
	return s.offences;
}

/*
 * Turns only the server's loop until its endpoint waits for the client's CLOSE.
 */
static void wait_closing(void)
{
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;

	while (server.ep->state != EP_CLOSING) {
		assert_true(rdmamsg__now_ms() < end);
		assert_true(rdmamsg_process(server.ctx) >= 0);
	}
}

/* An offence counts even if the peer has sent CLOSE before. */
static void offend__after_its_close_COUNTS(void **state)
{
	open_server(NULL, 0, 0);
	assert_true(join(near_by));
	rdmamsg_ep_close(client.ep);
	assert_true(rdmamsg_process(client.ctx) >= 0);
	wait_closing();
	rdmamsg__ep_offended(server.ep);
	assert_int_equal(offences(), 1);
	close_both();
}

/* The peer may use keys that the program has revoked before it closed. */
static void offend__after_our_close_DOES_NOT(void **state)
{
	open_server(NULL, 0, 0);
	assert_true(join(near_by));
	rdmamsg_ep_close(server.ep);
	wait_closing();
	rdmamsg__ep_offended(server.ep);
	assert_int_equal(offences(), 0);
	close_both();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(accept__one_address_LEAVES_MEMORY),
		cmocka_unit_test(accept__one_address_LEAVES_SHARED_RECEIVES),
		cmocka_unit_test(accept__max_per_source_GIVES_ALL_TO_ONE),
		cmocka_unit_test(accept__after_connections_ended_IS_AS_BEFORE),
		cmocka_unit_test(
			accept__after_the_last_one_ended_NOTHING_IS_HELD),
		cmocka_unit_test(offend__after_its_close_COUNTS),
		cmocka_unit_test(offend__after_our_close_DOES_NOT),
		cmocka_unit_test(lend__one_address_LEAVES_MEMORY),
	};

	setenv("RDMAMSG_DEVICE", "soft", 1);
	join_own_fabric("share");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
