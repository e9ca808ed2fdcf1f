/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: atomics on a device that completes some of them without writing
 * what they found, as Soft-RoCE does after lost packets.
 */
#include "device/verbs_api.h"
#include "session/ep.h"
#include "../../post.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rma.h>

#define ROOM	4096u

/* ---- the device ------------------------------------------------------- */

static uint32_t atomics;	/* posted */
static uint32_t loses_at;	/* number of the one without its result */
static uint64_t *sink, before;	/* where it would be; NULL: none is lost */

static bool is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		if (!is_atomic(w))
			continue;
		atomics++;
		if (!loses_at || --loses_at)
			continue;
		sink = (uint64_t *)(uintptr_t)w->sg_list->addr;
		before = *sink;
	}
	return soft_ops.post_send(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = soft_ops.poll_cq(cq, room, wc);

	/* of the atomic, or of the proof behind it */
	if (n > 0 && sink && wc->qp_num == client.ep->lane.hot.qp->qp_num) {
		*sink = before;
		sink = NULL;
	}
	return n;
}

/* ---- both ends -------------------------------------------------------- */

static struct rdmamsg_key key;		/* of the server's memory */

static uint64_t *word(void)
{
	return (uint64_t *)(void *)server.mem;
}

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = RDMAMSG_NONE,
	};

	clear_ends();
	replace_calls(poll_cq, post_send);
	/* masked ones are tries of compare-and-swap */
	soft_table.query_masked = NULL;
	soft_table.mlx5_is_supported = NULL;
	connect_ends(&opts);
	server.mem = aligned_alloc(4096, ROOM);
	memset(server.mem, 0, ROOM);
	assert_int_equal(rdmamsg_region_create(server.ctx, server.mem, ROOM,
					       RDMAMSG_ACCESS_ATOMIC |
					       RDMAMSG_ACCESS_WRITE,
					       &server.region), 0);
	assert_int_equal(rdmamsg_region_get_key(server.region, server.ep, &key),
			 0);
	client.ep->lane.doubts_reads = true;
	atomics = loses_at = 0;
	sink = NULL;
	*word() = 41;
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	free(server.mem);
	return 0;
}

/* Ends with the status of the operation. */
static int done(int ret)
{
	const uint32_t sent = client.sent;

	assert_int_equal(ret, 0);
	WAIT_FOR(client.sent == sent + 1);
	return client.status;
}

static int add(uint64_t *was)
{
	return done(rdmamsg_fetch_add(client.ep, &key, 0, 1, was, 0, &client));
}

static int add_fields(uint64_t *was)
{
	static const uint64_t one = 1;

	return done(post_add_fields(client.ep, &key, 0, 8, &one, NULL, was, 0,
				    &client));
}

/* ---- tests ------------------------------------------------------------ */

static void add__result_is_lost_IN_DOUBT(void **state)
{
	uint64_t was = 5;

	loses_at = 2;
	assert_int_equal(add(&was), 0);
	assert_int_equal(was, 41);
	assert_int_equal(add(&was), RDMAMSG_IN_DOUBT);
	assert_int_equal(was, 41);
	assert_int_equal(add(&was), 0);
	assert_int_equal(was, 43);
	assert_int_equal(*word(), 44);
}

static void add__nobody_asks_for_the_result_OK(void **state)
{
	loses_at = 1;
	assert_int_equal(add(NULL), 0);
	assert_int_equal(*word(), 42);
}

static void swap__result_is_lost_IN_DOUBT(void **state)
{
	uint64_t was = 5;

	loses_at = 1;
	assert_int_equal(done(rdmamsg_compare_swap(client.ep, &key, 0, 41, 7,
						   &was, 0, &client)),
			 RDMAMSG_IN_DOUBT);
	assert_int_equal(was, 5);
	assert_int_equal(*word(), 7);
}

/* Another try could add twice. */
static void masked__answer_is_lost_IN_DOUBT(void **state)
{
	uint64_t was = 5;

	loses_at = 2;
	assert_int_equal(add_fields(&was), RDMAMSG_IN_DOUBT);
	assert_int_equal(was, 5);
	assert_int_equal(atomics, 2);
	assert_int_equal(*word(), 42);
	assert_int_equal(add_fields(NULL), 0);
	assert_int_equal(*word(), 43);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(add__result_is_lost_IN_DOUBT),
		T(add__nobody_asks_for_the_result_OK),
		T(swap__result_is_lost_IN_DOUBT),
		T(masked__answer_is_lost_IN_DOUBT),
	};

	join_own_fabric("lost_result");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
