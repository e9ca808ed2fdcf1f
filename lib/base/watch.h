/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors in a loop. */
#ifndef RDMAMSG_LIB_WATCH_H
#define RDMAMSG_LIB_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct loop;

/*
 * A descriptor and the function that its events call. Its tag in the loop is
 * its address + WATCH_TAG, so that other tags stay distinct from it.
 */
#define WATCH_TAG	2
struct watch {
	int fd;				/* -1: ended */
	bool on;
	void (*fn)(struct watch *w);
	struct list node;		/* of the ended ones */
	void *mem;			/* to be freed then */
};

/* Readable: the loop's owner gets the tag. -errno */
int rdmamsg__watch(struct loop *loop, int fd, void *tag);
void rdmamsg__unwatch(struct loop *loop, int fd);
/* Which epoll events call w->fn; 0: none, not even its end. */
int rdmamsg__watch_set(struct loop *loop, struct watch *w, uint32_t events);
/* Closes it; mem, which it is part of, is freed when its events are through. */
void rdmamsg__watch_end(struct loop *loop, struct watch *w, void *mem);
/* The same for one that is not watched any more, and closed by others. */
void rdmamsg__watch_retire(struct loop *loop, struct watch *w, void *mem);
void rdmamsg__watches_reap(struct loop *loop);

#endif
