/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control messages: CREDIT, DONE, PING, PONG, CLOSE, ABORT, SETUP, AUTH and the
 * keepalive.
 * They take no credit. A rule bounds the messages of each kind, and the peer
 * keeps receives for these bounds, so control messages always pass. Messages to
 * be sent are flags and not a queue, so a peer cannot make the queue grow.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/device.h"
#include "device/proof.h"
#include "lane/lanes.h"
#include "memory/stretch.h"
#include "session/door.h"
#include "session/credit.h"
#include "session/ctrl.h"
#include "session/ep.h"
#include "session/flow.h"
#include "session/lobby.h"
#include "session/recv.h"
#include "session/send.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "session/tx.h"
#include "session/word.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

/* A place in a crowded shared receive queue: for two seconds. */
#define LOOK_MS		10u
#define LOOKS_MAX	200u

static bool room(const struct rdmamsg_ep *ep)
{
	return rdmamsg__sq_used(&ep->lane) < ep->lane.sq.total &&
	       ep->state < EP_DRAINING;
}

static struct op *ctrl_op(struct rdmamsg_ep *ep, uint8_t type)
{
	struct op *op = rdmamsg__op_get(ep);

	if (op) {
		op->kind = OP_CTRL;
		op->ctrl = type;
	}
	return op;
}

/*
 * Only CLOSE needs an op. Without inline data each message needs an op and a
 * buffer.
 */
static bool send_header(struct rdmamsg_ep *ep, enum proto_type type,
			uint32_t number, uint32_t tag)
{
	struct op *op = NULL;

	if (!room(ep))
		return false;
	if (type == PROTO_CLOSE || !ep->send.can_inline) {
		op = ctrl_op(ep, (uint8_t)type);
		if (!op)
			return false;
	}
	if (op)
		op->tag = tag;
	if (!ep->send.can_inline) {
		op->msg = rdmamsg__ctrl_buffer(ep);
		if (!op->msg) {
			rdmamsg__op_put(ep, op);
			return false;
		}
	}
	rdmamsg__tx_message(ep, type, number, tag, op, op ? op->msg : NULL,
			    NULL, 0);
	return true;
}

/* DONEs that were lost with a lane. */
static bool send_again(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	for (; r->again_count; r->again_count--) {
		const struct again *a = &r->again[r->again_count - 1];

		if (!send_header(ep, PROTO_DONE, a->number, a->how))
			return false;
	}
	return true;
}

static bool send_dones(struct rdmamsg_ep *ep)
{
	struct list *n;

	if (unlikely(ep->resume) && !send_again(ep))
		return false;

	list_for_each(n, &ep->rndv.fetching) {
		struct rndv_in *in = list_entry(n, struct rndv_in, node);

		if (!in->done_due)
			continue;
		if (!send_header(ep, PROTO_DONE, in->number, in->done))
			return false;
		in->done_due = false;
		ep->rndv.fetch_count--;
	}
	return true;
}

/*
 * Announces the largest message that the context can hold beside its receives.
 * With on_incoming the program can supply memory, so announces max_msg_size.
 */
static void set_max_msg(struct rdmamsg_ep *ep)
{
	uint32_t most = ep->opts.max_msg_size;

	if (ep->rndv.announced_max)
		return;
	ep->rndv.holds_max =
		max(rdmamsg__budget_largest(ep->ctx, most), ep->recv.max);
	rdmamsg__budget_announce(ep->ctx, ep->rndv.holds_max);
	ep->rndv.announced_max = ep->on.on_incoming ? most : ep->rndv.holds_max;
	if (ep->rndv.holds_max < most)
		ep_info(ep, "max_registered has room for messages of %u "
			"bytes, max_msg_size is %u", ep->rndv.holds_max, most);
}

void rdmamsg__max_msg_forget(struct rdmamsg_ep *ep)
{
	uint32_t size = ep->rndv.holds_max;
	struct list *n;

	if (!ep->rndv.announced_max)
		return;
	ep->rndv.announced_max = ep->rndv.holds_max = 0;
	if (!rdmamsg__budget_withdraw(ep->ctx, size))
		return;
	list_for_each(n, &ep->ctx->sessions->eps) {
		const struct rdmamsg_ep *other =
			list_entry(n, struct rdmamsg_ep, node);

		if (other->rndv.announced_max)
			rdmamsg__budget_announce(ep->ctx,
						 other->rndv.holds_max);
	}
}

static void drop_body(struct rdmamsg_ep *ep, struct op *op, int err,
		      const char *name)
{
	if (op->msg)
		rdmamsg__msg_put(op->msg);
	op->msg = NULL;
	rdmamsg__op_put(ep, op);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_RESOURCES, err,
			   "cannot send %s: %s", name, rdmamsg__text());
	rdmamsg__ep_kill(ep);
}

/* Returns an operation with a buffer. NULL: later, or the endpoint ends. */
static struct op *body_op(struct rdmamsg_ep *ep, enum proto_type type,
			  const char *name)
{
	struct op *op = room(ep) ? ctrl_op(ep, (uint8_t)type) : NULL;

	if (!op)
		return NULL;
	op->msg = rdmamsg__ctrl_buffer(ep);
	if (op->msg)
		return op;
	drop_body(ep, op, -ENOMEM, name);
	return NULL;
}

/*
 * SETUP and AUTH use requests of the reserve, because on_connected may come
 * before their completions. Then the program still has all of send_depth.
 */
static void send_body(struct rdmamsg_ep *ep, struct op *op, uint32_t tag,
		      size_t len)
{
	ep->lane.sq.data++;
	rdmamsg__tx_message(ep, op->ctrl, 0, tag, op, op->msg, NULL,
			    (uint32_t)len);
}

static void offer_proof(const struct rdmamsg_ep *ep, struct proto_proof *ret)
{
	uint64_t addr;

	if (!ep->lane.came)
		return;
	addr = (uintptr_t)ep->lane.dev->proof->served->addr;
	*ret = (struct proto_proof){
		.low = (uint32_t)addr, .high = (uint32_t)(addr >> 32),
		.rkey = ep->lane.dev->proof->served->rkey,
	};
}

static bool send_setup(struct rdmamsg_ep *ep)
{
	struct proto_setup s = {
		.recv_size = (uint32_t)ep->lane.recv_pool->buf_size,
		.recv_depth = rdmamsg__granted(ep),
		.dead_after_ms = rdmamsg__dead_after(ep),
	};
	struct op *op = body_op(ep, PROTO_SETUP, "SETUP");
	struct proto_addresses addresses = { .count = 0 };
	size_t len;
	int err;

	if (!op)
		return false;
	err = rdmamsg__try(rdmamsg__auth_begin(ep, &s));
	if (err) {
		drop_body(ep, op, err, "SETUP");
		return false;
	}
	if (!ep->connect.refused) {
		set_max_msg(ep);
		s.data = ep->connect.setup_data;
		s.data_len = (uint32_t)ep->opts.setup_data_len;
	}
	s.max_msg = ep->connect.refused ? 1 : ep->rndv.announced_max;
	s.refused = ep->connect.refused;
	ep->pieces.max = (ep->carries ? ep->carries : ep)->on.on_incoming ||
			 ep->tuning.pieces_max == RDMAMSG_NONE ? 0 :
			 min(s.max_msg, PROTO_PIECES_MAX);
	s.pieces = ep->pieces.max;
	s.limit = ep->connect.refused ? ep->connect.limit : PROTO_LIMIT_NONE;
	memcpy(s.session, ep->connect.session, sizeof(s.session));
	if (!ep->connect.refused) {
		offer_proof(ep, &s.proof);
		rdmamsg__failover_setup(ep, &s.path);
		rdmamsg__resume_setup(ep, &s.resume);
		rdmamsg__announce(ep, &addresses);
	}
	ep->connect.setup_sent = true;
	len = rdmamsg__setup_encode(&s, op->msg->data);
	len = rdmamsg__setup_add_addresses(op->msg->data, len, &addresses);
	send_body(ep, op, PROTO_REJECT_NONE, len);
	return true;
}

/* A refusal has no body. */
static bool send_auth(struct rdmamsg_ep *ep)
{
	struct op *op = body_op(ep, PROTO_AUTH, "AUTH");
	struct proto_auth a;
	size_t len = 0;
	int err = 0;

	if (!op)
		return false;
	if (!ep->connect.refused) {
		err = rdmamsg__try(rdmamsg__auth_prove(ep, &a));
		len = rdmamsg__auth_encode(&a, op->msg->data);
	}
	if (err) {
		drop_body(ep, op, err, "AUTH");
		return false;
	}
	ep->connect.auth->sent = true;
	send_body(ep, op, ep->connect.refused, len);
	return true;
}

/* A PATH is answered like a PING, so it counts as one. */
static bool send_path(struct rdmamsg_ep *ep)
{
	struct op *op = room(ep) ? ctrl_op(ep, PROTO_PATH) : NULL;

	if (!op)
		return false;
	op->msg = rdmamsg__ctrl_buffer(ep);
	if (!op->msg) {
		rdmamsg__op_put(ep, op);
		return false;
	}
	rdmamsg__failover_say(ep, op->msg->data);
	rdmamsg__tx_message(ep, PROTO_PATH, 0, 0, op, op->msg, NULL,
			    PROTO_PATH_LEN);
	rdmamsg__live_asked(ep);
	return true;
}

static void pump_path(struct rdmamsg_ep *ep)
{
	ep->ctrl.due &= ~CTRL_PATH;
	rdmamsg__failover_pump(ep);
	if (!rdmamsg__failover_unsaid(ep))
		return;
	if (ep->live.ping_out || !send_path(ep))
		ep->ctrl.due |= CTRL_PATH;
}

static bool send_keepalive(struct rdmamsg_ep *ep)
{
	struct op *op = room(ep) ? ctrl_op(ep, 0) : NULL;

	if (!op)
		return false;
	ep->live.keepalive_out = true;
	ep->st.keepalives++;
	rdmamsg__tx_empty(ep, op);
	return true;
}

static void send_credit(struct rdmamsg_ep *ep)
{
	if (rdmamsg__granted(ep) == rdmamsg__announced(ep)) {
		ep->ctrl.due &= ~CTRL_CREDIT;	/* another header had it */
		return;
	}
	/* CREDIT_MAX are unseen: send when a header of the peer confirms one */
	if ((uint16_t)(ep->credit.messages - ep->credit.seen) >= CREDIT_MAX)
		return;
	if (send_header(ep, PROTO_CREDIT, 0, 0)) {
		ep->credit.messages++;
		ep->st.credit_msgs++;
		ep->ctrl.due &= ~CTRL_CREDIT;
	}
}

/*
 * A lane that is lost may end the endpoint once our confirming CLOSE has
 * arrived. Where its completion does not tell that, a proof follows it.
 */
static bool wants_close_proof(const struct rdmamsg_ep *ep)
{
	return ep->lane.came && rdmamsg__keeps(ep) && ep->close.seen;
}

/* CLOSE or ABORT with the word of this side. */
static bool send_word(struct rdmamsg_ep *ep, enum proto_type type, uint32_t tag)
{
	struct op *op = room(ep) ? ctrl_op(ep, (uint8_t)type) : NULL;

	if (!op)
		return false;
	op->tag = tag;
	op->msg = rdmamsg__ctrl_buffer(ep);
	if (!op->msg) {
		rdmamsg__op_put(ep, op);
		return false;
	}
	rdmamsg__tx_message(ep, type, 0, tag, op, op->msg, NULL, (uint32_t)
			    rdmamsg__word_write(ep, op->msg->data));
	return true;
}

/* Returns the operation of a proof behind a message, or NULL: no room. */
static struct op *proof_op(struct rdmamsg_ep *ep, enum proto_type type)
{
	struct op *op;

	if (rdmamsg__sq_used(&ep->lane) + 2 > ep->lane.sq.total ||
	    !ep->reads.free)
		return NULL;
	op = ctrl_op(ep, (uint8_t)type);
	if (op)
		op->tag = CLOSE_PROOF;
	return op;
}

static void send_proof(struct rdmamsg_ep *ep, struct op *proof)
{
	ep->reads.free--;
	rdmamsg__tx_proof(ep, proof);
}

/*
 * After the second CLOSE the end is agreed, and the peer keeps no receive for
 * one more message.
 */
bool rdmamsg__ctrl_abort(struct rdmamsg_ep *ep)
{
	struct op *proof = NULL;

	if (!rdmamsg__word_due(ep) || ep->close.asserted ||
	    rdmamsg__lane_lost(ep) || ep->close.disconnected)
		return false;
	if (ep->lane.came) {
		proof = proof_op(ep, PROTO_ABORT);
		if (!proof)
			return false;
	}
	ep->close.proving = proof != NULL;
	if (!send_word(ep, PROTO_ABORT, 0)) {
		if (proof)
			rdmamsg__op_put(ep, proof);
		return false;
	}
	if (proof)
		send_proof(ep, proof);
	return true;
}

/* If the peer's CLOSE has arrived, our CLOSE confirms it. */
static bool send_close(struct rdmamsg_ep *ep)
{
	uint32_t seq = (uint32_t)ep->lane.hot.sq_posted;
	struct op *proof = NULL;

	if (wants_close_proof(ep)) {
		proof = proof_op(ep, PROTO_CLOSE);
		if (!proof)
			return false;
	}
	ep->close.proving = proof != NULL;
	if (!(rdmamsg__word_due(ep) ?
	      send_word(ep, PROTO_CLOSE, ep->close.seen) :
	      send_header(ep, PROTO_CLOSE, 0, ep->close.seen))) {
		if (proof)
			rdmamsg__op_put(ep, proof);
		return false;
	}
	if (proof)
		send_proof(ep, proof);
	if (!ep->close.sent)
		ep->close.seq = seq;
	ep->close.once = !ep->close.sent && ep->close.seen;
	ep->close.sent = true;
	ep->close.rx = (uint32_t)rdmamsg__rx_count(&ep->lane);
	ep->close.asserted = ep->close.seen;
	/* completions do not tell what the peer has: its CLOSE does */
	ep->close.lost |= ep->lane.came != NULL;
	rdmamsg__record(ep->recorder, EVENT_CLOSE_SENT, ep->close.seen, 0);
	return true;
}

static uint32_t ping_asks(const struct rdmamsg_ep *ep)
{
	return rdmamsg__keeps(ep) && ep->resume->ask_move ? PROTO_PING_MOVE : 0;
}

static void send_ping(struct rdmamsg_ep *ep)
{
	if (!send_header(ep, PROTO_PING, 0, ping_asks(ep)))
		return;
	ep->ctrl.due &= ~CTRL_PING;
	if (rdmamsg__keeps(ep))
		ep->resume->ask_move = false;
	rdmamsg__live_asked(ep);
	ep->st.pings++;
}

void rdmamsg__ctrl_pump(struct rdmamsg_ep *ep)
{
	if (!ep->ctrl.due)
		return;
	if (ep->ctrl.due & CTRL_CANCELED)
		rdmamsg__flow_canceled(ep);
	if (ep->ctrl.due & CTRL_SETUP && send_setup(ep))
		ep->ctrl.due &= ~CTRL_SETUP;
	if (ep->ctrl.due & CTRL_AUTH && send_auth(ep))
		ep->ctrl.due &= ~CTRL_AUTH;
	if (ep->ctrl.due & CTRL_DONE && send_dones(ep))
		ep->ctrl.due &= ~CTRL_DONE;
	if (ep->ctrl.due & CTRL_PONG &&
	    send_header(ep, PROTO_PONG, ep->rndv.fetch_count,
			rdmamsg__keeps(ep) ? ep->recv.next : ep->ctrl.ping_tag))
		ep->ctrl.due &= ~CTRL_PONG;
	if (ep->ctrl.due & CTRL_PATH)
		pump_path(ep);
	if (ep->ctrl.due & CTRL_PING && !ep->live.ping_out)
		send_ping(ep);
	if (ep->ctrl.due & CTRL_CREDIT)
		send_credit(ep);
	if (ep->ctrl.due & CTRL_KEEPALIVE && send_keepalive(ep))
		ep->ctrl.due &= ~CTRL_KEEPALIVE;
	if (ep->ctrl.due & CTRL_CLOSE && send_close(ep))
		ep->ctrl.due &= ~CTRL_CLOSE;
}

/* The peer cannot prove that it has this side's key. */
static void unproven(struct rdmamsg_ep *ep)
{
	rdmamsg__ep_offended(ep);
	rdmamsg__door_unproven(ep->connect.visitor.door);
}

/*
 * The two sides do not have the same key. Our last message tells why this side
 * refuses the peer. The peer keeps the resources of a stranger.
 */
static void refuse(struct rdmamsg_ep *ep, enum proto_reject code)
{
	if (ep->connect.auth)
		unproven(ep);
	rdmamsg__ep_refuses(ep, code);
	ep->connect.refused = code;
	ep->ctrl.due |= ep->connect.passive ? CTRL_SETUP : CTRL_AUTH;
}

/* Returns true if the endpoint waits in the lobby and tries again soon. */
static bool waits_for_place(struct rdmamsg_ep *ep)
{
	if (!rdmamsg__srq_is_crowded(ep) || ep->connect.crowded == LOOKS_MAX ||
	    rdmamsg__now_ms() >= ep->deadline)
		return false;
	ep->connect.crowded++;
	rdmamsg__timer_set(&ep->ctx->loop.timers, &ep->timer, LOOK_MS);
	return true;
}

/* The context has been shut down meanwhile: our SETUP is the last message. */
static void turn_away(struct rdmamsg_ep *ep)
{
	rdmamsg__door_refused(ep->connect.visitor.door, PROTO_LIMIT_DRAINING);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
			   -ECANCELED, "shut down before it was connected");
	ep->connect.limit = PROTO_LIMIT_DRAINING;
	ep->connect.refused = PROTO_REJECT_LIMIT;
	ep->ctrl.due |= CTRL_SETUP;
}

/*
 * The initiator's SETUP has come, and its proof, if one is needed: posts the
 * receives of the endpoint, and sends our SETUP. If there is no memory for
 * receives, our SETUP refuses the peer and is the last message.
 */
void rdmamsg__ctrl_let_in(struct rdmamsg_ep *ep)
{
	int err;

	if (unlikely(ep->ctx->shutdown.begun) && !ep->connect.carrier) {
		turn_away(ep);
		return;
	}
	if (waits_for_place(ep))
		return;
	ep->connect.crowded = 0;
	rdmamsg__ep_timeout(ep);
	err = rdmamsg__try(rdmamsg__lobby_leave(ep));
	ep->ctrl.due |= CTRL_SETUP;
	if (!err) {
		rdmamsg__visitor_move(&ep->connect.visitor, DOOR_OPEN);
		return;
	}
	rdmamsg__door_refused(ep->connect.visitor.door, PROTO_LIMIT_MEMORY);
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_RESOURCES, err,
			   "no receives for another peer: %s", rdmamsg__text());
	ep->connect.refused =
		ep->connect.limit ? PROTO_REJECT_LIMIT : PROTO_REJECT_RESOURCES;
}

/* The responder has the initiator's SETUP: the next step depends on the key. */
static void meet(struct rdmamsg_ep *ep, const struct proto_setup *s)
{
	enum proto_reject code = rdmamsg__auth_meet(ep, s);

	if (code)
		refuse(ep, code);
	else if (!ep->connect.auth)
		rdmamsg__ctrl_let_in(ep);
	else {
		ep->ctrl.due |= CTRL_AUTH;
		rdmamsg__rx_refill(ep);		/* for the peer's AUTH */
	}
}

/* Handles the peer's AUTH. */
void rdmamsg__ctrl_auth(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
			const void *buf, size_t len)
{
	int err;

	if (!rdmamsg__auth_is_due(ep)) {
		rdmamsg__ep_protocol(ep, "AUTH out of turn");
		return;
	}
	ep->connect.auth->seen = true;
	if (hdr->tag) {
		unproven(ep);
		rdmamsg__ep_refused(ep, hdr->tag, PROTO_LIMIT_NONE);
		rdmamsg__ep_kill(ep);
		return;
	}
	err = rdmamsg__try(rdmamsg__auth_check(ep, buf, len));
	if (err == -EPROTO) {
		rdmamsg__ep_protocol(ep, "a broken AUTH");
		return;
	}
	if (err == -EACCES) {
		refuse(ep, PROTO_REJECT_PROOF);
	} else if (err) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
				   RDMAMSG_CAUSE_RESOURCES, err,
				   "cannot check AUTH: %s", rdmamsg__text());
		rdmamsg__ep_kill(ep);
	} else if (ep->connect.passive) {
		rdmamsg__ctrl_let_in(ep);
	} else {
		ep->ctrl.due |= CTRL_AUTH;
		rdmamsg__rx_refill(ep);		/* for the peer's SETUP */
	}
	rdmamsg__ep_touch(ep);
}

/*
 * Returns true if RDMAMSG_EP_RETRY waits for the successor of a context that was
 * shut down after it had accepted this side. Without a host the program has
 * carried the record, for one try only.
 */
static bool waits_for_successor(const struct rdmamsg_ep *ep,
				const struct proto_setup *s)
{
	return s->refused == PROTO_REJECT_LIMIT &&
	       s->limit == PROTO_LIMIT_DRAINING && ep->connect.host &&
	       ep->opts.flags & RDMAMSG_EP_RETRY;
}

/* Handles the peer's SETUP. The accepting side answers with its own SETUP. */
void rdmamsg__ctrl_setup(struct rdmamsg_ep *ep, const void *buf, size_t len)
{
	struct proto_setup s;
	uint32_t around;		/* bytes of a message beside payload */

	if (ep->connect.passive && ep->state == EP_REQUESTED) {
		/* SETUP has overtaken ESTABLISHED of the CM, and implies it */
		ep->connect.established = true;
		rdmamsg__ep_enter(ep, EP_SETUP);
	}
	if (ep->connect.setup_seen ||
	    (!ep->connect.passive && !ep->connect.setup_sent)) {
		rdmamsg__ep_protocol(ep, "SETUP out of turn");
		return;
	}
	if (rdmamsg__setup_decode(&s, buf, len)) {
		rdmamsg__ep_protocol(ep, "a broken SETUP");
		return;
	}
	if ((!ep->connect.passive || ep->connect.by->knows_session ||
	     ep->carries) &&
	    memcmp(s.session, ep->connect.session, sizeof(s.session))) {
		rdmamsg__ep_protocol(ep, "SETUP for another session");
		return;
	}
	if (s.refused) {
		rdmamsg__ep_refused(ep, s.refused, s.limit);
		ep->connect.redials = waits_for_successor(ep, &s);
		rdmamsg__ep_kill(ep);
		return;
	}
	if (!ep->connect.passive && rdmamsg__auth_wants_proof(ep)) {
		rdmamsg__ep_refuses(ep, PROTO_REJECT_UNKEYED);
		rdmamsg__ep_kill(ep);
		return;
	}
	if (s.data_len) {
		ep->connect.peer_data = malloc(s.data_len);
		if (!ep->connect.peer_data) {
			rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL,
					   RDMAMSG_CAUSE_RESOURCES, -ENOMEM,
					   "no memory for the peer's data");
			rdmamsg__ep_kill(ep);
			return;
		}
		memcpy(ep->connect.peer_data, s.data, s.data_len);
		ep->connect.peer_data_len = s.data_len;
	}
	ep->connect.peer = s;
	ep->connect.peer.data = NULL;
	rdmamsg__targets_hear(ep, buf, len);
	rdmamsg__failover_begin(ep, &s.path);
	if (ep->connect.passive)
		memcpy(ep->connect.session, s.session,
		       sizeof(ep->connect.session));
	ep->send.crc = ep->connect.features & PROTO_FEATURE_CRC;
	around = PROTO_HDR_LEN + (ep->send.crc ? PROTO_CRC_LEN : 0);
	ep->send.copy_max =
		min(min(ep->tuning.eager_max, s.recv_size - around),
		    min((uint32_t)ep->send.pool->buf_size, ep->lane.chunk) -
			    around);
	ep->send.inline_max = min(min(ep->send.inline_max,
				      TX_STAGE + PROTO_HDR_LEN - around),
				 min(ep->send.copy_max, s.max_msg));
	ep->send.inline_max = min(ep->send.inline_max, ep->tuning.max_copy);
	ep->send.compact = ep->connect.features & PROTO_FEATURE_IMM;
	rdmamsg__pieces_agreed(ep);
	ep->connect.setup_seen = true;
	if (ep->connect.passive)
		meet(ep, &s);
	else
		/* now: data may follow in the same batch of completions */
		rdmamsg__ep_connected(ep);
	rdmamsg__ep_touch(ep);
}
