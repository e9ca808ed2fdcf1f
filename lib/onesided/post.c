/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg_post(): which fields a kind uses, and what does its work. */
#include "base/base.h"
#include "onesided/post.h"
#include "onesided/rma_ask.h"
#include "onesided/send_entries.h"
#include "session/send.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* The fields that only some kinds use. */
#define FIELDS(F) \
	F(flags) F(sge) F(count) F(tag) F(imm) F(width) F(key) F(offset) \
	F(layout) F(len) F(operand) F(compare) F(mask) F(compare_mask) F(result)

enum {
#define INDEX(name)	AT_##name,
	FIELDS(INDEX)
#undef INDEX
};

#define IS(name)	(1u << AT_##name)
#define ENTRIES		(IS(flags) | IS(sge) | IS(count) | IS(key) | IS(offset))
#define ATOMIC		(IS(flags) | IS(width) | IS(key) | IS(offset) | \
			 IS(operand) | IS(mask) | IS(result))

static const uint32_t uses[] = {
	[RDMAMSG_OP_SEND] = IS(sge) | IS(count) | IS(tag) | IS(key) |
			    IS(layout) | IS(offset) | IS(len),
	[RDMAMSG_OP_WRITE] = ENTRIES | IS(imm),
	[RDMAMSG_OP_READ] = ENTRIES,
	[RDMAMSG_OP_FETCH_ADD] = ATOMIC,
	[RDMAMSG_OP_COMPARE_SWAP] = ATOMIC | IS(compare) | IS(compare_mask),
	[RDMAMSG_OP_FLUSH] = 0,
};

static const char *const kind_names[] = {
	[RDMAMSG_OP_SEND] = "SEND", [RDMAMSG_OP_WRITE] = "WRITE",
	[RDMAMSG_OP_READ] = "READ", [RDMAMSG_OP_FETCH_ADD] = "FETCH_ADD",
	[RDMAMSG_OP_COMPARE_SWAP] = "COMPARE_SWAP",
	[RDMAMSG_OP_FLUSH] = "FLUSH",
};

static int fail_unused(const struct rdmamsg_op *op, uint32_t field,
		       const char *call)
{
	static const char *const names[] = {
#define NAME(name)	#name,
		FIELDS(NAME)
#undef NAME
	};

	return rdmamsg__fail(-EINVAL, "%s: %s uses no '%s' here, so it must "
			     "be 0", call, kind_names[op->kind],
			     names[field]);
}

/* Fields that the kind uses, but not together with others that are set. */
static uint32_t excluded(const struct rdmamsg_op *op)
{
	switch (op->kind) {
	case RDMAMSG_OP_SEND:
		return op->layout ? IS(sge) | IS(count) | IS(key) :
		       IS(offset) | IS(len);
	case RDMAMSG_OP_WRITE:
		return op->flags & RDMAMSG_OP_NOTIFY ? 0 : IS(imm);
	case RDMAMSG_OP_FETCH_ADD:
	case RDMAMSG_OP_COMPARE_SWAP:
		return op->width ? 0 : IS(mask) | IS(compare_mask);
	default:
		return 0;
	}
}

static int check(const struct rdmamsg_op *op, const char *call)
{
	uint32_t set = 0;

	if (op->kind >= COUNT(kind_names) || !kind_names[op->kind])
		return rdmamsg__fail(-EINVAL, "%s: there is no kind %u", call,
				     op->kind);
#define SET(name)	set |= op->name ? IS(name) : 0;
	FIELDS(SET)
#undef SET
	set &= ~(uses[op->kind] & ~excluded(op));
	if (set)
		return fail_unused(op, (uint32_t)__builtin_ctz(set), call);
	return op->count <= RDMAMSG_SEGMENTS_MAX ? 0 :
	       rdmamsg__fail(-EINVAL, "%s: %u gather entries, of %d", call,
			     op->count, RDMAMSG_SEGMENTS_MAX);
}

int rdmamsg__op_take(struct rdmamsg_op *op, const struct rdmamsg_op *given,
		     const char *call)
{
	int err = given ? rdmamsg__opts_copy(op, sizeof(*op), given,
					     "rdmamsg_op") :
		  rdmamsg__fail(-EINVAL, "%s: op is NULL", call);

	return err ? err : check(op, call);
}

static int post_write(struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	const uint32_t flags = op->flags & ~(uint32_t)RDMAMSG_OP_NOTIFY;

	if (op->flags == flags)
		return rdmamsg_write(ep, op->sge, (int)op->count, op->key,
				     op->offset, flags, op->cookie);
	return rdmamsg__rma_ask(ep, &(struct rma_ask){
		.kind = RMA_WRITE, .entry = op->sge, .count = (int)op->count,
		.key = op->key, .offset = op->offset, .flags = flags,
		.cookie = op->cookie, .notify = true, .value = op->imm,
	});
}

static int post_masked(struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	struct masked m;
	int err = rdmamsg__masked_take(&m, op, "rdmamsg_post");

	return err ? err : rdmamsg__masked_issue(ep, &m, op->key, op->offset,
						 op->result, op->flags,
						 op->cookie);
}

static int post_atomic(struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	uint64_t operand, compare;

	if (op->width)
		return post_masked(ep, op);
	if (!op->operand ||
	    (op->kind == RDMAMSG_OP_COMPARE_SWAP && !op->compare))
		return rdmamsg__fail(-EINVAL, "rdmamsg_post: %s is NULL",
				     op->operand ? "compare" : "operand");
	memcpy(&operand, op->operand, sizeof(operand));
	if (op->kind == RDMAMSG_OP_FETCH_ADD)
		return rdmamsg_fetch_add(ep, op->key, op->offset, operand,
					 op->result, op->flags, op->cookie);
	memcpy(&compare, op->compare, sizeof(compare));
	return rdmamsg_compare_swap(ep, op->key, op->offset, compare, operand,
				    op->result, op->flags, op->cookie);
}

static int post_send(struct rdmamsg_ep *ep, const struct rdmamsg_op *op)
{
	if (op->layout)
		return rdmamsg__layout_send(ep, op->layout, op->offset,
					    op->len, op->tag, op->cookie);
	return rdmamsg__send_entries(ep, op->sge, (int)op->count, op->tag,
				     op->key, op->cookie);
}

int rdmamsg_post(struct rdmamsg_ep *ep, const struct rdmamsg_op *given)
{
	struct rdmamsg_op op;
	int err = rdmamsg__tx_check(ep);

	if (!err)
		err = rdmamsg__op_take(&op, given, "rdmamsg_post");
	if (err)
		return err;
	switch (op.kind) {
	case RDMAMSG_OP_SEND:
		return post_send(ep, &op);
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
