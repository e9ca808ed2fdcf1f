/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that send a message. Each checks the message, copies or registers
 * it by its size, and posts it at once or puts it into the send queue.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "memory/large.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "memory/stretch.h"
#include "session/crc.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/keep.h"
#include "session/lent.h"
#include "session/pieces.h"
#include "session/resume.h"
#include "session/send.h"
#include "session/shared.h"
#include "session/srq_share.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

int rdmamsg__tx_check(const struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__ep_check(ep);

	if (unlikely(ret))
		return ret;
	if (likely(ep->state == EP_OPEN))
		return likely(!rdmamsg__lane_lost(ep)) ? 0 :
		       rdmamsg__tx_again((struct rdmamsg_ep *)ep);
	if (ep->state < EP_OPEN || ep->state == EP_BACKOFF)
		return rdmamsg__fail(-ENOTCONN, "not connected yet: wait for "
				     "on_connected");
	return rdmamsg__fail(-ESHUTDOWN, "the endpoint is closing or closed: "
			     "%s", rdmamsg_ep_reason(ep)->text);
}

static inline bool can_post(struct rdmamsg_ep *ep, bool rndv)
{
	return !ep->send.queued && rdmamsg__can_post(ep) &&
	       (!rndv || rdmamsg__rndv_room(ep));
}

/* The send queue is full, or there is no credit: the same as admit(). */
static int __attribute__((noinline))
admit_full(struct rdmamsg_ep *ep, bool rndv)
{
	int ret;

	if (!rdmamsg__make_room(ep))
		return rdmamsg__tx_again(ep);
	ret = rdmamsg__tx_check(ep);	/* a request may have failed */
	if (ret)
		return ret;
	if (can_post(ep, rndv))
		return 1;
	return ep->send.queued < ep->opts.send_queue ? 0 :
	       rdmamsg__tx_again(ep);
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
	if (likely(can_post(ep, rndv)))
		return 1;
	if (ep->send.queued < ep->opts.send_queue)
		return 0;
	return admit_full(ep, rndv);
}

static void accept_op(struct rdmamsg_ep *ep, struct op *op, bool now)
{
	if (now) {
		rdmamsg__launch(ep, op);
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

struct rdmamsg_msg *rdmamsg__free_buffer(struct rdmamsg_ep *ep)
{
	return take(ep, ep->send.pool, NULL);
}

struct rdmamsg_msg *rdmamsg__send_buffer(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg = rdmamsg__free_buffer(ep);

	if (likely(msg) || !rdmamsg__make_room(ep))
		return msg;
	/* what is being sent may wait behind a send queue that has room now */
	rdmamsg__ep_touch(ep);
	/* messages that are sent free their buffers */
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
	uint8_t tell;		/* enum tell */
	bool now;		/* need not be queued */
	bool invalidate;	/* the window with rkey, of 'region' */
	uint32_t rkey;
	uint64_t region;
	/* of each segment, or NULL: a message above eager_max is not copied */
	struct rdmamsg_region *const *regions;
};

static void fill_op(struct op *op, enum op_kind kind, const struct ask *a)
{
	op->kind = kind;
	op->refs = 2;
	op->len = a->len;
	op->tag = a->tag;
	op->cookie = a->cookie;
	op->tell = a->tell;
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

/*
 * Keeps the message, with its CRC. Returns the bytes to send, and sets *len to
 * their number.
 */
static const void *__attribute__((noinline))
prepare_inline(struct rdmamsg_ep *ep, const struct ask *a, struct op *op,
	       uint8_t flat[static TX_STAGE], const void *data, uint32_t *len)
{
	struct keep *k;
	const struct keep_entry *e;

	if (ep->send.crc) {
		if (data != flat && *len)
			memcpy(flat, data, *len);
		rdmamsg__crc_put(flat + *len, rdmamsg__crc_of(a->iov,
							      a->iovcnt));
		*len += PROTO_CRC_LEN;
		data = flat;
	}
	if (!rdmamsg__keeps(ep))
		return data;
	k = &ep->resume->keep;
	e = rdmamsg__keep_add(k, PROTO_DATA, a->tag, *len);
	if (op)
		op->number = k->end - 1;
	if (e->len)
		memcpy(rdmamsg__kept_bytes(k, e), data, e->len);
	return data;
}

static int send_inline(struct rdmamsg_ep *ep, const struct ask *a)
{
	uint8_t flat[TX_STAGE];
	const void *data = a->iov->iov_base;
	struct op *op = NULL;
	uint32_t len = a->len;

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
	if (unlikely(ep->send.careful))
		data = prepare_inline(ep, a, op, flat, data, &len);
	ep->st.sent_inline++;
	ep->lane.hot.bytes_sent += a->len;
	rdmamsg__tx_data(ep, a->tag, op, NULL, data, len);
	return 0;
}

/*
 * Copies the message into a buffer of a new operation. After NULL the call
 * returns -EAGAIN.
 */
static inline struct op *make_copy(struct rdmamsg_ep *ep, const struct ask *a)
{
	struct op *op = rdmamsg__op_get(ep);

	if (unlikely(!op)) {
		(void)rdmamsg__tx_again(ep);
		return NULL;
	}
	op->msg = rdmamsg__send_buffer(ep);
	if (unlikely(!op->msg)) {
		rdmamsg__op_put(ep, op);
		(void)rdmamsg__no_buffer(ep);
		return NULL;
	}
	gather(op->msg->data, a);
	ep->st.bytes_copied += a->len;
	fill_op(op, OP_EAGER, a);
	return op;
}

static int send_copy(struct rdmamsg_ep *ep, const struct ask *a)
{
	struct op *op = make_copy(ep, a);

	if (unlikely(!op))
		return -EAGAIN;
	accept_op(ep, op, a->now);
	return 0;
}

static int __attribute__((noinline))
send_copy_crc(struct rdmamsg_ep *ep, const struct ask *a)
{
	struct op *op = make_copy(ep, a);

	if (!op)
		return -EAGAIN;
	rdmamsg__crc_add(ep, op, rdmamsg__crc_of(a->iov, a->iovcnt));
	accept_op(ep, op, a->now);
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
	ret = rdmamsg__rndv_prepare(ep, a->iov, a->iovcnt, a->len, a->regions,
				    payload, &op->rndv);
	if (ret) {
		rdmamsg__msg_put(op->msg);
		rdmamsg__op_put(ep, op);
		return rdmamsg__tx_refused(ep, ret);
	}
	if (unlikely(ep->send.crc)) {
		op->rndv->has_crc = true;
		op->rndv->crc = rdmamsg__crc_of(a->iov, a->iovcnt);
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
		rdmamsg__msg_large(ep->lane.dev, DIR_OUT, a->len,
				   rdmamsg__rndv_reader(ep), &msg));
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

/* Returns 0, -errno, or 1: the message is to be announced. */
static int __attribute__((noinline))
send_in_pieces(struct rdmamsg_ep *ep, const struct ask *a, size_t len)
{
	int ret = rdmamsg__pieces_ready(ep, len);

	if (ret <= 0)
		return ret ? ret : 1;
	ret = admit(ep, len, false);
	if (unlikely(ret < 0))
		return ret;
	return rdmamsg__pieces_send(ep, a->iov, a->iovcnt, (uint32_t)len,
				    a->tag, a->cookie, a->tell) ? 1 : 0;
}

static int send_ask(struct rdmamsg_ep *ep, struct ask *a, size_t len, bool copy)
{
	int now;

	if (rdmamsg__is_for_pieces(ep, len) && likely(!a->regions)) {
		now = send_in_pieces(ep, a, len);
		if (now <= 0)
			return now;
	}
	now = admit(ep, len, len > ep->send.copy_max);
	if (unlikely(now < 0))
		return now;
	a->len = (uint32_t)len;
	a->now = now;
	if (now && len <= ep->send.inline_max && ep->send.can_inline)
		return send_inline(ep, a);
	if (len < ep->send.plain_end)
		return send_copy(ep, a);
	if (unlikely(len <= ep->send.copy_max))
		return send_copy_crc(ep, a);
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
	if (unlikely(len > ep->tuning.max_copy && ep->ctx))
		return rdmamsg__fail(-EMSGSIZE, "rdmamsg_send copies at most "
				     "%u bytes (max_copy): use rdmamsg_sendv() "
				     "or rdmamsg_msg_send() for %zu",
				     ep->tuning.max_copy, len);
	return send_ask(ep, &a, len, true);
}

/* Outside of callbacks there is no batch. */
static int __attribute__((noinline))
send_now(struct rdmamsg_ep *ep, const void *buf, size_t len, uint32_t tag)
{
	return ep->lane.hot.len_end ? rdmamsg_fast_send(ep, buf, len, tag) :
	       send_other(ep, buf, len, tag, NULL);
}

/* Adds a message to the batch, which takes it. */
static inline __attribute__((always_inline)) int
add_inline(struct rdmamsg_ep *ep, const void *buf, size_t len, uint32_t tag)
{
	struct tx_entry *e = rdmamsg__batch_add(ep->ctx->tx, &ep->lane);

	e->wr.imm_data = rdmamsg__tx_imm(ep, tag);
	e->wr.num_sge = len != 0;
	e->sge.length = (uint32_t)len;
	ep->lane.hot.bytes_sent += len;
	memcpy(e->data, buf, len);
	return 0;
}

/* Begins a batch. */
static int __attribute__((noinline))
send_first(struct rdmamsg_ep *ep, const void *buf, size_t len, uint32_t tag)
{
	rdmamsg__tx_new(ep);
	return add_inline(ep, buf, len, tag);
}

int rdmamsg_send(struct rdmamsg_ep *ep, const void *buf, size_t len,
		 uint32_t tag, void *cookie)
{
	/* fast path: no cookie, a small message and tag, and room for it */
	if (unlikely(!ep || len >= ep->send.end || !buf ||
		     (uint32_t)ep->lane.hot.sq_posted == ep->lane.hot.stop ||
		     ((uintptr_t)cookie | (tag & ~PROTO_TAG_MAX))))
		return send_other(ep, buf, len, tag, cookie);
	if (!ep->ctx->loop.in_callback)
		return send_now(ep, buf, len, tag);

	if (unlikely(!rdmamsg__batch_takes(ep->ctx->tx, &ep->lane)))
		return send_first(ep, buf, len, tag);
	return add_inline(ep, buf, len, tag);
}

/* Adds the lengths. On overflow, a length that every peer refuses. */
static int total_len(const struct iovec *iov, int iovcnt, size_t *ret)
{
	size_t len = 0;

	for (int i = 0; i < iovcnt; i++) {
		if (unlikely(iov[i].iov_len && !iov[i].iov_base))
			return rdmamsg__fail(-EINVAL, "rdmamsg_sendv: segment "
					     "%d is NULL", i);
		if (unlikely(__builtin_add_overflow(len, iov[i].iov_len,
						    &len)))
			len = SIZE_MAX;
	}
	*ret = len;
	return 0;
}

int rdmamsg__send_invalidate(struct rdmamsg_ep *ep, const struct iovec *iov,
			     int iovcnt, uint32_t tag,
			     const struct rdmamsg_key *key, void *cookie,
			     enum tell tell)
{
	static const struct iovec none;
	struct ask a = {
		iovcnt ? iov : &none, iovcnt ? iovcnt : 1, 0, tag, cookie,
		.invalidate = true, .tell = (uint8_t)tell,
	};
	struct proto_key k;
	size_t len;
	int ret;

	if (rdmamsg__key_decode(&k, key->bytes, PROTO_KEY_LEN))
		return rdmamsg__fail(-EINVAL, "rdmamsg_post: the key of the "
				     "window is no key");
	if (!(ep->connect.features & PROTO_FEATURE_INVALIDATE))
		return rdmamsg__fail(-EOPNOTSUPP, "device %s or the peer's "
				     "does not support remote invalidate",
				     ep->lane.dev->device->name);
	ret = total_len(iov, iovcnt, &len);
	if (ret)
		return ret;
	if (len > ep->send.copy_max)
		return rdmamsg__fail(-EMSGSIZE, "a message that invalidates "
				     "a window has at most %u bytes (eager_max "
				     "of rdmamsg_ep_query()), not %zu",
				     ep->send.copy_max, len);
	ret = admit(ep, len, false);
	if (ret < 0)
		return ret;
	a.len = (uint32_t)len;
	/* earlier reads may still use the key */
	a.now = ret && !rdmamsg__fence_holds(ep);
	a.rkey = k.rkey;
	a.region = k.region;
	return ep->send.crc ? send_copy_crc(ep, &a) : send_copy(ep, &a);
}

static int send_segments(struct rdmamsg_ep *ep, struct ask *a)
{
	static const struct iovec none;
	size_t len = 0;
	int ret;

	if (unlikely(!ep || a->iovcnt < 0 || a->iovcnt > RDMAMSG_SEGMENTS_MAX ||
		     (a->iovcnt && !a->iov)))
		return rdmamsg__fail(-EINVAL, "rdmamsg_sendv: %s", !ep ?
				     "ep is NULL" : "iov is NULL, or iovcnt "
				     "not 0 to 16");
	ret = total_len(a->iov, a->iovcnt, &len);
	if (unlikely(ret))
		return ret;
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

int rdmamsg__sendv_regions(struct rdmamsg_ep *ep, const struct iovec *iov,
			   struct rdmamsg_region *const *regions, int count,
			   uint32_t tag, void *cookie, enum tell tell)
{
	struct ask a = { iov, count, 0, tag, cookie, .tell = (uint8_t)tell,
			 .regions = regions };

	return send_segments(ep, &a);
}

/* Returns true if the buffer has room for what its form puts before it. */
static bool has_room(const struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg,
		     uint32_t tag)
{
	return rdmamsg__is_compact(ep, tag) ||
	       msg->data - msg->buf >= PROTO_HDR_LEN;
}

/* Returns true if the CRC can follow the payload in the same buffer. */
static inline bool fits_with_crc(const struct rdmamsg_ep *ep,
				 const struct rdmamsg_msg *msg, uint32_t tag)
{
	return msg->kind == MSG_POOL && msg->len <= ep->send.copy_max &&
	       msg->dev == ep->lane.dev && has_room(ep, msg, tag) &&
	       (size_t)(msg->data - msg->buf) + msg->len + PROTO_CRC_LEN <=
		       msg->slab->pool->buf_size;
}

static inline int send_in_place_crc(struct rdmamsg_ep *ep,
				    struct rdmamsg_msg *msg,
				    const struct ask *a)
{
	struct op *op = rdmamsg__op_get(ep);

	if (!op)
		return rdmamsg__tx_again(ep);
	op->msg = msg;
	fill_op(op, OP_EAGER, a);
	rdmamsg__msg_pass(msg);
	rdmamsg__crc_add(ep, op, rdmamsg__crc_of(a->iov, a->iovcnt));
	accept_op(ep, op, a->now);
	return 0;
}

static int check_lent(struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg)
{
	if (!msg->data)
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_send: the message "
				     "is in a layout: rdmamsg_post() sends "
				     "it from there");
	return rdmamsg__lent_passes(msg->lent_by, rdmamsg__msg_bytes(msg)) ?
	       0 : rdmamsg__no_buffer(ep);
}

/* Headers around the payload would go to the other owners' peers, too. */
static bool fits_shared(const struct rdmamsg_ep *ep,
			const struct rdmamsg_msg *msg, uint32_t tag)
{
	return msg->kind == MSG_POOL && msg->len < ep->send.plain_end &&
	       msg->dev == ep->lane.dev && rdmamsg__is_compact(ep, tag);
}

static int send_shared_now(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
			   const struct ask *a)
{
	struct op *op = rdmamsg__op_get(ep);

	if (!op)
		return rdmamsg__tx_again(ep);
	op->msg = msg;
	fill_op(op, OP_EAGER, a);
	rdmamsg__shared_pass(msg);
	accept_op(ep, op, a->now);
	return 0;
}

static int send_shared_copy(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
			    const struct ask *a)
{
	int ret = ep->send.crc ? send_copy_crc(ep, a) : send_copy(ep, a);

	if (!ret)
		rdmamsg__shared_consume(msg);
	return ret;
}

static int send_shared_rndv(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
			    const struct ask *a)
{
	int ret = send_rndv(ep, a, msg);

	if (!ret)
		rdmamsg__shared_pass(msg);
	return ret;
}

/* As rdmamsg_msg_send(), without writing to the message. */
static int __attribute__((noinline))
send_shared(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg, uint32_t tag,
	    void *cookie)
{
	struct iovec iov = { msg->data, msg->len };
	struct ask a = { &iov, 1, msg->len, tag, cookie };
	int ret, run = 0;

	ret = rdmamsg__shared_check(ep, msg);
	if (ret)
		return ret;
	if (msg->share->lent_by && rdmamsg__is_for_pieces(ep, msg->len))
		run = rdmamsg__pieces_ready(ep, msg->len);
	if (run < 0)
		return run;
	ret = admit(ep, msg->len, msg->len > ep->send.copy_max && !run);
	if (ret < 0)
		return ret;
	if (run && !rdmamsg__pieces_send(ep, &iov, 1, a.len, tag, cookie,
					 TELL_PROGRAM)) {
		rdmamsg__shared_consume(msg);
		return 0;
	}
	if (run)
		ret = admit(ep, msg->len, true);
	if (ret < 0)
		return ret;
	a.now = ret;
	if (fits_shared(ep, msg, tag))
		return send_shared_now(ep, msg, &a);
	return msg->len <= ep->send.copy_max ? send_shared_copy(ep, msg, &a) :
					       send_shared_rndv(ep, msg, &a);
}

static inline __attribute__((always_inline)) int
msg_send(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg, uint32_t tag,
	 void *cookie, uint8_t tell)
{
	struct ask a = { .iovcnt = 1, .tag = tag, .cookie = cookie,
			 .tell = tell };
	struct iovec iov;
	struct op *op;
	int ret, err, run = 0;

	if (unlikely(!ep || !msg || !rdmamsg__msg_is_out(msg))) {
		if (ep && msg && msg->lent == MSG_SHARED)
			return send_shared(ep, msg, tag, cookie);
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_send: %s", !ep ?
				     "ep is NULL" : "the message is not yours");
	}
	/* one that was allocated to be sent is not copied */
	if (msg->lent == MSG_LENT && msg->lent_by &&
	    rdmamsg__is_for_pieces(ep, msg->len))
		run = rdmamsg__pieces_ready(ep, msg->len);
	if (unlikely(run < 0))
		return run;
	ret = admit(ep, msg->len, msg->len > ep->send.copy_max && !run);
	if (unlikely(ret < 0))
		return ret;
	if (unlikely(msg->dev->ctx != ep->ctx))
		return rdmamsg__fail(-EINVAL, "rdmamsg_msg_send: the message "
				     "belongs to another context");
	err = msg->lent == MSG_LENT ? check_lent(ep, msg) : 0;
	if (unlikely(err))
		return err;
	iov.iov_base = msg->data;
	iov.iov_len = msg->len;
	a.iov = &iov;
	a.len = msg->len;
	a.now = ret;
	if (run && !rdmamsg__pieces_send(ep, &iov, 1, a.len, tag, cookie,
					 tell)) {
		rdmamsg_msg_free(msg);
		return 0;
	}
	if (run)
		ret = admit(ep, msg->len, true);
	if (unlikely(ret < 0))
		return ret;
	if (msg->kind == MSG_POOL && msg->len < ep->send.plain_end &&
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
	if (unlikely(ep->send.crc) && fits_with_crc(ep, msg, tag))
		return send_in_place_crc(ep, msg, &a);
	if (msg->len <= ep->send.copy_max) {
		ret = ep->send.crc ? send_copy_crc(ep, &a) : send_copy(ep, &a);
		if (!ret)
			rdmamsg_msg_free(msg);
		return ret;
	}
	ret = send_rndv(ep, &a, msg);
	if (!ret)
		rdmamsg__msg_pass(msg);
	return ret;
}

int rdmamsg_msg_send(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     uint32_t tag, void *cookie)
{
	return msg_send(ep, msg, tag, cookie, TELL_PROGRAM);
}

int rdmamsg__msg_send(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		      uint32_t tag, struct op_deadline *deadline)
{
	return msg_send(ep, msg, tag, deadline, TELL_DEADLINE);
}
