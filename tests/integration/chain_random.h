/* SPDX-License-Identifier: BSD-2-Clause */
/* Random chains of two sides, which run natively and in the loop. */
#ifndef RDMAMSG_TESTS_INTEGRATION_CHAIN_RANDOM_H
#define RDMAMSG_TESTS_INTEGRATION_CHAIN_RANDOM_H

#define RUNS	300u	/* random chains */
#define CELLS	12u	/* words that steps use */

static uint64_t random_bits(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33 ^ *seed << 31;
}

struct side {
	uint64_t cells[CELLS];
	struct rdmamsg_chain *c;
	struct rdmamsg_ep *ep;
	uint64_t seed;
};

static void random_calc(struct side *s)
{
	uint64_t r = random_bits(&s->seed);
	enum rdmamsg_calc_op op = r % 4;
	uint32_t types = device_calculates((int)op, RDMAMSG_CALC_DOUBLE) ? 3 :
			 2;

	assert_true(rdmamsg_chain_calc(s->c, 0, op, (r >> 32) % types,
				       &s->cells[r / 8 % CELLS],
				       &s->cells[r / 128 % CELLS],
				       &s->cells[r / 4096 % CELLS], 1) >= 0);
}

/* Each message is received before the receiver sends the next. */
static void random_message(struct side *from, struct side *to, uint32_t tag)
{
	uint64_t *a = &from->cells[random_bits(&from->seed) % CELLS];
	uint64_t *b = &to->cells[random_bits(&to->seed) % CELLS];

	assert_true(rdmamsg_chain_send(from->c, 0, from->ep, a, 8, tag) >= 0);
	assert_true(rdmamsg_chain_recv(to->c, 0, to->ep, b, 8, tag) >= 0);
}

/* Builds the same chains for the same seed. Runs them, and returns the words */
static void random_run(uint64_t seed, uint64_t ret[2][CELLS])
{
	struct side sides[2] = {
		{ .c = chain, .ep = p.c.ep, .seed = seed },
		{ .c = other, .ep = p.s.ep, .seed = ~seed },
	};
	uint32_t messages = 1 + (uint32_t)(random_bits(&seed) % 8);

	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < CELLS; k++)
			sides[i].cells[k] = random_bits(&sides[i].seed);
	for (uint32_t m = 0; m < messages; m++) {
		int from = (int)(random_bits(&seed) % 2);

		for (int i = 0; i < 2; i++)
			for (uint64_t k = random_bits(&seed) % 4; k; k--)
				random_calc(&sides[i]);
		random_message(&sides[from], &sides[!from], m);
	}
	run_both();
	memcpy(ret[0], sides[0].cells, sizeof(ret[0]));
	memcpy(ret[1], sides[1].cells, sizeof(ret[1]));
}

static void random__chains_SAME_BITS_AS_IN_THE_LOOP(void **state)
{
	static uint64_t native[RUNS][2][CELLS], loop[RUNS][2][CELLS];

	start(RDMAMSG_CHAIN_NATIVE);
	for (uint32_t i = 0; i < RUNS; i++) {
		random_run(i, native[i]);
		fresh();
	}
	finish();
	start(RDMAMSG_CHAIN_LOOP);
	for (uint32_t i = 0; i < RUNS; i++) {
		random_run(i, loop[i]);
		fresh();
		assert_memory_equal(native[i], loop[i], sizeof(loop[i]));
	}
	finish();
}

#endif
