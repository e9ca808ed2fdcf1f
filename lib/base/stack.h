/* SPDX-License-Identifier: BSD-2-Clause */
/* The stack of the calling thread. */
#ifndef RDMAMSG_LIB_STACK_H
#define RDMAMSG_LIB_STACK_H

#include <stdbool.h>

/*
 * Returns true if both addresses are in the stack that the kernel or pthread
 * has given this thread. Slow. Returns false on the stack of a coroutine.
 */
bool rdmamsg__on_this_stack(const void *a, const void *b);

#endif
