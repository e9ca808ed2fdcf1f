/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics: their operands, and what they make of a word. An operand of
 * 16 or 32 bytes is several words of 8 bytes, in the order of their addresses.
 * An operand of 4 bytes is the low half of one word.
 */
#ifndef RDMAMSG_LIB_MASKED_H
#define RDMAMSG_LIB_MASKED_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MASKED_WORDS	4u
#define MASKED_MAX	(MASKED_WORDS * (uint32_t)sizeof(uint64_t))
/* Operands of 4, 8, 16 and 32 bytes, as bits of a mask. */
#define MASKED_SIZES	(4u | 8u | 16u | 32u)
/* Operands of raw requests of mlx5. */
#define MASKED_SMALL	(4u | 8u)
#define MASKED_TRIES	4096	/* compare-and-swaps of one in software */
#define MASKED_FIELD	8u	/* bytes of the largest field */

enum masked_kind {
	MASKED_SWAP,			/* compare and swap */
	MASKED_ADD,			/* fetch and add, field by field */
};

struct masked {
	uint32_t size;			/* of the operand, bytes */
	uint32_t kind;			/* enum masked_kind */
	uint64_t value[MASKED_WORDS];	/* desired, or to add */
	uint64_t mask[MASKED_WORDS];	/* bits to swap, or tops of fields */
	uint64_t expected[MASKED_WORDS]; /* swap */
	uint64_t compare[MASKED_WORDS];	/* swap: bits to compare */
};
_Static_assert(sizeof(struct masked) == 136, "a record of the soft HCA");

/* The masked atomics of a device. */
struct masked_caps {
	uint32_t sizes;			/* of operands, as bits; 0: none */
	uint32_t max_field;		/* bytes */
	/* each word of an answer is in the other byte order than the host's */
	bool swapped;
};

/* Returns true if the device has all of these sizes, with fields of a word. */
static inline bool masked_has(const struct masked_caps *caps, uint32_t sizes)
{
	return (caps->sizes & sizes) == sizes &&
	       caps->max_field >= MASKED_FIELD;
}

static inline bool masked_size_ok(uint32_t size)
{
	return size & MASKED_SIZES && !(size & (size - 1));
}

static inline uint32_t masked_words(uint32_t size)
{
	return size > sizeof(uint64_t) ? size / (uint32_t)sizeof(uint64_t) : 1;
}

/*
 * Returns true if no field is larger than a word. The top of the operand ends a
 * field in any case.
 */
static inline bool masked_fields_ok(const struct masked *m)
{
	for (uint32_t i = 0; i + 1 < masked_words(m->size); i++)
		if (!(m->mask[i] >> 63))
			return false;
	return true;
}

/* Returns true if a device can execute the operation. */
static inline bool masked_ok(const struct masked *m)
{
	return masked_size_ok(m->size) && m->kind <= MASKED_ADD &&
	       (m->kind != MASKED_ADD || masked_fields_ok(m));
}

/* Returns true if word i equals what the swap expects. */
static inline bool masked_equal(const struct masked *m, uint32_t i,
				uint64_t word)
{
	return !((word ^ m->expected[i]) & m->compare[i]);
}

static inline uint64_t masked_swap(const struct masked *m, uint32_t i,
				   uint64_t word)
{
	return (word & ~m->mask[i]) | (m->value[i] & m->mask[i]);
}

/*
 * The sum without the top bits of the fields carries into those bits, and never
 * out of them. The last line adds the top bits without a carry.
 */
static inline uint64_t masked_add(const struct masked *m, uint32_t i,
				  uint64_t word)
{
	const uint64_t tops = m->mask[i], add = m->value[i];

	return ((word & ~tops) + (add & ~tops)) ^ ((word ^ add) & tops);
}

/* ---- by compare-and-swap of the word around the operand ---------------- */

/* Returns how many bits the 4 bytes at an address are up in their word. */
static inline uint32_t masked_shift(uint64_t addr, uint32_t size)
{
	const bool later = addr % sizeof(uint64_t);
	const bool upper = later == (BYTE_ORDER == LITTLE_ENDIAN);

	return size == sizeof(uint32_t) && upper ? 32 : 0;
}

/* Moves the operand to its place in the word. */
static inline void masked_place(struct masked *m, uint32_t shift)
{
	m->value[0] <<= shift;
	m->mask[0] <<= shift;
	m->expected[0] <<= shift;
	m->compare[0] <<= shift;
}

/* Returns a value that the word may have: the one that costs a try less. */
static inline uint64_t masked_guess(const struct masked *m)
{
	return m->expected[0] & m->compare[0];
}

/* Returns what the operation makes of the word. */
static inline uint64_t masked_made(const struct masked *m, uint64_t word)
{
	if (m->kind == MASKED_ADD)
		return masked_add(m, 0, word);
	return masked_equal(m, 0, word) ? masked_swap(m, 0, word) : word;
}

/* Copies the operand out of the word. */
static inline void masked_out(const struct masked *m, uint32_t shift,
			      uint64_t word, void *ret)
{
	const uint32_t half = (uint32_t)(word >> shift);

	if (m->size == sizeof(half))
		memcpy(ret, &half, sizeof(half));
	else
		memcpy(ret, &word, sizeof(word));
}

/* ---- answers ------------------------------------------------------------ */

/*
 * Swaps the bytes of an answer, between the byte order of this host and the
 * other one. Each word of 8 bytes is swapped, whatever its fields are.
 */
static inline void masked_swap_bytes(void *answer, uint32_t size)
{
	uint64_t word[MASKED_WORDS];
	uint32_t half;

	if (size == sizeof(half)) {
		memcpy(&half, answer, sizeof(half));
		half = __builtin_bswap32(half);
		memcpy(answer, &half, sizeof(half));
		return;
	}
	memcpy(word, answer, size);
	for (uint32_t i = 0; i < masked_words(size); i++)
		word[i] = __builtin_bswap64(word[i]);
	memcpy(answer, word, size);
}

#endif
