/* SPDX-License-Identifier: BSD-2-Clause */
/* The layouts of indirect keys. Addresses begin at 0. */
#include "soft/verbs/layout.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/layout.h"
#include "base/util.h"
#include "soft/fabric/memory.h"
#include "soft/verbs/access.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"
#include "soft/verbs/qp.h"

/*
 * Returns the access that the memory of a layout needs. Sources do not tell
 * whether a card also wants the right to atomics there, so this device does.
 */
static int local(int access)
{
	const int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_ATOMIC;

	return (access & writes ? IBV_ACCESS_LOCAL_WRITE : 0) |
	       (access & IBV_ACCESS_REMOTE_ATOMIC);
}

/* ---- definition -------------------------------------------------------- */

/* Returns the indirect key, or NULL if the queue pair may not change it. */
static struct soft_mr *indirect(const struct soft_dev *dev,
				const struct soft_qp *qp, uint32_t key)
{
	struct soft_mr *mr = soft_key_region(&dev->keys, key);

	return mr && mr->layout && mr->ibv.pd == &qp->pd->ibv ? mr : NULL;
}

/* Takes the entries of the request. Those of no bytes are left out. */
static int fill(struct layout *l, const struct soft_swqe *wqe)
{
	const bool list = wqe->swap & SOFT_UMR_LIST;
	const uint64_t rounds = list ? 1 : wqe->raddr;
	uint32_t n = 0, wrong;

	for (uint32_t i = 0; rounds && i < wqe->imm; i++) {
		struct ibv_sge e;
		uint64_t len, step;

		memcpy(&e, wqe->data + i * sizeof(e), sizeof(e));
		len = list ? e.length : e.length & 0xffff;
		step = list ? 0 : e.length >> 16;
		if (!len)
			continue;
		l->source[n] = (struct layout_source){
			.rkey = e.lkey, .addr = e.addr,
			.len = len + (rounds - 1) * step,
		};
		l->part[n] = (struct layout_part){
			.index = n, .len = len, .step = step,
		};
		n++;
	}
	l->group[0] = (struct layout_group){ .parts = n, .rounds = rounds };
	l->sources = l->parts = n;
	l->len = 0;
	return n && rdmamsg__layout_check(l, &wrong) ? -EINVAL : 0;
}

int soft_layout_define(struct soft_dev *dev, const struct soft_qp *qp,
		       const struct soft_swqe *wqe)
{
	struct soft_mr *mr = indirect(dev, qp, wqe->rkey);

	if (!mr || wqe->imm > mr->entries)
		return -EINVAL;
	mr->ibv.length = 0;
	if (wqe->swap & (SOFT_UMR_LIST | SOFT_UMR_INTERLEAVED) &&
	    fill(mr->layout, wqe)) {
		mr->layout->len = 0;
		return -EINVAL;
	}
	if (wqe->swap & SOFT_UMR_ACCESS)
		mr->access = (int)wqe->compare_add;
	mr->ibv.length = mr->layout->len;
	return 0;
}

int soft_layout_invalidate(struct soft_dev *dev, const struct soft_qp *qp,
			   uint32_t key, bool by_peer)
{
	struct soft_mr *mr = indirect(dev, qp, key);

	if (!mr || !mr->ibv.length || (by_peer && !mr->peers_invalidate))
		return -EINVAL;
	mr->ibv.length = 0;
	return 0;
}

/* ---- access ------------------------------------------------------------ */

const struct soft_mr *soft_layout_of(const struct soft_dev *dev,
				     const struct ibv_pd *pd, uint32_t rkey,
				     uint64_t addr, uint64_t len, int access)
{
	const struct soft_mr *mr = soft_key_region(&dev->keys, rkey);

	return mr && mr->layout && mr->ibv.pd == pd &&
	       (mr->access & access) == access && addr <= mr->ibv.length &&
	       len <= mr->ibv.length - addr ? mr : NULL;
}

static void *block(struct soft_dev *dev, const struct ibv_pd *pd, uint32_t key,
		   uint64_t addr, uint32_t *len, int access, uint32_t depth)
{
	for (; depth < LAYOUT_DEPTH; depth++) {
		const struct soft_mr *mr = soft_layout_of(dev, pd, key, addr,
							  *len, access);
		const struct layout_source *s;
		struct layout_run run;
		void *at;

		if (!mr || !*len)
			return NULL;
		rdmamsg__layout_at(mr->layout, addr, &run);
		s = &mr->layout->source[run.source];
		*len = (uint32_t)min(run.len, (uint64_t)*len);
		key = s->rkey;
		addr = s->addr + run.offset;
		access = local(access);
		at = soft_mr_at(dev, pd, key, addr, *len, access);
		if (at)
			return at;
		/* the source may be a layout, too */
	}
	return NULL;
}

void *soft_layout_block(struct soft_dev *dev, const struct ibv_pd *pd,
			uint32_t key, uint64_t addr, uint32_t *len, int access)
{
	return block(dev, pd, key, addr, len, access, 0);
}

bool soft_layout_in(const struct soft_dev *dev, const struct ibv_sge *sge,
		    uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct soft_mr *mr = soft_key_region(&dev->keys,
							   sge[i].lkey);

		if (mr && mr->layout)
			return true;
	}
	return false;
}

/*
 * A position in the layout of a key. Going on from it costs less than finding
 * it, which takes divisions.
 */
struct cursor {
	struct soft_dev *dev;
	const struct soft_mr *mr;
	int access;			/* to the sources */
	uint32_t part;
	uint64_t round, in;		/* in: the part */
	const struct soft_mr *source;	/* with 'key', of the last block */
	uint32_t key;			/* 0: none yet */
};

/* The layout of a key has one group, and no part of it has dimensions. */
static struct cursor cursor_at(struct soft_dev *dev, const struct soft_mr *mr,
			       uint64_t addr, int access)
{
	const struct layout *l = mr->layout;
	const struct layout_group *g = &l->group[0];
	struct cursor c = { .dev = dev, .mr = mr, .access = local(access) };
	uint32_t n = l->parts;

	c.round = g->rounds > 1 ? addr / g->round : 0;
	addr -= c.round * g->round;
	while (n > 1) {
		const uint32_t half = n / 2;

		if (l->part[c.part + half].start <= addr) {
			c.part += half;
			n -= half;
		} else {
			n = half;
		}
	}
	c.in = addr - l->part[c.part].start;
	return c;
}

/* Returns the region of a source, or NULL if it is none that permits access. */
static const struct soft_mr *source_of(struct cursor *c, uint32_t key)
{
	const struct soft_mr *mr;

	if (likely(c->key == key))
		return c->source;
	mr = soft_key_region(&c->dev->keys, key);
	c->key = key;
	c->source = mr && !mr->layout && mr->ibv.pd == c->mr->ibv.pd &&
		    (mr->access & c->access) == c->access ? mr : NULL;
	return c->source;
}

/*
 * Returns the memory of the next block, of at most len bytes, or NULL if it is
 * not registered.
 */
static void *next(struct cursor *c, uint32_t len, uint32_t *ret_len)
{
	const struct layout *l = c->mr->layout;
	const struct layout_part *p = &l->part[c->part];
	const struct layout_source *s = &l->source[p->index];
	const uint64_t addr = s->addr + c->round * p->step + c->in;
	const struct soft_mr *mr = source_of(c, s->rkey);
	void *at;

	*ret_len = (uint32_t)min(p->len - c->in, (uint64_t)len);
	at = mr ? soft_mr_memory(mr, addr, *ret_len) : NULL;
	if (unlikely(!at))
		at = block(c->dev, c->mr->ibv.pd, s->rkey, addr, ret_len,
			   c->access, 1);
	c->in += *ret_len;
	if (c->in == p->len) {
		c->in = 0;
		if (++c->part == l->parts) {
			c->part = 0;
			c->round++;
		}
	}
	return at;
}

uint32_t soft_layout_parts(struct soft_dev *dev, const struct soft_mr *mr,
			   uint64_t addr, uint32_t len, int access,
			   struct iovec *parts, uint32_t max)
{
	struct cursor c = cursor_at(dev, mr, addr, access);
	uint32_t n = 0;

	for (uint32_t part; len; len -= part) {
		void *at = next(&c, len, &part);

		if (!at)
			return 0;
		if (n == max)
			return max + 1;
		parts[n++] = (struct iovec){ at, part };
	}
	return n;
}

int soft_layout_read(struct soft_dev *dev, const struct soft_mr *mr,
		     uint64_t addr, void *dst, uint32_t len)
{
	struct cursor c = cursor_at(dev, mr, addr, IBV_ACCESS_REMOTE_READ);
	uint8_t *to = dst;

	for (uint32_t part; len; len -= part, to += part) {
		const void *at = next(&c, len, &part);

		if (unlikely(!at))
			return -EACCES;
		memcpy(to, at, part);
	}
	return 0;
}

int soft_layout_write(struct soft_dev *dev, const struct soft_mr *mr,
		      uint64_t addr, const void *src, uint32_t len)
{
	struct cursor c = cursor_at(dev, mr, addr, IBV_ACCESS_REMOTE_WRITE);
	const uint8_t *from = src;

	for (uint32_t part; len; len -= part, from += part) {
		void *at = next(&c, len, &part);

		if (unlikely(!at))
			return -EACCES;
		/* a program may poll on the last bytes, but on no others */
		if (part == len)
			soft_copy(at, from, part);
		else
			memcpy(at, from, part);
	}
	return 0;
}
