/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: who brings another lane to a session. A side that lies of its
 * messages, a stranger, and one that repeats a request get no session. A side
 * that is silent, late or lost again is waited for.
 */
#include "base/ctx.h"
#include "session/resume.h"
#include "lanes.h"

static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
};

static void connect_both(struct rdmamsg_ep_options *opts)
{
	opts->size = sizeof(*opts);
	opts->handlers = &handlers;
	opts->failover = &failover;
	connect_ends(opts);
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

/* The server has the other lane and does not run: others are tried. */
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

/* Counts large messages that a key of some device belongs to. */
static unsigned int count_keys(const struct rdmamsg_ep *ep)
{
	unsigned int count = 0;
	struct list *n;

	list_for_each(n, &ep->rndv.out) {
		const struct rndv_out *r = list_entry(n, struct op, node)->rndv;

		count += r->count && rdmamsg__rndv_registered(r);
	}
	return count;
}

/* The device may be closed once no lane uses it. */
static void carrier__lost_behind_RESUME_KEEPS_NO_KEYS(void **state)
{
	struct rdmamsg_ep_options opts = { 0 };
	struct rdmamsg_ep *carrier;
	struct resume *r;

	connect_both(&opts);
	r = server.ep->resume;
	flows[1].end = 200;
	send_some(&server, 100);
	lose(&client);
	/* the passive side is the first to send RESUME */
	WAIT_FOR(r->said || resumed[1]);
	assert_int_equal(resumed[1], 0);
	assert_true(count_keys(server.ep) > 0);
	carrier = r->carrier;
	rdmamsg__ep_reason(carrier, RDMAMSG_WHO_NETWORK,
			   RDMAMSG_CAUSE_TRANSPORT, -ETIMEDOUT,
			   "the test has cut the carrier");
	rdmamsg__ep_kill(carrier);
	UNTIL_BY((void)rdmamsg_process(server.ctx), r->carrier != carrier);
	assert_int_equal(count_keys(server.ep), 0);
	while (flows[1].sent < 200) {
		send_some(&server, 50);
		both();
	}
	expect_whole();
	close_both();
}

static const struct rdmamsg_failover patient = {
	.size = sizeof(patient), .rungs = RDMAMSG_RUNG_LANE,
	.timeout_ms = WAIT_MS,
};

static void connect_patient(void)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &patient,
	};

	connect_ends(&opts);
}

/* From now on, the side waits for its peer for 300 ms. */
static void be_brief(const struct side *side)
{
	side->ep->resume->opts.timeout_ms = 300;
	rdmamsg__resume_wake(side->ep);
}

static void passive_ends(void)
{
	be_brief(&server);
	WAIT_FOR(server.closed);
	assert_non_null(strstr(server.why.text, "not come back in 300 ms"));
}

static void stranger__wrong_proof_REJECTED(void **state)
{
	connect_patient();
	client.ep->resume->secret.key[5] ^= 1;
	lose(&client);
	/* the first try has failed, however long it has taken */
	WAIT_FOR(client.closed || client.ep->resume->tries == 2);
	assert_false(client.closed || server.closed);
	be_brief(&client);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(resumed[0] + resumed[1], 0);
	passive_ends();
}

/* A request that was seen on the wire does not count again. */
static void stranger__repeats_a_request_REJECTED(void **state)
{
	connect_patient();
	lose(&client);
	WAIT_FOR(resumed[0] == 1 && resumed[1] == 1);
	client.ep->resume->epoch = 0;
	lose(&client);
	WAIT_FOR(client.closed);
	passive_ends();
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_int_equal(resumed[0] + resumed[1], 2);
}

/* The lane that was lost may have the peer's CLOSE, which is not read yet. */
static void carrier__refused_before_the_lost_lane_is_read_GOES_ON(void **state)
{
	static struct rdmamsg_ep carrier;
	struct resume *r;

	connect_patient();
	r = client.ep->resume;
	lose(&client);
	assert_int_not_equal(r->lane, LANE_DOWN);
	memset(&carrier, 0, sizeof(carrier));
	carrier.ctx = client.ctx;
	carrier.carries = client.ep;
	carrier.close.reason = (struct rdmamsg_reason){
		.who = RDMAMSG_WHO_PEER, .cause = RDMAMSG_CAUSE_PROTOCOL,
		.error = -EPROTO,
	};
	r->target = TARGET_FIRST;
	r->carrier = &carrier;
	rdmamsg__carrier_ended(&carrier);
	assert_null(r->carrier);
	assert_int_equal(client.ep->state, EP_OPEN);
}

static void passive__nobody_comes_TIMEOUT(void **state)
{
	connect_patient();
	rdmamsg_ep_abort(client.ep);
	passive_ends();
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_ABORTED);
}

/* The client learns of the loss later than the server, whose time is brief. */
static void passive__knows_first_WAITS_FOR_THE_PEER(void **state)
{
	uint64_t end;

	connect_patient();
	be_brief(&server);
	lose(&server);
	end = rdmamsg__now_ms() + 1000;
	while (rdmamsg__now_ms() < end)
		(void)rdmamsg_wait(server.ctx, 50);
	assert_false(server.closed);
	WAIT_FOR(resumed[0] == 1 && resumed[1] == 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(resume__lies_of_messages_PROTOCOL),
		T(carrier__is_silent_TRIES_AGAIN),
		T(carrier__lost_behind_RESUME_KEEPS_NO_KEYS),
		T(stranger__wrong_proof_REJECTED),
		T(stranger__repeats_a_request_REJECTED),
		T(carrier__refused_before_the_lost_lane_is_read_GOES_ON),
		T(passive__nobody_comes_TIMEOUT),
		T(passive__knows_first_WAITS_FOR_THE_PEER),
	};

	join_own_fabric("carrier");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("carrier", tests, NULL, NULL);
}
