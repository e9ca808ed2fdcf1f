/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first receives of an endpoint. An endpoint that dials posts all receives
 * before it sends SETUP. An accepted endpoint waits in the lobby until the
 * peer's SETUP comes. In the lobby it has a single receive, in a buffer of the
 * smallest receive pool or of the shared receive queue.
 */
#include "base/addrmap.h"
#include "base/base.h"
#include "base/util.h"
#include "lane/ring.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "memory/account.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/lobby.h"
#include "session/recv.h"
#include "session/srq_share.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>

/* Returns the number of unshared receives: 0 with a shared queue. */
static uint32_t own_receives(const struct rdmamsg_ep *ep)
{
	return ep->opts.srq ? 0 : ep->tuning.recv_depth + RECV_RESERVE;
}

/* Sets the largest payload that the peer may send in one piece. */
static void set_max(struct rdmamsg_ep *ep)
{
	ep->recv.max =
		min((uint32_t)ep->lane.recv_pool->buf_size - PROTO_HDR_LEN,
		    ep->opts.max_msg_size);
}

/* Returns how many receives may wait, to be posted together. */
static uint32_t lazy(const struct rdmamsg_ep *ep)
{
	return max(min(ep->tuning.recv_depth / 4, (uint32_t)RX_LAZY_MAX), 1u);
}

static int use_pool(struct rdmamsg_ep *ep, struct rdmamsg_pool *owner,
		    size_t size)
{
	struct pool *pool;
	int err = rdmamsg__pool_get(ep->lane.dev, DIR_IN, owner, size, &pool);

	if (err)
		return err;
	rdmamsg__pool_use(pool, true);
	if (ep->lane.recv_pool)
		rdmamsg__pool_unuse(ep->lane.recv_pool);
	ep->lane.recv_pool = pool;
	return 0;
}

/* Grows the pool by one slab if it has fewer than 'count' free buffers. */
static int provide(struct pool *pool, uint32_t count)
{
	uint32_t have = pool->total - pool->used;

	return have < count ? rdmamsg__pool_grow(pool, count - have, NULL) : 0;
}

/* Charges 'count' receives to the address of the peer. */
static int charge(struct rdmamsg_ep *ep, uint32_t count)
{
	const struct pool *pool = ep->lane.recv_pool;
	struct account *a = ep->rndv.lent->account;
	size_t size = count * pool->buf_size, left;

	if (!a)
		return 0;
	left = rdmamsg__budget_room(ep->ctx, DIR_IN, true) +
	       (pool->total - pool->used) * pool->buf_size;
	if (!rdmamsg__is_fair(a->posted + a->lent + a->sent, left, size)) {
		ep->connect.limit = PROTO_LIMIT_MEMORY;
		return rdmamsg__fail(
			-ENOBUFS,
			"the peers at this address have "
			"%zu bytes to receive, of %zu left a third "
			"is for others (max_per_source)",
			a->posted + a->lent + a->sent, left);
	}
	a->posted += size;
	ep->rndv.charged = size;
	return 0;
}

void rdmamsg__lobby_credit(struct rdmamsg_ep *ep)
{
	if (ep->rndv.charged)
		ep->rndv.lent->account->posted -= ep->rndv.charged;
	ep->rndv.charged = 0;
}

static int own_ring(struct rdmamsg_ep *ep)
{
	int err = use_pool(ep, ep->opts.recv_pool,
			   max(ep->tuning.eager_max + PROTO_HDR_LEN,
			       (uint32_t)PROTO_RECV_MIN));

	if (!err)
		err = charge(ep, own_receives(ep));
	if (err)
		return err;
	set_max(ep);
	rdmamsg__ring_make(&ep->lane, own_receives(ep), lazy(ep));
	return provide(ep->lane.recv_pool, ep->lane.rq.holes);
}

/* With a shared queue, 'holes' makes rdmamsg__rx_refill() use that queue. */
static void shared_ring(struct rdmamsg_ep *ep)
{
	ep->lane.recv_pool = ep->lane.srq->pool;
	set_max(ep);
	ep->lane.rq.head = rdmamsg__nobody.lane.rq.head;
	ep->lane.rq.holes = !ep->connect.lobby;
}

static int lobby_ring(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg;
	int err = use_pool(ep, NULL, PROTO_RECV_MIN);

	if (!err)
		err = provide(ep->lane.recv_pool, 1);
	if (err)
		return err;
	msg = rdmamsg__pool_take(ep->lane.recv_pool);
	ep->lane.rq.slots[0].msg = msg;
	ep->lane.rq.slots[0].sge.addr = (uintptr_t)msg->buf;
	ep->lane.rq.slots[0].sge.lkey = msg->lkey;
	rdmamsg__ring_make(&ep->lane, 1, lazy(ep));
	return 0;
}

int rdmamsg__lobby_receives(struct rdmamsg_ep *ep)
{
	if (ep->lane.srq) {
		shared_ring(ep);
		return 0;
	}
	ep->connect.lobby = ep->connect.passive;
	return ep->connect.lobby ? lobby_ring(ep) : own_ring(ep);
}

/* Frees the buffer of SETUP first, so that a receive can use it. */
static int leave_own(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg = ep->lane.rq.slots[0].msg;
	int err;

	ep->lane.rq.slots[0].msg = NULL;
	rdmamsg__msg_put(msg);
	err = own_ring(ep);
	if (err) {
		ep->lane.rq.target = ep->lane.rq.holes = 0;	/* posts none */
		return err;
	}
	ep->connect.lobby = false;
	return 0;
}

static int leave_shared(struct rdmamsg_ep *ep)
{
	int err = rdmamsg__srq_enter(ep);

	if (!err)
		shared_ring(ep);
	return err;
}

int rdmamsg__lobby_leave(struct rdmamsg_ep *ep)
{
	int err = ep->lane.srq ? leave_shared(ep) : leave_own(ep);

	if (!err)
		rdmamsg__rx_refill(ep);
	return err;
}
