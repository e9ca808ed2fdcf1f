/* SPDX-License-Identifier: BSD-2-Clause */
/* The receives of a shared queue: buffers, posting, and what they cover. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "lane/lanes.h"
#include "lane/srq.h"
#include "memory/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>

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

/* Posts the first n ready receives, at most a batch. */
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

/*
 * backing() returns how many messages the receives count for. This exceeds the
 * number of receives if overcommit > 100. needed() returns the messages in
 * flight, plus a batch.
 */
static uint64_t backing(const struct srq *q)
{
	return (uint64_t)(q->posted + q->ready_count) *
	       q->owner->opts.overcommit / 100;
}

static uint32_t needed(const struct srq *q)
{
	return rdmamsg__srq_in_flight(&q->account) + q->batch;
}

/* Returns the number of receives for 'need' messages. */
static uint32_t receives(const struct srq *q, uint64_t need)
{
	uint32_t overcommit = q->owner->opts.overcommit;

	return (uint32_t)min((need * 100 + overcommit - 1) / overcommit,
			     (uint64_t)q->depth);
}

/* Returns the number of receives to post, without q->more. */
static uint32_t base(const struct srq *q)
{
	return receives(q, needed(q) - q->batch) + q->batch;
}

/* Returns how many of the ready receives to post now. */
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

		if (unlikely(ret)) {
			q->failed = true;
			q->dev->ctx->lanes->srq_failed(q, ret, "posting a "
						       "shared receive failed");
		}
	}
	if (unlikely(q->posted >= q->arm_at) && !q->failed)
		rdmamsg__srq_arm(q);
}

void rdmamsg__srq_post(struct srq *q)
{
	post_ready(q, q->batch);
}

int rdmamsg__srq_fill_holes(struct srq *q, uint32_t n)
{
	for (; q->hole_count && n; n--) {
		struct rdmamsg_msg *msg = rdmamsg__pool_take(q->pool);
		uint32_t at = q->holes;
		int err = 0;

		/*
		 * grow for all at once, or take nothing from the next endpoint
		 */
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
	/* fill only the missing ones, because the pool may lack more */
	have = q->posted + q->ready_count;
	if (want > have)
		(void)rdmamsg__srq_fill_holes(q, want - have);
	post_ready(q, 1);
}

void rdmamsg__srq_raise(struct srq *q, uint32_t more)
{
	uint32_t least = q->limit > base(q) ? q->limit - base(q) : 0;

	q->more = min(max(q->more + more, least), q->depth);
	rdmamsg__srq_fill(q, base(q) + q->more);
}

bool rdmamsg__srq_back(struct srq *q, uint32_t more)
{
	const struct srq_account *a = &q->account;
	uint32_t need = rdmamsg__srq_in_flight(a) + rdmamsg__srq_kept(a) + more;
	uint32_t want = (uint32_t)((uint64_t)need * 100 /
				   q->owner->opts.overcommit) + q->batch, have;

	want = min(want, q->depth);
	rdmamsg__srq_fill(q, want);
	rdmamsg__srq_raise(q, 0);
	/*
	 * Holes that others need may remain. The message that is being
	 * delivered counts, because its receive comes back.
	 */
	have = q->posted + q->ready_count + (q->current != SRQ_NONE);
	return !q->failed && have >= want;
}

uint32_t rdmamsg__srq_covered(struct srq *q, uint32_t n, uint32_t own)
{
	uint64_t need = needed(q), kept = rdmamsg__srq_kept(&q->account), spare;

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
	if (!rdmamsg__srq_shared(&q->account) || !rdmamsg__srq_covered(q, 1, 0))
		return false;
	post_ready(q, q->batch);
	return true;
}

/*
 * Prefetches, because successive completions are of different endpoints, whose
 * memory is far apart.
 */
void rdmamsg__srq_foresee(const struct srq *q, uint64_t wr_id)
{
	uint32_t at = (uint32_t)wr_id & (SRQ_SLOTS - 1);

	if (at < q->depth)
		__builtin_prefetch(q->slots[at].msg, 1);
}

struct srq *rdmamsg__srq_completed(const struct lanes *lanes, uint64_t wr_id)
{
	struct srq *q = rdmamsg__handle_of(&lanes->srqs,
					   wr_id >> 24 & (SRQ_PARTS - 1));
	uint32_t at = (uint32_t)wr_id & (SRQ_SLOTS - 1);

	if (unlikely(!q || at >= q->depth || !q->slots[at].posted))
		return NULL;		/* the device is broken */
	q->slots[at].posted = false;
	q->posted--;
	q->st.ran_empty += !q->posted;
	q->current = at;
	return q;
}

void rdmamsg__srq_again(struct srq *q)
{
	uint32_t at = q->current;

	q->current = SRQ_NONE;
	push(q, at);
	post_ready(q, q->batch);
}
