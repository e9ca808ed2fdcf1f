/* SPDX-License-Identifier: BSD-2-Clause */
/* Polls completion queues and passes completions to endpoints. */
#ifndef RDMAMSG_LIB_POLL_H
#define RDMAMSG_LIB_POLL_H

#include <rdmamsg/rdmamsg.h>

struct cq;

/* Polls about 'budget' completions per queue. Returns their number. */
int rdmamsg__cq_poll(struct rdmamsg *ctx, int budget);
/* Polls until cq is empty, but at most cq->room completions. */
void rdmamsg__cq_drain(struct rdmamsg *ctx, struct cq *cq);
/* Ends the endpoints of cq. err: -errno of the call that 'what' names. */
void rdmamsg__cq_failed(struct rdmamsg *ctx, const struct cq *cq, int err,
			const char *what);

#endif
