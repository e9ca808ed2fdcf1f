/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "base/op.h"

#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
#define ENTRIES		(OP_HAS(flags) | OP_HAS(cookie) | OP_HAS(sge) | \
			 OP_HAS(count) | OP_HAS(key) | OP_HAS(offset))
#define ATOMIC		(OP_HAS(flags) | OP_HAS(cookie) | OP_HAS(width) | \
			 OP_HAS(key) | OP_HAS(offset) | OP_HAS(operand) | \
			 OP_HAS(mask) | OP_HAS(result))

/* SEND: the taker says it. */
static const uint32_t uses[] = {
	[RDMAMSG_OP_WRITE] = ENTRIES | OP_HAS(imm),
	[RDMAMSG_OP_READ] = ENTRIES,
	[RDMAMSG_OP_FETCH_ADD] = ATOMIC,
	[RDMAMSG_OP_COMPARE_SWAP] = ATOMIC | OP_HAS(compare) |
				    OP_HAS(compare_mask),
	[RDMAMSG_OP_FLUSH] = OP_HAS(cookie),
};

static const char *const kind_names[COUNT(uses)] = {
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
		OP_FIELDS(NAME)
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
		return (op->layout ?
			OP_HAS(sge) | OP_HAS(count) | OP_HAS(key) :
			OP_HAS(offset) | OP_HAS(len)) |
		       (op->flags & RDMAMSG_OP_IMM ? 0 : OP_HAS(imm));
	case RDMAMSG_OP_WRITE:
		return op->flags & RDMAMSG_OP_NOTIFY ? 0 : OP_HAS(imm);
	case RDMAMSG_OP_FETCH_ADD:
	case RDMAMSG_OP_COMPARE_SWAP:
		return op->width ? 0 : OP_HAS(mask) | OP_HAS(compare_mask);
	default:
		return 0;
	}
}

static int check_kind(uint32_t kind, const struct op_taker *by)
{
	if (kind >= COUNT(kind_names) || !kind_names[kind])
		return rdmamsg__fail(-EINVAL, "%s: there is no kind %u",
				     by->call, kind);
	if (!(by->kinds & 1u << kind))
		return rdmamsg__fail(-EOPNOTSUPP, "%s: this call takes no %s",
				     by->call, kind_names[kind]);
	return 0;
}

static int check_fields(const struct rdmamsg_op *op, const struct op_taker *by)
{
	uint32_t may = op->kind == RDMAMSG_OP_SEND ? by->send : uses[op->kind];
	uint32_t set = 0, unused;

	if (by->times)
		may |= OP_HAS(timeout_ms) | OP_HAS(on_late);
#define SET(name)	set |= op->name ? OP_HAS(name) : 0;
	OP_FIELDS(SET)
#undef SET
	unused = set & ~may ? set & ~may : set & excluded(op);
	if (unused)
		return fail_unused(op, (uint32_t)__builtin_ctz(unused),
				   by->call);
	return op->count <= RDMAMSG_SEGMENTS_MAX ? 0 :
	       rdmamsg__fail(-EINVAL, "%s: %u gather entries, of %d", by->call,
			     op->count, RDMAMSG_SEGMENTS_MAX);
}

int rdmamsg__op_take(struct rdmamsg_op *op, const struct rdmamsg_op *given,
		     const struct op_taker *by)
{
	int err = given ? rdmamsg__opts_copy(op, sizeof(*op), given,
					     "rdmamsg_op") :
		  rdmamsg__fail(-EINVAL, "%s: op is NULL", by->call);

	if (!err)
		err = check_kind(op->kind, by);
	return err ? err : check_fields(op, by);
}

int rdmamsg__op_plain(const struct rdmamsg_op *op, const struct op_taker *by,
		      struct iovec iov[static RDMAMSG_SEGMENTS_MAX])
{
	if (op->count && !op->sge)
		return rdmamsg__fail(-EINVAL, "%s: sge is NULL", by->call);
	for (uint32_t i = 0; i < op->count; i++) {
		if (op->sge[i].region)
			return rdmamsg__fail(-EINVAL, "%s: SEND from a region: "
					     "its entries have none",
					     by->call);
		iov[i].iov_base = op->sge[i].data;
		iov[i].iov_len = op->sge[i].len;
	}
	return 0;
}
