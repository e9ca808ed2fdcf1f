/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: completions, credits, delivery in order. */
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/poison.h"
#include "base/util.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/pieces.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/window.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

static void count_lent(struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg)
{
	ep->rndv.lent->refs++;
	rdmamsg__lent_add(ep->rndv.lent, rdmamsg__msg_bytes(msg));
}

/* Gives a message that is in no slot to the program. */
static void deliver(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
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

/* Removes the buffer from the slot that has completed last. */
static void take_out(struct rdmamsg_ep *ep)
{
	uint32_t at = (uint32_t)(ep->lane.rq.head - ep->lane.rq.slots);

	if (ep->lane.srq) {
		rdmamsg__srq_take_out(ep->lane.srq);
		return;
	}
	ep->lane.rq.slots[(at ? at : ep->lane.rq.target) - 1].msg = NULL;
	ep->lane.rq.holes++;
}

/* The program has not freed the message in on_message. */
static void __attribute__((noinline))
kept(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	take_out(ep);
	if (msg->lent == MSG_PASSED) {
		msg->lent = MSG_OURS;	/* an operation has it */
		return;
	}
	count_lent(ep, msg);
	rdmamsg__msg_lend(msg, ep->rndv.lent);
}

/*
 * Most messages are freed in on_message. Such a message stays in its slot and
 * is posted again from there.
 */
static inline void deliver_in_place(struct rdmamsg_ep *ep,
				    struct rdmamsg_msg *msg)
{
	ep->recv.bytes += msg->len;
	msg->lent = MSG_IN_PLACE;
	ep->on.on_message(ep, msg);
	if (unlikely(msg->lent))
		kept(ep, msg);
	else
		rdmamsg__unpoison(msg->buf, msg->slab->pool->buf_size);
}

static void written(struct rdmamsg_ep *ep, uint32_t value)
{
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_written, ep, value);
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

static void add_piece(struct rdmamsg_ep *ep, const struct rdmamsg_msg *piece)
{
	struct rdmamsg_msg *whole = rdmamsg__pieces_add(ep, piece);

	if (whole)
		deliver(ep, whole);
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

/* Delivers waiting messages in order, up to the first incomplete one. */
void rdmamsg__rx_deliver(struct rdmamsg_ep *ep)
{
	while (rdmamsg__rx_waits(ep) && is_complete(ep) &&
	       ep->state < EP_DRAINING) {
		struct rdmamsg_msg *msg = rdmamsg__rx_next(ep), *large;

		rdmamsg__ep_touch(ep);		/* to grant its credit */
		switch (msg->type) {
		case PROTO_RNDV:
			large = take_large(ep);
			rdmamsg__msg_put(msg);
			if (large)
				deliver(ep, large);
			break;
		case PROTO_WRITTEN:
			written(ep, msg->tag);
			rdmamsg__msg_put(msg);
			break;
		case PROTO_FIRST:
		case PROTO_MORE:
			add_piece(ep, msg);
			rdmamsg__msg_put(msg);
			break;
		default:
			deliver(ep, msg);
		}
	}
}

/* The endpoint ends: frees messages and receives. */
void rdmamsg__rx_discard(struct rdmamsg_ep *ep)
{
	while (!list_empty(&ep->rndv.fetching))
		rdmamsg__rndv_in_free(
			list_first(&ep->rndv.fetching, struct rndv_in, node));
	rdmamsg__destination_drop(ep, &ep->pieces.dst);
	while (rdmamsg__rx_waits(ep))
		rdmamsg__msg_put(rdmamsg__rx_next(ep));
	for (uint32_t i = 0; ep->lane.rq.slots && i < ep->lane.rq.target; i++) {
		if (ep->lane.rq.slots[i].msg)
			rdmamsg__msg_put(ep->lane.rq.slots[i].msg);
		ep->lane.rq.slots[i].msg = NULL;
	}
	ep->lane.rq.posts -= rdmamsg__rq_posted(&ep->lane);
	ep->lane.rq.spare = -(int32_t)ep->lane.rq.low;
}

/* Checks and takes the peer's credit, and how many CREDITs it has seen. */
static bool take_credit(struct rdmamsg_ep *ep, uint32_t credit, uint16_t seen)
{
	uint32_t number = rdmamsg__tx_number(ep);

	if (unlikely((int32_t)(credit - number) > PROTO_DEPTH_MAX)) {
		rdmamsg__ep_protocol(ep, "a credit of %u at message %u",
				     credit, number);
		return false;
	}
	if (unlikely((uint16_t)(ep->credit.messages - seen) > CREDIT_MAX)) {
		rdmamsg__ep_protocol(ep,
				     "%u CREDIT messages seen, %u were sent",
				     seen, ep->credit.messages);
		return false;
	}
	if ((int32_t)(credit - ep->credit.limit) > 0)
		ep->credit.limit = credit;
	ep->credit.seen = seen;
	rdmamsg__tx_room(ep);
	if (unlikely(ep->send.want_writable || ep->send.queued || ep->ctrl.due))
		rdmamsg__ep_touch(ep);
	return true;
}

/* A data message has come. Its number must be within the credit. */
static bool take_next(struct rdmamsg_ep *ep)
{
	if (unlikely(ep->state < EP_OPEN || ep->close.seen)) {
		rdmamsg__ep_protocol(ep, "a data message %s", ep->close.seen ?
				     "after CLOSE" : "before SETUP");
		return false;
	}
	if (unlikely((int32_t)(rdmamsg__announced(ep) - ep->recv.next) <= 0)) {
		rdmamsg__ep_protocol(ep,
				     "message %u, credit was given up to %u",
				     ep->recv.next, ep->credit.announced);
		return false;
	}
	ep->recv.next++;
	return true;
}

/* The number in a header must be the next. */
static bool take_number(struct rdmamsg_ep *ep, const struct proto_hdr *hdr)
{
	if (unlikely(hdr->number != ep->recv.next)) {
		rdmamsg__ep_protocol(ep, "message %u where %u was due",
				     hdr->number, ep->recv.next);
		return false;
	}
	return take_next(ep);
}

/* Handles INVALIDATE. This side's device has invalidated the window. */
static bool __attribute__((noinline))
take_window(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	if (!(ep->connect.features & PROTO_FEATURE_INVALIDATE)) {
		rdmamsg__ep_protocol(ep, "INVALIDATE, which was not agreed");
		return false;
	}
	if (!(wc->wc_flags & IBV_WC_WITH_INV)) {
		rdmamsg__ep_protocol(ep, "INVALIDATE, and nothing was");
		return false;
	}
	rdmamsg__window_taken(ep, wc->invalidated_rkey);
	return ep->state < EP_DRAINING;
}

/* A message of the program, of either form, whose number is taken. */
static void rx_data(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (unlikely(msg->len > ep->opts.max_msg_size)) {
		rdmamsg__ep_protocol(ep,
				     "a message of %u bytes, agreed were %u",
				     msg->len, ep->opts.max_msg_size);
		return;
	}
	if (likely(!rdmamsg__rx_waits(ep) && ep->on.on_message)) {
		ep->st.msgs_received++;
		deliver_in_place(ep, msg);
		return;
	}
	take_out(ep);
	if (!rdmamsg__rx_waits(ep))
		deliver(ep, msg);
	else
		rdmamsg__rx_wait(ep, msg, PROTO_DATA);
}

/* A piece whose place in its run is checked. */
static void rx_piece(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     enum proto_type type)
{
	if (likely(!rdmamsg__rx_waits(ep)) &&
	    (type == PROTO_MORE || rdmamsg__pieces_begin(ep, msg))) {
		add_piece(ep, msg);
		return;
	}
	take_out(ep);
	rdmamsg__rx_wait(ep, msg, type);
}

static void rx_first(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
		     struct rdmamsg_msg *msg)
{
	if (!take_number(ep, hdr) || rdmamsg__pieces_broken(ep) ||
	    !rdmamsg__pieces_first(ep, msg))
		return;
	msg->tag = hdr->tag;
	rx_piece(ep, msg, PROTO_FIRST);
}

static void rx_more(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg__pieces_more(ep, msg))
		rx_piece(ep, msg, PROTO_MORE);
}

/* The peer's write before this message can be read. */
static void rx_written(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		       uint32_t value)
{
	if (!rdmamsg__rx_waits(ep)) {
		written(ep, value);
		return;
	}
	msg->tag = value;
	take_out(ep);
	rdmamsg__rx_wait(ep, msg, PROTO_WRITTEN);
}

/* The announcement stays in its receive buffer until the message is read. */
static void rx_rndv(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
		    struct rdmamsg_msg *msg)
{
	if (!take_number(ep, hdr) || rdmamsg__pieces_broken(ep) ||
	    rdmamsg__rndv_check(ep, msg->data, msg->len))
		return;
	ep->rndv.fetch_count++;
	take_out(ep);
	rdmamsg__rx_wait(ep, msg, PROTO_RNDV);
	rdmamsg__ep_touch(ep);
}

/*
 * The peer sends a CREDIT only if fewer than CREDIT_MAX are unseen, by what
 * this side's messages have told.
 */
static void rx_credit(struct rdmamsg_ep *ep)
{
	(void)rdmamsg__announced(ep);	/* brings 'told' up to date */
	if ((uint16_t)(++ep->credit.took - ep->credit.told) > CREDIT_MAX) {
		rdmamsg__ep_protocol(ep, "CREDIT message %u, seen %u",
				     ep->credit.took, ep->credit.told);
		return;
	}
	rdmamsg__tx_offer(ep);
}

static void rx_ping(struct rdmamsg_ep *ep, uint32_t tag)
{
	if (ep->ctrl.due & CTRL_PONG) {
		rdmamsg__ep_protocol(ep, "a second PING before the PONG");
		return;
	}
	ep->ctrl.ping_tag = tag;
	ep->ctrl.due |= CTRL_PONG;
}

static void rx_pong(struct rdmamsg_ep *ep, uint32_t fetching)
{
	if (!ep->live.ping_out) {
		rdmamsg__ep_protocol(ep, "a PONG without a PING");
		return;
	}
	ep->live.ping_out = false;
	ep->live.fetches |= fetching != 0;
}

static void rx_close(struct rdmamsg_ep *ep, uint32_t confirms)
{
	if (ep->close.confirmed || (ep->close.seen && !confirms)) {
		rdmamsg__ep_protocol(ep, "a second CLOSE");
		return;
	}
	if (confirms && !ep->close.sent) {
		rdmamsg__ep_protocol(ep, "a CLOSE for a CLOSE that was not "
				     "sent");
		return;
	}
	ep->close.confirmed = confirms;
	if (!ep->close.seen && ep->state == EP_OPEN)
		rdmamsg__ep_peer_closes(ep);
	ep->close.seen = true;
}

static void rx_control(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
		       struct rdmamsg_msg *msg)
{
	if (unlikely(ep->state < EP_OPEN && hdr->type != PROTO_SETUP &&
		     hdr->type != PROTO_AUTH)) {
		rdmamsg__ep_protocol(ep, "message type %u before SETUP",
				     hdr->type);
		return;
	}
	switch (hdr->type) {
	case PROTO_RNDV:
		rx_rndv(ep, hdr, msg);
		break;
	case PROTO_FIRST:
		rx_first(ep, hdr, msg);
		break;
	case PROTO_DONE:
		rdmamsg__rndv_done(ep, hdr);
		break;
	case PROTO_CREDIT:
		rx_credit(ep);
		break;
	case PROTO_PING:
		rx_ping(ep, hdr->tag);
		break;
	case PROTO_PONG:
		rx_pong(ep, hdr->number);
		break;
	case PROTO_CLOSE:
		if (!rdmamsg__pieces_broken(ep))
			rx_close(ep, hdr->tag);
		break;
	case PROTO_WRITTEN:
		if (!(ep->connect.features & PROTO_FEATURE_RMA))
			rdmamsg__ep_protocol(ep, "WRITTEN, which was not "
					     "agreed");
		else if (take_number(ep, hdr) && !rdmamsg__pieces_broken(ep))
			rx_written(ep, msg, hdr->tag);
		break;
	case PROTO_PATH:
		rdmamsg__failover_take(ep, msg->data, msg->len, hdr->tag);
		break;
	case PROTO_SETUP:
		rdmamsg__ctrl_setup(ep, msg->data, msg->len);
		break;
	case PROTO_AUTH:
		rdmamsg__ctrl_auth(ep, hdr, msg->data, msg->len);
		break;
	default:
		rdmamsg__ep_protocol(ep, "message type %u", hdr->type);
	}
}

/*
 * Returns true if the endpoint ends because its device has failed or gone. Then
 * messages that the device had received are still delivered, because the peer
 * has their acknowledgement.
 */
static bool came_before(const struct rdmamsg_ep *ep)
{
	return ep->state == EP_DRAINING && ep->connect.told &&
	       !ep->close.aborted &&
	       ep->close.reason.who == RDMAMSG_WHO_DEVICE;
}

/* DATA, INVALIDATE or MORE in full form. */
static void rx_full_data(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
			 struct rdmamsg_msg *msg, const struct ibv_wc *wc)
{
	if (!take_number(ep, hdr))
		return;
	msg->tag = hdr->tag;
	if (unlikely(hdr->type == PROTO_MORE)) {
		rx_more(ep, msg);
		return;
	}
	if (rdmamsg__pieces_broken(ep))
		return;
	if (unlikely(hdr->type == PROTO_INVALIDATE) && !take_window(ep, wc))
		return;
	rx_data(ep, msg);
}

static void rx_full(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		    const struct ibv_wc *wc)
{
	struct proto_hdr hdr;

	if (unlikely(wc->byte_len < PROTO_HDR_LEN)) {
		rdmamsg__ep_protocol(ep, "a message of %u bytes: a header has "
				     "%u", wc->byte_len, PROTO_HDR_LEN);
		return;
	}
	rdmamsg__hdr_decode(&hdr, msg->buf);
	if (ep->state >= EP_DRAINING && hdr.type != PROTO_DATA &&
	    hdr.type != PROTO_FIRST && hdr.type != PROTO_MORE) {
		ep->close.gap |= hdr.type == PROTO_RNDV ||
				 hdr.type == PROTO_WRITTEN ||
				 hdr.type == PROTO_INVALIDATE;
		return;
	}
	/* otherwise the program would believe that the window is bound */
	if (unlikely(wc->wc_flags & IBV_WC_WITH_INV &&
		     hdr.type != PROTO_INVALIDATE)) {
		rdmamsg__ep_protocol(ep, "message type %u has invalidated key "
				     "0x%x", hdr.type, wc->invalidated_rkey);
		return;
	}
	if (!take_credit(ep, hdr.credit, hdr.seen))
		return;
	msg->data = msg->buf + PROTO_HDR_LEN;
	msg->len = wc->byte_len - PROTO_HDR_LEN;
	if (likely(hdr.type == PROTO_DATA || hdr.type == PROTO_INVALIDATE ||
		   hdr.type == PROTO_MORE)) {
		rx_full_data(ep, &hdr, msg, wc);
		return;
	}
	/* an answer, or the next step of closing, may be due */
	if (hdr.type != PROTO_CREDIT && hdr.type != PROTO_WRITTEN &&
	    hdr.type != PROTO_FIRST)
		rdmamsg__ep_touch(ep);
	rx_control(ep, &hdr, msg);
	/*
	 * Refill now and not when the endpoint is settled: more polls may come
	 * before that. Each DONE lets another RNDV go, whose DONE needs a
	 * receive.
	 */
	if (rdmamsg__rq_posted(&ep->lane) + RX_LAZY < ep->lane.rq.target)
		rdmamsg__rx_refill(ep);
}

static void rx_compact(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		       const struct ibv_wc *wc)
{
	const uint32_t imm = le32toh((uint32_t)wc->imm_data);
	const struct credits *c = &ep->credit;

	if (unlikely(!ep->send.compact)) {
		rdmamsg__ep_protocol(ep, "immediate data, which was not agreed "
				     "or comes before SETUP");
		return;
	}
	if (unlikely((imm ^ ep->recv.next) & PROTO_NUMBER_MASK)) {
		ep->close.gap = true;
		rdmamsg__ep_protocol(ep, "message %u (modulo 16) where %u was "
				     "due", imm & PROTO_NUMBER_MASK,
				     ep->recv.next);
		return;
	}
	if (!take_credit(ep, c->limit + rdmamsg__grant_credits(imm),
			 (uint16_t)(c->seen + rdmamsg__grant_seen(imm))) ||
	    !take_next(ep))
		return;
	msg->data = msg->buf;
	msg->len = wc->byte_len;
	msg->tag = imm >> 16;
	if (unlikely(ep->pieces.left))
		rx_more(ep, msg);
	else
		rx_data(ep, msg);
}

/*
 * Returns false if the endpoint has ended and no longer takes messages. After a
 * skipped message, the sixteenth would have the number that is due.
 */
static bool takes(struct rdmamsg_ep *ep)
{
	if (likely(ep->state < EP_DRAINING ||
		   (came_before(ep) && !ep->close.gap)))
		return true;
	rdmamsg__ep_touch(ep);
	return false;
}

/* Handles each Send that does not take the fast path. */
static void __attribute__((noinline))
rx_other(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
	 const struct ibv_wc *wc)
{
	ep->st.msgs_received--;		/* counted again when delivered */
	if (!takes(ep))
		return;
	if (unlikely(wc->byte_len > ep->lane.recv_pool->buf_size))
		rdmamsg__ep_protocol(ep, "a message of %u bytes: at most %zu",
				     wc->byte_len,
				     ep->lane.recv_pool->buf_size);
	else if (wc->wc_flags & IBV_WC_WITH_IMM)
		rx_compact(ep, msg, wc);
	else
		rx_full(ep, msg, wc);
}

/*
 * A Write with immediate data has used a receive, but not its buffer. It is a
 * data message without a tag.
 */
void rdmamsg__rx_imm(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc)
{
	ep->st.msgs_received--;		/* not a message of the program */
	if (!takes(ep))
		return;
	if (!(ep->connect.features & PROTO_FEATURE_RMA) || !ep->send.compact)
		rdmamsg__ep_protocol(ep, "a write with immediate data, which "
				     "was not agreed");
	else if (take_next(ep) && !rdmamsg__pieces_broken(ep))
		rx_written(ep, msg, le32toh((uint32_t)wc->imm_data));
}

/*
 * The next receive has completed successfully. Fast path: a compact message
 * that grants nothing. In a state in which messages cannot be delivered at
 * once, recv.end is 0.
 */
static inline __attribute__((always_inline)) void
rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg, const struct ibv_wc *wc)
{
	const uint32_t imm = le32toh((uint32_t)wc->imm_data);

	if (unlikely(!(wc->wc_flags & IBV_WC_WITH_IMM) ||
		     (imm & PROTO_IMM_MASK) !=
		     (ep->recv.next & PROTO_NUMBER_MASK) ||
		     wc->byte_len >= ep->recv.end ||
		     ep->recv.next == ep->credit.announced)) {
		rx_other(ep, msg, wc);
		return;
	}
	ep->recv.next++;
	msg->tag = imm >> 16;
	msg->len = wc->byte_len;
	msg->data = msg->buf;
	deliver_in_place(ep, msg);
}

static inline void rx_take(struct rdmamsg_ep *ep, struct rx_slot *slot,
			   const struct ibv_wc *wc)
{
	struct rdmamsg_msg *msg = slot->msg;

	ep->lane.rq.head = (struct rx_slot *)slot->wr.next;
	rx_msg(ep, msg, wc);
}

void rdmamsg__rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc)
{
	rx_msg(ep, msg, wc);
}

/* Few receives are left. False: none was posted, the device is broken. */
static bool running_low(struct rdmamsg_ep *ep)
{
	if (ep->lane.rq.spare < -(int32_t)ep->lane.rq.low) {
		ep->lane.rq.spare++;
		return false;
	}
	/* refill later: one post for several receives, and credits can wait */
	if (!ep->dirty)
		rdmamsg__ep_touch(ep);
	return true;
}

static void __attribute__((noinline))
rx_take_low(struct rdmamsg_ep *ep, struct rx_slot *slot,
	    const struct ibv_wc *wc)
{
	if (running_low(ep))
		rx_take(ep, slot, wc);
}

static inline void rx_done(struct rdmamsg_ep *ep, struct rx_slot *slot,
			   const struct ibv_wc *wc)
{
	if (likely(--ep->lane.rq.spare >= 0))
		rx_take(ep, slot, wc);
	else
		rx_take_low(ep, slot, wc);
}

/* ---- completions ------------------------------------------------------ */

/* A wr_id that no receive has: an endpoint would need 2^31 receives. */
static struct rx_slot no_slot = { .wr.wr_id = UINT64_MAX };
struct rdmamsg_ep rdmamsg__nobody = { .lane.rq.head = &no_slot };

/* A receive has failed. Its buffer stays in the slot. */
static void rx_failed(struct rdmamsg_ep *ep)
{
	if (--ep->lane.rq.spare < 0 && !running_low(ep))
		return;
	ep->lane.rq.head = (struct rx_slot *)ep->lane.rq.head->wr.next;
	ep->st.msgs_received--;		/* not a message */
	rdmamsg__ep_touch(ep);
}

/* A Write with immediate data has used the next receive. */
static void written_imm(struct rdmamsg_ep *ep, const struct ibv_wc *wc)
{
	struct rx_slot *slot = ep->lane.rq.head;

	if (--ep->lane.rq.spare < 0 && !running_low(ep))
		return;
	ep->lane.rq.head = (struct rx_slot *)slot->wr.next;
	rdmamsg__rx_imm(ep, slot->msg, wc);
}

/*
 * Returns true if a Send has filled the receive. An RDMA Write with immediate
 * data also uses up a receive, but does not write its buffer, which may have a
 * message of another peer. Only the opcode differs.
 */
static inline bool is_send(const struct rdmamsg *ctx, const struct ibv_wc *wc)
{
	_Static_assert(offsetof(struct ibv_wc, opcode) -
		       offsetof(struct ibv_wc, status) ==
		       offsetof(struct wc_kind, opcode),
		       "both in one comparison");
	return !memcmp((const char *)wc + offsetof(struct ibv_wc, status),
		       &ctx->received, sizeof(ctx->received));
}

/* Handles completions other than receives of ctx->last. */
static void __attribute__((noinline))
other_done(struct rdmamsg *ctx, const struct ibv_wc *wc,
	   const struct ibv_wc *end)
{
	uint32_t key = (uint32_t)(wc->wr_id >> 32), seq = (uint32_t)wc->wr_id;
	struct rdmamsg_ep *ep =
		rdmamsg__handle_of(&ctx->sessions->table, key >> 8);

	if (unlikely(!ep || ep->key != key)) {
		if (key == SRQ_KEY)
			rdmamsg__srq_done(ctx, wc, end);
		else if (key == GROUP_KEY)
			ctx->group_done(ctx, wc);
		return;		/* the endpoint is gone */
	}
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		rdmamsg__ep_lost(ep, seq);
		rdmamsg__ep_wc_error(ep, wc);
	}
	if (!(seq & 0x80000000u)) {
		ep->st.completions++;
		rdmamsg__tx_done(ep, seq, wc->status == IBV_WC_SUCCESS ? 0 :
				 wc->status == IBV_WC_REM_ACCESS_ERR ? -EACCES :
				 -ECANCELED);
		return;
	}
	if (unlikely(wc->wr_id != ep->lane.rq.head->wr.wr_id))
		return;		/* not the next: a broken device */
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		rx_failed(ep);
		return;
	}
	if (unlikely(!is_send(ctx, wc))) {
		written_imm(ep, wc);
		return;
	}
	ctx->last = ep;
	rx_done(ep, ep->lane.rq.head, wc);
	/* prefetch for the next receive, which comes after some others */
	__builtin_prefetch(ep->lane.rq.head->msg, 1);
	__builtin_prefetch(ep->lane.rq.head + 1);
}

static inline __attribute__((always_inline)) void
dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n)
{
	const struct ibv_wc *end = wc + n;

	do {
		struct rdmamsg_ep *ep = ctx->last;
		struct rx_slot *slot = ep->lane.rq.head;

		if (likely(wc->wr_id == slot->wr.wr_id && is_send(ctx, wc)))
			rx_done(ep, slot, wc);
		else
			other_done(ctx, wc, end);
	} while (unlikely(++wc != end));
}

void rdmamsg__dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n)
{
	if (!n)
		return;
	ctx->loop.in_callback++;
	dispatch(ctx, wc, n);
	ctx->loop.in_callback--;
}

/* Not called inside another call, because hot.polls is 0 there. */
void rdmamsg_fast_completed(struct rdmamsg *ctx, int n)
{
	const int32_t inside = 1 << 30;

	/* completions take longer than empty polls: they count for more */
	ctx->hot.polls -= inside + 4 * n;
	ctx->loop.in_callback = 1;
	dispatch(ctx, ctx->hot.wc, n);
	ctx->loop.in_callback = 0;
	ctx->hot.polls += inside;
	rdmamsg__settle(ctx);
}
