/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: endpoints share the receives of one queue when receives, their
 * memory, or answers to rendezvous are scarce.
 */
#include "base/list.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "lane/qp.h"
#include "lane/srq.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/srq_share.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

#define LARGE	((size_t)100000)
#define KEPT	512

static bool hidden; /* the server's CQ reports no completions */
static bool as_write;	/* RECV completions become RECV_RDMA_WITH_IMM */
static bool astray;	/* RECV completions have an unknown QP number */
static struct rdmamsg_ep *ends[2];	/* the server's endpoints */
static struct rdmamsg_ep *clients[2];
static unsigned int accepted, connected;
static struct rdmamsg_srq *shared;
static struct rdmamsg_pool *pool;
static struct rdmamsg_msg *kept[KEPT];
static unsigned int kept_count;
/* the server keeps this endpoint's messages */
static const struct rdmamsg_ep *keeps;

static bool may_finish(void)
{
	return ends[0]->state == EP_DRAINING && ends[0]->lane.last_wqe &&
	       !rdmamsg__sq_used(&ends[0]->lane);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n;

	if (hidden && cq == ends[0]->lane.srq->cq->ibv && !may_finish())
		return 0;
	n = soft_ops.poll_cq(cq, room, wc);
	for (int i = 0; i < n && (as_write || astray); i++) {
		if (!ends[0]->lane.srq || cq != ends[0]->lane.srq->cq->ibv ||
		    wc[i].opcode != IBV_WC_RECV)
			continue;
		if (as_write)
			wc[i].opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		if (astray)
			wc[i].qp_num = 0xffffff;
	}
	return n;
}

/* ---- both ends -------------------------------------------------------- */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	if (ep == keeps && kept_count < KEPT)
		kept[kept_count++] = msg;
	else
		rdmamsg_msg_free(msg);
}

static unsigned int written_count;
static uint32_t written_value;

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	written_count++;
	written_value = value;
}

static void on_up(struct rdmamsg_ep *ep)
{
	on_connected(ep);
	if (rdmamsg_ep_user(ep) == &client)
		clients[connected++] = ep;
	else
		ends[accepted++] = ep;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_up,
	.on_message = on_message, .on_complete = on_complete,
	.on_closed = on_closed, .on_written = on_written,
};

static struct rdmamsg_ep_options opts, client_opts;
static struct rdmamsg_ep_tuning tuning;

/* pool_kb is the size of the pool for receives; 0: the library's pool. */
static void serve(uint32_t depth, uint32_t floor, size_t pool_kb)
{
	const struct rdmamsg_pool_options po = {
		.size = sizeof(po), .max_bytes = pool_kb << 10,
	};
	struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = depth, .floor = floor,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &opts,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	if (pool_kb) {
		assert_int_equal(rdmamsg_pool_create(server.ctx, &po, &pool),
				 0);
		so.recv_pool = pool;
	}
	assert_int_equal(rdmamsg_srq_create(server.ctx, &so, &shared), 0);
	opts.srq = shared;
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lo, &l),
			 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
}

static void join(void)
{
	unsigned int n = accepted;

	connect_client(&client_opts);
	WAIT_FOR(accepted == n + 1);
}

static int set_up(void **state)
{
	clear_ends();
	tuning = (struct rdmamsg_ep_tuning){
		.size = sizeof(tuning), .recv_depth = 256, .send_depth = 256,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers, .user = &server,
		.tuning = &tuning,
	};
	client_opts = opts;
	client_opts.user = &client;
	accepted = connected = kept_count = written_count = 0;
	keeps = NULL;
	hidden = as_write = astray = false;
	return 0;
}

static void free_kept(void)
{
	while (kept_count)
		rdmamsg_msg_free(kept[--kept_count]);
}

static int tear_down(void **state)
{
	hidden = as_write = astray = false;
	free_kept();
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

static const struct srq *part(void)
{
	return list_first(&shared->parts, struct srq, node);
}

static void send_many(struct rdmamsg_ep *ep, unsigned int n)
{
	unsigned int end = server.messages + n, sent = 0;

	while (server.messages < end) {
		while (sent < n && !rdmamsg_send(ep, "x", 1, 0, NULL))
			sent++;
		both();
	}
}

/* Sends n messages before the server's loop turns. */
static void send_at_once(struct rdmamsg_ep *ep, unsigned int n)
{
	unsigned int acked = client.sent + n, end = server.messages + n;
	uint64_t late = rdmamsg__now_ms() + WAIT_MS;

	WAIT_FOR(ep->credit.limit - ep->lane.hot.number >= n);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(rdmamsg_send(ep, "x", 1, 0, ep), 0);
	while (client.sent < acked) {
		assert_true(rdmamsg__now_ms() < late);
		assert_true(rdmamsg_process(client.ctx) >= 0);
	}
	WAIT_FOR(server.messages == end);
}

/* ---- tests ------------------------------------------------------------ */

static void share__of_one_that_sends_much_LEAVES_ROOM(void **state)
{
	serve(64, 4, 0);
	join();
	/* each round uses half of the credits, so the share doubles */
	for (unsigned int n = 2; n <= 16; n *= 2)
		send_at_once(clients[0], n);
	/* at most the receives left: 46, less the 12 that the endpoint had */
	assert_true(ends[0]->lane.share <= 4 + 34);
	join();
	send_many(clients[1], 100);
}

/* Promises all receives of the queue that are left to peers, or takes it back. */
static void crowd(bool on)
{
	static uint32_t all;
	struct srq_account *a = &((struct srq *)part())->account;

	all = on ? rdmamsg__srq_spare(a) - 1 : all;
	a->extra += on ? all : -all;
}

static void let_pass(uint64_t ms)
{
	uint64_t end = rdmamsg__now_ms() + ms;

	while (rdmamsg__now_ms() < end)
		both();
}

/* The others use up what they have been promised. */
static void newcomer__while_all_is_promised_WAITS(void **state)
{
	serve(64, 4, 0);
	join();
	crowd(true);
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &client_opts, NULL), 0);
	let_pass(100);
	assert_int_equal(connected, 1);
	assert_false(client.closed);
	crowd(false);
	WAIT_FOR(connected == 2 && accepted == 2);
	send_many(clients[1], 100);
}

static void newcomer__if_all_stays_promised_IS_REFUSED(void **state)
{
	serve(64, 4, 0);
	join();
	crowd(true);
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &client_opts, NULL), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_int_equal(connected, 1);
	crowd(false);
	join();
}

/* The receives cover the credits of both endpoints and the unused floors. */
static bool is_backed(void)
{
	const struct srq *q = part();
	uint32_t floors = q->account.eps * q->owner->opts.floor;

	return q->posted + q->ready_count >=
	       max(q->account.promised, floors + q->account.extra) +
	       q->account.eps * SRQ_CTRL;
}

static void floor__of_a_peer_whose_messages_are_kept_STAYS(void **state)
{
	/* 70 buffers for 128 receives */
	tuning.max_lent = 64 << 10;
	serve(128, 16, 560);
	join();
	join();
	assert_true(is_backed());
	keeps = ends[1];
	send_many(clients[1], 16);
	assert_int_equal(kept_count, 16);
	/* ends[0] uses much of its share, but there are no extra receives */
	for (int i = 0; i < 5; i++) {
		send_many(clients[0], 12);
		assert_true(part()->account.extra == 0);
	}
	keeps = NULL;
	free_kept();
	send_many(clients[1], 16);
	assert_true(is_backed());
}

/* Each endpoint reserves a receive for DONE, so it may announce one message. */
static void rendezvous__without_receives_for_answers_ONE_AT_A_TIME(void **state)
{
	static uint8_t memory[2][LARGE];
	struct iovec iov[2] = { { memory[0], LARGE }, { memory[1], LARGE } };
	uint32_t floor = 32 - rdmamsg__srq_batch(32) - SRQ_CTRL;

	tuning.pieces_max = RDMAMSG_NONE;
	serve(32, floor, 0);
	join();
	assert_int_equal(rdmamsg__srq_spare(&part()->account), 0);
	assert_int_equal(rdmamsg_sendv(ends[0], &iov[0], 1, 0, iov), 0);
	assert_int_equal(rdmamsg_sendv(ends[0], &iov[1], 1, 0, iov), -EAGAIN);
	WAIT_FOR(server.sent == 1);
	assert_int_equal(rdmamsg_sendv(ends[0], &iov[1], 1, 0, iov), 0);
	WAIT_FOR(server.sent == 2 && client.messages == 2);
}

/* A later queue pair may get the number of the destroyed one. */
static void messages__of_one_that_ends_ARE_ITS_OWN(void **state)
{
	struct rdmamsg_srq_stats st = { .size = sizeof(st) };

	serve(64, 16, 0);
	join();
	rdmamsg_ep_hold(ends[0]);
	hidden = true;
	for (int i = 0; i < 8; i++)
		assert_int_equal(rdmamsg_send(clients[0], "x", 1, 0, clients),
				 0);
	WAIT_FOR(client.sent == 8);
	rdmamsg_ep_abort(ends[0]);
	WAIT_FOR(server.closed);
	hidden = false;
	both();
	assert_int_equal(rdmamsg_srq_get_stats(shared, &st), 0);
	assert_int_equal(st.strays, 0);
	rdmamsg_ep_release(ends[0]);
}

/*
 * The receive of a write with immediate data may still hold an older message.
 */
static void write__with_immediate_data_IS_NO_MESSAGE(void **state)
{
	serve(64, 16, 0);
	join();
	as_write = true;
	assert_int_equal(rdmamsg_send(clients[0], "x", 1, 5, NULL), 0);
	WAIT_FOR(written_count);
	as_write = false;
	assert_int_equal(server.messages, 0);
	assert_int_equal(written_count, 1);
	assert_int_equal(written_value, 5 << 16);
	assert_int_equal(rdmamsg_send(clients[0], "x", 1, 0, NULL), 0);
	WAIT_FOR(server.messages == 1);
}

/* With full headers, the ends have not agreed on immediate data. */
static void write__with_immediate_data_not_agreed_ENDS(void **state)
{
	opts.flags = RDMAMSG_EP_FULL_HEADERS;
	serve(64, 16, 0);
	join();
	rdmamsg_ep_hold(ends[0]);
	as_write = true;
	assert_int_equal(rdmamsg_send(clients[0], "x", 1, 0, NULL), 0);
	WAIT_FOR(server.closed);
	as_write = false;
	assert_int_equal(server.messages, 0);
	assert_int_equal(written_count, 0);
	assert_int_equal(rdmamsg_ep_reason(ends[0])->cause,
			 RDMAMSG_CAUSE_PROTOCOL);
	rdmamsg_ep_release(ends[0]);
}

static uint64_t strays(void)
{
	struct rdmamsg_srq_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_srq_get_stats(shared, &st), 0);
	return st.strays;
}

static void message__of_no_endpoint_IS_COUNTED(void **state)
{
	serve(64, 16, 0);
	join();
	astray = true;
	assert_int_equal(rdmamsg_send(clients[0], "x", 1, 0, NULL), 0);
	WAIT_FOR(strays() == 1);
	assert_int_equal(server.messages, 0);
}

/* The library refills a share of 16 once half of it is used. */
static void credits__of_messages_that_wait_STAY_USED(void **state)
{
	uint32_t granted;

	serve(64, 16, 0);
	join();
	send_many(clients[0], 3);
	granted = rdmamsg__granted(ends[0]);
	ends[0]->rndv.waiting.count = ends[0]->lane.share;
	rdmamsg__srq_refill(ends[0]);
	assert_int_equal(rdmamsg__granted(ends[0]), granted);
	ends[0]->rndv.waiting.count = 0;
	rdmamsg__srq_refill(ends[0]);
	assert_true(rdmamsg__granted(ends[0]) > granted);
}

static void answers__to_rendezvous_HAVE_RECEIVES(void **state)
{
	struct srq_account a = { .floor = 4, .capacity = 64 };
	uint32_t before;

	rdmamsg__srq_visit(&a);
	rdmamsg__srq_admit(&a);
	before = rdmamsg__srq_in_flight(&a);
	rdmamsg__srq_expect(&a);
	assert_int_equal(rdmamsg__srq_in_flight(&a), before + 1);
	rdmamsg__srq_expected(&a);
	assert_int_equal(rdmamsg__srq_in_flight(&a), before);
}

/* An endpoint is small while it sends little, and not slow if it sends much. */
static void slots__for_more_sends_ARE_ALLOCATED(void **state)
{
	const struct send_queue *sq;

	serve(64, 4, 0);
	join();
	sq = &ends[0]->lane.sq;
	assert_int_equal(sq->mask + 1, 64);
	assert_true(sq->data < 64 && sq->total <= 64);
	WAIT_FOR(ends[0]->credit.limit - ends[0]->lane.hot.number >= 256);
	/* each second one has an operation, which must be found again */
	for (unsigned int i = 0; i < 256; i++)
		assert_int_equal(rdmamsg_send(ends[0], "x", 1, i,
					      i % 2 ? &client : NULL), 0);
	assert_int_equal(rdmamsg_send(ends[0], "x", 1, 0, NULL), -EAGAIN);
	assert_int_equal(sq->data, 256);
	assert_int_equal(sq->more, 0);
	assert_true(sq->total <= sq->mask + 1);
	WAIT_FOR(client.messages == 256 && server.sent == 128);
	assert_int_equal(server.status, 0);
	assert_int_equal(sq->ops, 0);
}

static void slots__of_a_lane_with_its_own_receives_ARE_ALL_THERE(void **state)
{
	serve(64, 4, 0);
	join();
	assert_int_equal(clients[0]->lane.sq.more, 0);
	assert_int_equal(clients[0]->lane.sq.data, 256);
}

/*
 * The queue pair may still take a receive of the shared queue until the event,
 * so it is not destroyed before.
 */
static void drained__shared_receives_AFTER_THE_EVENT(void **state)
{
	serve(64, 4, 0);
	join();
	WAIT_FOR(!rdmamsg__sq_used(&ends[0]->lane));
	assert_int_equal(rdmamsg__rq_posted(&ends[0]->lane), 0);
	assert_false(rdmamsg__lane_is_drained(&ends[0]->lane));
	rdmamsg__ep_last_wqe(ends[0]);
	assert_true(rdmamsg__lane_is_drained(&ends[0]->lane));
	ends[0]->lane.last_wqe = false;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(share__of_one_that_sends_much_LEAVES_ROOM),
		TEST(newcomer__while_all_is_promised_WAITS),
		TEST(newcomer__if_all_stays_promised_IS_REFUSED),
		TEST(floor__of_a_peer_whose_messages_are_kept_STAYS),
		TEST(rendezvous__without_receives_for_answers_ONE_AT_A_TIME),
		TEST(messages__of_one_that_ends_ARE_ITS_OWN),
		TEST(write__with_immediate_data_IS_NO_MESSAGE),
		TEST(write__with_immediate_data_not_agreed_ENDS),
		TEST(message__of_no_endpoint_IS_COUNTED),
		TEST(credits__of_messages_that_wait_STAY_USED),
		TEST(answers__to_rendezvous_HAVE_RECEIVES),
		TEST(drained__shared_receives_AFTER_THE_EVENT),
		TEST(slots__for_more_sends_ARE_ALLOCATED),
		TEST(slots__of_a_lane_with_its_own_receives_ARE_ALL_THERE),
	};

	join_own_fabric("srq-share");
	replace_calls(poll_cq, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
