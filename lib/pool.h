/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory, and the messages in it. */
#ifndef RDMAMSG_LIB_POOL_H
#define RDMAMSG_LIB_POOL_H

struct large {
	struct list node;
	void *mem;
	size_t size;
	struct ibv_mr *mr;		/* local access only */
};

enum msg_kind { MSG_POOL, MSG_LARGE, MSG_USER };

struct rdmamsg_msg {
	struct rdmamsg_msg *next;	/* free list, queue of received */
	uint32_t room;			/* for payload */
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
	} lent;
	uint32_t lkey;
	struct pool *pool;
	struct dev *dev;
};

/* One that is in no pool. */
struct loose_msg {
	struct rdmamsg_msg msg;		/* first */
	struct list node;		/* dev->loose */
	struct large *large;		/* NULL: USER */
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

/* What is taken for a buffer, and for so many of them at once. */
size_t rdmamsg__pool_buf_size(size_t size);
size_t rdmamsg__pool_slab_size(size_t buf_size, uint32_t count);
/* The least memory that has a buffer for so much; NULL: of the library's. */
size_t rdmamsg__pool_least(const struct rdmamsg_pool *owner, size_t size);
int rdmamsg__pool_get(struct dev *dev, struct list *pools,
		      struct rdmamsg_pool *owner, size_t size,
		      struct pool **ret);
/*
 * Endpoints count on it. Of a program's pool whatever else is unused goes when
 * other memory is to be registered.
 */
void rdmamsg__pool_stays(struct pool *pool);
void rdmamsg__pool_free(struct pool *pool);
void rdmamsg__pools_dereg(struct list *pools);	/* memory stays */
void rdmamsg__pools_free(struct list *pools);
/* Who tries again has a flag that is set: what it waits for is refused once. */
int rdmamsg__pool_grow(struct pool *pool, uint32_t count, bool *waits);
/* Of so many more, those that the limits leave room for; at least 1. */
uint32_t rdmamsg__pool_room(const struct pool *pool, uint32_t count);
/* Whether there can be room for it beside the pools, which stay. */
bool rdmamsg__large_fits(const struct rdmamsg *ctx, size_t size);
int rdmamsg__large_get(struct dev *dev, size_t size, struct large **ret);
void rdmamsg__large_put(struct dev *dev, struct large *l);
void rdmamsg__larges_free(struct dev *dev);
void rdmamsg__large_dereg(struct dev *dev, struct large *l);
int rdmamsg__msg_large(struct dev *dev, size_t len, struct rdmamsg_msg **ret);
int rdmamsg__msg_user(struct dev *dev, void *data, struct rdmamsg_msg **ret);
void rdmamsg__msg_put(struct rdmamsg_msg *msg);
void rdmamsg__msgs_dereg(struct dev *dev);	/* memory stays */
void rdmamsg__msgs_free(struct dev *dev);

/* NULL when empty: the caller decides whether growing is in place. */
static inline struct rdmamsg_msg *rdmamsg__pool_take(struct pool *pool)
{
	struct rdmamsg_msg *msg = pool->free;

	if (likely(msg)) {
		pool->free = msg->next;
		pool->used++;
		rdmamsg__unpoison(msg->buf, pool->buf_size);
	}
	return msg;
}

static inline void rdmamsg__pool_return(struct rdmamsg_msg *msg)
{
	rdmamsg__poison(msg->buf, msg->pool->buf_size);
	msg->next = msg->pool->free;
	msg->pool->free = msg;
	msg->pool->used--;
}

/* Whether the program has this message. */
static inline bool rdmamsg__msg_is_out(const struct rdmamsg_msg *msg)
{
	return msg->lent == MSG_LENT || msg->lent == MSG_IN_PLACE;
}

#endif
