/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chains as requests of the device, beside the same chains in the loop. The
 * cases of both paths expect the same.
 */
#include "chain_pair.h"
#include "harm.h"
#include "mesh.h"

#include <poll.h>

#define AGAIN	200u	/* runs that on_done posts */

/* ---- steps ------------------------------------------------------------ */

static void send_and_recv(uint32_t how)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 64, 241, 4095, 4096 };
	static uint8_t got[ARRAY_SIZE(sizes)][4096];

	start(how);
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		assert_int_equal(chain_send(chain, 0, p.c.ep,
					    pattern(i), sizes[i],
					    i * 400000000), i);
		assert_int_equal(rdmamsg_chain_recv(other, 0, p.s.ep, got[i],
						    sizes[i], i * 400000000),
				 i);
	}
	if (how == RDMAMSG_CHAIN_NATIVE)
		assert_int_equal(rdmamsg_chain_path(chain),
				 RDMAMSG_CHAIN_AUTO);
	for (int run = 0; run < 50; run++) {
		memset(got, 0, sizeof(got));
		run_both();
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
			assert_memory_equal(got[i], pattern(i), sizes[i]);
	}
	finish();
}

/* The first message is sent only after the second was received. */
static void wait_orders(uint32_t how)
{
	uint64_t two = 2, got[3] = { 0 };

	start(how);
	rdmamsg_chain_wait(chain, 0, 1, 1);
	chain_send(chain, 0, p.c.ep, &got[0], 8, 1);
	rdmamsg_chain_recv(chain, 1, p.c.ep, &got[0], 8, 2);
	chain_send(other, 3, p.s.ep, &two, 8, 2);
	rdmamsg_chain_wait(other, 5, 3, 1);
	rdmamsg_chain_recv(other, 5, p.s.ep, &got[1], 8, 1);
	for (int run = 0; run < 20; run++) {
		memset(got, 0, sizeof(got));
		two = 2 + (uint64_t)run;
		run_both();
		assert_int_equal(got[1], two);
	}
	finish();
}

/*
 * Queue 1 is managed: each message that comes enables two more of its steps.
 * Its numbers are what the peer has added to what it got.
 */
static void enable_holds(uint32_t how)
{
	uint64_t x[2] = { 5, 6 }, one = 1, got[3], sent[4], back[4];

	start(how);
	for (uint32_t i = 0; i < 2; i++) {
		rdmamsg_chain_recv(chain, 0, p.c.ep, &got[i], 8, i);
		rdmamsg_chain_enable(chain, 0, 1, 2 * i + 2);
		rdmamsg_chain_calc(chain, 1, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &sent[i], &got[i], &one,
				   1);
		chain_send(chain, 1, p.c.ep, &sent[i], 8, i);
		chain_send(other, 0, p.s.ep, &x[i], 8, i);
		rdmamsg_chain_recv(other, 0, p.s.ep, &back[i], 8, i);
	}
	for (uint64_t run = 0; run < 20; run++) {
		x[0] = run;
		x[1] = 100 * run;
		run_both();
		assert_int_equal(back[0], run + 1);
		assert_int_equal(back[1], 100 * run + 1);
	}
	finish();
}

/* Each message is the beginning of the same memory, or a part behind it. */
static void parts_sent(uint32_t how)
{
	static const struct {
		uint32_t at, len;
	} parts[] = { { 0, 20 }, { 0, 8 }, { 0, 4 }, { 0, 12 }, { 8, 12 },
		      { 16, 4 }, { 16, 3 }, { 8, 5 } };
	uint8_t got[ARRAY_SIZE(parts)][20];

	start(how);
	for (uint32_t i = 0; i < ARRAY_SIZE(parts); i++) {
		chain_send(chain, 0, p.c.ep, pattern(1) + parts[i].at,
			   parts[i].len, i);
		rdmamsg_chain_recv(other, 0, p.s.ep, got[i], parts[i].len, i);
	}
	run_both();
	for (uint32_t i = 0; i < ARRAY_SIZE(parts); i++)
		assert_memory_equal(got[i], pattern(1) + parts[i].at,
				    parts[i].len);
	finish();
}

/* The device does not add doubles. */
static bool device_calculates(int op, int type)
{
	return op <= RDMAMSG_CALC_XOR &&
	       (op != RDMAMSG_CALC_ADD || type != RDMAMSG_CALC_DOUBLE);
}

static void calc_one(uint32_t how, int op, int type)
{
	enum { N = 32 };
	uint64_t mine[N], theirs[N], there[N], got[N];

	start(how);
	chain_send(chain, 0, p.c.ep, theirs, sizeof(theirs), 0);
	rdmamsg_chain_recv(chain, 0, p.c.ep, got, sizeof(got), 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, there, sizeof(there), 0);
	/* in place, twice: the second reads what the first wrote */
	rdmamsg_chain_calc(other, 0, op, type, mine, there, mine, N);
	rdmamsg_chain_calc(other, 0, op, type, mine, mine, there, N);
	chain_send(other, 0, p.s.ep, mine, sizeof(mine), 0);
	for (uint64_t i = 0; i < N; i++) {
		theirs[i] = i * 0x123456789abcdefull;
		mine[i] = ~i << 32 | i;
	}
	run_both();
	for (uint64_t i = 0; i < N; i++) {
		uint64_t a = i * 0x123456789abcdefull;
		uint64_t b = ~i << 32 | i;

		assert_int_equal(got[i], op == 0 ? b + a + a :
				 op == 1 ? (a & b) : op == 2 ? (a | b) :
				 (a ^ b ^ a));
		assert_int_equal(got[i], mine[i]);
	}
	finish();
}

static void calc_sent(uint32_t how)
{
	for (int op = RDMAMSG_CALC_ADD; op <= RDMAMSG_CALC_XOR; op++)
		for (int type = 0; type <= RDMAMSG_CALC_DOUBLE; type++)
			if (device_calculates(op, type))
				calc_one(how, op, type);
}

/* ---- several runs ----------------------------------------------------- */

static struct {
	uint64_t x[3], got[3];
	unsigned int left[2];		/* runs of the client, the server */
} again;

static void check_and_post(struct rdmamsg_chain *c)
{
	unsigned int *left = &again.left[c == other];
	const uint64_t first = 3 * (AGAIN - *left);

	if (done[c == other].end.status)
		note("run %u: %s", AGAIN - *left, done[c == other].end.text);
	for (uint64_t i = 0; c == other && i < 3; i++)
		if (again.got[i] != first + i)
			note("run %u: message %u is %u", AGAIN - *left,
			     (unsigned int)i, (unsigned int)again.got[i]);
	if (--*left)
		assert_int_equal(rdmamsg_chain_post(c), 0);
	else
		rdmamsg_chain_destroy(c);
}

/* on_done posts the next run, or frees the chain. Each run sends 3 numbers. */
static void posts_again(uint32_t how)
{
	static const uint64_t step = 3;

	start(how);
	for (uint32_t i = 0; i < 3; i++) {
		again.x[i] = i;
		chain_send(chain, 0, p.c.ep, &again.x[i], 8, i);
		rdmamsg_chain_recv(other, 0, p.s.ep, &again.got[i], 8, i);
	}
	/* each number is sent before it becomes that of the next run */
	for (uint32_t i = 0; i < 3; i++)
		rdmamsg_chain_calc(chain, 0, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &again.x[i], &again.x[i],
				   &step, 1);
	again.left[0] = again.left[1] = AGAIN;
	then_done = check_and_post;
	begin_both();
	WAIT_FOR(!again.left[0] && !again.left[1]);
	then_done = NULL;
	assert_int_equal(done[0].count, AGAIN);
	assert_int_equal(done[1].count, AGAIN);
	assert_int_equal(done[0].end.status, 0);
	assert_int_equal(done[1].end.status, 0);
	chain = other = NULL;
	finish();
}

/* A later chain shows that nothing was posted. */
static void cycle_refused(uint32_t how)
{
	uint64_t got;

	start(how);
	chain_send(chain, 9, p.c.ep, pattern(1), 1, 0);
	rdmamsg_chain_wait(chain, 0, 1, 1);
	rdmamsg_chain_wait(chain, 1, 0, 1);
	assert_error(rdmamsg_chain_post(chain), -EDEADLK, "a cycle: "
		     "step 1 (wait for 1 of queue 1) waits for "
		     "step 2 (wait for 1 of queue 0) waits for step 1");
	test_drive(p.c.ctx);
	assert_int_equal(end_stats(&p.c).msgs_sent, 0);
	assert_int_equal(done[0].count, 0);
	fresh();
	chain_send(chain, 0, p.c.ep, pattern(1), 8, 7);
	rdmamsg_chain_recv(other, 0, p.s.ep, &got, 8, 7);
	run_both();
	finish();
}

/* The peer has no more steps, so it may close before this side receives. */
static void peer_has_sent_all(uint32_t how)
{
	uint64_t x[2] = { 4, 5 }, got[2] = { 0 };

	start(how);
	for (uint32_t i = 0; i < 2; i++) {
		chain_send(other, 0, p.s.ep, &x[i], 8, i);
		rdmamsg_chain_recv(chain, 0, p.c.ep, &got[i], 8, i);
	}
	run_both();
	x[0] = 6;
	x[1] = 7;
	assert_int_equal(rdmamsg_chain_post(other), 0);
	WAIT_FOR(done[1].count == 2);
	rdmamsg_ep_close(p.s.ep);
	test_drive(p.s.ctx);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	WAIT_FOR(done[0].count == 2);
	assert_int_equal(done[0].end.status, 0);
	assert_int_equal(done[1].end.status, 0);
	assert_int_equal(got[0], 6);
	assert_int_equal(got[1], 7);
	finish_closed();
}

#include "chain_random.h"

/* ---- only native ------------------------------------------------------- */

/*
 * Posts both, waits for the descriptors with poll(2), and lets each context
 * work once, the client first. In the loop the server would send only then.
 */
static bool ends_alone(void)
{
	struct pollfd fds[2] = {
		{ rdmamsg_fd(p.c.ctx), POLLIN, 0 },
		{ rdmamsg_fd(p.s.ctx), POLLIN, 0 },
	};
	unsigned int c = done[0].count, s = done[1].count;
	bool ret;

	begin_both();
	for (int i = 0; i < 2; i++)
		assert_int_equal(poll(&fds[i], 1, WAIT_MS), 1);
	assert_true(rdmamsg_process(p.c.ctx) >= 0);
	assert_true(rdmamsg_process(p.s.ctx) >= 0);
	ret = done[0].count == c + 1 && done[1].count == s + 1;
	WAIT_FOR(done[0].count == c + 1 && done[1].count == s + 1);
	return ret;
}

/* A timer of the library can end the wait for a descriptor too early. */
static void run__nobody_calls_the_library_ENDS(void **state)
{
	uint64_t x = 1, got[2] = { 0 };
	bool alone = false;

	start(RDMAMSG_CHAIN_NATIVE);
	chain_send(chain, 0, p.c.ep, &x, 8, 0);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got[0], 8, 1);
	rdmamsg_chain_recv(other, 0, p.s.ep, &got[1], 8, 0);
	rdmamsg_chain_calc(other, 0, RDMAMSG_CALC_ADD, RDMAMSG_CALC_INT,
			   &got[1], &got[1], &got[1], 1);
	chain_send(other, 0, p.s.ep, &got[1], 8, 1);
	run_both();
	for (int i = 0; i < 100 && !alone; i++) {
		x = 21 + (uint64_t)i;
		alone = ends_alone();
		assert_int_equal(done[0].end.status, 0);
		assert_int_equal(got[0], 2 * x);
	}
	assert_true(alone);
	finish();
}

static void recv__other_tag_or_length_EPROTO(void **state)
{
	for (int what = 0; what < 2; what++) {
		uint8_t x[16] = { 0 };

		start(RDMAMSG_CHAIN_NATIVE);
		chain_send(chain, 0, p.c.ep, x, what ? 8 : 9, 1);
		rdmamsg_chain_recv(other, 0, p.s.ep, x, 8, what ? 2 : 1);
		/* so that a look at what has come must find it */
		rdmamsg_chain_recv(other, 0, p.s.ep, x, 8, 1);
		begin_both();
		WAIT_FOR(done[1].count);
		assert_int_equal(done[1].end.status, -EPROTO);
		assert_int_equal(done[1].end.step, 0);
		assert_non_null(strstr(done[1].end.text,
				       "step 0 (receive of 8 bytes)"));
		finish_closed();
		assert_non_null(strstr(p.s.why.text, "ended early"));
	}
}

/* Both runs wait for messages that do not come. */
static void start_waiting(uint32_t timeout_ms)
{
	static uint64_t x, got[2];

	start(RDMAMSG_CHAIN_NATIVE);
	chain_send(chain, 0, p.c.ep, &x, 8, 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, &got[0], 8, 0);
	run_both();
	fresh();
	if (timeout_ms) {
		rdmamsg_chain_destroy(chain);
		chain = chain_with(p.c.ctx, path, timeout_ms);
	}
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got[0], 8, 0);
	chain_send(chain, 0, p.c.ep, &got[0], 8, 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, &got[1], 8, 0);
	begin_both();
	if (timeout_ms)
		return;
	test_drive(p.c.ctx);
	test_drive(p.s.ctx);
	assert_int_equal(done[0].count, 1);
	assert_int_equal(done[1].count, 1);
}

static void assert_both_ended(int client, int server)
{
	WAIT_FOR(done[0].count == 2 && done[1].count == 2);
	assert_int_equal(done[0].end.status, client);
	assert_int_equal(done[1].end.status, server);
	finish_closed();
}

static void cancel__in_the_run_BOTH_END(void **state)
{
	start_waiting(0);
	rdmamsg_chain_cancel(chain);
	assert_both_ended(-ECANCELED, -ECONNRESET);
}

static void timeout__of_the_run_BOTH_END(void **state)
{
	start_waiting(1);
	assert_both_ended(-ETIMEDOUT, -ECONNRESET);
}

static void abort__in_the_run_BOTH_END(void **state)
{
	start_waiting(0);
	rdmamsg_ep_abort(p.c.ep);
	assert_both_ended(-ECANCELED, -ECONNRESET);
}

static void close__in_the_run_ESHUTDOWN(void **state)
{
	start_waiting(0);
	rdmamsg_ep_close(p.c.ep);
	assert_both_ended(-ESHUTDOWN, -ESHUTDOWN);
}

static void destroy__in_the_run_PEER_ENDS(void **state)
{
	start_waiting(0);
	rdmamsg_chain_destroy(chain);
	chain = NULL;
	WAIT_FOR(done[1].count == 2);
	assert_int_equal(done[1].end.status, -ECONNRESET);
	finish_closed();
}

static void context_close__in_the_run_PEER_ENDS(void **state)
{
	start_waiting(0);
	test_close(p.c.ctx);
	p.c.ctx = NULL;
	assert_int_equal(done[0].end.status, -ECANCELED);
	WAIT_FOR(done[1].count == 2 && p.s.closed);
	assert_true(done[1].end.status < 0);
	rdmamsg_chain_destroy(other);
	pair_fini(&p);
}

/* The receiver's run ends after its endpoint. */
static void run_and_close(void)
{
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	WAIT_FOR(done[0].count == 2);
	assert_int_equal(rdmamsg_chain_post(other), 0);
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.s.closed && done[1].count == 2);
	assert_int_equal(done[1].end.status, 0);
}

/* Chains that do not run keep no device: the same as without chains. */
static void remove__the_device_of_idle_chains_LETS_GO(void **state)
{
	uint64_t x = 1;
	int fds = 0;

	harm_find();
	for (int round = 0; round < 3; round++) {
		start(RDMAMSG_CHAIN_NATIVE);
		chain_send(chain, 0, p.c.ep, &x, 8, 0);
		rdmamsg_chain_recv(other, 0, p.s.ep, &x, 8, 0);
		if (round)
			run_both();
		rdmamsg_listener_close(p.listener);
		if (round == 2)
			run_and_close();
		harm_remove();
		WAIT_FOR(p.s.closed && p.c.closed);
		WAIT_FOR(harm_removed());
		test_drive(p.c.ctx);
		test_drive(p.s.ctx);
		if (!round)
			fds = open_fds();
		WAIT_FOR(open_fds() <= fds);
		harm_add();
		finish_closed();
	}
}

/* The peer's chain is in the loop, so it finds a message of the meeting. */
static void post__peer_runs_in_the_loop_EPROTO(void **state)
{
	uint64_t x = 0;

	start(RDMAMSG_CHAIN_NATIVE);
	rdmamsg_chain_destroy(other);
	other = chain_with(p.s.ctx, RDMAMSG_CHAIN_LOOP, 0);
	chain_send(chain, 0, p.c.ep, &x, 8, 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, &x, 8, 0);
	begin_both();
	WAIT_FOR(done[1].count);
	assert_int_equal(done[1].end.status, -EPROTO);
	assert_int_equal(done[0].count, 0);
	rdmamsg_chain_cancel(chain);
	WAIT_FOR(done[0].count);
	assert_int_equal(done[0].end.status, -ECANCELED);
	finish_closed();
}

/* Without native chains both sides know, and run in the loop. */
static void post__device_without_native_chains_LOOP(void **state)
{
	uint64_t x = 4711, got = 0;

	if (!test_has(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE))
		skip_because("the device has native chains");
	start(RDMAMSG_CHAIN_LOOP);
	rdmamsg_chain_destroy(chain);
	rdmamsg_chain_destroy(other);
	chain = chain_with(p.c.ctx, RDMAMSG_CHAIN_NATIVE, 0);
	other = chain_with(p.s.ctx, RDMAMSG_CHAIN_NATIVE, 0);
	chain_send(chain, 0, p.c.ep, &x, 8, 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, &got, 8, 0);
	run_both();
	assert_int_equal(got, 4711);
	finish();
}

#include "chain_ring.h"

#define BOTH(name, body) \
	static void loop__##name(void **state) \
	{ \
		body(RDMAMSG_CHAIN_LOOP); \
	} \
	static void native__##name(void **state) \
	{ \
		body(RDMAMSG_CHAIN_NATIVE); \
	}

BOTH(send_and_recv__all_sizes_IN_ORDER, send_and_recv)
BOTH(wait__for_another_queue_ORDERS, wait_orders)
BOTH(enable__two_by_two_HOLDS, enable_holds)
BOTH(send__parts_of_words_ARRIVE, parts_sent)
BOTH(calc__received_operand_in_place_SENT, calc_sent)
BOTH(on_done__posts_again_and_frees_IN_ORDER, posts_again)
BOTH(post__cycle_EDEADLK, cycle_refused)
BOTH(close__peer_has_sent_all_OK, peer_has_sent_all)
BOTH(ring__of_three_members_SUM, ring)
BOTH(recv__of_a_managed_queue_HELD, held)

static const struct CMUnitTest tests[] = {
	TEST(loop__send_and_recv__all_sizes_IN_ORDER),
	TEST(native__send_and_recv__all_sizes_IN_ORDER),
	TEST(loop__wait__for_another_queue_ORDERS),
	TEST(native__wait__for_another_queue_ORDERS),
	TEST(loop__enable__two_by_two_HOLDS),
	TEST(native__enable__two_by_two_HOLDS),
	TEST(loop__send__parts_of_words_ARRIVE),
	TEST(native__send__parts_of_words_ARRIVE),
	TEST(loop__calc__received_operand_in_place_SENT),
	TEST(native__calc__received_operand_in_place_SENT),
	TEST(loop__on_done__posts_again_and_frees_IN_ORDER),
	TEST(native__on_done__posts_again_and_frees_IN_ORDER),
	TEST(loop__post__cycle_EDEADLK),
	TEST(native__post__cycle_EDEADLK),
	TEST(loop__close__peer_has_sent_all_OK),
	TEST(native__close__peer_has_sent_all_OK),
	TEST(loop__ring__of_three_members_SUM),
	TEST(native__ring__of_three_members_SUM),
	TEST(loop__recv__of_a_managed_queue_HELD),
	TEST(native__recv__of_a_managed_queue_HELD),
	TEST(close__while_the_peer_meets_another_ARRIVES),
	TEST(random__chains_SAME_BITS_AS_IN_THE_LOOP),
	TEST(run__nobody_calls_the_library_ENDS),
	TEST(recv__other_tag_or_length_EPROTO),
	TEST(cancel__in_the_run_BOTH_END),
	TEST(timeout__of_the_run_BOTH_END),
	TEST(abort__in_the_run_BOTH_END),
	TEST(close__in_the_run_ESHUTDOWN),
	TEST(destroy__in_the_run_PEER_ENDS),
	TEST(context_close__in_the_run_PEER_ENDS),
	TEST(remove__the_device_of_idle_chains_LETS_GO),
	TEST(post__peer_runs_in_the_loop_EPROTO),
	TEST(post__device_without_native_chains_LOOP),
};

static const struct role roles[] = { { NULL } };

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
