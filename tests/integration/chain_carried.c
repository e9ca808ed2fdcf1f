/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chains that ask for native runs and have steps that devices lack: the loop
 * runs them, and their messages go over the channels of native runs.
 */
#include "chain_pair.h"
#include "harm.h"
#include "mesh.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <rdmamsg/failover.h>
#include <rdmamsg/memory.h>

#define LARGE		(1u << 20)	/* bytes of the largest message */
#define MANY		300u		/* messages in one direction */
#define ENDS		33u		/* one more than a native run has */

static uint64_t zero;

/* Devices have no MAX. The step changes nothing. */
static void add_lack(struct rdmamsg_chain *c)
{
	takes[c == other] = RDMAMSG_CHAIN_LOOP;
	assert_true(rdmamsg_chain_calc(c, 9, RDMAMSG_CALC_MAX,
				       RDMAMSG_CALC_UINT, &zero, &zero, &zero,
				       1) >= 0);
}

static void fresh_pair(void)
{
	fresh();
	takes[0] = takes[1] = path;
}

/* ---- what devices lack ------------------------------------------------- */

static uint64_t x[64], got[64];

static void max_of_integers(void)
{
	x[2] = UINT64_MAX;
	rdmamsg_chain_calc(chain, 0, RDMAMSG_CALC_MAX, RDMAMSG_CALC_INT, &x[1],
			   &x[1], &x[2], 1);
}

static void max_is(void)
{
	assert_int_equal(x[1], 1);
}

static void sum_of_doubles(void)
{
	const double a = 0.1, b = 0.2;

	memcpy(&x[2], &a, 8);
	memcpy(&x[3], &b, 8);
	rdmamsg_chain_calc(chain, 0, RDMAMSG_CALC_ADD, RDMAMSG_CALC_DOUBLE,
			   &x[2], &x[2], &x[3], 1);
}

static void sum_is(void)
{
	assert_int_equal(x[2], 0x3fd3333333333334ull);
}

static void many_elements(void)
{
	rdmamsg_chain_calc(chain, 0, RDMAMSG_CALC_OR, RDMAMSG_CALC_INT, &x[2],
			   &x[2], &x[0], 33);
}

static void elements_are(void)
{
	assert_int_equal(x[2], 4711);
	assert_int_equal(x[3], 1);
}

/* The peer sends them in one native run. */
static void nine_messages(void)
{
	for (uint64_t i = 0; i < 9; i++) {
		x[10 + i] = 100 + i;
		chain_send(other, 0, p.s.ep, &x[10 + i], 8, 2);
		rdmamsg_chain_recv(chain, 0, p.c.ep, &x[30 + i], 8, 2);
	}
}

static void messages_are(void)
{
	for (uint64_t i = 0; i < 9; i++)
		assert_int_equal(x[30 + i], 100 + i);
}

/* The second message overwrites a part of the first. */
static void part_of_memory(void)
{
	for (uint64_t i = 0; i < 4; i++)
		x[10 + i] = 100 + i;
	chain_send(other, 0, p.s.ep, &x[10], 16, 2);
	chain_send(other, 0, p.s.ep, &x[12], 16, 2);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &x[30], 16, 2);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &x[31], 16, 2);
	chain_send(chain, 0, p.c.ep, (uint8_t *)&x[30] + 4, 12, 3);
	rdmamsg_chain_recv(other, 0, p.s.ep, &x[40], 12, 3);
}

static void parts_are(void)
{
	assert_int_equal(x[30], 100);
	assert_int_equal(x[31], 102);
	assert_int_equal(x[32], 103);
	assert_memory_equal(&x[40], (uint8_t *)&x[30] + 4, 12);
}

static void many_steps(void)
{
	for (uint32_t i = 0; i < 256; i++)
		rdmamsg_chain_wait(chain, 1, 0, 0);
}

static void two_enablers(void)
{
	rdmamsg_chain_enable(chain, 1, 5, 1);
	rdmamsg_chain_enable(chain, 2, 5, 2);
	for (int i = 0; i < 2; i++)
		rdmamsg_chain_calc(chain, 5, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_INT, &x[5], &x[5], &x[0], 1);
}

static void enabled_are(void)
{
	assert_int_equal(x[5], 2 * 4711);
}

static void much_memory(void)
{
	static uint8_t memory[17][4096];

	for (uint32_t i = 0; i < 17; i++) {
		memcpy(memory[i], pattern(i), 4096);
		chain_send(chain, 0, p.c.ep, memory[i], 4096, 2);
		rdmamsg_chain_recv(other, 0, p.s.ep, memory[i], 4096, 2);
	}
	add_lack(other);		/* it receives more than 8 */
}

static void nothing(void)
{
}

static const struct {
	void (*add)(void), (*check)(void);
} lacking[] = {
	{ max_of_integers, max_is },
	{ sum_of_doubles, sum_is },
	{ many_elements, elements_are },
	{ nine_messages, messages_are },
	{ part_of_memory, parts_are },
	{ many_steps, nothing },
	{ two_enablers, enabled_are },
	{ much_memory, nothing },
};

/* The client sends a number, and gets it back. */
static void add_echo(void)
{
	chain_send(chain, 0, p.c.ep, &x[0], 8, 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, &got[0], 8, 0);
	rdmamsg_chain_calc(other, 0, RDMAMSG_CALC_ADD, RDMAMSG_CALC_UINT,
			   &got[0], &got[0], &got[0], 1);
	chain_send(other, 0, p.s.ep, &got[0], 8, 1);
	rdmamsg_chain_recv(chain, 0, p.c.ep, &got[1], 8, 1);
}

static void run_echo(void)
{
	got[0] = got[1] = 0;
	run_both();
	assert_int_equal(got[1], 2 * x[0]);
}

static void post__what_devices_lack_IN_THE_LOOP(void **state)
{
	start(RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < ARRAY_SIZE(lacking); i++) {
		memset(x, 0, sizeof(x));
		x[0] = 4711;
		x[1] = 1;
		takes[0] = RDMAMSG_CHAIN_LOOP;
		add_echo();
		lacking[i].add();
		run_echo();
		lacking[i].check();
		/* the same endpoints run natively in between */
		fresh_pair();
		add_echo();
		run_echo();
		fresh_pair();
	}
	finish();
}

static void path__of_a_chain_IS_THAT_OF_ITS_STEPS(void **state)
{
	start(RDMAMSG_CHAIN_NATIVE);
	x[0] = 7;
	add_echo();
	assert_int_equal(rdmamsg_chain_path(chain), RDMAMSG_CHAIN_AUTO);
	run_echo();
	add_lack(chain);
	assert_int_equal(rdmamsg_chain_path(chain), RDMAMSG_CHAIN_AUTO);
	run_echo();
	run_echo();
	fresh_pair();
	add_echo();
	assert_int_equal(rdmamsg_chain_path(chain), RDMAMSG_CHAIN_AUTO);
	run_echo();
	finish();
}

/* ---- several chains over one endpoint ---------------------------------- */

static uint64_t turn;			/* of the random order */

/* Chains of one endpoint take turns. Both sides choose theirs. */
static void several_chains__in_any_order_SAME_RESULTS(void **state)
{
	struct rdmamsg_chain *all[2][3];
	uint64_t sum[2] = { 0 };

	start(RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < 3; i++) {
		fresh_pair();
		for (uint32_t k = 0; k < 5; k++) {
			chain_send(chain, 0, p.c.ep, &x[k], 8, k);
			rdmamsg_chain_recv(other, 0, p.s.ep, &got[k], 8, k);
			chain_send(other, 1, p.s.ep, &x[k], 8, k);
			rdmamsg_chain_recv(chain, 1, p.c.ep, &got[10 + k], 8,
					   k);
		}
		all[0][i] = chain;
		all[1][i] = other;
		if (i == 1)
			add_lack(chain);
		if (i == 2)
			add_lack(other);
		chain = other = NULL;
	}
	for (turn = 1; turn <= 200; turn++) {
		const uint32_t c = (uint32_t)(turn * 2654435761u >> 8) % 3;
		const uint32_t s = (uint32_t)(turn * 40503u >> 4) % 3;

		chain = all[0][c];
		other = all[1][s];
		takes[0] = c == 1 ? RDMAMSG_CHAIN_LOOP : path;
		takes[1] = s == 2 ? RDMAMSG_CHAIN_LOOP : path;
		for (uint32_t k = 0; k < 5; k++)
			x[k] = turn << k;
		run_both();
		for (uint32_t k = 0; k < 5; k++) {
			assert_int_equal(got[k], x[k]);
			assert_int_equal(got[10 + k], x[k]);
		}
		sum[c == 1 && s == 2]++;
	}
	assert_true(sum[0] && sum[1]);
	for (uint32_t i = 0; i < 3; i++)
		for (int k = 0; k < 2; k++)
			if (all[k][i] != chain && all[k][i] != other)
				rdmamsg_chain_destroy(all[k][i]);
	finish();
}

/* The program's messages have a way of their own. */
static void send__of_the_program_in_the_run_APART(void **state)
{
	uint64_t apart = 99, end = 0;

	start(RDMAMSG_CHAIN_NATIVE);
	x[0] = 5;
	add_echo();
	add_lack(chain);
	add_lack(other);
	run_echo();
	assert_int_equal(rdmamsg_chain_post(other), 0);
	assert_int_equal(rdmamsg_send(p.c.ep, &apart, 8, 0x1234, NULL), 0);
	test_drive(p.c.ctx);
	test_drive(p.s.ctx);
	got[1] = 0;
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	WAIT_FOR(done[0].count == 2 && done[1].count == 2);
	assert_string_equal(done[1].end.text, "");
	assert_int_equal(got[1], 10);
	rdmamsg_chain_destroy(other);
	other = chain_with(p.s.ctx, RDMAMSG_CHAIN_LOOP, 0);
	rdmamsg_chain_recv(other, 0, p.s.ep, &end, 8, 0x1234);
	assert_int_equal(rdmamsg_chain_post(other), 0);
	WAIT_FOR(done[1].count == 3);
	assert_int_equal(end, 99);
	finish();
}

/* ---- large and many messages ------------------------------------------- */

static const size_t sizes[] = { 4097, 0, 4104, 8192, 4096, 8193, 200000, 8,
				LARGE, 12 };

/* Both sides send all before they receive. */
static void exchange__large_messages_at_once_ARRIVE(void **state)
{
	static uint8_t in[2][ARRAY_SIZE(sizes)][LARGE];

	start(RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		chain_send(chain, 0, p.c.ep, pattern(i), sizes[i], i);
		chain_send(other, 0, p.s.ep, pattern(i + 100),
			   sizes[i], i);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		rdmamsg_chain_recv(chain, 0, p.c.ep, in[0][i], sizes[i], i);
		rdmamsg_chain_recv(other, 0, p.s.ep, in[1][i], sizes[i], i);
	}
	takes[0] = takes[1] = RDMAMSG_CHAIN_LOOP;
	for (int run = 0; run < 3; run++) {
		memset(in, 0, sizeof(in));
		run_both();
		for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			assert_memory_equal(in[0][i], pattern(i + 100),
					    sizes[i]);
			assert_memory_equal(in[1][i], pattern(i), sizes[i]);
		}
	}
	finish();
}

/* As many before one is received. */
static void exchange__many_messages_at_once_ARRIVE(void **state)
{
	static uint64_t in[2][MANY], out[MANY];

	start(RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < MANY; i++) {
		chain_send(chain, 0, p.c.ep, &out[i], 8, i);
		chain_send(other, 0, p.s.ep, &out[i], 8, i);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		rdmamsg_chain_recv(chain, 0, p.c.ep, &in[0][i], 8, i);
		rdmamsg_chain_recv(other, 0, p.s.ep, &in[1][i], 8, i);
	}
	takes[0] = takes[1] = RDMAMSG_CHAIN_LOOP;
	for (uint32_t run = 1; run < 4; run++) {
		for (uint32_t i = 0; i < MANY; i++)
			out[i] = run * i;
		run_both();
		assert_memory_equal(in[0], out, sizeof(out));
		assert_memory_equal(in[1], out, sizeof(out));
	}
	finish();
}

/* A sender that is ahead of the receiver's runs waits for them. */
static void send__ahead_of_the_receiver_WAITS(void **state)
{
	static uint64_t out[MANY], in[8];

	start(RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < MANY / 8 * 8; i++) {
		out[i] = 3 * i;
		chain_send(chain, 0, p.c.ep, &out[i], 8, i % 8);
	}
	for (uint32_t i = 0; i < 8; i++)
		rdmamsg_chain_recv(other, 0, p.s.ep, &in[i], 8, i);
	assert_int_equal(rdmamsg_chain_post(chain), 0);
	for (uint32_t run = 0; run < MANY / 8; run++) {
		/* the device has room for 16, so the last two runs find all */
		assert_true(!done[0].count || run + 2 >= MANY / 8);
		assert_int_equal(rdmamsg_chain_post(other), 0);
		WAIT_FOR(done[1].count == run + 1);
		assert_string_equal(done[1].end.text, "");
		assert_memory_equal(in, &out[8 * run], sizeof(in));
	}
	WAIT_FOR(done[0].count == 1);
	assert_int_equal(done[0].end.status, 0);
	assert_int_equal(rdmamsg_chain_path(other), RDMAMSG_CHAIN_NATIVE);
	finish();
}

/* ---- sleeping ---------------------------------------------------------- */

#define TURNS	40u

/* Waits for the descriptors only. Returns the number of calls. */
static unsigned int sleep_until_done(void)
{
	unsigned int calls = 0;

	while (!done[0].count || !done[1].count) {
		struct pollfd fds[2] = {
			{ rdmamsg_fd(p.c.ctx), POLLIN, 0 },
			{ rdmamsg_fd(p.s.ctx), POLLIN, 0 },
		};

		assert_true(poll(fds, 2, WAIT_MS) > 0);
		for (int i = 0; i < 2; i++)
			if (fds[i].revents)
				assert_true(rdmamsg_process(i ? p.s.ctx :
							    p.c.ctx) >= 0);
		calls++;
	}
	return calls;
}

/* Messages go back and forth, and each wakes a side that sleeps. */
static void run__program_sleeps_WAKES(void **state)
{
	uint64_t a = 0, one = 1;
	unsigned int calls;

	start(RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < TURNS; i++) {
		chain_send(chain, 0, p.c.ep, &a, 8, i);
		rdmamsg_chain_recv(chain, 0, p.c.ep, &a, 8, i);
		rdmamsg_chain_recv(other, 0, p.s.ep, &got[0], 8, i);
		rdmamsg_chain_calc(other, 0, RDMAMSG_CALC_ADD,
				   RDMAMSG_CALC_UINT, &got[0], &got[0], &one,
				   1);
		chain_send(other, 0, p.s.ep, &got[0], 8, i);
	}
	begin_both();
	calls = sleep_until_done();
	assert_int_equal(done[0].end.status, 0);
	assert_int_equal(done[1].end.status, 0);
	assert_int_equal(a, TURNS);
	if (calls > 100 * TURNS)
		fail_msg("%u calls", calls);
	finish();
}

#include "chain_carried_ends.h"

static const struct CMUnitTest tests[] = {
	TEST(post__what_devices_lack_IN_THE_LOOP),
	TEST(path__of_a_chain_IS_THAT_OF_ITS_STEPS),
	TEST(several_chains__in_any_order_SAME_RESULTS),
	TEST(send__of_the_program_in_the_run_APART),
	TEST(exchange__large_messages_at_once_ARRIVE),
	TEST(exchange__many_messages_at_once_ARRIVE),
	TEST(send__ahead_of_the_receiver_WAITS),
	TEST(run__program_sleeps_WAKES),
	TEST(recv__other_tag_or_length_EPROTO),
	TEST(cancel__in_the_run_BOTH_END),
	TEST(timeout__of_the_run_BOTH_END),
	TEST(abort__in_the_run_BOTH_END),
	TEST(close__in_the_run_ESHUTDOWN),
	TEST(destroy__in_the_run_PEER_ENDS),
	TEST(context_close__in_the_run_PEER_ENDS),
	TEST(close__peer_has_sent_all_OK),
	TEST(close__sends_are_on_the_way_ESHUTDOWN),
	TEST(kill__the_peer_RUN_ENDS),
	TEST(remove__the_device_of_idle_chains_LETS_GO),
	TEST(endpoints__of_both_kinds_OK),
	TEST(endpoints__of_two_domains_OK),
	TEST(endpoints__more_than_devices_take_OK),
};

static const struct role roles[] = {
	{ "victim", role_victim },
	{ NULL },
};

int main(int argc, char **argv)
{
	return test_main(tests, roles, argc, argv);
}
