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
	struct list free_node;		/* of those with free buffers */
	struct rdmamsg_msg *msgs;
	struct rdmamsg_msg *free;
	uint32_t count, used;		/* buffers */
};

/* Buffers of one size in local-access memory of one dev. */
struct pool {
	struct list node;
	struct dev *dev;
	struct rdmamsg_pool *owner;	/* NULL: the library's own */
	enum direction dir;
	size_t buf_size;
	/* those with free buffers; one with nothing in use is behind others */
	struct list free_slabs;
	struct list slabs;
	uint32_t total, used;		/* buffers */
	uint32_t slab_count;
	uint32_t users;			/* endpoints, shared receive queues */
	bool posted;			/* their receives come from it */
};

enum msg_kind { MSG_POOL, MSG_LARGE, MSG_USER };

struct rdmamsg_msg {
	union {
		struct rdmamsg_msg *next;	/* in a list */
		struct lent *lent_by;		/* LENT, SENT; or NULL */
	};
	uint32_t room;			/* for payload; sent: as asked for */
	enum msg_kind kind;
	/* receiving: 32 bytes that share a line of the cache */
	uint8_t *buf;			/* POOL: start, header goes there */
	uint8_t *data;			/* payload */
	uint32_t len;
	uint32_t tag;
	enum msg_lent {
		MSG_OURS,
		MSG_LENT,		/* in the program's hands */
		MSG_IN_PLACE,		/* lent, still in the receive queue */
		MSG_PASSED,		/* out of there into a send queue */
		MSG_SENT,		/* an operation's, and still counted */
	} lent;
	uint32_t lkey;
	struct slab *slab;		/* POOL */
	struct dev *dev;
};

/*
 * What a program made. Its buffers are in the lists of the devs, a struct pool
 * for each size there.
 */
struct rdmamsg_pool {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;
	int refs;			/* endpoints, listeners, SRQs */
	struct rdmamsg_pool_options opts;
	size_t bytes;			/* registered */
	uint64_t refused;
	uint64_t rendezvous;		/* messages read into it */
};

#define HUGE_PAGE	((size_t)2 << 20)

/* NULL options: plain. MAP_FAILED. (pages.c) */
void *rdmamsg__pages_map(size_t size, const struct rdmamsg_pool_options *opts,
			 struct pages *ret);
/* Those in the options of an endpoint or listener. */
int rdmamsg__userpools_check(const struct rdmamsg *ctx,
			     const struct rdmamsg_ep_options *o);
/* 'what' names the option; size: of the smallest buffer that is needed. */
int rdmamsg__userpool_check(const struct rdmamsg *ctx,
			    const struct rdmamsg_pool *pool, const char *what,
			    size_t size);
void rdmamsg__userpools_hold(const struct rdmamsg_ep_options *o);
void rdmamsg__userpools_rele(struct rdmamsg_ep_options *o);
void rdmamsg__userpools_free(struct rdmamsg *ctx);

/* The buffer size for so much, and the slab size for so many buffers. */
size_t rdmamsg__pool_buf_size(size_t size);
size_t rdmamsg__pool_slab_size(size_t buf_size, uint32_t count);
/* The smallest slab with a buffer for so much; NULL: of the library's. */
size_t rdmamsg__pool_least(const struct rdmamsg_pool *owner, size_t size);
/* The pool for this size, of dev->recv_pools or dev->send_pools. */
int rdmamsg__pool_get(struct dev *dev, enum direction dir,
		      struct rdmamsg_pool *owner, size_t size,
		      struct pool **ret);
/*
 * An endpoint or shared receive queue counts on the pool: its last slab stays.
 * 'posted': its receives come from there.
 */
void rdmamsg__pool_use(struct pool *pool, bool posted);
void rdmamsg__pool_unuse(struct pool *pool);
void rdmamsg__pool_free(struct pool *pool);
void rdmamsg__pools_dereg(struct list *pools);	/* memory stays */
void rdmamsg__pools_free(struct list *pools);
/*
 * Adds a slab of so many buffers. *waits is set when the cap of the program's
 * pool refuses, so that retries of one request count once in its statistics;
 * NULL: each refusal counts. -ENOBUFS: a limit; -ENOMEM.
 */
int rdmamsg__pool_grow(struct pool *pool, uint32_t count, bool *waits);
/* Of so many more buffers, those that the limits leave room for; at least 1. */
uint32_t rdmamsg__pool_room(const struct pool *pool, uint32_t count);
void rdmamsg__msg_put(struct rdmamsg_msg *msg);
void rdmamsg__msgs_dereg(struct dev *dev);	/* memory stays */
void rdmamsg__msgs_free(struct dev *dev);

/* Its first buffer is in use, its last one has come back. */
void rdmamsg__slab_busy(struct slab *slab);
void rdmamsg__slab_idle(struct slab *slab);

/* NULL when empty: the caller decides whether growing is in place. */
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

/* The warmest goes first. */
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

/* Whether the program has this message. */
static inline bool rdmamsg__msg_is_out(const struct rdmamsg_msg *msg)
{
	return msg->lent == MSG_LENT || msg->lent == MSG_IN_PLACE;
}

#endif
