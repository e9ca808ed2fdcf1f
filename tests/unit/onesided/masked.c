/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: masked atomics over the soft HCA, in software and by the device:
 * their requests, others that change the value, and injected failures. A device
 * may also have raw requests only, as cards of mlx5 do.
 */
#include "base/base.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/tx.h"
#include "memory/memory.h"
#include "base/ctx.h"
#include "../../post.h"
#include "../own_fabric.h"
#include "../raw_calls.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/rma.h>

#define ROOM	4096u

/* ---- the device ------------------------------------------------------- */

static uint32_t swaps, proofs;	/* posted by the client */
static uint32_t rivals;		/* so many tries find another value */
static uint32_t out, out_max;	/* tries in flight */
static bool broken;		/* the client cannot post */
static uint32_t fails_at;	/* number of the try that fails; 0: none */
static bool proof_fails;
/* masked atomics of the device: all, raw requests, none */
static enum { ALL, RAW, NONE } has;
static uint64_t connect_ms;
static char order[16];		/* requests of the client: s, w, m, M: fenced */

static void note_request(char kind)
{
	size_t n = strlen(order);

	if (n < sizeof(order) - 1)
		order[n] = kind;
}

static uint64_t *word(void)
{
	return (uint64_t *)(void *)server.mem;
}

static bool is_proof(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_RDMA_WRITE && !wr->num_sge;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	if (broken) {
		*bad = wr;
		return EIO;
	}
	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		proofs += is_proof(w);
		if (client.ep && qp == client.ep->lane.hot.qp)
			note_request(w->opcode == IBV_WR_RDMA_WRITE ? 'w' :
				     's');
		if (w->opcode != IBV_WR_ATOMIC_CMP_AND_SWP)
			continue;
		swaps++;
		out++;
		out_max = max(out_max, out);
		if (rivals) {
			rivals--;
			/* never the value that the try expects */
			*word() = w->wr.atomic.compare_add + 0x100;
		}
	}
	return soft_ops.post_send(qp, wr, bad);
}

static int post_masked(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       const struct masked *m)
{
	if (broken)
		return EIO;
	note_request(wr->send_flags & IBV_SEND_FENCE ? 'M' : 'm');
	return rdmamsg__verbs_soft.post_masked(qp, wr, m);
}

static bool raw(void *wqe, bool fenced)
{
	if (broken)
		return false;
	note_request(fenced ? 'M' : 'm');
	return true;
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = soft_ops.poll_cq(cq, room, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status)
			continue;
		if (wc[i].opcode == IBV_WC_COMP_SWAP) {
			out--;
			if (fails_at && !--fails_at)
				wc[i].status = IBV_WC_REM_ACCESS_ERR;
		} else if (wc[i].opcode == IBV_WC_RDMA_WRITE && proof_fails) {
			wc[i].status = IBV_WC_WR_FLUSH_ERR;
		}
	}
	return n;
}

/* ---- both ends -------------------------------------------------------- */

static struct rdmamsg_key key;		/* of the server's memory */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	rdmamsg_msg_free(msg);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	((struct side *)rdmamsg_ep_user(ep))->writable++;
}

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_message = on_message,
		.on_writable = on_writable, .on_closed = on_closed,
	};
	/* timers start no traffic of their own */
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.dead_after_ms = RDMAMSG_NONE, .send_queue = 8,
		.tuning = TUNING(.stall_after_ms = RDMAMSG_NONE,
				 .fetch_timeout_ms = RDMAMSG_NONE),
	};

	uint64_t begin;

	clear_ends();
	rivals = fails_at = 0;
	broken = proof_fails = false;
	replace_calls(poll_cq, post_send);
	soft_table.post_masked = post_masked;
	replace_raw(&soft_table, raw);
	if (has != ALL)
		soft_table.query_masked = NULL;
	if (has == RAW)
		soft_table.post_masked = NULL;
	if (has == NONE)
		soft_table.mlx5_is_supported = NULL;
	begin = rdmamsg__now_ms();
	connect_ends(&opts);
	connect_ms = rdmamsg__now_ms() - begin;
	server.mem = aligned_alloc(4096, ROOM);
	memset(server.mem, 0, ROOM);
	assert_int_equal(rdmamsg_region_create(server.ctx, server.mem, ROOM,
					       RDMAMSG_ACCESS_ATOMIC |
					       RDMAMSG_ACCESS_WRITE,
					       &server.region), 0);
	assert_int_equal(rdmamsg_region_get_key(server.region, server.ep, &key),
			 0);
	swaps = proofs = out = out_max = 0;
	memset(order, 0, sizeof(order));
	return 0;
}

static int set_up_software(void **state)
{
	has = NONE;
	return set_up(state);
}

static int set_up_native(void **state)
{
	has = ALL;
	return set_up(state);
}

#ifdef HAVE_MLX5DV

/* A card tells of no masked atomics, so the library tries them. */
static int set_up_raw(void **state)
{
	has = RAW;
	return set_up(state);
}

static int set_up_swapped(void **state)
{
	(void)setenv("RDMAMSG_SOFT_ATOMICS", "big-endian", 1);
	return set_up_raw(state);
}

/* A host that gives this thread the processor too late for the trial's limit. */
static int set_up_busy(void **state)
{
	int ret;

	test_stands_ms = 150;
	ret = set_up_raw(state);
	test_stands_ms = 0;
	return ret;
}

/* A card that completes no masked atomic. */
static int set_up_mute(void **state)
{
	int ret;

	test_mute = true;
	ret = set_up_raw(state);
	test_mute = false;
	return ret;
}

static int set_up_plain(void **state)
{
	(void)setenv("RDMAMSG_SOFT_ATOMICS", "plain", 1);
	return set_up_raw(state);
}

#endif

static int tear_down(void **state)
{
	(void)unsetenv("RDMAMSG_SOFT_ATOMICS");
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	free(server.mem);
	return 0;
}

/* Adds 1, with a cookie. */
static int add(uint64_t *result)
{
	static const uint64_t one = 1;

	return post_add_fields(client.ep, &key, 0, 8, &one, NULL, result, 0,
			       &client);
}

/* ---- tries ------------------------------------------------------------ */

static void add__to_a_word_of_0_ONE_TRY(void **state)
{
	uint64_t was = 5;

	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(was, 0);
	assert_int_equal(*word(), 1);
	assert_int_equal(swaps, 1);
}

static void add__to_another_word_TWO_TRIES(void **state)
{
	uint64_t was = 5;

	*word() = 41;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(was, 41);
	assert_int_equal(*word(), 42);
	assert_int_equal(swaps, 2);
}

/* If the answer tells that nothing changes, no further try follows. */
static void swap__that_finds_another_value_ONE_TRY(void **state)
{
	const uint64_t expected = 7, desired = 8;
	const struct post_swap swap = {
		.expected = &expected, .desired = &desired,
	};
	uint64_t was = 5;

	*word() = 9;
	assert_int_equal(post_masked_swap(client.ep, &key, 0, 8, &swap, &was, 0,
					  &client),
			 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(was, 9);
	assert_int_equal(*word(), 9);
	assert_int_equal(swaps, 1);
}

static void rivals__some_ENDS(void **state)
{
	uint64_t was = 5;

	rivals = 10;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(*word(), was + 1);
	assert_int_equal(swaps, 11);
	assert_int_equal(out_max, 1);
}

/* The operation gives up, and the endpoint goes on. */
static void rivals__always_EBUSY(void **state)
{
	uint64_t was = 5;

	rivals = UINT32_MAX;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, -EBUSY);
	assert_int_equal(was, 5);
	assert_int_equal(swaps, MASKED_TRIES);
	rivals = 0;
	assert_int_equal(add(&was), 0);
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(client.sent == 2 && server.messages == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(*word(), was + 1);
	assert_false(client.closed || server.closed);
}

/* Later operations and messages wait in the queue, and the queue empties. */
static void queue__empty_again_FAST_PATHS_AGAIN(void **state)
{
	uint8_t ways = client.ep->onesided.ways;

	assert_true(ways);
	*word() = 1;
	for (int i = 0; i < 3; i++)
		assert_int_equal(add(NULL), 0);
	assert_int_equal(client.ep->send.queued, 3);
	assert_int_equal(client.ep->onesided.ways, 0);
	WAIT_FOR(client.sent == 3);
	assert_int_equal(client.ep->send.queued, 0);
	assert_int_equal(out_max, 1);
	assert_int_equal(client.ep->onesided.ways, ways);
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(server.messages == 1);
}

/* One more than the endpoint takes is refused, and on_writable follows. */
static void queue__full_EAGAIN_THEN_WRITABLE(void **state)
{
	unsigned int n = 0;
	int ret;

	while (!(ret = add(NULL)))
		n++;
	assert_int_equal(ret, -EAGAIN);
	assert_in_range(n, 1, RMA_MAX);
	WAIT_FOR(client.writable);
	assert_int_equal(add(NULL), 0);
	WAIT_FOR(client.sent == n + 1);
	assert_int_equal(*word(), n + 1);
}

/* ---- failures --------------------------------------------------------- */

static void post__fails_ENDS_ONCE(void **state)
{
	uint64_t was = 5;

	broken = true;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.closed);
	broken = false;
	assert_int_equal(client.sent, 1);
	assert_int_equal(client.status, -ECANCELED);
	assert_int_equal(was, 5);
	assert_int_equal(*word(), 0);
}

static void post__of_a_later_try_fails_ENDS_ONCE(void **state)
{
	uint64_t was = 5;

	rivals = 5;
	assert_int_equal(add(&was), 0);
	assert_int_equal(add(&was), 0);
	while (swaps < 3)
		both();
	broken = true;
	WAIT_FOR(client.closed);
	broken = false;
	assert_int_equal(client.sent, 2);
	assert_int_equal(client.status, -ECANCELED);
	assert_int_equal(was, 5);
}

static void try__refused_by_the_peer_ACCESS(void **state)
{
	uint64_t was = 5;

	rivals = 5;
	fails_at = 3;
	assert_int_equal(add(&was), 0);
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(client.sent, 2);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(swaps, 3);
	assert_int_equal(was, 5);
}

/* On a device with doubtful answers, a write behind the last try proves it. */
static void doubt__about_the_answer_IS_PROVEN(void **state)
{
	uint64_t was = 5;

	client.ep->lane.doubts_reads = true;
	*word() = 41;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(was, 41);
	assert_int_equal(*word(), 42);
	assert_int_equal(swaps, 2);
	assert_int_equal(proofs, 1);
}

static void doubt__without_a_proof_FAILS(void **state)
{
	uint64_t was = 5;

	client.ep->lane.doubts_reads = proof_fails = true;
	*word() = 41;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(client.sent, 1);
	assert_true(client.status < 0);
	assert_int_equal(was, 5);
}

/* ---- by the device ----------------------------------------------------- */

static void native__operation_ONE_REQUEST(void **state)
{
	uint64_t was = 5;

	*word() = 41;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(was, 41);
	assert_int_equal(*word(), 42);
	assert_string_equal(order, "m");
	assert_int_equal(client.ep->send.queued, 0);
}

/* The batch is posted in front of it, and the fence is its own. */
static void native__among_others_KEEPS_THE_ORDER(void **state)
{
	static const uint64_t one = 1;
	struct rdmamsg_sge s = { (void *)(uintptr_t)&one, 8, NULL };

	client.ctx->loop.in_callback++;
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &key, 8, 0, NULL), 0);
	assert_int_equal(add(NULL), 0);
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	assert_int_equal(post_add_fields(client.ep, &key, 0, 8, &one, NULL,
					 NULL, RDMAMSG_FENCE, &client),
			 0);
	client.ctx->loop.in_callback--;
	rdmamsg__tx_flush(client.ctx);
	WAIT_FOR(client.sent == 2 && server.messages == 2);
	order[5] = '\0';		/* credits may follow */
	assert_string_equal(order, "swmsM");
	assert_int_equal(*word(), 2);
}

static void native__without_a_buffer_WRITABLE_WITH_ONE(void **state)
{
	static struct rdmamsg_msg *msgs[4096];
	size_t limit, n = 0;

	/* the first operation allocates what all need */
	assert_int_equal(add(NULL), 0);
	WAIT_FOR(client.sent == 1);
	limit = client.ctx->memory->budget[DIR_OUT].cap;
	client.ctx->memory->budget[DIR_OUT].cap =
		client.ctx->memory->budget[DIR_OUT].used;
	while (n < 4096 && !rdmamsg_msg_alloc(client.ep, 4000, &msgs[n]))
		n++;
	assert_in_range(n, 1, 4095);
	assert_int_equal(add(NULL), -EAGAIN);
	rdmamsg_msg_free(msgs[--n]);
	WAIT_FOR(client.writable);
	assert_int_equal(add(NULL), 0);
	WAIT_FOR(client.sent == 2);
	assert_int_equal(*word(), 2);
	while (n)
		rdmamsg_msg_free(msgs[--n]);
	client.ctx->memory->budget[DIR_OUT].cap = limit;
}

/* With a full send queue the operations wait, and each begins once. */
static void native__queue_full_EAGAIN_THEN_WRITABLE(void **state)
{
	queue__full_EAGAIN_THEN_WRITABLE(state);
	assert_int_equal(swaps, 0);
}

#ifdef HAVE_MLX5DV

/* ---- found by trying --------------------------------------------------- */

static struct rdmamsg_masked_attr query(void)
{
	struct rdmamsg_masked_attr can = { .size = sizeof(can) };

	assert_int_equal(rdmamsg_ep_masked_query(client.ep, &can), 0);
	return can;
}

static void raw__small_operands_NATIVE(void **state)
{
	const uint64_t two[2] = { 1, 2 };
	const uint32_t half = 1;
	uint32_t was4 = 0;
	uint64_t was = 0;

	assert_int_equal(query().how, RDMAMSG_CAP_NATIVE);
	assert_int_equal(query().sizes, 4 | 8);
	assert_int_equal(query().unit, 4);
	*word() = 0x0102030405060708;
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(was, 0x0102030405060708);
	assert_int_equal(*word(), 0x0102030405060709);
	word()[1] = 0x11223344;
	assert_int_equal(post_add_fields(client.ep, &key, 8, 4, &half, NULL,
					 &was4, 0, &client),
			 0);
	WAIT_FOR(client.sent == 2);
	assert_int_equal(was4, 0x11223344);
	assert_int_equal(word()[1], 0x11223345);
	assert_string_equal(order, "mm");
	assert_int_equal(post_add_fields(client.ep, &key, 16, 16, two, NULL,
					 NULL, 0, &client),
			 -EOPNOTSUPP);
	assert_non_null(strstr(rdmamsg_error(), "4 and 8 bytes"));
	assert_int_equal(client.closed, 0);
}

static void raw__refused_when_tried_IN_SOFTWARE(void **state)
{
	uint64_t was = 5;

	assert_int_equal(query().how, RDMAMSG_CAP_SOFTWARE);
	assert_int_equal(add(&was), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(was, 0);
	assert_int_equal(swaps, 1);
}

/* The trial ends long before one request would be given up. */
static void raw__never_completes_LOOP_GOES_ON_IN_SOFTWARE(void **state)
{
	assert_true(connect_ms < 5000);
	raw__refused_when_tried_IN_SOFTWARE(state);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up_software, tear_down)
#define N(f) cmocka_unit_test_setup_teardown(f, set_up_native, tear_down)
		T(add__to_a_word_of_0_ONE_TRY),
		T(add__to_another_word_TWO_TRIES),
		T(swap__that_finds_another_value_ONE_TRY),
		T(rivals__some_ENDS),
		T(rivals__always_EBUSY),
		T(queue__empty_again_FAST_PATHS_AGAIN),
		T(queue__full_EAGAIN_THEN_WRITABLE),
		T(post__fails_ENDS_ONCE),
		T(post__of_a_later_try_fails_ENDS_ONCE),
		T(try__refused_by_the_peer_ACCESS),
		T(doubt__about_the_answer_IS_PROVEN),
		T(doubt__without_a_proof_FAILS),
		N(native__operation_ONE_REQUEST),
		N(native__among_others_KEEPS_THE_ORDER),
		N(native__without_a_buffer_WRITABLE_WITH_ONE),
		N(native__queue_full_EAGAIN_THEN_WRITABLE),
#ifdef HAVE_MLX5DV
		cmocka_unit_test_setup_teardown(raw__small_operands_NATIVE,
						set_up_raw, tear_down),
		cmocka_unit_test_setup_teardown(raw__small_operands_NATIVE,
						set_up_swapped, tear_down),
		cmocka_unit_test_setup_teardown(raw__small_operands_NATIVE,
						set_up_busy, tear_down),
		cmocka_unit_test_setup_teardown(
			raw__refused_when_tried_IN_SOFTWARE, set_up_plain,
			tear_down),
		cmocka_unit_test_setup_teardown(
			raw__never_completes_LOOP_GOES_ON_IN_SOFTWARE,
			set_up_mute, tear_down),
#endif
		N(post__fails_ENDS_ONCE),
	};

	join_own_fabric("masked");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
