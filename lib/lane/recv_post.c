/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeping receives posted, and the credit that they are for the peer. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "device/verbs_api.h"
#include "lane/srq.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "session/lent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>

static void grant(struct rdmamsg_ep *ep)
{
	uint32_t posted = rdmamsg__rq_posted(&ep->lane);
	uint32_t data = posted > RECV_RESERVE ? posted - RECV_RESERVE : 0;

	/* half of the credits, or one by one where some are held back */
	rdmamsg__rx_grant(ep, ep->recv.next + data, ep->lane.rq.holes ? 1 :
			  max(ep->opts.recv_depth / 2, 1u));
}

/* The slot i places behind another. */
static inline uint32_t behind(const struct rdmamsg_ep *ep, uint32_t at,
			      uint32_t i)
{
	at += i;
	return at < ep->lane.rq.target ? at : at - ep->lane.rq.target;
}

/* The requests of the ring are chained already: cut the chain, post, mend. */
static int post(struct rdmamsg_ep *ep, uint32_t n)
{
	struct ibv_recv_wr *last =
		&ep->lane.rq.slots[behind(ep, ep->lane.rq.tail, n - 1)].wr;
	struct ibv_recv_wr *next = last->next, *bad;
	int ret;

	last->next = NULL;
	ret = rdmamsg__verbs_ret(ibv_post_recv(
		ep->lane.hot.qp, &ep->lane.rq.slots[ep->lane.rq.tail].wr, &bad));
	last->next = next;
	if (unlikely(ret)) {
		uint32_t at =
			(uint32_t)((struct rx_slot *)bad - ep->lane.rq.slots);

		n = at - ep->lane.rq.tail +
		    (at < ep->lane.rq.tail ? ep->lane.rq.target : 0);
	}
	ep->lane.rq.tail = behind(ep, ep->lane.rq.tail, n);
	ep->lane.rq.spare += (int32_t)n;
	ep->lane.rq.posts += n;
	return ret;
}

/* A buffer from one of the slots from..end behind the tail. */
static struct rdmamsg_msg *take_over(struct rdmamsg_ep *ep, uint32_t from,
				     uint32_t end)
{
	for (; from < end; from++) {
		struct rx_slot *slot =
			&ep->lane.rq.slots[behind(ep, ep->lane.rq.tail, from)];
		struct rdmamsg_msg *msg = slot->msg;

		if (!msg)
			continue;
		slot->msg = NULL;
		ep->lane.rq.holes++;
		return msg;
	}
	return NULL;
}

/* Receives whose buffers the program keeps. */
static uint32_t lacking(const struct rdmamsg_ep *ep)
{
	return ep->lane.rq.holes -
	       min(ep->lane.rq.holes, ep->rndv.waiting.count);
}

/* Another buffer, in place of one that the program keeps. */
static struct rdmamsg_msg *replacement(struct rdmamsg_ep *ep, uint32_t count)
{
	const size_t size = ep->lane.recv_pool->buf_size;
	struct rdmamsg_msg *msg;
	int err;

	if (!rdmamsg__lent_allows(ep, size, size * lacking(ep)))
		return NULL;
	msg = rdmamsg__pool_take(ep->lane.recv_pool);
	if (likely(msg))
		return msg;
	count = rdmamsg__pool_room(ep->lane.recv_pool, count);
	err = rdmamsg__try(rdmamsg__pool_grow(ep->lane.recv_pool, count,
					      &ep->lane.rq.lacks));
	if (!err)
		return rdmamsg__pool_take(ep->lane.recv_pool);
	rdmamsg__starve(ep->ctx, &ep->starving, err);
	return NULL;
}

/*
 * Gives a buffer to as many of the next n slots as it can. The slots behind
 * them, up to 'missing', are not to be posted now: their buffers go first.
 */
static uint32_t fill(struct rdmamsg_ep *ep, uint32_t n, uint32_t missing)
{
	for (uint32_t i = 0; i < n; i++) {
		struct rx_slot *slot =
			&ep->lane.rq.slots[behind(ep, ep->lane.rq.tail, i)];
		struct rdmamsg_msg *msg;

		if (slot->msg)
			continue;
		msg = take_over(ep, n, missing);
		if (!msg)
			msg = replacement(ep, n - i);
		if (!msg)
			msg = take_over(ep, i + 1, n);
		if (!msg)
			return i;
		slot->msg = msg;
		slot->sge.addr = (uintptr_t)msg->buf;
		slot->sge.lkey = msg->lkey;
		ep->lane.rq.holes--;
	}
	ep->lane.rq.lacks = false;
	return n;
}

void rdmamsg__rx_refill(struct rdmamsg_ep *ep)
{
	uint32_t missing = ep->lane.rq.target - rdmamsg__rq_posted(&ep->lane),
		 n = missing;
	int ret;

	if (!ep->lane.hot.qp || ep->state >= EP_DRAINING)
		return;
	if (unlikely(ep->lane.rq.holes)) {
		if (ep->lane.srq) {
			rdmamsg__srq_refill(ep);
			return;
		}
		/* messages that wait are in the buffers of the others */
		n = fill(ep, n - min(n, ep->rndv.waiting.count), missing);
	}
	if (n) {
		ret = post(ep, n);
		if (unlikely(ret)) {
			rdmamsg__ep_device_failed(ep, ret,
						  "posting a receive");
			return;
		}
	}
	grant(ep);
}
