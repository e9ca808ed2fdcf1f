/* SPDX-License-Identifier: BSD-2-Clause */
/* Masked atomics on memory of this process. */
#include "soft/engine/masked.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/masked.h"

/* Returns what the operation makes of word i, if it changes the operand. */
static uint64_t made(const struct masked *m, uint32_t i, uint64_t word)
{
	return m->kind == MASKED_ADD ? masked_add(m, i, word) :
	       masked_swap(m, i, word);
}

static bool changes(const struct masked *m, uint64_t word)
{
	return m->kind == MASKED_ADD || masked_equal(m, 0, word);
}

static void do_half(const struct masked *m, uint32_t *at, void *ret)
{
	uint32_t was = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (changes(m, was) &&
	       !__atomic_compare_exchange_n(at, &was, (uint32_t)made(m, 0, was),
					    true, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST))
		;
	memcpy(ret, &was, sizeof(was));
}

static uint64_t do_word(const struct masked *m, uint32_t i, uint64_t *at)
{
	uint64_t was = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(at, &was, made(m, i, was), true,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return was;
}

/* One word: the comparison and the change are one atomic access. */
static void do_one(const struct masked *m, uint64_t *at, void *ret)
{
	uint64_t was = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (changes(m, was) &&
	       !__atomic_compare_exchange_n(at, &was, made(m, 0, was), true,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	memcpy(ret, &was, sizeof(was));
}

static bool all_equal(const struct masked *m, uint64_t *at, uint64_t *ret)
{
	bool equal = true;

	for (uint32_t i = 0; i < masked_words(m->size); i++) {
		ret[i] = __atomic_load_n(&at[i], __ATOMIC_SEQ_CST);
		equal &= masked_equal(m, i, ret[i]);
	}
	return equal;
}

static void do_words(const struct masked *m, uint64_t *at, void *ret)
{
	uint64_t was[MASKED_WORDS];

	if (m->kind == MASKED_ADD || all_equal(m, at, was))
		for (uint32_t i = 0; i < masked_words(m->size); i++)
			was[i] = do_word(m, i, &at[i]);
	memcpy(ret, was, m->size);
}

void soft_masked_do(const struct masked *m, void *at, void *was)
{
	if (m->size == sizeof(uint32_t))
		do_half(m, at, was);
	else if (m->size == sizeof(uint64_t))
		do_one(m, at, was);
	else
		do_words(m, at, was);
}
