/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: full headers and the compact form over the soft HCA, and
 * immediate data that violates the protocol.
 */
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "../../post.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <sys/uio.h>

#define MESSAGES	4096


/* The last Send of the client that carries a message of the program. */
static struct {
	enum ibv_wr_opcode opcode;
	uint32_t length;
} last;
static unsigned int writes;	/* the client's plain, non-empty writes */
static struct ibv_qp *client_qp;
static uint32_t client_num;	/* client_qp's number */

/* Changes to the immediate data of the client's receives. */
static uint32_t imm_set, imm_clear, imm_flip;
static bool strip;		/* the client's receives lose IBV_WC_WITH_IMM */
static bool hold;		/* completions stay in their queues */

/* Messages that the server has received. */
static struct {
	uint32_t len, tag;
	bool aligned;
} got[MESSAGES];
static bool echoes;		/* the server sends each message back */
static uint32_t echo_tag;	/* added to the tag of the echo */
static uint32_t client_got, client_tag;
static unsigned int written;
static uint32_t written_value;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		uint32_t length = 0;

		if (qp != client_qp)
			continue;
		writes += w->opcode == IBV_WR_RDMA_WRITE && w->num_sge;
		for (int i = 0; i < w->num_sge; i++)
			length += w->sg_list[i].length;
		last.opcode = w->opcode;
		last.length = length;
	}
	return soft_ops.post_send(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = hold ? 0 : soft_ops.poll_cq(cq, room, wc);

	for (int i = 0; i < n; i++) {
		uint32_t imm = le32toh((uint32_t)wc[i].imm_data);

		if (wc[i].opcode != IBV_WC_RECV || wc[i].qp_num != client_num ||
		    !(wc[i].wc_flags & IBV_WC_WITH_IMM))
			continue;
		imm = ((imm | imm_set) & ~imm_clear) ^ imm_flip;
		wc[i].imm_data = (__be32)htole32(imm);
		if (strip)
			wc[i].wc_flags &= ~(unsigned int)IBV_WC_WITH_IMM;
	}
	return n;
}

static void on_up(struct rdmamsg_ep *ep)
{
	on_connected(ep);
	if (rdmamsg_ep_user(ep) != &client)
		return;
	client_qp = ep->lane.hot.qp;
	client_num = client_qp->qp_num;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	unsigned int n = s->messages++;

	if (s == &client) {
		client_got = rdmamsg_msg_len(msg);
		client_tag = rdmamsg_msg_tag(msg);
	} else if (n < MESSAGES) {
		got[n].len = (uint32_t)rdmamsg_msg_len(msg);
		got[n].tag = rdmamsg_msg_tag(msg);
		got[n].aligned = !((uintptr_t)rdmamsg_msg_data(msg) % 64);
	}
	if (s != &server || !echoes ||
	    rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg) + echo_tag, NULL))
		rdmamsg_msg_free(msg);
}

static void on_written(struct rdmamsg_ep *ep, uint32_t value)
{
	written++;
	written_value = value;
}

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_tuning tuning;

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_up,
		.on_complete = on_complete, .on_message = on_message,
		.on_closed = on_closed, .on_written = on_written,
	};

	tuning = (struct rdmamsg_ep_tuning){ .size = sizeof(tuning) };
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers, .tuning = &tuning,
	};
	clear_ends();
	imm_set = imm_clear = imm_flip = 0;
	strip = echoes = hold = false;
	echo_tag = 0;
	written = writes = 0;
	client_qp = NULL;
	client_num = 0;
	replace_calls(poll_cq, post_send);
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

static void send_one(size_t len, uint32_t tag)
{
	static const uint8_t data[8192];
	unsigned int n = server.messages;

	assert_int_equal(rdmamsg_send(client.ep, data, len, tag, NULL), 0);
	WAIT_FOR(server.messages == n + 1);
	assert_int_equal(got[n].len, len);
	assert_int_equal(got[n].tag, tag);
}

static uint64_t credit_msgs(const struct side *s)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_ep_get_stats(s->ep, &st), 0);
	return st.credit_msgs;
}

/* ---- forms ------------------------------------------------------------ */

static void message__small_tag_IS_ITS_PAYLOAD(void **state)
{
	static const size_t sizes[] = { 0, 1, 64, 240, 241, 8176 };

	connect_ends(&opts);
	for (size_t i = 0; i < 6; i++) {
		send_one(sizes[i], 0xffff);
		assert_int_equal(last.opcode, IBV_WR_SEND_WITH_IMM);
		assert_int_equal(last.length, sizes[i]);
		assert_true(got[server.messages - 1].aligned);
	}
}

static void message__large_tag_HAS_A_HEADER(void **state)
{
	static const size_t sizes[] = { 0, 64, 8176 };

	connect_ends(&opts);
	for (size_t i = 0; i < 9; i++) {
		send_one(sizes[i % 3], 0x10000 + (uint32_t)i);
		assert_int_equal(last.opcode, IBV_WR_SEND);
		assert_int_equal(last.length, sizes[i % 3] + PROTO_HDR_LEN);
		/* both forms share one sequence of numbers */
		send_one(sizes[i % 3], (uint32_t)i);
		assert_int_equal(last.opcode, IBV_WR_SEND_WITH_IMM);
	}
}

static void full_headers__either_side_AGREES(void **state)
{
	struct rdmamsg_ep_options plain = opts;

	opts.flags = RDMAMSG_EP_FULL_HEADERS;
	connect_ends(&opts);
	send_one(64, 1);
	assert_int_equal(last.opcode, IBV_WR_SEND);
	connect_client(&plain);
	send_one(64, 1);
	assert_int_equal(last.opcode, IBV_WR_SEND);
	assert_int_equal(last.length, 64 + PROTO_HDR_LEN);
	send_one(8176, 0xffffffff);
}

/* An empty message's slot in the batch later serves a longer message. */
static void batch__empty_then_a_header_ARRIVE(void **state)
{
	struct rdmamsg *ctx;

	connect_ends(&opts);
	ctx = client.ctx;
	for (int round = 0; round < 4; round++) {
		unsigned int n = server.messages;

		ctx->loop.in_callback++;
		for (uint32_t i = 0; i < 8; i++)
			assert_int_equal(rdmamsg_send(client.ep, "abcd",
						      round % 2 ? 4 : 0,
						      round % 2 ? 0x10000 : 0,
						      NULL), 0);
		ctx->loop.in_callback--;
		ctx->loop.work = true;
		WAIT_FOR(server.messages == n + 8);
		for (uint32_t i = n; i < n + 8; i++) {
			assert_int_equal(got[i].len, round % 2 ? 4 : 0);
			assert_int_equal(got[i].tag, round % 2 ? 0x10000 : 0);
		}
	}
}

/*
 * When its device has failed, an endpoint delivers what the device had
 * received, but no large message. The sixteenth message behind one has the same
 * last bits.
 */
static void device__failed_NOTHING_BEHIND_A_GAP(void **state)
{
	static uint8_t large[100000];
	struct iovec iov = { large, sizeof(large) };

	tuning.pieces_max = RDMAMSG_NONE;
	connect_ends(&opts);
	hold = true;
	assert_int_equal(rdmamsg_send(client.ep, "a", 1, 0, NULL), 0);
	assert_int_equal(rdmamsg_sendv(client.ep, &iov, 1, 0, NULL), 0);
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(rdmamsg_send(client.ep, "x", 1, i, NULL), 0);
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_process(client.ctx) >= 0);
	rdmamsg__ep_device_failed(server.ep, -EIO, "the test");
	hold = false;
	WAIT_FOR(server.closed);
	assert_int_equal(server.messages, 1);
	assert_int_equal(got[0].tag, 0);
}

/* The buffer of a compact message has no room for a header. */
static void message__passed_on_with_a_large_tag_ARRIVES(void **state)
{
	echoes = true;
	echo_tag = 0x10000;
	connect_ends(&opts);
	for (uint32_t i = 0; i < 200; i++) {
		unsigned int n = client.messages;

		send_one(i * 40, i);
		WAIT_FOR(client.messages == n + 1);
		assert_int_equal(client_got, i * 40);
		assert_int_equal(client_tag, i + 0x10000);
	}
}

/*
 * The server receives only writes and sends CREDITs. Its connection must not
 * end for lack of a message that confirms the CREDITs.
 */
static void write_imm__nothing_else_GOES_ON(void **state)
{
	static uint8_t mem[4096];
	struct rdmamsg_region *from, *to;
	struct rdmamsg_sge sge = { .len = 1000 };
	struct rdmamsg_key key;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_region_create(server.ctx, mem, sizeof(mem),
					       RDMAMSG_ACCESS_WRITE, &to), 0);
	assert_int_equal(rdmamsg_region_register(to, server.ep), 0);
	assert_int_equal(rdmamsg_region_get_key(to, server.ep, &key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, mem, sizeof(mem), 0,
					       &from), 0);
	assert_int_equal(rdmamsg_region_register(from, client.ep), 0);
	sge.region = from;
	sge.data = mem;
	for (uint32_t i = 0; i < 1000; i++) {
		sge.len = i * 4;
		assert_int_equal(post_notify(client.ep, &sge, 1, &key, 0,
					     0xfffffff0 + i, 0, NULL),
				 0);
		WAIT_FOR(written == i + 1);
		assert_int_equal(written_value, 0xfffffff0 + i);
	}
	assert_int_equal(server.messages, 0);
	/* most writes need one request */
	assert_in_range(writes, 1, 100);
	/* a write with immediate data advances the number as well */
	send_one(64, 3);
	(void)rdmamsg_region_destroy(from);
	(void)rdmamsg_region_destroy(to);
}

/* Its bytes wait with it, and the program's memory is free meanwhile. */
static void write_imm__without_a_credit_TAKES_THE_BYTES_ALONG(void **state)
{
	static uint8_t mem[64];
	struct rdmamsg_region *to;
	uint8_t src[64];
	struct rdmamsg_sge sge = { .data = src, .len = sizeof(src) };
	struct rdmamsg_key key;

	tuning.recv_depth = 1;
	connect_ends(&opts);
	memset(mem, 0, sizeof(mem));
	assert_int_equal(rdmamsg_region_create(server.ctx, mem, sizeof(mem),
					       RDMAMSG_ACCESS_WRITE, &to), 0);
	assert_int_equal(rdmamsg_region_register(to, server.ep), 0);
	assert_int_equal(rdmamsg_region_get_key(to, server.ep, &key), 0);
	/* the only credit: the server does not work until below */
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	memset(src, 0x5e, sizeof(src));
	assert_int_equal(post_notify(client.ep, &sge, 1, &key, 0, 7, 0, NULL),
			 0);
	memset(src, 0xcc, sizeof(src));
	WAIT_FOR(written);
	for (size_t i = 0; i < sizeof(mem); i++)
		assert_int_equal(mem[i], 0x5e);
	(void)rdmamsg_region_destroy(to);
}

/* ---- credits ---------------------------------------------------------- */

static void pingpong__needs_no_CREDIT(void **state)
{
	echoes = true;
	connect_ends(&opts);
	for (uint32_t i = 0; i < 1000; i++) {
		unsigned int n = client.messages;

		server.messages = 0;
		send_one(64, i % 100);
		WAIT_FOR(client.messages == n + 1);
	}
	assert_int_equal(credit_msgs(&client), 0);
	assert_int_equal(credit_msgs(&server), 0);
}

/* A message carries 1023 credits at most. Later messages carry the rest. */
static void credit__more_than_a_message_holds_IS_GRANTED(void **state)
{
	uint32_t sent = 0;

	tuning.recv_depth = tuning.send_depth = 4000;
	connect_ends(&opts);
	while (sent < 50000) {
		int ret = rdmamsg_send(client.ep, "x", 1, 0, NULL);

		if (!ret)
			sent++;
		else
			both();
		if (!(sent % 1500))
			(void)rdmamsg_send(server.ep, "y", 1, 0, NULL);
	}
	WAIT_FOR(server.messages == sent);
	assert_false(client.closed);
	assert_false(server.closed);
}

static void ends_with(const char *text)
{
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_non_null(strstr(client.why.text, text));
}

static void credit__lies_END(void **state)
{
	connect_ends(&opts);
	imm_set = PROTO_GRANT_MAX << 6;
	for (uint32_t i = 0; i < 1100 && !client.closed && !server.closed; i++) {
		unsigned int n = client.messages;

		if (!rdmamsg_send(server.ep, "x", 1, 0, NULL))
			WAIT_FOR(client.messages > n || client.closed);
		both();
	}
	ends_with("a credit of");
}

static void seen__that_was_not_sent_ENDS(void **state)
{
	connect_ends(&opts);
	imm_set = 3 << 4;
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	ends_with("CREDIT messages seen");
	assert_int_equal(client.messages, 0);
}

/* The number of a message differs, as if the transport lost or repeated one. */
static void number__another_ENDS(void **state)
{
	connect_ends(&opts);
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(client.messages == 1);
	imm_flip = 1;
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	ends_with("was due");
	assert_int_equal(client.messages, 1);
}

/* The library must not interpret a payload as a header. */
static void form__without_its_immediate_data_ENDS(void **state)
{
	connect_ends(&opts);
	strip = true;
	assert_int_equal(rdmamsg_send(server.ep, "x", 1, 0, NULL), 0);
	ends_with("a header has");
	assert_int_equal(client.messages, 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(message__small_tag_IS_ITS_PAYLOAD),
		CASE(message__large_tag_HAS_A_HEADER),
		CASE(full_headers__either_side_AGREES),
		CASE(batch__empty_then_a_header_ARRIVE),
		CASE(device__failed_NOTHING_BEHIND_A_GAP),
		CASE(message__passed_on_with_a_large_tag_ARRIVES),
		CASE(write_imm__nothing_else_GOES_ON),
		CASE(write_imm__without_a_credit_TAKES_THE_BYTES_ALONG),
		CASE(pingpong__needs_no_CREDIT),
		CASE(credit__more_than_a_message_holds_IS_GRANTED),
		CASE(credit__lies_END),
		CASE(seen__that_was_not_sent_ENDS),
		CASE(number__another_ENDS),
		CASE(form__without_its_immediate_data_ENDS),
	};

	join_own_fabric("compact");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
