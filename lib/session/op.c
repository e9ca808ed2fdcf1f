/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory and end of operations. An endpoint with its own receives allocates all
 * op_max operations at the start. An endpoint with a shared receive queue, one
 * of many, allocates more when it first needs them.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/util.h"
#include "memory/pool.h"
#include "session/deadline.h"
#include "session/ep.h"
#include "session/lent.h"
#include "session/rma.h"
#include "session/send.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define OPS_FEW	7	/* with the endpoint and its slots: 4 KB */

struct op_chunk {
	struct op_chunk *next;
	struct op ops[];
};

/* These do not count: as many others can be outstanding. */
static uint32_t count_untold(const struct rdmamsg_ep *ep)
{
	const struct op *last = ep->send.untold, *op = last;
	uint32_t n = 0;

	while (op) {
		n++;
		op = op->next != last ? op->next : NULL;
	}
	return n;
}

int rdmamsg__ops_grow(struct rdmamsg_ep *ep)
{
	const uint32_t most = ep->send.op_max + count_untold(ep);
	uint32_t n = most - min(most, ep->send.op_count);
	struct op_chunk *chunk;

	if (ep->lane.srq)
		n = min(n, max((uint32_t)OPS_FEW, ep->send.op_count));
	if (!n)
		return -EAGAIN;
	chunk = calloc(1, sizeof(*chunk) + n * sizeof(chunk->ops[0]));
	if (!chunk)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	chunk->next = ep->send.op_chunks;
	ep->send.op_chunks = chunk;
	ep->send.op_count += n;
	for (uint32_t i = 0; i < n; i++) {
		list_init(&chunk->ops[i].node);
		chunk->ops[i].next = ep->send.op_free;
		ep->send.op_free = &chunk->ops[i];
	}
	return 0;
}

void rdmamsg__ops_free(struct rdmamsg_ep *ep)
{
	while (ep->send.op_chunks) {
		struct op_chunk *chunk = ep->send.op_chunks;

		ep->send.op_chunks = chunk->next;
		free(chunk);
	}
	ep->send.op_free = NULL;
	ep->send.op_count = 0;
}

struct op *rdmamsg__op_get(struct rdmamsg_ep *ep)
{
	struct op *op = ep->send.op_free;

	if (unlikely(!op) && !rdmamsg__try(rdmamsg__ops_grow(ep)))
		op = ep->send.op_free;
	if (likely(op)) {
		ep->send.op_free = op->next;
		op->status = 0;
		op->cookie = NULL;
		op->msg = NULL;
		op->rndv = NULL;
		op->in = NULL;
		op->tell = TELL_PROGRAM;
		op->piece = PIECE_NONE;
	}
	return op;
}

void rdmamsg__op_put(struct rdmamsg_ep *ep, struct op *op)
{
	op->next = ep->send.op_free;
	ep->send.op_free = op;
}

bool rdmamsg__op_has(const struct op *op, const void *cookie)
{
	if (op->kind == OP_CTRL || op->tell == TELL_WAITER)
		return false;
	return cookie == (op->tell == TELL_DEADLINE ?
			  rdmamsg__deadline_cookie(op->cookie) : op->cookie);
}

/* The cookie is not the program's. */
static void __attribute__((noinline))
complete_other(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct rdmamsg_waiter *waiter = op->cookie;

	if (op->tell == TELL_DEADLINE) {
		rdmamsg__deadline_stop(ep, op->cookie);
		rdmamsg__tell_late(ep, op, status);
		return;
	}
	rdmamsg__op_put(ep, op);
	*waiter = (struct rdmamsg_waiter){ true, status };
}

/* Ends an accepted operation. Only one-sided operations end elsewhere. */
void rdmamsg__op_complete(struct rdmamsg_ep *ep, struct op *op, int status)
{
	void *cookie = op->cookie;

	if (op->msg)
		rdmamsg__msg_done(op->msg);
	if (op->rndv)
		/* the key is dead before the memory is anybody's again */
		rdmamsg__rndv_free(ep, op->rndv);
	if (op->tell) {
		complete_other(ep, op, status);
		return;
	}
	if (unlikely(ep->send.late) && cookie) {
		rdmamsg__tell_late(ep, op, status);
		return;
	}
	rdmamsg__op_put(ep, op);
	if (cookie)
		rdmamsg__tell(&ep->ctx->loop, ep->on.on_complete, ep, cookie,
			      status);
}

void rdmamsg__tell_late(struct rdmamsg_ep *ep, struct op *op, int status)
{
	struct op *last = ep->send.untold;

	op->status = status;
	op->next = last ? last->next : op;
	if (last)
		last->next = op;
	ep->send.untold = op;
	ep->send.late |= LATE_UNTOLD;
	rdmamsg__tell_untold(ep);
}

static struct op *take_untold(struct rdmamsg_ep *ep)
{
	struct op *last = ep->send.untold, *op = last->next;

	last->next = op->next;
	if (op == last) {
		ep->send.untold = NULL;
		ep->send.late &= (uint8_t)~LATE_UNTOLD;
	}
	return op;
}

static void put(struct rdmamsg_ep *ep, struct op *op)
{
	if (op->kind == OP_RMA)
		rdmamsg__rma_put(ep, (struct rma *)op);
	else
		rdmamsg__op_put(ep, op);
}

void rdmamsg__tell_untold(struct rdmamsg_ep *ep)
{
	const struct op *op = NULL, *last = ep->send.untold;

	while (ep->send.late == LATE_UNTOLD && op != last) {
		struct op *next = take_untold(ep);
		const uint8_t tell = next->tell;
		void *cookie = next->cookie;
		int status = next->status;

		next->tell = TELL_PROGRAM;
		put(ep, next);
		op = next;
		if (unlikely(tell == TELL_DEADLINE))
			rdmamsg__deadline_tell(ep, cookie, status);
		else
			rdmamsg__tell(&ep->ctx->loop, ep->on.on_complete, ep,
				      cookie, status);
	}
}
