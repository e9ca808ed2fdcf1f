/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/layout.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- arithmetic that does not wrap ------------------------------------ */

/* *sum += a * b. Returns false if that is above LAYOUT_LEN_MAX. */
static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
	uint64_t product;

	return !__builtin_mul_overflow(a, b, &product) &&
	       !__builtin_add_overflow(*sum, product, sum) &&
	       *sum <= LAYOUT_LEN_MAX;
}

static bool multiply(uint64_t *n, uint64_t by)
{
	return !__builtin_mul_overflow(*n, by, n) && *n <= LAYOUT_LEN_MAX;
}

/* ---- checking --------------------------------------------------------- */

/* Returns the number of bytes that the part spans, or 0 if too many. */
static uint64_t span(const struct layout_part *p, uint64_t rounds)
{
	uint64_t n = 0;

	if (!add_product(&n, p->len, 1) ||
	    !add_product(&n, rounds - 1, p->step))
		return 0;
	for (uint32_t i = 0; i < p->dims; i++)
		if (!add_product(&n, p->count[i] - 1, p->stride[i]))
			return 0;
	return n;
}

static const char *check_shape(const struct layout_part *p)
{
	if (!p->len)
		return "len is 0";
	if (p->dims > LAYOUT_DIMS)
		return "dims is above 3";
	for (uint32_t i = 0; i < LAYOUT_DIMS; i++) {
		if (i < p->dims && !p->count[i])
			return "a count is 0";
		if (i >= p->dims && (p->count[i] || p->stride[i]))
			return "a count or stride is set beyond dims";
	}
	return NULL;
}

/* Removes dimensions whose blocks touch, and those of one block. */
static void merge(struct layout_part *p)
{
	uint32_t dims = 0;

	for (uint32_t i = 0; i < p->dims; i++)
		if (p->count[i] > 1) {
			p->count[dims] = p->count[i];
			p->stride[dims++] = p->stride[i];
		}
	while (dims && p->stride[dims - 1] == p->len)
		p->len *= p->count[--dims];
	for (uint32_t i = dims; i < LAYOUT_DIMS; i++)
		p->count[i] = p->stride[i] = 0;
	p->dims = (uint16_t)dims;
}

static const char *check_part(const struct layout *l, uint32_t group,
			      struct layout_part *p, struct layout_group *g)
{
	const char *wrong = check_shape(p);
	uint64_t bytes = p->len, room, n;

	if (wrong)
		return wrong;
	if (p->index >= (p->nested ? group : l->sources))
		return p->nested ? "no earlier group has this number" :
		       "no source has this number";
	room = p->nested ? l->group[p->index].len : l->source[p->index].len;
	if (p->nested) {
		const uint32_t depth = l->group[p->index].depth + 1;

		if (depth > LAYOUT_DEPTH)
			return "layouts are nested too deep";
		g->depth = depth > g->depth ? depth : g->depth;
	}
	n = span(p, g->rounds);
	if (!n || p->offset > room || n > room - p->offset)
		return "a block is outside of its region";
	for (uint32_t i = 0; i < p->dims; i++)
		if (!multiply(&bytes, p->count[i]))
			return "the blocks have too many bytes";
	p->start = g->round;
	if (!add_product(&g->round, bytes, 1))
		return "the blocks have too many bytes";
	merge(p);
	return NULL;
}

static const char *check_group(struct layout *l, uint32_t number,
			       uint32_t *ret_part)
{
	struct layout_group *g = &l->group[number];

	g->depth = 1;
	g->round = 0;
	*ret_part = g->first;
	if (!g->parts || g->parts > l->parts - g->first)
		return "a group has no parts";
	if (!g->rounds)
		return "the number of rounds is 0";
	for (uint32_t i = 0; i < g->parts; i++) {
		const char *wrong;

		*ret_part = g->first + i;
		wrong = check_part(l, number, &l->part[*ret_part], g);
		if (wrong)
			return wrong;
	}
	g->len = g->round;
	return multiply(&g->len, g->rounds) ? NULL :
	       "the rounds have too many bytes";
}

const char *rdmamsg__layout_check(struct layout *l, uint32_t *ret_part)
{
	uint32_t first = 0;

	*ret_part = 0;
	for (uint32_t i = 0; i < l->groups; i++) {
		const char *wrong;

		l->group[i].first = first;
		wrong = check_group(l, i, ret_part);
		if (wrong)
			return wrong;
		first += l->group[i].parts;
	}
	if (!l->groups || first != l->parts)
		return "parts belong to no group";
	l->len = l->group[l->groups - 1].len;
	l->depth = l->group[l->groups - 1].depth;
	return NULL;
}

/* ---- finding bytes ---------------------------------------------------- */

/* Returns the last part of the group that begins at or before 'at'. */
static const struct layout_part *part_at(const struct layout *l,
					 const struct layout_group *g,
					 uint64_t at)
{
	const struct layout_part *p = &l->part[g->first];
	uint32_t n = g->parts;

	while (n > 1) {
		const uint32_t half = n / 2;

		if (p[half].start <= at) {
			p += half;
			n -= half;
		} else {
			n = half;
		}
	}
	return p;
}

void rdmamsg__layout_at(const struct layout *l, uint64_t at,
			struct layout_run *ret)
{
	const struct layout_group *g = &l->group[l->groups - 1];

	ret->len = UINT64_MAX;
	for (;;) {
		/* divisions cost most, so the ordinary layout has one */
		const uint64_t round = g->rounds > 1 ? at / g->round : 0;
		const uint64_t in_round = at - round * g->round;
		const struct layout_part *p = part_at(l, g, in_round);
		uint64_t block = (in_round - p->start) / p->len;
		const uint64_t in = in_round - p->start - block * p->len;
		const uint64_t left = p->len - in;

		at = p->offset + round * p->step + in;
		for (uint32_t i = p->dims; i-- > 1; block /= p->count[i])
			at += block % p->count[i] * p->stride[i];
		at += block * p->stride[0];	/* 0 without dimensions */
		if (left < ret->len)
			ret->len = left;
		if (!p->nested) {
			ret->source = p->index;
			ret->offset = at;
			return;
		}
		g = &l->group[p->index];
	}
}

void rdmamsg__layout_hull(const struct layout *l, uint64_t *lo, uint64_t *hi)
{
	for (uint32_t i = 0; i < l->sources; i++) {
		lo[i] = UINT64_MAX;
		hi[i] = 0;
	}
	for (uint32_t i = 0; i < l->groups; i++) {
		const struct layout_group *g = &l->group[i];

		for (uint32_t k = g->first; k < g->first + g->parts; k++) {
			const struct layout_part *p = &l->part[k];
			const uint64_t end = p->offset + span(p, g->rounds);

			if (p->nested)
				continue;
			if (p->offset < lo[p->index])
				lo[p->index] = p->offset;
			if (end > hi[p->index])
				hi[p->index] = end;
		}
	}
}
