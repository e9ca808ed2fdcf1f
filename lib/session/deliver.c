/* SPDX-License-Identifier: BSD-2-Clause */
/* Delivery: messages go to the program in order, at once or after waiting. */
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "session/destination.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/pieces.h"
#include "session/recv.h"
#include "session/rndv.h"
#include "wire/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

static void count_lent(struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg)
{
	ep->rndv.lent->refs++;
	rdmamsg__lent_add(ep->rndv.lent, rdmamsg__msg_bytes(msg));
}

void rdmamsg__deliver(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	ep->st.msgs_received++;
	ep->recv.bytes += msg->len;
	count_lent(ep, msg);
	if (unlikely(!ep->on.on_message)) {
		rdmamsg__inbox_add(ep, msg);
		return;
	}
	rdmamsg__msg_lend(msg, ep->rndv.lent);
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_message, ep, msg);
}

void rdmamsg__rx_kept(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	rdmamsg__rx_take_out(ep);
	if (msg->lent == MSG_PASSED) {
		msg->lent = MSG_OURS;	/* an operation has it */
		return;
	}
	count_lent(ep, msg);
	if (msg->lent == MSG_SHARED)
		rdmamsg__share_kept(msg->share, ep->rndv.lent);
	else
		rdmamsg__msg_lend(msg, ep->rndv.lent);
}

/* Removes the first large message. NULL: the program refused it. */
static struct rdmamsg_msg *take_large(struct rdmamsg_ep *ep)
{
	struct rndv_in *in =
		list_first(&ep->rndv.fetching, struct rndv_in, node);
	struct rdmamsg_msg *msg = NULL;

	if (in->state == IN_READY)
		msg = rdmamsg__destination_take(ep, &in->dst);
	rdmamsg__rndv_in_free(in);
	return msg;
}

/*
 * Returns true if the first waiting message is complete, or is a piece that has
 * a destination.
 */
static bool is_complete(struct rdmamsg_ep *ep)
{
	const struct rdmamsg_msg *msg = ep->rndv.waiting.first;
	const struct rndv_in *in;

	if (msg->type == PROTO_FIRST)
		return rdmamsg__pieces_begin(ep, msg);
	if (msg->type != PROTO_RNDV)
		return true;
	if (msg == ep->rndv.waiting.unparsed)
		return false;
	in = list_first(&ep->rndv.fetching, struct rndv_in, node);
	return in->state > IN_READING && !in->done_due;
}

void rdmamsg__rx_deliver(struct rdmamsg_ep *ep)
{
	while (rdmamsg__rx_waits(ep) && !ep->recv.paused && is_complete(ep) &&
	       ep->state < EP_DRAINING) {
		struct rdmamsg_msg *msg = rdmamsg__rx_next(ep), *large;

		rdmamsg__ep_touch(ep);		/* to grant its credit */
		switch (msg->type) {
		case PROTO_RNDV:
			large = take_large(ep);
			rdmamsg__msg_put(msg);
			if (large)
				rdmamsg__deliver(ep, large);
			break;
		case PROTO_WRITTEN:
			rdmamsg__tell_written(ep, msg->tag);
			rdmamsg__msg_put(msg);
			break;
		case PROTO_FIRST:
		case PROTO_MORE:
			rdmamsg__deliver_piece(ep, msg);
			rdmamsg__msg_put(msg);
			break;
		default:
			rdmamsg__deliver(ep, msg);
		}
	}
}

void rdmamsg__rx_discard(struct rdmamsg_ep *ep)
{
	while (!list_empty(&ep->rndv.fetching))
		rdmamsg__rndv_in_free(
			list_first(&ep->rndv.fetching, struct rndv_in, node));
	rdmamsg__destination_drop(ep, &ep->pieces.dst);
	/* the peer may have the other side's word that it has them */
	ep->close.undelivered |= rdmamsg__rx_waits(ep);
	while (rdmamsg__rx_waits(ep))
		rdmamsg__msg_put(rdmamsg__rx_next(ep));
	for (uint32_t i = 0; ep->lane.rq.slots && i < ep->lane.rq.target; i++) {
		if (ep->lane.rq.slots[i].msg)
			rdmamsg__slot_put(ep->lane.rq.slots[i].msg);
		ep->lane.rq.slots[i].msg = NULL;
	}
	ep->lane.rq.posts -= rdmamsg__rq_posted(&ep->lane);
	ep->lane.rq.spare = -(int32_t)ep->lane.rq.low;
}
