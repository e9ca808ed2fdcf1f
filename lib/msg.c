/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: who has them, and how they come back. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

int rdmamsg__msg_large(struct dev *dev, size_t len, struct rdmamsg_msg **ret)
{
	struct loose_msg *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for a message");
	err = rdmamsg__large_get(dev, len, &l->large);
	if (err) {
		free(l);
		return err;
	}
	l->msg.kind = MSG_LARGE;
	l->msg.dev = dev;
	l->msg.data = l->large->mem;
	l->msg.room = (uint32_t)min(l->large->size, (size_t)PROTO_MSG_MAX);
	l->msg.lkey = l->large->mr->lkey;
	l->msg.len = (uint32_t)len;
	list_add_tail(&dev->loose, &l->node);
	*ret = &l->msg;
	return 0;
}

/* Into memory of the program's: only the descriptor is ours. */
int rdmamsg__msg_user(struct dev *dev, void *data, struct rdmamsg_msg **ret)
{
	struct loose_msg *l = calloc(1, sizeof(*l));

	if (!l)
		return rdmamsg__fail(-ENOMEM, "no memory for a message");
	l->msg.kind = MSG_USER;
	l->msg.dev = dev;
	l->msg.data = data;
	list_add_tail(&dev->loose, &l->node);
	*ret = &l->msg;
	return 0;
}

/*
 * Buffers have come back: those who wait for some have their turn. What they
 * lack may be of another device, but the limit is the context's.
 */
static void feed_starved(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->starved)) {
		struct rdmamsg_ep *ep = list_first(&ctx->starved,
						   struct rdmamsg_ep,
						   starved_node);

		list_del(&ep->starved_node);
		rdmamsg__ep_touch(ep);
	}
}

static void free_loose(struct loose_msg *l)
{
	list_del(&l->node);
	if (l->large)
		rdmamsg__large_put(l->msg.dev, l->large);
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
		feed_starved(dev->ctx);
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
			rdmamsg__large_dereg(dev, l->large);
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
		rdmamsg__poison(msg->buf, msg->pool->buf_size);
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
	if (ep->state != EP_OPEN)
		return rdmamsg__fail(ep->state < EP_OPEN ? -ENOTCONN :
				     -ESHUTDOWN, "%s: not connected", name);
	return 0;
}

/* -EAGAIN if some of it will come back, else -ENOBUFS. */
static int take(struct rdmamsg_ep *ep, struct pool *pool,
		struct rdmamsg_msg **ret)
{
	struct rdmamsg_msg *msg = rdmamsg__pool_take(pool);
	int err;

	if (!msg) {
		err = rdmamsg__pool_grow(pool, 1, NULL);
		if (err)
			return err == -ENOBUFS && pool->total ?
			       rdmamsg__no_buffer(ep) : err;
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
	err = rdmamsg__pool_get(ep->dev, &ep->dev->send_pools, from,
				len + PROTO_HDR_LEN, &pool);
	if (!err)
		err = take(ep, pool, &msg);
	if (err)
		return err;
	msg->len = (uint32_t)len;
	rdmamsg__msg_lend(msg);
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
	if (len > ep->peer.max_msg)
		return rdmamsg__fail(-EMSGSIZE, "a message of %zu bytes: the "
				     "peer takes at most %u", len,
				     ep->peer.max_msg);
	if (len <= ep->copy_max) {
		err = take(ep, ep->send_pool, &msg);
		if (err)
			return err;
		msg->len = (uint32_t)len;
	} else {
		err = rdmamsg__msg_large(ep->dev, len, &msg);
		if (err)
			return err == -ENOBUFS &&
			       rdmamsg__large_fits(ep->ctx, len) ?
			       rdmamsg__no_buffer(ep) : err;
	}
	rdmamsg__msg_lend(msg);
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

int rdmamsg_msg_set_len(struct rdmamsg_msg *msg, size_t len)
{
	if (len > msg->room)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_set_len: %zu bytes, "
				     "room is for %u", len, msg->room);
	msg->len = (uint32_t)len;
	return 0;
}
