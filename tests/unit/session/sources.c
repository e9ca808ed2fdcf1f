/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocated large messages over the soft HCA: how long the peer of an endpoint
 * can read their memory, and that nobody else ever can.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "memory/large.h"
#include "memory/source.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>

#define LARGE	(1u << 20)

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_handlers handlers;
static struct verbs_api counting;
static unsigned int registered;		/* for peers to read */

static struct ibv_mr *count_mr(struct ibv_pd *pd, void *addr, size_t len,
			       uint64_t iova, int access)
{
	registered += access == IBV_ACCESS_REMOTE_READ;
	return rdmamsg__verbs_soft.reg_mr_iova(pd, addr, len, iova, access);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);
	const uint8_t *data = rdmamsg_msg_data(msg);
	size_t len = rdmamsg_msg_len(msg);

	assert_int_equal(data[0], rdmamsg_msg_tag(msg));
	assert_int_equal(data[len - 1], rdmamsg_msg_tag(msg));
	s->messages++;
	rdmamsg_msg_free(msg);
}

static int set_up(void **state)
{
	handlers = (struct rdmamsg_ep_handlers){
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_message = on_message,
		.on_closed = on_closed,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
	};
	clear_ends();
	registered = 0;
	counting = rdmamsg__verbs_soft;
	counting.reg_mr_iova = count_mr;
	rdmamsg__verbs = &counting;
	return 0;
}

static struct rdmamsg_msg *message(struct rdmamsg_ep *ep, size_t len)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg_msg_alloc(ep, len, &msg), 0);
	return msg;
}

static const struct source *source_of(struct rdmamsg_msg *msg)
{
	return &((struct loose_msg *)msg)->large->source;
}

static void send_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	unsigned int before = server.messages, sent = client.sent;
	uint8_t tag = (uint8_t)(before + 1);

	memset(rdmamsg_msg_data(msg), tag, rdmamsg_msg_len(msg));
	assert_int_equal(rdmamsg_msg_send(ep, msg, tag, &client), 0);
	WAIT_FOR(server.messages == before + 1 && client.sent == sent + 1);
	assert_int_equal(client.status, 0);
}

static void source__of_the_same_endpoint_IS_REGISTERED_ONCE(void **state)
{
	connect_ends(&opts);
	for (int i = 0; i < 5; i++)
		send_message(client.ep, message(client.ep, LARGE));
	assert_int_equal(registered, 1);
	/* shorter ones are within it */
	send_message(client.ep, message(client.ep, LARGE - 4096));
	assert_int_equal(registered, 1);
}

/* The bytes behind a message may be of another peer. */
static void source__for_a_longer_message_IS_REGISTERED_AGAIN(void **state)
{
	connect_ends(&opts);
	send_message(client.ep, message(client.ep, LARGE - 4096));
	send_message(client.ep, message(client.ep, LARGE));
	assert_int_equal(registered, 2);
	send_message(client.ep, message(client.ep, LARGE));
	assert_int_equal(registered, 2);
}

static void source__of_messages_at_once_ARE_KEPT_EACH(void **state)
{
	struct rdmamsg_msg *msg[3];

	connect_ends(&opts);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++)
			msg[i] = message(client.ep, LARGE);
		for (int i = 0; i < 3; i++)
			send_message(client.ep, msg[i]);
	}
	assert_int_equal(registered, 3);
}

/* Before the program writes to the memory for another peer. */
static void source__for_another_endpoint_ENDS(void **state)
{
	struct rdmamsg_ep *first;
	struct rdmamsg_msg *msg;
	void *mem;

	connect_ends(&opts);
	first = client.ep;
	msg = message(first, LARGE);
	mem = rdmamsg_msg_data(msg);
	send_message(first, msg);
	connect_client(&opts);
	msg = message(client.ep, LARGE);
	assert_ptr_equal(rdmamsg_msg_data(msg), mem);
	assert_null(source_of(msg)->mr);
	send_message(client.ep, msg);
	assert_int_equal(registered, 2);
}

static void source__of_each_endpoint_SERVES_IT_AGAIN(void **state)
{
	struct rdmamsg_msg *a, *b;
	struct rdmamsg_ep *first;

	connect_ends(&opts);
	first = client.ep;
	connect_client(&opts);
	a = message(first, LARGE);
	b = message(client.ep, LARGE);
	send_message(first, a);
	send_message(client.ep, b);
	for (int i = 0; i < 4; i++)
		send_message(i % 2 ? first : client.ep,
			     message(i % 2 ? first : client.ep, LARGE));
	assert_int_equal(registered, 2);
}

/* The program allocates for one endpoint, and sends to the other. */
static void source__sent_to_another_peer_IS_REGISTERED_FOR_IT(void **state)
{
	struct rdmamsg_ep *first;
	struct rdmamsg_msg *msg;
	uint64_t addr;

	connect_ends(&opts);
	first = client.ep;
	send_message(first, message(first, LARGE));
	connect_client(&opts);
	msg = message(first, LARGE);
	assert_non_null(source_of(msg)->mr);
	addr = source_of(msg)->addr;
	send_message(client.ep, msg);
	assert_int_equal(registered, 2);
	msg = message(client.ep, LARGE);
	assert_int_not_equal(source_of(msg)->addr, addr);
	rdmamsg_msg_free(msg);
}

static void source__of_an_ended_endpoint_ENDS(void **state)
{
	struct rdmamsg_msg *msg, *spare;

	connect_ends(&opts);
	spare = message(client.ep, LARGE);
	msg = message(client.ep, LARGE);
	send_message(client.ep, spare);
	send_message(client.ep, msg);
	/* one is the program's, one spare */
	msg = message(client.ep, LARGE);
	assert_non_null(source_of(msg)->mr);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_null(source_of(msg)->mr);
	client.closed = false;
	connect_client(&opts);
	spare = message(client.ep, LARGE);
	assert_null(source_of(spare)->mr);
	rdmamsg_msg_free(msg);
	rdmamsg_msg_free(spare);
}

/* Where the address is not random, it would be known too long. */
static void source__at_a_plain_address_SERVES_ONE_MESSAGE(void **state)
{
	connect_ends(&opts);
	client.ep->lane.dev->device->kind = KIND_SOFT_IWARP;
	for (unsigned int i = 1; i < 4; i++) {
		send_message(client.ep, message(client.ep, LARGE));
		assert_int_equal(registered, i);
	}
	client.ep->lane.dev->device->kind = KIND_SOFT;
}

static void source__of_a_guarded_endpoint_IS_KEPT(void **state)
{
	opts.flags = RDMAMSG_EP_GUARD;
	connect_ends(&opts);
	send_message(client.ep, message(client.ep, LARGE));
	send_message(client.ep, message(client.ep, LARGE));
	assert_int_equal(registered, 1);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
}

#define TEST(fn)	cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(source__of_the_same_endpoint_IS_REGISTERED_ONCE),
		TEST(source__for_a_longer_message_IS_REGISTERED_AGAIN),
		TEST(source__of_messages_at_once_ARE_KEPT_EACH),
		TEST(source__for_another_endpoint_ENDS),
		TEST(source__of_each_endpoint_SERVES_IT_AGAIN),
		TEST(source__sent_to_another_peer_IS_REGISTERED_FOR_IT),
		TEST(source__of_an_ended_endpoint_ENDS),
		TEST(source__at_a_plain_address_SERVES_ONE_MESSAGE),
		TEST(source__of_a_guarded_endpoint_IS_KEPT),
	};

	join_own_fabric("sources");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
