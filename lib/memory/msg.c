/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: freeing, data, length. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/poison.h"
#include "base/util.h"
#include "device/device.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "memory/source.h"
#include "memory/stretch.h"
#include "memory/large.h"
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
	if (unlikely(!list_empty(&dev->ctx->memory->starved)))
		rdmamsg__feed(dev->ctx->memory);
	/* if this was the last message, the dev can be freed */
	if (unlikely(!dev->device))
		rdmamsg__reap(dev->ctx);
}

/* The device is being closed. The memory of lent messages stays readable. */
void rdmamsg__msgs_dereg(struct dev *dev)
{
	struct list *n;

	list_for_each(n, &dev->loose) {
		const struct loose_msg *l = list_entry(n, struct loose_msg,
						       node);

		if (!l->large)
			continue;
		rdmamsg__sink_dereg(&l->large->sink, dev);
		rdmamsg__source_dereg(l->large);
	}
}

void rdmamsg__msgs_free(struct dev *dev)
{
	while (!list_empty(&dev->loose))
		rdmamsg__msg_put(&list_first(&dev->loose, struct loose_msg,
					     node)->msg);
}

void *rdmamsg_msg_data(const struct rdmamsg_msg *msg)
{
	return msg ? msg->data : NULL;
}

size_t rdmamsg_msg_len(const struct rdmamsg_msg *msg)
{
	return msg ? msg->len : 0;
}

uint32_t rdmamsg_msg_tag(const struct rdmamsg_msg *msg)
{
	return msg ? msg->tag : 0;
}

/* Returns true if the program allocated msg, false if msg was received. */
static bool is_allocated(const struct rdmamsg_msg *msg)
{
	switch (msg->kind) {
	case MSG_POOL:
		return msg->slab->stretch.dir == DIR_OUT;
	case MSG_LARGE:
		return ((const struct loose_msg *)msg)->large->stretch.dir ==
		       DIR_OUT;
	default:
		return false;
	}
}

/*
 * The limit of a received message is its present length. The rest of the buffer
 * has bytes of earlier messages, and the length at arrival is not kept.
 */
int rdmamsg_msg_set_len(struct rdmamsg_msg *msg, size_t len)
{
	if (!msg)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_set_len: msg is "
				     "NULL");
	if (msg->lent == MSG_SHARED && !rdmamsg__share_is_alone(msg->share))
		return rdmamsg__fail(-EBUSY, "rdmamsg_msg_set_len: the message "
				     "has other references, or is being sent");
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
