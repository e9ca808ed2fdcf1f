/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics in software. Each try is one compare-and-swap of the aligned
 * word of 8 bytes, and needs no other right than atomics. The first try guesses
 * the value. If it fails, its answer is the value that the next try expects. A
 * try fails only because another atomic has changed the word.
 */
#include "base/masked.h"
#include "session/rma.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Prepares a try for a word with this value. */
static void aim(struct rma *r, uint64_t word)
{
	const struct masked *m = &r->masked;

	r->expected = r->operand = word;
	if (m->kind == MASKED_ADD)
		r->operand = masked_add(m, 0, word);
	else if (masked_equal(m, 0, word))
		r->operand = masked_swap(m, 0, word);
}

void rdmamsg__masked_begin(struct rma *r, const struct masked *m)
{
	const bool later = r->raddr % sizeof(uint64_t);
	const bool upper = later == (BYTE_ORDER == LITTLE_ENDIAN);

	r->shift = m->size == sizeof(uint32_t) && upper ? 32 : 0;
	r->masked.kind = m->kind;
	r->masked.size = m->size;
	r->masked.value[0] = m->value[0] << r->shift;
	r->masked.mask[0] = m->mask[0] << r->shift;
	r->masked.expected[0] = m->expected[0] << r->shift;
	r->masked.compare[0] = m->compare[0] << r->shift;
	r->raddr &= ~(sizeof(uint64_t) - 1);
	r->left = sizeof(uint64_t);
	r->tries = MASKED_TRIES;
	aim(r, r->masked.expected[0] & r->masked.compare[0]);
}

bool rdmamsg__masked_answer(struct rma *r, uint64_t was)
{
	if (was == r->expected)
		return true;
	aim(r, was);
	if (r->operand == was)
		return true;		/* there is nothing to change */
	if (--r->tries)
		return false;
	r->op.status = -EBUSY;
	return true;
}

void rdmamsg__masked_result(const struct rma *r, const uint64_t *was)
{
	const uint32_t half = (uint32_t)(*was >> r->shift);

	if (r->masked.size == sizeof(half))
		memcpy(r->result, &half, sizeof(half));
	else
		memcpy(r->result, was, r->masked.size);
}
