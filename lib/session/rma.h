/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations, and the reads that messages share with them. */
#ifndef RDMAMSG_LIB_RMA_H
#define RDMAMSG_LIB_RMA_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "base/ctx.h"
#include "session/ep.h"

#define RMA_MAX		256	/* operations under way */
/*
 * A device holds back what goes beyond the depth of reads by itself, without
 * a completion for each. Left to it are those that all together delay what
 * is behind them no more than a large one does.
 */
#define RMA_SMALL	(READ_CHUNK / RMA_MAX)

enum rma_kind {
	RMA_WRITE,
	RMA_BIND,
	RMA_INVALIDATE,
	/* the depth of these was agreed with the peer */
	RMA_READ,
	RMA_FETCH_ADD,
	RMA_COMPARE_SWAP,
};

struct rma_entry {
	uint64_t addr;
	uint64_t len;
	uint32_t lkey;
	struct rdmamsg_region *region;	/* NULL: it has been copied */
};

struct rma {
	struct op op;			/* first */
	enum rma_kind kind;
	bool begun;			/* its first request is posted */
	bool counted;			/* its requests, in reads_free */
	bool fence;
	bool no_cpu;			/* a dmabuf: not to be copied */
	bool notify;			/* WRITTEN is still to be sent */
	uint32_t value;			/* in it */
	uint32_t posted;		/* requests under way */
	uint64_t raddr;			/* of the next request */
	uint64_t left;
	uint32_t rkey;
	uint64_t peer_region;
	uint64_t operand, expected;
	uint64_t *result;
	struct rdmamsg_window *window;
	uint32_t entries, at;		/* the next request: gather entry, */
	uint64_t offset;		/* offset in it */
	struct rma_entry entry[RDMAMSG_SEGMENTS_MAX];
};

static inline bool rdmamsg__rma_is_read(const struct rma *r)
{
	return r->kind >= RMA_READ;
}

/* rma.c. -EAGAIN, -ENOMEM */
int rdmamsg__rma_get(struct rdmamsg_ep *ep, struct rma **ret);
void rdmamsg__rma_put(struct rdmamsg_ep *ep, struct rma *r);
/* Posts it or has it wait; it is accepted. */
void rdmamsg__rma_start(struct rdmamsg_ep *ep, struct rma *r);
/* The request of an atomic operation, but for its flags. */
struct tx_entry;
void rdmamsg__rma_fill_atomic(const struct rdmamsg_ep *ep,
			      const struct rma *r, struct tx_entry *e);
/* What is left goes with the request itself, which can be posted now. */
bool rdmamsg__rma_inline_now(const struct rdmamsg_ep *ep, const struct rma *r);
void rdmamsg__rma_copy(const struct rma *r, uint8_t *dst);

/*
 * Posts what there is room for. True when that was all of it, and nothing of
 * it waits in the queue.
 */
bool rdmamsg__rma_pump(struct rdmamsg_ep *ep, struct op *op);
/* Reads are under way that a request behind them has still to prove. */
bool rdmamsg__rma_unproven(const struct rdmamsg_ep *ep);
void rdmamsg__rma_request_done(struct rdmamsg_ep *ep, struct op *op,
			       int status);
/* A request of it could not be posted: the endpoint is on its way out. */
void rdmamsg__rma_lost(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__rma_end(struct rdmamsg_ep *ep, struct op *op, int status);
/* Notes the reason, if it was one of them that was refused. */
void rdmamsg__rma_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
void rdmamsg__rma_free(struct rdmamsg_ep *ep);
/* What both sides and the device can do: of 1 << enum rma_kind. */
uint8_t rdmamsg__rma_kinds(const struct rdmamsg_ep *ep);

/* Whether there is room for another one. */
static inline bool rdmamsg__rma_room(const struct rdmamsg_ep *ep)
{
	return !ep->onesided.all || ep->onesided.free;
}

/* The depth is shared: when both want more, they take turns. */
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
