/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for the soft HCA. Its peers wake a loop that waits by a descriptor of
 * its own, and not by the thread of the device and an event of the completion
 * channel: one thread wakes for a message, and not two. The kernel's devices
 * have no such descriptor.
 */
#ifndef RDMAMSG_LIB_ATTEND_H
#define RDMAMSG_LIB_ATTEND_H

#include <stdbool.h>

struct dev;
struct devices;

/* The dev has a channel. Without the descriptor it waits for the channel. */
void rdmamsg__attend_init(struct dev *dev);
void rdmamsg__attend_close(struct dev *dev);

/*
 * The loop is about to wait. Returns false if there is work. The loop calls
 * rdmamsg__attend_woken() in any case, polls all queues, and calls
 * rdmamsg__attend_done() when the callbacks have returned.
 */
bool rdmamsg__attend_wait(const struct devices *devices);
void rdmamsg__attend_woken(const struct devices *devices);
void rdmamsg__attend_done(const struct devices *devices);

#endif
