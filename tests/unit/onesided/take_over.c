/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an endpoint takes over another lane. A write that the peer is
 * known to have completes first, and its callback sends. Operations that were
 * accepted before the loss must not go out in it: their keys are renewed after.
 */
#include "base/base.h"
#include "base/list.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "session/rma.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rma.h>

enum { CONFIRMED, LAST, WORDS };
#define SENDS_MAX	1000

static uint64_t there[WORDS], here[WORDS];
static struct rdmamsg_key key;
static struct rdmamsg_region *from;

/* ---- the client's device ------------------------------------------------ */

static uint32_t first;		/* number of the first queue pair */
static enum { WELL, HOLDS, FAILS } completions;	/* of this queue pair */

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n;

	if (completions == HOLDS)
		return 0;
	n = soft_ops.poll_cq(cq, room, wc);
	for (int i = 0; i < n && completions == FAILS; i++)
		if (wc[i].qp_num == first)
			wc[i].status = IBV_WC_RETRY_EXC_ERR;
	return n;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	return soft_ops.post_send(qp, wr, bad);
}

/* The client takes no completion meanwhile. */
static void wait_for_messages(unsigned int count)
{
	for (unsigned int i = 0; server.messages < count; i++) {
		completions = WELL;
		assert_true(rdmamsg_process(server.ctx) >= 0);
		completions = HOLDS;
		assert_in_range(i, 0, 100000);
	}
}

/* ---- the callback -------------------------------------------------------- */

static bool confirmed, overtaken;

static bool last_has_begun(void)
{
	const struct rdmamsg_ep *ep = client.ep;

	for (uint32_t i = 0; i < WORDS; i++)
		if (ep->onesided.all[i].op.cookie == &here[LAST])
			return ep->onesided.all[i].begun;
	return true;
}

static void on_end(struct rdmamsg_ep *ep, void *cookie, int status)
{
	on_complete(ep, cookie, status);
	if (cookie != &here[CONFIRMED])
		return;
	confirmed = status == 0;
	for (unsigned int i = 0; i < SENDS_MAX; i++)
		if (rdmamsg_send(ep, "x", 1, 0, NULL))
			break;
	overtaken = last_has_begun();
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
}

/* ---- the test ------------------------------------------------------------ */

static void begin(void)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_end, .on_message = on_message,
		.on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &failover, .send_queue = 8,
	};
	struct rdmamsg_region *to;

	clear_ends();
	completions = WELL;
	replace_calls(poll_cq, post_send);
	connect_ends(&opts);
	share_memory(there, here, sizeof(there), RDMAMSG_ACCESS_READ |
		     RDMAMSG_ACCESS_WRITE, &key, &to, &from);
	first = client.ep->lane.hot.qp->qp_num;
}

static int tear_down(void **state)
{
	completions = WELL;
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

static void put(unsigned int i)
{
	const struct rdmamsg_sge sge = {
		.data = &here[i], .len = sizeof(here[i]), .region = from,
	};

	here[i] = 7 + i;
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key,
				       i * sizeof(here[i]), 0, &here[i]), 0);
}

/* Sends until one waits in the queue. Returns how many went out. */
static unsigned int fill(void)
{
	unsigned int n = 0;

	while (!client.ep->send.queued) {
		assert_int_equal(rdmamsg_send(client.ep, "behind it", 9, 0,
					      NULL), 0);
		assert_in_range(++n, 1, SENDS_MAX);
	}
	return n - 1;
}

static void callback_of_a_confirmed_write__EARLIER_ONES_WAIT(void **state)
{
	unsigned int out;

	begin();
	completions = HOLDS;
	put(CONFIRMED);
	out = fill();
	put(LAST);
	assert_false(last_has_begun());
	wait_for_messages(out);
	completions = FAILS;
	WAIT_FOR(client.sent == WORDS || client.closed);
	assert_false(client.closed);
	assert_true(confirmed);
	assert_false(overtaken);
	assert_memory_equal(&there[LAST], &here[LAST], sizeof(here[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			callback_of_a_confirmed_write__EARLIER_ONES_WAIT,
			tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
