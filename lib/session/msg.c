/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocating and freeing messages of the program. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/poison.h"
#include "base/util.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/send.h"
#include "session/shared.h"
#include "wire/proto.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

static void __attribute__((noinline)) free_slowly(struct rdmamsg_msg *msg)
{
	/* first, because the context may have closed */
	if (msg->lent == MSG_SHARED) {
		rdmamsg__shared_free(msg);
		return;
	}
	if (rdmamsg__ctx_check(msg->dev->ctx))
		return;
	if (!rdmamsg__msg_is_out(msg)) {
		log_error("context %u: rdmamsg_msg_free: message %p is not "
			  "yours", msg->dev->ctx->number, (void *)msg);
		return;
	}
	rdmamsg__msg_back(msg);
	rdmamsg__msg_put(msg);
}

static void __attribute__((noinline)) free_kept(struct rdmamsg_msg *msg)
{
	if (unlikely(msg->lent != MSG_LENT || msg->kind != MSG_POOL ||
		     msg->dev->ctx->magic != CTX_MAGIC ||
		     !list_empty(&msg->dev->ctx->memory->starved))) {
		free_slowly(msg);
		return;
	}
	rdmamsg__msg_back(msg);
	rdmamsg__pool_return(msg);
}

void rdmamsg_msg_free(struct rdmamsg_msg *msg)
{
	/* in on_message, the buffer is still in its slot */
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

/* -EAGAIN: a buffer will come back. -ENOBUFS: the pool has no buffers. */
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
			       rdmamsg__fail_again(
				       rdmamsg__tx_refused(ep, err));
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
	struct rdmamsg_msg *msg = NULL;
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
	struct rdmamsg_msg *msg = NULL;

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
			rdmamsg__msg_large(ep->lane.dev, DIR_OUT, len,
					   rdmamsg__rndv_reader(ep), &msg));
		if (err)
			return err == -ENOBUFS &&
			       rdmamsg__out_fits(ep->ctx, len) ?
			       rdmamsg__no_buffer(ep) :
			       rdmamsg__fail_again(
				       rdmamsg__tx_refused(ep, err));
	}
	msg->len = msg->room = (uint32_t)len;
	rdmamsg__msg_lend(msg, NULL);
	*ret = msg;
	return 0;
}
