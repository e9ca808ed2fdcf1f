/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: one-sided operations whose acknowledgements are lost with the
 * lane. They keep their order when another lane is lost before all of them are
 * posted again, and those that the peer has proved complete with success.
 */
#include "base/base.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rma.h>

#define DEPTH	8

static uint64_t board, words[DEPTH];
/* Answers of the peer get lost on this many more lanes of the client. */
static unsigned int losses;
static uint32_t losing;		/* number of the queue pair */
/* The sends of this queue pair complete when the lane is lost. */
static uint32_t holding;
static struct ibv_wc held[64];
static int held_count;

static int hold_back(int room, struct ibv_wc *wc, int n)
{
	int left = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].qp_num != holding || wc[i].opcode & IBV_WC_RECV) {
			wc[left++] = wc[i];
			continue;
		}
		assert_true(held_count < 64);
		wc[i].status = IBV_WC_WR_FLUSH_ERR;
		held[held_count++] = wc[i];
	}
	if (!client.closed && client.ep->resume->lane == LANE_UP)
		return left;
	while (held_count && left < room) {
		wc[left++] = held[0];
		memmove(held, held + 1, --held_count * sizeof(*held));
	}
	return left;
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = soft_ops.poll_cq(cq, room, wc);

	if (holding)
		return hold_back(room, wc, n);
	for (int i = 0; i < n; i++) {
		if (losing && wc[i].qp_num == losing) {
			wc[i].status = IBV_WC_WR_FLUSH_ERR;
			continue;
		}
		if (!losses || wc[i].opcode != IBV_WC_RDMA_WRITE ||
		    wc[i].qp_num != client.ep->lane.hot.qp->qp_num)
			continue;
		losses--;
		losing = wc[i].qp_num;
		wc[i].status = IBV_WC_RETRY_EXC_ERR;
	}
	return n;
}

static int set_up(void **state)
{
	static const struct rdmamsg_failover f = {
		.size = sizeof(f), .rungs = RDMAMSG_RUNG_LANE,
	};
	static const struct rdmamsg_ep_handlers handlers =
		END_HANDLERS(NULL);
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .failover = &f,
		.flags = RDMAMSG_EP_SIGNAL_ALL,
		.tuning = TUNING(.send_depth = DEPTH),
	};

	clear_ends();
	losses = losing = holding = 0;
	held_count = 0;
	board = 0;
	replace_calls(poll_cq, NULL);
	connect_ends(&opts);
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

/* Returns a region of the client's words, and a key of the board. */
static struct rdmamsg_region *share(struct rdmamsg_key *key)
{
	struct rdmamsg_region *to, *from;

	assert_int_equal(rdmamsg_region_create(server.ctx, &board,
					       sizeof(board),
					       RDMAMSG_ACCESS_WRITE, &to), 0);
	assert_int_equal(rdmamsg_region_get_key(to, server.ep, key), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, words, sizeof(words),
					       0, &from), 0);
	assert_int_equal(rdmamsg_region_register(from, client.ep), 0);
	return from;
}

static void write_all(unsigned int count)
{
	struct rdmamsg_key key;
	struct rdmamsg_sge sge = {
		.len = sizeof(words[0]), .region = share(&key),
	};

	for (unsigned int i = 0; i < count; i++) {
		words[i] = i + 1;
		sge.data = &words[i];
		assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
					       &words[i]), 0);
	}
}

static void write__over_three_lanes_THE_LAST_ONE_STAYS(void **state)
{
	losses = 2;
	write_all(DEPTH);
	WAIT_FOR(client.sent == DEPTH || client.closed);
	assert_int_equal(losses, 0);
	assert_int_equal(client.ep->resume->resumes, 2);
	assert_int_equal(client.status, 0);
	assert_int_equal(board, DEPTH);
}

/* The peer's CLOSE confirms the client's, and so the writes before it. */
static void write__confirmed_by_CLOSE_alone_SUCCEEDS(void **state)
{
	holding = client.ep->lane.hot.qp->qp_num;
	write_all(2);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(client.sent, 2);
	assert_int_equal(client.status, 0);
	assert_int_equal(board, 2);
}

#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(write__over_three_lanes_THE_LAST_ONE_STAYS),
		CASE(write__confirmed_by_CLOSE_alone_SUCCEEDS),
	};

	join_own_fabric("order");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
