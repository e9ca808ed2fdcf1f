/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pools of the program: a limit and a kind of pages, on top of pool.c.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "device/device.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/share.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define NODE_MAX	1023

static int options_set(struct rdmamsg_pool_options *o,
		       const struct rdmamsg_pool_options *opts)
{
	int ret = rdmamsg__opts_copy(o, sizeof(*o), opts,
				     "rdmamsg_pool_options");

	if (ret)
		return ret;
	if (o->flags & ~(uint32_t)(RDMAMSG_POOL_HUGE | RDMAMSG_POOL_NODE))
		return rdmamsg__fail(-EINVAL, "rdmamsg_pool_options: unknown "
				     "flags 0x%x", o->flags);
	if (o->node > NODE_MAX)
		return rdmamsg__fail(-EINVAL, "rdmamsg_pool_options: node %u: "
				     "at most %d", o->node, NODE_MAX);
	if (!o->max_bytes)
		o->max_bytes = SIZE_MAX;
	return 0;
}

int rdmamsg_pool_create(struct rdmamsg *ctx,
			const struct rdmamsg_pool_options *opts,
			struct rdmamsg_pool **ret_pool)
{
	struct rdmamsg_pool *pool;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_pool)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_pool_create: ret is NULL");
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return rdmamsg__fail(-ENOMEM, "no memory for a pool");
	ret = options_set(&pool->opts, opts);
	if (ret) {
		free(pool);
		return ret;
	}
	pool->ctx = ctx;
	pool->object = ++ctx->objects;
	list_add_tail(&ctx->memory->pool_list, &pool->node);
	*ret_pool = pool;
	return 0;
}

/* Calls fn for each struct pool of 'owner' on all devices. */
static void for_each(const struct rdmamsg_pool *owner,
		     void (*fn)(struct pool *pool, void *arg), void *arg)
{
	struct list *d, *n, *t;

	list_for_each(d, &owner->ctx->devices->devs) {
		struct dev *dev = list_entry(d, struct dev, node);
		struct list *lists[] = { &dev->recv_pools, &dev->send_pools };

		for (int i = 0; i < 2; i++)
			list_for_each_safe(n, t, lists[i]) {
				struct pool *p = list_entry(n, struct pool,
							    node);

				if (p->owner == owner)
					fn(p, arg);
			}
	}
}

static void add_stats(struct pool *pool, void *arg)
{
	struct rdmamsg_pool_stats *s = arg;
	struct list *n;

	list_for_each(n, &pool->slabs) {
		const struct slab *slab = list_entry(n, struct slab, node);

		const struct stretch *st = &slab->stretch;

		s->bytes_huge += st->pages.huge ? st->size : 0;
		s->bytes_advised += st->pages.advised ? st->size : 0;
		s->bytes_node += st->pages.on_node ? st->size : 0;
	}
	s->buffers += pool->total;
	s->used += pool->used;
}

static int check(const struct rdmamsg_pool *pool)
{
	return pool ? rdmamsg__ctx_check(pool->ctx) :
	       rdmamsg__fail(-EINVAL, "the pool is NULL");
}

int rdmamsg_pool_get_stats(const struct rdmamsg_pool *pool,
			   struct rdmamsg_pool_stats *stats)
{
	struct rdmamsg_pool_stats s = { .size = sizeof(s) };
	int ret = check(pool);

	if (ret)
		return ret;
	for_each(pool, add_stats, &s);
	s.bytes = pool->bytes;
	s.refused = pool->refused;
	s.received_rendezvous = pool->rendezvous;
	return rdmamsg__give(stats, &s, sizeof(s));
}

static void free_one(struct pool *pool, void *arg)
{
	rdmamsg__pool_free(pool);
}

int rdmamsg_pool_destroy(struct rdmamsg_pool *pool)
{
	struct rdmamsg_pool_stats s = { .size = sizeof(s) };
	int ret = pool ? check(pool) : 0;

	if (ret || !pool)
		return ret;
	rdmamsg__shares_drain(pool->ctx);
	for_each(pool, add_stats, &s);
	if (pool->refs || s.used)
		return rdmamsg__fail(-EBUSY, "rdmamsg_pool_destroy: %d "
				     "endpoints, listeners and shared receive "
				     "queues have it, %llu buffers are in use",
				     pool->refs, (unsigned long long)s.used);
	for_each(pool, free_one, NULL);
	list_del(&pool->node);
	free(pool);
	return 0;
}

void rdmamsg__userpools_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->memory->pool_list)) {
		struct rdmamsg_pool *pool = list_first(&ctx->memory->pool_list,
						       struct rdmamsg_pool,
						       node);

		/* the devices are closed, and their memory gone */
		list_del(&pool->node);
		free(pool);
	}
}

/* ---- in options ------------------------------------------------------- */

int rdmamsg__userpool_check(const struct rdmamsg *ctx,
			    const struct rdmamsg_pool *pool, const char *what,
			    size_t size)
{
	if (!pool)
		return 0;
	if (pool->ctx != ctx)
		return rdmamsg__fail(-EINVAL, "%s: the pool belongs to another "
				     "context", what);
	if (rdmamsg__pool_least(pool, size) > pool->opts.max_bytes)
		return rdmamsg__fail(-EINVAL, "%s: max_bytes of the pool is "
				     "%zu, the first buffer of %zu bytes takes "
				     "%zu", what, pool->opts.max_bytes, size,
				     rdmamsg__pool_least(pool, size));
	return 0;
}

int rdmamsg__userpools_check(const struct rdmamsg *ctx,
			     const struct rdmamsg_ep_options *o)
{
	const struct rdmamsg_pool *pools[] = {
		o->recv_pool, o->send_pool, o->tuning->ctrl_pool,
	};

	for (int i = 0; i < 3; i++)
		if (pools[i] && pools[i]->ctx != ctx)
			return rdmamsg__fail(-EINVAL, "a pool belongs to "
					     "another context");
	if (o->recv_pool && o->srq)
		return rdmamsg__fail(-EINVAL, "recv_pool and srq: receives "
				     "come from one of them; an srq can have a "
				     "recv_pool itself");
	return 0;
}

static void count(struct rdmamsg_pool *pool, int by)
{
	if (pool)
		pool->refs += by;
}

void rdmamsg__userpools_hold(const struct rdmamsg_ep_options *o)
{
	count(o->recv_pool, 1);
	count(o->send_pool, 1);
	count(o->tuning->ctrl_pool, 1);
}

void rdmamsg__userpools_rele(struct rdmamsg_ep_options *o,
			     struct rdmamsg_ep_tuning *t)
{
	count(o->recv_pool, -1);
	count(o->send_pool, -1);
	count(t->ctrl_pool, -1);
	o->recv_pool = o->send_pool = t->ctrl_pool = NULL;
}
