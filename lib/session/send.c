/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: accepted messages are posted at once or wait in send.queue.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/probe.h"
#include "base/util.h"
#include "device/device.h"
#include "lane/srq.h"
#include "session/tx.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/pieces.h"
#include "session/rma.h"
#include "session/sessions.h"
#include "session/srq_share.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

static bool can_post(const struct rdmamsg_ep *ep)
{
	return rdmamsg__has_credit(ep) &&
	       rdmamsg__sq_used(&ep->lane) < ep->lane.sq.data;
}

/* Counts a refused send, and remembers to call on_writable. */
int rdmamsg__tx_again(struct rdmamsg_ep *ep)
{
	ep->st.sends_refused++;
	ep->st.credit_stalls += !rdmamsg__has_credit(ep);
	if (!ep->send.want_writable)
		probe(refused, ep, ep->credit.limit - rdmamsg__tx_number(ep));
	ep->send.want_writable = true;
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

int rdmamsg__tx_check(const struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__ep_check(ep);

	if (unlikely(ret))
		return ret;
	if (likely(ep->state == EP_OPEN))
		return 0;
	if (ep->state < EP_OPEN || ep->state == EP_BACKOFF)
		return rdmamsg__fail(-ENOTCONN, "not connected yet: wait for "
				     "on_connected");
	return rdmamsg__fail(-ESHUTDOWN, "the endpoint is closing or closed: "
			     "%s", rdmamsg_ep_reason(ep)->text);
}

/* Returns 1 if a message can be posted now, 0 if queued, or -errno. */
static int admit(struct rdmamsg_ep *ep, size_t len, bool rndv)
{
	int ret = rdmamsg__tx_check(ep);

	if (unlikely(ret))
		return ret;
	if (unlikely(len > ep->connect.peer.max_msg))
		return rdmamsg__fail(-EMSGSIZE, "a message of %zu bytes: the "
				     "peer takes at most %u (its max_msg_size)",
				     len, ep->connect.peer.max_msg);
	if (likely(!ep->send.queued && can_post(ep) &&
		   (!rndv || rdmamsg__rndv_room(ep))))
		return 1;
	if (ep->send.queued < ep->opts.send_queue)
		return 0;
	return rdmamsg__tx_again(ep);
}

/* Posts an accepted operation whose turn has come. */
static void launch(struct rdmamsg_ep *ep, struct op *op)
{
	ep->lane.hot.bytes_sent += op->len;
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

static void accept_op(struct rdmamsg_ep *ep, struct op *op, bool now)
{
	if (now) {
		launch(ep, op);
		return;
	}
	rdmamsg__tx_queue(ep, op);
}

/*
 * Takes a buffer, and grows the pool if there is none. Pools grow only up to
 * the needs of the send queues. If the program repeats its call, waits is NULL.
 */
static struct rdmamsg_msg *take(struct rdmamsg_ep *ep, struct pool *pool,
				bool *waits)
{
	struct rdmamsg_msg *msg = rdmamsg__pool_take(pool);

	if (likely(msg))
		return msg;
	ep->send.lack = rdmamsg__try(
		rdmamsg__pool_grow(pool, rdmamsg__pool_room(pool, 32), waits));
	return ep->send.lack ? NULL : rdmamsg__pool_take(pool);
}

struct rdmamsg_msg *rdmamsg__send_buffer(struct rdmamsg_ep *ep)
{
	return take(ep, ep->send.pool, NULL);
}

/* Returns NULL if there is no buffer. The control message then waits. */
struct rdmamsg_msg *rdmamsg__ctrl_buffer(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg = take(ep, ep->ctrl.pool, &ep->ctrl.lacks);

	ep->ctrl.lacks = !msg;
	return msg;
}

/* A send of the program. */
struct ask {
	const struct iovec *iov;
	int iovcnt;
	uint32_t len;
	uint32_t tag;
	void *cookie;
	bool waiter;		/* the cookie is a struct rdmamsg_waiter */
	bool now;		/* need not be queued */
	bool invalidate;	/* the window with rkey, of 'region' */
	uint32_t rkey;
	uint64_t region;
};

static void fill_op(struct op *op, enum op_kind kind, const struct ask *a)
{
	op->kind = kind;
	op->refs = 2;
	op->len = a->len;
	op->tag = a->tag;
	op->cookie = a->cookie;
	op->waiter = a->waiter;
	op->invalidate = a->invalidate;
	op->rkey = a->rkey;
	if (unlikely(a->invalidate))
		op->region = a->region;
}

static void gather(uint8_t *dst, const struct ask *a)
{
	for (int i = 0; i < a->iovcnt; i++) {
		if (!a->iov[i].iov_len)
			continue;
		memcpy(dst, a->iov[i].iov_base, a->iov[i].iov_len);
		dst += a->iov[i].iov_len;
	}
}

static int send_inline(struct rdmamsg_ep *ep, const struct ask *a)
{
	uint8_t flat[TX_STAGE];
	const void *data = a->iov->iov_base;
	struct op *op = NULL;

	if (a->cookie) {
		op = rdmamsg__op_get(ep);
		if (unlikely(!op))
			return rdmamsg__tx_again(ep);
		fill_op(op, OP_EAGER, a);
	}
	if (a->iovcnt > 1) {
		gather(flat, a);
		data = flat;
	}
	ep->st.sent_inline++;
	ep->lane.hot.bytes_sent += a->len;
	rdmamsg__tx_data(ep, a->tag, op, NULL, data, a->len);
	return 0;
}

static int send_copy(struct rdmamsg_ep *ep, const struct ask *a)
{
	struct op *op = rdmamsg__op_get(ep);

	if (unlikely(!op))
		return rdmamsg__tx_again(ep);
	op->msg = rdmamsg__send_buffer(ep);
	if (unlikely(!op->msg)) {
		rdmamsg__op_put(ep, op);
		return rdmamsg__no_buffer(ep);
	}
	gather(op->msg->data, a);
	ep->st.bytes_copied += a->len;
	fill_op(op, OP_EAGER, a);
	accept_op(ep, op, a->now);
	return 0;
}

static void launch_piece(struct rdmamsg_ep *ep, struct op *op)
{
	ep->lane.hot.bytes_sent += op->len;
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

/*
 * Returns true if a message can be posted in pieces now, all of them at once,
 * with at most half of the credits and of the send queue that are left.
 * Otherwise it is announced: it then takes one credit and one place in the send
 * queue, and nothing is copied.
 */
static inline bool fits_in_pieces(const struct rdmamsg_ep *ep, size_t len)
{
	uint32_t n;

	if (len <= ep->send.copy_max || likely(len > ep->send.pieces_max))
		return false;
	n = 2 * rdmamsg__pieces_count(ep, (uint32_t)len);
	return !ep->send.queued &&
	       (int32_t)(ep->credit.limit - rdmamsg__tx_number(ep) - n) >= 0 &&
	       ep->lane.sq.data - rdmamsg__sq_used(&ep->lane) >= n;
}

/* -EAGAIN: lacks an operation or a buffer, and nothing was accepted. */
static int send_pieces(struct rdmamsg_ep *ep, const struct ask *a)
{
	struct op *op, *next;
	int ret = rdmamsg__pieces_make(ep, a->iov, a->len, &op);
	bool idle;

	if (ret)
		return ret;
	ep->st.bytes_copied += a->len;
	op->tag = a->tag;
	idle = rdmamsg__tx_burst_begin(ep->ctx);
	for (; op; op = next) {
		next = op->next;
		op->kind = OP_EAGER;
		op->refs = 1;
		op->invalidate = false;
		if (!next) {
			op->cookie = a->cookie;
			op->waiter = a->waiter;
		}
		launch_piece(ep, op);
	}
	rdmamsg__tx_burst_end(ep->ctx, idle);
	return 0;
}

/* On success the operation owns 'payload', unless NULL. */
static int send_rndv(struct rdmamsg_ep *ep, const struct ask *a,
		     struct rdmamsg_msg *payload)
{
	struct op *op = rdmamsg__op_get(ep);
	int ret;

	if (!op)
		return rdmamsg__tx_again(ep);
	/* buffer for the announcement */
	op->msg = take(ep, ep->ctrl.pool, NULL);
	if (!op->msg) {
		rdmamsg__op_put(ep, op);
		return rdmamsg__no_buffer(ep);
	}
	ret = rdmamsg__rndv_prepare(ep, a->iov, a->iovcnt, a->len, payload,
				    &op->rndv);
	if (ret) {
		rdmamsg__msg_put(op->msg);
		rdmamsg__op_put(ep, op);
		return ret;
	}
	fill_op(op, OP_RNDV, a);
	accept_op(ep, op, a->now);
	return 0;
}

static int send_large_copy(struct rdmamsg_ep *ep, struct ask *a)
{
	struct rdmamsg_msg *msg = take(ep, ep->ctrl.pool, NULL);
	struct iovec iov;
	int ret;

	/* first for the announcement: the message may take the last memory */
	if (!msg)
		return rdmamsg__no_buffer(ep);
	rdmamsg__pool_return(msg);
	ret = rdmamsg__try(
		rdmamsg__msg_large(ep->lane.dev, DIR_OUT, a->len, &msg));
	if (ret)
		return ret == -ENOBUFS && rdmamsg__out_fits(ep->ctx, a->len) ?
		       rdmamsg__no_buffer(ep) : rdmamsg__fail_again(ret);
	gather(msg->data, a);
	iov.iov_base = msg->data;
	iov.iov_len = a->len;
	a->iov = &iov;
	a->iovcnt = 1;
	ret = send_rndv(ep, a, msg);
	if (ret)
		rdmamsg__msg_put(msg);
	else
		ep->st.bytes_copied += a->len;
	return ret;
}

static int send_ask(struct rdmamsg_ep *ep, struct ask *a, size_t len, bool copy)
{
	int now;

	if (fits_in_pieces(ep, len)) {
		now = admit(ep, len, false);
		if (unlikely(now < 0))
			return now;
		a->len = (uint32_t)len;
		if (!send_pieces(ep, a))
			return 0;
	}
	now = admit(ep, len, len > ep->send.copy_max);
	if (unlikely(now < 0))
		return now;
	a->len = (uint32_t)len;
	a->now = now;
	if (now && len <= ep->send.inline_max && ep->send.can_inline)
		return send_inline(ep, a);
	if (len <= ep->send.copy_max)
		return send_copy(ep, a);
	return copy ? send_large_copy(ep, a) : send_rndv(ep, a, NULL);
}

static int __attribute__((noinline))
send_other(struct rdmamsg_ep *ep, const void *buf, size_t len, uint32_t tag,
	   void *cookie)
{
	struct iovec iov = { (void *)buf, len };
	struct ask a = { &iov, 1, 0, tag, cookie };

	if (unlikely(!ep || (!buf && len)))
		return rdmamsg__fail(-EINVAL, "rdmamsg_send: %s is NULL",
				     ep ? "buf" : "ep");
	if (unlikely(len > ep->opts.max_copy && ep->ctx))
		return rdmamsg__fail(-EMSGSIZE, "rdmamsg_send copies at most "
				     "%u bytes (max_copy): use rdmamsg_sendv() "
				     "or rdmamsg_msg_send() for %zu",
				     ep->opts.max_copy, len);
	return send_ask(ep, &a, len, true);
}

/* Outside of callbacks there is no batch. */
static int __attribute__((noinline))
send_now(struct rdmamsg_ep *ep, const void *buf, size_t len, uint32_t tag)
{
	return ep->lane.hot.len_end ? rdmamsg_fast_send(ep, buf, len, tag) :
	       send_other(ep, buf, len, tag, NULL);
}

int rdmamsg_send(struct rdmamsg_ep *ep, const void *buf, size_t len,
		 uint32_t tag, void *cookie)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	struct tx_entry *e;

	/* fast path: no cookie, a small message and tag, and room for it */
	if (unlikely(!ep || !buf || cookie || len >= ep->send.end ||
		     tag > PROTO_TAG_MAX || (uint32_t)h->sq_posted == h->stop))
		return send_other(ep, buf, len, tag, cookie);
	if (!ep->ctx->loop.in_callback)
		return send_now(ep, buf, len, tag);

	e = rdmamsg__tx_add(ep);
	e->wr.imm_data = rdmamsg__tx_imm(ep, tag);
	e->wr.num_sge = len != 0;
	e->sge.length = (uint32_t)len;
	h->bytes_sent += len;
	memcpy(e->data, buf, len);
	return 0;
}

int rdmamsg_send_invalidate(struct rdmamsg_ep *ep, const void *buf, size_t len,
			    uint32_t tag, const struct rdmamsg_key *key,
			    void *cookie)
{
	struct iovec iov = { (void *)buf, len };
	struct ask a = { &iov, 1, 0, tag, cookie, .invalidate = true };
	struct proto_key k;
	int ret;

	if (!ep || (!buf && len) || !key ||
	    rdmamsg__key_decode(&k, key->bytes, PROTO_KEY_LEN))
		return rdmamsg__fail(-EINVAL, "rdmamsg_send_invalidate: ep or "
				     "buf is NULL, or the key is NULL or no "
				     "key");
	ret = rdmamsg__tx_check(ep);
	if (ret)
		return ret;
	if (!(ep->connect.features & PROTO_FEATURE_INVALIDATE))
		return rdmamsg__fail(-EOPNOTSUPP, "device %s or the peer's "
				     "does not support remote invalidate",
				     ep->lane.dev->device->name);
	if (len > ep->send.copy_max)
		return rdmamsg__fail(-EMSGSIZE, "rdmamsg_send_invalidate takes "
				     "at most %u bytes (eager_max of "
				     "rdmamsg_ep_query()), not %zu",
				     ep->send.copy_max, len);
	ret = admit(ep, len, false);
	if (ret < 0)
		return ret;
	a.len = (uint32_t)len;
	a.now = ret;
	a.rkey = k.rkey;
	a.region = k.region;
	return send_copy(ep, &a);
}

static int send_segments(struct rdmamsg_ep *ep, struct ask *a)
{
	static const struct iovec none;
	size_t len = 0;

	if (unlikely(!ep || a->iovcnt < 0 || a->iovcnt > RDMAMSG_SEGMENTS_MAX ||
		     (a->iovcnt && !a->iov)))
		return rdmamsg__fail(-EINVAL, "rdmamsg_sendv: %s", !ep ?
				     "ep is NULL" : "iov is NULL, or iovcnt "
				     "not 0 to 16");
	for (int i = 0; i < a->iovcnt; i++) {
		if (unlikely(a->iov[i].iov_len && !a->iov[i].iov_base))
			return rdmamsg__fail(-EINVAL, "rdmamsg_sendv: segment "
					     "%d is NULL", i);
		/* on overflow, use a length that every peer refuses */
		if (unlikely(__builtin_add_overflow(len, a->iov[i].iov_len,
						    &len)))
			len = SIZE_MAX;
	}
	if (!a->iovcnt) {
		a->iov = &none;
		a->iovcnt = 1;
	}
	return send_ask(ep, a, len, false);
}

int rdmamsg_sendv(struct rdmamsg_ep *ep, const struct iovec *iov, int iovcnt,
		  uint32_t tag, void *cookie)
{
	struct ask a = { iov, iovcnt, 0, tag, cookie };

	return send_segments(ep, &a);
}

int rdmamsg__sendv_waiter(struct rdmamsg_ep *ep, const struct iovec *iov,
			  uint32_t tag, struct rdmamsg_waiter *waiter)
{
	struct ask a = { iov, 1, 0, tag, waiter, .waiter = true };

	return send_segments(ep, &a);
}

/* Returns true if the buffer has room for what its form puts before it. */
static bool has_room(const struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg,
		     uint32_t tag)
{
	return rdmamsg__is_compact(ep, tag) ||
	       msg->data - msg->buf >= PROTO_HDR_LEN;
}

int rdmamsg_msg_send(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     uint32_t tag, void *cookie)
{
	struct ask a = { .iovcnt = 1, .tag = tag, .cookie = cookie };
	struct iovec iov;
	struct op *op;
	bool in_pieces;
	int ret;

	if (unlikely(!ep || !msg || !rdmamsg__msg_is_out(msg)))
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_send: %s", !ep ?
				     "ep is NULL" : "the message is not yours");
	/* one that was allocated to be sent is not copied */
	in_pieces = msg->lent == MSG_LENT && msg->lent_by &&
		    fits_in_pieces(ep, msg->len);
	ret = admit(ep, msg->len, msg->len > ep->send.copy_max && !in_pieces);
	if (unlikely(ret < 0))
		return ret;
	if (unlikely(msg->dev->ctx != ep->ctx))
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_send: the message "
				     "belongs to another context");
	if (unlikely(msg->lent == MSG_LENT && !rdmamsg__lent_passes(msg)))
		return rdmamsg__no_buffer(ep);
	iov.iov_base = msg->data;
	iov.iov_len = msg->len;
	a.iov = &iov;
	a.len = msg->len;
	a.now = ret;
	if (in_pieces && !send_pieces(ep, &a)) {
		rdmamsg_msg_free(msg);
		return 0;
	}
	if (in_pieces)
		ret = admit(ep, msg->len, true);
	if (unlikely(ret < 0))
		return ret;
	if (msg->kind == MSG_POOL && msg->len <= ep->send.copy_max &&
	    msg->dev == ep->lane.dev && has_room(ep, msg, tag)) {
		op = rdmamsg__op_get(ep);
		if (unlikely(!op))
			return rdmamsg__tx_again(ep);
		op->msg = msg;
		fill_op(op, OP_EAGER, &a);
		rdmamsg__msg_pass(msg);
		accept_op(ep, op, a.now);
		return 0;
	}
	if (msg->len <= ep->send.copy_max) {
		ret = send_copy(ep, &a);
		if (!ret)
			rdmamsg_msg_free(msg);
		return ret;
	}
	ret = send_rndv(ep, &a, msg);
	if (!ret)
		rdmamsg__msg_pass(msg);
	return ret;
}

/* Posts queued operations in the order of the calls. */
static void pump_queue(struct rdmamsg_ep *ep)
{
	while (ep->send.queued) {
		struct op *op = list_first(&ep->send.queue, struct op, node);

		if (op->kind == OP_RMA) {
			if (!rdmamsg__rma_pump(ep, op))
				return;
		} else if (!can_post(ep) || (op->kind == OP_RNDV &&
					     !rdmamsg__rndv_room(ep))) {
			return;
		}
		list_del(&op->node);
		ep->send.queued--;
		if (op->kind != OP_RMA)
			launch(ep, op);
	}
}

/* Large messages and the program both want to read: lets them take turns. */
static void __attribute__((noinline)) pump_reads(struct rdmamsg_ep *ep)
{
	uint32_t before;

	do {
		before = ep->reads.free;
		rdmamsg__rndv_pump(ep);
		pump_queue(ep);
	} while (ep->reads.free && ep->reads.free != before);
}

/* Returns true if a refused call would be accepted now. */
static inline bool is_writable(const struct rdmamsg_ep *ep)
{
	if (ep->send.want_memory)
		return false;
	if (ep->onesided.wanted && rdmamsg__rma_room(ep))
		return true;
	if (!ep->send.op_free && ep->send.op_count == ep->send.op_max)
		return false;
	return ep->opts.send_queue ? ep->send.queued < ep->opts.send_queue :
	       !ep->send.queued && can_post(ep) && rdmamsg__rndv_room(ep);
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

/* There may be room: posts queued operations, then calls on_writable. */
void rdmamsg__tx_pump(struct rdmamsg_ep *ep)
{
	struct rdmamsg *ctx = ep->ctx;

	if (ep->state != EP_OPEN && ep->state != EP_CLOSING &&
	    ep->state != EP_SETUP)
		return;
	ctx->loop.in_callback++;	/* batch the requests that follow */
	if (rdmamsg__rx_waits(ep))
		rdmamsg__rndv_pump(ep);
	rdmamsg__ctrl_pump(ep);
	if (rdmamsg__rx_waits(ep))
		rdmamsg__rx_deliver(ep);
	if (ep->send.queued)
		pump_queue(ep);
	if (unlikely(ep->reads.wants[READ_MESSAGE]))
		pump_reads(ep);
	if (ep->send.want_writable && ep->state == EP_OPEN && is_writable(ep))
		tell_writable(ep);
	ctx->loop.in_callback--;
	rdmamsg__ep_ready(ep);
}
