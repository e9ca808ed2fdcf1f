/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages with references: one message to many endpoints, freed in any thread,
 * kept beyond the context.
 */
#include "common.h"
#include "thread.h"

#include <sys/wait.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

#define FAN	16

/* ---- one client with FAN endpoints, one server ------------------------- */

static struct hub {
	struct rdmamsg *ctx, *server;
	struct rdmamsg_listener *listener;
	struct rdmamsg_handlers on;
	struct rdmamsg_ep_options opts;
	struct rdmamsg_ep *ep[FAN], *back[FAN];
	unsigned int connected, accepted, closed, arrived, sent;
	size_t len;		/* of the message that must arrive */
	uint32_t tag;
} hub;

static void hub_connected(struct rdmamsg_ep *ep)
{
	if (rdmamsg_ep_ctx(ep) == hub.server)
		hub.back[hub.accepted++] = ep;
	else
		hub.connected++;
}

static void hub_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_len(msg) != hub.len ||
	    rdmamsg_msg_tag(msg) != hub.tag ||
	    (hub.len && memcmp(rdmamsg_msg_data(msg), pattern(hub.tag),
			       hub.len)))
		note("message %u is wrong", hub.arrived);
	hub.arrived++;
	rdmamsg_msg_free(msg);
}

static void hub_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	if (status)
		note("a send ended with %d", status);
	hub.sent++;
}

static void hub_closed(struct rdmamsg_ep *ep,
		       const struct rdmamsg_reason *reason)
{
	hub.closed++;
}

static void hub_open(uint32_t flags)
{
	struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .ep = &hub.opts,
	};
	char port[8];

	memset(&hub, 0, sizeof(hub));
	hub.on = (struct rdmamsg_handlers){
		.size = sizeof(hub.on), .on_connected = hub_connected,
		.on_message = hub_message, .on_complete = hub_complete,
		.on_closed = hub_closed,
	};
	hub.opts = (struct rdmamsg_ep_options){
		.size = sizeof(hub.opts), .handlers = &hub.on, .flags = flags,
	};
	hub.ctx = test_open(NULL);
	hub.server = test_open(NULL);
	assert_int_equal(rdmamsg_listen(hub.server, test_addr(), "0", &listen,
					&hub.listener), 0);
	listener_service(hub.listener, port);
	for (int i = 0; i < FAN; i++)
		assert_int_equal(rdmamsg_connect(hub.ctx, test_addr(), port,
						 &hub.opts, &hub.ep[i]), 0);
	WAIT_FOR(hub.connected == FAN && hub.accepted == FAN);
}

static void hub_close(void)
{
	for (int i = 0; i < FAN; i++)
		rdmamsg_ep_close(hub.ep[i]);
	WAIT_FOR(hub.closed == 2 * FAN);
	test_close(hub.ctx);
	test_close(hub.server);
}

static struct rdmamsg_counters stats_of(struct rdmamsg *ctx)
{
	struct rdmamsg_counters s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_stats(ctx, &s), 0);
	return s;
}

static struct rdmamsg_msg *message(size_t len, uint32_t tag)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg_msg_alloc(hub.ep[0], len, &msg), 0);
	if (len)
		memcpy(rdmamsg_msg_data(msg), pattern(tag), len);
	hub.len = len;
	hub.tag = tag;
	return msg;
}

static void send_to(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	int ret;

	while ((ret = rdmamsg_msg_send(ep, msg, hub.tag, &hub)) == -EAGAIN)
		test_pump(100);
	if (ret)
		fail_msg("rdmamsg_msg_send: %s", rdmamsg_error());
}

/* ---- one message to all ------------------------------------------------ */

/* The last endpoint has the reference of the caller, unless 'keep'. */
static void fan_out(struct rdmamsg_msg *msg, bool keep)
{
	unsigned int arrived = hub.arrived, sent = hub.sent;

	for (int i = 0; i < FAN; i++) {
		if (keep || i < FAN - 1)
			assert_int_equal(rdmamsg_msg_ref(msg), 0);
		send_to(hub.ep[i], msg);
	}
	WAIT_FOR(hub.arrived == arrived + FAN && hub.sent == sent + FAN);
}

/* Returns true if the endpoint sends the bytes of the message where they are. */
static bool is_in_place(size_t len, uint32_t flags)
{
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_ep_query(hub.ep[0], &a), 0);
	return len > a.eager_max || (!flags && !test_iwarp());
}

static void fan_out_one(size_t len, uint32_t tag, uint32_t flags)
{
	uint64_t copied = stats_of(hub.ctx).bytes_copied;

	fan_out(message(len, tag), false);
	assert_int_equal(stats_of(hub.ctx).msgs_lent, 0);
	copied = stats_of(hub.ctx).bytes_copied - copied;
	assert_int_equal(copied, is_in_place(len, flags) ? 0 : FAN * len);
}

static void fan_out_sizes(uint32_t flags)
{
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	hub_open(flags);
	assert_int_equal(rdmamsg_ep_query(hub.ep[0], &a), 0);
	const size_t sizes[] = {
		0, 1, a.inline_max, a.inline_max + 1, a.eager_max - 1,
		a.eager_max, a.eager_max + 1, a.pieces_max,
		a.pieces_max + 1, 65536, (1 << 20) + 1,
	};

	for (uint32_t n = 0; n < ARRAY_SIZE(sizes); n++)
		fan_out_one(sizes[n], n + 1, flags);
	hub_close();
}

static void ref__to_16_endpoints_all_sizes_ARRIVES(void **state)
{
	fan_out_sizes(0);
}

static void ref__to_16_endpoints_with_headers_ARRIVES(void **state)
{
	fan_out_sizes(RDMAMSG_EP_FULL_HEADERS);
}

static void ref__to_16_endpoints_with_crc_ARRIVES(void **state)
{
	fan_out_sizes(RDMAMSG_EP_CRC);
}

/* Each endpoint writes a header of its own for such a tag. */
static void ref__long_tag_ARRIVES(void **state)
{
	hub_open(0);
	fan_out(message(1000, 0x12345678), false);
	hub_close();
}

/* The memory of a large message is registered for one peer after another. */
static void ref__sent_again_and_again_ARRIVES(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	for (size_t len = 1000; len <= 1000000; len *= 1000) {
		msg = message(len, 3);
		for (int round = 0; round < 3; round++)
			fan_out(msg, true);
		assert_int_equal(stats_of(hub.ctx).msgs_lent, 1);
		rdmamsg_msg_free(msg);
		WAIT_FOR(!stats_of(hub.ctx).msgs_lent);
	}
	hub_close();
}

/* ---- the rules --------------------------------------------------------- */

static void set_len__of_a_shared_message_EBUSY(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	msg = message(100, 1);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	assert_error(rdmamsg_msg_set_len(msg, 50), -EBUSY, "references");
	send_to(hub.ep[0], msg);
	WAIT_FOR(hub.sent == 1 && hub.arrived == 1);
	/* the other reference is the only one now */
	assert_int_equal(rdmamsg_msg_set_len(msg, 50), 0);
	hub.len = 50;
	send_to(hub.ep[0], msg);
	WAIT_FOR(hub.arrived == 2);
	hub_close();
}

static void ref__NULL_and_message_not_ours_EINVAL(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	assert_error(rdmamsg_msg_ref(NULL), -EINVAL, "NULL");
	msg = message(1000, 1);
	send_to(hub.ep[0], msg);
	/* the library has it now, and its buffer does not go away */
	assert_error(rdmamsg_msg_ref(msg), -EINVAL, "not yours");
	WAIT_FOR(hub.arrived == 1);
	hub_close();
}

static void ref__sent_in_another_context_EINVAL(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	msg = message(1000, 1);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	assert_error(rdmamsg_msg_send(hub.back[0], msg, 1, NULL), -EINVAL,
		     "another context");
	rdmamsg_msg_free(msg);
	rdmamsg_msg_free(msg);
	hub_close();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(ref__to_16_endpoints_all_sizes_ARRIVES),
		TEST(ref__to_16_endpoints_with_headers_ARRIVES),
		TEST(ref__to_16_endpoints_with_crc_ARRIVES),
		TEST(ref__long_tag_ARRIVES),
		TEST(ref__sent_again_and_again_ARRIVES),
		TEST(set_len__of_a_shared_message_EBUSY),
		TEST(ref__NULL_and_message_not_ours_EINVAL),
		TEST(ref__sent_in_another_context_EINVAL),
	};

	return test_main(tests, NULL, argc, argv);
}
