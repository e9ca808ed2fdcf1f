/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics. If both devices have them, an operation is one request.
 * Otherwise it is a loop of tries. Each try is one compare-and-swap of the
 * aligned word of 8 bytes, and needs no other right than atomics. The first try
 * guesses the value. If it fails, its answer is the value that the next try
 * expects. A try fails only because another atomic has changed the word.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/masked.h"
#include "lane/batch.h"
#include "memory/memory.h"
#include "session/ep.h"
#include "session/rma.h"
#include "session/send.h"
#include "session/tx.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

/* ---- in software ------------------------------------------------------- */

/* Prepares a try for a word with this value. */
static void aim(struct rma *r, uint64_t word)
{
	r->expected = word;
	r->operand = masked_made(&r->masked, word);
}

/* Moves 4 bytes to their place in the word. */
static void emulate(struct rma *r, const struct masked *m)
{
	r->shift = masked_shift(r->raddr, m->size);
	r->masked = *m;
	masked_place(&r->masked, r->shift);
	r->raddr &= ~(sizeof(uint64_t) - 1);
	r->left = sizeof(uint64_t);
	r->tries = MASKED_TRIES;
	aim(r, masked_guess(&r->masked));
}

bool rdmamsg__masked_answer(struct rma *r, uint64_t was)
{
	if (was == r->expected)
		return true;
	aim(r, was);
	if (r->operand == was)
		return true;		/* there is nothing to change */
	if (--r->tries)
		return false;
	r->op.status = -EBUSY;
	return true;
}

/* ---- by the device ----------------------------------------------------- */

/* The request itself has the operands. A buffer takes the answer. */
static int prepare(struct rdmamsg_ep *ep, struct rma *r, const struct masked *m)
{
	_Static_assert(MASKED_MAX <= PROTO_RECV_MIN, "an answer");
	r->op.msg = rdmamsg__send_buffer(ep);
	if (!r->op.msg) {
		ep->onesided.wanted = true;
		return rdmamsg__no_buffer(ep);
	}
	r->masked = *m;
	r->left = m->size;
	return 0;
}

void rdmamsg__masked_post(struct rdmamsg_ep *ep, struct rma *r)
{
	struct ibv_sge sge = {
		(uintptr_t)r->op.msg->buf, r->masked.size, r->op.msg->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1,
		/* without the flag, rdmamsg__rma_pump() has waited */
		.send_flags = r->fence && !ep->lane.came ? IBV_SEND_FENCE : 0,
		.wr.atomic = { .remote_addr = r->raddr, .rkey = r->rkey },
	};

	rdmamsg__tx_flush(ep->ctx);	/* earlier requests come first */
	rdmamsg__rma_begin(ep, r);
	if (r->counted)
		rdmamsg__read_taken(ep, READ_RMA);
	r->left = 0;
	r->posted++;
	ep->st.sent_inline--;		/* by default all count as inline */
	rdmamsg__lane_masked(&ep->lane, &r->op, &wr, &r->masked);
	rdmamsg__tx_room(ep);
}

/* ---- both -------------------------------------------------------------- */

int rdmamsg__masked_begin(struct rdmamsg_ep *ep, struct rma *r,
			  const struct masked *m)
{
	if (r->kind == RMA_MASKED)
		return prepare(ep, r, m);
	emulate(r, m);
	return 0;
}

void rdmamsg__masked_result(const struct rdmamsg_ep *ep, const struct rma *r,
			    const uint64_t *was)
{
	if (r->kind == RMA_EMULATED) {
		masked_out(&r->masked, r->shift, *was, r->result);
		return;
	}
	memcpy(r->result, r->op.msg->buf, r->masked.size);
	if (ep->lane.masked_swapped)
		masked_swap_bytes(r->result, r->masked.size);
}
