/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues. A program's queue has a part on each device that it is
 * used on. Each part keeps a promise, unless overcommit > 100: if the peers of
 * its endpoints obey the protocol, each message finds a posted receive.
 *
 *   posted + ready >= in flight + kept + batch  (srq_account.h)
 *
 * The batch is the number of receives that may be used and not yet posted
 * again. Ready receives beyond that are left from a time with more endpoints.
 * They are not posted, because the device uses receives in turn, and fewer
 * receives stay in the cache.
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

#define SRQ_BATCH	32	/* largest number posted together */
#define SRQ_SLOTS	(1u << 24)
#define SRQ_KEY		0xffffffffu	/* no endpoint has this key */
#define SRQ_NONE	UINT32_MAX	/* no slot */

struct srq_slot {
	struct rdmamsg_msg *msg;	/* NULL: the program keeps the buffer */
	uint32_t next;			/* in the ready list or the hole list */
	bool posted;
};

/* The part of a shared receive queue on one device. */
struct srq {
	struct ibv_srq *ibv;
	struct dev *dev;
	struct rdmamsg_srq *owner;
	struct pool *pool;
	struct cq *cq;
	uint64_t wr_id;			/* of slot 0 */
	struct srq_slot *slots;
	uint32_t depth;
	uint32_t active;		/* slots ever used */
	uint32_t current;		/* slot being delivered, or SRQ_NONE */
	uint32_t batch;
	uint32_t posted;
	uint32_t ready, ready_count;	/* ready to post, last in first out */
	uint32_t more;			/* beyond base(), after low water */
	uint32_t limit;			/* for the device's event; 0: none */
	uint32_t arm_at;		/* arm when posted >= arm_at */
	uint32_t holes, hole_count;	/* active slots without a buffer */
	struct srq_account account;
	bool failed;
	bool lacks;			/* holes, and the pool lacks buffers */
	struct rdmamsg_srq_stats st;
	struct list node;		/* in owner->parts */
	struct list dev_node;
	struct ibv_recv_wr wr[SRQ_BATCH];	/* chained */
	struct ibv_sge sge[SRQ_BATCH];
};

struct rdmamsg_srq {
	struct list node;		/* in lanes->srq_list */
	struct rdmamsg *ctx;
	int refs;			/* program, listeners, endpoints */
	struct rdmamsg_srq_options opts;
	struct rdmamsg_srq_stats st;	/* of parts that are freed */
	uint32_t object;		/* number in the context */
	struct list parts;
};

static inline uint32_t rdmamsg__srq_batch(uint32_t depth)
{
	return min(max(depth / 8, 1u), (uint32_t)SRQ_BATCH);
}

/* srq.c: made, shared, freed */
/* Copies the options, and sets defaults. */
int rdmamsg__srq_options_set(struct rdmamsg_srq_options *o,
			     const struct rdmamsg_srq_options *opts);
int rdmamsg__srq_options_check(const struct rdmamsg *ctx,
			       const struct rdmamsg_srq *srq);
static inline void rdmamsg__srq_hold(struct rdmamsg_srq *srq)
{
	if (srq)
		srq->refs++;
}
void rdmamsg__srq_rele(struct rdmamsg_srq *srq);	/* NULL is allowed */
/* Returns the part on a device. Makes it if needed. */
int rdmamsg__srq_part(struct rdmamsg_srq *srq, struct dev *dev,
		      struct srq **ret);
/* Frees a part that has failed and has no endpoints. */
void rdmamsg__srq_part_free(struct srq *q);
/*
 * Makes the device raise an event when fewer than q->limit receives are left.
 */
void rdmamsg__srq_arm(struct srq *q);
void rdmamsg__srqs_dev_free(struct dev *dev);
void rdmamsg__srqs_free(struct rdmamsg *ctx);
/* Handles an event of a part. Returns true if on_event gets the event, too. */
bool rdmamsg__srq_event(struct rdmamsg *ctx, const void *ibv, int type);

/* srq_slots.c: receives */
/* Makes 'want' receives posted or ready, as far as possible. */
void rdmamsg__srq_fill(struct srq *q, uint32_t want);
/* Posts 'more' receives beyond the promise, and at least q->limit. */
void rdmamsg__srq_raise(struct srq *q, uint32_t more);
/*
 * Makes receives for all that is promised and kept, and 'more' of them. Returns
 * false if memory is lacking.
 */
bool rdmamsg__srq_back(struct srq *q, uint32_t more);
/* Gives buffers to up to n holes. Returns 0 or -errno. */
int rdmamsg__srq_fill_holes(struct srq *q, uint32_t n);
/*
 * Returns how many of n credits have receives. 'own' of the credits are the
 * rest of an endpoint's floor. The rest of the other endpoints' floors is not
 * used.
 */
uint32_t rdmamsg__srq_covered(struct srq *q, uint32_t n, uint32_t own);
/* Posts the receives that are due, if there is a batch of them. */
void rdmamsg__srq_post(struct srq *q);
/* Returns true if there is a receive for one more answer. */
bool rdmamsg__srq_can_answer(struct srq *q);
/*
 * A receive has completed. Returns its part, or NULL if the receive is unknown.
 * The slot is current until rdmamsg__srq_again().
 */
struct srq *rdmamsg__srq_completed(const struct lanes *lanes, uint64_t wr_id);
/* Prefetches the message of the next completion. */
void rdmamsg__srq_foresee(const struct srq *q, uint64_t wr_id);
void rdmamsg__srq_again(struct srq *q);

/*
 * The message that is being delivered. rdmamsg__srq_take_out() leaves it to the
 * program.
 */
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
