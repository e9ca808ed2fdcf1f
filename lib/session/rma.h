/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations, and reads, which large messages use as well. */
#ifndef RDMAMSG_LIB_RMA_H
#define RDMAMSG_LIB_RMA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "base/ctx.h"
#include "base/masked.h"
#include "session/credit.h"
#include "session/ep.h"

#define RMA_MAX		256	/* outstanding operations */
/*
 * The library counts reads above this size against the initiator depth. Smaller
 * reads are not counted and need no completion each: the device itself delays
 * those beyond the depth. RMA_MAX of them delay later requests no longer than
 * one large read does.
 *
 * Where completions prove only themselves, all reads are counted, with the
 * proofs. On siw a read beyond the depth stops the send queue, and the answers
 * to the peer's reads wait behind it (Linux 6.1, siw_qp.c,
 * siw_activate_tx_from_sq(); siw_qp_rx.c, siw_init_rresp()): two sides beyond
 * their depths would wait for each other.
 */
#define RMA_SMALL	(READ_CHUNK / RMA_MAX)

enum rma_kind {
	RMA_WRITE,
	RMA_BIND,
	RMA_INVALIDATE,
	/* these share the initiator depth, agreed with the peer */
	RMA_READ,
	RMA_FETCH_ADD,
	RMA_COMPARE_SWAP,
	RMA_EMULATED,			/* masked, by compare-and-swap */
	RMA_MASKED,			/* masked, by the device */
};

/* rma.after */
#define AFTER_ANSWER	1u		/* CLOSE has waited for the answer */
#define AFTER_DEADLINE	((unsigned int)TELL_DEADLINE)

struct rma_entry {
	uint64_t addr;			/* of a layout: the offset */
	uint64_t len;
	uint32_t lkey;
	struct rdmamsg_region *region;	/* NULL: the data was copied */
};

struct rma {
	struct op op;			/* first */
	enum rma_kind kind;
	bool begun;			/* the first request is posted */
	bool again;			/* begins anew, and keeps op.number */
	bool counted;			/* requests count in reads.free */
	bool fence;
	bool no_cpu;			/* a dmabuf, cannot be copied */
	bool scattered;			/* has a layout on either side */
	bool notify;			/* 'value' must still be sent */
	uint8_t after;			/* AFTER_*: what its end brings */
	bool refused;			/* by the peer's device, once */
	bool flush;			/* a write of nothing, see rma_suit() */
	/* rdmamsg__tx_proof() behind the requests */
	enum { PROOF_NONE, PROOF_DUE, PROOF_POSTED, PROOF_AWAITED } proof;
	uint32_t value;			/* of on_written */
	uint32_t posted;		/* requests outstanding */
	uint32_t order;			/* resume.begun of the first request */
	uint32_t made;			/* resume.lanes, whose keys it has */
	/* of the next request; in 'far' the offset */
	uint64_t raddr;
	struct layout_import *far;	/* NULL: rkey is the peer's */
	uint64_t left;
	uint32_t rkey;
	uint32_t given;			/* rkey in the key of the program */
	uint64_t peer_region;
	uint64_t operand, expected;
	void *result;
	struct rdmamsg_window *window;
	uint32_t entries, at;		/* next request: gather entry 'at', */
	uint64_t offset;		/* and offset in this entry */
	uint32_t tries;			/* emulated: left */
	uint32_t shift;			/* emulated: of 4 bytes in the word */
	union {
		struct rma_entry entry[RDMAMSG_SEGMENTS_MAX];
		struct masked masked;	/* a masked atomic has no entries */
	};
};

static inline bool rdmamsg__rma_is_read(const struct rma *r)
{
	return r->kind >= RMA_READ;
}

static inline bool rdmamsg__rma_is_atomic(const struct rma *r)
{
	return r->kind >= RMA_FETCH_ADD;
}

/*
 * The first request is posted. On another lane the operation keeps its place
 * between the messages and among the operations. Both count in the session,
 * because some operations may wait while a lane comes and goes.
 */
static inline void rdmamsg__rma_begin(const struct rdmamsg_ep *ep,
				      struct rma *r)
{
	if (!r->again) {
		r->op.number = rdmamsg__tx_number(ep);
		r->order = ep->resume ? ep->resume->begun++ : 0;
	}
	r->begun = true;
}

static inline uint64_t *rdmamsg__rma_result(const struct rdmamsg_ep *ep,
					   const struct rma *r)
{
	return (uint64_t *)ep->onesided.results->buf + (r - ep->onesided.all);
}

/*
 * Stands in place of a result until it comes. The number of a session is random,
 * so this is no value that an atomic finds.
 */
static inline uint64_t rdmamsg__rma_no_result(const struct rdmamsg_ep *ep)
{
	uint64_t mark;

	memcpy(&mark, ep->connect.session, sizeof(mark));
	return mark;
}

/* Returns true if all data of the operation fits inline. */
static inline bool rdmamsg__rma_fits_inline(const struct rdmamsg_ep *ep,
					    const struct rma *r)
{
	return r->kind == RMA_WRITE && ep->send.can_inline && !r->begun &&
	       r->left <= ep->send.inline_max && !r->no_cpu && !r->scattered;
}

/* Gather entries of one request. */
static inline uint32_t rdmamsg__rma_entries(const struct rdmamsg_ep *ep)
{
	return min(ep->lane.cap.max_send_sge, (uint32_t)RDMAMSG_SEGMENTS_MAX);
}

/* rma_op.c */
/* -EAGAIN, -ENOMEM */
int rdmamsg__rma_get(struct rdmamsg_ep *ep, struct rma **ret);
void rdmamsg__rma_put(struct rdmamsg_ep *ep, struct rma *r);
/*
 * Sets what the lane asks for: whether the requests of the operation count, and
 * whether a proof must follow because their completions do not do.
 */
void rdmamsg__rma_suit(const struct rdmamsg_ep *ep, struct rma *r);
/* Accepts an operation: posts or queues it. */
void rdmamsg__rma_start(struct rdmamsg_ep *ep, struct rma *r);
/* CLOSE is to wait for the answers of all reads that are posted. */
void rdmamsg__rma_await(struct rdmamsg_ep *ep);
/* Returns true if the operation fits inline and can be posted now. */
bool rdmamsg__rma_inline_now(struct rdmamsg_ep *ep, const struct rma *r);

/*
 * Posts requests of an operation while there is room. Returns true if all of
 * them are posted.
 */
bool rdmamsg__rma_pump(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__rma_request_done(struct rdmamsg_ep *ep, struct op *op,
			       int status);
/* A request of op could not be posted. The endpoint is ending. */
void rdmamsg__rma_lost(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__rma_end(struct rdmamsg_ep *ep, struct op *op, int status);
/* Sets the reason, if wc is of a one-sided operation that was refused. */
void rdmamsg__rma_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
void rdmamsg__rma_free(struct rdmamsg_ep *ep);
/* Returns bits 1 << enum rma_kind that both sides and the device support. */
uint8_t rdmamsg__rma_kinds(const struct rdmamsg_ep *ep);

/* rma_request.c */
struct tx_entry;
/* Returns the limit for gather entries of one read. */
uint32_t rdmamsg__read_entries(const struct rdmamsg_ep *ep);
/* Fills the next request of an operation. Returns its length. */
uint32_t rdmamsg__rma_fill(struct rdmamsg_ep *ep, struct rma *r,
			   struct tx_entry *e);
/* Fills the request of an atomic operation, except its flags. */
void rdmamsg__rma_fill_atomic(const struct rdmamsg_ep *ep,
			      const struct rma *r, struct tx_entry *e);
void rdmamsg__rma_copy(const struct rma *r, uint8_t *dst);

/* masked.c */
/* Takes the operand, and prepares the request or the first try. -EAGAIN */
int rdmamsg__masked_begin(struct rdmamsg_ep *ep, struct rma *r,
			  const struct masked *m);
/* Posts the only request of a masked atomic that the device executes. */
void rdmamsg__masked_post(struct rdmamsg_ep *ep, struct rma *r);
/* Gives the program the previous value. 'was' is the answer to a try. */
void rdmamsg__masked_result(const struct rdmamsg_ep *ep, const struct rma *r,
			    const uint64_t *was);

/*
 * Takes the answer of a try. Returns false if another try must follow, which
 * then is prepared.
 */
bool rdmamsg__masked_answer(struct rma *r, uint64_t was);

/* Returns true if there is room for another operation. */
static inline bool rdmamsg__rma_room(const struct rdmamsg_ep *ep)
{
	return !ep->onesided.all || ep->onesided.free;
}

/* Both readers share the depth. If both want to read, they take turns. */
static inline bool rdmamsg__may_read(struct rdmamsg_ep *ep, enum reader who)
{
	bool may = ep->reads.free &&
		   (!ep->reads.wants[!who] || ep->reads.turn == who);

	ep->reads.wants[who] = !may;
	return may;
}

static inline void rdmamsg__read_taken(struct rdmamsg_ep *ep, enum reader who)
{
	ep->reads.free--;
	ep->reads.turn = !who;
}

#endif
