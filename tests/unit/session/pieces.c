/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: messages in pieces over the soft HCA: sizes, order, lack of
 * credit and memory, the end in the middle of a run, and runs that violate the
 * protocol.
 */
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recv.h"
#include "session/send.h"
#include "session/tx.h"
#include "wire/proto.h"
#include "../../post.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <rdmamsg/endpoint.h>
#include <sys/uio.h>

#define EAGER	(PROTO_RECV_MIN - PROTO_HDR_LEN)
#define MOST	131072u		/* pieces_max of the soft HCA */
#define LARGE	(1u << 20)
#define KEPT	512

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_tuning tuning;
static uint8_t data[LARGE];

/* Messages that the server has received, and those that it keeps. */
static struct { uint32_t len, tag; } got[KEPT];
static struct rdmamsg_msg *kept[KEPT];
static unsigned int kept_count;
static bool keeps, wrong;
static uint64_t received_bytes;

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	size_t len = rdmamsg_msg_len(msg);

	wrong |= len > LARGE || memcmp(rdmamsg_msg_data(msg), data, len);
	if (s->messages < KEPT) {
		got[s->messages].len = (uint32_t)len;
		got[s->messages].tag = rdmamsg_msg_tag(msg);
	}
	s->messages++;
	received_bytes += len;
	if (keeps)
		kept[kept_count++] = msg;
	else
		rdmamsg_msg_free(msg);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	((struct side *)rdmamsg_ep_user(ep))->writable++;
}

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	return 0;
}

static struct rdmamsg_ep_handlers handlers;

static int set_up(void **state)
{
	handlers = (struct rdmamsg_ep_handlers){
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_message = on_message,
		.on_closed = on_closed, .on_writable = on_writable,
	};
	tuning = (struct rdmamsg_ep_tuning){
		.size = sizeof(tuning), .max_copy = LARGE,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers, .tuning = &tuning,
	};
	clear_ends();
	for (size_t i = 0; i < LARGE; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	keeps = wrong = false;
	kept_count = 0;
	received_bytes = 0;
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return 0;
}

static void free_kept(void)
{
	keeps = false;
	while (kept_count)
		rdmamsg_msg_free(kept[--kept_count]);
}

static bool is_accepted(int ret)
{
	assert_true(ret == 0 || ret == -EAGAIN);
	if (ret)
		both();
	return !ret;
}

/* Sends until the call is accepted. */
static void send_it(size_t len, uint32_t tag)
{
	while (!is_accepted(rdmamsg_send(client.ep, data, len, tag, &client)))
		;
}

static struct rdmamsg_stats stats(const struct side *s)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_ep_get_stats(s->ep, &st), 0);
	return st;
}

/* ---- messages --------------------------------------------------------- */

/* Each size with the three calls. */
static unsigned int send_sizes(const uint32_t *sizes, unsigned int n)
{
	unsigned int sent = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct iovec iov[3] = {
			{ data, sizes[i] / 3 }, { NULL, 0 },
			{ data + sizes[i] / 3, sizes[i] - sizes[i] / 3 },
		};
		struct rdmamsg_msg *msg;

		send_it(sizes[i], sent++);
		WAIT_FOR(client.sent == sent);
		while (!is_accepted(rdmamsg_sendv(client.ep, iov, 3, sent,
						  &client)))
			;
		sent++;
		WAIT_FOR(client.sent == sent);
		assert_int_equal(rdmamsg_msg_alloc(client.ep, sizes[i], &msg),
				 0);
		memcpy(rdmamsg_msg_data(msg), data, sizes[i]);
		while (!is_accepted(rdmamsg_msg_send(client.ep, msg, sent,
						     &client)))
			;
		sent++;
		WAIT_FOR(client.sent == sent && server.messages == sent);
		for (unsigned int k = sent - 3; k < sent; k++) {
			assert_int_equal(got[k].len, sizes[i]);
			assert_int_equal(got[k].tag, k);
		}
	}
	assert_false(wrong);
	return sent;
}

static void check_sizes(void)
{
	static const uint32_t sizes[] = {
		EAGER, EAGER + 1, 2 * EAGER - PROTO_FIRST_LEN,
		2 * EAGER - PROTO_FIRST_LEN + 1, 50000, MOST - 1, MOST,
		MOST + 1, LARGE,
	};
	unsigned int n = sizeof(sizes) / sizeof(sizes[0]);
	struct rdmamsg_stats c;

	connect_ends(&opts);
	send_sizes(sizes, n);
	c = stats(&client);
	/* the allocated messages are not copied */
	assert_int_equal(c.sent_pieces, 2 * (n - 3));
	assert_int_equal(c.sent_rendezvous, 2 * 3 + n - 3);
	assert_int_equal(c.sent_eager, 3);
	assert_int_equal(c.msgs_sent, 3 * n);
	assert_int_equal(c.bytes_sent, received_bytes);
	c = stats(&server);
	assert_int_equal(c.received_pieces, 2 * (n - 3));
	assert_int_equal(c.msgs_received, 3 * n);
	assert_int_equal(c.bytes_received, received_bytes);
}

static void pieces__each_size_ARRIVES(void **state)
{
	check_sizes();
}

static void pieces__with_headers_ARRIVE(void **state)
{
	opts.flags = RDMAMSG_EP_FULL_HEADERS;
	check_sizes();
}

static void pieces__on_shared_receives_ARRIVE(void **state)
{
	const struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 64,
	};
	const struct rdmamsg_options ctx = { .size = sizeof(ctx), .srq = &o };
	static const uint32_t sizes[] = { EAGER + 1, 30000, MOST };

	connect_ends_in(&ctx, &ctx, &opts);
	for (int i = 0; i < 10; i++) {
		client.sent = server.messages = 0;
		send_sizes(sizes, 3);
	}
	assert_true(stats(&server).received_pieces > 10);
}

static void pieces__not_wanted_IS_RENDEZVOUS(void **state)
{
	static const uint32_t size = 50000;

	tuning.pieces_max = RDMAMSG_NONE;
	connect_ends(&opts);
	send_sizes(&size, 1);
	assert_int_equal(stats(&client).sent_rendezvous, 3);
	assert_int_equal(stats(&client).sent_pieces, 0);
}

static void pieces__peer_has_on_incoming_IS_RENDEZVOUS(void **state)
{
	static const uint32_t size = 50000;

	handlers.on_incoming = on_incoming;
	connect_ends(&opts);
	send_sizes(&size, 1);
	assert_int_equal(stats(&client).sent_rendezvous, 3);
}

static void pieces__limit_READABLE(void **state)
{
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	connect_ends(&opts);
	assert_int_equal(rdmamsg_ep_query(client.ep, &a), 0);
	assert_int_equal(a.pieces_max, MOST);
}

/* ---- flow control ----------------------------------------------------- */

/* A run goes at once or not at all. */
static void pieces__more_than_credits_ARE_RENDEZVOUS(void **state)
{
	tuning.recv_depth = 14;
	connect_ends(&opts);
	send_it(7 * EAGER - PROTO_FIRST_LEN, 0);
	WAIT_FOR(server.messages == 1);
	send_it(7 * EAGER, 1);
	WAIT_FOR(server.messages == 2 && client.sent == 2);
	assert_int_equal(stats(&client).sent_rendezvous, 1);
	assert_int_equal(stats(&client).sent_pieces, 1);
	assert_false(wrong);
}

static void pieces__more_than_the_send_queue_ARE_RENDEZVOUS(void **state)
{
	tuning.send_depth = 12;
	connect_ends(&opts);
	for (unsigned int i = 0; i < 20; i++)
		send_it(30000 + 1500 * i, i);
	WAIT_FOR(server.messages == 20 && client.sent == 20);
	assert_true(stats(&client).sent_rendezvous > 0);
	assert_true(stats(&client).sent_pieces > 0);
	assert_false(wrong);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(got[i].tag, i);
}

/* A message that lacks credit is told when its pieces have it, not before. */
static void check_waiting(uint32_t recv_depth)
{
	unsigned int n = 0;

	tuning.recv_depth = recv_depth;
	connect_ends(&opts);
	for (unsigned int round = 0; round < 20; round++) {
		while (!rdmamsg_send(client.ep, data, 2 * EAGER, 0, NULL))
			n++;
		assert_true(n > 2);
		assert_int_equal(client.writable, round);
		WAIT_FOR(client.writable == round + 1);
		assert_int_equal(rdmamsg_send(client.ep, data, 2 * EAGER, 0,
					      NULL), 0);
		n++;
	}
	WAIT_FOR(server.messages == n);
	assert_int_equal(stats(&client).sent_pieces, n);
	assert_int_equal(stats(&client).sent_rendezvous, 0);
	assert_false(wrong);
}

static void pieces__without_credit_WAIT(void **state)
{
	check_waiting(64);
}

/* The least depth: the peer may hold three quarters of its credits back. */
static void pieces__an_eighth_of_the_credits_WAIT(void **state)
{
	check_waiting(8 * 3);
}

/* Messages that the program passes on do the same. */
static void pieces__passed_on_WAIT_FOR_CREDIT(void **state)
{
	int ret = 0;

	keeps = true;
	connect_ends(&opts);
	for (unsigned int i = 0; i < 30; i++)
		send_it(2 * EAGER, i);
	WAIT_FOR(kept_count == 30);
	keeps = false;
	while (kept_count && !ret) {
		ret = rdmamsg_msg_send(server.ep, kept[kept_count - 1], 0,
				       NULL);
		kept_count -= !ret;
	}
	assert_int_equal(ret, -EAGAIN);
	WAIT_FOR(server.writable);
	assert_int_equal(rdmamsg_msg_send(server.ep, kept[--kept_count], 0,
					  NULL), 0);
	free_kept();
	assert_int_equal(stats(&server).sent_rendezvous, 0);
	assert_false(wrong);
}

/* Messages that several peers get: one in pieces, where that is agreed. */
static void pass_shared(size_t len, unsigned int before)
{
	send_it(len, 0);
	WAIT_FOR(kept_count == 1);
	keeps = false;
	assert_int_equal(rdmamsg_msg_ref(kept[0]), 0);
	assert_int_equal(rdmamsg_msg_send(server.ep, kept[0], 0, NULL), 0);
	assert_int_equal(rdmamsg_msg_send(server.ep, kept[0], 0, NULL), 0);
	kept_count = 0;
	WAIT_FOR(client.messages == before + 2);
	keeps = true;
}

static void shared__of_each_size_ARRIVES(void **state)
{
	keeps = true;
	connect_ends(&opts);
	pass_shared(1, 0);
	pass_shared(EAGER, 2);
	pass_shared(2 * EAGER, 4);
	assert_int_equal(stats(&server).sent_pieces, 2);
	pass_shared(LARGE, 6);
	assert_int_equal(stats(&server).sent_pieces, 2);
	assert_false(wrong);
	keeps = false;
}

static void shared__pieces_not_agreed_IS_RENDEZVOUS(void **state)
{
	handlers.on_incoming = on_incoming;
	keeps = true;
	connect_ends(&opts);
	pass_shared(1, 0);
	pass_shared(2 * EAGER, 2);
	assert_int_equal(stats(&server).sent_pieces, 0);
	assert_int_equal(stats(&server).sent_rendezvous, 2);
	assert_false(wrong);
	keeps = false;
}

/* On a small queue there is never room for twice the pieces. */
static void pieces__few_credits_ARE_RENDEZVOUS(void **state)
{
	unsigned int n = 0;

	tuning.recv_depth = 8;
	connect_ends(&opts);
	while (!rdmamsg_send(client.ep, data, 2 * EAGER, 0, NULL))
		n++;
	WAIT_FOR(server.messages == n);
	assert_true(stats(&client).sent_rendezvous > 0);
}

/* All sizes mixed: each path waits for the others. */
static void pieces__between_others_KEEP_THE_ORDER(void **state)
{
	static const uint32_t sizes[] = {
		10, 200000, 40000, 0, 8000, 100000, 9000, 300000, 1, 20000,
	};

	opts.send_queue = 64;
	connect_ends(&opts);
	for (unsigned int i = 0; i < 400; i++)
		send_it(sizes[(i * 7 + i / 10) % 10], i);
	WAIT_FOR(server.messages == 400 && client.sent == 400);
	assert_false(wrong);
	for (unsigned int i = 0; i < 400; i++)
		assert_int_equal(got[i].tag, i);
	assert_true(stats(&client).sent_pieces > 0);
}

/* The program keeps all that max_lent allows, and frees it later. */
static void pieces__no_memory_WAIT(void **state)
{
	unsigned int n;

	tuning.max_lent = 3 * MOST;
	opts.send_queue = 64;
	connect_ends(&opts);
	keeps = true;
	for (unsigned int i = 0; i < 20; i++)
		send_it(100000, i);
	WAIT_FOR(server.messages && rdmamsg__rx_waits(server.ep));
	for (n = 0; n < 200; n++)
		both();
	assert_true(server.messages < 20);
	/* control messages pass, and so the connection lives */
	n = server.messages;
	free_kept();
	WAIT_FOR(server.messages == 20 && client.sent == 20);
	assert_true(n < 20);
	assert_false(wrong);
}

/* ---- the end ---------------------------------------------------------- */

static void close__behind_queued_pieces_ALL_ARRIVE(void **state)
{
	opts.send_queue = 16;
	tuning.recv_depth = 2;
	connect_ends(&opts);
	for (unsigned int i = 0; i < 5; i++)
		send_it(MOST - i, i);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.messages, 5);
	assert_int_equal(client.sent, 5);
	assert_int_equal(client.status, 0);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_false(wrong);
}

static void abort__in_a_run_ENDS_EACH_ONCE(void **state)
{
	opts.send_queue = 16;
	tuning.recv_depth = 2;
	connect_ends(&opts);
	for (unsigned int i = 0; i < 5; i++)
		send_it(MOST - i, i);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.sent, 5);
	assert_int_equal(client.status, -ECANCELED);
	assert_true(server.messages < 5);
	assert_false(wrong);
}

/* ---- violations ------------------------------------------------------- */

/* Sends what no library sends: a first piece. */
static void forge_first(uint32_t total, uint32_t len)
{
	struct rdmamsg_ep *ep = client.ep;
	struct op *op = rdmamsg__op_get(ep);
	uint32_t wire = htole32(total);

	assert_non_null(op);
	op->kind = OP_EAGER;
	op->msg = rdmamsg__send_buffer(ep);
	assert_non_null(op->msg);
	memcpy(op->msg->data, &wire, sizeof(wire));
	rdmamsg__tx_message(ep, PROTO_FIRST, rdmamsg__tx_next_number(ep), 0, op,
			    op->msg, NULL, len);
}

/* As PROTO_MORE, or in compact form: type 0. */
static void forge(unsigned int type, uint32_t tag, uint32_t len)
{
	struct rdmamsg_ep *ep = client.ep;

	if (!type)
		rdmamsg__tx_data(ep, tag, NULL, NULL, data, len);
	else
		rdmamsg__tx_message(ep, (enum proto_type)type,
				    type == PROTO_CLOSE ? 0 :
				    rdmamsg__tx_next_number(ep), tag, NULL,
				    NULL, data, len);
}

static void is_refused(const char *text)
{
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	if (!strstr(server.why.text, text))
		fail_msg("\"%s\" is not in \"%s\"", text, server.why.text);
	assert_int_equal(server.messages, 0);
}

static void first__no_payload_IS_REFUSED(void **state)
{
	connect_ends(&opts);
	forge_first(100, PROTO_FIRST_LEN);
	is_refused("a first piece without payload");
}

static void first__whole_message_IS_REFUSED(void **state)
{
	connect_ends(&opts);
	forge_first(100, PROTO_FIRST_LEN + 100);
	is_refused("a message of 100 bytes in pieces, the first of 100");
}

static void first__too_large_IS_REFUSED(void **state)
{
	connect_ends(&opts);
	forge_first(PROTO_PIECES_MAX + 1, 100);
	is_refused("a message of 1048577 bytes in pieces");
}

static void first__not_agreed_IS_REFUSED(void **state)
{
	tuning.pieces_max = RDMAMSG_NONE;
	connect_ends(&opts);
	forge_first(1000, 100);
	is_refused("a message in pieces, which was not agreed");
}

static void first__in_a_run_IS_REFUSED(void **state)
{
	connect_ends(&opts);
	forge_first(1000, PROTO_FIRST_LEN + 100);
	forge_first(1000, PROTO_FIRST_LEN + 100);
	is_refused("another message after 1 pieces of one, 900 bytes");
}

static void more__without_a_run_IS_REFUSED(void **state)
{
	connect_ends(&opts);
	forge(PROTO_MORE, 1, 10);
	is_refused("piece 1 where no piece");
}

static void more__out_of_place_IS_REFUSED(void **state)
{
	static const struct { unsigned int type, tag; } bad[] = {
		{ 0, 2 }, { 0, 0 }, { PROTO_MORE, 2 }, { PROTO_MORE, 0 },
		{ PROTO_MORE, 65537 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (i)
			(void)!(leave_soft(state) + set_up(state));
		connect_ends(&opts);
		forge_first(1000, PROTO_FIRST_LEN + 100);
		forge(bad[i].type, bad[i].tag, 10);
		is_refused("where 1 was due");
	}
}

static void more__doubled_IS_REFUSED(void **state)
{
	connect_ends(&opts);
	forge_first(1000, PROTO_FIRST_LEN + 100);
	forge(0, 1, 10);
	forge(0, 1, 10);
	is_refused("piece 1 where 2 was due");
}

static void more__too_long_or_empty_IS_REFUSED(void **state)
{
	for (uint32_t len = 0; len < 22; len += 21) {
		if (len)
			(void)!(leave_soft(state) + set_up(state));
		connect_ends(&opts);
		forge_first(120, PROTO_FIRST_LEN + 100);
		forge(0, 1, len);
		is_refused(len ? "piece 1 of 21 bytes, 20 are missing" :
			   "piece 1 of 0 bytes, 20 are missing");
	}
}

static void run__not_complete_REFUSES_ANOTHER_MESSAGE(void **state)
{
	static const unsigned int types[] = {
		PROTO_DATA, PROTO_WRITTEN, PROTO_RNDV, PROTO_CLOSE,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (i)
			(void)!(leave_soft(state) + set_up(state));
		connect_ends(&opts);
		forge_first(1000, PROTO_FIRST_LEN + 100);
		forge(types[i], 0, 0);
		is_refused("another message after 1 pieces of one");
	}
}

static void on_invalidated(struct rdmamsg_ep *ep, struct rdmamsg_window *window)
{
	((struct side *)rdmamsg_ep_user(ep))->invalidated++;
}

/* The device has invalidated the window, but the program does not learn it. */
static void run__not_complete_REFUSES_INVALIDATE(void **state)
{
	static uint8_t mem[4096];
	struct rdmamsg_region *region;
	struct rdmamsg_window *window;
	struct rdmamsg_key key;

	handlers.on_invalidated = on_invalidated;
	connect_ends(&opts);
	assert_int_equal(rdmamsg_region_create(server.ctx, mem, sizeof(mem),
					       RDMAMSG_ACCESS_WINDOW, &region),
			 0);
	assert_int_equal(rdmamsg_region_register(region, server.ep), 0);
	assert_int_equal(rdmamsg_window_create(server.ep, &window), 0);
	assert_int_equal(rdmamsg_window_bind(window, region, 0, sizeof(mem),
					     RDMAMSG_ACCESS_READ, &key,
					     &server), 0);
	WAIT_FOR(server.sent == 1);
	forge_first(1000, PROTO_FIRST_LEN + 100);
	assert_int_equal(post_invalidate(client.ep, data, 10, 1, &key, NULL),
			 0);
	is_refused("another message after 1 pieces of one");
	assert_int_equal(server.invalidated, 0);
}

/* A run that is never completed costs its memory until the end, no longer. */
static void run__never_completed_IS_FREED(void **state)
{
	connect_ends(&opts);
	forge_first(MOST, PROTO_FIRST_LEN + 100);
	WAIT_FOR(server.ep->pieces.dst.msg);
	assert_true(server.ep->rndv.lent->bytes >= MOST);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(server.closed);
	assert_int_equal(server.messages, 0);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, leave_soft)
	const struct CMUnitTest tests[] = {
		CASE(pieces__each_size_ARRIVES),
		CASE(pieces__with_headers_ARRIVE),
		CASE(pieces__on_shared_receives_ARRIVE),
		CASE(pieces__not_wanted_IS_RENDEZVOUS),
		CASE(pieces__peer_has_on_incoming_IS_RENDEZVOUS),
		CASE(pieces__limit_READABLE),
		CASE(pieces__more_than_credits_ARE_RENDEZVOUS),
		CASE(pieces__more_than_the_send_queue_ARE_RENDEZVOUS),
		CASE(pieces__without_credit_WAIT),
		CASE(pieces__an_eighth_of_the_credits_WAIT),
		CASE(pieces__passed_on_WAIT_FOR_CREDIT),
		CASE(pieces__few_credits_ARE_RENDEZVOUS),
		CASE(shared__of_each_size_ARRIVES),
		CASE(shared__pieces_not_agreed_IS_RENDEZVOUS),
		CASE(pieces__between_others_KEEP_THE_ORDER),
		CASE(pieces__no_memory_WAIT),
		CASE(close__behind_queued_pieces_ALL_ARRIVE),
		CASE(abort__in_a_run_ENDS_EACH_ONCE),
		CASE(first__no_payload_IS_REFUSED),
		CASE(first__whole_message_IS_REFUSED),
		CASE(first__too_large_IS_REFUSED),
		CASE(first__not_agreed_IS_REFUSED),
		CASE(first__in_a_run_IS_REFUSED),
		CASE(more__without_a_run_IS_REFUSED),
		CASE(more__out_of_place_IS_REFUSED),
		CASE(more__doubled_IS_REFUSED),
		CASE(more__too_long_or_empty_IS_REFUSED),
		CASE(run__not_complete_REFUSES_ANOTHER_MESSAGE),
		CASE(run__not_complete_REFUSES_INVALIDATE),
		CASE(run__never_completed_IS_FREED),
	};

	join_own_fabric("pieces");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
