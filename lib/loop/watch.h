/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors in the loop of a context. */
#ifndef RDMAMSG_LIB_WATCH_H
#define RDMAMSG_LIB_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#include "base/list.h"

/* A socket of ours in the loop, beside the descriptors of the devices. */
struct watch {
	int fd;				/* -1: ended */
	bool on;
	void (*fn)(struct watch *w);
	struct list node;		/* of the ended ones */
	void *mem;			/* to be freed then */
};

int rdmamsg__watch(struct rdmamsg *ctx, int fd, void *tag);
void rdmamsg__unwatch(struct rdmamsg *ctx, int fd);
/* Which epoll events call w->fn; 0: none, not even its end. */
int rdmamsg__watch_set(struct rdmamsg *ctx, struct watch *w, uint32_t events);
/* Closes it; mem, which it is part of, is freed when its events are through. */
void rdmamsg__watch_end(struct rdmamsg *ctx, struct watch *w, void *mem);
/* The same for one that is not watched any more, and closed by others. */
void rdmamsg__watch_retire(struct rdmamsg *ctx, struct watch *w, void *mem);
void rdmamsg__watches_reap(struct rdmamsg *ctx);

#endif
