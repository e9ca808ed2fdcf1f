/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a session goes on over another lane. Lanes are lost again and
 * again under traffic of all kinds in both directions, and each message arrives
 * once and in order.
 */
#include "base/masked.h"
#include "device/verbs_api.h"
#include "lanes.h"

#include <rdmamsg/flow.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
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
	flows[0].end = flows[1].end = 100;
	while (flows[0].sent < 100 || flows[1].sent < 100) {
		send_some(&client, 1);
		send_some(&server, 1);
		both();
	}
	expect_whole();
	close_both();
}

static void traffic(struct rdmamsg_ep_options *opts, uint32_t count,
		    unsigned int every)
{
	const char *given = getenv("RESUME_SEED");
	unsigned int seed = given ? (unsigned int)atoi(given) : 1;
	uint32_t rounds = 0;

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
		assert_true(rdmamsg_process(rand_r(&seed) & 1 ? client.ctx :
					    server.ctx) >= 0);
		if (++rounds % 16 == 0)
			both();
		assert_false(flows[0].bad);
		assert_false(flows[1].bad);
		if (client.closed || server.closed)
			fail_msg("closed: %s / %s", client.why.text,
				 server.why.text);
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
	struct rdmamsg_ep_options opts = { .send_queue = 32, .send_depth = 16,
		.recv_depth = 8 };

	traffic(&opts, 2000, 100);
}

static void guarded__lanes_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = { .flags = RDMAMSG_EP_GUARD };

	traffic(&opts, 1000, 40);
}

static void one_credit__lanes_lost_EXACTLY_ONCE(void **state)
{
	struct rdmamsg_ep_options opts = { .recv_depth = 1 };

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

/* The connection made in advance takes over, and the next is made. */
static void standby__lanes_lost_TAKES_OVER(void **state)
{
	static const struct rdmamsg_failover twice = {
		.size = sizeof(twice), .rungs = RDMAMSG_RUNG_STANDBY,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .failover = &twice,
	};
	struct rdmamsg_ep_path path = { .size = sizeof(path) };

	connect_ends(&opts);
	flows[0].end = flows[1].end = 400;
	for (unsigned int i = 1; i <= 5; i++) {
		WAIT_FOR(standby[0] == i && standby[1] == i);
		assert_int_equal(rdmamsg_ep_path_query(client.ep, &path), 0);
		assert_true(path.standby == 1 && path.down == 0);
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

/* ---- one-sided operations ---------------------------------------------- */

#define WORDS	512

static struct rdmamsg_region *target, *source;
static struct rdmamsg_key key;
static uint64_t there[WORDS], back[WORDS];
static unsigned int rma_done, rma_doubt;
static int rma_bad;
static uint32_t values;

static void rma_completed(struct rdmamsg_ep *ep, void *cookie, int status)
{
	rma_done++;
	rma_doubt += status == RDMAMSG_IN_DOUBT;
	if (status && status != RDMAMSG_IN_DOUBT)
		rma_bad = status;
}

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	if (value != values++)
		rma_bad = -EPROTO;
	/* the write before the value is in memory */
	if (there[value % WORDS] != value + 1)
		rma_bad = -EIO;
}

static const struct rdmamsg_handlers rma_handlers = {
	.size = sizeof(rma_handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = rma_completed,
	.on_closed = on_closed, .on_path = on_path, .on_written = on_written,
};

static void connect_rma(uint32_t flags)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &rma_handlers,
		.failover = &failover, .flags = flags,
	};
	const uint32_t all = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
			     RDMAMSG_ACCESS_ATOMIC;

	rma_done = rma_doubt = values = 0;
	rma_bad = 0;
	memset(there, 0, sizeof(there));
	connect_ends(&opts);
	assert_int_equal(rdmamsg_region_create(server.ctx, there, sizeof(there),
					       all, &target), 0);
	assert_int_equal(rdmamsg_region_get_key(target, server.ep, &key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, back, sizeof(back),
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &source), 0);
	assert_int_equal(rdmamsg_region_register(source, client.ep), 0);
}

static void writes(uint32_t flags)
{
	uint32_t posted = 0, rounds = 0;

	connect_rma(flags);
	while (values < 1000 && !client.closed && !server.closed) {
		uint64_t word = posted + 1;
		const struct rdmamsg_sge sge = {
			.data = &word, .len = sizeof(word),
		};
		/* at most as many as there are words are under way */
		if (posted < 1000 && posted - values < 64 &&
		    !rdmamsg_write_imm(client.ep, &sge, 1, &key,
				       posted % WORDS * sizeof(word), posted,
				       0, NULL))
			posted++;
		if (++rounds % 97 == 0)
			lose(rounds & 1 ? &client : &server);
		assert_true(rdmamsg_process(rounds & 1 ? client.ctx :
					    server.ctx) >= 0);
		if (rounds % 16 == 0)
			both();
		assert_int_equal(rma_bad, 0);
	}
	if (client.closed || server.closed)
		fail_msg("closed: %s / %s", client.why.text, server.why.text);
	assert_true(resumed[0] > 0);
	close_both();
}

static void write_imm__lanes_lost_ONCE_AND_IN_ORDER(void **state)
{
	writes(0);
}

/* Each lane has a protection domain of its own, and so other keys. */
static void guarded_write_imm__lanes_lost_KEYS_LIVE_ON(void **state)
{
	writes(RDMAMSG_EP_GUARD);
}

static void revoked_key__lane_lost_STAYS_REVOKED(void **state)
{
	uint64_t word = 1;
	const struct rdmamsg_sge sge = { .data = &word, .len = sizeof(word) };
	struct rdmamsg_key other;

	connect_rma(RDMAMSG_EP_GUARD);
	assert_int_equal(rdmamsg_region_revoke(target), 0);
	assert_int_equal(rdmamsg_region_get_key(target, server.ep, &other), 0);
	lose(&client);
	WAIT_FOR(resumed[0] && resumed[1]);
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0, NULL),
			 -EACCES);
	assert_non_null(strstr(rdmamsg_error(), "revoked"));
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &other, 0, 0,
				       &client), 0);
	WAIT_FOR(rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(there[0], 1);
	close_both();
}

static void reads_and_atomics(uint32_t flags)
{
	unsigned int asked = 0, adds = 0, rounds = 0;
	uint64_t was;

	connect_rma(flags);
	for (unsigned int i = 0; i < WORDS; i++)
		there[i] = i;
	there[0] = 0;
	while (rma_done < 600 && !client.closed && !server.closed) {
		const struct rdmamsg_sge sge = {
			.data = back, .len = sizeof(back), .region = source,
		};
		int ret = -EAGAIN;

		if (asked < 600 && asked % 3)
			ret = rdmamsg_read(client.ep, &sge, 1, &key, 0, 0,
					   &client);
		else if (asked < 600)
			ret = rdmamsg_fetch_add(client.ep, &key, 0, 1, &was, 0,
						&client);
		adds += !ret && asked % 3 == 0;
		asked += !ret;
		if (++rounds % 151 == 0)
			lose(rounds & 1 ? &client : &server);
		assert_true(rdmamsg_process(client.ctx) >= 0);
		if (rounds % 8 == 0)
			both();
		assert_int_equal(rma_bad, 0);
	}
	if (client.closed || server.closed)
		fail_msg("closed: %s / %s", client.why.text, server.why.text);
	/* each has added, except perhaps those in doubt */
	assert_true(there[0] <= adds && there[0] + rma_doubt >= adds);
	assert_memory_equal(back + 1, there + 1, sizeof(there) - 8);
	close_both();
}

static void reads_and_atomics__lanes_lost_END_ONCE(void **state)
{
	reads_and_atomics(0);
}

static void guarded_reads_and_atomics__lanes_lost_END_ONCE(void **state)
{
	reads_and_atomics(RDMAMSG_EP_GUARD);
}

/* ---- a device that takes no one-sided requests -------------------------- */

static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad);
static bool refuses;
static unsigned int refuse_again;	/* so many later lanes of the client */

static int post_or_refuse(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct ibv_send_wr *last = NULL, *w = wr;
	int ret = 0;

	if (!refuses)
		return post_send(qp, wr, bad);
	while (w && w->opcode == IBV_WR_SEND) {
		last = w;
		w = w->next;
	}
	if (last) {
		last->next = NULL;
		ret = post_send(qp, wr, bad);
		last->next = w;
	}
	if (ret || !w)
		return ret;
	*bad = w;
	return EIO;
}

static void refuse(void)
{
	struct ibv_context_ops *ops = &client.ep->lane.hot.qp->context->ops;

	if (ops->post_send != post_or_refuse)
		post_send = ops->post_send;
	ops->post_send = post_or_refuse;
	refuses = true;
}

static void on_refused_path(struct rdmamsg_ep *ep,
			    const struct rdmamsg_path_event *ev)
{
	on_path(ep, ev);
	if (rdmamsg_ep_user(ep) != &client)
		return;
	if (ev->change == RDMAMSG_PATH_CHANGE_DOWN)
		refuses = false;
	if (ev->change == RDMAMSG_PATH_CHANGE_RESUMED && refuse_again) {
		refuse_again--;
		refuse();
	}
}

/* Before each message the peer must have the write that came before it. */
static void on_message_after_write(struct rdmamsg_ep *ep,
				   struct rdmamsg_msg *msg)
{
	if (there[0] != 1 || rdmamsg_msg_tag(msg) != server.messages)
		rma_bad = -EIO;
	server.messages++;
	rdmamsg_msg_free(msg);
}

static void connect_refused(void)
{
	connect_rma(0);
	client.ep->on.on_path = on_refused_path;
	server.ep->on.on_message = on_message_after_write;
}

/* It has not been executed for sure, so there is no doubt. */
static void atomic__taken_by_no_device_DONE_ONCE(void **state)
{
	uint64_t was = 77;

	connect_refused();
	refuse();
	assert_int_equal(rdmamsg_fetch_add(client.ep, &key, 0, 1, &was, 0,
					   &client), 0);
	/* there are no callbacks within a call */
	assert_int_equal(rma_done, 0);
	WAIT_FOR(rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(rma_doubt, 0);
	assert_int_equal(was, 0);
	assert_int_equal(there[0], 1);
	close_both();
}

static int refuse_masked(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 const struct masked *m)
{
	return EIO;
}

static void masked_atomic__taken_by_no_device_DONE_ONCE(void **state)
{
	const uint64_t add = 5;
	struct verbs_api table;
	uint64_t was = 77;

	connect_rma(0);
	table = *client.ep->lane.v;
	table.post_masked = refuse_masked;
	client.ep->lane.v = &table;
	assert_int_equal(rdmamsg_fetch_add_fields(client.ep, &key, 8, 8, &add,
						  NULL, &was, 0, &client), 0);
	client.ep->lane.v = &rdmamsg__verbs_soft;
	assert_int_equal(rma_done, 0);
	WAIT_FOR(rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(rma_doubt, 0);
	assert_int_equal(was, 0);
	assert_int_equal(there[1], 5);
	assert_int_equal(resumed[0], 1);
	close_both();
}

static void write__repeated_twice_STAYS_BEFORE_MESSAGES(void **state)
{
	const uint64_t word = 1;
	const struct rdmamsg_sge sge = {
		.data = (void *)(uintptr_t)&word, .len = sizeof(word),
	};

	connect_refused();
	refuse_again = 2;
	refuse();
	rdmamsg_cork(client.ctx);
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
				       &client), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_send(client.ep, "text", 4, i, NULL),
				 0);
	rdmamsg_uncork(client.ctx);
	WAIT_FOR(server.messages == 3 && rma_done);
	assert_int_equal(rma_bad, 0);
	assert_int_equal(resumed[0], 3);
	close_both();
}

/* ---- the end ------------------------------------------------------------ */

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

/*
 * A side says in RESUME that it has 'more' messages than it has. The other ends
 * the session, and no program gets a message again.
 */
static void lie(bool by_server, int32_t more)
{
	struct side *liar = by_server ? &server : &client;
	struct side *other = by_server ? &client : &server;
	struct rdmamsg_ep_options opts = { 0 };

	connect_both(&opts);
	flows[0].end = flows[1].end = 50;
	while (flows[0].sent < 50 || flows[1].sent < 50) {
		send_some(&client, 50);
		send_some(&server, 50);
		both();
	}
	expect_whole();
	lose(&client);
	liar->ep->recv.next += (uint32_t)more;
	WAIT_FOR(other->closed);
	assert_int_equal(other->why.cause, RDMAMSG_CAUSE_PROTOCOL);
	if (other->why.who != RDMAMSG_WHO_PEER)
		fail_msg("%s", other->why.text);
	/* a server waits for a better peer until its time is over */
	if (!liar->closed)
		rdmamsg_ep_abort(liar->ep);
	WAIT_FOR(liar->closed);
	assert_int_not_equal(liar->why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_true(is_done(&flows[0]) && is_done(&flows[1]));
	assert_false(flows[0].bad || flows[1].bad);
}

static void resume__lies_of_messages_PROTOCOL(void **state)
{
	static const int32_t more[] = { 1, 1000, -1000, INT32_MAX, INT32_MIN };
	const size_t cases = 2 * sizeof(more) / sizeof(more[0]);

	for (size_t i = 0; i < cases; i++) {
		(void)set_up(state);
		lie(i % 2, more[i / 2]);
		(void)tear_down(state);
	}
	(void)set_up(state);
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
}

/* The server has the other lane and does not run: another is tried, then both. */
static void carrier__is_silent_TRIES_AGAIN(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };
	uint64_t end;

	connect_both(&opts);
	flows[0].end = flows[1].end = 200;
	send_some(&client, 100);
	send_some(&server, 100);
	lose(&client);
	WAIT_FOR(client.ep->resume->said || resumed[0]);
	/* its RESUME is not there yet, or this run shows less */
	end = rdmamsg__now_ms() + 60000;
	while (!resumed[0] && client.ep->resume->tries < 2 &&
	       rdmamsg__now_ms() < end)
		(void)rdmamsg_wait(client.ctx, 100);
	assert_true(resumed[0] || client.ep->resume->tries == 2);
	while (flows[0].sent < 200 || flows[1].sent < 200) {
		send_some(&client, 50);
		send_some(&server, 50);
		both();
	}
	expect_whole();
	assert_true(resumed[0] >= 1 && resumed[1] >= 1);
	close_both();
}

static const struct rdmamsg_failover brief = {
	.size = sizeof(brief), .rungs = RDMAMSG_RUNG_LANE, .timeout_ms = 300,
};

static void connect_brief(void)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .failover = &brief,
	};

	connect_ends(&opts);
}

static void stranger__wrong_proof_REJECTED(void **state)
{
	connect_brief();
	client.ep->resume->secret.key[5] ^= 1;
	lose(&client);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(resumed[0] + resumed[1], 0);
	assert_non_null(strstr(server.why.text, "not come back in 300 ms"));
}

/* A request that was seen on the wire does not count again. */
static void stranger__repeats_a_request_REJECTED(void **state)
{
	connect_brief();
	lose(&client);
	WAIT_FOR(resumed[0] == 1 && resumed[1] == 1);
	client.ep->resume->epoch = 0;
	lose(&client);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_int_equal(resumed[0] + resumed[1], 2);
}

static void passive__nobody_comes_TIMEOUT(void **state)
{
	connect_brief();
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_non_null(strstr(server.why.text, "not come back in 300 ms"));
}

/* The client learns of the loss later than the server, whose time is brief. */
static void passive__knows_first_WAITS_FOR_THE_PEER(void **state)
{
	uint64_t end;

	connect_brief();
	lose(&server);
	end = rdmamsg__now_ms() + 1000;
	while (rdmamsg__now_ms() < end)
		(void)rdmamsg_wait(server.ctx, 50);
	assert_false(server.closed);
	WAIT_FOR(resumed[0] == 1 && resumed[1] == 1);
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
	opts.eager_max = 65536;
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
			full_headers__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			send_queue__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			guarded__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			one_credit__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			shared__lanes_lost_EXACTLY_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			write_imm__lanes_lost_ONCE_AND_IN_ORDER, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			reads_and_atomics__lanes_lost_END_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			down__closed_by_the_program_GRACEFUL, set_up, tear_down),
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
			unknown__session_ENDS_WITH_REASON, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			passive__nobody_comes_TIMEOUT, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			passive__knows_first_WAITS_FOR_THE_PEER, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			options__of_no_use_REFUSED, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			guarded_write_imm__lanes_lost_KEYS_LIVE_ON, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			revoked_key__lane_lost_STAYS_REVOKED, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			guarded_reads_and_atomics__lanes_lost_END_ONCE, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			atomic__taken_by_no_device_DONE_ONCE, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			masked_atomic__taken_by_no_device_DONE_ONCE, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			write__repeated_twice_STAYS_BEFORE_MESSAGES, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			resume__lies_of_messages_PROTOCOL, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			carrier__is_silent_TRIES_AGAIN, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			stranger__wrong_proof_REJECTED, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			stranger__repeats_a_request_REJECTED, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			standby__lanes_lost_TAKES_OVER, set_up, tear_down),
	};

	join_own_fabric("resume");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("resume", tests, NULL, NULL);
}
