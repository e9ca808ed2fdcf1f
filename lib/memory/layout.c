/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts of this program. Defining a layout copies the groups of its inner
 * layouts, so that one description has all.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "memory/layout.h"
#include "memory/layout_ask.h"
#include "memory/layout_build.h"
#include "memory/memory.h"
#include "memory/region.h"
#include "wire/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/layout.h>
#include <rdmamsg/rdmamsg.h>

#define ACCESS_ALL	(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_ATOMIC | RDMAMSG_ACCESS_LOCAL_WRITE)
#define BLOCKS_MAX	65536u

_Static_assert(RDMAMSG_LAYOUT_DIMS == LAYOUT_DIMS &&
	       RDMAMSG_LAYOUT_DEPTH == LAYOUT_DEPTH &&
	       RDMAMSG_LAYOUT_PARTS == LAYOUT_PARTS, "as on the wire");

/* ---- checks ----------------------------------------------------------- */

int rdmamsg__layout_ok(const struct rdmamsg_layout *layout)
{
	if (layout)
		return rdmamsg__ctx_check(layout->region.ctx);
	return rdmamsg__fail(-EINVAL, "the layout is NULL");
}

int rdmamsg__layout_range(const struct rdmamsg_layout *layout, uint64_t offset,
			  uint64_t len)
{
	if (!layout->map)
		return rdmamsg__fail(-EINVAL, "layout %llu is not defined: "
				     "rdmamsg_layout_define()",
				     (unsigned long long)layout->region.id);
	if (offset <= layout->region.len && len <= layout->region.len - offset)
		return 0;
	return rdmamsg__fail(-ERANGE, "layout %llu has %llu bytes, not %llu "
			     "from offset %llu on",
			     (unsigned long long)layout->region.id,
			     (unsigned long long)layout->region.len,
			     (unsigned long long)len,
			     (unsigned long long)offset);
}

int rdmamsg__layout_writable(const struct rdmamsg_layout *layout)
{
	if (layout->region.access & RDMAMSG_ACCESS_LOCAL_WRITE)
		return 0;
	return rdmamsg__fail(-EACCES, "layout %llu does not have "
			     "RDMAMSG_ACCESS_LOCAL_WRITE",
			     (unsigned long long)layout->region.id);
}

static int check_idle(const struct rdmamsg_layout *layout)
{
	if (layout->outer)
		return rdmamsg__fail(-EBUSY, "layout %llu is part of %u other "
				     "layouts: invalidate them first",
				     (unsigned long long)layout->region.id,
				     layout->outer);
	if (!layout->region.busy)
		return 0;
	layout->region.ctx->memory->ask(layout->region.ctx);
	return rdmamsg__fail(-EBUSY, "layout %llu: %u operations of this "
			     "program still use it: wait for on_complete or "
			     "on_message",
			     (unsigned long long)layout->region.id,
			     layout->region.busy);
}

bool rdmamsg__layout_no_cpu(const struct rdmamsg_layout *layout)
{
	for (uint32_t i = 0; i < layout->map->desc.sources; i++)
		if (layout->map->regions[i]->fd >= 0)
			return true;
	return false;
}

/* ---- life ------------------------------------------------------------- */

static void use(struct layout_map *m, bool begins)
{
	const uint32_t by = begins ? 1 : UINT32_MAX;	/* wraps to - 1 */

	for (uint32_t i = 0; i < m->desc.sources; i++) {
		m->regions[i]->busy += by;
		m->regions[i]->layouts += by;
	}
	for (uint32_t i = 0; i < m->inners; i++)
		m->inner[i]->outer += by;
}

/* Replaces the map, and frees the old one. */
static int set_map(struct rdmamsg_layout *layout, struct layout_map *map)
{
	struct layout_map *old = layout->map;
	int ret = 0;

	if (map)
		use(map, true);
	layout->map = map;
	layout->region.len = map ? map->desc.len : 0;
	if (!old)
		return 0;
	rdmamsg__layout_asks_cancel(layout);
	ret = rdmamsg__layout_withdraw(old);
	use(old, false);
	free(old);
	return ret;
}

void rdmamsg__layout_free(struct rdmamsg_layout *layout)
{
	if (layout->map)
		(void)rdmamsg__layout_withdraw(layout->map);
	free(layout->map);
	list_del(&layout->region.node);
	free(layout);
}

/* ---- public ----------------------------------------------------------- */

int rdmamsg_layout_create(struct rdmamsg *ctx,
			  const struct rdmamsg_layout_options *opts,
			  struct rdmamsg_layout **ret)
{
	static const struct range ranges[] = {
		RANGE_OF(struct rdmamsg_layout_options, max_parts,
			 LAYOUT_PARTS, 1, 1, LAYOUT_PARTS),
	};
	struct rdmamsg_layout_options o = { .size = sizeof(o) };
	struct rdmamsg_layout *layout;
	int err = rdmamsg__ctx_check(ctx);

	if (!err && opts)
		err = rdmamsg__opts_copy(&o, sizeof(o), opts,
					 "rdmamsg_layout_options");
	if (!err)
		err = rdmamsg__set_ranges(&o, ranges, 1);
	if (err)
		return err;
	if (!ret || (o.access & ~(uint32_t)ACCESS_ALL))
		return rdmamsg__fail(-EINVAL, "a layout: %s", ret ?
				     "access bits other than READ, WRITE, "
				     "ATOMIC and LOCAL_WRITE" : "ret is NULL");
	layout = calloc(1, sizeof(*layout));
	if (!layout)
		return rdmamsg__fail(-ENOMEM, "no memory for a layout");
	layout->max_parts = o.max_parts;
	layout->region.ctx = ctx;
	layout->region.layout = layout;
	layout->region.fd = -1;
	layout->region.access = o.access;
	layout->region.id = ++ctx->memory->regions;
	list_init(&layout->region.mrs);
	list_add_tail(&ctx->memory->region_list, &layout->region.node);
	*ret = layout;
	return 0;
}

int rdmamsg_layout_define(struct rdmamsg_layout *layout,
			  const struct rdmamsg_layout_part *parts,
			  uint32_t count, uint64_t rounds)
{
	struct layout_map *map;
	int err = rdmamsg__layout_ok(layout);

	if (!err)
		err = check_idle(layout);
	if (!err)
		err = rdmamsg__layout_build(layout, parts, count, rounds, &map);
	return err ? err : set_map(layout, map);
}

int rdmamsg_layout_invalidate(struct rdmamsg_layout *layout)
{
	int err = rdmamsg__layout_ok(layout);

	if (!err)
		err = check_idle(layout);
	return err ? err : set_map(layout, NULL);
}

int rdmamsg_layout_destroy(struct rdmamsg_layout *layout)
{
	int err = layout ? rdmamsg_layout_invalidate(layout) : 0;

	if (!err && layout)
		rdmamsg__layout_free(layout);
	return err;
}

struct rdmamsg_region *rdmamsg_layout_region(struct rdmamsg_layout *layout)
{
	return layout ? &layout->region : NULL;
}

static uint64_t blocks(const struct layout *l)
{
	uint64_t n = 0, at = 0;
	struct layout_run run;

	for (; at < l->len && n < BLOCKS_MAX; at += run.len, n++)
		rdmamsg__layout_at(l, at, &run);
	return n;
}

int rdmamsg_layout_query(const struct rdmamsg_layout *layout,
			 struct rdmamsg_layout_attr *attr)
{
	struct rdmamsg_layout_attr a = {
		.size = sizeof(a), .max_depth = LAYOUT_DEPTH,
	};
	int err = rdmamsg__layout_ok(layout);

	if (err)
		return err;
	a.id = layout->region.id;
	a.max_parts = layout->max_parts;
	a.operations = layout->region.busy;
	a.outer = layout->outer;
	a.access = layout->region.access;
	if (layout->map) {
		const struct layout *l = &layout->map->desc;

		a.len = l->len;
		a.blocks = blocks(l);
		a.parts = l->parts;
		a.depth = l->depth;
		a.regions = l->sources;
		a.key_len = rdmamsg__layout_bytes(l);
	}
	return rdmamsg__give(attr, &a, sizeof(a));
}

/* Copies between the layout and buf. */
static int copy(const struct rdmamsg_layout *layout, uint64_t at, void *buf,
		size_t len, bool in)
{
	const struct layout *l;
	int err = rdmamsg__layout_ok(layout);

	if (!err && !buf && len)
		err = rdmamsg__fail(-EINVAL, "a copy of a layout: the memory "
				    "is NULL");
	if (!err)
		err = rdmamsg__layout_range(layout, at, len);
	if (err)
		return err;
	if (rdmamsg__layout_no_cpu(layout))
		return rdmamsg__fail(-EOPNOTSUPP, "layout %llu has a dmabuf, "
				     "which cannot be copied",
				     (unsigned long long)layout->region.id);
	l = &layout->map->desc;
	for (size_t done = 0; done < len; ) {
		struct layout_run run;
		uint8_t *mem;
		size_t n;

		rdmamsg__layout_at(l, at + done, &run);
		mem = (uint8_t *)(uintptr_t)l->source[run.source].addr +
		      run.offset;
		n = (size_t)min(run.len, (uint64_t)(len - done));
		if (in)
			memcpy(mem, (uint8_t *)buf + done, n);
		else
			memcpy((uint8_t *)buf + done, mem, n);
		done += n;
	}
	return 0;
}

int rdmamsg_layout_copy_in(struct rdmamsg_layout *layout, uint64_t offset,
			   const void *src, size_t len)
{
	int err = rdmamsg__layout_ok(layout);

	if (!err)
		err = rdmamsg__layout_writable(layout);
	return err ? err : copy(layout, offset, (void *)(uintptr_t)src, len,
				true);
}

int rdmamsg_layout_copy_out(const struct rdmamsg_layout *layout,
			    uint64_t offset, void *dst, size_t len)
{
	return copy(layout, offset, dst, len, false);
}
