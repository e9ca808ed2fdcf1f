/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations as the program asks for them. */
#ifndef RDMAMSG_LIB_RMA_ASK_H
#define RDMAMSG_LIB_RMA_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#include "base/masked.h"
#include "session/rma.h"

struct rma_ask {
	enum rma_kind kind;
	const struct rdmamsg_sge *entry;
	int count;
	uint32_t bytes;			/* atomics: of the operand */
	const struct masked *masked;	/* NULL: no masked atomic */
	const struct rdmamsg_key *key;
	uint64_t offset;
	uint32_t flags;
	void *cookie;
	bool notify;
	uint32_t value;
	uint64_t operand, expected;
	void *result;
	uint8_t tell;			/* enum tell */
};

/* Returns 0 if regions of ctx can be registered on the endpoint's device. */
int rdmamsg__region_ep_check(const struct rdmamsg *ctx,
			     const struct rdmamsg_ep *ep);
/*
 * Writes the region's registration with the endpoint's device to *ret. The
 * program has registered the region for the first lane of the endpoint. If
 * another lane has another device, registers the region there.
 */
int rdmamsg__region_here(struct rdmamsg_ep *ep, struct rdmamsg_region *region,
			 struct ibv_mr **ret);

/* masked_ask.c */
/* Takes the operands of an extended atomic. call: the public call. -EINVAL */
int rdmamsg__masked_take(struct masked *m, const struct rdmamsg_op *op,
			 const char *call);
/*
 * Begins a masked compare-and-swap, or an addition by fields. Sets 'kind',
 * 'masked' and 'bytes' of the rest, which is set.
 */
int rdmamsg__masked_issue(struct rdmamsg_ep *ep, const struct masked *m,
			  struct rma_ask *a);

/* rma_ask.c */
/* Checks the operation. Accepts it, and returns 0, or returns -errno. */
int rdmamsg__rma_ask(struct rdmamsg_ep *ep, const struct rma_ask *a);
/* As rdmamsg_flush(). */
int rdmamsg__rma_flush(struct rdmamsg_ep *ep, void *cookie, enum tell tell);

#endif
