/* SPDX-License-Identifier: BSD-2-Clause */
/* Callbacks that do not return. */
#ifndef RDMAMSG_LIB_LEFT_H
#define RDMAMSG_LIB_LEFT_H

#include <stdbool.h>

#include "base/ctx.h"
#include "base/util.h"

/*
 * Returns false after repairing the context, if the callback has been left by
 * an exception or longjmp(3). 'here' is the frame of the call that asks.
 */
bool rdmamsg__still_in_callback(struct rdmamsg *ctx, const void *here);

/* For calls that may not be made in a callback: returns true if this one is. */
static inline __attribute__((always_inline)) bool
rdmamsg__in_callback(struct rdmamsg *ctx)
{
	return unlikely(ctx->loop.in_callback) &&
	       rdmamsg__still_in_callback(ctx, __builtin_frame_address(0));
}

#endif
