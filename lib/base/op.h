/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's description of an operation, struct rdmamsg_op: which fields a
 * kind uses. What an operation does is up to the layer that takes it.
 */
#ifndef RDMAMSG_LIB_BASE_OP_H
#define RDMAMSG_LIB_BASE_OP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>

/* The fields that only some kinds use. */
#define OP_FIELDS(F) \
	F(flags) F(cookie) F(sge) F(count) F(tag) F(imm) F(width) F(key) \
	F(offset) F(layout) F(len) F(operand) F(compare) F(mask) \
	F(compare_mask) F(result) F(timeout_ms) F(on_late)

enum {
#define OP_INDEX(name)	OP_AT_##name,
	OP_FIELDS(OP_INDEX)
#undef OP_INDEX
};

#define OP_HAS(name)	(1u << OP_AT_##name)
#define OP_KIND(kind)	(1u << RDMAMSG_OP_##kind)
#define OP_KINDS_ALL	UINT32_MAX

/* A public call that takes operations, each kind for another object. */
struct op_taker {
	const char *call;
	uint32_t kinds;			/* OP_KIND() of those that it takes */
	uint32_t send;			/* OP_HAS() of what its SEND uses */
	bool times;			/* takes timeout_ms and on_late */
};

/*
 * Copies the program's struct, and checks that its kind uses every field that is
 * set. -EINVAL; -EOPNOTSUPP: the call does not take this kind.
 */
int rdmamsg__op_take(struct rdmamsg_op *op, const struct rdmamsg_op *given,
		     const struct op_taker *by);

/*
 * Writes the entries of a SEND to iov, for takers that know no regions. -EINVAL:
 * there are no entries, or one has a region.
 */
int rdmamsg__op_plain(const struct rdmamsg_op *op, const struct op_taker *by,
		      struct iovec iov[static RDMAMSG_SEGMENTS_MAX]);

#endif
