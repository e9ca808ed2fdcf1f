/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts receives, and grants credit for them. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "lane/lane.h"
#include "lane/ring.h"
#include "lane/srq.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recv.h"
#include "session/srq_share.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>

static void grant(struct rdmamsg_ep *ep)
{
	uint32_t posted = rdmamsg__rq_posted(&ep->lane);
	uint32_t data = posted > RECV_RESERVE ? posted - RECV_RESERVE : 0;

	/* worth a CREDIT: half of the credits, or one if buffers are lacking */
	rdmamsg__rx_grant(ep, ep->recv.next + data, ep->lane.rq.holes ? 1 :
			  max(ep->tuning.recv_depth / 2, 1u));
}

/* Returns the number of receives that lack a buffer, kept by the program. */
static uint32_t lacking(const struct rdmamsg_ep *ep)
{
	return ep->lane.rq.holes -
	       min(ep->lane.rq.holes, ep->rndv.waiting.count);
}

/* Takes another buffer, in place of one that the program keeps. */
struct rdmamsg_msg *rdmamsg__rx_buffer(struct lane *l, uint32_t count)
{
	struct rdmamsg_ep *ep = rdmamsg__ep_of(l);
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

void rdmamsg__rx_refill(struct rdmamsg_ep *ep)
{
	uint32_t missing = ep->lane.rq.target - rdmamsg__rq_posted(&ep->lane),
		 n = missing;
	int ret;

	if (!ep->lane.hot.qp || ep->state >= EP_DRAINING ||
	    rdmamsg__lane_lost(ep))
		return;
	if (unlikely(ep->lane.rq.holes)) {
		if (ep->lane.srq) {
			rdmamsg__srq_refill(ep);
			return;
		}
		/* waiting messages keep the buffers of the other receives */
		n = rdmamsg__ring_fill(&ep->lane, n -
				       min(n, ep->rndv.waiting.count),
				       missing);
	}
	if (n) {
		ret = rdmamsg__ring_post(&ep->lane, n);
		if (unlikely(ret)) {
			rdmamsg__ep_device_failed(ep, ret,
						  "posting a receive");
			return;
		}
	}
	grant(ep);
}
