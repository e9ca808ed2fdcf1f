/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: control of the flow over the soft HCA: pause and resume, cancel,
 * and what rdmamsg_ep_flow_query() tells.
 */
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/flow.h>
#include <sys/uio.h>

#define LARGE	(1u << 20)
#define PIECES	50000u
#define MANY	512

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_tuning tuning;
static struct rdmamsg_ep_handlers handlers;
static uint8_t data[LARGE];

/* Tags that the server has received, and the one after which it pauses. */
static uint32_t got[MANY];
static uint32_t pause_at;
static bool pause_connected;

/* Sends of the client: how often each has completed, and its last status. */
static struct cookie {
	unsigned int count;
	int status;
} cookies[MANY];
static bool in_call, reentered;

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	uint32_t tag = rdmamsg_msg_tag(msg);

	reentered |= in_call;
	assert_memory_equal(rdmamsg_msg_data(msg), data, rdmamsg_msg_len(msg));
	if (s->messages < MANY)
		got[s->messages] = tag;
	s->messages++;
	rdmamsg_msg_free(msg);
	if (tag == pause_at)
		assert_int_equal(rdmamsg_ep_pause(ep), 0);
}

static void on_done(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct cookie *c = cookie;

	reentered |= in_call;
	c->count++;
	c->status = status;
	client.sent++;
}

static void on_open(struct rdmamsg_ep *ep)
{
	on_connected(ep);
	if (pause_connected && rdmamsg_ep_user(ep) == &server)
		assert_int_equal(rdmamsg_ep_pause(ep), 0);
}

static int set_up(void **state)
{
	handlers = (struct rdmamsg_ep_handlers){
		.size = sizeof(handlers), .on_connected = on_open,
		.on_complete = on_done, .on_message = on_message,
		.on_closed = on_closed,
	};
	tuning = (struct rdmamsg_ep_tuning){
		.size = sizeof(tuning), .max_copy = LARGE,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers, .tuning = &tuning,
	};
	clear_ends();
	memset(cookies, 0, sizeof(cookies));
	for (size_t i = 0; i < LARGE; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	pause_at = UINT32_MAX;
	pause_connected = in_call = reentered = false;
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return 0;
}

static void pause_server(void)
{
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
}

static void resume_server(void)
{
	in_call = true;
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	in_call = false;
}

static void let_work(unsigned int rounds)
{
	while (rounds--)
		both();
}

static int try_send(size_t len, uint32_t tag)
{
	return rdmamsg_send(client.ep, data, len, tag, &cookies[tag]);
}

static void send_it(size_t len, uint32_t tag)
{
	assert_int_equal(try_send(len, tag), 0);
}

/* Sends until the peer has no credit left. Returns how many went. */
static uint32_t send_all_credits(void)
{
	uint32_t n = 0, before;

	do {
		before = n;
		while (!try_send(100, n))
			assert_true(++n < MANY);
		let_work(20);
	} while (n != before);
	return n;
}

static void check_order(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(got[i], i);
	assert_false(reentered);
}

static struct rdmamsg_ep_flow_attr flow_of(const struct side *s)
{
	struct rdmamsg_ep_flow_attr f = { .size = sizeof(f) };

	assert_int_equal(rdmamsg_ep_flow_query(s->ep, &f), 0);
	return f;
}

/* ---- pause and resume ------------------------------------------------- */

static void check_pause(void)
{
	uint32_t n;

	connect_ends(&opts);
	pause_server();
	pause_server();
	n = send_all_credits();
	assert_int_equal(server.messages, 0);
	assert_in_range(n, 1, 64);
	assert_int_equal(flow_of(&server).paused, 1);
	assert_int_equal(flow_of(&server).waiting, n);
	resume_server();
	resume_server();
	WAIT_FOR(server.messages == n && client.sent == n);
	assert_int_equal(flow_of(&server).paused, 0);
	/* credits and the fast path are back */
	for (; n < 300; n++)
		while (try_send(100, n))
			both();
	WAIT_FOR(server.messages == 300 && client.sent == 300);
	assert_true(server.ep->recv.end || opts.flags);
	check_order(300);
}

static void pause__peer_STOPS_UNTIL_RESUMED(void **state)
{
	check_pause();
}

static void pause__with_headers_STOPS_UNTIL_RESUMED(void **state)
{
	opts.flags = RDMAMSG_EP_FULL_HEADERS;
	check_pause();
}

/*
 * The peer was told that all is delivered, so what waits for the program is not
 * lost when the queue pair, which nobody needs any more, fails.
 */
static void check_closed_and_gone(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	connect_ends(&opts);
	pause_server();
	for (uint32_t i = 0; i < 3; i++)
		send_it(100, i);
	WAIT_FOR(client.sent == 3);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(rdmamsg__verbs_soft.modify_qp(
				 server.ep->lane.hot.qp, &attr, IBV_QP_STATE),
			 0);
	let_work(100);
	assert_false(server.closed);
	assert_int_equal(server.messages, 0);
	resume_server();
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.messages, 3);
	check_order(3);
}

static void pause__peer_has_closed_and_gone_NOTHING_IS_LOST(void **state)
{
	check_closed_and_gone();
}

static void pause__the_same_with_failover_NOTHING_IS_LOST(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};

	opts.failover = &failover;
	check_closed_and_gone();
}

static void pause__in_on_message_IS_THE_LAST(void **state)
{
	connect_ends(&opts);
	pause_at = 2;
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	for (uint32_t n = 0; n < 10; n++)
		send_it(100, n);
	assert_int_equal(rdmamsg_uncork(client.ctx), 0);
	WAIT_FOR(flow_of(&server).waiting == 7);
	assert_int_equal(server.messages, 3);
	/* from what waits as well */
	pause_at = 5;
	resume_server();
	WAIT_FOR(server.messages == 6);
	let_work(20);
	assert_int_equal(server.messages, 6);
	resume_server();
	WAIT_FOR(server.messages == 10);
	check_order(10);
}

static void pause__in_on_connected_HOLDS_THE_FIRST(void **state)
{
	pause_connected = true;
	connect_ends(&opts);
	send_it(10, 0);
	WAIT_FOR(flow_of(&server).waiting == 1);
	assert_int_equal(server.messages, 0);
	resume_server();
	WAIT_FOR(server.messages == 1);
}

/* The rest of a run of pieces, and large messages, wait like small ones. */
static void pause__each_size_WAITS(void **state)
{
	static const size_t sizes[] = { 10, PIECES, LARGE, PIECES, 0, LARGE };

	opts.send_queue = 64;
	connect_ends(&opts);
	pause_server();
	for (uint32_t n = 0; n < 6; n++)
		send_it(sizes[n], n);
	let_work(50);
	assert_int_equal(server.messages, 0);
	assert_int_equal(flow_of(&client).announced, 2);
	assert_int_equal(flow_of(&client).announced_bytes, 2 * LARGE);
	/* a large message that waits first is not read */
	for (uint32_t n = 0; n < 5; n++) {
		pause_at = n;
		resume_server();
		WAIT_FOR(server.messages == n + 1);
		let_work(20);
		assert_int_equal(server.messages, n + 1);
	}
	assert_int_equal(flow_of(&server).incoming_len, LARGE);
	assert_int_equal(flow_of(&server).incoming_tag, 5);
	resume_server();
	WAIT_FOR(server.messages == 6 && client.sent == 6);
	check_order(6);
}

/* A paused program is no peer that fails to read. */
static void pause__longer_than_every_limit_LIVES(void **state)
{
	uint64_t end;

	tuning.fetch_timeout_ms = 200;
	opts.dead_after_ms = 1000;
	connect_ends(&opts);
	pause_server();
	send_it(LARGE, 0);
	end = rdmamsg__now_ms() + 3000;
	while (rdmamsg__now_ms() < end)
		both();
	assert_false(client.closed || server.closed);
	resume_server();
	WAIT_FOR(server.messages == 1 && client.sent == 1);
	assert_int_equal(cookies[0].status, 0);
}

/* The rest of the messages comes after the peer's end of the conversation. */
static void pause__peer_closes_DELIVERS_THEN_CLOSES(void **state)
{
	connect_ends(&opts);
	pause_server();
	for (uint32_t n = 0; n < 5; n++)
		send_it(100, n);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_false(server.closed);
	assert_int_equal(server.messages, 0);
	resume_server();
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.messages, 5);
}

static void pause__nothing_waits_CLOSES(void **state)
{
	connect_ends(&opts);
	pause_server();
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
}

static void pause__own_close_RESUMES(void **state)
{
	connect_ends(&opts);
	pause_server();
	send_it(100, 0);
	send_it(LARGE, 1);
	WAIT_FOR(flow_of(&server).waiting == 2);
	rdmamsg_ep_close(server.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.messages, 2);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
}

/* A close that drops messages must not look graceful. */
static void pause__until_the_close_times_out_TIMEOUT(void **state)
{
	opts.close_timeout_ms = 200;
	connect_ends(&opts);
	pause_server();
	send_it(100, 0);
	WAIT_FOR(flow_of(&server).waiting == 1);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(server.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(server.messages, 0);
}

/* The peer's device acknowledges all, and its program takes nothing. */
static void close_in_vain(size_t len)
{
	opts.send_queue = 8;
	connect_ends(&opts);
	pause_server();
	if (len == LARGE)
		send_it(LARGE, 0);
	else
		(void)send_all_credits();
	client.ep->opts.close_timeout_ms = 200;
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_non_null(strstr(client.why.text, "the peer's program"));
}

static void pause__so_that_the_peer_cannot_close_NAMES_THIS_PROGRAM(void **s)
{
	close_in_vain(100);
}

static void pause__with_a_large_message_NAMES_THIS_PROGRAM(void **state)
{
	close_in_vain(LARGE);
}

static void pause__then_abort_CLOSES(void **state)
{
	connect_ends(&opts);
	pause_server();
	send_it(100, 0);
	send_it(LARGE, 1);
	WAIT_FOR(flow_of(&server).waiting == 2);
	rdmamsg_ep_hold(server.ep);
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(cookies[1].count, 1);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	let_work(5);
	assert_int_equal(server.messages, 0);
	rdmamsg_ep_release(server.ep);
}

/* Two endpoints share the receives; one of them is paused. */
static void pause__on_shared_receives_OTHERS_GO_ON(void **state)
{
	const struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 128,
	};
	const struct rdmamsg_options ctx = { .size = sizeof(ctx), .srq = &o };
	struct rdmamsg_ep *paused, *other;
	unsigned int n;

	connect_ends_in(NULL, &ctx, &opts);
	paused = server.ep;
	other = client.ep;
	pause_server();
	n = send_all_credits();
	server.ep = NULL;
	connect_client(&opts);
	WAIT_FOR(server.ep);
	for (uint32_t i = 0; i < 2000; i++)
		while (rdmamsg_send(client.ep, data, 100, 9, NULL))
			both();
	WAIT_FOR(server.messages == 2000);
	server.messages = 0;
	assert_int_equal(rdmamsg_ep_resume(paused), 0);
	WAIT_FOR(server.messages == n);
	client.ep = other;
	for (; n < 200; n++)
		while (try_send(100, n))
			both();
	WAIT_FOR(server.messages == 200);
	check_order(200);
}

static void pause__without_on_message_RECV_WAIT_TIMES_OUT(void **state)
{
	struct rdmamsg_msg *msg;

	handlers.on_message = NULL;
	connect_ends(&opts);
	pause_server();
	send_it(100, 0);
	assert_int_equal(rdmamsg_recv_wait(server.ep, 50, &msg), -ETIMEDOUT);
	resume_server();
	assert_int_equal(rdmamsg_recv_wait(server.ep, WAIT_MS, &msg), 0);
	rdmamsg_msg_free(msg);
}

/* ---- cancel ----------------------------------------------------------- */

static int cancel(uint32_t tag)
{
	int ret;

	in_call = true;
	ret = rdmamsg_ep_cancel(client.ep, &cookies[tag]);
	in_call = false;
	return ret;
}

/* All credits are used, and messages n to n + 5 wait in the queue. */
static uint32_t fill_queue(void)
{
	uint32_t n;

	tuning.recv_depth = 4;
	opts.send_queue = 6;
	connect_ends(&opts);
	pause_server();
	n = send_all_credits() - 6;
	assert_int_equal(flow_of(&client).queued, 6);
	return n;
}

static void cancel__in_the_queue_COMPLETES_ONCE(void **state)
{
	uint32_t n = fill_queue(), k = 0;

	assert_int_equal(flow_of(&client).queued_bytes, 600);
	assert_int_equal(cancel(n + 4), 0);
	assert_int_equal(cancel(n + 1), 0);
	assert_int_equal(cookies[n + 1].count, 0);
	assert_int_equal(flow_of(&client).queued, 4);
	assert_int_equal(cancel(n + 1), -ENOENT);
	WAIT_FOR(cookies[n + 1].count && cookies[n + 4].count);
	assert_int_equal(cookies[n + 1].status, -ECANCELED);
	assert_int_equal(cookies[n + 4].status, -ECANCELED);
	resume_server();
	WAIT_FOR(server.messages == n + 4);
	for (uint32_t i = 0; i < n + 6; i++) {
		if (i == n + 1 || i == n + 4)
			continue;
		assert_int_equal(got[k++], i);
		WAIT_FOR(cookies[i].count == 1);
		assert_int_equal(cookies[i].status, 0);
	}
	let_work(10);
	assert_int_equal(cookies[n + 1].count, 1);
	assert_false(reentered);
}

static void cancel__begun_or_unknown_IS_REFUSED(void **state)
{
	uint32_t n = fill_queue();

	assert_true(n > 0);
	assert_int_equal(rdmamsg_ep_cancel(client.ep, NULL), -EINVAL);
	assert_int_equal(rdmamsg_ep_cancel(NULL, &n), -EINVAL);
	assert_int_equal(rdmamsg_ep_cancel(client.ep, &n), -ENOENT);
	resume_server();
	WAIT_FOR(client.sent == n + 6);
	assert_int_equal(cancel(0), -ENOENT);
	/* announced, and the peer has not read it */
	pause_server();
	send_it(LARGE, 100);
	assert_int_equal(cancel(100), -EBUSY);
	resume_server();
	WAIT_FOR(cookies[100].count);
	assert_int_equal(cookies[100].status, 0);
	/* a small one, whose completion has not been polled */
	send_it(300, 101);
	assert_int_equal(cancel(101), -EBUSY);
	WAIT_FOR(cookies[101].count);
	assert_int_equal(cookies[101].status, 0);
	assert_int_equal(cookies[101].count, 1);
}

/* The registration ends, and a message that was passed on is freed. */
static void cancel__large_ones_FREES_THEIR_MEMORY(void **state)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };
	struct iovec iov = { data, LARGE };
	struct rdmamsg_msg *msg;
	uint32_t n = fill_queue();

	for (uint32_t i = n; i < n + 6; i++)
		assert_int_equal(cancel(i), 0);
	WAIT_FOR(client.sent >= 6);
	send_it(LARGE, 200);
	assert_int_equal(rdmamsg_sendv(client.ep, &iov, 1, 201, &cookies[201]),
			 0);
	assert_int_equal(rdmamsg_msg_alloc(client.ep, LARGE, &msg), 0);
	assert_int_equal(rdmamsg_msg_send(client.ep, msg, 202, &cookies[202]),
			 0);
	assert_int_equal(flow_of(&client).queued_bytes, 3 * LARGE);
	for (uint32_t i = 200; i < 203; i++)
		assert_int_equal(cancel(i), 0);
	for (uint32_t i = 200; i < 203; i++) {
		WAIT_FOR(cookies[i].count);
		assert_int_equal(cookies[i].count, 1);
		assert_int_equal(cookies[i].status, -ECANCELED);
	}
	resume_server();
	WAIT_FOR(server.messages == n);
	assert_int_equal(rdmamsg_ep_get_stats(client.ep, &st), 0);
	assert_int_equal(st.sent_rendezvous, 0);
}

static void cancel__then_abort_COMPLETES_ONCE(void **state)
{
	uint32_t n = fill_queue();

	assert_int_equal(cancel(n + 2), 0);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	for (uint32_t i = n; i < n + 6; i++) {
		assert_int_equal(cookies[i].count, 1);
		assert_int_equal(cookies[i].status, -ECANCELED);
	}
}

static uint32_t victim;			/* 0: none */

static void on_done_cancels(struct rdmamsg_ep *ep, void *cookie, int status)
{
	on_done(ep, cookie, status);
	if (status != -ECANCELED || !victim)
		return;
	assert_int_equal(rdmamsg_ep_cancel(ep, &cookies[victim]), 0);
	victim = 0;
}

static void cancel__while_others_are_aborted_COMPLETES_ONCE(void **state)
{
	uint32_t n;

	handlers.on_complete = on_done_cancels;
	n = fill_queue();
	victim = n + 3;
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(victim, 0);
	for (uint32_t i = n; i < n + 6; i++) {
		assert_int_equal(cookies[i].count, 1);
		assert_int_equal(cookies[i].status, -ECANCELED);
	}
}

/* The rest can be delivered, so the close is graceful. */
static void cancel__then_close_IS_GRACEFUL(void **state)
{
	uint32_t n = fill_queue();

	assert_int_equal(cancel(n), 0);
	rdmamsg_ep_close(client.ep);
	resume_server();
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.messages, n + 5);
	assert_int_equal(cookies[n].status, -ECANCELED);
}

static void cancel__outside_the_loop_WAKES_IT(void **state)
{
	uint32_t n = fill_queue();

	while (rdmamsg_wait(client.ctx, 0) > 0)
		;
	assert_int_equal(cancel(n), 0);
	assert_true(rdmamsg_wait(client.ctx, WAIT_MS) > 0);
	assert_int_equal(cookies[n].count, 1);
}

/* ---- how far ---------------------------------------------------------- */

static struct rdmamsg_msg *kept;
static uint64_t lent;

static void keep_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	kept = msg;
	server.messages++;
}

static void query__kept_and_full_TELLS(void **state)
{
	struct rdmamsg_ep_flow_attr f;

	tuning.max_lent = LARGE;
	handlers.on_message = keep_message;
	connect_ends(&opts);
	assert_int_equal(flow_of(&server).lent, 0);
	send_it(LARGE, 0);
	WAIT_FOR(kept);
	lent = flow_of(&server).lent;
	assert_true(lent >= LARGE);
	assert_int_equal(flow_of(&server).lent_full, 0);
	send_it(LARGE, 1);
	WAIT_FOR(flow_of(&server).lent_full);
	f = flow_of(&server);
	assert_int_equal(f.incoming_len, LARGE);
	assert_int_equal(f.incoming_tag, 1);
	assert_int_equal(f.incoming_arrived, 0);
	rdmamsg_msg_free(kept);
	WAIT_FOR(server.messages == 2);
	assert_int_equal(flow_of(&server).lent_full, 0);
	rdmamsg_msg_free(kept);
	assert_int_equal(flow_of(&server).lent, 0);
}

/* Bytes of the message that is being read, from the wire's point of view. */
static void query__while_reading_GROWS(void **state)
{
	uint64_t last = 0, end = rdmamsg__now_ms() + WAIT_MS;

	connect_ends(&opts);
	send_it(LARGE, 3);
	while (!server.messages && rdmamsg__now_ms() < end) {
		struct rdmamsg_ep_flow_attr f = flow_of(&server);

		if (f.incoming_len) {
			assert_int_equal(f.incoming_len, LARGE);
			assert_in_range(f.incoming_arrived, last, LARGE);
			last = f.incoming_arrived;
		}
		assert_true(rdmamsg_poll(server.ctx) >= 0);
	}
	assert_int_equal(flow_of(&server).incoming_len, 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(flow_of(&client).announced, 0);
}

static void query__bad_arguments_EINVAL(void **state)
{
	struct rdmamsg_ep_flow_attr f = { .size = 0 };

	connect_ends(&opts);
	assert_int_equal(rdmamsg_ep_flow_query(client.ep, &f), -EINVAL);
	assert_int_equal(rdmamsg_ep_flow_query(client.ep, NULL), -EINVAL);
	assert_int_equal(rdmamsg_ep_flow_query(NULL, &f), -EINVAL);
	assert_int_equal(rdmamsg_ep_pause(NULL), -EINVAL);
	assert_int_equal(rdmamsg_ep_resume(NULL), -EINVAL);
}

#define TEST(fn)	cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pause__peer_STOPS_UNTIL_RESUMED),
		TEST(pause__with_headers_STOPS_UNTIL_RESUMED),
		TEST(pause__peer_has_closed_and_gone_NOTHING_IS_LOST),
		TEST(pause__the_same_with_failover_NOTHING_IS_LOST),
		TEST(pause__in_on_message_IS_THE_LAST),
		TEST(pause__in_on_connected_HOLDS_THE_FIRST),
		TEST(pause__each_size_WAITS),
		TEST(pause__longer_than_every_limit_LIVES),
		TEST(pause__peer_closes_DELIVERS_THEN_CLOSES),
		TEST(pause__nothing_waits_CLOSES),
		TEST(pause__own_close_RESUMES),
		TEST(pause__until_the_close_times_out_TIMEOUT),
		TEST(pause__so_that_the_peer_cannot_close_NAMES_THIS_PROGRAM),
		TEST(pause__with_a_large_message_NAMES_THIS_PROGRAM),
		TEST(pause__then_abort_CLOSES),
		TEST(pause__on_shared_receives_OTHERS_GO_ON),
		TEST(pause__without_on_message_RECV_WAIT_TIMES_OUT),
		TEST(cancel__in_the_queue_COMPLETES_ONCE),
		TEST(cancel__begun_or_unknown_IS_REFUSED),
		TEST(cancel__large_ones_FREES_THEIR_MEMORY),
		TEST(cancel__then_abort_COMPLETES_ONCE),
		TEST(cancel__while_others_are_aborted_COMPLETES_ONCE),
		TEST(cancel__then_close_IS_GRACEFUL),
		TEST(cancel__outside_the_loop_WAKES_IT),
		TEST(query__kept_and_full_TELLS),
		TEST(query__while_reading_GROWS),
		TEST(query__bad_arguments_EINVAL),
	};

	join_own_fabric("flow");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
