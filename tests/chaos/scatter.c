/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that on_incoming receives in a layout: every other block of the
 * memory. The blocks between must not change.
 */
#include "worker.h"

#include <errno.h>
#include <string.h>

#include <rdmamsg/layout.h>
#include <rdmamsg/rma.h>

#define BLOCK_MAX	(64u << 10)
#define GAP		0x55

struct scattered {
	struct rdmamsg_region *region;
	struct rdmamsg_layout *layout;
	size_t block;
	uint64_t count;
	uint8_t mem[];
};

static struct scattered *make(size_t len)
{
	const size_t least = 1 + len / 256;	/* not too many reads */
	const size_t block = least + rng_below(&w.rng, BLOCK_MAX);
	const uint64_t count = (len + block - 1) / block;
	struct scattered *s = own_alloc(sizeof(*s) + 2 * block * count);

	memset(s, 0, sizeof(*s));
	memset(s->mem, GAP, 2 * block * count);
	s->block = block;
	s->count = count;
	return s;
}

static int define(struct scattered *s)
{
	static const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = RDMAMSG_ACCESS_LOCAL_WRITE,
	};
	struct rdmamsg_layout_part part = {
		.len = s->block, .dims = 1, .count = { s->count },
		.stride = { 2 * s->block },
	};
	int ret = rdmamsg_region_create(w.ctx, s->mem,
					2 * s->block * s->count, o.access,
					&s->region);

	if (!ret)
		ret = rdmamsg_layout_create(w.ctx, &o, &s->layout);
	part.region = s->region;
	return ret ? ret : rdmamsg_layout_define(s->layout, &part, 1, 1);
}

static void release(struct conn *c, uint32_t n, struct scattered *s)
{
	int ret = rdmamsg_layout_destroy(s->layout);

	if (!ret)
		ret = rdmamsg_region_destroy(s->region);
	if (ret && !w.rough)
		VIOLATION(c, "the layout of message %u cannot be destroyed: "
			  "%s", n, rdmamsg_error());
	/* the device may still have the memory */
	if (!ret)
		__real_free(s);
}

bool scatter_lend(struct conn *c, struct rdmamsg_ep *ep, uint32_t n, size_t len)
{
	struct scattered *s = make(len);
	int ret = define(s);

	if (!ret)
		ret = rdmamsg_layout_recv(ep, s->layout, 0);
	if (!ret) {
		c->scattered[n] = s;
		return true;
	}
	if (ret == -EINVAL || ret == -ERANGE || ret == -EACCES)
		VIOLATION(c, "rdmamsg_layout_recv: %s", rdmamsg_error());
	release(c, n, s);
	return false;
}

uint8_t *scatter_take(struct conn *c, uint32_t n, size_t len)
{
	struct scattered *s = c->scattered[n];
	uint8_t *ret = own_alloc(len);

	c->scattered[n] = NULL;
	if (rdmamsg_layout_copy_out(s->layout, 0, ret, len))
		VIOLATION(c, "message %u: %s", n, rdmamsg_error());
	for (uint64_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < s->block; k++)
			if (s->mem[(2 * i + 1) * s->block + k] != GAP) {
				VIOLATION(c, "message %u: bytes between its "
					  "blocks have changed", n);
				k = s->block;
			}
	release(c, n, s);
	return ret;
}

void scatter_forget(struct conn *c, uint32_t n)
{
	if (c->scattered[n])
		release(c, n, c->scattered[n]);
	c->scattered[n] = NULL;
}
