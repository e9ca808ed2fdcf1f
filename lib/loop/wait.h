/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting, inside of a blocking call. */
#ifndef RDMAMSG_LIB_WAIT_H
#define RDMAMSG_LIB_WAIT_H

#include <rdmamsg/rdmamsg.h>

/* rdmamsg_wait() without its checks, and without a text when it fails. */
int rdmamsg__wait(struct rdmamsg *ctx, int timeout_ms);

/* Of a context, when rdmamsg__settle() finds work. */
void rdmamsg__settle_now(struct rdmamsg *ctx);

#endif
