/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random layouts, and a model that knows the place of each byte, because it
 * copies the definition of layouts byte by byte.
 */
#ifndef TESTS_LAYOUT_MODEL_H
#define TESTS_LAYOUT_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MODEL_REGIONS	3
#define MODEL_LAYOUTS	4
#define MODEL_PARTS	4
#define MODEL_LEN	4096u	/* bytes of a layout */
#define MODEL_REGION	2048u	/* bytes of a region */
#define MODEL_DIMS	3

struct model_part {
	bool nested;
	uint32_t index;		/* of the region or of an earlier layout */
	uint64_t offset, len, step;
	uint32_t dims;
	uint64_t count[MODEL_DIMS], stride[MODEL_DIMS];
};

struct model_place {
	uint32_t region;
	uint32_t offset;
};

struct model_layout {
	uint32_t parts;
	uint64_t rounds;
	struct model_part part[MODEL_PARTS];
	uint32_t len;
	struct model_place at[MODEL_LEN];
};

struct model {
	uint64_t seed;
	uint32_t regions, layouts;
	uint32_t region_len[MODEL_REGIONS];
	struct model_layout layout[MODEL_LAYOUTS];
};

static inline uint32_t model_random(struct model *m, uint32_t below)
{
	m->seed = m->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(m->seed >> 33) % below;
}

/* Returns the number of bytes from the first to the last of the part. */
static inline uint64_t model_span(const struct model_part *part, uint64_t rounds)
{
	uint64_t n = part->len + (rounds - 1) * part->step;

	for (uint32_t i = 0; i < part->dims; i++)
		n += (part->count[i] - 1) * part->stride[i];
	return n;
}

/* Appends one block. Returns false if the layout becomes too long. */
static inline bool model_block(struct model *m, struct model_layout *l,
			       const struct model_part *part, uint64_t at)
{
	for (uint64_t i = 0; i < part->len; i++) {
		if (l->len == MODEL_LEN)
			return false;
		l->at[l->len++] = part->nested ?
			m->layout[part->index].at[at + i] :
			(struct model_place){ part->index, (uint32_t)(at + i) };
	}
	return true;
}

static inline bool model_grid(struct model *m, struct model_layout *l,
			      const struct model_part *part, uint64_t at,
			      uint32_t dim)
{
	if (dim == part->dims)
		return model_block(m, l, part, at);
	for (uint64_t i = 0; i < part->count[dim]; i++)
		if (!model_grid(m, l, part, at + i * part->stride[dim], dim + 1))
			return false;
	return true;
}

static inline bool model_expand(struct model *m, struct model_layout *l)
{
	l->len = 0;
	for (uint64_t round = 0; round < l->rounds; round++)
		for (uint32_t i = 0; i < l->parts; i++)
			if (!model_grid(m, l, &l->part[i],
					l->part[i].offset +
					round * l->part[i].step, 0))
				return false;
	return true;
}

static inline bool model_part(struct model *m, uint32_t layout,
			      struct model_part *part)
{
	const uint64_t rounds = m->layout[layout].rounds;
	uint64_t room, span;

	memset(part, 0, sizeof(*part));
	part->nested = layout && model_random(m, 2);
	part->index = model_random(m, part->nested ? layout : m->regions);
	room = part->nested ? m->layout[part->index].len : m->region_len[part->index];
	part->len = 1 + model_random(m, 40);
	part->dims = model_random(m, MODEL_DIMS + 1);
	for (uint32_t i = 0; i < part->dims; i++) {
		part->count[i] = 1 + model_random(m, 5);
		/* blocks that touch and blocks that overlap, too */
		part->stride[i] = model_random(m, 4) ? model_random(m, 200) :
			       part->len;
	}
	if (rounds > 1)
		part->step = model_random(m, 60);
	span = model_span(part, rounds);
	if (span > room)
		return false;
	part->offset = model_random(m, (uint32_t)(room - span) + 1);
	return true;
}

static inline void model_layout(struct model *m, uint32_t number)
{
	struct model_layout *l = &m->layout[number];

	do {
		l->parts = 1 + model_random(m, MODEL_PARTS);
		l->rounds = model_random(m, 2) ? 1 : 1 + model_random(m, 6);
		for (uint32_t i = 0; i < l->parts; i++)
			while (!model_part(m, number, &l->part[i]))
				;
	} while (!model_expand(m, l));
}

/* The last layout is the result. Not every earlier layout is part of it. */
static inline void model_make(struct model *m, uint64_t seed)
{
	m->seed = seed;
	m->regions = 1 + model_random(m, MODEL_REGIONS);
	for (uint32_t i = 0; i < m->regions; i++)
		m->region_len[i] = 64 + model_random(m, MODEL_REGION - 63);
	m->layouts = 1 + model_random(m, MODEL_LAYOUTS);
	for (uint32_t i = 0; i < m->layouts; i++)
		model_layout(m, i);
}

static inline const struct model_layout *model_last(const struct model *m)
{
	return &m->layout[m->layouts - 1];
}

#endif
