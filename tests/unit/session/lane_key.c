/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: who may bring another lane to a session. The key of the session
 * decides, and not that of the listener which the request reaches.
 */
#include "lanes.h"

#include "base/ctx.h"
#include "cm/connect.h"
#include "session/connector.h"
#include "session/door.h"
#include "session/resume.h"
#include "session/secret.h"
#include "session/sessions.h"

#include <rdmamsg/listener.h>

#define KEY	"a pre-shared key of a test"
#define OTHER	"another key, of another listener"

static char elsewhere[8];		/* port of the second listener */
static struct rdmamsg_listener *second_listener;
static uint32_t slow_ms = RDMAMSG_NONE;	/* of both */

/*
 * The server listens twice: with the first key, which the client has, and with
 * the second one. The client dials the second listener if its lane is lost.
 */
static void connect_for(uint32_t ms, const char *key, const char *second)
{
	const struct rdmamsg_options copts = {
		.size = sizeof(copts), .key = key,
		.key_len = key ? strlen(key) : 0,
	};
	struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = ms, .host = "127.0.0.1", .service = elsewhere,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &failover,
	};
	struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts, .slow_ms = slow_ms,
		.key = second, .key_len = second ? strlen(second) : 0,
	};
	struct rdmamsg_listener *l;

	opts.user = &server;
	assert_int_equal(rdmamsg_open(&client.ctx, &copts), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&second_listener), 0);
	(void)snprintf(elsewhere, sizeof(elsewhere), "%u",
		       rdmamsg_listener_port(second_listener));
	lopts.key = key;
	lopts.key_len = copts.key_len;
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	connect_client(&opts);
	WAIT_FOR(server.ep);
	/* the next try goes to the second listener */
	client.ep->resume->target = TARGET_OTHER;
}

static void connect_owner(const char *key, const char *second)
{
	connect_for(60000, key, second);
}

/* The server gives up soon. */
static void connect_stranger(const char *key, const char *second)
{
	connect_for(300, key, second);
}

static void expect_resumed(void)
{
	WAIT_FOR((resumed[0] && resumed[1]) || client.closed || server.closed);
	if (client.closed || server.closed)
		fail_msg("%s", client.closed ? client.why.text :
			 server.why.text);
	flows[0].end = flows[1].end = 20;
	while (flows[0].sent < 20 || flows[1].sent < 20) {
		send_some(&client, 1);
		send_some(&server, 1);
		both();
	}
	expect_whole();
	close_both();
}

/* The owner of the session has its key and gets a lane at any listener. */
static void expect_taken_over(void)
{
	lose(&client);
	expect_resumed();
}

static void owner__at_a_listener_without_key_RESUMES(void **state)
{
	connect_owner(KEY, NULL);
	expect_taken_over();
}

static void owner__at_a_listener_of_another_key_RESUMES(void **state)
{
	connect_owner(KEY, OTHER);
	expect_taken_over();
}

static void owner__without_key_at_a_listener_with_key_RESUMES(void **state)
{
	connect_owner(NULL, OTHER);
	expect_taken_over();
}

/* The stranger has seen a request, whose proof it repeats, and has no more. */
static void expect_refused(void)
{
	lose(&client);
	WAIT_FOR((client.closed && server.closed) || resumed[0] || resumed[1]);
	assert_int_equal(resumed[0] + resumed[1], 0);
	if (!strstr(server.why.text, "not come back in 300 ms"))
		fail_msg("%s", server.why.text);
}

static void forget_key(void)
{
	rdmamsg__secret_free(client.ctx->sessions->secret);
	client.ctx->sessions->secret = NULL;
	client.ep->resume->has_key = false;
}

static void stranger__at_a_listener_without_key_REFUSED(void **state)
{
	connect_stranger(KEY, NULL);
	forget_key();
	expect_refused();
}

/* The stranger has asked with epochs that the owner has not reached yet. */
static void owner__behind_a_stranger_without_the_key_RESUMES(void **state)
{
	struct resume *r;
	uint32_t epoch;

	connect_owner(KEY, NULL);
	r = client.ep->resume;
	epoch = r->epoch;
	forget_key();
	r->epoch += 1000;
	lose(&client);
	WAIT_FOR(r->tries >= 2 || client.closed || server.closed);
	assert_int_equal(resumed[0] + resumed[1], 0);
	assert_int_equal(rdmamsg__secret_new(KEY, strlen(KEY), NULL,
					     &client.ctx->sessions->secret), 0);
	r->has_key = true;
	r->epoch = epoch;
	expect_resumed();
}

static void stranger__has_the_key_of_the_listener_REFUSED(void **state)
{
	connect_stranger(KEY, OTHER);
	forget_key();
	assert_int_equal(rdmamsg__secret_new(OTHER, strlen(OTHER), NULL,
					     &client.ctx->sessions->secret), 0);
	client.ep->resume->key = *client.ctx->sessions->secret;
	client.ep->resume->has_key = true;
	expect_refused();
}

/* The listeners keep addresses out that have offended. */
static void connect_stranger_slowed(void)
{
	slow_ms = 1;
	connect_stranger(NULL, NULL);
	slow_ms = RDMAMSG_NONE;
}

static void expect_offence(void)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_listener_get_stats(second_listener, &st), 0);
	assert_true(st.offences);
}

/* Without a pre-shared key, the secret of the session is proven anew. */
static void stranger__repeats_a_proof_without_a_key_REFUSED(void **state)
{
	connect_stranger_slowed();
	client.ep->resume->key.key[5] ^= 1;
	expect_refused();
	expect_offence();
}

static void stranger__proves_nothing_without_a_key_REFUSED(void **state)
{
	connect_stranger_slowed();
	client.ep->resume->has_key = false;
	expect_refused();
	expect_offence();
}

/* The secret of the session is a guess, which the first request shows. */
static void stranger__guesses_the_secret_REFUSED(void **state)
{
	connect_stranger_slowed();
	client.ep->resume->secret.key[5] ^= 1;
	expect_refused();
	expect_offence();
}

/* A peer that does not have the feature goes on as before. */
static void old_peer__without_a_key_RESUMES(void **state)
{
	connect_owner(NULL, NULL);
	client.ep->resume->has_key = server.ep->resume->has_key = false;
	expect_taken_over();
}

/* An answer to an earlier request is repeated to the initiator. */
static void answer__to_an_earlier_request_REFUSED(void **state)
{
	uint8_t buf[PROTO_HELLO_MAX], proof[PROTO_LANE_DATA_LEN];
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.data = proof, .data_len = sizeof(proof),
	};
	struct resume *r;

	connect_owner(NULL, NULL);
	r = client.ep->resume;
	lose(&client);
	UNTIL_BY(assert_true(rdmamsg_process(client.ctx) >= 0),
		 r->carrier && r->carrier->lane.dev);
	for (uint32_t back = 0; back < 2; back++) {
		h.epoch = r->epoch - back;
		assert_int_equal(rdmamsg__lane_prove(r, false, h.epoch, proof),
				 0);
		assert_int_equal(rdmamsg__hello_check(
			r->carrier, buf, rdmamsg__hello_encode(&h, buf)),
			back ? -EACCES : 0);
	}
}

/* ---- sessions that this process does not have --------------------------- */

static uint32_t answers[2];		/* SESSION, LIMIT */

static void note_reject(struct rdmamsg_request *req, enum proto_reject code,
			const void *data, size_t len)
{
	assert_true(code == PROTO_REJECT_SESSION ||
		    (code == PROTO_REJECT_LIMIT &&
		     rdmamsg__limit_passes(req->limit)));
	answers[code == PROTO_REJECT_LIMIT]++;
}

static void drop_nothing(struct rdmamsg_request *req)
{
}

/* After a restart each client asks once, and one asks without end. */
static void unknown__sessions_ARE_ANSWERED_LATER(void **state)
{
	static const struct connector by = {
		.reject = note_reject, .drop = drop_nothing,
	};
	static const struct sockaddr_storage from = { .ss_family = AF_INET };
	const struct rdmamsg_listen_options o = {
		.max_requests = 16, .max_half_open = 16, .max_endpoints = 16,
		.slow_ms = 100,
	};
	const struct proto_hello hello = {
		.features = PROTO_FEATURE_LANE, .epoch = 1,
		.data = (const uint8_t *)"no session has this id, nor proof",
		.data_len = PROTO_LANE_DATA_LEN,
	};
	struct door *door = rdmamsg__door_new(&o);
	struct rdmamsg_listener l = { .by = &by, .door = door };
	struct rdmamsg_listener_stats st;
	uint64_t begun = rdmamsg__now_ms();
	struct visitor v = { .door = NULL };

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	l.ctx = server.ctx;
	memset(answers, 0, sizeof(answers));
	for (int i = 0; i < 1000; i++) {
		struct rdmamsg_request *req;

		assert_int_equal(rdmamsg__door_admit(door, &from, DOOR_REQUEST,
						     &v), 0);
		assert_int_equal(rdmamsg__request_new(&l, &hello, &v, &req), 0);
		rdmamsg__lane_arrived(req);
	}
	assert_in_range(answers[0], DOOR_ASKS, DOOR_ASKS *
			((rdmamsg__now_ms() - begun) / 1000 + 1));
	assert_int_equal(answers[0] + answers[1], 1000);
	rdmamsg__door_stats(door, &st);
	assert_int_equal(st.offences, 0);
	assert_int_equal(rdmamsg__door_admit(door, &from, DOOR_REQUEST, &v), 0);
	rdmamsg__visitor_leave(&v);
	rdmamsg__door_close(door);
}

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(owner__at_a_listener_without_key_RESUMES),
		T(owner__at_a_listener_of_another_key_RESUMES),
		T(owner__without_key_at_a_listener_with_key_RESUMES),
		T(owner__behind_a_stranger_without_the_key_RESUMES),
		T(stranger__at_a_listener_without_key_REFUSED),
		T(stranger__has_the_key_of_the_listener_REFUSED),
		T(stranger__repeats_a_proof_without_a_key_REFUSED),
		T(stranger__proves_nothing_without_a_key_REFUSED),
		T(stranger__guesses_the_secret_REFUSED),
		T(old_peer__without_a_key_RESUMES),
		T(answer__to_an_earlier_request_REFUSED),
		T(unknown__sessions_ARE_ANSWERED_LATER),
	};

	join_own_fabric("lane-key");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("lane_key", tests, NULL, NULL);
}
