/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: endpoints with a pre-shared key, over both connectors: right,
 * wrong and missing keys, and an AUTH that is altered before it is posted.
 */
#include "base/ctx.h"
#include "base/timer.h"
#include "device/verbs_api.h"
#include "session/auth.h"
#include "session/ep.h"
#include "session/sessions.h"
#include "wire/proto.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>

#define KEY	"sixteen bytes or more"
#define OTHER	"sixteen bytes or less"

static struct ibv_context_ops soft_ops;
static struct verbs_api table;
static bool over_tcp;		/* records over TCP, no connection manager */
static bool shared;		/* the contexts have a shared receive queue */
static struct rdmamsg_listener *listener;
static struct rdmamsg_ep_options ep_opts;
static struct rdmamsg_listen_options listen_opts;

/* Bodies of the last AUTH of each side, as the library has made them. */
static uint8_t from_initiator[PROTO_PROOF_LEN], from_responder[PROTO_AUTH_LEN];
static unsigned int auths, setups, nonces;
/* Alters a Send before it is posted. */
static void (*alter)(struct ibv_send_wr *wr, uint8_t type, bool initiator);

/* ---- what the library posts ------------------------------------------- */

static uint8_t *bytes_of(const struct ibv_send_wr *wr)
{
	return (uint8_t *)(uintptr_t)wr->sg_list[0].addr;
}

static void look_at(struct ibv_send_wr *wr)
{
	const uint8_t *body = bytes_of(wr) + PROTO_HDR_LEN;
	uint32_t len = wr->sg_list[0].length - PROTO_HDR_LEN;
	uint8_t type = bytes_of(wr)[0];
	bool initiator = len == PROTO_PROOF_LEN;
	struct proto_setup s;

	if (type == PROTO_AUTH && initiator)
		memcpy(from_initiator, body, len);
	else if (type == PROTO_AUTH && len)
		memcpy(from_responder, body, len);
	auths += type == PROTO_AUTH;
	if (type == PROTO_SETUP) {
		assert_int_equal(rdmamsg__setup_decode(&s, body, len), 0);
		initiator = !setups++;
		nonces += s.has_nonce;
	}
	if (alter)
		alter(wr, type, initiator);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	struct ibv_send_wr *const first = wr, saved = *wr;
	struct ibv_sge sge = { 0 };
	int ret;

	if (wr->num_sge)
		sge = wr->sg_list[0];
	for (; wr; wr = wr->next)
		if (wr->opcode == IBV_WR_SEND && wr->num_sge == 1)
			look_at(wr);
	ret = soft_ops.post_send(qp, first, bad);
	*first = saved;
	if (saved.num_sge)
		first->sg_list[0] = sge;
	return ret;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct ibv_context *verbs = rdmamsg__verbs_soft.open_device(device);

	if (!verbs)
		return NULL;
	soft_ops = verbs->ops;
	verbs->ops.post_send = post_send;
	return verbs;
}

/* ---- two ends --------------------------------------------------------- */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers =
	END_HANDLERS(on_message);

static void open_side(struct side *s, const char *key)
{
	const struct rdmamsg_srq_options srq = { .size = sizeof(srq) };
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .key = key,
		.key_len = key ? strlen(key) : 0, .srq = shared ? &srq : NULL,
	};

	memset(s, 0, sizeof(*s));
	if (rdmamsg_open(&s->ctx, &opts))
		fail_msg("%s", rdmamsg_error());
}

static void dial(void)
{
	client.ep = NULL;
	client.closed = false;
	ep_opts.user = &client;
	assert_int_equal((over_tcp ? rdmamsg_oob_connect : rdmamsg_connect)
			 (client.ctx, "127.0.0.1", service, &ep_opts, NULL), 0);
}

/* Dials, with the keys of the client, of the server and of its listener. */
static void begin(const char *client_key, const char *server_key,
		  const char *listen_key)
{
	struct rdmamsg_ep_options accepted = ep_opts;

	auths = setups = nonces = 0;
	open_side(&client, client_key);
	open_side(&server, server_key);
	ep_opts.size = accepted.size = sizeof(ep_opts);
	ep_opts.handlers = accepted.handlers = &handlers;
	accepted.user = &server;
	listen_opts.size = sizeof(listen_opts);
	listen_opts.ep = &accepted;
	listen_opts.key = listen_key;
	listen_opts.key_len = listen_key ? strlen(listen_key) : 0;
	assert_int_equal((over_tcp ? rdmamsg_oob_listen : rdmamsg_listen)
			 (server.ctx, "127.0.0.1", "0", &listen_opts,
			  &listener), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(listener));
	dial();
}

static void end(void)
{
	alter = NULL;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	memset(&ep_opts, 0, sizeof(ep_opts));
	memset(&listen_opts, 0, sizeof(listen_opts));
}

static void assert_connected(void)
{
	WAIT_FOR(client.ep && server.ep);
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(client.messages == 1 && server.messages == 1);
}

static void assert_reason(const struct side *s, enum rdmamsg_cause cause,
			  const char *word)
{
	assert_null(s->ep);		/* on_connected was not called */
	if (s->why.cause != cause || !strstr(s->why.text, word))
		fail_msg("cause %s, \"%s\"",
			 rdmamsg_name(RDMAMSG_NAME_CAUSE, s->why.cause),
			 s->why.text);
	assert_int_equal(s->why.who, RDMAMSG_WHO_PEER);
	if (cause == RDMAMSG_CAUSE_AUTH)
		assert_int_equal(s->why.error, -EACCES);
}

/* Both sides end because of the keys, and the listener counts 'unproven'. */
static void assert_refused(const char *client_word, const char *server_word,
			   unsigned int unproven)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };

	WAIT_FOR(client.closed && server.closed);
	assert_reason(&client, RDMAMSG_CAUSE_AUTH, client_word);
	assert_reason(&server, RDMAMSG_CAUSE_AUTH, server_word);
	assert_int_equal(rdmamsg_listener_get_stats(listener, &st), 0);
	assert_int_equal(st.unproven, unproven);
	assert_int_equal(st.offences, unproven);
}

static struct rdmamsg_ep *accepted_ep(void)
{
	assert_false(list_empty(&server.ctx->sessions->eps));
	return list_first(&server.ctx->sessions->eps, struct rdmamsg_ep, node);
}

/* ---- keys ------------------------------------------------------------- */

static void key__same_CONNECTED(void **state)
{
	begin(KEY, KEY, NULL);
	assert_connected();
	assert_int_equal(auths, 2);
	assert_int_equal(setups, 2);
	assert_int_equal(nonces, 1);
	end();
}

static void key__of_a_listener_OVERRIDES(void **state)
{
	begin(KEY, OTHER, KEY);
	assert_connected();
	end();
	begin(KEY, NULL, KEY);
	assert_connected();
	end();
	begin(KEY, KEY, OTHER);
	assert_refused("another key", "another key", 1);
	end();
}

static void key__none_NOTHING_ON_THE_WIRE(void **state)
{
	begin(NULL, NULL, NULL);
	assert_connected();
	assert_int_equal(auths, 0);
	assert_int_equal(setups, 2);
	assert_int_equal(nonces, 0);
	end();
}

static void key__different_REFUSED(void **state)
{
	begin(KEY, OTHER, NULL);
	assert_refused("another key", "another key", 1);
	end();
}

static void key__missing_at_the_initiator_REFUSED(void **state)
{
	begin(NULL, KEY, NULL);
	assert_refused("requires a key, and this side has none",
		       "has no key, and this side requires one", 1);
	assert_int_equal(auths, 0);
	end();
}

/* The peer is not to blame: this listener has no key. */
static void key__missing_at_the_responder_REFUSED(void **state)
{
	begin(KEY, NULL, NULL);
	assert_refused("has no key, and this side requires one",
		       "requires a key, and this side has none", 0);
	assert_int_equal(auths, 0);
	end();
}

/* ---- before the proof ------------------------------------------------- */

static void look_while_stranger(struct ibv_send_wr *wr, uint8_t type,
				bool initiator)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };
	const struct rdmamsg_ep *ep;

	if (type == PROTO_SETUP && !initiator) {
		assert_null(client.ep);
		assert_null(server.ep);
	}
	if (type != PROTO_AUTH || !initiator)
		return;
	ep = accepted_ep();
	assert_null(client.ep);
	assert_null(server.ep);
	assert_true(ep->connect.lobby);
	if (!shared)
		assert_int_equal(rdmamsg__rq_posted(&ep->lane), 1);
	assert_int_equal(rdmamsg_listener_get_stats(listener, &st), 0);
	assert_int_equal(st.half_open, 1);
	assert_int_equal(st.endpoints, 0);
}

static void responder__before_the_proof_HAS_A_STRANGER(void **state)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };

	alter = look_while_stranger;
	begin(KEY, KEY, NULL);
	assert_connected();
	assert_int_equal(rdmamsg_listener_get_stats(listener, &st), 0);
	assert_int_equal(st.half_open, 0);
	assert_int_equal(st.endpoints, 1);
	assert_null(client.ep->connect.auth);
	assert_null(server.ep->connect.auth);
	end();
}

static bool lost;

/* An empty write in place of the initiator's AUTH. */
static void lose_proof(struct ibv_send_wr *wr, uint8_t type, bool initiator)
{
	if (type != PROTO_AUTH || !initiator)
		return;
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->num_sge = 0;
	wr->wr.rdma.remote_addr = 0;
	wr->wr.rdma.rkey = 0;
	lost = true;
}

static void initiator__without_an_AUTH_TIMEOUT(void **state)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };

	alter = lose_proof;
	lost = false;
	listen_opts.setup_timeout_ms = WAIT_MS;
	ep_opts.timeout_ms = 2 * WAIT_MS;
	begin(KEY, KEY, NULL);
	WAIT_FOR(lost);
	/* setup_timeout_ms passes */
	rdmamsg__timer_set(&server.ctx->loop.timers, &accepted_ep()->timer, 1);
	WAIT_FOR(server.closed);
	assert_reason(&server, RDMAMSG_CAUSE_TIMEOUT, "its proof");
	assert_int_equal(rdmamsg_listener_get_stats(listener, &st), 0);
	assert_int_equal(st.setup_timeouts, 1);
	end();
}

/* ---- bad AUTHs -------------------------------------------------------- */

static uint8_t old_initiator[PROTO_PROOF_LEN], old_responder[PROTO_AUTH_LEN];

static void replay_initiator(struct ibv_send_wr *wr, uint8_t type,
			     bool initiator)
{
	if (type == PROTO_AUTH && initiator)
		memcpy(bytes_of(wr) + PROTO_HDR_LEN, old_initiator,
		       sizeof(old_initiator));
}

static void replay_responder(struct ibv_send_wr *wr, uint8_t type,
			     bool initiator)
{
	if (type == PROTO_AUTH && !initiator)
		memcpy(bytes_of(wr) + PROTO_HDR_LEN, old_responder,
		       sizeof(old_responder));
}

static void proof__replayed_REFUSED(void **state)
{
	begin(KEY, KEY, NULL);
	assert_connected();
	end();
	memcpy(old_initiator, from_initiator, sizeof(old_initiator));
	memcpy(old_responder, from_responder, sizeof(old_responder));
	alter = replay_initiator;
	begin(KEY, KEY, NULL);
	assert_refused("another key", "another key", 1);
	end();
	alter = replay_responder;
	begin(KEY, KEY, NULL);
	assert_refused("another key", "another key", 1);
	end();
}

/* A stranger returns the responder's proof as its own. */
static void reflect(struct ibv_send_wr *wr, uint8_t type, bool initiator)
{
	if (type == PROTO_AUTH && initiator)
		memcpy(bytes_of(wr) + PROTO_HDR_LEN, from_responder,
		       PROTO_PROOF_LEN);
}

static void proof__reflected_REFUSED(void **state)
{
	alter = reflect;
	begin(KEY, KEY, NULL);
	assert_refused("another key", "another key", 1);
	end();
}

static bool which;		/* the initiator's AUTH is altered */
static int32_t more;		/* bytes */

static void resize(struct ibv_send_wr *wr, uint8_t type, bool initiator)
{
	if (type == PROTO_AUTH && initiator == which)
		wr->sg_list[0].length += (uint32_t)more;
}

static void auth__truncated_PROTOCOL(void **state)
{
	static const int32_t cuts[] = { -1, -PROTO_PROOF_LEN };

	for (int i = 0; i < 4; i++) {
		which = i & 1;
		more = cuts[i / 2];
		alter = resize;
		begin(KEY, KEY, NULL);
		WAIT_FOR(client.closed && server.closed);
		assert_reason(which ? &server : &client, RDMAMSG_CAUSE_PROTOCOL,
			      "a broken AUTH");
		assert_null(client.ep);
		assert_null(server.ep);
		end();
	}
}

static void auth__with_a_tail_CONNECTED(void **state)
{
	for (int i = 0; i < 2; i++) {
		which = i;
		more = 1000;
		alter = resize;
		begin(KEY, KEY, NULL);
		assert_connected();
		end();
	}
}

static uint8_t from_type, to_type;

static void retype(struct ibv_send_wr *wr, uint8_t type, bool initiator)
{
	if (type == from_type && initiator == which)
		bytes_of(wr)[0] = to_type;
}

static void auth__out_of_turn_PROTOCOL(void **state)
{
	static const struct {
		const char *key;
		uint8_t from, to;
		bool which;
		const char *word;
	} cases[] = {
		{ NULL, PROTO_SETUP, PROTO_AUTH, true, "AUTH out of turn" },
		{ NULL, PROTO_SETUP, PROTO_AUTH, false, "AUTH out of turn" },
		{ KEY, PROTO_SETUP, PROTO_AUTH, true, "AUTH out of turn" },
		{ KEY, PROTO_SETUP, PROTO_AUTH, false, "AUTH out of turn" },
		{ KEY, PROTO_AUTH, PROTO_SETUP, true, "SETUP out of turn" },
		{ KEY, PROTO_AUTH, PROTO_SETUP, false, "a broken SETUP" },
		{ KEY, PROTO_AUTH, PROTO_DATA, true, "message" },
		{ KEY, PROTO_AUTH, PROTO_CREDIT, true, "before SETUP" },
		{ KEY, PROTO_AUTH, PROTO_CREDIT, false, "before SETUP" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		from_type = cases[i].from;
		to_type = cases[i].to;
		which = cases[i].which;
		alter = retype;
		begin(cases[i].key, cases[i].key, NULL);
		WAIT_FOR(which ? server.closed : client.closed);
		assert_reason(which ? &server : &client, RDMAMSG_CAUSE_PROTOCOL,
			      cases[i].word);
		end();
	}
}

static void late_auth(struct ibv_send_wr *wr, uint8_t type, bool initiator)
{
	if (type == PROTO_DATA)
		bytes_of(wr)[0] = PROTO_AUTH;
}

static void auth__when_connected_PROTOCOL(void **state)
{
	ep_opts.flags = RDMAMSG_EP_FULL_HEADERS;
	begin(KEY, KEY, NULL);
	assert_connected();
	alter = late_auth;
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_non_null(strstr(server.why.text, "AUTH out of turn"));
	assert_int_equal(server.messages, 1);
	end();
}

/* The responder lets a peer with a key in, and has never proven its own. */
static void skip_auth(struct ibv_send_wr *wr, uint8_t type, bool initiator)
{
	struct proto_setup s;
	uint8_t *body = bytes_of(wr) + PROTO_HDR_LEN;
	uint8_t out[PROTO_SETUP_MAX];
	size_t len = wr->sg_list[0].length - PROTO_HDR_LEN;

	if (type != PROTO_SETUP || initiator)
		return;
	assert_int_equal(rdmamsg__setup_decode(&s, body, len), 0);
	assert_int_equal(s.refused, PROTO_REJECT_KEYED);
	s.refused = 0;
	len = rdmamsg__setup_encode(&s, out);
	memcpy(body, out, len);
	wr->sg_list[0].length = (uint32_t)(PROTO_HDR_LEN + len);
}

static void responder__without_an_AUTH_REFUSED(void **state)
{
	alter = skip_auth;
	begin(KEY, NULL, NULL);
	WAIT_FOR(client.closed && server.closed);
	assert_reason(&client, RDMAMSG_CAUSE_AUTH,
		      "has no key, and this side requires one");
	end();
}

static int over_cm(void **state)
{
	over_tcp = shared = false;
	return 0;
}

static int over_records(void **state)
{
	over_tcp = true;
	shared = false;
	return 0;
}

static int with_srq(void **state)
{
	over_tcp = false;
	shared = true;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key__same_CONNECTED),
		cmocka_unit_test(key__of_a_listener_OVERRIDES),
		cmocka_unit_test(key__none_NOTHING_ON_THE_WIRE),
		cmocka_unit_test(key__different_REFUSED),
		cmocka_unit_test(key__missing_at_the_initiator_REFUSED),
		cmocka_unit_test(key__missing_at_the_responder_REFUSED),
		cmocka_unit_test(responder__before_the_proof_HAS_A_STRANGER),
		cmocka_unit_test(initiator__without_an_AUTH_TIMEOUT),
		cmocka_unit_test(proof__replayed_REFUSED),
		cmocka_unit_test(proof__reflected_REFUSED),
		cmocka_unit_test(auth__truncated_PROTOCOL),
		cmocka_unit_test(auth__with_a_tail_CONNECTED),
		cmocka_unit_test(auth__out_of_turn_PROTOCOL),
		cmocka_unit_test(auth__when_connected_PROTOCOL),
		cmocka_unit_test(responder__without_an_AUTH_REFUSED),
	};
	int failed;

	join_own_fabric("auth");
	table = rdmamsg__verbs_soft;
	table.open_device = open_device;
	rdmamsg__verbs = &table;
	failed = cmocka_run_group_tests_name("connection manager", tests,
					     over_cm, NULL);
	failed += cmocka_run_group_tests_name("records", tests, over_records,
					      NULL);
	failed += cmocka_run_group_tests_name("shared receives", tests,
					      with_srq, NULL);
	return failed;
}
