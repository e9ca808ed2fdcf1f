/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts at the end of a connection. */
#include "layout_board.h"

#include <errno.h>
#include <signal.h>

/* ---- ends of connections ---------------------------------------------- */

/* rdmamsg_close() frees layouts, their regions and imports that are left. */
static void close__with_layouts_ALL_FREED(void **state)
{
	struct rdmamsg_layout_part part;
	struct rdmamsg_key to;

	boards_open();
	column_give(&to);
	part = (struct rdmamsg_layout_part){
		.region = rdmamsg_layout_region(last(&theirs)), .len = 8,
	};
	to = give(board_add(&theirs, &part, 1, 1));
	pair_close(&p);
	pair_fini(&p);
	free(far);
	free(near);
}

#define MANY	20

/* Operations of 1,000 requests each. */
static void start_many(void)
{
	struct rdmamsg_layout_part part;
	struct rdmamsg_sge s;
	struct rdmamsg_key to;

	column(&part, theirs.region[0], 0, 1, 1000, 2);
	to = give(board_add(&theirs, &part, 1, 1));
	column(&part, mine.region[0], 0, 2, 500, 4);
	assert_int_equal(rdmamsg_layout_register(
				 board_add(&mine, &part, 1, 1), p.c.ep), 0);
	s = entry(last(&mine), 0, 1000);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(post(i % 2 ? READS : WRITES, &s, 1, &to, 0,
				      cookie()), 0);
}

static void close__with_operations_DONE(void **state)
{
	boards_open();
	start_many();
	boards_close();
	assert_int_equal(p.c.sent_ok, MANY);
}

static void abort__by_either_side_EACH_ENDS(void **state)
{
	for (int side = 0; side < 2; side++) {
		boards_open();
		start_many();
		rdmamsg_ep_abort(side ? p.s.ep : p.c.ep);
		WAIT_FOR(p.c.closed && p.s.closed);
		end_check_cookies(&p.c);
		boards_fini();
	}
}

/* The owner invalidates its layout in the middle of operations. */
static void invalidate__in_the_middle_EACH_ENDS(void **state)
{
	boards_open();
	start_many();
	WAIT_FOR(p.c.sent_ok >= 1);
	assert_int_equal(rdmamsg_layout_invalidate(last(&theirs)), 0);
	WAIT_FOR(p.c.sent_ok + p.c.sent_failed == MANY);
	if (p.c.sent_failed)
		WAIT_FOR(p.c.closed && p.s.closed);
	else
		pair_close(&p);
	end_check_cookies(&p.c);
	boards_fini();
}

/* Asks for a key of the server's layout. */
static const struct cookie *ask(size_t *ret_len)
{
	struct rdmamsg_layout_part part;
	struct cookie *c = end_cookie(&p.s);

	column(&part, theirs.region[0], 0, 8, 100, 16);
	if (rdmamsg_layout_get_key(board_add(&theirs, &part, 1, 1), p.s.ep,
				   key_bytes, KEY_ROOM, ret_len, c))
		fail_msg("%s", rdmamsg_error());
	p.s.sent++;
	return c;
}

/* The program hears once of a key whose layout or connection ends before. */
static void get_key__then_the_end_CANCELLED(void **state)
{
	const struct cookie *c;
	size_t len = 0;

	boards_open();
	c = ask(&len);
	board_clear(&theirs);
	WAIT_FOR(c->count);
	assert_int_equal(c->status, -ECANCELED);
	c = ask(&len);
	rdmamsg_ep_abort(p.s.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(c->status, -ECANCELED);
	assert_int_equal(len, 0);
	end_check_cookies(&p.s);
	boards_fini();
}

static struct end served;

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_accept(req, &served.opts, &served.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

/* Gives a layout to one client, until the process is killed. */
int child_serves(int argc, char **argv)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	static const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .handlers = &on,
	};
	static uint8_t memory[65536];
	struct rdmamsg_listener *listener;
	struct rdmamsg_layout_part part;
	struct rdmamsg_region *region;
	struct rdmamsg_layout *l;
	struct rdmamsg *ctx = test_open(NULL);
	char port[8];
	size_t len;

	end_init(&served, "server", ctx);
	assert_int_equal(rdmamsg_listen(ctx, test_addr(), "0", &lo, &listener),
			 0);
	(void)listener_service(listener, port);
	assert_int_equal(rdmamsg_region_create(ctx, memory, sizeof(memory), ANY,
					       &region), 0);
	l = layout_new(ctx, ANY);
	column(&part, region, 0, 8, 1000, 64);
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
	say("%s\n", port);
	WAIT_FOR(served.connected);
	len = key_of(&served, l, key_bytes, KEY_ROOM);
	assert_int_equal(rdmamsg_send(served.ep, key_bytes, len, 0, NULL), 0);
	WAIT_FOR(served.closed);
	return 0;
}

static void child_key(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_layout_import(e->ctx, rdmamsg_msg_data(msg),
				  rdmamsg_msg_len(msg), &key))
		note("%s", rdmamsg_error());
	e->arg = &key;
	rdmamsg_msg_free(msg);
}

/* Each operation that is done is followed by another. */
static void go_on(struct end *e)
{
	/* each block of 8 bytes is a request, and on siw a round trip */
	const size_t len = test_on_siw() ? 80 : 8000;
	struct rdmamsg_sge s = { near, len, near_region };

	if (rdmamsg_ep_state(e->ep) == RDMAMSG_CONNECTED &&
	    post(e->sent % 2 ? READS : WRITES, &s, 1, &key, 0, cookie()))
		note("%s", rdmamsg_error());
}

static void killed__in_the_middle_EACH_ENDS(void **state)
{
	struct child child;
	char port[16];

	child_start(&child, "serves", "");
	child_line(&child, port, sizeof(port));
	rma_connect(port, child_key);
	near = calloc(1, ROOM);
	assert_int_equal(rdmamsg_region_create(p.c.ctx, near, ROOM,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &near_region), 0);
	assert_int_equal(rdmamsg_region_register(near_region, p.c.ep), 0);
	p.c.then_sent = go_on;
	for (int i = 0; i < MANY; i++)
		go_on(&p.c);
	WAIT_FOR(p.c.sent_ok >= 50);
	kill(child.pid, SIGKILL);
	(void)child_wait(&child);
	WAIT_FOR(p.c.closed);
	end_check_cookies(&p.c);
	assert_int_equal(rdmamsg_layout_forget(p.c.ctx, &key), 0);
	end_fini(&p.c);
	test_close(p.c.ctx);
	free(near);
}

ON_BOTH(close__with_layouts_ALL_FREED)
ON_BOTH(close__with_operations_DONE)
ON_BOTH(abort__by_either_side_EACH_ENDS)
ON_BOTH(invalidate__in_the_middle_EACH_ENDS)
ON_BOTH(killed__in_the_middle_EACH_ENDS)
ON_BOTH(get_key__then_the_end_CANCELLED)
