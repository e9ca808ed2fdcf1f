/* SPDX-License-Identifier: BSD-2-Clause */
/* Chains: each kind of step, orders that cannot end, and ends of runs. */
#include "common.h"
#include "../chain_send.h"
#include "../op_fields.h"

#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>

static struct pair p;
static struct rdmamsg_chain *chain, *other;	/* of the client, the server */
static struct {
	unsigned int count;
	struct rdmamsg_chain_end end;
} done[2];

static void on_done(struct rdmamsg_chain *c,
		    const struct rdmamsg_chain_end *end)
{
	int i = c == other;

	done[i].count++;
	done[i].end = *end;
}

static struct rdmamsg_chain *chain_of(struct end *e)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};
	const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .user = e, .handlers = &on,
	};
	struct rdmamsg_chain *c;

	assert_int_equal(rdmamsg_chain_create(e->ctx, &opts, &c), 0);
	assert_ptr_equal(rdmamsg_chain_user(c), e);
	return c;
}

/* The endpoints have no on_message: their messages wait for chains. */
static void start(void)
{
	memset(done, 0, sizeof(done));
	pair_init(&p, NULL);
	p.c.on.on_message = p.s.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	chain = chain_of(&p.c);
	other = chain_of(&p.s);
}

static void finish(void)
{
	rdmamsg_chain_destroy(chain);
	rdmamsg_chain_destroy(other);
	pair_close(&p);
	pair_fini(&p);
}

static void run_both(void)
{
	unsigned int c = done[0].count, s = done[1].count;

	assert_int_equal(rdmamsg_chain_post(chain), 0);
	assert_int_equal(rdmamsg_chain_post(other), 0);
	WAIT_FOR(done[0].count == c + 1 && done[1].count == s + 1);
	assert_string_equal(done[0].end.text, "");
	assert_int_equal(done[0].end.status, 0);
	assert_int_equal(done[1].end.status, 0);
}

/* ---- steps ------------------------------------------------------------ */

static void send_and_recv__all_sizes_IN_ORDER(void **state)
{
	static const size_t sizes[] = { 0, 1, 64, 241, 8176, 60000, 200000,
					1 << 20 };
	static uint8_t got[ARRAY_SIZE(sizes)][1 << 20];

	start();
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		assert_int_equal(chain_send(chain, 0, p.c.ep,
					    pattern(i), sizes[i],
					    i * 40000), i);
		assert_int_equal(rdmamsg_chain_recv(other, 0, p.s.ep, got[i],
						    sizes[i], i * 40000), i);
	}
	/* a chain can run again */
	for (int run = 0; run < 3; run++) {
		memset(got, 0, sizeof(got));
		run_both();
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
			assert_memory_equal(got[i], pattern(i), sizes[i]);
	}
	finish();
}

static void recv__messages_before_the_chain_KEPT(void **state)
{
	uint64_t got[3] = { 0 };

	start();
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(rdmamsg_send(p.c.ep, &i, 8, (uint32_t)i,
					      NULL), 0);
	test_drive(p.c.ctx);
	test_drive(p.s.ctx);
	for (uint32_t i = 0; i < 3; i++)
		rdmamsg_chain_recv(other, 0, p.s.ep, &got[i], 8, i);
	run_both();
	assert_int_equal(got[0] + got[1] * 10 + got[2] * 100, 210);
	finish();
}

static void recv__other_tag_or_length_EPROTO(void **state)
{
	uint8_t got[16];

	start();
	rdmamsg_chain_recv(other, 0, p.s.ep, got, 8, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdmamsg_chain_post(other), 0);
		assert_int_equal(rdmamsg_send(p.c.ep, "0123456789", 10 - 2 * i,
					      1 + i, NULL), 0);
		WAIT_FOR(done[1].count == i + 1u);
		assert_int_equal(done[1].end.status, -EPROTO);
		assert_int_equal(done[1].end.step, 0);
		assert_non_null(strstr(done[1].end.text,
				       "step 0 (receive of 8 bytes)"));
	}
	finish();
}

/* The first message is sent only after the second was received. */
static void wait__for_another_queue_ORDERS(void **state)
{
	uint64_t two = 2, got[3] = { 0 };

	start();
	rdmamsg_chain_wait(chain, 0, 1, 1);
	chain_send(chain, 0, p.c.ep, &got[0], 8, 1);
	rdmamsg_chain_recv(chain, 1, p.c.ep, &got[0], 8, 2);
	chain_send(other, 3, p.s.ep, &two, 8, 2);
	rdmamsg_chain_wait(other, 5, 3, 1);
	rdmamsg_chain_recv(other, 5, p.s.ep, &got[1], 8, 1);
	for (int run = 0; run < 2; run++) {
		memset(got, 0, sizeof(got));
		run_both();
		assert_int_equal(got[1], two);
	}
	finish();
}

/* Queue 1 is managed: two of its steps are enabled, and then the rest. */
static void enable__some_then_all_HOLDS(void **state)
{
	uint64_t x = 5, got[4] = { 0 };

	start();
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got[0], 8, 0);
	rdmamsg_chain_enable(chain, 0, 1, 2);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got[1], 8, 0);
	rdmamsg_chain_enable(chain, 0, 1, 0);
	for (uint32_t i = 0; i < 4; i++)
		chain_send(chain, 1, p.c.ep, &x, 8, i);
	for (uint32_t i = 0; i < 2; i++)
		rdmamsg_chain_recv(other, 0, p.s.ep, &got[2], 8, i);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	for (unsigned int i = 1; i < 3; i++) {
		assert_int_equal(rdmamsg_chain_post(other), 0);
		test_drive(p.c.ctx);
		test_drive(p.s.ctx);
		assert_int_equal(done[1].count, i - 1);
		assert_int_equal(rdmamsg_send(p.s.ep, &x, 8, 0, NULL), 0);
		if (i == 2) {
			WAIT_FOR(done[1].count == 2);
			break;
		}
		WAIT_FOR(done[1].count == 1);
		assert_int_equal(done[1].end.status, 0);
	}
	/* the last two have other tags */
	assert_int_equal(done[1].end.status, -EPROTO);
	assert_non_null(strstr(done[1].end.text, "tag 2 instead of 8 bytes "
			       "with tag 0"));
	WAIT_FOR(done[0].count == 1);
	assert_int_equal(done[0].end.status, 0);
	finish();
}

/*
 * Queue 1 receives, and is managed. Both messages are there before the run. The
 * calculation of queue 0 sees that the second was held.
 */
static void enable__of_receives_HOLDS(void **state)
{
	const uint64_t x[2] = { 11, 12 }, none = 0;
	uint64_t got[3] = { 0, 7, 0 };

	start();
	rdmamsg_chain_enable(chain, 0, 1, 1);
	rdmamsg_chain_wait(chain, 0, 1, 1);
	rdmamsg_chain_calc(chain, 0, RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT,
			   &got[2], &got[1], &none, 1);
	rdmamsg_chain_enable(chain, 0, 1, 0);
	rdmamsg_chain_recv(chain, 1, p.c.ep, &got[0], 8, 1);
	rdmamsg_chain_recv(chain, 1, p.c.ep, &got[1], 8, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(rdmamsg_send(p.s.ep, &x[i], 8, 1 + i, NULL),
				 0);
	WAIT_FOR(end_stats(&p.c).msgs_received == 2);
	assert_int_equal(rdmamsg_chain_run(chain, WAIT_MS), 0);
	assert_int_equal(got[0], x[0]);
	assert_int_equal(got[1], x[1]);
	assert_int_equal(got[2], 7);
	/* without the second enabling, the receive waits */
	got[1] = 7;
	rdmamsg_chain_destroy(chain);
	chain = chain_of(&p.c);
	rdmamsg_chain_enable(chain, 0, 1, 1);
	rdmamsg_chain_recv(chain, 1, p.c.ep, &got[0], 8, 1);
	rdmamsg_chain_recv(chain, 1, p.c.ep, &got[1], 8, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(rdmamsg_send(p.s.ep, &x[i], 8, 1 + i, NULL),
				 0);
	assert_error(rdmamsg_chain_post(chain), -EDEADLK, "step 2");
	assert_int_equal(got[1], 7);
	finish();
}

/* ---- calculations ----------------------------------------------------- */

static uint64_t bits(double d)
{
	uint64_t x;

	memcpy(&x, &d, 8);
	return x;
}

#define NAN_1	0x7ff8000000000001ull
#define NAN_2	0xfff8000000000002ull

/* Operands, and the expected results of ADD, AND, OR, XOR, MIN, MAX. */
static const struct {
	enum rdmamsg_calc_type type;
	uint64_t a, b, want[6];
} calcs[] = {
	{ RDMAMSG_CALC_INT, 7, 5, { 12, 5, 7, 2, 5, 7 } },
	{ RDMAMSG_CALC_INT, -7ull, 5, { -2ull, 1, -3ull, -4ull, -7ull, 5 } },
	{ RDMAMSG_CALC_INT, INT64_MAX, 1,
	  { 1ull << 63, 1, INT64_MAX, INT64_MAX - 1, 1, INT64_MAX } },
	{ RDMAMSG_CALC_UINT, -7ull, 5, { -2ull, 1, -3ull, -4ull, 5, -7ull } },
	{ RDMAMSG_CALC_UINT, UINT64_MAX, UINT64_MAX,
	  { UINT64_MAX - 1, UINT64_MAX, UINT64_MAX, 0, UINT64_MAX,
	    UINT64_MAX } },
	/* 1.5, 2.5 */
	{ RDMAMSG_CALC_DOUBLE, 0x3ff8ull << 48, 0x4004ull << 48,
	  { 0x4010ull << 48, 0, 0x7ffcull << 48, 0x7ffcull << 48,
	    0x3ff8ull << 48, 0x4004ull << 48 } },
	/* 0.1, 0.2: the sum is rounded */
	{ RDMAMSG_CALC_DOUBLE, 0x3fb999999999999aull, 0x3fc999999999999aull,
	  { 0x3fd3333333333334ull, 0x3f8999999999999aull,
	    0x3ff999999999999aull, 0x0070000000000000ull,
	    0x3fb999999999999aull, 0x3fc999999999999aull } },
	/* -0, +0 */
	{ RDMAMSG_CALC_DOUBLE, 1ull << 63, 0,
	  { 0, 0, 1ull << 63, 1ull << 63, 1ull << 63, 0 } },
	/* -2, -1 */
	{ RDMAMSG_CALC_DOUBLE, 0xc000ull << 48, 0xbff0ull << 48,
	  { 0xc008ull << 48, 0x8000ull << 48, 0xfff0ull << 48, 0x7ff0ull << 48,
	    0xc000ull << 48, 0xbff0ull << 48 } },
	{ RDMAMSG_CALC_DOUBLE, NAN_1, 0, { NAN_1, 0, NAN_1, NAN_1, NAN_1,
	  NAN_1 } },
	{ RDMAMSG_CALC_DOUBLE, 0, NAN_2, { NAN_2, 0, NAN_2, NAN_2, NAN_2,
	  NAN_2 } },
	{ RDMAMSG_CALC_DOUBLE, NAN_2, NAN_1,
	  { NAN_2, NAN_1 & NAN_2, NAN_1 | NAN_2, NAN_1 ^ NAN_2, NAN_2,
	    NAN_2 } },
	/* infinities: the sum is the one NaN that the library makes */
	{ RDMAMSG_CALC_DOUBLE, 0x7ff0ull << 48, 0xfff0ull << 48,
	  { 0x7ff8ull << 48, 0x7ff0ull << 48, 0xfff0ull << 48, 1ull << 63,
	    0xfff0ull << 48, 0x7ff0ull << 48 } },
};

static void calc__each_operation_and_type_BITS(void **state)
{
	uint64_t got[ARRAY_SIZE(calcs)][6];

	start();
	assert_int_equal(bits(0.1), calcs[6].a);
	for (uint32_t i = 0; i < ARRAY_SIZE(calcs); i++)
		for (int op = 0; op < 6; op++)
			assert_true(rdmamsg_chain_calc(chain, 0, op,
						       calcs[i].type,
						       &got[i][op],
						       &calcs[i].a,
						       &calcs[i].b, 1) >= 0);
	assert_int_equal(rdmamsg_chain_run(chain, WAIT_MS), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(calcs); i++)
		for (int op = 0; op < 6; op++)
			if (got[i][op] != calcs[i].want[op])
				fail_msg("line %u, operation %d: %llx", i, op,
					 (unsigned long long)got[i][op]);
	finish();
}

/* The result of a calculation on what has arrived goes back. */
static void calc__received_operand_in_place_SENT(void **state)
{
	enum { N = 1000 };
	static uint64_t mine[N], theirs[N], got[N];

	start();
	for (int i = 0; i < N; i++) {
		theirs[i] = (uint64_t)i;
		mine[i] = 1000;
	}
	chain_send(chain, 0, p.c.ep, theirs, sizeof(theirs), 0);
	rdmamsg_chain_recv(chain, 0, p.c.ep, got, sizeof(got), 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, got, sizeof(got), 0);
	rdmamsg_chain_calc(other, 0, RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT, mine,
			   got, mine, N);
	chain_send(other, 0, p.s.ep, mine, sizeof(mine), 0);
	run_both();
	for (int i = 0; i < N; i++)
		assert_int_equal(got[i], 1000 + i);
	finish();
}

/* ---- orders that cannot end ------------------------------------------- */

static void assert_refused(const char *text)
{
	assert_error(rdmamsg_chain_post(chain), -EDEADLK, text);
	/* nothing was posted */
	test_drive(p.c.ctx);
	assert_int_equal(end_stats(&p.c).msgs_sent, 0);
	assert_int_equal(done[0].count, 0);
	rdmamsg_chain_destroy(chain);
	chain = chain_of(&p.c);
	chain_send(chain, 9, p.c.ep, "x", 1, 0);
}

static void post__cycle_or_impossible_order_EDEADLK(void **state)
{
	start();
	chain_send(chain, 9, p.c.ep, "x", 1, 0);
	/* of three, behind a step that is none of them */
	rdmamsg_chain_wait(chain, 0, 1, 2);
	rdmamsg_chain_wait(chain, 1, 9, 1);
	rdmamsg_chain_wait(chain, 1, 2, 1);
	rdmamsg_chain_wait(chain, 2, 3, 1);
	rdmamsg_chain_wait(chain, 3, 1, 2);
	assert_refused("a cycle: step 3 (wait for 1 of queue 2) waits for "
		       "step 4 (wait for 1 of queue 3) waits for "
		       "step 5 (wait for 2 of queue 1) waits for step 3");
	rdmamsg_chain_wait(chain, 0, 0, 1);
	assert_refused("step 1 (wait for 1 of queue 0) waits for step 1");
	rdmamsg_chain_wait(chain, 0, 9, 2);
	assert_refused("step 1 (wait for 2 of queue 9) of queue 0 cannot end: "
		       "queue 9 has 1 steps");
	rdmamsg_chain_enable(chain, 1, 9, 0);
	rdmamsg_chain_enable(chain, 1, 1, 0);
	assert_refused("step 1 (enable 0 of queue 9) waits for step 1");
	/* the second step of queue 5 is never enabled */
	rdmamsg_chain_wait(chain, 5, 9, 1);
	rdmamsg_chain_wait(chain, 5, 9, 1);
	rdmamsg_chain_enable(chain, 6, 5, 1);
	assert_refused("nothing enables step 2 (wait for 1 of queue 9) of "
		       "queue 5");
	/* the step that would enable waits for what it enables */
	rdmamsg_chain_wait(chain, 0, 9, 1);
	rdmamsg_chain_wait(chain, 1, 0, 1);
	rdmamsg_chain_enable(chain, 1, 0, 0);
	assert_refused("a cycle: step 1 (wait for 1 of queue 9) waits for "
		       "step 2 (wait for 1 of queue 0) waits for step 1");
	finish();
}

static void post__long_cycle_TEXT_ENDS(void **state)
{
	start();
	chain_send(chain, 63, p.c.ep, "x", 1, 0);
	for (uint32_t i = 0; i < 63; i++)
		rdmamsg_chain_wait(chain, i, (i + 1) % 63, 1);
	assert_error(rdmamsg_chain_post(chain), -EDEADLK, "waits for ...");
	finish();
}

static int add_step(void *c, const struct rdmamsg_op *op)
{
	return rdmamsg_chain_add(c, 0, p.c.ep, op);
}

static void operation__that_no_step_does_IS_REFUSED(void **state)
{
	struct rdmamsg_sge s[2] = { { "x", 1, NULL }, { "y", 1, NULL } };
	struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = s,
		.count = 2,
	};

	start();
	for (uint32_t k = RDMAMSG_OP_WRITE; k <= RDMAMSG_OP_FLUSH; k++)
		op_kind_refused(add_step, chain, k);
	op_fields_refused(add_step, chain, op, " flags cookie imm width key "
			  "offset layout len operand compare mask "
			  "compare_mask result ");
	assert_error(add_step(chain, &op), -EOPNOTSUPP, "2 entries");
	assert_error(add_step(chain, NULL), -EINVAL, "op is NULL");
	op.count = 1;
	s[0].region = (struct rdmamsg_region *)s;
	assert_error(add_step(chain, &op), -EINVAL, "from a region");
	op.sge = NULL;
	assert_error(add_step(chain, &op), -EINVAL, "sge is NULL");
	op.kind = 7;
	assert_error(add_step(chain, &op), -EINVAL, "no kind 7");
	/* nothing was appended; an empty message needs no entry */
	op.kind = RDMAMSG_OP_SEND;
	op.count = 0;
	assert_int_equal(add_step(chain, &op), 0);
	finish();
}

static void build__arguments_EINVAL(void **state)
{
	uint64_t x = 0;
	struct rdmamsg_chain *c = chain;
	struct rdmamsg_ep *ep;

	start();
	c = chain;
	ep = p.c.ep;
	assert_error(rdmamsg_chain_create(NULL, NULL, &c), -EINVAL, "ctx");
	assert_error(rdmamsg_chain_create(p.c.ctx, NULL, NULL), -EINVAL, "ret");
	assert_error(chain_send(NULL, 0, ep, &x, 8, 0), -EINVAL,
		     "NULL");
	assert_error(chain_send(c, 64, ep, &x, 8, 0), -EINVAL,
		     "queue 64");
	assert_error(chain_send(c, 0, NULL, &x, 8, 0), -EINVAL,
		     "endpoint");
	assert_error(chain_send(c, 0, ep, NULL, 8, 0), -EINVAL,
		     "data is NULL");
	assert_error(rdmamsg_chain_recv(c, 0, ep, NULL, 8, 0), -EINVAL, "buf");
	assert_error(chain_send(c, 0, p.s.ep, &x, 8, 0), -EINVAL,
		     "another context");
	assert_error(rdmamsg_chain_wait(c, 0, 64, 1), -EINVAL, "queue 64");
	assert_error(rdmamsg_chain_enable(c, 64, 0, 1), -EINVAL, "queue 64");
	assert_error(rdmamsg_chain_calc(c, 0, 6, 0, &x, &x, &x, 1), -EINVAL,
		     "operation 6");
	assert_error(rdmamsg_chain_calc(c, 0, 0, 3, &x, &x, &x, 1), -EINVAL,
		     "type 3");
	assert_error(rdmamsg_chain_calc(c, 0, 0, 0, NULL, &x, &x, 1), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_chain_calc(c, 0, 0, 0, &x, &x, &x, SIZE_MAX / 8 +
					1), -EINVAL, "count");
	assert_error(rdmamsg_chain_post(NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_chain_run(NULL, 0), -EINVAL, "NULL");
	rdmamsg_chain_cancel(NULL);
	rdmamsg_chain_cancel(c);
	rdmamsg_chain_destroy(NULL);
	/* the messages of an endpoint have one order */
	assert_int_equal(chain_send(c, 0, ep, &x, 8, 0), 0);
	assert_error(chain_send(c, 1, ep, &x, 8, 0), -EINVAL,
		     "queue 0 sends on this endpoint already");
	assert_int_equal(rdmamsg_chain_recv(c, 1, ep, &x, 8, 0), 1);
	assert_error(rdmamsg_chain_recv(c, 2, ep, &x, 8, 0), -EINVAL,
		     "queue 1 receives from this endpoint already");
	/* too large for the peer, or for this side */
	chain_send(other, 0, p.s.ep, &x, SIZE_MAX, 0);
	assert_error(rdmamsg_chain_post(other), -EMSGSIZE,
		     "step 0 (send of");
	rdmamsg_chain_recv(c, 1, ep, &x, SIZE_MAX, 0);
	assert_error(rdmamsg_chain_post(c), -EMSGSIZE, "step 2 (receive of");
	finish();
}

static void build__too_many_steps_ENOSPC(void **state)
{
	start();
	for (uint32_t i = 0; i < RDMAMSG_CHAIN_STEPS; i++)
		assert_int_equal(rdmamsg_chain_wait(chain, i % 64, 0, 0), i);
	assert_error(rdmamsg_chain_wait(chain, 0, 0, 0), -ENOSPC, "65536");
	assert_int_equal(rdmamsg_chain_run(chain, WAIT_MS), 0);
	finish();
}

static void post__while_it_runs_EBUSY(void **state)
{
	uint64_t x = 3, got;
	struct rdmamsg_chain *second;

	start();
	second = chain_of(&p.c);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got, 8, 0);
	chain_send(second, 0, p.c.ep, &x, 8, 0);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	assert_error(rdmamsg_chain_post(chain), -EBUSY, "runs");
	assert_error(rdmamsg_chain_wait(chain, 0, 0, 0), -EBUSY, "runs");
	assert_error(rdmamsg_chain_post(second), -EBUSY, "chain that runs");
	/* the program can send on the endpoint of a chain */
	assert_int_equal(rdmamsg_send(p.c.ep, &x, 8, 0, NULL), 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, &x, 8, 0);
	chain_send(other, 0, p.s.ep, &x, 8, 0);
	assert_int_equal(rdmamsg_chain_post(other), 0);
	WAIT_FOR(done[0].count && done[1].count);
	assert_int_equal(got, 3);
	rdmamsg_chain_destroy(second);
	finish();
}

/* ---- ends of runs ----------------------------------------------------- */

static void cancel__message_of_the_step_STAYS(void **state)
{
	uint64_t x = 9, got = 0;

	start();
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got, 8, 0);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	rdmamsg_chain_cancel(chain);
	assert_int_equal(done[0].count, 0);
	assert_error(rdmamsg_chain_post(chain), -EBUSY, "on_done");
	WAIT_FOR(done[0].count == 1);
	assert_int_equal(done[0].end.status, -ECANCELED);
	assert_int_equal(rdmamsg_send(p.s.ep, &x, 8, 0, NULL), 0);
	test_drive(p.s.ctx);
	test_drive(p.c.ctx);
	assert_int_equal(got, 0);
	assert_int_equal(rdmamsg_chain_run(chain, WAIT_MS), 0);
	assert_int_equal(got, 9);
	finish();
}

static void run__nothing_comes_ETIMEDOUT(void **state)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = on_done,
	};
	const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .handlers = &on, .timeout_ms = 1,
	};
	uint64_t got;

	start();
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got, 8, 0);
	assert_error(rdmamsg_chain_run(chain, 1), -ETIMEDOUT, "not ended");
	assert_int_equal(done[0].count, 0);
	/* it has ended, and can be posted again */
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	rdmamsg_chain_destroy(chain);
	assert_int_equal(rdmamsg_chain_create(p.c.ctx, &opts, &chain), 0);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got, 8, 0);
	assert_error(rdmamsg_chain_run(chain, -1), -ETIMEDOUT, "timeout_ms");
	assert_int_equal(done[0].count, 1);
	assert_int_equal(done[0].end.status, -ETIMEDOUT);
	finish();
}

/* how: 0 the peer closes, 1 the peer aborts, 2 this side aborts */
static void ends_in_the_middle(int how, int error)
{
	uint64_t x = 4, got[3] = { 0 };

	start();
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got[0], 8, 0);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got[1], 8, 0);
	rdmamsg_chain_wait(chain, 1, 0, 2);
	chain_send(chain, 1, p.c.ep, &got[1], 8, 0);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	assert_int_equal(rdmamsg_send(p.s.ep, &x, 8, 0, NULL), 0);
	WAIT_FOR(got[0] == 4);
	if (how)
		rdmamsg_ep_abort(how == 1 ? p.s.ep : p.c.ep);
	else
		rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(done[0].count && p.c.closed && p.s.closed);
	assert_int_equal(done[0].end.status, error);
	assert_int_equal(done[0].end.step, 1);
	assert_non_null(strstr(done[0].end.text, p.c.why.text));
	assert_error(rdmamsg_chain_post(chain), -ESHUTDOWN, "has ended");
	rdmamsg_chain_destroy(chain);
	rdmamsg_chain_destroy(other);
	pair_fini(&p);
}

static void close__by_the_peer_in_the_middle_ESHUTDOWN(void **state)
{
	ends_in_the_middle(0, -ESHUTDOWN);
}

static void abort__by_the_peer_in_the_middle_ECONNRESET(void **state)
{
	ends_in_the_middle(1, -ECONNRESET);
}

static void abort__in_the_middle_ECANCELED(void **state)
{
	ends_in_the_middle(2, -ECANCELED);
}

/*
 * The peer of one endpoint has no more steps, so it may close before this side
 * is done: the run waits for another endpoint.
 */
static void close__peer_has_sent_all_OK(void **state)
{
	uint64_t x = 4, got[3] = { 0 };
	struct {
		struct rdmamsg_ep *c, *s;
	} stays;
	struct rdmamsg_ep *closes;

	start();
	closes = p.s.ep;
	for (int i = 0; i < 2; i++)
		rdmamsg_chain_recv(chain, 0, p.c.ep, &got[i], 8, 0);
	p.c.connected = p.s.connected = 0;
	pair_connect(&p);
	stays.c = p.c.ep;
	stays.s = p.s.ep;
	rdmamsg_chain_recv(chain, 1, stays.c, &got[2], 8, 0);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rdmamsg_send(closes, &x, 8, 0, NULL), 0);
	rdmamsg_ep_close(closes);
	WAIT_FOR(p.c.closed == 1 && p.s.closed == 1);
	assert_int_equal(done[0].count, 0);
	p.c.closed = p.s.closed = 0;
	p.c.ep = stays.c;
	p.s.ep = stays.s;
	assert_int_equal(rdmamsg_send(p.s.ep, &x, 8, 0, NULL), 0);
	WAIT_FOR(done[0].count);
	assert_string_equal(done[0].end.text, "");
	assert_int_equal(done[0].end.status, 0);
	assert_true(got[0] == 4 && got[1] == 4 && got[2] == 4);
	rdmamsg_chain_destroy(chain);
	rdmamsg_chain_destroy(other);
	pair_close(&p);
	pair_fini(&p);
}

static void context_close__chain_runs_ECANCELED(void **state)
{
	uint64_t got;

	start();
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got, 8, 0);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	rdmamsg_chain_destroy(other);
	test_close(p.c.ctx);
	assert_int_equal(done[0].count, 1);
	assert_int_equal(done[0].end.status, -ECANCELED);
	p.c.ctx = NULL;
	WAIT_FOR(p.s.closed);
	pair_fini(&p);
}

static unsigned int left;

static void free_or_post(struct rdmamsg_chain *c,
			 const struct rdmamsg_chain_end *end)
{
	if (--left) {
		assert_int_equal(rdmamsg_chain_post(c), 0);
		return;
	}
	rdmamsg_chain_destroy(c);
}

/* Each run ends at once. The loop goes on between them. */
static void on_done__posts_again_and_frees(void **state)
{
	static const struct rdmamsg_chain_handlers on = {
		.size = sizeof(on), .on_done = free_or_post,
	};
	const struct rdmamsg_chain_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg_chain *c;
	uint64_t x = 1, sum = 0;
	unsigned int calls = 0;

	start();
	assert_int_equal(rdmamsg_chain_create(p.c.ctx, &opts, &c), 0);
	rdmamsg_chain_calc(c, 0, RDMAMSG_CALC_ADD, RDMAMSG_CALC_INT, &sum,
			   &sum, &x, 1);
	left = 1000;
	assert_int_equal(rdmamsg_chain_post(c), 0);
	while (left) {
		assert_true(rdmamsg_wait(p.c.ctx, WAIT_MS) > 0);
		calls++;
	}
	assert_int_equal(sum, 1000);
	assert_true(calls > 1);
	/* in a blocking call, too */
	assert_int_equal(rdmamsg_chain_create(p.c.ctx, &opts, &c), 0);
	left = 1;
	assert_int_equal(rdmamsg_chain_run(c, WAIT_MS), 0);
	finish();
}

static struct rdmamsg_device_cap_attr ask(enum rdmamsg_cap_id id)
{
	struct rdmamsg_device_cap_attr cap = { .size = sizeof(cap) };

	assert_int_equal(rdmamsg_device_cap_query(test_device(), id, &cap), 0);
	assert_int_equal(cap.tried, 1);
	return cap;
}

/*
 * The soft HCA has requests of chains, if it has what libmlx5 has. Over packets
 * it has them as well, but not DC.
 */
static void caps__tell_the_path(void **state)
{
	const bool native = !strcmp(test_kind(), "soft") &&
			    (test_over_packets() ||
			     ask(RDMAMSG_CAP_DC).how == RDMAMSG_CAP_NATIVE);
	struct rdmamsg_device_cap_attr cap = ask(RDMAMSG_CAP_CHAINS);

	assert_int_equal(cap.how, native ? RDMAMSG_CAP_NATIVE :
			 RDMAMSG_CAP_SOFTWARE);
	assert_int_equal(cap.value, native);
	assert_non_null(strstr(cap.reason, "the loop"));
	assert_non_null(strstr(cap.reason, native ? "worked" : ": "));
}

static const struct CMUnitTest tests[] = {
	TEST(send_and_recv__all_sizes_IN_ORDER),
	TEST(recv__messages_before_the_chain_KEPT),
	TEST(recv__other_tag_or_length_EPROTO),
	TEST(wait__for_another_queue_ORDERS),
	TEST(enable__some_then_all_HOLDS),
	TEST(enable__of_receives_HOLDS),
	TEST(calc__each_operation_and_type_BITS),
	TEST(calc__received_operand_in_place_SENT),
	TEST(post__cycle_or_impossible_order_EDEADLK),
	TEST(post__long_cycle_TEXT_ENDS),
	TEST(operation__that_no_step_does_IS_REFUSED),
	TEST(build__arguments_EINVAL),
	TEST(build__too_many_steps_ENOSPC),
	TEST(post__while_it_runs_EBUSY),
	TEST(cancel__message_of_the_step_STAYS),
	TEST(run__nothing_comes_ETIMEDOUT),
	TEST(close__by_the_peer_in_the_middle_ESHUTDOWN),
	TEST(abort__by_the_peer_in_the_middle_ECONNRESET),
	TEST(abort__in_the_middle_ECANCELED),
	TEST(close__peer_has_sent_all_OK),
	TEST(context_close__chain_runs_ECANCELED),
	TEST(on_done__posts_again_and_frees),
	TEST(caps__tell_the_path),
};

static const struct role roles[] = { { NULL } };

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
