/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations, and the reads that messages share with them. */
#ifndef RDMAMSG_LIB_RMA_H
#define RDMAMSG_LIB_RMA_H

/*
 * Posts what there is room for. True when that was all of it, and nothing of
 * it waits in the queue.
 */
bool rdmamsg__rma_pump(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__rma_request_done(struct rdmamsg_ep *ep, struct op *op,
			       int status);
/* A request of it could not be posted: the endpoint is on its way out. */
void rdmamsg__rma_lost(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__rma_end(struct rdmamsg_ep *ep, struct op *op, int status);
/* Notes the reason, if it was one of them that was refused. */
void rdmamsg__rma_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
void rdmamsg__rma_free(struct rdmamsg_ep *ep);
enum rdmamsg_atomic rdmamsg__atomic_scope(const struct rdmamsg_device *d);

/* Whether there is room for another one. */
static inline bool rdmamsg__rma_room(const struct rdmamsg_ep *ep)
{
	return !ep->rma || ep->rma_free;
}

/* The depth is shared: when both want more, they take turns. */
static inline bool rdmamsg__may_read(struct rdmamsg_ep *ep, enum reader who)
{
	bool may = ep->reads_free &&
		   (!ep->read_wants[!who] || ep->read_turn == who);

	ep->read_wants[who] = !may;
	return may;
}

static inline void rdmamsg__read_taken(struct rdmamsg_ep *ep, enum reader who)
{
	ep->reads_free--;
	ep->read_turn = !who;
}

#endif
