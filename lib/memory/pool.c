/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slabs of registered buffers, for one device in one context. The registrations
 * allow local access only, so peers cannot use their rkeys.
 */
#include "base/base.h"
#include "base/list.h"
#include "base/poison.h"
#include "base/util.h"
#include "device/device.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <rdmamsg/memory.h>

#define BUF_MIN		((size_t)256)
#define SLAB_MIN	((size_t)256 << 10)

size_t rdmamsg__pool_buf_size(size_t size)
{
	size_t buf_size = BUF_MIN;

	while (buf_size < size)
		buf_size *= 2;
	return buf_size;
}

size_t rdmamsg__pool_slab_size(size_t buf_size, uint32_t count)
{
	return max(count * buf_size, SLAB_MIN) / buf_size * buf_size;
}

static size_t slab_size(const struct rdmamsg_pool *owner, size_t buf_size,
			uint32_t count)
{
	size_t size = rdmamsg__pool_slab_size(buf_size, count);

	if (!owner || !(owner->opts.flags & RDMAMSG_POOL_HUGE))
		return size;
	return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

size_t rdmamsg__pool_least(const struct rdmamsg_pool *owner, size_t size)
{
	return slab_size(owner, rdmamsg__pool_buf_size(size), 1);
}

int rdmamsg__pool_get(struct dev *dev, enum direction dir,
		      struct rdmamsg_pool *owner, size_t size,
		      struct pool **ret)
{
	struct list *pools = dir == DIR_IN ? &dev->recv_pools :
			     &dev->send_pools;
	size_t buf_size = rdmamsg__pool_buf_size(size);
	struct pool *pool;
	struct list *n;

	list_for_each(n, pools) {
		pool = list_entry(n, struct pool, node);
		if (pool->buf_size == buf_size && pool->owner == owner)
			goto found;
	}
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return rdmamsg__fail(-ENOMEM, "no memory for a pool");
	pool->dev = dev;
	pool->owner = owner;
	pool->dir = dir;
	pool->buf_size = buf_size;
	list_init(&pool->slabs);
	list_init(&pool->free_slabs);
	list_add_tail(pools, &pool->node);
found:
	*ret = pool;
	return 0;
}

/* ---- slabs ------------------------------------------------------------ */

void rdmamsg__slab_busy(struct slab *slab)
{
	rdmamsg__stretch_use(&slab->stretch);
}

void rdmamsg__slab_idle(struct slab *slab)
{
	struct pool *pool = slab->pool;

	if (pool->users && pool->slab_count == 1)
		return;
	/*
	 * Keep the slab as a spare. In tests/bench/churn.c on the soft HCA, to
	 * unmap it here costs 2400 ns a message instead of 35 ("wave"). Without
	 * dropping spares of other sizes, max_bytes refuses three messages of
	 * four ("mixed").
	 *
	 * Last in the list: slabs in use fill up first, and idle slabs stay
	 * idle.
	 */
	list_del(&slab->free_node);
	list_add_tail(&pool->free_slabs, &slab->free_node);
	rdmamsg__stretch_spare(&slab->stretch);
}

void rdmamsg__slab_bury(struct slab *slab)
{
	free(slab->msgs);
	free(slab);
}

static void slab_free(struct slab *slab)
{
	slab->pool->total -= slab->count;
	slab->pool->slab_count--;
	list_del(&slab->node);
	list_del(&slab->free_node);
	if (rdmamsg__stretch_unmap(&slab->stretch))
		rdmamsg__slab_bury(slab);
}

static void slab_drop(struct stretch *s)
{
	slab_free((struct slab *)s);
}

static void fill(struct slab *slab)
{
	struct pool *pool = slab->pool;

	for (uint32_t i = 0; i < slab->count; i++) {
		struct rdmamsg_msg *msg = &slab->msgs[i];

		msg->kind = MSG_POOL;
		msg->slab = slab;
		msg->dev = pool->dev;
		msg->buf = (uint8_t *)slab->stretch.mem +
			   (size_t)i * pool->buf_size;
		msg->data = msg->buf + PROTO_HDR_LEN;
		msg->room = (uint32_t)min(pool->buf_size - PROTO_HDR_LEN,
					  (size_t)PROTO_MSG_MAX);
		msg->lkey = slab->stretch.mr->lkey;
		msg->next = slab->free;
		slab->free = msg;
	}
	rdmamsg__poison(slab->stretch.mem, slab->stretch.size);
}

static int slab_new(struct pool *pool, size_t size)
{
	struct slab *slab = calloc(1, sizeof(*slab));
	int err;

	if (!slab)
		return rdmamsg__fail(-ENOMEM, "no memory for buffers");
	slab->pool = pool;
	slab->count = (uint32_t)(size / pool->buf_size);
	slab->stretch = (struct stretch){
		.dev = pool->dev, .owner = pool->owner, .dir = pool->dir,
		.posted = pool->posted, .size = size, .drop = slab_drop,
	};
	slab->msgs = calloc(slab->count, sizeof(*slab->msgs));
	if (!slab->msgs) {
		err = rdmamsg__fail(-ENOMEM, "no memory for %u buffers",
				    slab->count);
		goto err_slab;
	}
	err = rdmamsg__stretch_map(&slab->stretch, true);
	if (err)
		goto err_msgs;
	fill(slab);
	pool->total += slab->count;
	pool->slab_count++;
	list_add_tail(&pool->slabs, &slab->node);
	list_add(&pool->free_slabs, &slab->free_node);
	return 0;

err_msgs:
	free(slab->msgs);
err_slab:
	free(slab);
	return err;
}

uint32_t rdmamsg__pool_room(const struct pool *pool, uint32_t count)
{
	const struct rdmamsg_pool *owner = pool->owner;
	size_t room = rdmamsg__budget_room(pool->dev->ctx, pool->dir,
					   pool->posted);

	if (owner)
		room = min(room, owner->opts.max_bytes - owner->bytes);
	if (owner && owner->opts.flags & RDMAMSG_POOL_HUGE)
		room &= ~(HUGE_PAGE - 1);
	room = min(room / pool->buf_size, (size_t)count);
	return (uint32_t)max(room, (size_t)1);
}

static void count_refusal(struct rdmamsg_pool *owner, bool *waits)
{
	owner->refused += !waits || !*waits;
	if (waits)
		*waits = true;
}

int rdmamsg__pool_grow(struct pool *pool, uint32_t count, bool *waits)
{
	size_t size = slab_size(pool->owner, pool->buf_size, count);
	int err = slab_new(pool, size);

	if (err == -ENOBUFS && pool->owner &&
	    size > pool->owner->opts.max_bytes - pool->owner->bytes)
		count_refusal(pool->owner, waits);
	return err;
}

/* ---- users ------------------------------------------------------------ */

void rdmamsg__pool_use(struct pool *pool, bool posted)
{
	pool->posted |= posted;
	if (pool->users++)
		return;
	/* the last slab of a pool in use is not a spare */
	if (pool->slab_count == 1)
		rdmamsg__stretch_use(&list_first(&pool->slabs, struct slab,
						 node)->stretch);
}

/* Finds an idle slab that is no spare: the last one, or one never used. */
static struct slab *find_idle(const struct pool *pool)
{
	struct list *n;

	list_for_each(n, &pool->slabs) {
		struct slab *slab = list_entry(n, struct slab, node);

		if (!slab->used && list_empty(&slab->stretch.spare_node))
			return slab;
	}
	return NULL;
}

void rdmamsg__pool_unuse(struct pool *pool)
{
	struct slab *slab;

	if (--pool->users)
		return;
	/* search again each time, because making a spare may drop slabs */
	while ((slab = find_idle(pool)))
		rdmamsg__stretch_spare(&slab->stretch);
}

/* ---- the end ---------------------------------------------------------- */

void rdmamsg__pools_dereg(struct list *pools)
{
	struct list *n, *m;

	list_for_each(n, pools)
		list_for_each(m, &list_entry(n, struct pool, node)->slabs)
			rdmamsg__stretch_dereg(&list_entry(m, struct slab,
							   node)->stretch);
}

void rdmamsg__pool_free(struct pool *pool)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &pool->slabs)
		slab_free(list_entry(n, struct slab, node));
	list_del(&pool->node);
	free(pool);
}

void rdmamsg__pools_free(struct list *pools)
{
	while (!list_empty(pools))
		rdmamsg__pool_free(list_first(pools, struct pool, node));
}
