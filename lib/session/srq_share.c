/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The share of an endpoint in a shared receive queue: place, credits, messages.
 */
#include "base/addrmap.h"
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/qpmap.h"
#include "base/util.h"
#include "device/device.h"
#include "lane/lane.h"
#include "lane/lanes.h"
#include "lane/srq.h"
#include "lane/srq_account.h"
#include "memory/account.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/recv.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

/* ---- a place ---------------------------------------------------------- */

static int full(struct srq *q)
{
	const struct rdmamsg_srq_options *o = &q->owner->opts;

	q->st.refused++;
	return rdmamsg__fail(-ENOBUFS, "the shared receive queue is full: %u "
			     "connections of %u receives each (floor %u and %d "
			     "for control), %u more promised; depth is %u",
			     q->account.eps, o->floor + SRQ_CTRL, o->floor,
			     SRQ_CTRL, q->account.extra, o->depth);
}

/* Provides receives for all promised messages and 'more'. */
static int back(struct srq *q, uint32_t more)
{
	if (rdmamsg__srq_back(q, more))
		return 0;
	q->st.refused++;
	return rdmamsg__fail(-ENOBUFS, "no memory for shared receives: %s",
			     rdmamsg__text());
}

/* -ENOBUFS: the address of the peer has used its part of the queue. */
static int check_share(struct rdmamsg_ep *ep)
{
	const struct srq *q = ep->lane.srq;
	const struct account *a = ep->rndv.shares;
	/* what has been promised beyond the floors comes back */
	uint32_t left = rdmamsg__srq_spare(&q->account) + q->account.extra;

	if (!a || rdmamsg__is_fair(a->posted, left,
				   rdmamsg__srq_place(&q->account)))
		return 0;
	ep->connect.limit = PROTO_LIMIT_MEMORY;
	return rdmamsg__fail(-ENOBUFS, "the peers at this address have %zu of "
			     "the shared receives, of %u left a third is for "
			     "others (max_per_source)",
			     a->posted, left);
}

bool rdmamsg__srq_is_crowded(const struct rdmamsg_ep *ep)
{
	const struct srq_account *a = ep->lane.srq ? &ep->lane.srq->account :
						     NULL;

	return a && rdmamsg__srq_spare(a) + 1 < rdmamsg__srq_place(a) &&
	       rdmamsg__srq_spare(a) + a->extra + 1 >= rdmamsg__srq_place(a);
}

int rdmamsg__srq_enter(struct rdmamsg_ep *ep)
{
	struct srq *q = ep->lane.srq;
	uint32_t floor = q->owner->opts.floor;
	int ret;

	if (rdmamsg__srq_spare(&q->account) + 1 <
	    rdmamsg__srq_place(&q->account))
		return full(q);
	ret = check_share(ep);
	if (ret)
		return ret;
	rdmamsg__srq_admit(&q->account);
	ret = back(q, 0);
	if (ret) {
		rdmamsg__srq_send_back(&q->account);
		return ret;
	}
	if (ep->rndv.shares)
		ep->rndv.shares->posted += rdmamsg__srq_place(&q->account);
	ep->connect.lobby = false;
	ep->lane.share = floor;
	ep->credit.granted = ep->credit.announced = ep->recv.next + floor;
	return 0;
}

static int open_share(struct rdmamsg_ep *ep)
{
	if (!ep->rndv.lent->account)
		return 0;
	ep->rndv.shares = rdmamsg__account_like(ep->ctx, ep->lane.srq,
						ep->rndv.lent->account);
	if (!ep->rndv.shares)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	return check_share(ep);
}

void rdmamsg__srq_unshare(struct rdmamsg_ep *ep)
{
	if (!ep->rndv.shares)
		return;
	if (!ep->connect.lobby)
		ep->rndv.shares->posted -=
			rdmamsg__srq_place(&ep->lane.srq->account);
	rdmamsg__account_put(ep->ctx, ep->rndv.shares);
	ep->rndv.shares = NULL;
}

/*
 * An endpoint that was accepted needs a receive for SETUP. It waits in the
 * lobby if others have been promised its place.
 */
static bool may_join(const struct rdmamsg_ep *ep, const struct srq_account *a)
{
	uint32_t spare = rdmamsg__srq_spare(a);

	if (ep->connect.passive && spare)
		spare += a->extra;
	return spare >= rdmamsg__srq_place(a);
}

int rdmamsg__srq_join(struct rdmamsg_ep *ep)
{
	struct srq *q = NULL;
	int ret = rdmamsg__srq_part(ep->opts.srq, ep->lane.dev, &q);

	if (ret)
		return ret;
	if (!may_join(ep, &q->account))
		return full(q);
	rdmamsg__srq_visit(&q->account);
	ep->lane.srq = q;
	ep->connect.lobby = true;
	ret = open_share(ep);
	if (ret)
		goto err;
	/* buffers for one place serve any one endpoint of the lobby */
	ret = ep->connect.passive ?
	      back(q, rdmamsg__srq_place(&q->account) - 1) :
	      rdmamsg__srq_enter(ep);
	if (!ret)
		return 0;
err:
	rdmamsg__srq_leave(ep);
	return ret;
}

void rdmamsg__srq_leave(struct rdmamsg_ep *ep)
{
	struct srq *q = ep->lane.srq;

	if (!q)
		return;
	rdmamsg__srq_unshare(ep);
	if (ep->connect.lobby)
		q->account.lobby--;
	else
		rdmamsg__srq_give_back(&q->account,
				       rdmamsg__granted(ep) - ep->recv.next);
	ep->connect.lobby = false;
	ep->lane.srq = NULL;
	/* the next endpoint creates a new part */
	if (!q->account.eps && !q->account.lobby && q->failed)
		rdmamsg__srq_part_free(q);
}

/* The account balances until the last endpoint has left. */
static void recount(struct srq *q)
{
	struct srq_account *a = &q->account;
	struct list *n;

	a->promised = 0;
	a->extra = a->answers;
	list_for_each(n, &q->dev->ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);
		uint32_t out = rdmamsg__granted(ep) - ep->recv.next;

		if (ep->lane.srq != q || ep->connect.lobby)
			continue;
		a->promised += out;
		a->extra += rdmamsg__srq_above(a, out);
	}
}

void rdmamsg__srq_left(struct srq *q)
{
	recount(q);
	q->failed = true;
	if (!q->account.eps && !q->account.lobby)
		rdmamsg__srq_part_free(q);
}

void rdmamsg__srq_failed(struct srq *q, int err, const char *what)
{
	struct list *n;

	list_for_each(n, &q->dev->ctx->sessions->eps) {
		struct rdmamsg_ep *ep = list_entry(n, struct rdmamsg_ep, node);

		if (ep->lane.srq != q)
			continue;
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE,
				   RDMAMSG_CAUSE_TRANSPORT, err, "%s: %s", what,
				   strerror(-err));
		rdmamsg__ep_kill(ep);
	}
}

/* ---- credits ---------------------------------------------------------- */

/*
 * Returns the credits that an endpoint may have. If its peer has used half of
 * the share, the share doubles. Limits: share <= recv_depth, and
 * share <= floor + rdmamsg__srq_shared(), the credits left for all others. The
 * library takes no credit back. If 'out' exceeds the share, the endpoint gets
 * no new credits until its peer has used some.
 */
static uint32_t share_of(struct rdmamsg_ep *ep, uint32_t out)
{
	const struct srq *q = ep->lane.srq;
	uint32_t floor = q->owner->opts.floor, n = ep->lane.share;

	if (2 * out <= n)
		n *= 2;
	n = min(n, floor + rdmamsg__srq_shared(&q->account));
	n = min(n, ep->tuning.recv_depth);
	return ep->lane.share = max(n, floor);
}

/*
 * Returns the credits that the peer may have beyond 'out' while the program
 * keeps messages of it. Kept messages delay this peer and no other.
 */
static uint32_t kept_up(struct rdmamsg_ep *ep, uint32_t out)
{
	size_t size = ep->lane.srq->pool->buf_size;
	size_t own = size * (ep->tuning.recv_depth - min(ep->tuning.recv_depth,
							out));

	if (rdmamsg__lent_allows(ep, size, 0))
		return UINT32_MAX - out;
	return rdmamsg__lent_allows(ep, size, own);
}

/* Credits were used, or receives are free again. */
void rdmamsg__srq_refill(struct rdmamsg_ep *ep)
{
	struct srq *q = ep->lane.srq;
	uint32_t floor = q->owner->opts.floor;
	uint32_t out = rdmamsg__granted(ep) - ep->recv.next, data, own, n;
	bool scarce;
	int err = q->hole_count ?
		  rdmamsg__srq_fill_holes(q, q->hole_count) : 0;

	data = share_of(ep, out);
	data = data > ep->rndv.waiting.count ? data - ep->rndv.waiting.count
					     : 0;
	if (data > out && unlikely(ep->rndv.lent->bytes))
		data = min(data, out + kept_up(ep, out));
	own = min(data, floor);
	own = own > out ? own - out : 0;
	n = data > out ? rdmamsg__srq_covered(q, data - out, own) : 0;
	/* not enough receives: try again when memory has come back */
	scarce = data > out + n;
	if (unlikely(scarce))
		rdmamsg__starve(ep->ctx, &ep->starving, err ? err : -ENOBUFS);
	rdmamsg__srq_promise(&q->account, out, n);
	rdmamsg__srq_post(q);
	/* with a share of 2, the first credit can wait for another header */
	rdmamsg__rx_grant(ep, ep->recv.next + out + n,
			  scarce || ep->rndv.waiting.count ? 1 :
			  max(ep->lane.share / 2, min(ep->lane.share, 2u)));
}

/* ---- messages --------------------------------------------------------- */

static void take(struct srq *q, struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	uint32_t number = ep->recv.next, out;

	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		rdmamsg__ep_wc_error(ep, wc);
		rdmamsg__ep_touch(ep);
		return;
	}
	ep->lane.rq.posts++;
	if (unlikely(wc->opcode != IBV_WC_RECV))
		rdmamsg__rx_imm(ep, rdmamsg__srq_current(q), wc);
	else
		rdmamsg__rx_msg(ep, rdmamsg__srq_current(q), wc);
	if (ep->recv.next == number)
		return;
	out = rdmamsg__granted(ep) - number;
	rdmamsg__srq_use(&q->account, out);
	/* grant new credits when half of the share is used */
	if (2 * (out - 1) <= ep->lane.share && !ep->dirty)
		rdmamsg__ep_touch(ep);
}

void rdmamsg__srq_done(struct rdmamsg *ctx, const struct ibv_wc *wc,
		       const struct ibv_wc *end)
{
	struct srq *q = rdmamsg__srq_completed(ctx->lanes, wc->wr_id);
	struct lane *l;

	if (unlikely(!q))
		return;
	if (end - wc > 2)
		rdmamsg__srq_foresee(q, wc[2].wr_id);
	l = rdmamsg__qpmap_find(&q->dev->qps, wc->qp_num);
	if (likely(l && l->srq == q))
		take(q, rdmamsg__ep_of(l), wc);
	else
		q->st.strays++;		/* the connection has ended */
	rdmamsg__srq_again(q);
}
