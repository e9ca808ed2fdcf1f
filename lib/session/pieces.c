/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages in pieces. A message that is larger than a receive buffer, but so
 * small that registering memory costs more than copying it, is a run of data
 * messages. The sender copies it into buffers of its pool and posts all pieces
 * at once, if it has the credits; each piece is an operation of its own, and
 * the last piece has the cookie. The receiver copies each piece to its place
 * when the turn of the message has come, and posts the receive again.
 */
#include "base/base.h"
#include "base/crc32c.h"
#include "base/ctx.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/pool.h"
#include "session/crc.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/keep.h"
#include "session/pieces.h"
#include "session/resume.h"
#include "session/send.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

#define PIECE_LEAST	(PROTO_RECV_MIN - PROTO_HDR_LEN - PROTO_CRC_LEN)

void rdmamsg__pieces_agreed(struct rdmamsg_ep *ep)
{
	const struct proto_setup *peer = &ep->connect.peer;
	uint32_t wanted = ep->tuning.pieces_max;

	if (!wanted)
		wanted = rdmamsg__quirks(ep->lane.dev->device)->pieces_max;
	/* a lower eager_max asks for rendezvous */
	if (wanted == RDMAMSG_NONE || ep->send.copy_max < PIECE_LEAST)
		return;
	ep->send.pieces_max = min(wanted, min(peer->pieces, peer->max_msg));
}

/* ---- whether a message goes in pieces, and when ----------------------- */

bool rdmamsg__polls_for(const struct rdmamsg_ep *ep, size_t len)
{
	const struct lane *l = &ep->lane;
	uint32_t most;

	if (ep->ctx->loop.sleeps || ep->tuning.pieces_max || !l->dev)
		return false;
	most = rdmamsg__quirks(l->dev->device)->pieces_polling;
	/* over a network an answer takes long */
	return most && len > most && !(l->v->is_far && l->v->is_far(l->hot.qp));
}

/*
 * A run takes at most half of the credits and of the places in the send queue
 * that are left.
 */
static uint32_t room_of(const struct rdmamsg_ep *ep, size_t len)
{
	return 2 * (((uint32_t)len + PROTO_FIRST_LEN - 1) / ep->send.copy_max +
		    1);
}

static bool may_run(const struct rdmamsg_ep *ep, size_t len)
{
	return !ep->send.queued &&
	       rdmamsg__can_keep(ep, room_of(ep, len),
				 (uint32_t)len + PROTO_FIRST_LEN);
}

static bool fits(struct rdmamsg_ep *ep, size_t len)
{
	return may_run(ep, len) &&
	       rdmamsg__can_post_run(ep, room_of(ep, len));
}

/*
 * A message lacks credits or places for its pieces. While it is read in place
 * of that, all behind it waits in receive buffers, so it had better wait here.
 * Returns true if it will get them when what is on its way has been received.
 * A peer that lacks nothing may keep three quarters of its credits to itself:
 * half, until they are worth a message, and a quarter of the receives, to post
 * them together.
 */
static bool waits(const struct rdmamsg_ep *ep, size_t len)
{
	const uint32_t n = room_of(ep, len);

	return may_run(ep, len) && !ep->opts.send_queue &&
	       4 * n <= ep->connect.peer.recv_depth && n <= ep->lane.sq.data;
}

int rdmamsg__pieces_ready(struct rdmamsg_ep *ep, size_t len)
{
	int ret;

	if (fits(ep, len) || (rdmamsg__make_room(ep) && fits(ep, len)))
		return 1;
	if (!waits(ep, len))
		return 0;
	ret = rdmamsg__tx_check(ep);
	if (ret)
		return ret;
	ret = rdmamsg__tx_again(ep);
	ep->send.wants = (uint16_t)room_of(ep, len);
	return ret;
}

/* ---- sending ---------------------------------------------------------- */

/* A place in the segments of a message. */
struct cursor {
	const struct iovec *iov;
	size_t at;
};

static void copy(struct cursor *c, uint8_t *dst, size_t len)
{
	while (len) {
		size_t n = min(len, c->iov->iov_len - c->at);

		if (n)
			memcpy(dst, (const uint8_t *)c->iov->iov_base + c->at,
			       n);
		dst += n;
		len -= n;
		c->at += n;
		if (c->at == c->iov->iov_len) {
			c->iov++;
			c->at = 0;
		}
	}
}

static void unmake(struct rdmamsg_ep *ep, struct op *run)
{
	while (run) {
		struct op *op = run;

		run = op->next;
		if (op->msg)
			rdmamsg__pool_return(op->msg);
		rdmamsg__op_put(ep, op);
	}
}

/*
 * Copies the message into the pieces of a run: a list of operations, linked by
 * op->next. -EAGAIN: lacks an operation or a buffer.
 */
static int make(struct rdmamsg_ep *ep, const struct iovec *iov, int iovcnt,
		uint32_t len, struct op **ret)
{
	uint32_t head = PROTO_FIRST_LEN, index = 0, n;
	const uint32_t total = htole32(len);
	struct cursor from = { iov, 0 };
	struct op *run = NULL, **end = &run, *op = NULL;

	for (; len; len -= n - head, head = 0, index++) {
		op = rdmamsg__op_get(ep);
		n = min(len + head, ep->send.copy_max);
		if (op) {
			*end = op;
			end = &op->next;
			op->next = NULL;
			op->msg = rdmamsg__send_buffer(ep);
		}
		if (!op || !op->msg) {
			unmake(ep, run);
			return -EAGAIN;
		}
		op->piece = head ? PIECE_FIRST : PIECE_MORE;
		op->tag = index;
		op->len = n;
		if (head)
			memcpy(op->msg->data, &total, sizeof(total));
		copy(&from, op->msg->data + head, n - head);
	}
	if (unlikely(ep->send.crc))
		rdmamsg__crc_add(ep, op, rdmamsg__crc_of(iov, iovcnt));
	*ret = run;
	return 0;
}

static void launch(struct rdmamsg_ep *ep, struct op *op)
{
	ep->lane.hot.bytes_sent += op->len;
	if (unlikely(ep->resume))
		rdmamsg__keep_op(ep, op, op->piece == PIECE_FIRST ?
				 PROTO_FIRST : PROTO_MORE);
	if (op->piece == PIECE_FIRST) {
		ep->lane.hot.bytes_sent -= PROTO_FIRST_LEN;
		ep->st.sent_pieces++;
		rdmamsg__tx_message(ep, PROTO_FIRST,
				    rdmamsg__tx_next_number(ep), op->tag, op,
				    op->msg, NULL, op->len);
	} else if (ep->send.compact) {
		rdmamsg__tx_data(ep, op->tag, op, op->msg, NULL, op->len);
	} else {
		rdmamsg__tx_message(ep, PROTO_MORE,
				    rdmamsg__tx_next_number(ep), op->tag, op,
				    op->msg, NULL, op->len);
	}
}

int rdmamsg__pieces_send(struct rdmamsg_ep *ep, const struct iovec *iov,
			 int iovcnt, uint32_t len, uint32_t tag, void *cookie,
			 enum tell tell)
{
	struct op *op, *next;
	int ret = make(ep, iov, iovcnt, len, &op);
	bool idle;

	if (ret)
		return ret;
	ep->st.bytes_copied += len;
	op->tag = tag;
	idle = rdmamsg__tx_burst_begin(ep->ctx);
	for (; op; op = next) {
		next = op->next;
		op->kind = OP_EAGER;
		op->refs = 1;
		op->invalidate = false;
		if (!next) {
			op->cookie = cookie;
			op->tell = tell;
		}
		launch(ep, op);
	}
	rdmamsg__tx_burst_end(ep->ctx, idle);
	return 0;
}

/* ---- receiving -------------------------------------------------------- */

bool rdmamsg__pieces_broken(struct rdmamsg_ep *ep)
{
	if (likely(!ep->pieces.left))
		return false;
	rdmamsg__ep_protocol(ep, "another message after %u pieces of one, %u "
			     "bytes are missing", ep->pieces.index + 1,
			     ep->pieces.left);
	return true;
}

static uint32_t total_of(const struct rdmamsg_msg *first)
{
	uint32_t total;

	memcpy(&total, first->data - PROTO_FIRST_LEN, sizeof(total));
	return le32toh(total);
}

bool rdmamsg__pieces_first(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct pieces *p = &ep->pieces;
	uint32_t total;

	if (!p->max || msg->len <= PROTO_FIRST_LEN) {
		rdmamsg__ep_protocol(ep, p->max ? "a first piece without "
				     "payload" : "a message in pieces, which "
				     "was not agreed");
		return false;
	}
	msg->data += PROTO_FIRST_LEN;
	msg->len -= PROTO_FIRST_LEN;
	total = total_of(msg);
	if (total <= msg->len || total > p->max) {
		rdmamsg__ep_protocol(ep, "a message of %u bytes in pieces, the "
				     "first of %u, agreed were %u", total,
				     msg->len, p->max);
		return false;
	}
	p->left = total - msg->len;
	p->index = 0;
	rdmamsg__ep_ready(ep);	/* no fast path among pieces: recv.end = 0 */
	return true;
}

bool rdmamsg__pieces_more(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct pieces *p = &ep->pieces;

	if (!p->left || msg->tag != p->index + 1) {
		rdmamsg__ep_protocol(ep, "piece %u where %s%u was due",
				     msg->tag, p->left ? "" : "no piece, only ",
				     p->left ? p->index + 1 : 0);
		return false;
	}
	if (unlikely(ep->send.crc) && msg->len > p->left)
		rdmamsg__crc_strip(msg, p->left);
	else if (unlikely(ep->send.crc) && msg->len == p->left)
		msg->len = 0;		/* the last piece without its CRC */
	if (!msg->len || msg->len > p->left) {
		rdmamsg__ep_protocol(ep, "piece %u of %u bytes, %u are missing",
				     msg->tag, msg->len, p->left);
		return false;
	}
	p->index++;
	p->left -= msg->len;
	if (!p->left)
		rdmamsg__ep_ready(ep);
	return true;
}

bool rdmamsg__pieces_begin(struct rdmamsg_ep *ep,
			   const struct rdmamsg_msg *first)
{
	struct pieces *p = &ep->pieces;

	if (!rdmamsg__destination_get(ep, &p->dst, total_of(first)))
		return false;
	p->dst.msg->len = total_of(first);
	p->dst.msg->tag = first->tag;
	p->filled = 0;
	p->crc = 0;
	return true;
}

struct rdmamsg_msg *rdmamsg__pieces_add(struct rdmamsg_ep *ep,
					const struct rdmamsg_msg *piece)
{
	struct pieces *p = &ep->pieces;

	memcpy(p->dst.msg->data + p->filled, piece->data, piece->len);
	if (unlikely(ep->send.crc))
		p->crc = rdmamsg__crc32c(p->crc, p->dst.msg->data + p->filled,
					 piece->len);
	p->filled += piece->len;
	ep->st.bytes_copied += piece->len;
	if (p->filled < p->dst.msg->len)
		return NULL;
	if (unlikely(ep->send.crc) &&
	    rdmamsg__crc_differs(ep, p->dst.msg->len, p->crc,
				 rdmamsg__crc_get(piece->data + piece->len)))
		return NULL;
	ep->st.received_pieces++;
	return rdmamsg__destination_take(ep, &p->dst);
}
