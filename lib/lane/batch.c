/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of a lane, posted together. */
#include "base/util.h"
#include "device/masked.h"
#include "device/verbs_api.h"
#include "lane/batch.h"
#include "lane/lane.h"
#include "lane/qp.h"

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Prepares the entries from 'from' to end - 1 as inline compact messages. */
static void make_plain(struct tx_entry *from, const struct tx_entry *end)
{
	for (; from < end; from++) {
		from->wr.next = &(from + 1)->wr;
		from->wr.sg_list = &from->sge;
		from->wr.num_sge = 1;
		from->wr.opcode = IBV_WR_SEND_WITH_IMM;
		from->wr.send_flags = IBV_SEND_INLINE;
		from->sge.addr = (uintptr_t)from->data;
	}
}

void rdmamsg__batch_init(struct tx_batch *b)
{
	make_plain(b->entries, b->entries + TX_BATCH);
	b->next = b->entries;
}

/* The device did not take the last 'lost' requests, so they do not complete. */
static void take_back(struct lane *l, uint32_t lost)
{
	while (lost--) {
		uint32_t slot = (uint32_t)--l->hot.sq_posted & l->sq.mask;
		struct op *op = l->sq.slots[slot];

		if (!op)
			continue;
		l->sq.slots[slot] = NULL;
		l->sq.ops--;
		l->on->unposted(l, op);
	}
}

void rdmamsg__batch_post(struct tx_batch *b)
{
	struct lane *l = b->lane;
	struct rdmamsg_hot_ep *h = &l->hot;
	struct tx_entry *end = b->next, *last = end - 1;
	uint32_t at = (uint32_t)h->sq_posted - 1; /* the last */
	struct ibv_send_wr *bad = NULL;
	int ret;

	if (b->signal || (int32_t)(at - h->signal_at) >= 0) {
		last->wr.send_flags |= IBV_SEND_SIGNALED;
		h->signal_at = at + h->signal_every;
	}
	last->wr.next = NULL;
	b->lane = NULL;
	b->next = b->entries;
	b->signal = false;
	ret = rdmamsg__verbs_ret(ibv_post_send(h->qp, &b->entries->wr, &bad));
	make_plain(b->odd ? b->entries : last, end);
	b->odd = false;
	if (likely(!ret))
		return;
	/*
	 * No bad request: the device has queued them all, and its doorbell has
	 * failed (rdma-core v44.0, siw_post_send(), rxe_post_send()). They
	 * complete, as flushed.
	 */
	if (bad)
		take_back(l, (uint32_t)(end - (struct tx_entry *)bad));
	/* to the peer, requests after the gap would break the protocol */
	(void)rdmamsg__lane_error(l);
	l->on->failed(l, ret, "posting to the send queue");
}

void rdmamsg__lane_masked(struct lane *l, struct op *op, struct ibv_send_wr *wr,
			  const struct masked *m)
{
	struct rdmamsg_hot_ep *h = &l->hot;
	const uint32_t at = (uint32_t)h->sq_posted++;
	int ret;

	l->sq.slots[at & l->sq.mask] = op;
	l->sq.ops++;
	h->signal_at = at + h->signal_every;
	wr->wr_id = h->wr_id | (at & 0x7fffffffu);
	wr->send_flags |= IBV_SEND_SIGNALED;
	ret = rdmamsg__post_masked(l->v, h->qp, l->raw, wr, m);
	if (likely(!ret))
		return;
	take_back(l, 1);
	(void)rdmamsg__lane_error(l);
	l->on->failed(l, ret, "posting a masked atomic");
}
