/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: where completions prove only themselves, all reads count against
 * the initiator depth, those that prove writes as well, and a CLOSE waits for
 * their answers. A flush is such a read. Without reads there is no failover.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rma.h>

#define DEPTH	3
#define WORDS	40

static uint64_t there[WORDS], here[WORDS];
static struct rdmamsg_key key;
static struct rdmamsg_region *from;

/* ---- the device counts the client's reads -------------------------------- */

static uint32_t counted;	/* number of the queue pair */
static int asked;		/* outstanding */
static int most;
static int empty;		/* reads of no bytes */
static bool holding;		/* completions of reads */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	if (qp->qp_num == counted)
		for (struct ibv_send_wr *w = wr; w; w = w->next) {
			empty += w->opcode == IBV_WR_RDMA_READ &&
				 (!w->num_sge || !w->sg_list->length);
			asked += w->opcode == IBV_WR_RDMA_READ ||
				 w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
		}
	most = max(most, asked);
	return soft_ops.post_send(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n;

	if (holding)
		return 0;
	n = soft_ops.poll_cq(cq, room, wc);
	for (int i = 0; i < n; i++)
		if (wc[i].qp_num == counted)
			asked -= wc[i].opcode == IBV_WC_RDMA_READ ||
				 wc[i].opcode == IBV_WC_FETCH_ADD;
	return n;
}

static void begin(const char *link, const struct rdmamsg_failover *failover)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = failover,
		.tuning = TUNING(.initiator_depth = DEPTH),
	};
	struct rdmamsg_region *to;

	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", link, 1), 0);
	clear_ends();
	counted = 0;
	asked = most = 0;
	holding = false;
	replace_calls(poll_cq, post_send);
	connect_ends(&opts);
	assert_int_equal(client.ep->lane.init_depth, DEPTH);
	for (unsigned int i = 0; i < WORDS; i++)
		there[i] = i + 1;
	memset(here, 0, sizeof(here));
	share_memory(there, here, sizeof(there), RDMAMSG_ACCESS_READ |
		     RDMAMSG_ACCESS_WRITE, &key, &to, &from);
	counted = client.ep->lane.hot.qp->qp_num;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	(void)unsetenv("RDMAMSG_SOFT_LINK");
	return 0;
}

/* ---- the tests ---------------------------------------------------------- */

static void ask(bool write, unsigned int i)
{
	const struct rdmamsg_sge sge = {
		.data = &here[i], .len = sizeof(here[i]), .region = from,
	};

	assert_int_equal((write ? rdmamsg_write : rdmamsg_read)
			 (client.ep, &sge, 1, &key, i * sizeof(here[i]), 0,
			  &here[i]), 0);
}

static void ask_all(bool write)
{
	for (unsigned int i = 0; i < WORDS; i++)
		ask(write, i);
	WAIT_FOR(client.sent == WORDS || client.closed);
	assert_false(client.closed);
	assert_int_equal(client.status, 0);
	assert_memory_equal(here, there, sizeof(here));
}

static void read__small_ones_WITHIN_THE_DEPTH(void **state)
{
	begin("iwarp", NULL);
	ask_all(false);
	assert_in_range(most, 1, DEPTH);
	assert_int_equal(asked, 0);
	/* and the depth is whole again */
	assert_int_equal(client.ep->reads.free, DEPTH);
}

static void read__requests_in_order_NOT_COUNTED(void **state)
{
	begin("ethernet", NULL);
	holding = true;
	for (unsigned int i = 0; i < 2 * DEPTH; i++)
		ask(false, i);
	assert_int_equal(asked, 2 * DEPTH);
	holding = false;
	WAIT_FOR(client.sent == 2 * DEPTH);
}

static void write__proofs_WITHIN_THE_DEPTH(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};

	begin("iwarp", &failover);
	for (unsigned int i = 0; i < WORDS; i++)
		here[i] = 7 * i;
	ask_all(true);
	assert_in_range(most, 1, DEPTH);
	assert_int_equal(asked, 0);
	assert_int_equal(client.ep->reads.free, DEPTH);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.error, 0);
	assert_int_equal(server.why.error, 0);
}

static void close_awaits_a_read(const char *link)
{
	begin(link, NULL);
	ask(false, 0);		/* later ones find the memory for operations */
	WAIT_FOR(client.sent);
	holding = true;
	ask(false, 1);
	rdmamsg_ep_close(client.ep);
	for (unsigned int i = 0; i < 20; i++)
		assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_false(client.ep->close.sent);
	holding = false;
	WAIT_FOR(client.closed);
	assert_int_equal(client.sent, 2);
	assert_int_equal(client.status, 0);
	assert_int_equal(client.why.error, 0);
	assert_int_equal(here[1], 2);
}

static void close__small_read_under_way_AWAITS_IT(void **state)
{
	close_awaits_a_read("iwarp");
}

/* Once the peer's CLOSE is there, its device may not repeat an answer. */
static void close__requests_in_order_AWAITS_IT_TOO(void **state)
{
	close_awaits_a_read("ethernet");
}

/* ---- flushing ------------------------------------------------------------ */

static void flush(const char *link, const struct rdmamsg_failover *failover)
{
	begin(link, failover);
	for (unsigned int i = 0; i < WORDS; i++) {
		here[i] = 7 * i;
		ask(true, i);
	}
	WAIT_FOR(client.sent == WORDS);
	most = 0;
	assert_int_equal(rdmamsg_flush(client.ep, &key), 0);
	WAIT_FOR(client.sent == WORDS + 1);
	assert_int_equal(client.status, 0);
	assert_memory_equal(there, here, sizeof(there));
	assert_int_equal(client.ep->reads.free, DEPTH);
}

/* Writes complete in any order there, and before they arrive. */
static void flush__no_order_A_READ_TELLS(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};

	flush("iwarp", NULL);
	assert_int_equal(most, 1);
	(void)tear_down(state);
	flush("iwarp", &failover);
	assert_int_equal(most, 1);
}

/* siw can answer a read of no bytes with some. */
static void read__no_order_NEVER_OF_NO_BYTES(void **state)
{
	const struct rdmamsg_sge nothing = {
		.data = here, .len = 0, .region = NULL,
	};

	empty = 0;
	flush("iwarp", NULL);
	assert_int_equal(rdmamsg_read(client.ep, &nothing, 1, &key, 0, 0,
				      here), 0);
	WAIT_FOR(client.sent == WORDS + 2);
	assert_int_equal(client.status, 0);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(empty, 0);
}

/* An earlier release lends no memory for it. */
static void flush__peer_without_memory_for_it_READS_NO_BYTES(void **state)
{
	empty = 0;
	begin("iwarp", NULL);
	memset(&client.ep->connect.peer.proof, 0,
	       sizeof(client.ep->connect.peer.proof));
	assert_int_equal(rdmamsg_flush(client.ep, &key), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(empty, 1);
}

static void flush__order_NO_READ(void **state)
{
	flush("ethernet", NULL);
	assert_int_equal(most, 0);
}

/* ---- a device that sends no reads -------------------------------------- */

static void begin_without_reads(const char *link, struct rdmamsg_device **d)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_closed = on_closed,
	};
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = 500,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &failover,
	};

	begin(link, &failover);
	*d = client.ep->lane.dev->device;
	if (client.ep->lane.came)
		assert_true(client.ep->resume->agreed);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	client.closed = server.closed = false;
	client.ep = server.ep = NULL;
	(*d)->attr.max_qp_init_rd_atom = 0;
	listen_and_connect(&opts);
	assert_int_equal(client.ep->lane.init_depth, 0);
}

/* Nothing could tell whether a CLOSE has arrived. */
static void failover__no_reads_and_no_order_NOT_AGREED(void **state)
{
	struct rdmamsg_device *d;

	begin_without_reads("iwarp", &d);
	assert_false(client.ep->resume->agreed);
	assert_false(server.ep->resume->agreed);
	d->attr.max_qp_init_rd_atom = DEPTH;
	/* as every endpoint without failover */
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.error, 0);
	assert_int_equal(server.why.error, 0);
}

static void failover__no_reads_but_order_AGREED(void **state)
{
	struct rdmamsg_device *d;

	begin_without_reads("ethernet", &d);
	assert_true(client.ep->resume->agreed);
	assert_true(server.ep->resume->agreed);
	d->attr.max_qp_init_rd_atom = DEPTH;
}

static void failover__to_a_device_without_reads_REFUSED(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
		.timeout_ms = 500,
	};
	struct rdmamsg_device *d;

	begin("iwarp", &failover);
	assert_true(client.ep->resume->agreed);
	d = client.ep->lane.dev->device;
	d->attr.max_qp_init_rd_atom = 0;
	rdmamsg__ep_reason(client.ep, RDMAMSG_WHO_NETWORK,
			   RDMAMSG_CAUSE_TRANSPORT, -EIO, "cut");
	rdmamsg__ep_kill(client.ep);
	WAIT_FOR(client.closed && server.closed);
	d->attr.max_qp_init_rd_atom = DEPTH;
	assert_non_null(strstr(client.why.text, "no other way"));
}

static void flush__wrong_REFUSED(void **state)
{
	struct rdmamsg_device *d;

	assert_int_equal(rdmamsg_flush(NULL, NULL), -EINVAL);
	begin_without_reads("iwarp", &d);
	assert_int_equal(rdmamsg_flush(client.ep, NULL), -EOPNOTSUPP);
	d->attr.max_qp_init_rd_atom = DEPTH;
	rdmamsg_ep_close(client.ep);
	assert_int_equal(rdmamsg_flush(client.ep, NULL), -ESHUTDOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(read__small_ones_WITHIN_THE_DEPTH,
					  tear_down),
		cmocka_unit_test_teardown(read__requests_in_order_NOT_COUNTED,
					  tear_down),
		cmocka_unit_test_teardown(write__proofs_WITHIN_THE_DEPTH,
					  tear_down),
		cmocka_unit_test_teardown(close__small_read_under_way_AWAITS_IT,
					  tear_down),
		cmocka_unit_test_teardown(close__requests_in_order_AWAITS_IT_TOO,
					  tear_down),
		cmocka_unit_test_teardown(flush__no_order_A_READ_TELLS, tear_down),
		cmocka_unit_test_teardown(read__no_order_NEVER_OF_NO_BYTES,
					  tear_down),
		cmocka_unit_test_teardown(
			flush__peer_without_memory_for_it_READS_NO_BYTES,
			tear_down),
		cmocka_unit_test_teardown(flush__order_NO_READ, tear_down),
		cmocka_unit_test_teardown(flush__wrong_REFUSED, tear_down),
		cmocka_unit_test_teardown(
			failover__no_reads_and_no_order_NOT_AGREED, tear_down),
		cmocka_unit_test_teardown(failover__no_reads_but_order_AGREED,
					  tear_down),
		cmocka_unit_test_teardown(
			failover__to_a_device_without_reads_REFUSED, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
