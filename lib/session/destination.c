/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for a message that is larger than a receive buffer: the program's
 * recv_pool, or the library's memory for large messages.
 */
#include "base/base.h"
#include "base/list.h"
#include "lane/lane.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "session/destination.h"
#include "session/ep.h"
#include "session/lent.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/* Takes a buffer of the program's recv_pool. */
static int from_pool(struct rdmamsg_ep *ep, struct destination *d,
		     uint32_t total)
{
	struct rdmamsg_pool *owner = ep->lane.recv_pool->owner;
	size_t size = (size_t)total + PROTO_HDR_LEN;
	struct pool *pool;
	int err;

	if (!owner || rdmamsg__pool_least(owner, size) > owner->opts.max_bytes)
		return -ENOBUFS;
	err = rdmamsg__pool_get(ep->lane.dev, DIR_IN, owner, size, &pool);
	if (!err && list_empty(&pool->free_slabs))
		err = rdmamsg__pool_grow(pool, 1, &d->refused);
	if (err)
		return err;
	d->msg = rdmamsg__pool_take(pool);
	owner->rendezvous++;
	return 0;
}

static int from_library(struct rdmamsg_ep *ep, struct destination *d,
			uint32_t total)
{
	int err = from_pool(ep, d, total);

	if (err)
		err = rdmamsg__msg_large(ep->lane.dev, DIR_IN, total, 0,
					 &d->msg);
	if (err)
		return err;
	d->counted = rdmamsg__msg_bytes(d->msg);
	rdmamsg__lent_add(ep->rndv.lent, d->counted);
	return 0;
}

/* The message can never fit into the library's memory. */
static void too_large(struct rdmamsg_ep *ep, uint32_t total)
{
	rdmamsg__ep_reason(
		ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_RESOURCES, -ENOBUFS,
		"a message of %u bytes, for which "
		"on_incoming gave no memory: max_registered has room "
		"for %u", total, ep->rndv.holds_max);
	rdmamsg__ep_kill(ep);
}

void rdmamsg__destination_failed(struct rdmamsg_ep *ep, int err)
{
	if (rdmamsg__passes(err))
		rdmamsg__starve(ep->ctx, &ep->starving, err);
	else
		rdmamsg__ep_device_failed(ep, err, "registering memory for a "
					  "large message");
}

bool rdmamsg__destination_get(struct rdmamsg_ep *ep, struct destination *d,
			      uint32_t total)
{
	int err;

	if (total > ep->rndv.holds_max) {
		too_large(ep, total);
		return false;
	}
	if (!rdmamsg__lent_allows(ep, total, 0))
		return false;
	err = rdmamsg__try(from_library(ep, d, total));
	if (err)
		rdmamsg__destination_failed(ep, err);
	return !err;
}

struct rdmamsg_msg *rdmamsg__destination_take(struct rdmamsg_ep *ep,
					      struct destination *d)
{
	struct rdmamsg_msg *msg = d->msg;

	rdmamsg__lent_sub(ep->rndv.lent, d->counted);
	d->counted = 0;
	d->msg = NULL;
	d->refused = false;
	return msg;
}

void rdmamsg__destination_drop(struct rdmamsg_ep *ep, struct destination *d)
{
	struct rdmamsg_msg *msg = rdmamsg__destination_take(ep, d);

	if (msg)
		rdmamsg__msg_put(msg);
}
