/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: on iWARP no request has a fence, because on siw it can wait for
 * ever. A message that invalidates a window waits for the end of earlier reads
 * before it is posted.
 */
#include "../../post.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define ROOM	(1u << 16)

static unsigned int fenced;		/* requests */
static unsigned int reading;		/* reads that have not completed */
static unsigned int early;		/* invalidations beside them */
static unsigned int order;		/* messages out of order */

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = soft_ops.poll_cq(cq, room, wc);

	for (int i = 0; i < n; i++)
		reading -= wc[i].opcode == IBV_WC_RDMA_READ;
	return n;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	for (const struct ibv_send_wr *at = wr; at; at = at->next) {
		fenced += (at->send_flags & IBV_SEND_FENCE) != 0;
		reading += at->opcode == IBV_WR_RDMA_READ;
		early += at->opcode == IBV_WR_SEND_WITH_INV && reading;
	}
	return soft_ops.post_send(qp, wr, bad);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	order += rdmamsg_msg_tag(msg) != s->messages;
	s->messages++;
	rdmamsg_msg_free(msg);
}

static void on_invalidated(struct rdmamsg_ep *ep, struct rdmamsg_window *w)
{
	((struct side *)rdmamsg_ep_user(ep))->invalidated++;
}

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_message = on_message,
		.on_closed = on_closed, .on_invalidated = on_invalidated,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .send_queue = 8,
	};

	clear_ends();
	fenced = reading = early = order = 0;
	replace_calls(poll_cq, post_send);
	connect_ends(&opts);
	return 0;
}

static void side_memory(struct side *s, uint32_t access)
{
	s->mem = calloc(1, ROOM);
	assert_int_equal(rdmamsg_region_create(s->ctx, s->mem, ROOM, access,
					       &s->region), 0);
	assert_int_equal(rdmamsg_region_register(s->region, s->ep), 0);
}

static void send_invalidate__behind_a_read_WAITS_WITHOUT_A_FENCE(void **state)
{
	struct rdmamsg_sge s = { .len = ROOM };
	struct rdmamsg_window *w;
	struct rdmamsg_key key;

	side_memory(&client, RDMAMSG_ACCESS_LOCAL_WRITE);
	side_memory(&server, RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WINDOW);
	for (uint32_t i = 0; i < ROOM; i++)
		server.mem[i] = (uint8_t)(i * 7 + 1);
	s.data = client.mem;
	s.region = client.region;
	assert_int_equal(rdmamsg_window_create(server.ep, &w), 0);
	for (unsigned int i = 1; i <= 20; i++) {
		memset(client.mem, 0, ROOM);
		assert_int_equal(rdmamsg_window_bind(w, server.region, 0, ROOM,
						     RDMAMSG_ACCESS_READ, &key,
						     w), 0);
		WAIT_FOR(server.sent == i);
		assert_int_equal(rdmamsg_read(client.ep, &s, 1, &key, 0, 0,
					      &s), 0);
		assert_int_equal(post_invalidate(client.ep, NULL, 0, 2 * i - 2,
						 &key, NULL),
				 0);
		assert_int_equal(rdmamsg_send(client.ep, "x", 1, 2 * i - 1,
					      NULL), 0);
		WAIT_FOR((server.messages == 2 * i && client.sent == i) ||
			 client.closed || server.closed);
		if (client.closed || server.closed)
			fail_msg("turn %u: %s", i, client.closed ?
				 client.why.text : server.why.text);
		assert_int_equal(client.status, 0);
		assert_int_equal(server.invalidated, i);
		assert_memory_equal(client.mem, server.mem, ROOM);
	}
	assert_int_equal(fenced, 0);
	assert_int_equal(early, 0);
	assert_int_equal(order, 0);
	free(client.mem);
	free(server.mem);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, leave_soft)
	const struct CMUnitTest tests[] = {
		CASE(send_invalidate__behind_a_read_WAITS_WITHOUT_A_FENCE),
	};

	join_own_fabric("unfenced");
	(void)setenv("RDMAMSG_SOFT_LINK", "iwarp", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
