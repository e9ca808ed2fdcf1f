/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory: mapping, counting, dropping spares. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/page.h"
#include "base/poison.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define SPARE_MAX	((size_t)64 << 20)	/* bytes, of a budget */
#define COOL_MS		4000	/* a spare stays for once to twice as long */

static struct budget *budget_of(const struct stretch *s)
{
	return &s->dev->ctx->memory->budget[s->dir];
}

void rdmamsg__budgets_init(struct rdmamsg *ctx)
{
	const struct rdmamsg_options *o = &ctx->opts;

	ctx->memory->budget[DIR_OUT].cap = o->max_send_registered;
	ctx->memory->budget[DIR_IN].cap =
		o->max_registered - o->max_send_registered;
	for (int i = 0; i < DIRECTIONS; i++)
		list_init(&ctx->memory->budget[i].spares);
}

size_t rdmamsg__registered(const struct rdmamsg *ctx)
{
	return ctx->memory->budget[DIR_IN].used +
	       ctx->memory->budget[DIR_OUT].used;
}

/* ---- spares ----------------------------------------------------------- */

void rdmamsg__stretch_use(struct stretch *s)
{
	if (list_empty(&s->spare_node))
		return;
	list_del(&s->spare_node);
	budget_of(s)->spare -= s->size;
	budget_of(s)->posted_spare -= s->posted ? s->size : 0;
}

static void drop(struct stretch *s)
{
	rdmamsg__stretch_use(s);
	s->drop(s);
}

/* Selects spares of an owner (NULL: any), or only of posted memory. */
struct filter {
	const struct rdmamsg_pool *owner;
	bool posted;
};

static const struct filter any;

static bool matches(const struct filter *f, const struct stretch *s)
{
	return (!f->owner || s->owner == f->owner) && (!f->posted || s->posted);
}

/* Drops spares, the least recently used first, until 'want' bytes are free. */
static size_t drop_some(struct budget *b, size_t want, const struct filter *f)
{
	struct list *n, *t;
	size_t bytes = 0;

	list_for_each_safe(n, t, &b->spares) {
		struct stretch *s = list_entry(n, struct stretch, spare_node);

		if (bytes >= want)
			break;
		if (!matches(f, s))
			continue;
		bytes += s->size;
		drop(s);
	}
	return bytes;
}

/* Drops spares for 'want' bytes, or none if there are not enough. */
static size_t drop_enough(struct budget *b, size_t want,
			  const struct filter *f)
{
	size_t bytes = 0;
	struct list *n;

	list_for_each(n, &b->spares) {
		const struct stretch *s = list_entry(n, struct stretch,
						     spare_node);

		bytes += matches(f, s) ? s->size : 0;
		if (bytes >= want)
			return drop_some(b, want, f);
	}
	return 0;
}

static size_t drop_all(struct rdmamsg *ctx)
{
	size_t bytes = 0;

	for (int i = 0; i < DIRECTIONS; i++)
		bytes += drop_some(&ctx->memory->budget[i], SIZE_MAX, &any);
	return bytes;
}

/* Drops the spares that have been so for a whole round of the timer. */
static void cool(struct timer *t)
{
	struct memory *m = list_entry(t, struct memory, cool);
	struct rdmamsg *ctx = NULL;
	struct list *n, *next;

	for (int i = 0; i < DIRECTIONS; i++)
		list_for_each_safe(n, next, &m->budget[i].spares) {
			struct stretch *s = list_entry(n, struct stretch,
						       spare_node);

			if (s->owner)
				continue;
			if (s->round == m->round)
				ctx = s->dev->ctx;
			else
				drop(s);
		}
	m->round++;
	if (ctx)
		rdmamsg__timer_set(&ctx->loop.timers, t, COOL_MS);
}

int rdmamsg__spares_init(struct rdmamsg *ctx)
{
	rdmamsg__timer_init(&ctx->memory->cool, cool);
	return rdmamsg__timers_reserve(&ctx->loop.timers, 1);
}

void rdmamsg__stretch_spare(struct stretch *s)
{
	struct rdmamsg *ctx = s->dev->ctx;
	struct budget *b = budget_of(s);

	s->round = ctx->memory->round;
	if (!s->owner && ctx->memory->cool.pos < 0)
		rdmamsg__timer_set(&ctx->loop.timers, &ctx->memory->cool,
				   COOL_MS);
	list_add_tail(&b->spares, &s->spare_node);
	b->spare += s->size;
	b->posted_spare += s->posted ? s->size : 0;
	if (b->spare > SPARE_MAX)
		drop_some(b, b->spare - SPARE_MAX, &any);
}

void rdmamsg__spares_drop(struct dev *dev)
{
	for (int i = 0; i < DIRECTIONS; i++) {
		struct list *n, *t;

		list_for_each_safe(n, t, &dev->ctx->memory->budget[i].spares) {
			struct stretch *s = list_entry(n, struct stretch,
						       spare_node);

			if (s->dev == dev)
				drop(s);
		}
	}
}

/* ---- the budget ------------------------------------------------------- */

/* Limit of posted memory, which leaves room for the largest message. */
static size_t posted_cap(const struct budget *b)
{
	return b->cap - min(b->cap, b->largest);
}

size_t rdmamsg__budget_room(const struct rdmamsg *ctx, enum direction dir,
			    bool posted)
{
	const struct budget *b = &ctx->memory->budget[dir];
	size_t room = b->cap - b->used + b->spare, cap = posted_cap(b);

	if (posted)
		room = min(room, cap - min(cap, b->posted - b->posted_spare));
	return room;
}

uint32_t rdmamsg__budget_largest(const struct rdmamsg *ctx, uint32_t wanted)
{
	const struct budget *b = &ctx->memory->budget[DIR_IN];
	size_t posted = b->posted - b->posted_spare;
	size_t half = (b->cap - min(b->cap, posted)) / 2;

	return (uint32_t)min(half - half % page_size(),
			     (size_t)wanted);
}

void rdmamsg__budget_announce(struct rdmamsg *ctx, uint32_t size)
{
	static const struct filter posted = { .posted = true };
	struct budget *b = &ctx->memory->budget[DIR_IN];

	if (size > b->largest) {
		b->largest = size;
		b->largest_count = 0;
	}
	/* drop spares above the limit, because they may be posted again */
	if (b->posted > posted_cap(b))
		drop_some(b, b->posted - posted_cap(b), &posted);
	b->largest_count += size == b->largest;
}

bool rdmamsg__budget_withdraw(struct rdmamsg *ctx, uint32_t size)
{
	struct budget *b = &ctx->memory->budget[DIR_IN];

	if (size != b->largest || --b->largest_count)
		return false;
	b->largest = 0;
	return true;
}

static int refuse(const struct stretch *s, const char *what, size_t used,
		  size_t cap)
{
	return rdmamsg__fail(-ENOBUFS, "%s reached: %zu of %zu bytes in use, "
			     "%zu more needed", what, used, cap, s->size);
}

static int take_owner(const struct stretch *s)
{
	struct rdmamsg_pool *o = s->owner;
	const struct filter own = { .owner = o };
	size_t room;

	if (!o)
		return 0;
	room = o->opts.max_bytes - o->bytes;
	if (s->size > room)
		room += drop_enough(budget_of(s), s->size - room, &own);
	if (s->size > room)
		return refuse(s, "max_bytes of a pool", o->bytes,
			      o->opts.max_bytes);
	o->bytes += s->size;
	return 0;
}

static int take_budget(const struct stretch *s)
{
	static const struct filter posted = { .posted = true };
	struct budget *b = budget_of(s);
	size_t cap = posted_cap(b);

	if (s->posted && b->posted + s->size > cap)
		drop_enough(b, b->posted + s->size - cap, &posted);
	if (s->posted && b->posted + s->size > cap)
		return refuse(s, b->largest ? "max_registered for receives, "
			      "beside one message of max_msg_size," :
			      "max_registered for receives", b->posted, cap);
	if (s->size > b->cap - b->used)
		drop_enough(b, s->size - (b->cap - b->used), &any);
	if (s->size > b->cap - b->used)
		return refuse(s, s->dir == DIR_IN ? "max_registered for "
			      "receiving" : "max_registered for sending",
			      b->used, b->cap);
	b->used += s->size;
	b->posted += s->posted ? s->size : 0;
	return 0;
}

static void give_owner(const struct stretch *s)
{
	if (s->owner)
		s->owner->bytes -= s->size;
}

static void give_budget(const struct stretch *s)
{
	struct budget *b = budget_of(s);

	b->used -= s->size;
	b->posted -= s->posted ? s->size : 0;
}

bool rdmamsg__out_fits(const struct rdmamsg *ctx, size_t size)
{
	const struct list *n, *m;
	size_t kept = 0;

	/* a pool in use keeps its last slab, so that memory never comes back */
	list_for_each(n, &ctx->devices->devs)
		list_for_each(m, &list_entry(n, struct dev, node)->send_pools) {
			const struct pool *pool = list_entry(m, struct pool,
							     node);

			if (pool->users)
				kept += rdmamsg__pool_least(pool->owner,
							    pool->buf_size);
		}
	return kept <= ctx->memory->budget[DIR_OUT].cap &&
	       size <= ctx->memory->budget[DIR_OUT].cap - kept;
}

/* ---- mapping ---------------------------------------------------------- */

static int reg(struct stretch *s)
{
	const struct rdmamsg_device *d = s->dev->device;
	/* rendezvous read into buffers of a recv_pool */
	int access = s->dir == DIR_IN ? rdmamsg__sink_access(d) :
					IBV_ACCESS_LOCAL_WRITE;
	int ret = rdmamsg__v_reg_mr(d->v, s->dev->pd, s->mem, s->size, access,
				    &s->mr);

	return ret ? rdmamsg__fail_verbs(ret, "registering memory") : 0;
}

static int map(struct stretch *s, bool registered)
{
	int err;

	s->mem = rdmamsg__pages_map(s->size, s->owner ? &s->owner->opts : NULL,
				    &s->pages);
	if (s->mem == MAP_FAILED)
		return rdmamsg__fail(-ENOMEM, "no memory for %zu bytes",
				     s->size);
	/* a child does without pinned pages, see ibv_fork_init(3) */
	(void)madvise(s->mem, s->size, MADV_DONTFORK);
	err = registered ? reg(s) : 0;
	if (err)
		munmap(s->mem, s->size);
	return err;
}

int rdmamsg__stretch_map(struct stretch *s, bool registered)
{
	int err = take_owner(s);

	if (err)
		return err;
	err = take_budget(s);
	if (err)
		goto err_owner;
	s->mr = NULL;
	list_init(&s->spare_node);
	err = rdmamsg__try(map(s, registered));
	/* the system does not say how much it lacks: drop all spares */
	if (err && drop_all(s->dev->ctx))
		err = rdmamsg__try(map(s, registered));
	if (!err)
		return 0;
	rdmamsg__fail_again(err);
	give_budget(s);
err_owner:
	give_owner(s);
	return err;
}

void rdmamsg__stretch_dereg(struct stretch *s)
{
	const struct rdmamsg_device *d = s->dev->device;

	if (s->mr && rdmamsg__v_dereg_mr(d->v, s->mr))
		log_error("device %s: memory could not be deregistered",
			  d->name);
	s->mr = NULL;
}

static void unmap(struct stretch *s)
{
	/* a later mapping may have this address */
	rdmamsg__unpoison(s->mem, s->size);
	munmap(s->mem, s->size);
}

bool rdmamsg__stretch_unmap(struct stretch *s)
{
	rdmamsg__stretch_use(s);
	rdmamsg__stretch_dereg(s);
	give_budget(s);
	give_owner(s);
	if (s->keepers)
		return rdmamsg__stretch_leave(s);
	unmap(s);
	return true;
}

void rdmamsg__stretch_keep(struct stretch *s)
{
	s->keepers += s->keepers ? 1 : 2;
}

bool rdmamsg__stretch_leave(struct stretch *s)
{
	if (atomic_fetch_sub(&s->keepers, 1) > 1)
		return false;
	unmap(s);
	return true;
}
