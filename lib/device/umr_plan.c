/* SPDX-License-Identifier: BSD-2-Clause */
/* From layouts to the entries of indirect keys. No verbs. */
#include "device/umr.h"

#include "base/util.h"

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_MOST	(1u << 30)	/* bytes of an entry of a list */

/* ---- rounds ------------------------------------------------------------ */

/* The blocks of one round, while they are collected. */
struct round {
	const struct layout *l;
	struct umr_block *block;
	uint32_t room, n;
};

/*
 * Appends the blocks of a part from dimension 'dim' on. Returns false if they
 * are too many.
 */
static bool append(struct round *r, const struct layout_part *p, uint32_t dim,
		   uint64_t at, uint64_t step)
{
	const struct layout_source *s = &r->l->source[p->index];

	if (dim == p->dims) {
		if (r->n == r->room)
			return false;
		r->block[r->n++] = (struct umr_block){
			.addr = s->addr + at, .lkey = s->rkey,
			.len = (uint16_t)p->len, .step = (uint16_t)step,
		};
		return true;
	}
	for (uint64_t i = 0; i < p->count[dim]; i++)
		if (!append(r, p, dim + 1, at + i * p->stride[dim], step))
			return false;
	return true;
}

static bool is_small(const struct layout_part *p, uint64_t step)
{
	return !p->nested && p->len <= UINT16_MAX && step <= UINT16_MAX;
}

uint32_t rdmamsg__umr_rounds(const struct layout *l, uint32_t room,
			     struct umr_block *ret, uint32_t *ret_rounds)
{
	const struct layout_group *g = &l->group[l->groups - 1];
	const struct layout_part *p = &l->part[g->first];
	/* one grid repeats its outer dimension */
	const bool grid = g->rounds == 1 && g->parts == 1 && p->dims;
	const uint64_t rounds = grid ? p->count[0] : g->rounds;
	struct round r = { l, ret, room, 0 };

	if (rounds > UINT32_MAX)
		return 0;
	for (uint32_t i = 0; i < g->parts; i++) {
		const uint64_t step = grid ? p->stride[0] : p[i].step;

		if (!is_small(&p[i], step) ||
		    !append(&r, &p[i], grid, p[i].offset, step))
			return 0;
	}
	*ret_rounds = (uint32_t)rounds;
	return r.n;
}

/* ---- all blocks -------------------------------------------------------- */

uint32_t rdmamsg__umr_blocks(const struct layout *l, uint32_t room,
			     struct ibv_sge *ret)
{
	struct layout_run run;
	uint32_t n = 0;

	for (uint64_t at = 0; at < l->len; at += run.len) {
		rdmamsg__layout_at(l, at, &run);
		run.len = min(run.len, (uint64_t)BLOCK_MOST);
		if (n == room)
			return room + 1;
		ret[n++] = (struct ibv_sge){
			.addr = l->source[run.source].addr + run.offset,
			.length = (uint32_t)run.len,
			.lkey = l->source[run.source].rkey,
		};
	}
	return n;
}
