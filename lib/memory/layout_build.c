/* SPDX-License-Identifier: BSD-2-Clause */
/* From the program's parts to a checked description. */
#include "base/base.h"
#include "base/list.h"
#include "memory/layout.h"
#include "memory/layout_build.h"
#include "memory/region.h"
#include "wire/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/layout.h>

/*
 * Regions and inner layouts, each once. Inner layouts bring their groups, and
 * sources that may be other parts of the same regions.
 */
struct build {
	const struct rdmamsg_layout *layout;
	const struct rdmamsg_layout_part *parts;
	uint32_t count;
	uint32_t regions, inners;
	uint32_t *index;	/* of each part: in a list of the map */
	struct layout size;	/* counts of the map */
	struct rdmamsg_region *all[LAYOUT_SOURCES];	/* regions of parts */
	struct rdmamsg_layout *inner[LAYOUT_GROUPS];
};

static int wrong_part(uint32_t part, int err, const char *what)
{
	return rdmamsg__fail(err, "rdmamsg_layout_define: part %u: %s", part,
			     what);
}

static int check_region(const struct build *b, uint32_t i)
{
	const struct rdmamsg_region *region = b->parts[i].region;

	if (!region || region->ctx != b->layout->region.ctx)
		return wrong_part(i, -EINVAL, "the region is NULL or of "
				  "another context");
	if (region->layout == b->layout)
		return wrong_part(i, -EINVAL, "a layout cannot contain itself");
	if (region->layout && !region->layout->map)
		return wrong_part(i, -EINVAL, "the inner layout is not "
				  "defined");
	if (b->layout->region.access & ~region->access)
		return wrong_part(i, -EACCES, "the region does not have the "
				  "layout's access");
	return 0;
}

/* Finds or adds the part's region or inner layout. */
static int collect(struct build *b, uint32_t i)
{
	struct rdmamsg_region *region = b->parts[i].region;
	struct rdmamsg_layout *l = region->layout;
	uint32_t n = 0;

	if (!l) {
		while (n < b->regions && b->all[n] != region)
			n++;
		b->index[i] = n;
		if (n < b->regions)
			return 0;
		if (++b->size.sources > LAYOUT_SOURCES)
			return wrong_part(i, -ENOBUFS, "too many regions");
		b->all[b->regions++] = region;
		return 0;
	}
	while (n < b->inners && b->inner[n] != l)
		n++;
	b->index[i] = n;
	if (n < b->inners)
		return 0;
	b->size.sources += l->map->desc.sources;
	b->size.groups += l->map->desc.groups;
	b->size.parts += l->map->desc.parts;
	if (b->size.sources > LAYOUT_SOURCES ||
	    b->size.groups > LAYOUT_GROUPS ||
	    b->size.parts > b->layout->max_parts)
		return wrong_part(i, -ENOBUFS, "with inner layouts there are "
				  "too many parts, layouts or regions");
	b->inner[b->inners++] = l;
	return 0;
}

static struct layout_map *map_new(const struct build *b)
{
	const size_t room = rdmamsg__layout_room(&b->size);
	struct layout_map *m;

	m = calloc(1, sizeof(*m) + room +
		   b->size.sources * (sizeof(*m->shadows) +
				      sizeof(struct rdmamsg_region *)) +
		   b->inners * sizeof(struct rdmamsg_layout *));
	if (!m)
		return NULL;
	m->desc = b->size;
	rdmamsg__layout_place(&m->desc, m + 1);
	m->shadows = (struct rdmamsg_region *)((uint8_t *)(m + 1) + room);
	m->regions = (struct rdmamsg_region **)(m->shadows + b->size.sources);
	m->inner = (struct rdmamsg_layout **)(m->regions + b->size.sources);
	m->inners = b->inners;
	list_init(&m->native.mrs);
	list_init(&m->own.mrs);
	list_init(&m->jobs);
	m->native.fd = m->own.fd = -1;
	return m;
}

/* Numbers of the first source, group and part of an inner layout. */
struct at {
	uint32_t source, group, part;
};

/* Appends an inner layout, whose group of all becomes the last one. */
static void append(struct layout_map *m, const struct layout_map *inner,
		   struct at *at)
{
	const struct layout *l = &inner->desc;

	for (uint32_t i = 0; i < l->sources; i++) {
		m->desc.source[at->source + i] = l->source[i];
		m->regions[at->source + i] = inner->regions[i];
	}
	for (uint32_t i = 0; i < l->parts; i++) {
		struct layout_part *p = &m->desc.part[at->part + i];

		*p = l->part[i];
		p->index += p->nested ? at->group : at->source;
	}
	memcpy(&m->desc.group[at->group], l->group,
	       l->groups * sizeof(*l->group));
	at->source += l->sources;
	at->group += l->groups;
	at->part += l->parts;
}

static void fill(const struct build *b, uint64_t rounds, struct layout_map *m)
{
	uint32_t last[LAYOUT_GROUPS];	/* group of each inner layout */
	struct at at = { b->regions, 0, 0 };

	for (uint32_t i = 0; i < b->regions; i++) {
		m->regions[i] = b->all[i];
		m->desc.source[i] = (struct layout_source){
			.access = b->size.access, .region = b->all[i]->id,
			.addr = (uintptr_t)b->all[i]->addr,
			.len = b->all[i]->len,
		};
	}
	for (uint32_t i = 0; i < b->inners; i++) {
		m->inner[i] = b->inner[i];
		append(m, b->inner[i]->map, &at);
		last[i] = at.group - 1;
	}
	m->desc.group[at.group] = (struct layout_group){
		.parts = b->count, .rounds = rounds,
	};
	for (uint32_t i = 0; i < b->count; i++) {
		const struct rdmamsg_layout_part *from = &b->parts[i];
		const bool nested = from->region->layout;
		struct layout_part *p = &m->desc.part[at.part + i];

		*p = (struct layout_part){
			.index = nested ? last[b->index[i]] : b->index[i],
			.nested = nested,
			.dims = (uint16_t)min(from->dims, UINT16_MAX),
			.offset = from->offset, .len = from->len,
			.step = from->step,
		};
		memcpy(p->count, from->count, sizeof(p->count));
		memcpy(p->stride, from->stride, sizeof(p->stride));
	}
	for (uint32_t i = 0; i < m->desc.sources; i++)
		m->desc.source[i].access = b->size.access;
}

/*
 * Cuts off the memory that the layout does not touch. A dmabuf stays whole,
 * because devices have rules for its beginning.
 */
static int trim(struct layout_map *m)
{
	struct layout *l = &m->desc;
	uint64_t *lo = calloc(l->sources, 2 * sizeof(*lo));
	uint64_t *hi = lo + l->sources;

	if (!lo)
		return rdmamsg__fail(-ENOMEM, "no memory for a layout");
	rdmamsg__layout_hull(l, lo, hi);
	for (uint32_t i = 0; i < l->sources; i++) {
		const struct rdmamsg_region *from = m->regions[i];
		struct rdmamsg_region *shadow = &m->shadows[i];

		if (from->fd >= 0)
			lo[i] = 0;
		else
			l->source[i].len = hi[i] - lo[i];
		l->source[i].addr += lo[i];
		*shadow = (struct rdmamsg_region){
			.ctx = from->ctx, .len = l->source[i].len,
			.addr = from->fd >= 0 ? NULL :
				(void *)(uintptr_t)l->source[i].addr,
			.fd = from->fd, .fd_offset = from->fd_offset,
			.access = l->access, .id = from->id, .pd = from->pd,
		};
		list_init(&shadow->mrs);
	}
	for (uint32_t i = 0; i < l->parts; i++)
		if (!l->part[i].nested)
			l->part[i].offset -= lo[l->part[i].index];
	free(lo);
	return 0;
}

static int finish(const struct build *b, struct layout_map *m)
{
	const uint32_t own = b->size.parts - b->count;
	uint32_t part;
	const char *wrong = rdmamsg__layout_check(&m->desc, &part);

	if (wrong)
		return wrong_part(part < own ? 0 : part - own, -EINVAL, wrong);
	return trim(m);
}

static int build(struct build *b, uint64_t rounds, struct layout_map **ret)
{
	struct layout_map *m;
	int err = 0;

	for (uint32_t i = 0; i < b->count && !err; i++) {
		err = check_region(b, i);
		if (!err)
			err = collect(b, i);
	}
	if (err)
		return err;
	m = map_new(b);
	if (!m)
		return rdmamsg__fail(-ENOMEM, "no memory for a layout");
	fill(b, rounds, m);
	err = finish(b, m);
	if (err)
		free(m);
	else
		*ret = m;
	return err;
}

int rdmamsg__layout_build(const struct rdmamsg_layout *layout,
			  const struct rdmamsg_layout_part *parts,
			  uint32_t count, uint64_t rounds,
			  struct layout_map **ret)
{
	struct build *b;
	int err;

	if (!parts || !count || !rounds)
		return rdmamsg__fail(-EINVAL, "rdmamsg_layout_define: %s",
				     rounds ? "there are no parts" :
				     "rounds is 0");
	if (count > layout->max_parts)
		return rdmamsg__fail(-ENOBUFS, "rdmamsg_layout_define: %u "
				     "parts, but max_parts is %u", count,
				     layout->max_parts);
	b = calloc(1, sizeof(*b) + count * sizeof(*b->index));
	if (!b)
		return rdmamsg__fail(-ENOMEM, "no memory for a layout");
	b->layout = layout;
	b->parts = parts;
	b->count = count;
	b->index = (uint32_t *)(b + 1);
	b->size = (struct layout){
		.id = layout->region.id,
		.access = (uint8_t)(layout->region.access & ACCESS_REMOTE),
		.groups = 1, .parts = count,
	};
	err = build(b, rounds, ret);
	free(b);
	return err;
}
