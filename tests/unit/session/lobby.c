/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the resources of an accepted endpoint before and after the
 * peer's SETUP.
 */
#include "base/ctx.h"
#include "lane/srq.h"
#include "memory/memory.h"
#include "memory/stretch.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

#define BUF	((size_t)PROTO_RECV_MIN)
#define SLAB	((size_t)256 << 10)
#define OWN	(64 + RECV_RESERVE)	/* receives of a full endpoint */

static struct rdmamsg_ep *offering[3], *answering[3];
static unsigned int connected;

static void on_open(struct rdmamsg_ep *ep)
{
	on_connected(ep);
	connected++;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_open,
	.on_message = on_message, .on_complete = on_complete,
	.on_closed = on_closed,
};

static void open_both(const struct rdmamsg_options *opts)
{
	clear_ends();
	connected = 0;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, opts), 0);
}

static void close_both(void)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* Accepts an offer, but does not give the answer to the offering side. */
static struct rdmamsg_ep *half_open(int i, const struct rdmamsg_ep_options *o)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = &client,
		.tuning = o->tuning,
	};
	uint8_t record[RDMAMSG_OOB_MAX];
	int len;

	assert_int_equal(rdmamsg_oob_offer(client.ctx, &opts, &offering[i]), 0);
	len = rdmamsg_oob_record(offering[i], record, sizeof(record));
	assert_true(len > 0);
	opts = *o;
	opts.handlers = &handlers;
	opts.user = &server;
	if (rdmamsg_oob_answer(server.ctx, record, (size_t)len, &opts,
			       &answering[i]))
		fail_msg("%s", rdmamsg_error());
	return answering[i];
}

/* The offering side finishes, and sends SETUP. */
static void tell(int i)
{
	uint8_t record[RDMAMSG_OOB_MAX];
	int len = rdmamsg_oob_record(answering[i], record, sizeof(record));

	assert_int_equal(rdmamsg_oob_finish(offering[i], record, (size_t)len),
			 0);
}

static void talk(void)
{
	unsigned int sent = client.messages + server.messages;

	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(client.messages + server.messages == sent + 2);
}

static size_t receiving(void)
{
	return server.ctx->memory->budget[DIR_IN].used;
}

static void accept__until_SETUP_ONE_RECEIVE(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };
	struct rdmamsg_ep *ep;

	open_both(NULL);
	ep = half_open(0, &opts);
	assert_int_equal(rdmamsg__rq_posted(&ep->lane), 1);
	assert_int_equal(ep->lane.recv_pool->used, 1);
	assert_int_equal(receiving(), SLAB);
	/* another endpoint without SETUP costs a single buffer */
	(void)half_open(1, &opts);
	assert_int_equal(ep->lane.recv_pool->used, 2);
	assert_int_equal(receiving(), SLAB);
	tell(0);
	WAIT_FOR(connected == 2);
	assert_int_equal(rdmamsg__rq_posted(&ep->lane), OWN);
	assert_int_equal(ep->lane.recv_pool->used, OWN + 1);
	talk();
	tell(1);
	WAIT_FOR(connected == 4);
	assert_int_equal(ep->lane.recv_pool->used, 2 * OWN);
	close_both();
}

static void accept__ends_before_SETUP_LEAVES_NOTHING(void **state)
{
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };
	struct rdmamsg_ep *ep;

	open_both(NULL);
	ep = half_open(0, &opts);
	rdmamsg_ep_abort(ep);
	WAIT_FOR(server.closed);
	assert_int_equal(receiving(), SLAB);
	assert_int_equal(server.ctx->memory->budget[DIR_IN].spare, SLAB);
	close_both();
}

/* An endpoint without SETUP takes no buffers of the program's pool. */
static void accept__into_a_pool_AFTER_SETUP(void **state)
{
	struct rdmamsg_pool_stats st = { .size = sizeof(st) };
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };
	struct rdmamsg_ep *ep;

	open_both(NULL);
	assert_int_equal(rdmamsg_pool_create(server.ctx, NULL,
					     &opts.recv_pool), 0);
	ep = half_open(0, &opts);
	assert_int_equal(rdmamsg_pool_get_stats(opts.recv_pool, &st), 0);
	assert_int_equal(st.bytes, 0);
	tell(0);
	WAIT_FOR(connected == 2);
	assert_int_equal(rdmamsg_pool_get_stats(opts.recv_pool, &st), 0);
	assert_int_equal(st.used, OWN);
	assert_ptr_equal(ep->lane.recv_pool->owner, opts.recv_pool);
	talk();
	close_both();
}

static void accept__larger_receives_AFTER_SETUP(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .tuning = TUNING(.eager_max = 60000),
	};
	static uint8_t large[60000];
	struct rdmamsg_ep *ep;

	open_both(NULL);
	ep = half_open(0, &opts);
	assert_int_equal(receiving(), SLAB);
	tell(0);
	WAIT_FOR(connected == 2);
	assert_int_equal(ep->lane.recv_pool->buf_size, 65536);
	assert_int_equal(rdmamsg_send(client.ep, large, sizeof(large), 0,
				      NULL), 0);
	WAIT_FOR(server.messages == 1);
	assert_int_equal(ep->st.received_rendezvous, 0);
	close_both();
}

/* ---- there is no memory when SETUP has come --------------------------- */

static void expect_refused(int i, unsigned int open)
{
	client.closed = server.closed = false;
	tell(i);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(connected, open);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_non_null(strstr(client.why.text, "memory"));
	assert_int_equal(server.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_int_equal(server.why.error, -ENOBUFS);
}

static void accept__no_memory_for_all_BOTH_ARE_TOLD(void **state)
{
	/* memory for one endpoint and the largest message */
	const struct rdmamsg_options little = {
		.size = sizeof(little), .max_registered = 12 * SLAB,
		.max_send_registered = 6 * SLAB,
	};
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };

	open_both(&little);
	(void)half_open(0, &opts);
	(void)half_open(1, &opts);
	(void)half_open(2, &opts);
	tell(0);
	WAIT_FOR(connected == 2);
	expect_refused(1, 2);
	expect_refused(2, 2);
	talk();
	close_both();
}

static void accept__pool_is_full_BOTH_ARE_TOLD(void **state)
{
	const struct rdmamsg_pool_options one = {
		.size = sizeof(one), .max_bytes = OWN * BUF,
	};
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };

	open_both(NULL);
	assert_int_equal(rdmamsg_pool_create(server.ctx, &one,
					     &opts.recv_pool), 0);
	(void)half_open(0, &opts);
	(void)half_open(1, &opts);
	tell(0);
	WAIT_FOR(connected == 2);
	expect_refused(1, 2);
	talk();
	close_both();
}

/* ---- shared receives -------------------------------------------------- */

static void accept__shared_ONE_OF_THE_QUEUE(void **state)
{
	const struct rdmamsg_srq_options o = { .size = sizeof(o) };
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };
	const struct srq *q;
	uint32_t before;

	open_both(NULL);
	assert_int_equal(rdmamsg_srq_create(server.ctx, &o, &opts.srq), 0);
	q = half_open(0, &opts)->lane.srq;
	assert_int_equal(q->account.lobby, 1);
	assert_int_equal(q->account.eps, 0);
	assert_int_equal(q->account.promised, 0);
	assert_int_equal(q->posted, 1 + q->batch);
	before = rdmamsg__srq_spare(&q->account);
	(void)half_open(1, &opts);
	assert_int_equal(rdmamsg__srq_spare(&q->account), before - 1);
	assert_int_equal(q->posted, 2 + q->batch);
	tell(0);
	WAIT_FOR(connected == 2);
	assert_int_equal(q->account.lobby, 1);
	assert_int_equal(q->account.promised, o.floor ? o.floor : 4);
	talk();
	rdmamsg_ep_abort(answering[1]);
	WAIT_FOR(server.closed);
	assert_int_equal(q->account.lobby, 0);
	assert_int_equal(rdmamsg__srq_spare(&q->account), before + 1 - 10);
	close_both();
}

static void accept__shared_queue_is_full_BOTH_ARE_TOLD(void **state)
{
	/*
	 * of 16 receives, one endpoint and the batch leave too few for a second
	 * one
	 */
	const struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 16,
	};
	struct rdmamsg_ep_options opts = { .size = sizeof(opts) };

	open_both(NULL);
	assert_int_equal(rdmamsg_srq_create(server.ctx, &o, &opts.srq), 0);
	(void)half_open(0, &opts);
	(void)half_open(1, &opts);
	tell(0);
	WAIT_FOR(connected == 2);
	expect_refused(1, 2);
	talk();
	close_both();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(accept__until_SETUP_ONE_RECEIVE),
		cmocka_unit_test(accept__ends_before_SETUP_LEAVES_NOTHING),
		cmocka_unit_test(accept__into_a_pool_AFTER_SETUP),
		cmocka_unit_test(accept__larger_receives_AFTER_SETUP),
		cmocka_unit_test(accept__no_memory_for_all_BOTH_ARE_TOLD),
		cmocka_unit_test(accept__pool_is_full_BOTH_ARE_TOLD),
		cmocka_unit_test(accept__shared_ONE_OF_THE_QUEUE),
		cmocka_unit_test(accept__shared_queue_is_full_BOTH_ARE_TOLD),
	};

	setenv("RDMAMSG_DEVICE", "soft", 1);
	join_own_fabric("lobby");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
