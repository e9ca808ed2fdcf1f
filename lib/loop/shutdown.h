/* SPDX-License-Identifier: BSD-2-Clause */
/* The graceful end of a context. */
#ifndef RDMAMSG_LIB_SHUTDOWN_H
#define RDMAMSG_LIB_SHUTDOWN_H

#include <rdmamsg/rdmamsg.h>

/*
 * Goes on after endpoints, groups, chains or senders have ended. Calls
 * on_shutdown when none is left.
 */
void rdmamsg__shutdown_go_on(struct rdmamsg *ctx);

#endif
