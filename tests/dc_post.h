/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations of DC in one line, for the tests. */
#ifndef RDMAMSG_TESTS_DC_POST_H
#define RDMAMSG_TESTS_DC_POST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#include "post.h"

static inline int dc_sendv(struct rdmamsg_dc_address *a,
			   const struct iovec *iov, int iovcnt, uint32_t tag,
			   void *cookie)
{
	struct rdmamsg_sge sge[RDMAMSG_SEGMENTS_MAX] = { { NULL, 0, NULL } };
	struct rdmamsg_op op = op_entries(RDMAMSG_OP_SEND, sge, iovcnt, NULL,
					  0, 0, cookie);

	op.tag = tag;
	/* more are refused, and the caller has them in number only */
	for (int i = 0; iovcnt <= RDMAMSG_SEGMENTS_MAX && i < iovcnt; i++)
		sge[i] = (struct rdmamsg_sge){ iov[i].iov_base,
					       iov[i].iov_len, NULL };
	return rdmamsg_dc_post(a, &op);
}

static inline int dc_write(struct rdmamsg_dc_address *a,
			   const struct rdmamsg_sge *src, int count,
			   const struct rdmamsg_key *to, uint64_t offset,
			   uint32_t flags, void *cookie)
{
	struct rdmamsg_op op = op_entries(RDMAMSG_OP_WRITE, src, count, to,
					  offset, flags, cookie);

	return rdmamsg_dc_post(a, &op);
}

static inline int dc_notify(struct rdmamsg_dc_address *a,
			    const struct rdmamsg_sge *src, int count,
			    const struct rdmamsg_key *to, uint64_t offset,
			    uint32_t value, uint32_t flags, void *cookie)
{
	struct rdmamsg_op op = op_entries(RDMAMSG_OP_WRITE, src, count, to,
					  offset, flags | RDMAMSG_OP_NOTIFY,
					  cookie);

	op.imm = value;
	return rdmamsg_dc_post(a, &op);
}

static inline int dc_read(struct rdmamsg_dc_address *a,
			  const struct rdmamsg_sge *dst, int count,
			  const struct rdmamsg_key *to, uint64_t offset,
			  uint32_t flags, void *cookie)
{
	struct rdmamsg_op op = op_entries(RDMAMSG_OP_READ, dst, count, to,
					  offset, flags, cookie);

	return rdmamsg_dc_post(a, &op);
}

static inline int dc_fetch_add(struct rdmamsg_dc_address *a,
			       const struct rdmamsg_key *to, uint64_t offset,
			       uint64_t add, uint64_t *result, uint32_t flags,
			       void *cookie)
{
	struct rdmamsg_op op = op_add(to, offset, 0, &add, NULL, result, flags,
				      cookie);

	return rdmamsg_dc_post(a, &op);
}

static inline int dc_compare_swap(struct rdmamsg_dc_address *a,
				  const struct rdmamsg_key *to,
				  uint64_t offset, uint64_t expected,
				  uint64_t desired, uint64_t *result,
				  uint32_t flags, void *cookie)
{
	const struct post_swap s = { &expected, NULL, &desired, NULL };
	struct rdmamsg_op op = op_swap(to, offset, 0, &s, result, flags,
				       cookie);

	return rdmamsg_dc_post(a, &op);
}

static inline int dc_masked_swap(struct rdmamsg_dc_address *a,
				 const struct rdmamsg_key *to, uint64_t offset,
				 size_t bytes, const struct post_swap *swap,
				 void *result, uint32_t flags, void *cookie)
{
	struct rdmamsg_op op = op_swap(to, offset, bytes, swap, result, flags,
				       cookie);

	return rdmamsg_dc_post(a, &op);
}

static inline int dc_add_fields(struct rdmamsg_dc_address *a,
				const struct rdmamsg_key *to, uint64_t offset,
				size_t bytes, const void *add,
				const void *boundary, void *result,
				uint32_t flags, void *cookie)
{
	struct rdmamsg_op op = op_add(to, offset, bytes, add, boundary, result,
				      flags, cookie);

	return rdmamsg_dc_post(a, &op);
}

#endif
