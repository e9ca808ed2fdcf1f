/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving through a shared queue: posting, credits, whose message it is. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/qpmap.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "lane/srq.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

static void push(struct srq *q, uint32_t at)
{
	struct srq_slot *slot = &q->slots[at];

	if (likely(slot->msg)) {
		slot->next = q->ready;
		q->ready = at;
		q->ready_count++;
	} else {
		slot->next = q->holes;
		q->holes = at;
		q->hole_count++;
	}
}

void rdmamsg__srq_fail(struct srq *q, int err, const char *what)
{
	struct list *n;

	q->failed = true;
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

/* The first n of those that are ready, a batch at most. */
static int post(struct srq *q, uint32_t n)
{
	struct ibv_recv_wr *last = &q->wr[n - 1], *next = last->next;
	struct ibv_recv_wr *bad = NULL;
	uint32_t at = q->ready;
	int ret;

	for (uint32_t i = 0; i < n; i++, at = q->slots[at].next) {
		q->wr[i].wr_id = q->wr_id | at;
		q->sge[i].addr = (uintptr_t)q->slots[at].msg->buf;
		q->sge[i].lkey = q->slots[at].msg->lkey;
	}
	last->next = NULL;
	ret = rdmamsg__verbs_ret(ibv_post_srq_recv(q->ibv, q->wr, &bad));
	last->next = next;
	if (unlikely(ret))
		n = bad ? (uint32_t)(bad - q->wr) : 0;
	for (uint32_t i = 0; i < n; i++) {
		q->slots[q->ready].posted = true;
		q->ready = q->slots[q->ready].next;
	}
	q->ready_count -= n;
	q->posted += n;
	return ret;
}

/* How many receives back what may be sent, with and without more of it. */
static uint64_t backing(const struct srq *q)
{
	return (uint64_t)(q->posted + q->ready_count) *
	       q->owner->opts.overcommit / 100;
}

static uint32_t needed(const struct srq *q)
{
	return q->promised + q->eps * SRQ_CTRL + q->lobby + q->answers +
	       q->batch;
}

/* Receives for so much. */
static uint32_t receives(const struct srq *q, uint64_t need)
{
	uint32_t overcommit = q->owner->opts.overcommit;

	return (uint32_t)min((need * 100 + overcommit - 1) / overcommit,
			     (uint64_t)q->depth);
}

/* What is to be posted, but for what the queue has run low of. */
static uint32_t base(const struct srq *q)
{
	return receives(q, needed(q) - q->batch) + q->batch;
}

/* Of those that are ready, the ones to be posted now. */
static uint32_t due(const struct srq *q)
{
	uint32_t want = base(q) + q->more;

	return want > q->posted ? min(want - q->posted, q->ready_count) : 0;
}

static void post_ready(struct srq *q, uint32_t least)
{
	uint32_t n;

	while ((n = due(q)) >= max(least, 1u) && !q->failed) {
		int ret = post(q, min(n, q->batch));

		if (unlikely(ret))
			rdmamsg__srq_fail(q, ret, "posting a shared receive "
					  "failed");
	}
	if (unlikely(q->posted >= q->arm_at) && !q->failed)
		rdmamsg__srq_arm(q);
}

/* Gives buffers to n of the slots without, as far as there is memory. */
static int fill_holes(struct srq *q, uint32_t n)
{
	for (; q->hole_count && n; n--) {
		struct rdmamsg_msg *msg = rdmamsg__pool_take(q->pool);
		uint32_t at = q->holes;
		int err = 0;

		/* in one piece: else it takes what the next endpoint needs */
		if (!msg)
			err = rdmamsg__try(rdmamsg__pool_grow(q->pool,
							min(n, q->hole_count),
							&q->lacks));
		if (err)
			return err;
		if (!msg)
			msg = rdmamsg__pool_take(q->pool);
		q->slots[at].msg = msg;
		q->holes = q->slots[at].next;
		q->hole_count--;
		push(q, at);
	}
	q->lacks = false;
	return 0;
}

void rdmamsg__srq_fill(struct srq *q, uint32_t want)
{
	uint32_t have;

	want = min(want, q->depth);
	while (q->active < q->depth &&
	       q->posted + q->ready_count + q->hole_count < want)
		push(q, q->active++);
	/* the others are missing elsewhere, maybe too many for the pool */
	have = q->posted + q->ready_count;
	if (want > have)
		(void)fill_holes(q, want - have);
	post_ready(q, 1);
}

void rdmamsg__srq_raise(struct srq *q, uint32_t more)
{
	uint32_t least = q->limit > base(q) ? q->limit - base(q) : 0;

	q->more = min(max(q->more + more, least), q->depth);
	rdmamsg__srq_fill(q, base(q) + q->more);
}

/*
 * An endpoint that uses its credits gets more, at most as many beyond the floor
 * as are left for all the others. So there is always something left. When
 * little is left, an endpoint with more than that gets nothing new until it has
 * used what it has. Credit is never taken back.
 */
static uint32_t share(struct rdmamsg_ep *ep, uint32_t out)
{
	const struct srq *q = ep->lane.srq;
	uint32_t floor = q->owner->opts.floor, n = ep->lane.share;

	if (2 * out <= n)
		n *= 2;
	n = min(n, floor + rdmamsg__srq_shared(q));
	n = min(n, ep->opts.recv_depth);
	return ep->lane.share = max(n, floor);
}

/*
 * Of n credits, as many as there are receives for. 'own' of them are the rest
 * of the endpoint's floor; what is left of the others' is not touched.
 */
static uint32_t covered(struct srq *q, uint32_t n, uint32_t own)
{
	uint64_t need = needed(q), kept = rdmamsg__srq_kept(q), spare;

	kept -= min(kept, (uint64_t)own);
	if (unlikely(backing(q) < need + kept + n))
		rdmamsg__srq_fill(q, receives(q, need + kept + n));
	need = needed(q);
	if (backing(q) <= need)
		return 0;
	spare = backing(q) - need;
	own = (uint32_t)min(spare, (uint64_t)own);
	spare = spare - own > kept ? spare - own - kept : 0;
	return (uint32_t)min(own + spare, (uint64_t)n);
}

bool rdmamsg__srq_can_answer(struct srq *q)
{
	if (!rdmamsg__srq_shared(q) || !covered(q, 1, 0))
		return false;
	post_ready(q, q->batch);
	return true;
}

static uint32_t above(uint32_t out, uint32_t floor)
{
	return out > floor ? out - floor : 0;
}

/*
 * How many credits the peer may have beyond 'out', with all that the program
 * keeps of its messages: what is kept holds up this peer and no other.
 */
static uint32_t kept_up(struct rdmamsg_ep *ep, uint32_t out)
{
	size_t size = ep->lane.srq->pool->buf_size;
	size_t own = size * (ep->opts.recv_depth - min(ep->opts.recv_depth,
							out));

	if (rdmamsg__lent_allows(ep, size, 0))
		return UINT32_MAX - out;
	return rdmamsg__lent_allows(ep, size, own);
}

/* Something was used, or is free again. */
void rdmamsg__srq_refill(struct rdmamsg_ep *ep)
{
	struct srq *q = ep->lane.srq;
	uint32_t floor = q->owner->opts.floor;
	uint32_t out = rdmamsg__granted(ep) - ep->recv.next, data, own, n;
	bool scarce;
	int err = q->hole_count ? fill_holes(q, q->hole_count) : 0;

	data = share(ep, out);
	data = data > ep->rndv.waiting.count ? data - ep->rndv.waiting.count
					     : 0;
	if (data > out && unlikely(ep->rndv.lent->bytes))
		data = min(data, out + kept_up(ep, out));
	own = above(min(data, floor), out);
	n = data > out ? covered(q, data - out, own) : 0;
	/* the program holds it all: again when it lets go of some */
	scarce = data > out + n;
	if (unlikely(scarce))
		rdmamsg__starve(ep->ctx, &ep->starving, err ? err : -ENOBUFS);
	q->promised += n;
	q->extra += above(out + n, floor) - above(out, floor);
	post_ready(q, q->batch);
	/* of two, one can wait for something that goes the other way */
	rdmamsg__rx_grant(ep, ep->recv.next + out + n,
			  scarce || ep->rndv.waiting.count ? 1 :
			  max(ep->lane.share / 2, min(ep->lane.share, 2u)));
}

static void take(struct srq *q, struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	uint32_t number = ep->recv.next, out;

	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		rdmamsg__ep_wc_error(ep, wc);
		rdmamsg__ep_touch(ep);
		return;
	}
	if (unlikely(wc->opcode != IBV_WC_RECV)) {
		rdmamsg__ep_protocol(ep, "a write with immediate data");
		return;
	}
	ep->lane.rq.posts++;
	rdmamsg__rx_msg(ep, q->slots[q->current].msg, wc);
	if (ep->recv.next == number)
		return;
	out = rdmamsg__granted(ep) - number;
	q->promised--;
	q->extra -= out > q->owner->opts.floor;
	/* credits can wait until half of them are used */
	if (2 * (out - 1) <= ep->lane.share && !ep->dirty)
		rdmamsg__ep_touch(ep);
}

/* Several at once are of several connections, in memory far apart. */
static void foresee(const struct srq *q, const struct ibv_wc *wc)
{
	uint32_t at = (uint32_t)wc->wr_id & (SRQ_SLOTS - 1);

	if (at < q->depth)
		__builtin_prefetch(q->slots[at].msg, 1);
}

void rdmamsg__srq_done(struct rdmamsg *ctx, const struct ibv_wc *wc,
		       const struct ibv_wc *end)
{
	struct srq *q = ctx->lanes->srqs[wc->wr_id >> 24 & (SRQ_PARTS - 1)];
	uint32_t at = (uint32_t)wc->wr_id & (SRQ_SLOTS - 1);
	struct lane *l;

	if (unlikely(!q || at >= q->depth || !q->slots[at].posted))
		return;		/* a device gone mad */
	if (end - wc > 2)
		foresee(q, wc + 2);
	q->slots[at].posted = false;
	q->posted--;
	q->st.ran_empty += !q->posted;
	q->current = at;
	l = rdmamsg__qpmap_find(&q->dev->qps, wc->qp_num);
	if (likely(l && l->srq == q))
		take(q, rdmamsg__ep_of(l), wc);
	else
		q->st.strays++;		/* its connection has gone */
	q->current = SRQ_NONE;
	push(q, at);
	post_ready(q, q->batch);
}
