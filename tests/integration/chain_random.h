/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random chains of two sides, which run natively and in the loop. Some have
 * steps that devices lack.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_CHAIN_RANDOM_H
#define RDMAMSG_TESTS_INTEGRATION_CHAIN_RANDOM_H

#define RUNS	600u	/* random chains */
#define CELLS	12u	/* words that steps use */
#define AREA	16000u	/* bytes that messages use if both sides lack steps */

static uint64_t random_bits(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33 ^ *seed << 31;
}

struct side {
	uint64_t cells[CELLS];
	uint8_t area[AREA];
	struct rdmamsg_chain *c;
	struct rdmamsg_ep *ep;
	uint64_t seed;
	bool lacks;			/* has steps that devices lack */
};

static struct side sides[2];

static void add_calc(struct side *s, int op, uint32_t type)
{
	uint64_t r = random_bits(&s->seed);

	assert_true(rdmamsg_chain_calc(s->c, 0, op, type,
				       &s->cells[r / 8 % CELLS],
				       &s->cells[r / 128 % CELLS],
				       &s->cells[r / 4096 % CELLS], 1) >= 0);
}

static void random_calc(struct side *s)
{
	uint64_t r = random_bits(&s->seed);
	int op = (int)(r % (s->lacks ? 6 : 4));
	uint32_t types = s->lacks || device_calculates(op, RDMAMSG_CALC_DOUBLE)
			 ? 3 : 2;

	add_calc(s, op, (uint32_t)(r >> 32) % types);
}

/* Each message is received before the receiver sends the next. */
static void random_message(struct side *from, struct side *to, uint32_t tag)
{
	const bool large = from->lacks && to->lacks;
	const size_t len = large ? random_bits(&from->seed) % (AREA / 2) : 8;
	const size_t at = random_bits(&from->seed), to_at =
		random_bits(&to->seed);
	const void *a = large ? &from->area[at % (AREA / 2)] :
			(void *)&from->cells[at % CELLS];
	void *b = large ? &to->area[to_at % (AREA / 2)] :
		  (void *)&to->cells[to_at % CELLS];

	assert_true(chain_send(from->c, 0, from->ep, a, len, tag) >= 0);
	assert_true(rdmamsg_chain_recv(to->c, 0, to->ep, b, len, tag) >= 0);
}

static void init_sides(uint64_t seed)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct side *s = &sides[i];

		s->c = i ? other : chain;
		s->ep = i ? p.s.ep : p.c.ep;
		s->lacks = seed >> i & 1;
		s->seed = i ? ~seed : seed;
		for (uint32_t k = 0; k < CELLS; k++)
			s->cells[k] = random_bits(&s->seed);
		memcpy(s->area, pattern((uint32_t)seed + i), AREA);
		takes[i] = s->lacks ? RDMAMSG_CHAIN_LOOP : path;
	}
}

/* The memory of a side, as a run has left it. */
struct left {
	uint64_t cells[CELLS], area;
};

static struct left left_of(const struct side *s)
{
	struct left ret = { .area = 14695981039346656037ull };

	memcpy(ret.cells, s->cells, sizeof(ret.cells));
	for (uint32_t i = 0; i < AREA; i++)
		ret.area = (ret.area ^ s->area[i]) * 1099511628211ull;
	return ret;
}

/* Builds the same chains for the same seed, and runs them. */
static void random_run(uint64_t seed, struct left ret[2])
{
	uint32_t messages = 1 + (uint32_t)(random_bits(&(uint64_t){ seed }) %
					   (seed % 4 == 3 ? 20 : 8));

	init_sides(seed);
	for (uint32_t m = 0; m < messages; m++) {
		int from = (int)(random_bits(&seed) % 2);

		for (int i = 0; i < 2; i++)
			for (uint64_t k = random_bits(&seed) % 4; k; k--)
				random_calc(&sides[i]);
		random_message(&sides[from], &sides[!from], m);
	}
	for (int i = 0; i < 2; i++)
		if (sides[i].lacks)
			add_calc(&sides[i], RDMAMSG_CALC_MAX,
				 RDMAMSG_CALC_DOUBLE);
	run_both();
	for (int i = 0; i < 2; i++)
		ret[i] = left_of(&sides[i]);
}

static void random__chains_SAME_BITS_AS_IN_THE_LOOP(void **state)
{
	static struct left native[RUNS][2], loop[RUNS][2];

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
