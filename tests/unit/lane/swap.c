/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an open endpoint gets another lane. Both sides remove the old
 * lane while no request is in flight, and install a new one. Numbers, credits,
 * large messages and the close continue.
 */
#include "base/ctx.h"
#include "base/util.h"
#include "device/path.h"
#include "device/verbs_api.h"
#include "lane/qp.h"
#include "lane/ring.h"

#include "session/credit.h"
#include "session/ep.h"
#include "session/recv.h"
#include "wire/flight.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

#define DEPTH	16u
#define LARGE	200000u
#define ROUND	100	/* small messages, more than the credits */

static uint32_t next_in[2];	/* tag of the next message of each side */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_int_equal(rdmamsg_msg_tag(msg), next_in[s == &server]++);
	if (rdmamsg_msg_len(msg) == LARGE)
		assert_memory_equal(rdmamsg_msg_data(msg), server.mem, LARGE);
	s->messages++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers =
	END_HANDLERS(on_message);

static void connect_oob(void)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = RDMAMSG_NONE,
		.tuning = TUNING(.recv_depth = DEPTH, .send_depth = DEPTH,
				 .stall_after_ms = RDMAMSG_NONE),
	};
	struct rdmamsg_ep *offering, *answering;
	uint8_t record[256];
	int len;

	clear_ends();
	memset(next_in, 0, sizeof(next_in));
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	opts.user = &client;
	assert_int_equal(rdmamsg_oob_offer(client.ctx, &opts, &offering), 0);
	len = rdmamsg_oob_record(offering, record, sizeof(record));
	opts.user = &server;
	assert_int_equal(rdmamsg_oob_answer(server.ctx, record, (size_t)len,
					    &opts, &answering), 0);
	len = rdmamsg_oob_record(answering, record, sizeof(record));
	assert_int_equal(rdmamsg_oob_finish(offering, record, (size_t)len), 0);
	WAIT_FOR(client.ep && server.ep);
	server.mem = malloc(LARGE);
	memset(server.mem, 0xa7, LARGE);
}

static void send_one(struct side *s, size_t len, uint32_t tag, void *cookie)
{
	struct iovec iov = { server.mem, len };
	int ret;

	while ((ret = rdmamsg_sendv(s->ep, &iov, 1, tag, cookie)) == -EAGAIN)
		both();
	assert_int_equal(ret, 0);
}

/*
 * Both sides send messages with tags from 'tag' on, the last one large. All of
 * them arrive.
 */
static void talk(uint32_t tag)
{
	unsigned int sent = client.sent + 1;

	for (uint32_t i = 0; i < ROUND; i++) {
		send_one(&client, i, tag + i, NULL);
		send_one(&server, i, tag + i, NULL);
	}
	send_one(&client, LARGE, tag + ROUND, client.ctx);
	send_one(&server, LARGE, tag + ROUND, server.ctx);
	WAIT_FOR(client.messages == tag + ROUND + 1 &&
		 server.messages == tag + ROUND + 1 && client.sent == sent &&
		 server.sent == sent);
	WAIT_FOR(!client.ep->lane.sq.ops && !server.ep->lane.sq.ops &&
		 !client.ep->rndv.fetch_count && !server.ep->rndv.fetch_count);
}

/* Replaces the endpoint's queue pair, its queues and its receives. */
static void replace(struct rdmamsg_ep *ep)
{
	struct lane *l = &ep->lane;
	uint32_t old = l->hot.qp->qp_num;

	rdmamsg__lane_destroy_qp(l);
	rdmamsg__rx_discard(ep);
	l->sq.done = (uint32_t)l->hot.sq_posted;
	rdmamsg__lane_unmake(l);
	assert_null(l->hot.qp);
	assert_int_equal(rdmamsg__lane_make(l, &ep->opts), 0);
	assert_int_not_equal(l->hot.qp->qp_num, old);
	rdmamsg__ring_make(l, DEPTH + RECV_RESERVE, 1);
}

static void join(struct rdmamsg_ep *ep, const struct rdmamsg_ep *peer)
{
	ep->connect.oob->peer.qp_num = peer->lane.hot.qp->qp_num;
	assert_int_equal(rdmamsg__qp_init(ep), 0);
	assert_int_equal(rdmamsg__qp_ready(ep), 0);
	rdmamsg__tx_room(ep);
}

static void lane__replaced_while_idle_THE_CONVERSATION_GOES_ON(void **state)
{
	connect_oob();
	talk(0);
	for (uint32_t i = 1; i <= 3; i++) {
		replace(client.ep);
		replace(server.ep);
		join(client.ep, server.ep);
		join(server.ep, client.ep);
		talk(i * (ROUND + 1));
	}
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	free(server.mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			lane__replaced_while_idle_THE_CONVERSATION_GOES_ON),
	};

	join_own_fabric("swap");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
