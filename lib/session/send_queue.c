/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send queue: accepted operations wait here until they can be posted. When
 * there is room again, they are posted in the order of the calls, and then the
 * program is told that it can send.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/util.h"
#include "device/device.h"
#include "memory/memory.h"
#include "session/close.h"
#include "session/credit.h"
#include "session/ctrl.h"
#include "session/ep.h"
#include "session/flow.h"
#include "session/keep.h"
#include "session/recv.h"
#include "session/resume.h"
#include "session/rma.h"
#include "session/send.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

/* Asks the peer which messages it has, so that they need not be kept. */
static void ask_to_release(struct rdmamsg_ep *ep)
{
	/* a request would take the place of a message that is sent again */
	if (!rdmamsg__keeps(ep) || ep->live.ping_out ||
	    ep->ctrl.due & CTRL_PING || rdmamsg__holds_back(ep) ||
	    rdmamsg__can_keep(ep, 1, ep->send.copy_max))
		return;
	ep->ctrl.due |= CTRL_PING;
	rdmamsg__ep_touch(ep);
}

int rdmamsg__tx_again(struct rdmamsg_ep *ep)
{
	ep->st.sends_refused++;
	ep->st.credit_stalls += !rdmamsg__has_credit(ep);
	if (!ep->send.want_writable)
		probe(refused, ep, ep->credit.limit - rdmamsg__tx_number(ep));
	ep->send.want_writable = true;
	ep->send.wants = 0;
	return -EAGAIN;
}

/* Any memory that comes back wakes the endpoint, see starved.c. */
int rdmamsg__no_buffer(struct rdmamsg_ep *ep)
{
	rdmamsg__starve(ep->ctx, &ep->starving,
			ep->send.lack ? ep->send.lack : -ENOBUFS);
	ep->send.lack = 0;
	ep->send.want_memory = true;
	rdmamsg__tx_ask(ep->ctx);
	return rdmamsg__tx_again(ep);
}

int rdmamsg__tx_refused(struct rdmamsg_ep *ep, int err)
{
	/* the loop has not noticed it yet */
	if (err != -EIO || !rdmamsg__keeps(ep) ||
	    !rdmamsg__device_lost(ep->lane.dev->device))
		return err;
	rdmamsg__ep_removed(ep);
	return rdmamsg__tx_check(ep);
}

void rdmamsg__keep_op(struct rdmamsg_ep *ep, struct op *op,
		      enum proto_type type)
{
	struct keep *k = &ep->resume->keep;
	const struct keep_entry *e;

	if (!ep->resume->agreed)
		return;
	op->number = k->end;
	e = rdmamsg__keep_add(k, (uint8_t)type, op->tag,
			      type == PROTO_RNDV ? 0 : op->len);
	if (e->len)
		memcpy(rdmamsg__kept_bytes(k, e), op->msg->data, e->len);
}

void rdmamsg__launch(struct rdmamsg_ep *ep, struct op *op)
{
	ep->lane.hot.bytes_sent += op->len;
	if (unlikely(ep->resume))
		rdmamsg__keep_op(ep, op, op->kind == OP_RNDV ? PROTO_RNDV :
				 PROTO_DATA);
	if (op->kind == OP_RNDV) {
		ep->st.sent_rendezvous++;
		op->number = rdmamsg__tx_next_number(ep);
		rdmamsg__rndv_announce(ep, op);
		return;
	}
	ep->st.sent_eager++;
	if (unlikely(op->invalidate))
		rdmamsg__tx_message(ep, PROTO_INVALIDATE,
				    rdmamsg__tx_next_number(ep), op->tag, op,
				    op->msg, NULL, op->len);
	else
		rdmamsg__tx_data(ep, op->tag, op, op->msg, NULL, op->len);
}

void rdmamsg__tx_queue(struct rdmamsg_ep *ep, struct op *op)
{
	list_add_tail(&ep->send.queue, &op->node);
	ep->send.queued++;
	rdmamsg__ep_ready(ep);
}

void rdmamsg__pump_queue(struct rdmamsg_ep *ep)
{
	while (ep->send.queued) {
		struct op *op = list_first(&ep->send.queue, struct op, node);

		if (unlikely(ep->resume) && !rdmamsg__replay_ready(ep, op))
			return;
		if (op->kind == OP_RMA) {
			if (!rdmamsg__rma_pump(ep, op))
				return;
		} else if (!rdmamsg__can_post(ep) || (op->kind == OP_RNDV &&
					     !rdmamsg__rndv_room(ep)) ||
			   (unlikely(op->invalidate) &&
			    rdmamsg__fence_holds(ep))) {
			return;
		}
		list_del(&op->node);
		ep->send.queued--;
		if (op->kind != OP_RMA)
			rdmamsg__launch(ep, op);
	}
}

/* Large messages and the program both want to read: lets them take turns. */
static void __attribute__((noinline)) pump_reads(struct rdmamsg_ep *ep)
{
	uint32_t before;

	do {
		before = ep->reads.free;
		rdmamsg__rndv_pump(ep);
		if (!rdmamsg__holds_back(ep))
			rdmamsg__pump_queue(ep);
	} while (ep->reads.free && ep->reads.free != before);
}

/* Returns true if a refused call would be accepted now. */
static inline bool is_writable(struct rdmamsg_ep *ep)
{
	if (ep->send.want_memory)
		return false;
	if (ep->onesided.wanted && rdmamsg__rma_room(ep))
		return true;
	if (rdmamsg__holds_back(ep))
		return false;
	if (!ep->send.op_free && ep->send.op_count >= ep->send.op_max)
		return false;
	if (ep->send.wants && !rdmamsg__can_post_run(ep, ep->send.wants))
		return false;
	return ep->opts.send_queue ? ep->send.queued < ep->opts.send_queue :
	       !ep->send.queued && rdmamsg__can_post(ep) &&
	       rdmamsg__rndv_room(ep);
}

/*
 * Calls on_writable at most once in each call into the library. Otherwise a
 * program that frees a message there and is refused again would loop for ever.
 */
static void tell_writable(struct rdmamsg_ep *ep)
{
	if (ep->send.told_writable == ep->ctx->sessions->rounds) {
		/* try again a little later */
		rdmamsg__starve(ep->ctx, &ep->starving, -ENOMEM);
		return;
	}
	ep->send.told_writable = ep->ctx->sessions->rounds;
	ep->send.want_writable = ep->onesided.wanted = ep->send.want_memory =
		false;
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_writable, ep);
}

void rdmamsg__tx_pump(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	if (ep->state != EP_OPEN && ep->state != EP_CLOSING &&
	    ep->state != EP_SETUP)
		return;
	if (rdmamsg__lane_lost(ep)) {
		/* what has arrived, and what is cancelled, needs no lane */
		rdmamsg__rx_deliver(ep);
		if (ep->ctrl.due & CTRL_CANCELED)
			rdmamsg__flow_canceled(ep);
		return;
	}
	ctx->loop.in_callback++;	/* batch the requests that follow */
	if (rdmamsg__rx_waits(ep))
		rdmamsg__rndv_pump(ep);
	rdmamsg__ctrl_pump(ep);
	if (rdmamsg__rx_waits(ep))
		rdmamsg__rx_deliver(ep);
	if (rdmamsg__holds_back(ep))
		rdmamsg__replay(ep);
	if (ep->send.queued && !rdmamsg__holds_back(ep))
		rdmamsg__pump_queue(ep);
	if (unlikely(ep->resume && (ep->send.queued ||
				    ep->send.want_writable)))
		ask_to_release(ep);
	if (unlikely(ep->reads.wants[READ_MESSAGE]))
		pump_reads(ep);
	if (ep->send.want_writable && ep->state == EP_OPEN && is_writable(ep))
		tell_writable(ep);
	ctx->loop.in_callback--;
	rdmamsg__ep_ready(ep);
}
