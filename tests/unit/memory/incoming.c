/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the program supplies the memory of a large message. The library
 * registers this memory while the message arrives, and deregisters it before
 * on_message or on_closed.
 */
#include "device/verbs_api.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <infiniband/verbs.h>

#define LARGE	((size_t)3 << 20)

static struct verbs_api table;
static uint8_t source[LARGE], target[LARGE];
static unsigned int registered, ever;	/* memory regions in target */

static bool in_target(const void *addr)
{
	return (uintptr_t)addr - (uintptr_t)target < LARGE;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	struct ibv_mr *mr = rdmamsg__verbs_soft.reg_mr(pd, addr, len, access);

	if (mr && in_target(addr)) {
		registered++;
		ever++;
	}
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	registered -= in_target(mr->addr);
	return rdmamsg__verbs_soft.dereg_mr(mr);
}

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	if (rdmamsg_ep_user(ep) == &server)
		dst->data = target;
	return 0;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_true(ever > 0);
	assert_int_equal(registered, 0);
	assert_ptr_equal(rdmamsg_msg_data(msg), target);
	assert_memory_equal(target, source, LARGE);
	s->messages++;
	rdmamsg_msg_free(msg);
}

static void connect_both(void)
{
	static const struct rdmamsg_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_incoming = on_incoming, .on_message = on_message,
		.on_complete = on_complete, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	clear_ends();
	registered = ever = 0;
	connect_ends(&opts);
}

static void send_large(void)
{
	const struct iovec v = { source, LARGE };

	assert_int_equal(rdmamsg_sendv(client.ep, &v, 1, 0, source), 0);
}

static void memory__of_a_message_that_came_IS_NOT_REGISTERED(void **state)
{
	connect_both();
	for (unsigned int i = 1; i <= 3; i++) {
		send_large();
		WAIT_FOR(server.messages == i && client.sent == i);
	}
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* After on_closed, the program may reuse its memory. */
static void memory__of_a_connection_that_ended_IS_NOT_REGISTERED(void **state)
{
	connect_both();
	send_large();
	WAIT_FOR(ever);
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(registered, 0);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			memory__of_a_message_that_came_IS_NOT_REGISTERED),
		cmocka_unit_test(
			memory__of_a_connection_that_ended_IS_NOT_REGISTERED),
	};

	for (size_t i = 0; i < LARGE; i++)
		source[i] = (uint8_t)(i * 7 + i / 251);
	join_own_fabric("incoming");
	table = rdmamsg__verbs_soft;
	table.reg_mr = reg_mr;
	table.dereg_mr = dereg_mr;
	rdmamsg__verbs = &table;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
