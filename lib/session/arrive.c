/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that do not take the fast path: their form, credit and number are
 * checked, and then each type is handled.
 */
#include "base/util.h"
#include "memory/pool.h"
#include "session/close.h"
#include "session/crc.h"
#include "session/credit.h"
#include "session/ctrl.h"
#include "session/ep.h"
#include "session/failover.h"
#include "session/move.h"
#include "session/pieces.h"
#include "session/recv.h"
#include "session/resume.h"
#include "session/rndv.h"
#include "session/window.h"
#include "session/word.h"
#include "wire/flight.h"
#include "wire/proto.h"

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

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
	if (rdmamsg__keeps(ep))
		rdmamsg__lost_confirm(ep, ep->credit.limit -
				      ep->resume->keep.window);
	rdmamsg__tx_room(ep);
	if (unlikely(ep->send.want_writable || ep->send.queued || ep->ctrl.due))
		rdmamsg__ep_touch(ep);
	return true;
}

/* A data message has come. Its number must be within the credit. */
static bool take_next(struct rdmamsg_ep *ep)
{
	if (unlikely(ep->state < EP_OPEN || ep->close.seen || ep->carries)) {
		rdmamsg__ep_protocol(ep, "a data message %s", ep->close.seen ?
				     "after CLOSE" : ep->carries ?
				     "before RESUME" : "before SETUP");
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

/*
 * The message before the one that is due has come again. Linux 6.1 can repeat a
 * request under the number of the next one, which is lost then: req_retry() of
 * rxe_req.c reads the consumer index of the send queue, then comp.psn, and an
 * acknowledgement may come between the two. Without failover the connection
 * ends; with it only this lane does, and the peer sends again what is missing.
 * Returns true if so.
 */
static bool __attribute__((noinline)) leaves_lane(struct rdmamsg_ep *ep)
{
	if (!rdmamsg__resume_goes_on(ep))
		return false;
	ep->close.gap = true;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_DEVICE, RDMAMSG_CAUSE_TRANSPORT,
			   -EIO, "the device of the peer, or this one, has "
			   "repeated message %u in place of the next",
			   ep->recv.next - 1);
	rdmamsg__ep_kill(ep);
	return true;
}

/* The number in a header must be the next. */
static bool take_number(struct rdmamsg_ep *ep, const struct proto_hdr *hdr)
{
	if (likely(hdr->number == ep->recv.next))
		return take_next(ep);
	if (hdr->number != ep->recv.next - 1 || !leaves_lane(ep))
		rdmamsg__ep_protocol(ep, "message %u where %u was due",
				     hdr->number, ep->recv.next);
	return false;
}

/* Likewise of a compact message, which has the last bits of its number. */
static bool is_next(struct rdmamsg_ep *ep, uint32_t imm)
{
	const uint32_t number = imm & PROTO_NUMBER_MASK;

	if (likely(number == (ep->recv.next & PROTO_NUMBER_MASK)))
		return true;
	if (number == ((ep->recv.next - 1) & PROTO_NUMBER_MASK) &&
	    leaves_lane(ep))
		return false;
	ep->close.gap = true;
	rdmamsg__ep_protocol(ep, "message %u (modulo 16) where %u was due",
			     number, ep->recv.next);
	return false;
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

/* Checks and removes the CRC, and checks the length. */
static bool __attribute__((noinline))
check(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (ep->send.crc && !rdmamsg__crc_take(ep, msg))
		return false;
	if (msg->len <= ep->opts.max_msg_size)
		return true;
	rdmamsg__ep_protocol(ep, "a message of %u bytes, agreed were %u",
			     msg->len, ep->opts.max_msg_size);
	return false;
}

/* A message of the program, of either form, whose number is taken. */
static void rx_data(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (unlikely(msg->len >= ep->recv.plain_end) && !check(ep, msg))
		return;
	if (likely(!rdmamsg__rx_holds(ep) && ep->on.on_message)) {
		ep->st.msgs_received++;
		rdmamsg__deliver_in_place(ep, msg);
		return;
	}
	rdmamsg__rx_take_out(ep);
	if (!rdmamsg__rx_holds(ep))
		rdmamsg__deliver(ep, msg);
	else
		rdmamsg__rx_wait(ep, msg, PROTO_DATA);
}

/* A piece whose place in its run is checked. */
static void rx_piece(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     enum proto_type type)
{
	if (likely(!rdmamsg__rx_holds(ep)) &&
	    (type == PROTO_MORE || rdmamsg__pieces_begin(ep, msg))) {
		rdmamsg__deliver_piece(ep, msg);
		return;
	}
	rdmamsg__rx_take_out(ep);
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
	if (!rdmamsg__rx_holds(ep)) {
		rdmamsg__tell_written(ep, value);
		return;
	}
	msg->tag = value;
	rdmamsg__rx_take_out(ep);
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
	rdmamsg__rx_take_out(ep);
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
	if (unlikely(tag == PROTO_PING_MOVE))
		rdmamsg__move_asked(ep);
}

/* tag: the number that the peer expects next, if this side keeps messages. */
static void rx_pong(struct rdmamsg_ep *ep, uint32_t fetching, uint32_t tag)
{
	if (!ep->live.ping_out) {
		rdmamsg__ep_protocol(ep, "a PONG without a PING");
		return;
	}
	ep->live.ping_out = false;
	ep->live.fetches |= fetching != 0;
	if (rdmamsg__keeps(ep)) {
		rdmamsg__lost_confirm(ep, tag);
		rdmamsg__resume_answered(ep);
	}
}

static void rx_close(struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg,
		     uint32_t confirms)
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
	if (!rdmamsg__word_take(ep, msg))
		return;
	rdmamsg__record(ep->recorder, EVENT_CLOSE_TAKEN, confirms, 0);
	ep->close.confirmed = confirms;
	if (!ep->close.seen && ep->state == EP_OPEN)
		rdmamsg__ep_peer_closes(ep);
	ep->close.seen = true;
}

/* The word of the peer's program, which ends the session, not only a lane. */
static void rx_abort(struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg)
{
	if (!(ep->connect.features & PROTO_FEATURE_WORD) || ep->carries) {
		rdmamsg__ep_protocol(ep, "ABORT %s", ep->carries ?
				     "before RESUME" : "was not agreed");
		return;
	}
	if (!rdmamsg__word_take(ep, msg))
		return;
	ep->close.aborted_by_peer = true;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
			   -ECONNRESET, "aborted by the peer's program");
	rdmamsg__ep_kill(ep);
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
		rx_pong(ep, hdr->number, hdr->tag);
		break;
	case PROTO_CLOSE:
		if (!rdmamsg__pieces_broken(ep))
			rx_close(ep, msg, hdr->tag);
		break;
	case PROTO_ABORT:
		rx_abort(ep, msg);
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
	case PROTO_RESUME:
		rdmamsg__resume_take(ep, msg->data, msg->len);
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
	if (!is_next(ep, imm) ||
	    !take_credit(ep, c->limit + rdmamsg__grant_credits(imm),
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
 * Returns false if the endpoint has ended, or its lane, and no longer takes
 * messages. After a skipped message, the sixteenth would have the number that is
 * due.
 */
static bool takes(struct rdmamsg_ep *ep)
{
	if (likely((ep->state < EP_DRAINING || came_before(ep)) &&
		   !ep->close.gap))
		return true;
	rdmamsg__ep_touch(ep);
	return false;
}

void rdmamsg__rx_other(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
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
