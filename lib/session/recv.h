/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of the peer, from the completion to the program. */
#ifndef RDMAMSG_LIB_SESSION_RECV_H
#define RDMAMSG_LIB_SESSION_RECV_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/ctx.h"
#include "base/loop.h"
#include "base/poison.h"
#include "base/util.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/pieces.h"

/* ---- recv.c ------------------------------------------------------------ */

/* A message of an endpoint with a shared receive queue. */
void rdmamsg__rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc);
extern struct rdmamsg_ep rdmamsg__nobody;	/* has no receives */
void rdmamsg__dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n);

/* ---- arrive.c ---------------------------------------------------------- */

/* Handles each Send that does not take the fast path. */
void rdmamsg__rx_other(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		       const struct ibv_wc *wc);
/* A Write with immediate data has used the receive of msg. */
void rdmamsg__rx_imm(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc);

/* ---- deliver.c --------------------------------------------------------- */

/* Delivers waiting messages in order, up to the first incomplete one. */
void rdmamsg__rx_deliver(struct rdmamsg_ep *ep);
/* The endpoint ends: frees messages and receives. */
void rdmamsg__rx_discard(struct rdmamsg_ep *ep);
/* Gives a message that is in no slot to the program. */
void rdmamsg__deliver(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
/* The program has not freed the message in on_message. */
void rdmamsg__rx_kept(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);

/* Removes the buffer from the slot that has completed last. */
static inline void rdmamsg__rx_take_out(struct rdmamsg_ep *ep)
{
	uint32_t at = (uint32_t)(ep->lane.rq.head - ep->lane.rq.slots);

	if (ep->lane.srq) {
		rdmamsg__srq_take_out(ep->lane.srq);
		return;
	}
	ep->lane.rq.slots[(at ? at : ep->lane.rq.target) - 1].msg = NULL;
	ep->lane.rq.holes++;
}

/*
 * Most messages are freed in on_message. Such a message stays in its slot and
 * is posted again from there.
 */
static inline void rdmamsg__deliver_in_place(struct rdmamsg_ep *ep,
					     struct rdmamsg_msg *msg)
{
	ep->recv.bytes += msg->len;
	msg->lent = MSG_IN_PLACE;
	ep->on.on_message(ep, msg);
	if (unlikely(msg->lent))
		rdmamsg__rx_kept(ep, msg);
	else
		rdmamsg__unpoison(msg->buf, msg->slab->pool->buf_size);
}

/* The peer has written into memory of the program. */
static inline void rdmamsg__tell_written(struct rdmamsg_ep *ep, uint32_t value)
{
	rdmamsg__tell(&ep->ctx->loop, ep->on.on_written, ep, value);
}

/* Adds the next piece. Delivers the message if it is whole. */
static inline void rdmamsg__deliver_piece(struct rdmamsg_ep *ep,
					  const struct rdmamsg_msg *piece)
{
	struct rdmamsg_msg *whole = rdmamsg__pieces_add(ep, piece);

	if (whole)
		rdmamsg__deliver(ep, whole);
}

/* ---- recv_wait.c: messages that wait for a large one, or for a resume -- */

static inline bool rdmamsg__rx_waits(const struct rdmamsg_ep *ep)
{
	return ep->rndv.waiting.first;
}
/* Returns true if the next message must wait. */
static inline bool rdmamsg__rx_holds(const struct rdmamsg_ep *ep)
{
	return rdmamsg__rx_waits(ep) || ep->recv.paused;
}
void rdmamsg__rx_wait_init(struct rdmamsg_ep *ep);
/* Appends msg of this type, which keeps its credit. */
void rdmamsg__rx_wait(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		      enum proto_type type);
/* Creates a rndv_in for each new announcement. After -ENOMEM, goes on. */
void rdmamsg__rx_parse(struct rdmamsg_ep *ep);
/* Removes and returns the first message. */
struct rdmamsg_msg *rdmamsg__rx_next(struct rdmamsg_ep *ep);
/*
 * Returns true if a message in pieces waits before msg. It has no memory yet,
 * and memory is given in order: otherwise msg could take all, and never have
 * its turn.
 */
bool rdmamsg__rx_behind_pieces(const struct rdmamsg_ep *ep,
			       const struct rdmamsg_msg *msg);

/* ---- recv_post.c ------------------------------------------------------- */

void rdmamsg__rx_refill(struct rdmamsg_ep *ep);
/* buffer() of struct lane_events: replaces one that the program keeps. */
struct rdmamsg_msg *rdmamsg__rx_buffer(struct lane *l, uint32_t count);

#endif
