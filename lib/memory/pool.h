/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers of one size, and the messages in them. */
#ifndef RDMAMSG_LIB_POOL_H
#define RDMAMSG_LIB_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include "base/poison.h"
#include "base/util.h"
#include "memory/stretch.h"

struct slab {
	struct stretch stretch;		/* first */
	struct pool *pool;
	struct list node;		/* of the pool */
	struct list free_node;		/* in pool->free_slabs */
	struct rdmamsg_msg *msgs;
	struct rdmamsg_msg *free;
	uint32_t count, used;		/* buffers */
};

/* Buffers of one size for one dev, registered for local access only. */
struct pool {
	struct list node;
	struct dev *dev;
	struct rdmamsg_pool *owner;	/* NULL: the library's own */
	enum direction dir;
	size_t buf_size;
	/* slabs with free buffers, slabs without used buffers last */
	struct list free_slabs;
	struct list slabs;
	uint32_t total, used;		/* buffers */
	uint32_t slab_count;
	uint32_t users;			/* endpoints, shared receive queues */
	bool posted;			/* the users post receives from it */
};

enum msg_kind { MSG_POOL, MSG_LARGE, MSG_USER };

struct rdmamsg_msg {
	union {
		struct rdmamsg_msg *next;	/* in a list */
		struct lent *lent_by;		/* if LENT or SENT; or NULL */
		struct share *share;		/* if SHARED */
	};
	uint32_t room;			/* for payload; allocated: its length */
	uint8_t kind;			/* enum msg_kind */
	uint8_t type;			/* in rndv.waiting: enum proto_type */
	/* receiving uses these 32 bytes, in one cache line */
	uint8_t *buf;			/* MSG_POOL */
	uint8_t *data;			/* payload */
	uint32_t len;
	uint32_t tag;
	enum msg_lent {
		MSG_OURS,
		MSG_LENT,		/* the program has the message */
		MSG_IN_PLACE,		/* in on_message, still in its slot */
		MSG_PASSED,		/* was IN_PLACE, and is being sent */
		MSG_SENT,		/* being sent, counted in lent->sent */
		MSG_SHARED,		/* has references, see share.h */
	} lent;
	uint32_t lkey;
	struct slab *slab;		/* MSG_POOL */
	struct dev *dev;
};

/*
 * A pool of the program. Its buffers are in a struct pool for each size and
 * dev, in the lists of the dev.
 */
struct rdmamsg_pool {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;
	int refs;			/* endpoints, listeners, SRQs */
	struct rdmamsg_pool_options opts;
	size_t bytes;			/* registered */
	uint64_t refused;
	uint64_t rendezvous;		/* large messages read into the pool */
	uint32_t object;		/* number in the context */
};

#define HUGE_PAGE	((size_t)2 << 20)

/* pages.c: ordinary pages if opts is NULL. Returns MAP_FAILED on failure. */
void *rdmamsg__pages_map(size_t size, const struct rdmamsg_pool_options *opts,
			 struct pages *ret);
/* Checks the pools in the options of an endpoint or listener. */
int rdmamsg__userpools_check(const struct rdmamsg *ctx,
			     const struct rdmamsg_ep_options *o);
/* 'what' names the option. The pool must have room for 'size' bytes. */
int rdmamsg__userpool_check(const struct rdmamsg *ctx,
			    const struct rdmamsg_pool *pool, const char *what,
			    size_t size);
void rdmamsg__userpools_hold(const struct rdmamsg_ep_options *o);
void rdmamsg__userpools_rele(struct rdmamsg_ep_options *o,
			     struct rdmamsg_ep_tuning *t);
void rdmamsg__userpools_free(struct rdmamsg *ctx);

/* Return the buffer size for 'size' bytes, the slab size for 'count'. */
size_t rdmamsg__pool_buf_size(size_t size);
size_t rdmamsg__pool_slab_size(size_t buf_size, uint32_t count);
/*
 * Returns the size of the smallest slab with a buffer for 'size' bytes. A NULL
 * owner means the library's own buffers.
 */
size_t rdmamsg__pool_least(const struct rdmamsg_pool *owner, size_t size);
/* Finds or creates a pool in dev->recv_pools or dev->send_pools. */
int rdmamsg__pool_get(struct dev *dev, enum direction dir,
		      struct rdmamsg_pool *owner, size_t size,
		      struct pool **ret);
/*
 * Counts an endpoint or shared receive queue as a user. While a pool has users,
 * its last slab stays registered. 'posted': the user posts receives from it.
 */
void rdmamsg__pool_use(struct pool *pool, bool posted);
void rdmamsg__pool_unuse(struct pool *pool);
void rdmamsg__pool_free(struct pool *pool);
void rdmamsg__pools_dereg(struct list *pools);	/* memory stays */
void rdmamsg__pools_free(struct list *pools);
/*
 * Adds a slab of 'count' buffers or more. If max_bytes of the program's pool
 * refuses, set *waits, so that retries of one request count once in 'refused'.
 * If waits is NULL, each refusal counts. -ENOBUFS: a limit; -ENOMEM.
 */
int rdmamsg__pool_grow(struct pool *pool, uint32_t count, bool *waits);
/* Returns how many of 'count' buffers fit into the limits, at least 1. */
uint32_t rdmamsg__pool_room(const struct pool *pool, uint32_t count);
void rdmamsg__msg_put(struct rdmamsg_msg *msg);
void rdmamsg__msgs_dereg(struct dev *dev);	/* memory stays */
void rdmamsg__msgs_free(struct dev *dev);

/* The first buffer of the slab is in use; no buffer of it is in use. */
void rdmamsg__slab_busy(struct slab *slab);
void rdmamsg__slab_idle(struct slab *slab);
/* Frees a slab whose memory is unmapped. Any thread. */
void rdmamsg__slab_bury(struct slab *slab);

/* Returns NULL if no buffer is free. Then the caller may grow the pool. */
static inline struct rdmamsg_msg *rdmamsg__pool_take(struct pool *pool)
{
	struct rdmamsg_msg *msg;
	struct slab *slab;

	if (unlikely(list_empty(&pool->free_slabs)))
		return NULL;
	slab = list_first(&pool->free_slabs, struct slab, free_node);
	msg = slab->free;
	slab->free = msg->next;
	if (unlikely(!slab->free))
		list_del(&slab->free_node);
	if (unlikely(!slab->used++))
		rdmamsg__slab_busy(slab);
	pool->used++;
	rdmamsg__unpoison(msg->buf, pool->buf_size);
	return msg;
}

/* Returned buffers are taken first, because they may still be in the cache. */
static inline void rdmamsg__pool_return(struct rdmamsg_msg *msg)
{
	struct slab *slab = msg->slab;
	struct pool *pool = slab->pool;

	rdmamsg__poison(msg->buf, pool->buf_size);
	if (unlikely(!slab->free))
		list_add(&pool->free_slabs, &slab->free_node);
	msg->next = slab->free;
	slab->free = msg;
	pool->used--;
	if (unlikely(!--slab->used))
		rdmamsg__slab_idle(slab);
}

/* Returns true if the program has this message. */
static inline bool rdmamsg__msg_is_out(const struct rdmamsg_msg *msg)
{
	return msg->lent == MSG_LENT || msg->lent == MSG_IN_PLACE;
}

#endif
