/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues. What a program makes has a part on each device that
 * it meets, and each part keeps this promise: whatever the peers of its
 * endpoints may send by the rules, a receive is posted for it.
 *
 *   posted + ready >= in flight + kept + batch	(srq_account.h)
 *
 * The batch is what may have been used and not yet been posted again. What is
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
#include "lane/srq_account.h"

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
	struct srq_account account;
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
/* The part on a device, made if need be. */
int rdmamsg__srq_part(struct rdmamsg_srq *srq, struct dev *dev,
		      struct srq **ret);
/* A part that has failed, and that no endpoint uses any more. */
void rdmamsg__srq_part_free(struct srq *q);
/* Has the device report when fewer receives than the limit are left. */
void rdmamsg__srq_arm(struct srq *q);
void rdmamsg__srqs_dev_free(struct dev *dev);
void rdmamsg__srqs_free(struct rdmamsg *ctx);
/*
 * Handles an event of a part. Returns true if on_event is to have it as well.
 */
bool rdmamsg__srq_event(struct rdmamsg *ctx, const void *ibv, int type);

/* srq_slots.c: receives */
/* Has at least so many receives posted or ready, as far as it can. */
void rdmamsg__srq_fill(struct srq *q, uint32_t want);
/* Posts so many more than promised, and the limit at least. */
void rdmamsg__srq_raise(struct srq *q, uint32_t more);
/*
 * Receives for all that is promised and kept, and some more. Returns false if
 * memory lacks.
 */
bool rdmamsg__srq_back(struct srq *q, uint32_t more);
/* Gives buffers to slots without, as far as there is memory. 0, -errno */
int rdmamsg__srq_fill_holes(struct srq *q, uint32_t n);
/*
 * Of n credits, as many as there are receives for. 'own' of them are the rest
 * of an endpoint's floor; what is left of the others' is not touched.
 */
uint32_t rdmamsg__srq_covered(struct srq *q, uint32_t n, uint32_t own);
/* Posts what is due, if that is a batch. */
void rdmamsg__srq_post(struct srq *q);
/* Whether there is a receive for one more answer. */
bool rdmamsg__srq_can_answer(struct srq *q);
/*
 * A receive has completed: its part, whose current slot it is until
 * rdmamsg__srq_again(). NULL if it is none of ours.
 */
struct srq *rdmamsg__srq_completed(const struct lanes *lanes, uint64_t wr_id);
/* Of the next one: its memory will be looked at. */
void rdmamsg__srq_foresee(const struct srq *q, uint64_t wr_id);
void rdmamsg__srq_again(struct srq *q);

/* The message that is being delivered, and that it stays with the program. */
static inline struct rdmamsg_msg *rdmamsg__srq_current(const struct srq *q)
{
	return q->slots[q->current].msg;
}
static inline void rdmamsg__srq_take_out(struct srq *q)
{
	q->slots[q->current].msg = NULL;
}

static inline uint32_t rdmamsg__srq_index(const struct srq *q)
{
	return (uint32_t)q->wr_id >> 24 & (SRQ_PARTS - 1);
}

#endif
