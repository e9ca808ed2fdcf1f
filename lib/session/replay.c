/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replay: the new lane gets the messages and operations that the peer lacks, in
 * their first order. Operations of the program wait until all are posted.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/device.h"
#include "lane/lane.h"
#include "memory/layout.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/region.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/resume.h"
#include "session/rma.h"
#include "session/send.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

/* Waits for memory. */
static bool starve(struct rdmamsg_ep *ep)
{
	rdmamsg__starve(ep->ctx, &ep->starving, -ENOMEM);
	return false;
}

/* ---- memory of the former device -------------------------------------- */

/* Copies len bytes into a buffer of the lane's device. */
static bool move_buffer(struct rdmamsg_ep *ep, struct rdmamsg_msg **msg,
			uint32_t len)
{
	struct rdmamsg_msg *old = *msg, *new;

	if (!old || old->dev == ep->lane.dev)
		return true;
	new = rdmamsg__free_buffer(ep);
	if (!new)
		return starve(ep);
	memcpy(new->data, old->data, len);
	new->len = old->len;
	*msg = new;
	rdmamsg__msg_done(old);
	return true;
}

static bool register_again(struct rdmamsg_ep *ep, int err)
{
	if (!err)
		return true;
	if (rdmamsg__passes(err))
		return starve(ep);
	rdmamsg__ep_device_failed(ep, err, "registering memory again");
	return false;
}

static uint64_t length_of(const struct rma *r)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < r->entries; i++)
		len += r->entry[i].len;
	return len;
}

/* Registers the gather entries with the device of the lane. */
static bool move_entries(struct rdmamsg_ep *ep, struct rma *r)
{
	struct dev *dev = ep->lane.dev;

	if (r->kind == RMA_EMULATED)
		return true;
	if (r->op.msg && r->op.msg->dev != dev) {
		struct rma_entry *e = r->entries == 1 && !r->entry->region ?
				      r->entry : NULL;

		if (!move_buffer(ep, &r->op.msg, e ? (uint32_t)e->len : 0))
			return false;
		if (e) {
			e->addr = (uintptr_t)r->op.msg->data;
			e->lkey = r->op.msg->lkey;
		}
	}
	for (uint32_t i = 0; i < r->entries; i++) {
		struct rma_entry *e = &r->entry[i];

		if (!e->region)
			continue;
		if (e->region->layout) {
			if (!register_again(ep, rdmamsg__try(
					rdmamsg__layout_ready(e->region->layout,
							      dev))))
				return false;
			continue;
		}
		if (!register_again(ep, rdmamsg__try(
				rdmamsg__region_register(e->region, dev))))
			return false;
		e->lkey = rdmamsg__region_mr(e->region, dev)->lkey;
	}
	return true;
}

static bool need_results(struct rdmamsg_ep *ep)
{
	if (!ep->onesided.all || ep->onesided.results)
		return true;
	ep->onesided.results = rdmamsg__free_buffer(ep);
	return ep->onesided.results || starve(ep);
}

/* Sets the operation back to its beginning. */
static bool rewind_rma(struct rdmamsg_ep *ep, struct rma *r)
{
	uint64_t len;

	if (!need_results(ep) || !move_entries(ep, r))
		return false;
	if (!r->begun || rdmamsg__rma_is_atomic(r))
		return true;
	len = length_of(r);
	r->raddr -= len - r->left;
	r->left = len;
	r->at = 0;
	r->offset = 0;
	r->begun = false;
	r->again = true;
	r->op.status = 0;
	return true;
}

bool rdmamsg__replay_ready(struct rdmamsg_ep *ep, struct op *op)
{
	if (likely(!ep->resume || !ep->resume->lanes))
		return true;
	if (op->kind == OP_RMA) {
		struct rma *r = (struct rma *)op;

		if (r->made == ep->resume->lanes)
			return true;
		if (!rewind_rma(ep, r))
			return false;
		rdmamsg__rma_suit(ep, r);
		r->made = ep->resume->lanes;
		return true;
	}
	if (op->kind == OP_RNDV && !rdmamsg__rndv_registered(op->rndv) &&
	    !register_again(ep, rdmamsg__try(
			    rdmamsg__rndv_register(ep->lane.dev, op->rndv))))
		return false;
	return move_buffer(ep, &op->msg, op->kind == OP_RNDV ? 0 : op->len);
}

/* ---- messages ---------------------------------------------------------- */

static struct op *find_out(struct rdmamsg_ep *ep, uint32_t number)
{
	struct list *n;

	list_for_each(n, &ep->rndv.out) {
		struct op *op = list_entry(n, struct op, node);

		if (op->number == number)
			return op;
	}
	return NULL;
}

static bool announce(struct rdmamsg_ep *ep, uint32_t number,
		     struct keep_entry *e)
{
	struct op *op = find_out(ep, number);

	if (!op) {
		rdmamsg__ep_device_failed(ep, -EPROTO, "announcing again");
		return false;
	}
	if (!move_buffer(ep, &op->msg, 0))
		return false;
	op->refs = 2;
	rdmamsg__rndv_tell(ep, op);
	return true;
}

/* Posts the entry with a header, which has its number. */
static bool post(struct rdmamsg_ep *ep, uint32_t number, struct keep_entry *e)
{
	const uint8_t *bytes = rdmamsg__kept_bytes(&ep->resume->keep, e);
	struct op *op = e->op;
	bool flat = ep->send.can_inline && e->len <= ep->send.inline_max;

	if (e->type == PROTO_RNDV)
		return announce(ep, number, e);
	if (!op && !flat) {
		op = rdmamsg__op_get(ep);
		if (!op)
			return starve(ep);
		op->kind = OP_EAGER;
		op->refs = 1;
		op->invalidate = false;
		op->number = number;
	}
	if (!flat) {
		op->msg = rdmamsg__free_buffer(ep);
		if (!op->msg) {
			if (!e->op)
				rdmamsg__op_put(ep, op);
			return starve(ep);
		}
		memcpy(op->msg->data, bytes, e->len);
	}
	e->op = NULL;
	rdmamsg__tx_message(ep, e->type, number, e->tag, op,
			    flat ? NULL : op->msg, bytes, e->len);
	return true;
}

/* Posts parked operations that were posted before message 'number'. */
static bool post_parked(struct rdmamsg_ep *ep, uint32_t number)
{
	struct list *parked = &ep->resume->parked;

	while (!list_empty(parked)) {
		struct op *op = list_first(parked, struct op, node);

		if ((int32_t)(op->number - number) > 0)
			return true;
		if (!rdmamsg__replay_ready(ep, op) ||
		    !rdmamsg__rma_pump(ep, op))
			return false;
		list_del(&op->node);
	}
	return true;
}

void rdmamsg__replay(struct rdmamsg_ep *ep)
{
	struct keep *k = &ep->resume->keep;
	bool idle = rdmamsg__tx_burst_begin(ep->ctx);

	while (rdmamsg__keep_replays(k) && ep->state < EP_DRAINING &&
	       post_parked(ep, k->at) &&
	       (int32_t)(ep->credit.limit - k->at) > 0 &&
	       rdmamsg__sq_fits(&ep->lane, 1) &&
	       post(ep, k->at, rdmamsg__kept(k, k->at)))
		k->at++;
	if (!rdmamsg__keep_replays(k))
		(void)post_parked(ep, k->end);
	rdmamsg__tx_burst_end(ep->ctx, idle);
	if (!rdmamsg__holds_back(ep))
		rdmamsg__record(ep->recorder, EVENT_REPLAYED, k->end, 0);
	rdmamsg__ep_ready(ep);
}
