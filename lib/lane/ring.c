/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of receives of a lane without a shared receive queue. */
#include "base/util.h"
#include "device/verbs_api.h"
#include "lane/lane.h"
#include "lane/ring.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/pool.h"

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Returns the slot i places after 'at'. */
static inline uint32_t behind(const struct receive_queue *rq, uint32_t at,
			      uint32_t i)
{
	at += i;
	return at < rq->target ? at : at - rq->target;
}

void rdmamsg__ring_make(struct lane *l, uint32_t size, uint32_t lazy)
{
	struct receive_queue *rq = &l->rq;

	rq->target = size;
	rq->holes = 0;
	for (uint32_t i = 0; i < size; i++) {
		struct rx_slot *slot = &rq->slots[i];

		slot->sge.length = (uint32_t)l->recv_pool->buf_size;
		slot->wr.wr_id = l->hot.wr_id | 0x80000000u | i;
		slot->wr.next = &rq->slots[i + 1 < size ? i + 1 : 0].wr;
		slot->wr.sg_list = &slot->sge;
		slot->wr.num_sge = 1;
		rq->holes += !slot->msg;
	}
	rq->head = rq->slots;
	rq->tail = 0;
	rq->low = size - min(lazy, size) + 1;
	rq->spare = -(int32_t)rq->low;	/* no receive is posted */
}

/*
 * The requests of the ring are chained: cuts the chain, posts, mends the chain.
 */
int rdmamsg__ring_post(struct lane *l, uint32_t n)
{
	struct receive_queue *rq = &l->rq;
	struct ibv_recv_wr *last = &rq->slots[behind(rq, rq->tail, n - 1)].wr;
	struct ibv_recv_wr *next = last->next, *bad = NULL;
	int ret;

	last->next = NULL;
	ret = rdmamsg__verbs_ret(
		ibv_post_recv(l->hot.qp, &rq->slots[rq->tail].wr, &bad));
	last->next = next;
	if (unlikely(ret)) {
		uint32_t at = bad ? (uint32_t)((struct rx_slot *)bad -
					       rq->slots) : rq->tail;

		n = at - rq->tail + (at < rq->tail ? rq->target : 0);
	}
	rq->tail = behind(rq, rq->tail, n);
	rq->spare += (int32_t)n;
	rq->posts += n;
	return ret;
}

/* Takes a buffer out of the slots from 'from' to end - 1 after the tail. */
static struct rdmamsg_msg *take_over(struct receive_queue *rq, uint32_t from,
				     uint32_t end)
{
	for (; from < end; from++) {
		struct rx_slot *slot = &rq->slots[behind(rq, rq->tail, from)];
		struct rdmamsg_msg *msg = slot->msg;

		if (!msg)
			continue;
		slot->msg = NULL;
		rq->holes++;
		return msg;
	}
	return NULL;
}

uint32_t rdmamsg__ring_fill(struct lane *l, uint32_t n, uint32_t missing)
{
	struct receive_queue *rq = &l->rq;

	for (uint32_t i = 0; i < n; i++) {
		struct rx_slot *slot = &rq->slots[behind(rq, rq->tail, i)];
		struct rdmamsg_msg *msg;

		if (slot->msg)
			continue;
		msg = take_over(rq, n, missing);
		if (!msg)
			msg = l->on->buffer(l, n - i);
		if (!msg)
			msg = take_over(rq, i + 1, n);
		if (!msg)
			return i;
		slot->msg = msg;
		slot->sge.addr = (uintptr_t)msg->buf;
		slot->sge.lkey = msg->lkey;
		rq->holes--;
	}
	rq->lacks = false;
	return n;
}
