/* SPDX-License-Identifier: BSD-2-Clause */
/* Masked atomics of many processes, and at the end of a connection. */
#include "atomics.h"

#include <signal.h>

/* ---- many processes --------------------------------------------------- */

#define CLIENTS	8
#define ROUNDS	200

/* A message from the server is the key. */
static void child_key(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_key_import(rdmamsg_msg_data(msg), rdmamsg_msg_len(msg),
			       &key))
		note("%s", rdmamsg_error());
	e->arg = &key;
	rdmamsg_msg_free(msg);
}

/* A field of each word of 32 bytes, if the path has such operands. */
static const struct op wide = {
	.adds = true, .bytes = 32,
	.value = { 1, 1ull << 16, 1ull << 32, 1ull << 48 },
	.mask = { TOP, TOP, TOP, TOP },
};

/* Adds to the fields of all, to a half word, and to a byte of its own. */
int child_adds(int argc, char **argv)
{
	const struct op fields = {
		.adds = true, .bytes = 8, .value = { 0x0101010101010101 },
		.mask = { BYTES },
	};
	const struct op half = { .adds = true, .bytes = 4, .value = { 1 } };
	unsigned int number, shift, native, each;
	char port[8];
	uint64_t was;

	if (sscanf(argv[0], "%7[0-9],%u,%u", port, &number, &native) != 3)
		return 1;
	each = native ? 4 : 3;
	shift = number * 8;
	rma_connect(port, child_key);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		const struct op own = {
			.bytes = 8, .value = { (i + 1) << shift },
			.mask = { 0xffull << shift },
			.expected = { i << shift },
			.compare = { 0xffull << shift },
		};

		post_all(&fields, 0, NULL, cookie());
		post_all(&half, number % 2 ? 12 : 8, NULL, cookie());
		post_all(&own, 16, &was, cookie());
		if (native)
			post_all(&wide, 32, NULL, cookie());
		WAIT_FOR(p.c.sent_ok == each * (i + 1));
		if ((was >> shift & 0xff) != i)
			return 2;
	}
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed);
	return 0;
}

static struct end ends[CLIENTS];
static int requests;

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct end *e = &ends[requests++];

	if (rdmamsg_request_accept(req, &e->opts, &e->ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

/* Listens for clients, which get a key of 'far'. */
static void serve(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	static const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .handlers = &on,
	};

	memset(&p, 0, sizeof(p));
	memset(ends, 0, sizeof(ends));
	requests = 0;
	p.s.ctx = test_open(NULL);
	for (int i = 0; i < CLIENTS; i++)
		end_init(&ends[i], "server", p.s.ctx);
	assert_int_equal(rdmamsg_listen(p.s.ctx, test_addr(), "0", &lo,
					&p.listener), 0);
	(void)listener_service(p.listener, p.port);
	far = aligned_alloc(4096, ROOM);
	memset(far, 0, ROOM);
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM,
					       RDMAMSG_ACCESS_ATOMIC,
					       &far_region), 0);
}

static void give_key(struct end *e)
{
	struct rdmamsg_key mine;

	assert_int_equal(rdmamsg_region_get_key(far_region, e->ep, &mine), 0);
	assert_int_equal(rdmamsg_send(e->ep, &mine, sizeof(mine), 0, NULL), 0);
}

static void clients__of_many_processes_ADD_UP(void)
{
	struct child child[CLIENTS];
	char arg[24];

	serve();
	for (int i = 0; i < CLIENTS; i++) {
		snprintf(arg, sizeof(arg), "%s,%d,%d", p.port, i,
			 path != SOFTWARE);
		child_start(&child[i], "adds", arg);
	}
	for (int i = 0; i < CLIENTS; i++) {
		WAIT_FOR(ends[i].connected);
		give_key(&ends[i]);
	}
	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(child_wait(&child[i]), 0);
	for (int i = 0; i < CLIENTS; i++) {
		WAIT_FOR(ends[i].closed);
		/* each byte of word 0, and the byte of client i in word 2 */
		assert_int_equal(far[i], CLIENTS * ROUNDS % 256);
		assert_int_equal(far[16 + i], ROUNDS);
		end_fini(&ends[i]);
	}
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(((uint64_t *)far)[4 + i], path == SOFTWARE ?
				 0 : wide.value[i] * CLIENTS * ROUNDS);
	assert_int_equal(((uint32_t *)far)[2], CLIENTS * ROUNDS / 2);
	assert_int_equal(((uint32_t *)far)[3], CLIENTS * ROUNDS / 2);
	assert_int_equal(rdmamsg_region_destroy(far_region), 0);
	test_close(p.s.ctx);
	free(far);
}

/* ---- ends of connections ---------------------------------------------- */

static void start_many(uint32_t count)
{
	struct op add = { .adds = true, .bytes = 8, .value = { 1 } };
	struct op swap = {
		.bytes = 4, .value = { 1 }, .mask = { 1 }, .compare = { 1 },
	};

	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(post(&add, AT, NULL, cookie()), 0);
		assert_int_equal(post(&swap, AT + 8, NULL, cookie()), 0);
	}
}

static void close__with_operations_DONE(void)
{
	open_path();
	start_many(20);
	rma_end();
	assert_int_equal(p.c.sent_ok, 40);
}

static void abort__with_operations_EACH_ENDS(void)
{
	open_path();
	start_many(20);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	rma_fini();
}

static void abort__by_the_peer_EACH_ENDS(void)
{
	open_path();
	start_many(20);
	rdmamsg_ep_abort(p.s.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	rma_fini();
}

/* The child's memory is reached until the child is killed. */
int child_serves(int argc, char **argv)
{
	serve();
	say("%s\n", p.port);
	WAIT_FOR(ends[0].connected);
	give_key(&ends[0]);
	WAIT_FOR(ends[0].closed);
	return 0;
}

/* Each operation that is done is followed by another. */
static void go_on(struct end *e)
{
	static const struct op o = { .adds = true, .bytes = 8, .value = { 1 } };

	if (rdmamsg_ep_state(e->ep) == RDMAMSG_CONNECTED &&
	    post(&o, AT, NULL, cookie()))
		note("%s", rdmamsg_error());
}

static void killed__in_the_middle_EACH_ENDS(void)
{
	struct child child;
	char port[16];

	child_start(&child, "serves", "");
	child_line(&child, port, sizeof(port));
	rma_connect(port, child_key);
	p.c.then_sent = go_on;
	for (int i = 0; i < 20; i++)
		go_on(&p.c);
	WAIT_FOR(p.c.sent_ok >= 50);
	kill(child.pid, SIGKILL);
	(void)child_wait(&child);
	WAIT_FOR(p.c.closed);
	end_check_cookies(&p.c);
	end_fini(&p.c);
	test_close(p.c.ctx);
}

ON_BOTH(clients__of_many_processes_ADD_UP)
ON_BOTH(close__with_operations_DONE)
ON_BOTH(abort__with_operations_EACH_ENDS)
ON_BOTH(abort__by_the_peer_EACH_ENDS)
ON_BOTH(killed__in_the_middle_EACH_ENDS)
