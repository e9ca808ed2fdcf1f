/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions, from their queues to the endpoints. */
#ifndef RDMAMSG_LIB_POLL_H
#define RDMAMSG_LIB_POLL_H

#include <rdmamsg/rdmamsg.h>

struct cq;

/* Returns how many; about 'budget' from each queue. */
int rdmamsg__cq_poll(struct rdmamsg *ctx, int budget);
/* Until it is empty: bounded by what it can hold. */
void rdmamsg__cq_drain(struct rdmamsg *ctx, struct cq *cq);
/* Completions may never be seen: its endpoints end. -errno, and which call. */
void rdmamsg__cq_failed(struct rdmamsg *ctx, const struct cq *cq, int err,
			const char *what);

#endif
