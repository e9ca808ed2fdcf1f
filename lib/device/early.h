/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Early completions: a call inside a callback has polled them, and the loop
 * handles them. They are the head of their queue: whoever polls it takes them
 * first. While there are any, the inline poll is off.
 */
#ifndef RDMAMSG_LIB_EARLY_H
#define RDMAMSG_LIB_EARLY_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct cq;
struct rdmamsg;

#define EARLY_POLL	16	/* completions polled together */

struct early {
	struct ibv_wc *wc;		/* NULL until first used */
	uint32_t first, count, room;
};

/*
 * Polls up to EARLY_POLL completions to the place behind the last early one,
 * and returns their number. They are not early yet: rdmamsg__early_keep() makes
 * them so. Returns 0 if the queue is empty, has failed, has as many early
 * completions as it has room for, or if there is no memory.
 */
int rdmamsg__early_poll(struct cq *cq, struct ibv_wc **ret);
/* Returns true if rdmamsg__early_keep() has memory for EARLY_POLL of them. */
bool rdmamsg__early_reserve(struct cq *cq);
/* Appends a completion, which may be one of those that were polled. */
void rdmamsg__early_keep(struct rdmamsg *ctx, struct cq *cq,
			 const struct ibv_wc *wc);
/*
 * Removes the first n completions, and polls the rest of the n from the device.
 * Returns their number.
 */
int rdmamsg__early_take(struct rdmamsg *ctx, struct cq *cq, struct ibv_wc *wc,
			uint32_t n);
/* The queue ends. */
void rdmamsg__early_drop(struct rdmamsg *ctx, struct early *e);

#endif
