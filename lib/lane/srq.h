/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues. What a program makes has a part on each device that
 * it meets, and each part keeps this promise: whatever the peers of its
 * endpoints may send by the rules, a receive is posted for it.
 *
 *   posted and ready  >=  promised + kept + endpoints * SRQ_CTRL + lobby
 *			   + answers + batch
 *
 * What is kept is the part of each one's floor that he does not have now. The
 * batch is what may have been used and not yet been posted again. What is
 * ready beyond that, since there were more endpoints, is not posted: the device
 * uses receives in turns, and the fewer there are, the warmer they are.
 */
#ifndef RDMAMSG_LIB_SRQ_H
#define RDMAMSG_LIB_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "base/util.h"
#include "lane/lanes.h"
#include "session/ep.h"

/*
 * Control messages that a peer may have in flight, unlike RECV_RESERVE with
 * one answer to a rendezvous: for each further one that we announce at once a
 * receive is taken out of what is shared. SETUP comes before there is any.
 */
#define SRQ_CTRL	(CREDIT_MAX + 4 /* PING PONG CLOSE, SETUP or DONE */)
#define SRQ_BATCH	32	/* receives posted together, at most */
#define SRQ_SLOTS	(1u << 24)
#define SRQ_KEY		0xffffffffu	/* no endpoint has this one */
#define SRQ_NONE	UINT32_MAX	/* no slot */

struct srq_slot {
	struct rdmamsg_msg *msg;	/* NULL: the program has kept it */
	uint32_t next;			/* ready, or a hole */
	bool posted;
};

/* On one device. */
struct srq {
	struct ibv_srq *ibv;
	struct dev *dev;
	struct rdmamsg_srq *owner;
	struct pool *pool;
	struct cq *cq;
	uint64_t wr_id;			/* of slot 0 */
	struct srq_slot *slots;
	uint32_t depth;
	uint32_t active;		/* slots that have been in use */
	uint32_t current;		/* slot being delivered, or SRQ_NONE */
	uint32_t batch;
	uint32_t posted;
	uint32_t ready, ready_count;	/* to be posted, last one first */
	uint32_t more;			/* than promised: it has run low */
	uint32_t limit;			/* of the device's event, 0: none */
	uint32_t arm_at;		/* posted, or SRQ_NONE: armed */
	uint32_t holes, hole_count;	/* active, without a buffer */
	uint32_t eps;			/* whose peers have sent SETUP */
	uint32_t lobby;			/* the others: one receive for each */
	uint32_t promised;		/* credits out, not yet used */
	uint32_t answers;		/* DONEs beyond each one's first */
	uint32_t extra;			/* credits beyond the floor, answers */
	uint32_t capacity;		/* what may be promised in all */
	bool failed;
	bool lacks;			/* holes, for want of buffers */
	struct rdmamsg_srq_counters st;
	struct list node;		/* of the owner */
	struct list dev_node;
	struct ibv_recv_wr wr[SRQ_BATCH];	/* chained */
	struct ibv_sge sge[SRQ_BATCH];
};

struct rdmamsg_srq {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;
	int refs;			/* program, listeners, endpoints */
	struct rdmamsg_srq_options opts;
	struct rdmamsg_srq_counters st;	/* of parts that are gone */
	struct list parts;
};

static inline uint32_t rdmamsg__srq_batch(uint32_t depth)
{
	return min(max(depth / 8, 1u), (uint32_t)SRQ_BATCH);
}

/* srq.c: made, given, taken down */
/* Copies the options, with what is not given. */
int rdmamsg__srq_options_set(struct rdmamsg_srq_options *o,
			     const struct rdmamsg_srq_options *opts);
int rdmamsg__srq_options_check(const struct rdmamsg *ctx,
			       const struct rdmamsg_srq *srq);
static inline void rdmamsg__srq_hold(struct rdmamsg_srq *srq)
{
	if (srq)
		srq->refs++;
}
void rdmamsg__srq_rele(struct rdmamsg_srq *srq);	/* NULL is fine */
/*
 * Gives an endpoint its place: one in the lobby if it was accepted, else that
 * of rdmamsg__srq_enter(). -ENOBUFS when there is none left.
 */
int rdmamsg__srq_join(struct rdmamsg_ep *ep);
/* Out of the lobby: its floor, and receives for control messages. */
int rdmamsg__srq_enter(struct rdmamsg_ep *ep);
void rdmamsg__srq_leave(struct rdmamsg_ep *ep);
/* Has the device report when fewer receives than the limit are left. */
void rdmamsg__srq_arm(struct srq *q);
void rdmamsg__srqs_dev_free(struct dev *dev);
void rdmamsg__srqs_free(struct rdmamsg *ctx);
/*
 * Handles an event of a part. Returns true if on_event is to have it as well.
 */
bool rdmamsg__srq_event(struct rdmamsg *ctx, const void *ibv, int type);

/* srq_data.c: receiving */
/* The others of the same poll, up to the end, come next. */
void rdmamsg__srq_done(struct rdmamsg *ctx, const struct ibv_wc *wc,
		       const struct ibv_wc *end);
/* Has at least so many receives posted or ready, as far as it can. */
void rdmamsg__srq_fill(struct srq *q, uint32_t want);
/* Posts so many more than promised, and the limit at least. */
void rdmamsg__srq_raise(struct srq *q, uint32_t more);
void rdmamsg__srq_refill(struct rdmamsg_ep *ep);
void rdmamsg__srq_fail(struct srq *q, int err, const char *what);
/* Whether there is a receive for one more answer. */
bool rdmamsg__srq_can_answer(struct srq *q);
/* The message that is being delivered stays with the program. */
static inline void rdmamsg__srq_take_out(struct srq *q)
{
	q->slots[q->current].msg = NULL;
}

static inline uint32_t rdmamsg__srq_index(const struct srq *q)
{
	return (uint32_t)q->wr_id >> 24 & (SRQ_PARTS - 1);
}

/* Receives that each connection always has. */
static inline uint32_t rdmamsg__srq_place(const struct srq *q)
{
	return q->owner->opts.floor + SRQ_CTRL;
}

/* What may be promised beyond what every connection always has. */
static inline uint32_t rdmamsg__srq_spare(const struct srq *q)
{
	uint32_t fixed = q->eps * rdmamsg__srq_place(q) + q->lobby + q->extra;

	return q->capacity > fixed ? q->capacity - fixed : 0;
}

/*
 * Of that, what connections may have. An eighth, and the place of one at least,
 * is for connections to come.
 */
static inline uint32_t rdmamsg__srq_shared(const struct srq *q)
{
	uint32_t spare = rdmamsg__srq_spare(q);
	uint32_t keep = max(q->capacity / 8, rdmamsg__srq_place(q));

	return spare > keep ? spare - keep : 0;
}

/* Of all the floors, what is not out: it is for nobody else. */
static inline uint32_t rdmamsg__srq_kept(const struct srq *q)
{
	return q->eps * q->owner->opts.floor + q->extra - q->answers -
	       q->promised;
}

/* Rendezvous that we announce: there must be a receive for each DONE. */
static inline bool rdmamsg__rndv_room(const struct rdmamsg_ep *ep)
{
	return !ep->rndv.count || (ep->rndv.count < RNDV_MAX &&
	       (!ep->lane.srq || rdmamsg__srq_can_answer(ep->lane.srq)));
}

static inline void rdmamsg__rndv_more(struct rdmamsg_ep *ep)
{
	if (ep->lane.srq && ep->rndv.count) {
		ep->lane.srq->answers++;
		ep->lane.srq->extra++;
	}
	ep->rndv.count++;
}

static inline void rdmamsg__rndv_less(struct rdmamsg_ep *ep)
{
	ep->rndv.count--;
	if (ep->lane.srq && ep->rndv.count) {
		ep->lane.srq->answers--;
		ep->lane.srq->extra--;
	}
}

#endif
