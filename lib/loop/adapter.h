/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common to the adapters. Each is a library of its own, over the exported calls,
 * and has a descriptor of its own: a loop can forget it after rdmamsg_close(),
 * whoever has the context's number by then.
 */
#ifndef RDMAMSG_LOOP_ADAPTER_H
#define RDMAMSG_LOOP_ADAPTER_H

#include <errno.h>
#include <stdbool.h>

#include <rdmamsg/rdmamsg.h>

#include "base/fd.h"

/* Returns a copy of the context's descriptor, or a negative errno. */
static inline int adapter_fd(const struct rdmamsg *ctx)
{
	int fd = ctx ? rdmamsg_fd(ctx) : -EINVAL;

	if (fd < 0)
		return fd;
	fd = fd_copy(fd);
	return fd < 0 ? -errno : fd;
}

/*
 * Returns true if every later call fails, too: in a forked process, or without
 * the context's descriptor. A loop that went on would find the copy readable
 * for ever, and spin.
 */
static inline bool adapter_process(struct rdmamsg *ctx)
{
	int ret = rdmamsg_process(ctx);

	return ret < 0 && ret != -EDEADLK && ret != -EINTR;
}

#endif
