/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations without a call of their own, in one line for the tests. */
#ifndef RDMAMSG_TESTS_POST_H
#define RDMAMSG_TESTS_POST_H

#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

static inline int post_notify(struct rdmamsg_ep *ep,
			      const struct rdmamsg_sge *src, int count,
			      const struct rdmamsg_key *to, uint64_t offset,
			      uint32_t value, uint32_t flags, void *cookie)
{
	return rdmamsg_post(ep, &(const struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_WRITE,
		.flags = RDMAMSG_OP_NOTIFY | flags, .sge = src,
		.count = (uint32_t)count, .key = to, .offset = offset,
		.imm = value, .cookie = cookie,
	});
}

static inline int post_regions(struct rdmamsg_ep *ep,
			       const struct rdmamsg_sge *src, int count,
			       uint32_t tag, void *cookie)
{
	return rdmamsg_post(ep, &(const struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_SEND,
		.sge = src, .count = (uint32_t)count, .tag = tag,
		.cookie = cookie,
	});
}

static inline int post_layout(struct rdmamsg_ep *ep,
			      struct rdmamsg_layout *layout, uint64_t offset,
			      size_t len, uint32_t tag, void *cookie)
{
	return rdmamsg_post(ep, &(const struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_SEND,
		.layout = layout, .offset = offset, .len = len, .tag = tag,
		.cookie = cookie,
	});
}

/* to: the window that the message invalidates */
static inline int post_invalidate(struct rdmamsg_ep *ep, const void *buf,
				  size_t len, uint32_t tag,
				  const struct rdmamsg_key *to, void *cookie)
{
	const struct rdmamsg_sge s = { (void *)(uintptr_t)buf, len, NULL };

	return rdmamsg_post(ep, &(const struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_SEND,
		.sge = &s, .count = 1, .tag = tag, .key = to,
		.cookie = cookie,
	});
}

/* A mask of NULL has all bits set. */
struct post_swap {
	const void *expected;
	const void *compare_mask;
	const void *desired;
	const void *swap_mask;
};

static inline struct rdmamsg_op op_entries(uint32_t kind,
					   const struct rdmamsg_sge *sge,
					   int count,
					   const struct rdmamsg_key *to,
					   uint64_t offset, uint32_t flags,
					   void *cookie)
{
	return (struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = kind,
		.flags = flags, .sge = sge, .count = (uint32_t)count,
		.key = to, .offset = offset, .cookie = cookie,
	};
}

static inline struct rdmamsg_op op_swap(const struct rdmamsg_key *to,
					uint64_t offset, size_t bytes,
					const struct post_swap *swap,
					void *result, uint32_t flags,
					void *cookie)
{
	const struct post_swap none = { NULL, NULL, NULL, NULL };
	const struct post_swap *s = swap ? swap : &none;

	return (struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op),
		.kind = RDMAMSG_OP_COMPARE_SWAP, .flags = flags, .key = to,
		.offset = offset, .width = (uint32_t)bytes,
		.operand = s->desired, .compare = s->expected,
		.mask = s->swap_mask, .compare_mask = s->compare_mask,
		.result = result, .cookie = cookie,
	};
}

static inline struct rdmamsg_op op_add(const struct rdmamsg_key *to,
				       uint64_t offset, size_t bytes,
				       const void *add, const void *boundary,
				       void *result, uint32_t flags,
				       void *cookie)
{
	return (struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op),
		.kind = RDMAMSG_OP_FETCH_ADD, .flags = flags, .key = to,
		.offset = offset, .width = (uint32_t)bytes, .operand = add,
		.mask = boundary, .result = result, .cookie = cookie,
	};
}

static inline int post_masked_swap(struct rdmamsg_ep *ep,
				   const struct rdmamsg_key *to,
				   uint64_t offset, size_t bytes,
				   const struct post_swap *swap, void *result,
				   uint32_t flags, void *cookie)
{
	struct rdmamsg_op op = op_swap(to, offset, bytes, swap, result, flags,
				       cookie);

	return rdmamsg_post(ep, &op);
}

static inline int post_add_fields(struct rdmamsg_ep *ep,
				  const struct rdmamsg_key *to,
				  uint64_t offset, size_t bytes,
				  const void *add, const void *boundary,
				  void *result, uint32_t flags, void *cookie)
{
	struct rdmamsg_op op = op_add(to, offset, bytes, add, boundary, result,
				      flags, cookie);

	return rdmamsg_post(ep, &op);
}

#endif
