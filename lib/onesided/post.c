/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg_post(): what does the work of a kind. */
#include "base/base.h"
#include "base/op.h"
#include "onesided/rma_ask.h"
#include "onesided/send_entries.h"
#include "session/deadline.h"
#include "session/op.h"
#include "session/send.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

static const struct op_taker taker = {
	.call = "rdmamsg_post", .kinds = OP_KINDS_ALL, .times = true,
	.send = OP_HAS(cookie) | OP_HAS(sge) | OP_HAS(count) | OP_HAS(tag) |
		OP_HAS(key) | OP_HAS(layout) | OP_HAS(offset) | OP_HAS(len),
};

static struct rma_ask ask_of(const struct rdmamsg_op *op)
{
	const uint32_t notify = op->kind == RDMAMSG_OP_WRITE ?
				op->flags & RDMAMSG_OP_NOTIFY : 0;

	return (struct rma_ask){
		.entry = op->sge, .count = (int)op->count, .key = op->key,
		.offset = op->offset, .result = op->result,
		.flags = op->flags & ~notify, .cookie = op->cookie,
		.value = op->imm, .notify = notify,
	};
}

static int post_write(struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	struct rma_ask a;

	if (!(op->flags & RDMAMSG_OP_NOTIFY))
		return rdmamsg_write(ep, op->sge, (int)op->count, op->key,
				     op->offset, op->flags, op->cookie);
	a = ask_of(op);
	a.kind = RMA_WRITE;
	return rdmamsg__rma_ask(ep, &a);
}

static int post_masked(struct rdmamsg_ep *ep, const struct rdmamsg_op *op,
		       enum tell tell)
{
	struct rma_ask a = ask_of(op);
	struct masked m;
	int err = rdmamsg__masked_take(&m, op, "rdmamsg_post");

	a.tell = (uint8_t)tell;
	return err ? err : rdmamsg__masked_issue(ep, &m, &a);
}

/* The operands of an atomic operation without masks. */
static int take_operands(const struct rdmamsg_op *op, uint64_t *operand,
			 uint64_t *compare)
{
	const bool swaps = op->kind == RDMAMSG_OP_COMPARE_SWAP;

	if (!op->operand || (swaps && !op->compare))
		return rdmamsg__fail(-EINVAL, "rdmamsg_post: %s is NULL",
				     op->operand ? "compare" : "operand");
	memcpy(operand, op->operand, sizeof(*operand));
	if (swaps)
		memcpy(compare, op->compare, sizeof(*compare));
	return 0;
}

static int post_atomic(struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	uint64_t operand, compare = 0;
	int err;

	if (op->width)
		return post_masked(ep, op, TELL_PROGRAM);
	err = take_operands(op, &operand, &compare);
	if (err)
		return err;
	if (op->kind == RDMAMSG_OP_FETCH_ADD)
		return rdmamsg_fetch_add(ep, op->key, op->offset, operand,
					 op->result, op->flags, op->cookie);
	return rdmamsg_compare_swap(ep, op->key, op->offset, compare, operand,
				    op->result, op->flags, op->cookie);
}

static int post_send(struct rdmamsg_ep *ep, const struct rdmamsg_op *op,
		     enum tell tell)
{
	if (op->layout)
		return rdmamsg__layout_send(ep, op->layout, op->offset,
					    op->len, op->tag, op->cookie, tell);
	return rdmamsg__send_entries(ep, op->sge, (int)op->count, op->tag,
				     op->key, op->cookie, tell);
}

/* ---- with a deadline --------------------------------------------------- */

/* The short forms have none. */
static int issue(struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	static const enum rma_kind kinds[] = {
		[RDMAMSG_OP_WRITE] = RMA_WRITE, [RDMAMSG_OP_READ] = RMA_READ,
		[RDMAMSG_OP_FETCH_ADD] = RMA_FETCH_ADD,
		[RDMAMSG_OP_COMPARE_SWAP] = RMA_COMPARE_SWAP,
	};
	struct rma_ask a;
	int err = 0;

	if (op->kind == RDMAMSG_OP_SEND)
		return post_send(ep, op, TELL_DEADLINE);
	if (op->kind == RDMAMSG_OP_FLUSH)
		return rdmamsg__rma_flush(ep, op->cookie, TELL_DEADLINE);
	if (op->width)
		return post_masked(ep, op, TELL_DEADLINE);
	a = ask_of(op);
	a.kind = kinds[op->kind];
	a.tell = TELL_DEADLINE;
	if (a.kind == RMA_FETCH_ADD || a.kind == RMA_COMPARE_SWAP) {
		a.bytes = sizeof(a.operand);
		err = take_operands(op, &a.operand, &a.expected);
	}
	return err ? err : rdmamsg__rma_ask(ep, &a);
}

static int post_until(struct rdmamsg_ep *ep, struct rdmamsg_op *op)
{
	struct op_deadline *d;
	int err;

	if (!op->timeout_ms || !op->cookie || op->timeout_ms > INT32_MAX)
		return rdmamsg__fail(-EINVAL, "rdmamsg_post: %s",
				     !op->timeout_ms ?
				     "on_late without timeout_ms" :
				     !op->cookie ?
				     "timeout_ms needs a cookie" :
				     "timeout_ms is above INT32_MAX");
	err = rdmamsg__deadline_new(ep, op, &d);
	if (err)
		return err;
	op->cookie = d;
	err = issue(ep, op);
	if (err)
		rdmamsg__deadline_drop(ep, d);
	return err;
}

/* ---- public ------------------------------------------------------------ */

int rdmamsg_post(struct rdmamsg_ep *ep, const struct rdmamsg_op *given)
{
	struct rdmamsg_op op;
	int err = rdmamsg__tx_check(ep);

	if (!err)
		err = rdmamsg__op_take(&op, given, &taker);
	if (err)
		return err;
	if (op.timeout_ms || op.on_late)
		return post_until(ep, &op);
	switch (op.kind) {
	case RDMAMSG_OP_SEND:
		return post_send(ep, &op, TELL_PROGRAM);
	case RDMAMSG_OP_WRITE:
		return post_write(ep, &op);
	case RDMAMSG_OP_READ:
		return rdmamsg_read(ep, op.sge, (int)op.count, op.key,
				    op.offset, op.flags, op.cookie);
	case RDMAMSG_OP_FLUSH:
		return rdmamsg_flush(ep, op.cookie);
	default:
		return post_atomic(ep, &op);
	}
}
