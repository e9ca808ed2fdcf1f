/* SPDX-License-Identifier: BSD-2-Clause */
/* The share of an endpoint in a shared receive queue. */
#ifndef RDMAMSG_LIB_SRQ_SHARE_H
#define RDMAMSG_LIB_SRQ_SHARE_H

#include <stdbool.h>

#include "lane/srq.h"
#include "session/ep.h"
#include "wire/flight.h"

/*
 * Reserves receives for an endpoint: one in the lobby if the endpoint was
 * accepted, else those of rdmamsg__srq_enter(). -ENOBUFS: the queue is full.
 */
int rdmamsg__srq_join(struct rdmamsg_ep *ep);
/*
 * Returns true if the queue has no place for an endpoint of the lobby only
 * because other peers have been promised more than their floor. They will use
 * that up.
 */
bool rdmamsg__srq_is_crowded(const struct rdmamsg_ep *ep);
/* Moves it out of the lobby: reserves the floor and control messages. */
int rdmamsg__srq_enter(struct rdmamsg_ep *ep);
void rdmamsg__srq_leave(struct rdmamsg_ep *ep);
/* The place of ep is charged to no address any more. */
void rdmamsg__srq_unshare(struct rdmamsg_ep *ep);
/* Grants credits and posts receives. Call it if either may have changed. */
void rdmamsg__srq_refill(struct rdmamsg_ep *ep);
/*
 * A callback was left. The account lacks the use of a credit, and nothing tells
 * which receives have completed, so the part ends with its last endpoint.
 */
void rdmamsg__srq_left(struct srq *q);
/* Ends all endpoints of q. srq_failed() of struct lanes. */
void rdmamsg__srq_failed(struct srq *q, int err, const char *what);
/* Handles *wc. Later completions of this poll follow it, up to 'end'. */
void rdmamsg__srq_done(struct rdmamsg *ctx, const struct ibv_wc *wc,
		       const struct ibv_wc *end);

/*
 * Returns true if this side may announce another rendezvous. There must be a
 * receive for each DONE.
 */
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
