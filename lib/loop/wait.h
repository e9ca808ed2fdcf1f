/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting inside a blocking call. */
#ifndef RDMAMSG_LIB_WAIT_H
#define RDMAMSG_LIB_WAIT_H

#include <rdmamsg/rdmamsg.h>

/* Like rdmamsg_wait(), without checks, and without a text on failure. */
int rdmamsg__wait(struct rdmamsg *ctx, int timeout_ms);

/* rdmamsg__settle() calls it if there is work. */
void rdmamsg__settle_now(struct rdmamsg *ctx);

#endif
