/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: who has them, and how they come back. */
#include "base/base.h"
#include "base/list.h"
#include "base/poison.h"
#include "base/util.h"
#include "loop/ctx.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/ep.h"
#include "session/large.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

static void free_loose(struct loose_msg *l)
{
	list_del(&l->node);
	if (l->large)
		rdmamsg__large_put(l->large);
	free(l);
}

void rdmamsg__msg_put(struct rdmamsg_msg *msg)
{
	struct dev *dev = msg->dev;

	if (msg->kind == MSG_POOL)
		rdmamsg__pool_return(msg);
	else
		free_loose((struct loose_msg *)msg);
	if (unlikely(!list_empty(&dev->ctx->starved)))
		rdmamsg__feed(dev->ctx);
	/* it may have been the last one */
	if (unlikely(!dev->device))
		rdmamsg__reap(dev->ctx);
}

/* The device is closed, what is lent of its memory stays readable. */
void rdmamsg__msgs_dereg(struct dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->loose) {
		const struct loose_msg *l = list_entry(n, struct loose_msg,
						       node);

		if (l->large)
			rdmamsg__sink_dereg(&l->large->sink, dev);
	}
}

void rdmamsg__msgs_free(struct dev *dev)
{
	while (!list_empty(&dev->loose))
		rdmamsg__msg_put(&list_first(&dev->loose, struct loose_msg,
					     node)->msg);
}

static void __attribute__((noinline)) free_slowly(struct rdmamsg_msg *msg)
{
	if (rdmamsg__ctx_check(msg->dev->ctx))
		return;
	if (!rdmamsg__msg_is_out(msg)) {
		log_error("rdmamsg_msg_free: message %p is not yours",
			  (void *)msg);
		return;
	}
	rdmamsg__msg_back(msg);
	rdmamsg__msg_put(msg);
}

static void __attribute__((noinline)) free_kept(struct rdmamsg_msg *msg)
{
	if (unlikely(msg->lent != MSG_LENT || msg->kind != MSG_POOL ||
		     msg->dev->ctx->magic != CTX_MAGIC ||
		     !list_empty(&msg->dev->ctx->starved))) {
		free_slowly(msg);
		return;
	}
	rdmamsg__msg_back(msg);
	rdmamsg__pool_return(msg);
}

void rdmamsg_msg_free(struct rdmamsg_msg *msg)
{
	/* in the callback that brings it, it has not left its place */
	if (likely(msg && msg->lent == MSG_IN_PLACE)) {
		msg->lent = MSG_OURS;
		rdmamsg__poison(msg->buf, msg->slab->pool->buf_size);
	} else if (msg) {
		free_kept(msg);
	}
}

static int alloc_check(const struct rdmamsg_ep *ep, const char *name,
		       struct rdmamsg_msg **ret)
{
	int err = rdmamsg__ep_check(ep);

	if (err)
		return err;
	if (!ret)
		return rdmamsg__fail(-EINVAL, "%s: ret is NULL", name);
	return rdmamsg__tx_check(ep);
}

/* -EAGAIN if some of it will come back, else -ENOBUFS. */
static int take(struct rdmamsg_ep *ep, struct pool *pool,
		struct rdmamsg_msg **ret)
{
	struct rdmamsg_msg *msg = rdmamsg__pool_take(pool);
	int err;

	if (!msg) {
		err = rdmamsg__try(rdmamsg__pool_grow(pool, 1, NULL));
		if (err)
			return err == -ENOBUFS && pool->total ?
			       rdmamsg__no_buffer(ep) :
			       rdmamsg__fail_again(err);
		msg = rdmamsg__pool_take(pool);
	}
	msg->data = msg->buf + PROTO_HDR_LEN;
	*ret = msg;
	return 0;
}

int rdmamsg_pool_alloc(struct rdmamsg_pool *from, struct rdmamsg_ep *ep,
		       size_t len, struct rdmamsg_msg **ret)
{
	int err = alloc_check(ep, "rdmamsg_pool_alloc", ret);
	struct rdmamsg_msg *msg;
	struct pool *pool;

	if (err)
		return err;
	if (!from || from->ctx != ep->ctx)
		return rdmamsg__fail(-EINVAL, "rdmamsg_pool_alloc: %s", !from ?
				     "pool is NULL" : "the pool belongs to "
				     "another context");
	if (len > PROTO_MSG_MAX)
		return rdmamsg__fail(-EMSGSIZE, "a message of %zu bytes: at "
				     "most %u", len, RDMAMSG_MSG_MAX);
	err = rdmamsg__pool_get(ep->lane.dev, DIR_OUT, from,
				len + PROTO_HDR_LEN, &pool);
	if (!err)
		err = take(ep, pool, &msg);
	if (err)
		return err;
	msg->len = msg->room = (uint32_t)len;
	rdmamsg__msg_lend(msg, NULL);
	*ret = msg;
	return 0;
}

int rdmamsg_msg_alloc(struct rdmamsg_ep *ep, size_t len,
		      struct rdmamsg_msg **ret)
{
	int err = alloc_check(ep, "rdmamsg_msg_alloc", ret);
	struct rdmamsg_msg *msg;

	if (err)
		return err;
	if (len > ep->connect.peer.max_msg)
		return rdmamsg__fail(-EMSGSIZE, "a message of %zu bytes: the "
				     "peer takes at most %u", len,
				     ep->connect.peer.max_msg);
	if (len <= ep->send.copy_max) {
		err = take(ep, ep->send.pool, &msg);
		if (err)
			return err;
	} else {
		err = rdmamsg__try(
			rdmamsg__msg_large(ep->lane.dev, DIR_OUT, len, &msg));
		if (err)
			return err == -ENOBUFS &&
			       rdmamsg__out_fits(ep->ctx, len) ?
			       rdmamsg__no_buffer(ep) :
			       rdmamsg__fail_again(err);
	}
	msg->len = msg->room = (uint32_t)len;
	rdmamsg__msg_lend(msg, NULL);
	*ret = msg;
	return 0;
}

void *rdmamsg_msg_data(const struct rdmamsg_msg *msg)
{
	return msg->data;
}

size_t rdmamsg_msg_len(const struct rdmamsg_msg *msg)
{
	return msg->len;
}

uint32_t rdmamsg_msg_tag(const struct rdmamsg_msg *msg)
{
	return msg->tag;
}

/* By the program, to be sent; else it was received. */
static bool is_allocated(const struct rdmamsg_msg *msg)
{
	switch (msg->kind) {
	case MSG_POOL:
		return msg->slab->pool->dir == DIR_OUT;
	case MSG_LARGE:
		return ((const struct loose_msg *)msg)->large->stretch.dir ==
		       DIR_OUT;
	default:
		return false;
	}
}

/*
 * The end of the buffer is not the limit: behind the message it has bytes of
 * other messages. Nothing keeps the length that a message was received with, so
 * it can only become shorter.
 */
int rdmamsg_msg_set_len(struct rdmamsg_msg *msg, size_t len)
{
	if (!msg)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_set_len: msg is "
				     "NULL");
	if (is_allocated(msg) && len > msg->room)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_set_len: %zu bytes, "
				     "%u were allocated", len, msg->room);
	if (!is_allocated(msg) && len > msg->len)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_set_len: %zu bytes, "
				     "the received message has %u", len,
				     msg->len);
	msg->len = (uint32_t)len;
	return 0;
}
