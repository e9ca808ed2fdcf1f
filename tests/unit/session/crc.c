/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the CRC-32C of messages over the soft HCA: all sizes and forms
 * arrive with it, each form with a changed byte ends the connection, and both
 * sides must ask for it.
 */
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/memory.h>
#include <sys/uio.h>

#define MOST	(300u << 10)
#define EAGER	(8192 - PROTO_HDR_LEN - PROTO_CRC_LEN)

static struct ibv_qp *client_qp;

/* The damage to one of the client's Sends. */
static struct {
	int after;		/* Sends to leave alone; -1: all */
	uint32_t at;		/* byte of the payload or of the CRC */
	uint32_t shorten;	/* bytes that do not go out */
} harm;

static uint8_t out[MOST];
static uint32_t expected_len, expected_tag;
static bool bad;
static unsigned int resumed;

static void do_harm(struct ibv_send_wr *w)
{
	uint32_t head = w->opcode == IBV_WR_SEND_WITH_IMM ? 0 : PROTO_HDR_LEN;

	if (harm.after < 0 || harm.after--)
		return;
	if (harm.shorten)
		w->sg_list->length -= harm.shorten;
	else
		((uint8_t *)(uintptr_t)w->sg_list->addr)[head + harm.at] ^= 4;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad_wr)
{
	for (struct ibv_send_wr *w = wr; w && qp == client_qp; w = w->next)
		if (w->num_sge && (w->opcode == IBV_WR_SEND_WITH_IMM ||
				   w->opcode == IBV_WR_SEND ||
				   w->opcode == IBV_WR_SEND_WITH_INV))
			do_harm(w);
	return soft_ops.post_send(qp, wr, bad_wr);
}

static void on_up(struct rdmamsg_ep *ep)
{
	on_connected(ep);
	if (rdmamsg_ep_user(ep) == &client)
		client_qp = ep->lane.hot.qp;
}

static uint8_t byte_of(uint32_t tag, uint32_t at)
{
	return (uint8_t)(tag * 7 + at * 3 + (at >> 8));
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	const uint8_t *p = rdmamsg_msg_data(msg);

	s->messages++;
	bad |= rdmamsg_msg_len(msg) != expected_len ||
	       rdmamsg_msg_tag(msg) != expected_tag;
	for (uint32_t i = 0; i < expected_len && !bad; i++)
		bad |= p[i] != byte_of(expected_tag, i);
	rdmamsg_msg_free(msg);
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	resumed += ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
}

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_tuning tuning;
static struct rdmamsg_ep_handlers handlers;

static int set_up(void **state)
{
	handlers = (struct rdmamsg_ep_handlers){
		.size = sizeof(handlers), .on_connected = on_up,
		.on_complete = on_complete, .on_message = on_message,
		.on_closed = on_closed, .on_path = on_path,
	};
	tuning = (struct rdmamsg_ep_tuning){
		.size = sizeof(tuning), .max_copy = MOST,
		.pieces_max = 256u << 10,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
		.flags = RDMAMSG_EP_CRC, .tuning = &tuning,
	};
	clear_ends();
	harm.after = -1;
	harm.at = harm.shorten = 0;
	bad = false;
	resumed = 0;
	client_qp = NULL;
	replace_calls(NULL, post_send);
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

/* ---- sending ----------------------------------------------------------- */

enum how { COPY, BORROW, GATHER, MESSAGE, LARGER_MESSAGE, HOWS };

static int send_message(enum how how, uint32_t len, uint32_t tag)
{
	struct rdmamsg_msg *msg;
	/* a message of a larger size class has room behind its payload */
	size_t room = how == MESSAGE ? len : len + len / 2 + 100;
	int ret = rdmamsg_msg_alloc(client.ep, room, &msg);

	if (ret)
		return ret;
	memcpy(rdmamsg_msg_data(msg), out, len);
	assert_int_equal(rdmamsg_msg_set_len(msg, len), 0);
	ret = rdmamsg_msg_send(client.ep, msg, tag, NULL);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

static int send_as(enum how how, uint32_t len, uint32_t tag)
{
	struct iovec iov[5] = { { out, len } };
	uint32_t at = 0;

	switch (how) {
	case COPY:
		return rdmamsg_send(client.ep, out, len, tag, NULL);
	case BORROW:
		return rdmamsg_sendv(client.ep, iov, 1, tag, &client);
	case GATHER:
		for (uint32_t i = 0; i < 5; i++) {
			iov[i].iov_base = out + at;
			iov[i].iov_len = i < 4 ? len / (i + 3) : len - at;
			at += (uint32_t)iov[i].iov_len;
		}
		return rdmamsg_sendv(client.ep, iov, 5, tag, &client);
	default:
		return send_message(how, len, tag);
	}
}

static void prepare(uint32_t len, uint32_t tag)
{
	for (uint32_t i = 0; i < len; i++)
		out[i] = byte_of(tag, i);
	expected_len = len;
	expected_tag = tag;
}

static void expect_one(enum how how, uint32_t len, uint32_t tag)
{
	unsigned int n = server.messages, done = client.sent;
	int ret;

	prepare(len, tag);
	while ((ret = send_as(how, len, tag)) == -EAGAIN)
		both();
	assert_int_equal(ret, 0);
	WAIT_FOR(server.messages == n + 1 || client.closed || server.closed);
	if (server.messages != n + 1 || bad)
		fail_msg("%u bytes as %d: %s", len, how, server.closed ?
			 server.why.text : "other content");
	if (how == BORROW || how == GATHER)
		WAIT_FOR(client.sent == done + 1);
}

static const uint32_t sizes[] = {
	0, 1, 3, 4, 5, 63, 64, 239, 240, 241, 244, 245, 508, 512, 4096, 8171,
	8172, 8173, 8176, 8177, 16340, 16344, 16345, 65536, 131072, 131073,
	262144, MOST,
};

static void expect_all_sizes(void)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (enum how how = 0; how < HOWS; how++) {
			expect_one(how, sizes[i], (uint32_t)(10 * i + how));
			/* a large tag needs a header */
			expect_one(how, sizes[i], 0x12345678);
		}
}

static struct rdmamsg_stats stats(const struct side *s)
{
	struct rdmamsg_stats c = { .size = sizeof(c) };

	assert_int_equal(rdmamsg_ep_get_stats(s->ep, &c), 0);
	return c;
}

/* The statistics count payload, and all forms were in use. */
static void check_stats(void)
{
	struct rdmamsg_stats c = stats(&client), s = stats(&server);
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	assert_int_equal(c.bytes_sent, s.bytes_received);
	assert_int_equal(c.msgs_sent, s.msgs_received);
	assert_true(c.sent_eager && c.sent_rendezvous);
	assert_int_equal(rdmamsg_ep_query(client.ep, &a), 0);
	assert_int_equal(a.crc, 1);
	assert_int_equal(a.eager_max, EAGER);
}

static void close_both(void)
{
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
}

/* ---- all sizes --------------------------------------------------------- */

static void compact__all_sizes_ARRIVE(void **state)
{
	connect_ends(&opts);
	expect_all_sizes();
	check_stats();
	assert_true(stats(&client).sent_inline > 0);
	assert_true(stats(&client).sent_pieces > 0);
	close_both();
}

static void full_headers__all_sizes_ARRIVE(void **state)
{
	opts.flags |= RDMAMSG_EP_FULL_HEADERS;
	connect_ends(&opts);
	expect_all_sizes();
	check_stats();
	close_both();
}

static void no_inline__all_sizes_ARRIVE(void **state)
{
	tuning.inline_max = RDMAMSG_NONE;
	connect_ends(&opts);
	expect_all_sizes();
	close_both();
}

static void largest_inline__all_sizes_ARRIVE(void **state)
{
	tuning.inline_max = 512;
	connect_ends(&opts);
	expect_all_sizes();
	close_both();
}

static void guarded__all_sizes_ARRIVE(void **state)
{
	opts.flags |= RDMAMSG_EP_GUARD;
	tuning.pieces_max = RDMAMSG_NONE;
	connect_ends(&opts);
	expect_all_sizes();
	close_both();
}

/* Both sides have a shared receive queue. */
static void connect_shared(void)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 64,
	};
	const struct rdmamsg_options o = { .size = sizeof(o), .srq = &so };

	connect_ends_in(&o, &o, &opts);
}

static void shared__all_sizes_ARRIVE(void **state)
{
	connect_shared();
	expect_all_sizes();
	close_both();
}

/* The program gives the memory of large messages. */
static uint8_t given[MOST];

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	dst->data = given;
	return 0;
}

static void own_memory__all_sizes_ARRIVE(void **state)
{
	handlers.on_incoming = on_incoming;
	connect_ends(&opts);
	expect_all_sizes();
	close_both();
}

static const struct rdmamsg_failover lanes = {
	.size = sizeof(lanes), .rungs = RDMAMSG_RUNG_LANE,
};

static void cut(struct side *s)
{
	rdmamsg__ep_reason(s->ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TRANSPORT,
			   -ETIMEDOUT, "the test has cut the lane");
	rdmamsg__ep_kill(s->ep);
}

/* Messages that go over another lane have their CRC, and are checked. */
static void failover__lane_lost_under_each_size_ARRIVE(void **state)
{
	unsigned int cuts = 0;

	opts.failover = &lanes;
	connect_ends(&opts);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (enum how how = 0; how < HOWS; how++) {
			unsigned int n = server.messages;
			int ret;

			prepare(sizes[i], (uint32_t)i);
			while ((ret = send_as(how, sizes[i], (uint32_t)i)) ==
			       -EAGAIN)
				both();
			assert_int_equal(ret, 0);
			if (how % 2)
				(void)rdmamsg_process(server.ctx);
			cut(how & 1 ? &client : &server);
			cuts++;
			WAIT_FOR(resumed == 2 * cuts || client.closed ||
				 server.closed);
			WAIT_FOR(server.messages == n + 1 || client.closed ||
				 server.closed);
			if (server.closed || bad)
				fail_msg("%u bytes as %d: %s", sizes[i], how,
					 server.why.text);
			expect_one(how, sizes[i], 7);
		}
	close_both();
}

/* ---- changed bytes ----------------------------------------------------- */

static void expect_changed(void)
{
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.messages, 0);
	if (server.why.cause != RDMAMSG_CAUSE_CRC)
		fail_msg("%s", server.why.text);
	assert_int_equal(server.why.error, -EBADMSG);
	assert_non_null(strstr(server.why.text, "faulty"));
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ABORTED);
}

static void changed(uint32_t len, uint32_t tag, int after, uint32_t at)
{
	(void)set_up(NULL);
	connect_ends(&opts);
	prepare(len, tag);
	harm.after = after;
	harm.at = at;
	assert_int_equal(send_as(COPY, len, tag), 0);
	expect_changed();
	(void)tear_down(NULL);
	client.ctx = server.ctx = NULL;
}

static void eager__byte_changed_ENDS(void **state)
{
	changed(64, 1, 0, 0);		/* inline, compact */
	changed(64, 1, 0, 63);
	changed(64, 1, 0, 64);		/* the CRC itself */
	changed(0, 1, 0, 2);
	changed(64, 1u << 20, 0, 5);	/* with a header */
	changed(4096, 1, 0, 4095);	/* copied */
	changed(EAGER, 1u << 20, 0, 8000);
}

static void pieces__byte_changed_ENDS(void **state)
{
	changed(20000, 1, 0, 4);	/* behind the length */
	changed(20000, 1, 1, 0);
	changed(20000, 1, 2, 10);
	changed(20000, 1, 2, 20000 - (EAGER - 4) - EAGER + 1);	/* CRC */
}

/* The program changes its memory before the message has completed. */
static void rendezvous__byte_changed_ENDS(void **state)
{
	for (int gather = 0; gather < 2; gather++) {
		(void)set_up(NULL);
		connect_ends(&opts);
		prepare(MOST, 1);
		assert_int_equal(send_as(gather ? GATHER : BORROW, MOST, 1), 0);
		out[MOST - 1] ^= 1;
		expect_changed();
		(void)tear_down(NULL);
		client.ctx = server.ctx = NULL;
	}
}

static void shared__byte_changed_ENDS(void **state)
{
	connect_shared();
	prepare(100, 1);
	harm.after = 0;
	assert_int_equal(send_as(COPY, 100, 1), 0);
	expect_changed();
}

/* Failover does not repeat what was wrong: the session ends. */
static void failover__byte_changed_ENDS(void **state)
{
	opts.failover = &lanes;
	connect_ends(&opts);
	prepare(100, 1);
	harm.after = 0;
	assert_int_equal(send_as(COPY, 100, 1), 0);
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CRC);
	assert_int_equal(server.messages, 0);
}

/* The messages behind the changed one are not delivered either. */
static void eager__others_behind_NOT_DELIVERED(void **state)
{
	connect_ends(&opts);
	prepare(10, 1);
	harm.after = 0;
	for (int i = 0; i < 20; i++)
		assert_int_equal(send_as(COPY, 10, 1), 0);
	expect_changed();
}

static void shortened(uint32_t len, int after, uint32_t by, const char *text)
{
	(void)set_up(NULL);
	connect_ends(&opts);
	prepare(len, 1);
	harm.after = after;
	harm.shorten = by;
	assert_int_equal(send_as(COPY, len, 1), 0);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.messages, 0);
	if (!strstr(server.why.text, text))
		fail_msg("%s", server.why.text);
	(void)tear_down(NULL);
	client.ctx = server.ctx = NULL;
}

static void crc__absent_or_cut_ENDS(void **state)
{
	shortened(3, 0, 4, "its CRC has 4");
	shortened(0, 0, 1, "its CRC has 4");
	shortened(100, 0, 4, "changed on its way");
	shortened(100, 0, 1, "changed on its way");
	shortened(20000, 2, 4, "piece 2 of 0 bytes");
	shortened(20000, 2, 1, "piece 2 of 0 bytes");
}

/* A rendezvous must have it as well. */
static void crc__absent_in_announcement_ENDS(void **state)
{
	connect_ends(&opts);
	prepare(MOST, 1);
	harm.after = 0;
	harm.shorten = 4;
	assert_int_equal(send_as(BORROW, MOST, 1), 0);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_non_null(strstr(server.why.text, "without the CRC"));
}

/* ---- agreement --------------------------------------------------------- */

static void refused_by(struct rdmamsg_ep_options *listener,
		       struct rdmamsg_ep_options *dialler)
{
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = listener,
	};
	struct rdmamsg_listener *l;

	listener->user = &server;
	dialler->user = &client;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 dialler, NULL), 0);
	WAIT_FOR(client.closed);
	assert_null(client.ep);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_VERSION);
	assert_int_equal(client.why.error, -EPROTONOSUPPORT);
}

static void agreed__only_the_listener_asks_REFUSED(void **state)
{
	struct rdmamsg_ep_options plain = opts;

	plain.flags = 0;
	refused_by(&opts, &plain);
	assert_non_null(strstr(client.why.text, "the peer asks for a CRC"));
}

static void agreed__only_the_dialler_asks_REFUSED(void **state)
{
	struct rdmamsg_ep_options plain = opts;

	plain.flags = 0;
	refused_by(&plain, &opts);
	assert_non_null(strstr(client.why.text, "this side asks for a CRC"));
}

static void off__nothing_more_ON_THE_WIRE(void **state)
{
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	opts.flags = 0;
	connect_ends(&opts);
	assert_int_equal(rdmamsg_ep_query(client.ep, &a), 0);
	assert_int_equal(a.crc, 0);
	assert_int_equal(a.eager_max, EAGER + PROTO_CRC_LEN);
	expect_all_sizes();
	close_both();
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(compact__all_sizes_ARRIVE),
		CASE(full_headers__all_sizes_ARRIVE),
		CASE(no_inline__all_sizes_ARRIVE),
		CASE(largest_inline__all_sizes_ARRIVE),
		CASE(guarded__all_sizes_ARRIVE),
		CASE(shared__all_sizes_ARRIVE),
		CASE(own_memory__all_sizes_ARRIVE),
		CASE(failover__lane_lost_under_each_size_ARRIVE),
		CASE(eager__byte_changed_ENDS),
		CASE(pieces__byte_changed_ENDS),
		CASE(rendezvous__byte_changed_ENDS),
		CASE(shared__byte_changed_ENDS),
		CASE(failover__byte_changed_ENDS),
		CASE(eager__others_behind_NOT_DELIVERED),
		CASE(crc__absent_or_cut_ENDS),
		CASE(crc__absent_in_announcement_ENDS),
		CASE(agreed__only_the_listener_asks_REFUSED),
		CASE(agreed__only_the_dialler_asks_REFUSED),
		CASE(off__nothing_more_ON_THE_WIRE),
	};

	join_own_fabric("crc");
	return cmocka_run_group_tests_name("crc", tests, NULL, NULL);
}
