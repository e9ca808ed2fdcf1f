/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of an endpoint, posted through the context's batch. */
#ifndef RDMAMSG_LIB_SESSION_TX_H
#define RDMAMSG_LIB_SESSION_TX_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/ctx.h"
#include "base/util.h"
#include "lane/batch.h"
#include "session/credit.h"
#include "session/ep.h"
#include "wire/proto.h"

extern const struct lane_events rdmamsg__lane_events;
void rdmamsg__tx_done(struct rdmamsg_ep *ep, uint32_t seq, int status);
/* A request of op has ended. */
void rdmamsg__request_done(struct rdmamsg_ep *ep, struct op *op, int status);
void rdmamsg__tx_cancel(struct rdmamsg_ep *ep, int status);
/* Adds a message in full form to the batch. */
void rdmamsg__tx_message(struct rdmamsg_ep *ep, enum proto_type type,
			 uint32_t number, uint32_t tag, struct op *op,
			 struct rdmamsg_msg *msg, const void *inl,
			 uint32_t len);
/*
 * Adds a message of the program, in compact form if possible. For the full
 * form, 'msg' has room for a header before its payload.
 */
void rdmamsg__tx_data(struct rdmamsg_ep *ep, uint32_t tag, struct op *op,
		      struct rdmamsg_msg *msg, const void *inl, uint32_t len);
/* Adds a read into 'count' gather entries, at most rdmamsg__read_entries(). */
void rdmamsg__tx_read(struct rdmamsg_ep *ep, struct op *op,
		      const struct ibv_sge *sge, uint32_t count, uint64_t raddr,
		      uint32_t rkey);
/*
 * An empty write, which the peer's device answers without its program. Requests
 * complete in order, and after a failed request none succeeds. So behind reads
 * on a device with doubtful reads, its completion tells how they have ended.
 */
void rdmamsg__tx_empty(struct rdmamsg_ep *ep, struct op *op);
/*
 * Its completion tells that the peer's device has all requests before it: an
 * empty write, or where that completes without the peer, a read (RFC 5040, 5.5:
 * a read is answered behind earlier writes). The lane has a depth of reads.
 */
void rdmamsg__tx_proof(struct rdmamsg_ep *ep, struct op *op);
/*
 * Makes the request a read of the peer's memory for proofs: device/proof.h. An
 * earlier release has none, and there it reads no bytes.
 */
void rdmamsg__tx_aim_proof(const struct rdmamsg_ep *ep, struct tx_entry *e);
/*
 * Posts one more write to the failed lane. Its flushed completion confirms the
 * unsignalled requests before it that succeeded. Where completions prove only
 * themselves, there are no such requests, and a failed queue pair may not flush
 * what a program posts (Linux 6.1, siw_verbs.c, siw_post_send() with
 * siw_sq_flush_wr()).
 */
void rdmamsg__tx_mark_end(struct rdmamsg_ep *ep);
/*
 * Posts a keepalive on each endpoint with unsignalled requests. Its completion
 * confirms them, so that their memory can be used again.
 */
void rdmamsg__tx_ask(struct rdmamsg *ctx);

void rdmamsg__tx_post(struct rdmamsg *ctx);
static inline void rdmamsg__tx_flush(struct rdmamsg *ctx)
{
	if (ctx->tx->lane)
		rdmamsg__tx_post(ctx);
}
/*
 * Requests between the two calls go into one batch. The second call takes the
 * result of the first.
 */
bool rdmamsg__tx_burst_begin(struct rdmamsg *ctx);
void rdmamsg__tx_burst_end(struct rdmamsg *ctx, bool idle);
/* Posts the batch and begins a new batch for this endpoint. */
void rdmamsg__tx_new(struct rdmamsg_ep *ep);
/* Returns the next entry of the batch. */
static inline struct tx_entry *rdmamsg__tx_add(struct rdmamsg_ep *ep)
{
	struct tx_batch *tx = ep->ctx->tx;

	if (unlikely(!rdmamsg__batch_takes(tx, &ep->lane)))
		rdmamsg__tx_new(ep);
	return rdmamsg__batch_add(tx, &ep->lane);
}

/*
 * For requests other than inline messages. rdmamsg__tx_begin() returns an entry
 * of the batch. The caller fills it in and then calls rdmamsg__tx_end().
 */
static inline struct tx_entry *rdmamsg__tx_begin(struct rdmamsg_ep *ep,
						 struct op *op)
{
	struct tx_entry *e = rdmamsg__tx_add(ep);

	if (op) {
		ep->lane.sq.slots[(uint32_t)e->wr.wr_id & ep->lane.sq.mask] =
			op;
		ep->lane.sq.ops++;
	}
	if (unlikely(ep->lane.hot.signal_every == 1))
		e->wr.send_flags |= IBV_SEND_SIGNALED;
	e->wr.num_sge = 1;		/* 0 after an empty inline message */
	ep->ctx->tx->odd = true;
	ep->st.sent_inline--;		/* by default all count as inline */
	return e;
}
static inline void rdmamsg__tx_end(struct rdmamsg_ep *ep)
{
	if (!ep->ctx->loop.in_callback)
		rdmamsg__tx_flush(ep->ctx);
	else
		rdmamsg__tx_room(ep);	/* some may exceed hot.stop */
}

#endif
