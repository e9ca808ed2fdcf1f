/* SPDX-License-Identifier: BSD-2-Clause */
/* What an endpoint has of a shared receive queue. */
#ifndef RDMAMSG_LIB_SRQ_SHARE_H
#define RDMAMSG_LIB_SRQ_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "lane/srq.h"
#include "session/ep.h"
#include "wire/flight.h"

/*
 * Gives an endpoint its place: one in the lobby if it was accepted, else that
 * of rdmamsg__srq_enter(). -ENOBUFS when there is none left.
 */
int rdmamsg__srq_join(struct rdmamsg_ep *ep);
/* Out of the lobby: its floor, and receives for control messages. */
int rdmamsg__srq_enter(struct rdmamsg_ep *ep);
void rdmamsg__srq_leave(struct rdmamsg_ep *ep);
/* Something was used, or is free again. */
void rdmamsg__srq_refill(struct rdmamsg_ep *ep);
/* Nothing works any more that uses this part: struct lanes. */
void rdmamsg__srq_failed(struct srq *q, int err, const char *what);
/* The others of the same poll, up to the end, come next. */
void rdmamsg__srq_done(struct rdmamsg *ctx, const struct ibv_wc *wc,
		       const struct ibv_wc *end);

/* Rendezvous that we announce: there must be a receive for each DONE. */
static inline bool rdmamsg__rndv_room(const struct rdmamsg_ep *ep)
{
	return !ep->rndv.count || (ep->rndv.count < RNDV_MAX &&
	       (!ep->lane.srq || rdmamsg__srq_can_answer(ep->lane.srq)));
}

static inline void rdmamsg__rndv_more(struct rdmamsg_ep *ep)
{
	if (ep->lane.srq && ep->rndv.count)
		rdmamsg__srq_expect(&ep->lane.srq->account);
	ep->rndv.count++;
}

static inline void rdmamsg__rndv_less(struct rdmamsg_ep *ep)
{
	ep->rndv.count--;
	if (ep->lane.srq && ep->rndv.count)
		rdmamsg__srq_expected(&ep->lane.srq->account);
}

#endif
