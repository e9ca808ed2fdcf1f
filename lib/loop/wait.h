/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting inside a blocking call. */
#ifndef RDMAMSG_LIB_WAIT_H
#define RDMAMSG_LIB_WAIT_H

#include <rdmamsg/rdmamsg.h>

/* Like rdmamsg_wait(), without checks, and without a text on failure. */
int rdmamsg__wait(struct rdmamsg *ctx, int timeout_ms);

/* cork.c. Returns -EDEADLK, with a text that says why this call cannot wait. */
int rdmamsg__deadlock(const struct rdmamsg *ctx, const char *name);
/* The context closes: posts what was collected. */
void rdmamsg__cork_drop(struct rdmamsg *ctx);

/* rdmamsg__settle() calls it if there is work. */
void rdmamsg__settle_now(struct rdmamsg *ctx);

#endif
