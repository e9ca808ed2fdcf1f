/* SPDX-License-Identifier: BSD-2-Clause */
/* A step that sends, in one line for the tests. */
#ifndef RDMAMSG_TESTS_CHAIN_SEND_H
#define RDMAMSG_TESTS_CHAIN_SEND_H

#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

static inline int chain_send(struct rdmamsg_chain *chain, uint32_t queue,
			     struct rdmamsg_ep *ep, const void *buf,
			     size_t len, uint32_t tag)
{
	const struct rdmamsg_sge s = { (void *)(uintptr_t)buf, len, NULL };

	return rdmamsg_chain_add(chain, queue, ep, &(struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_SEND,
		.sge = &s, .count = 1, .tag = tag,
	});
}

#endif
