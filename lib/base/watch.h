/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors in a loop. */
#ifndef RDMAMSG_LIB_WATCH_H
#define RDMAMSG_LIB_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct loop;

/*
 * A descriptor, and the function to call on its events. Its tag in the loop is
 * its address + WATCH_TAG, which differs from all other tags.
 */
#define WATCH_TAG	2
struct watch {
	int fd;				/* -1 after the end */
	bool on;
	void (*fn)(struct watch *w);	/* NULL: only wakes the loop */
	struct list node;		/* in loop->ended */
	void *mem;			/* memory to free then */
};

/* Adds fd. If fd is readable, the loop reports the tag. Returns 0 or -errno. */
int rdmamsg__watch(struct loop *loop, int fd, void *tag);
/*
 * Looks at fd again, whose state has changed without a wake-up. Any thread may
 * call it.
 */
int rdmamsg__watch_again(struct loop *loop, int fd, void *tag);
void rdmamsg__unwatch(struct loop *loop, int fd);
/*
 * Sets the epoll events that call w->fn. If events is 0, w->fn is not called at
 * all, not even for a hangup.
 */
int rdmamsg__watch_set(struct loop *loop, struct watch *w, uint32_t events);
/*
 * Closes w->fd. Frees mem, which contains w, when the loop has no event of w.
 */
void rdmamsg__watch_end(struct loop *loop, struct watch *w, void *mem);
/*
 * Like rdmamsg__watch_end(), for a watch that is off and closed by its owner.
 */
void rdmamsg__watch_retire(struct loop *loop, struct watch *w, void *mem);
void rdmamsg__watches_reap(struct loop *loop);

#endif
