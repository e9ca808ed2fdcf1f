/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered buffers of a device in one context. All of it is local-access
 * only: no key of it is worth anything to a peer.
 */
#include "internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#define BUF_MIN		((size_t)256)
#define SLAB_MIN	((size_t)256 << 10)
#define LARGE_MIN	((size_t)64 << 10)
#define LARGE_KEEP	((size_t)64 << 20)	/* bytes of free ones kept */

static int account(struct rdmamsg *ctx, size_t size)
{
	if (size > ctx->opts.max_registered - ctx->registered)
		return rdmamsg__fail(-ENOBUFS, "max_registered reached: %zu of "
				     "%zu bytes in use, %zu more needed",
				     ctx->registered, ctx->opts.max_registered,
				     size);
	ctx->registered += size;
	return 0;
}

static int try_registered(struct dev *dev, size_t size,
			  const struct rdmamsg_pool_options *opts,
			  void **ret_mem, struct ibv_mr **ret_mr,
			  struct pages *ret_pages)
{
	int err = account(dev->ctx, size);
	void *mem;

	if (err)
		return err;
	mem = rdmamsg__pages_map(size, opts, ret_pages);
	if (mem == MAP_FAILED) {
		err = rdmamsg__fail(-ENOMEM, "no memory for %zu bytes", size);
		goto err_account;
	}
	/* pinned pages and fork() do not mix: the child does without */
	(void)madvise(mem, size, MADV_DONTFORK);
	errno = 0;
	*ret_mr = dev->device->v->reg_mr(dev->pd, mem, size,
					IBV_ACCESS_LOCAL_WRITE);
	if (!*ret_mr) {
		err = rdmamsg__fail_verbs(rdmamsg__verbs_null(),
					  "registering memory");
		goto err_mem;
	}
	*ret_mem = mem;
	return 0;

err_mem:
	munmap(mem, size);
err_account:
	dev->ctx->registered -= size;
	return err;
}

static void unmap_registered(struct dev *dev, size_t size, void *mem,
			     struct ibv_mr *mr)
{
	if (mr && dev->device->v->dereg_mr(mr))
		log_error("device %s: memory could not be deregistered",
			  dev->device->name);
	/* the next mapping may be here */
	rdmamsg__unpoison(mem, size);
	munmap(mem, size);
	dev->ctx->registered -= size;
}

/* ---- memory that is kept, and goes when it is in the way ---------------- */

static uint32_t slab_count(const struct pool *pool, const struct slab *slab)
{
	return (uint32_t)(slab->size / pool->buf_size);
}

static void slab_free(struct pool *pool, struct slab *slab)
{
	if (pool->owner)
		pool->owner->bytes -= slab->size;
	if (!pool->stays)
		pool->dev->ctx->registered_large -= slab->size;
	unmap_registered(pool->dev, slab->size, slab->mem, slab->mr);
	list_del(&slab->node);
	free(slab->msgs);
	free(slab);
}

/* Messages need not know it for this: few ask, and rarely. */
static struct slab *slab_of(const struct pool *pool,
			    const struct rdmamsg_msg *msg)
{
	struct slab *slab = NULL;
	struct list *n;

	list_for_each(n, &pool->slabs) {
		slab = list_entry(n, struct slab, node);
		if ((uintptr_t)msg - (uintptr_t)slab->msgs <
		    slab_count(pool, slab) * sizeof(*msg))
			break;
	}
	return slab;
}

static void count_unused(struct pool *pool)
{
	struct list *n;

	list_for_each(n, &pool->slabs)
		list_entry(n, struct slab, node)->unused = 0;
	for (struct rdmamsg_msg *msg = pool->free; msg; msg = msg->next)
		slab_of(pool, msg)->unused++;
}

static bool is_kept(const struct pool *pool, const struct slab *slab)
{
	return slab->unused == slab_count(pool, slab);
}

/* Bytes in slabs of which nothing is in use, however many are wanted. */
static size_t pool_kept(struct pool *pool, size_t want)
{
	size_t bytes = 0;
	struct list *n;

	if (pool->stays || !pool->free)
		return 0;
	count_unused(pool);
	list_for_each(n, &pool->slabs) {
		const struct slab *slab = list_entry(n, struct slab, node);

		bytes += is_kept(pool, slab) ? slab->size : 0;
	}
	return bytes;
}

/* Gives back as many of them as have the bytes that are wanted. */
static size_t pool_shrink(struct pool *pool, size_t want)
{
	struct rdmamsg_msg **at = &pool->free;
	size_t bytes = 0;
	struct list *n, *t;

	if (!pool_kept(pool, want))
		return 0;
	/* of those that stay nothing counts as unused */
	list_for_each(n, &pool->slabs) {
		struct slab *slab = list_entry(n, struct slab, node);

		if (bytes < want && is_kept(pool, slab))
			bytes += slab->size;
		else
			slab->unused = 0;
	}
	while (*at) {
		if (slab_of(pool, *at)->unused)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
	list_for_each_safe(n, t, &pool->slabs) {
		struct slab *slab = list_entry(n, struct slab, node);

		if (!slab->unused)
			continue;
		pool->total -= slab->unused;
		slab_free(pool, slab);
	}
	return bytes;
}

/* fn for the pools of this owner, or of all, until there is what is wanted. */
static size_t pools_walk(struct rdmamsg *ctx, const struct rdmamsg_pool *owner,
			 size_t (*fn)(struct pool *pool, size_t want),
			 size_t want)
{
	size_t bytes = 0;
	struct list *d, *n;

	list_for_each(d, &ctx->devs) {
		struct dev *dev = list_entry(d, struct dev, node);
		struct list *lists[] = { &dev->recv_pools, &dev->send_pools };

		for (int i = 0; i < 2; i++)
			list_for_each(n, lists[i]) {
				struct pool *pool = list_entry(n, struct pool,
							       node);

				if (bytes < want &&
				    (!owner || pool->owner == owner))
					bytes += fn(pool, want - bytes);
			}
	}
	return bytes;
}

static void large_free(struct dev *dev, struct large *l)
{
	dev->ctx->registered_large -= l->size;
	unmap_registered(dev, l->size, l->mem, l->mr);
	free(l);
}

/* The coldest first. */
static size_t larges_shrink(struct dev *dev, size_t want)
{
	size_t bytes = 0;

	while (bytes < want && !list_empty(&dev->large)) {
		struct large *l = list_entry(dev->large.prev, struct large,
					     node);

		bytes += l->size;
		dev->large_bytes -= l->size;
		list_del(&l->node);
		large_free(dev, l);
	}
	return bytes;
}

void rdmamsg__pool_stays(struct pool *pool)
{
	struct list *n;

	if (pool->stays)
		return;
	pool->stays = true;
	list_for_each(n, &pool->slabs)
		pool->dev->ctx->registered_large -=
			list_entry(n, struct slab, node)->size;
}

static size_t kept(struct rdmamsg *ctx)
{
	size_t bytes = pools_walk(ctx, NULL, pool_kept, SIZE_MAX);
	struct list *n;

	list_for_each(n, &ctx->devs)
		bytes += list_entry(n, struct dev, node)->large_bytes;
	return bytes;
}

/* On whatever device. */
static size_t give_back(struct rdmamsg *ctx, size_t want)
{
	size_t bytes = 0;
	struct list *n;

	list_for_each(n, &ctx->devs)
		bytes += larges_shrink(list_entry(n, struct dev, node),
				       want - min(bytes, want));
	return bytes < want ? bytes + pools_walk(ctx, NULL, pool_shrink,
						 want - bytes) : bytes;
}

/* What is kept for later may be in the way: as much of it goes as has to. */
static int map_registered(struct dev *dev, size_t size,
			  const struct rdmamsg_pool_options *opts,
			  void **ret_mem, struct ibv_mr **ret_mr,
			  struct pages *ret_pages)
{
	struct rdmamsg *ctx = dev->ctx;
	size_t room = ctx->opts.max_registered - ctx->registered;
	int err;

	if (size > room && size - room <= kept(ctx))
		give_back(ctx, size - room);
	err = try_registered(dev, size, opts, ret_mem, ret_mr, ret_pages);
	/* the system does not say how much it lacks: then all of it goes */
	if (!err || err == -ENOBUFS || !give_back(ctx, SIZE_MAX))
		return err;
	return try_registered(dev, size, opts, ret_mem, ret_mr, ret_pages);
}

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

int rdmamsg__pool_get(struct dev *dev, struct list *pools,
		      struct rdmamsg_pool *owner, size_t size,
		      struct pool **ret)
{
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
	pool->stays = !owner;
	pool->buf_size = buf_size;
	list_init(&pool->slabs);
	list_add_tail(pools, &pool->node);
found:
	*ret = pool;
	return 0;
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

/*
 * What is unused of the owner's other sizes makes room, if that is enough: but
 * not for good.
 */
static bool cap_room(const struct pool *pool, size_t size)
{
	struct rdmamsg_pool *owner = pool->owner;
	size_t room = owner->opts.max_bytes - owner->bytes, want;

	if (size <= room)
		return true;
	want = size - room;
	if (pool->stays ||
	    pools_walk(owner->ctx, owner, pool_kept, SIZE_MAX) < want)
		return false;
	pools_walk(owner->ctx, owner, pool_shrink, want);
	return true;
}

static int cap(const struct pool *pool, size_t size, bool *waits)
{
	struct rdmamsg_pool *owner = pool->owner;

	if (!owner || cap_room(pool, size))
		return 0;
	owner->refused += !waits || !*waits;
	if (waits)
		*waits = true;
	return rdmamsg__fail(-ENOBUFS, "max_bytes of a pool reached: %zu of "
			     "%zu bytes in use, %zu more needed", owner->bytes,
			     owner->opts.max_bytes, size);
}

uint32_t rdmamsg__pool_room(const struct pool *pool, uint32_t count)
{
	const struct rdmamsg_pool *owner = pool->owner;
	const struct rdmamsg *ctx = pool->dev->ctx;
	size_t room = ctx->opts.max_registered - ctx->registered;

	if (owner)
		room = min(room, owner->opts.max_bytes - owner->bytes);
	if (owner && owner->opts.flags & RDMAMSG_POOL_HUGE)
		room &= ~(HUGE_PAGE - 1);
	room = min(room / pool->buf_size, (size_t)count);
	return (uint32_t)max(room, (size_t)1);
}

int rdmamsg__pool_grow(struct pool *pool, uint32_t count, bool *waits)
{
	size_t size = slab_size(pool->owner, pool->buf_size, count);
	struct slab *slab;
	int err = cap(pool, size, waits);

	if (err)
		return err;
	slab = calloc(1, sizeof(*slab));
	if (!slab)
		return rdmamsg__fail(-ENOMEM,
				     "no memory for %u buffers", count);
	count = (uint32_t)(size / pool->buf_size);
	slab->size = size;
	slab->msgs = calloc(count, sizeof(*slab->msgs));
	if (!slab->msgs) {
		err = rdmamsg__fail(-ENOMEM, "no memory for %u buffers", count);
		goto err_slab;
	}
	err = map_registered(pool->dev, slab->size,
			     pool->owner ? &pool->owner->opts : NULL,
			     &slab->mem, &slab->mr, &slab->pages);
	if (err)
		goto err_msgs;
	for (uint32_t i = 0; i < count; i++) {
		struct rdmamsg_msg *msg = &slab->msgs[i];

		msg->kind = MSG_POOL;
		msg->pool = pool;
		msg->dev = pool->dev;
		msg->buf = (uint8_t *)slab->mem + (size_t)i * pool->buf_size;
		msg->data = msg->buf + PROTO_HDR_LEN;
		msg->room = (uint32_t)min(pool->buf_size - PROTO_HDR_LEN,
					  (size_t)PROTO_MSG_MAX);
		msg->lkey = slab->mr->lkey;
		msg->next = pool->free;
		pool->free = msg;
	}
	rdmamsg__poison(slab->mem, slab->size);
	pool->total += count;
	if (pool->owner)
		pool->owner->bytes += size;
	if (!pool->stays)
		pool->dev->ctx->registered_large += size;
	list_add_tail(&pool->slabs, &slab->node);
	return 0;

err_msgs:
	free(slab->msgs);
err_slab:
	free(slab);
	return err;
}

void rdmamsg__pools_dereg(struct list *pools)
{
	struct list *n, *m;

	list_for_each(n, pools) {
		struct pool *pool = list_entry(n, struct pool, node);

		list_for_each(m, &pool->slabs) {
			struct slab *slab = list_entry(m, struct slab, node);

			if (pool->dev->device->v->dereg_mr(slab->mr))
				log_error("device %s: memory could not be "
					  "deregistered",
					  pool->dev->device->name);
			slab->mr = NULL;
		}
	}
}

void rdmamsg__pool_free(struct pool *pool)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &pool->slabs)
		slab_free(pool, list_entry(n, struct slab, node));
	list_del(&pool->node);
	free(pool);
}

void rdmamsg__pools_free(struct list *pools)
{
	while (!list_empty(pools))
		rdmamsg__pool_free(list_first(pools, struct pool, node));
}

/* Powers of two, so that a freed one fits the next message of its kind. */
static size_t large_size(size_t size)
{
	size_t s = LARGE_MIN;

	while (s < size && s < LARGE_KEEP)
		s *= 2;
	return s >= size ? s : (size + 0xfff) & ~(size_t)0xfff;
}

bool rdmamsg__large_fits(const struct rdmamsg *ctx, size_t size)
{
	size_t pools = ctx->registered - ctx->registered_large;

	return large_size(size) <= ctx->opts.max_registered - pools;
}

int rdmamsg__large_get(struct dev *dev, size_t size, struct large **ret)
{
	struct pages pages;
	struct large *l;
	struct list *n;
	int err;

	size = large_size(size);
	list_for_each(n, &dev->large) {
		l = list_entry(n, struct large, node);
		if (l->size != size)
			continue;
		list_del(&l->node);
		dev->large_bytes -= l->size;
		*ret = l;
		return 0;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for a message");
	list_init(&l->node);
	l->size = size;
	err = map_registered(dev, size, NULL, &l->mem, &l->mr, &pages);
	if (err) {
		free(l);
		return err;
	}
	dev->ctx->registered_large += size;
	*ret = l;
	return 0;
}

void rdmamsg__large_dereg(struct dev *dev, struct large *l)
{
	if (dev->device->v->dereg_mr(l->mr))
		log_error("device %s: memory could not be deregistered",
			  dev->device->name);
	l->mr = NULL;
}

void rdmamsg__large_put(struct dev *dev, struct large *l)
{
	if (!dev->device || dev->large_bytes + l->size > LARGE_KEEP) {
		large_free(dev, l);
		return;
	}
	dev->large_bytes += l->size;
	/* the warmest first */
	list_add_tail(dev->large.next, &l->node);
}

void rdmamsg__larges_free(struct dev *dev)
{
	(void)larges_shrink(dev, SIZE_MAX);
}
