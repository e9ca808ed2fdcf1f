/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: iWARP: requests that are lost on their way complete, as far as
 * the send buffer of TCP reaches, and arrive with the bytes that they had.
 */
#include "device/verbs_api.h"
#include "session/ep.h"
#include "soft/control/soft_ctl.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <stdlib.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rma.h>

#define LARGE	(1u << 20)
#define TAKES	4		/* of them: order.c */

static uint8_t there[LARGE], here[LARGE], back[8];
static struct rdmamsg_region *target, *source, *sink;
static struct rdmamsg_key key;
static struct soft_ctl *ctl;
static uint8_t text[16];

static void on_text(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->messages++;
	assert_true(rdmamsg_msg_len(msg) <= sizeof(text));
	memcpy(text, rdmamsg_msg_data(msg), rdmamsg_msg_len(msg));
	rdmamsg_msg_free(msg);
}

static void port(enum soft_port state)
{
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 1, state), 0);
}

static int set_up_order(const char *order)
{
	static const struct rdmamsg_ep_handlers handlers =
		END_HANDLERS(on_text);
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = RDMAMSG_NONE,
	};

	assert_int_equal(setenv("RDMAMSG_SOFT_ORDER", order, 1), 0);
	clear_ends();
	memset(there, 0, sizeof(there));
	memset(here, 1, sizeof(here));
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	connect_ends(&opts);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(rdmamsg_region_create(server.ctx, there, LARGE,
					       RDMAMSG_ACCESS_READ |
					       RDMAMSG_ACCESS_WRITE, &target),
			 0);
	assert_int_equal(rdmamsg_region_get_key(target, server.ep, &key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, here, LARGE, 0,
					       &source), 0);
	assert_int_equal(rdmamsg_region_register(source, client.ep), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, back, sizeof(back),
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &sink), 0);
	assert_int_equal(rdmamsg_region_register(sink, client.ep), 0);
	return 0;
}

static int set_up(void **state)
{
	return set_up_order("1");
}

static int set_up_in_order(void **state)
{
	return set_up_order("0");
}

static int tear_down(void **state)
{
	port(SOFT_PORT_UP);
	soft_ctl_close(ctl);
	return leave_soft(state);
}

static void write_large(void)
{
	const struct rdmamsg_sge s = { here, LARGE, source };

	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, &client),
			 0);
}

/* Completes when all requests before it have arrived. */
static void read_behind(void)
{
	const struct rdmamsg_sge s = { back, sizeof(back), sink };

	assert_int_equal(rdmamsg_read(client.ep, &s, 1, &key, 0, 0, &client),
			 0);
}

static void expect_all(uint8_t value)
{
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(there[i], value);
}

static void write__lost_COMPLETES_AND_ARRIVES_AS_IT_WAS(void **state)
{
	port(SOFT_PORT_BLACK_HOLE);
	write_large();
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	expect_all(0);
	memset(here, 2, sizeof(here));
	read_behind();
	port(SOFT_PORT_UP);
	WAIT_FOR(client.sent == 2);
	assert_int_equal(client.status, 0);
	assert_int_equal(back[0], 1);
	expect_all(1);
}

static void messages__behind_a_lost_one_COMPLETE(void **state)
{
	port(SOFT_PORT_BLACK_HOLE);
	for (unsigned int i = 0; i < 10; i++) {
		assert_int_equal(rdmamsg_send(client.ep, &i, 4, i, &client), 0);
		WAIT_FOR(client.sent == i + 1);
	}
	read_behind();
	assert_int_equal(rdmamsg_send(client.ep, "last", 4, 10, NULL), 0);
	assert_int_equal(server.messages, 0);
	port(SOFT_PORT_UP);
	WAIT_FOR(server.messages == 11 && client.sent == 11);
	assert_memory_equal(text, "last", 4);
}

/* The buffer is full, and the rest waits for the peer. */
static void writes__more_than_the_buffer_WAIT(void **state)
{
	port(SOFT_PORT_BLACK_HOLE);
	for (unsigned int i = 0; i < TAKES + 2; i++)
		write_large();
	WAIT_FOR(client.sent == TAKES);
	for (int i = 0; i < 20; i++)
		both();
	assert_int_equal(client.sent, TAKES);
	port(SOFT_PORT_UP);
	WAIT_FOR(client.sent == TAKES + 2);
	read_behind();
	WAIT_FOR(client.sent == TAKES + 3);
	assert_int_equal(client.status, 0);
	expect_all(1);
}

/* Copies that never left end with the queue pair. */
static void writes__lost_for_good_END_WITH_THE_CONNECTION(void **state)
{
	port(SOFT_PORT_BLACK_HOLE);
	write_large();
	WAIT_FOR(client.sent == 1);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	expect_all(0);
}

static void write__lost_with_order_0_WAITS(void **state)
{
	port(SOFT_PORT_BLACK_HOLE);
	write_large();
	for (int i = 0; i < 20; i++)
		both();
	assert_int_equal(client.sent, 0);
	port(SOFT_PORT_UP);
	WAIT_FOR(client.sent == 1);
	expect_all(1);
}

#define TEST(fn, before) cmocka_unit_test_setup_teardown(fn, before, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(write__lost_COMPLETES_AND_ARRIVES_AS_IT_WAS, set_up),
		TEST(messages__behind_a_lost_one_COMPLETE, set_up),
		TEST(writes__more_than_the_buffer_WAIT, set_up),
		TEST(writes__lost_for_good_END_WITH_THE_CONNECTION, set_up),
		TEST(write__lost_with_order_0_WAITS, set_up_in_order),
	};

	join_own_fabric("early");
	(void)setenv("RDMAMSG_SOFT_LINK", "iwarp", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
