/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for a message that is larger than a receive buffer. */
#ifndef RDMAMSG_LIB_DESTINATION_H
#define RDMAMSG_LIB_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdmamsg_ep;
struct rdmamsg_msg;

struct destination {
	struct rdmamsg_msg *msg;	/* NULL: none yet */
	size_t counted;			/* bytes in rndv.lent */
	bool refused;			/* counted in 'refused' of the pool */
};

/*
 * Takes memory of the library or of recv_pool. Returns false if there is none:
 * then either the endpoint is touched when memory has come back, or it ends.
 */
bool rdmamsg__destination_get(struct rdmamsg_ep *ep, struct destination *d,
			      uint32_t total);
/*
 * Memory for a message cannot be had or registered: the endpoint is touched
 * when memory has come back, or it ends.
 */
void rdmamsg__destination_failed(struct rdmamsg_ep *ep, int err);
/* Returns the message, which is not counted in rndv.lent any more; or NULL. */
struct rdmamsg_msg *rdmamsg__destination_take(struct rdmamsg_ep *ep,
					      struct destination *d);
void rdmamsg__destination_drop(struct rdmamsg_ep *ep, struct destination *d);

#endif
