/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a session goes on over another lane. Lanes are lost again and
 * again under traffic of all kinds in both directions, and each message arrives
 * once and in order.
 */
#include "base/ctx.h"
#include "lanes.h"

#include <rdmamsg/flow.h>

static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	.timeout_ms = WAIT_MS,
};

static const struct rdmamsg_srq_options *shared;

/* Both contexts share their receives. */
static void connect_shared(struct rdmamsg_ep_options *opts)
{
	const struct rdmamsg_options o = { .size = sizeof(o), .srq = shared };
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = opts,
	};
	struct rdmamsg_listener *l;

	opts->user = &server;
	assert_int_equal(rdmamsg_open(&client.ctx, &o), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, &o), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	connect_client(opts);
	WAIT_FOR(server.ep);
}

static void connect_both(struct rdmamsg_ep_options *opts)
{
	opts->size = sizeof(*opts);
	opts->handlers = &handlers;
	opts->failover = &failover;
	if (shared)
		connect_shared(opts);
	else
		connect_ends(opts);
}

static void idle__lane_lost_GOES_ON(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	lose(&client);
	WAIT_FOR(resumed[0] && resumed[1]);
	for (int i = 0; i < 2; i++) {
		const struct side *side = i ? &server : &client;
		struct rdmamsg_stats s = { .size = sizeof(s) };

		assert_int_equal(rdmamsg_ep_get_stats(side->ep, &s), 0);
		assert_int_equal(s.lanes_lost, 1);
		assert_int_equal(s.lanes_resumed, 1);
		assert_int_equal(s.msgs_repeated, 0);
	}
	flows[0].end = flows[1].end = 100;
	while (flows[0].sent < 100 || flows[1].sent < 100) {
		send_some(&client, 1);
		send_some(&server, 1);
		both();
	}
	expect_whole();
	close_both();
}

/* One side works, and now and then both do: all is well so far. */
static void work_at_random(unsigned int *seed, unsigned int *rounds)
{
	assert_true(rdmamsg_process(rand_r(seed) & 1 ? client.ctx :
				    server.ctx) >= 0);
	if (++*rounds % 16 == 0)
		both();
	assert_false(flows[0].bad);
	assert_false(flows[1].bad);
	if (client.closed || server.closed)
		fail_msg("closed: %s / %s", client.why.text, server.why.text);
}

static void traffic(struct rdmamsg_ep_options *opts, uint32_t count,
		    unsigned int every)
{
	const char *given = getenv("RESUME_SEED");
	unsigned int seed = given ? (unsigned int)atoi(given) : 1;
	unsigned int rounds = 0;

	connect_both(opts);
	flows[0].end = flows[1].end = count;
	while (!is_done(&flows[0]) || !is_done(&flows[1])) {
		send_some(&client, (unsigned int)rand_r(&seed) % 8);
		send_some(&server, (unsigned int)rand_r(&seed) % 8);
		if (rand_r(&seed) % every == 0 && flows[0].sent < count)
			lose(rand_r(&seed) & 1 ? &client : &server);
		if (rand_r(&seed) % (4 * every) == 0) {
			lose(&client);
			lose(&server);
		}
		work_at_random(&seed, &rounds);
	}
	assert_true(resumed[0] > 0);
	close_both();
}

static void traffic__lanes_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	traffic(&opts, 3000, 100);
}

static void full_headers__lanes_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = { .flags = RDMAMSG_EP_FULL_HEADERS };

	traffic(&opts, 2000, 100);
}

static void send_queue__lanes_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = {
		.send_queue = 32,
		.tuning = TUNING(.send_depth = 16, .recv_depth = 8),
	};

	traffic(&opts, 2000, 100);
}

static void guarded__lanes_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = { .flags = RDMAMSG_EP_GUARD };

	traffic(&opts, 1000, 40);
}

static void one_credit__lanes_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = { .tuning = TUNING(.recv_depth = 1) };

	traffic(&opts, 1000, 40);
}

static void shared__lanes_lost_EXACTLY_ONCE(void **state)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 256,
	};
	struct rdmamsg_ep_options opts = { 0 };

	shared = &so;
	traffic(&opts, 1500, 60);
	shared = NULL;
}

static uint64_t endpoints_of(const struct side *s)
{
	struct rdmamsg_stats stats = { .size = sizeof(stats) };

	assert_int_equal(rdmamsg_get_stats(s->ctx, &stats), 0);
	return stats.endpoints;
}

/*
 * The connection made in advance takes over, and the next is made. It is not an
 * endpoint of the program.
 */
static void standby__lanes_lost_TAKES_OVER(void **state)
{
	static const struct rdmamsg_failover twice = {
		.size = sizeof(twice), .rungs = RDMAMSG_RUNG_STANDBY,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .failover = &twice,
	};
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };

	connect_ends(&opts);
	flows[0].end = flows[1].end = 400;
	for (unsigned int i = 1; i <= 5; i++) {
		WAIT_FOR(standby[0] == i && standby[1] == i);
		assert_int_equal(rdmamsg_ep_path_query(client.ep, &path), 0);
		assert_true(path.standby == 1 && path.down == 0);
		assert_int_equal(endpoints_of(&client), 1);
		assert_int_equal(endpoints_of(&server), 1);
		send_some(&client, 60);
		send_some(&server, 60);
		lose(i & 1 ? &client : &server);
		WAIT_FOR(resumed[0] == i && resumed[1] == i);
	}
	while (flows[0].sent < 400 || flows[1].sent < 400) {
		send_some(&client, 8);
		send_some(&server, 8);
		both();
	}
	expect_whole();
	close_both();
}

/* ---- a device that repeats --------------------------------------------- */

static void renumber(struct rdmamsg_hot_ep *h, uint32_t number)
{
	h->number = number;
	h->low = (h->low & ~PROTO_NUMBER_MASK) | (number & PROTO_NUMBER_MASK);
}

/*
 * As Soft-RoCE of Linux 6.1 can: the message before it comes again, and the next
 * one does not come.
 */
static bool send_as_the_last(struct side *s)
{
	struct rdmamsg_hot_ep *h = &s->ep->lane.hot;
	struct flow *f = from(s->ep);
	uint8_t room[300];
	int ret;

	/* announcements and pieces have other ways, and their own numbers */
	if (rdmamsg__holds_back(s->ep) || h->number < 2 ||
	    size_of(f->sent) >= sizeof(room) || f->sent == f->end)
		return false;
	fill(room, f->sent, size_of(f->sent));
	renumber(h, h->number - 1);
	ret = rdmamsg_send(s->ep, room, size_of(f->sent), f->sent, NULL);
	if (ret) {
		assert_int_equal(ret, -EAGAIN);
		renumber(h, h->number + 1);
		return false;
	}
	renumber(h, h->number + 1);
	f->sent++;
	return true;
}

static void repeats(uint32_t flags)
{
	struct rdmamsg_ep_options opts = { .flags = flags };
	unsigned int seed = 1, done = 0, rounds = 0;

	connect_both(&opts);
	flows[0].end = flows[1].end = 2000;
	while (!is_done(&flows[0]) || !is_done(&flows[1])) {
		send_some(&client, (unsigned int)rand_r(&seed) % 8);
		send_some(&server, (unsigned int)rand_r(&seed) % 8);
		if (rand_r(&seed) % 60 == 0)
			done += send_as_the_last(done % 2 ? &client : &server);
		work_at_random(&seed, &rounds);
	}
	assert_true(done > 3);
	assert_true(resumed[0] > 3);
	close_both();
}

static void repeated__by_the_device_EXACTLY_ONCE(void **state)
{
	repeats(0);
}

static void repeated__with_full_headers_EXACTLY_ONCE(void **state)
{
	repeats(RDMAMSG_EP_FULL_HEADERS);
}

static void send_the_last_again(void)
{
	flows[0].end = flows[1].end = 200;
	send_some(&client, 5);
	while (!send_as_the_last(&client)) {
		send_some(&client, 1);
		both();
	}
}

/* Of what is sent behind it, the sixteenth has the number that is due. */
static void repeated__sixteen_follow_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	send_the_last_again();
	send_some(&client, 60);
	while (flows[0].sent < 200 || flows[1].sent < 200) {
		send_some(&client, 8);
		send_some(&server, 8);
		both();
	}
	expect_whole();
	assert_int_equal(resumed[0], 1);
	close_both();
}

/* Nothing can be sent again. */
static void repeated__without_failover_PROTOCOL(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	connect_ends(&opts);
	send_the_last_again();
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
}

/* ---- sends in callbacks ------------------------------------------------ */

/* rdmamsg_ep_path_query() gives what on_path has told last. */
static void check_path(struct rdmamsg_ep *ep)
{
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };
	int i = rdmamsg_ep_user(ep) == &server;

	assert_int_equal(rdmamsg_ep_path_query(ep, &path), 0);
	if (path.down == down[i] - resumed[i] && path.resumes == resumed[i])
		return;
	print_error("path down %u, resumes %u after %u events DOWN and %u "
		    "RESUMED\n", path.down, path.resumes, down[i], resumed[i]);
	from(ep)->bad = true;
}

/*
 * Between DOWN and RESUMED no move is accepted. A move to another address would
 * drop what the peer's RESUME has announced.
 */
static void try_to_move(struct rdmamsg_ep *ep)
{
	const struct rdmamsg_migrate_options o = {
		.size = sizeof(o), .host = "127.0.0.2",
	};
	int i = rdmamsg_ep_user(ep) == &server;

	if (!i && down[i] != resumed[i] &&
	    rdmamsg_ep_migrate(ep, &o) != -EBUSY) {
		print_error("a move between two connections is accepted\n");
		from(ep)->bad = true;
	}
}

/* As programs do that stream: whatever completes makes room for others. */
static void completed_sends_more(struct rdmamsg_ep *ep, void *cookie,
				 int status)
{
	completed(ep, cookie, status);
	check_path(ep);
	try_to_move(ep);
	send_some(rdmamsg_ep_user(ep), 3);
}

static void on_writable_sends_more(struct rdmamsg_ep *ep)
{
	send_some(rdmamsg_ep_user(ep), 3);
}

/*
 * A lane may be lost when the peer has a message and its acknowledgement is on
 * the way: the request fails, and RESUME tells that the peer has the message.
 */
static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static uint32_t lost_qp;

static int poll_without_acks(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int count = poll_cq(cq, n, wc);

	for (int i = 0; i < count; i++)
		if (wc[i].qp_num == lost_qp && !wc[i].status &&
		    !(wc[i].wr_id & 0x80000000u))
			wc[i].status = IBV_WC_WR_FLUSH_ERR;
	return count;
}

static void lose_acks(void)
{
	struct ibv_qp *qp = client.ep->lane.hot.qp;
	struct ibv_context_ops *ops = &qp->context->ops;

	if (ops->poll_cq != poll_without_acks)
		poll_cq = ops->poll_cq;
	ops->poll_cq = poll_without_acks;
	lost_qp = qp->qp_num;
}

static void on_path_sends_more(struct rdmamsg_ep *ep,
			       const struct rdmamsg_path_event *ev)
{
	on_path(ep, ev);
	check_path(ep);
	send_some(rdmamsg_ep_user(ep), 3);
}

static const struct rdmamsg_ep_handlers streaming = {
	.size = sizeof(streaming), .on_connected = on_connected,
	.on_message = on_message, .on_complete = completed_sends_more,
	.on_writable = on_writable_sends_more, .on_closed = on_closed,
	.on_path = on_path_sends_more,
};

static void callbacks__send_while_lanes_are_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &streaming,
		.failover = &failover,
	};
	unsigned int seed = 1, rounds = 0;

	connect_ends(&opts);
	flows[0].end = flows[1].end = 3000;
	while (!is_done(&flows[0]) || !is_done(&flows[1])) {
		send_some(&client, 1);
		send_some(&server, 1);
		if (rand_r(&seed) % 100 == 0 && client.ep->lane.hot.qp) {
			lose_acks();
			(void)rdmamsg_process(server.ctx);
			lose(&client);
		}
		work_at_random(&seed, &rounds);
	}
	assert_true(resumed[0] > 0);
	lost_qp = 0;
	close_both();
}

/* ---- the end ------------------------------------------------------------ */

static void on_stalled(struct rdmamsg_ep *ep, uint32_t ms)
{
}

#define AGO	1000000ul		/* ms, longer than the limit */

static uint32_t reads_held;

/*
 * The server's message waits for long while no lane is there, where no tick
 * looks at the time. The client does not read over the other lane yet.
 */
static void on_path_hold(struct rdmamsg_ep *ep,
			 const struct rdmamsg_path_event *ev)
{
	on_path(ep, ev);
	if (ep == server.ep && ev->change == RDMAMSG_PATH_CHANGE_DOWN) {
		list_first(&ep->rndv.out, struct op, node)->rndv->since -= AGO;
		ep->live.fetched -= min(ep->live.fetched, AGO);
	}
	if (ep != client.ep || ev->change != RDMAMSG_PATH_CHANGE_RESUMED)
		return;
	reads_held = ep->reads.free;
	ep->reads.free = 0;
}

/*
 * fetch_timeout_ms is over when the other lane comes, and the peer reads again
 * from the beginning. Each tick, every 50 ms, looks at the time.
 */
static void large_message__after_a_long_loss_HAS_TIME_AGAIN(void **state)
{
	struct rdmamsg_ep_handlers h = handlers;
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &h, .failover = &failover,
		.tuning = TUNING(.stall_after_ms = 100,
				 .fetch_timeout_ms = 60000),
	};
	uint64_t ticks_end;

	h.on_stalled = on_stalled;
	h.on_path = on_path_hold;
	connect_ends(&opts);
	client.ep->reads.free = 0;
	while (list_empty(&server.ep->rndv.out)) {
		flows[1].end++;
		send_some(&server, 1);
		both();
	}
	lose(&client);
	WAIT_FOR((resumed[0] && resumed[1]) || server.closed);
	ticks_end = rdmamsg__now_ms() + 500;
	while (rdmamsg__now_ms() < ticks_end)
		both();
	if (server.closed)
		fail_msg("%s", server.why.text);
	client.ep->reads.free += reads_held;
	rdmamsg__ep_touch(client.ep);
	expect_whole();
	close_both();
}

static void down__closed_by_the_program_GRACEFUL(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	flows[0].end = 200;
	while (flows[0].sent < 200) {
		send_some(&client, 50);
		both();
	}
	lose(&client);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_true(is_done(&flows[0]));
}

static void closing__lane_lost_GRACEFUL(void **state)
{
	for (unsigned int wait = 0; wait < 12; wait++) {
		struct rdmamsg_ep_options opts = { 0 };

		(void)set_up(state);
		connect_both(&opts);
		flows[0].end = flows[1].end = 30;
		while (flows[0].sent < 30 || flows[1].sent < 30) {
			send_some(&client, 10);
			send_some(&server, 10);
			both();
		}
		rdmamsg_ep_close(client.ep);
		for (unsigned int i = 0; i < wait && !client.closed; i++)
			(void)rdmamsg_process(i & 1 ? client.ctx : server.ctx);
		if (!client.closed)
			lose(&client);
		WAIT_FOR(client.closed && server.closed);
		assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_true(is_done(&flows[0]) && is_done(&flows[1]));
		(void)tear_down(state);
	}
	(void)set_up(state);
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
}

/* Both sides have closed, and the paused one still has a message. */
static void paused__lane_lost_behind_CLOSE_DELIVERS(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	flows[0].end = 1;
	send_some(&client, 1);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed);
	lose(&server);
	for (int i = 0; i < 10; i++)
		both();
	assert_false(server.closed);
	assert_int_equal(flows[0].received, 0);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(flows[0].received, 1);
	assert_false(flows[0].bad);
}

static void down__aborted_BOTH_END(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	flows[0].end = 100;
	send_some(&client, 100);
	lose(&client);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(client.why.who, RDMAMSG_WHO_LOCAL);
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(server.closed);
}

/* The abort comes between the two RESUMEs, and takes the new lane with it. */
static void resuming__aborted_BOTH_END(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	lose(&client);
	lose(&server);
	while (!server.ep->resume->said || server.ep->resume->heard) {
		assert_int_equal(resumed[1], 0);
		assert_true(rdmamsg_process(client.ctx) >= 0);
		assert_true(rdmamsg_process(server.ctx) >= 0);
	}
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(server.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(resumed[1], 0);
}

/* The server has ended the session: the client is told at once. */
/* As if the process of this side had not run for so long. */
static void stand_still(struct side *s, uint64_t ms)
{
	const struct timers *ts = &s->ctx->loop.timers;

	for (int i = 0; i < ts->count; i++)
		ts->heap[i]->when -= ms * 1000;
	s->ep->resume->since -= ms;
}

/* Both are stopped while the lane is down, and the server goes on first. */
static void down__both_stopped_GO_ON(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	lose(&client);
	lose(&server);
	UNTIL(server.ctx, server.ep->resume->lane == LANE_DOWN);
	stand_still(&server, AGO);
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_wait(server.ctx, 1) >= 0);
	if (server.closed)
		fail_msg("%s", server.why.text);
	WAIT_FOR(resumed[0] == 1 && resumed[1] == 1);
	close_both();
}

static void unknown__session_ENDS_WITH_REASON(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(client.closed);
	if (client.why.cause != RDMAMSG_CAUSE_ABORTED)
		fail_msg("%s", client.why.text);
	assert_non_null(strstr(client.why.text, "does not know this session"));
}

static void options__of_no_use_REFUSED(void **state)
{
	struct rdmamsg_failover bad = { .size = sizeof(bad), .rungs = 8 };
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .failover = &bad,
	};

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", "9", &opts,
					 NULL), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "rungs"));
	bad.rungs = RDMAMSG_RUNG_LANE;
	bad.keep_bytes = 65536;
	opts.tuning = TUNING(.eager_max = 65536);
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", "9", &opts,
					 NULL), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "keep_bytes"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(idle__lane_lost_GOES_ON,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			traffic__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			full_headers__lanes_lost_EXACTLY_ONCE,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			send_queue__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			guarded__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			one_credit__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			shared__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			large_message__after_a_long_loss_HAS_TIME_AGAIN,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			down__closed_by_the_program_GRACEFUL,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			closing__lane_lost_GRACEFUL, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			paused__lane_lost_behind_CLOSE_DELIVERS, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			down__aborted_BOTH_END, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			resuming__aborted_BOTH_END, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			down__both_stopped_GO_ON, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			unknown__session_ENDS_WITH_REASON, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			options__of_no_use_REFUSED, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			standby__lanes_lost_TAKES_OVER, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			repeated__by_the_device_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			repeated__with_full_headers_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			repeated__sixteen_follow_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			repeated__without_failover_PROTOCOL, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			callbacks__send_while_lanes_are_lost_EXACTLY_ONCE,
			set_up, tear_down),
	};

	join_own_fabric("resume");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("resume", tests, NULL, NULL);
}
