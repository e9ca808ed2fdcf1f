/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: memory for an announced message cannot be registered. A short
 * shortage delays messages, and a failing device ends the connection. No
 * message is lost or reordered.
 */
#include "base/list.h"
#include "device/verbs_api.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <infiniband/verbs.h>

#define LARGE	((size_t)3 << 20)

static struct verbs_api table;
/* fail only the server's large messages */
static bool armed;
/* how many of the next registrations fail */
static unsigned int failures;
static int failure;			/* their errno */

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	/* a region for remote reads is the client's */
	if (armed && failures && !(access & IBV_ACCESS_REMOTE_READ)) {
		failures--;
		errno = failure;
		return NULL;
	}
	return rdmamsg__verbs_soft.reg_mr(pd, addr, len, access);
}

static uint32_t next_tag;

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_int_equal(rdmamsg_msg_tag(msg), next_tag);
	next_tag++;
	s->messages++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers =
	END_HANDLERS(on_message);

static uint8_t bytes[LARGE];

/* The messages are small, large, small, small, large, small. */
static void send_six(void)
{
	for (uint32_t i = 0; i < 6; i++) {
		struct iovec v = { bytes, i % 3 == 1 ? LARGE : 100 };

		assert_int_equal(rdmamsg_sendv(client.ep, &v, 1, i, bytes), 0);
	}
}

static void start(int error, unsigned int count)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	clear_ends();
	next_tag = 0;
	armed = false;
	connect_ends(&opts);
	failure = error;
	failures = count;
	armed = true;
	send_six();
}

static void finish(void)
{
	armed = false;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

static void passes(int error, unsigned int count)
{
	start(error, count);
	WAIT_FOR(server.messages == 6 && client.sent == 6);
	assert_int_equal(failures, 0);
	assert_int_equal(client.status, 0);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
	finish();
}

static void register__fails_for_a_while_MESSAGES_ARE_LATE(void **state)
{
	passes(ENOMEM, 1);
	passes(ENOMEM, 5);
	passes(EAGAIN, 2);
}

static void register__fails_for_good_ENDS_WITHOUT_A_HOLE(void **state)
{
	start(EIO, UINT32_MAX);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(server.messages, 1);
	assert_int_equal(server.why.who, RDMAMSG_WHO_DEVICE);
	assert_int_equal(server.why.error, -EIO);
	assert_int_not_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_not_equal(client.why.error, 0);
	assert_int_equal(client.sent, 6);
	finish();
}

/* The loop sleeps meanwhile. A timer retries at growing intervals. */
static void register__fails_for_long_COSTS_LITTLE(void **state)
{
	unsigned int tries;
	uint64_t end;

	start(ENOMEM, 1000000);
	end = rdmamsg__now_ms() + 500;
	while (rdmamsg__now_ms() < end)
		both();
	tries = 1000000 - failures;
	/*
	 * retries after 10, 20, 40, ... ms, each before and after freeing
	 * spares
	 */
	assert_in_range(tries, 2, 24);
	failures = 0;
	WAIT_FOR(server.messages == 6);
	finish();
}

static void on_writable(struct rdmamsg_ep *ep)
{
	((struct side *)rdmamsg_ep_user(ep))->writable++;
}

/*
 * No memory is returned, so only the timer can detect that memory is available.
 */
static void send__no_memory_for_a_while_ON_WRITABLE(void **state)
{
	const struct rdmamsg_ep_handlers told = {
		.size = sizeof(told), .on_connected = on_connected,
		.on_message = on_message, .on_complete = on_complete,
		.on_writable = on_writable, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &told,
	};
	struct rdmamsg_msg *msgs[256];
	int n = 0;

	clear_ends();
	next_tag = 0;
	armed = false;
	connect_ends(&opts);
	while (client.ep->send.pool->used < client.ep->send.pool->total) {
		assert_true(n < 256);
		assert_int_equal(rdmamsg_msg_alloc(client.ep, 1000, &msgs[n]),
				 0);
		n++;
	}
	failure = ENOMEM;
	failures = 1;
	armed = true;
	assert_int_equal(rdmamsg_send(client.ep, bytes, 1000, 0, bytes),
			 -EAGAIN);
	assert_int_equal(failures, 0);
	WAIT_FOR(client.writable);
	assert_int_equal(rdmamsg_send(client.ep, bytes, 1000, 0, bytes), 0);
	WAIT_FOR(client.sent == 1);
	while (n)
		rdmamsg_msg_free(msgs[--n]);
	finish();
}

static unsigned int woken;

static void fed(struct starving *w)
{
	woken++;
}

/*
 * Two endpoints wait. One message's memory may suffice for both, so both wake.
 */
static void starve__two_BOTH_ARE_WOKEN(void **state)
{
	struct starving waiting[2] = { { .fed = fed }, { .fed = fed } };
	struct rdmamsg_msg *msg;

	start(ENOMEM, 0);
	WAIT_FOR(server.messages == 6);
	assert_int_equal(rdmamsg_msg_alloc(client.ep, 100, &msg), 0);
	woken = 0;
	for (int i = 0; i < 2; i++) {
		list_init(&waiting[i].node);
		rdmamsg__starve(client.ctx, &waiting[i], -ENOBUFS);
	}
	assert_int_equal(woken, 0);
	rdmamsg_msg_free(msg);
	assert_int_equal(woken, 2);
	assert_true(list_empty(&waiting[0].node));
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(register__fails_for_a_while_MESSAGES_ARE_LATE),
		cmocka_unit_test(register__fails_for_good_ENDS_WITHOUT_A_HOLE),
		cmocka_unit_test(register__fails_for_long_COSTS_LITTLE),
		cmocka_unit_test(send__no_memory_for_a_while_ON_WRITABLE),
		cmocka_unit_test(starve__two_BOTH_ARE_WOKEN),
	};

	join_own_fabric("shortage");
	table = rdmamsg__verbs_soft;
	table.reg_mr = reg_mr;
	rdmamsg__verbs = &table;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
