/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of a context that knows no RDMA: descriptors, timers, work from
 * other threads, and the nesting of callbacks.
 */
#ifndef RDMAMSG_LIB_LOOP_H
#define RDMAMSG_LIB_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/submit.h"
#include "base/timer.h"

struct rdmamsg;

struct loop {
	int in_callback;		/* callbacks in progress, nested */
	int busy;			/* calls in progress, nested */
	/* the first of them, or NULL: left.c; other threads read frame */
	_Atomic(void *) frame;
	void *ret;
	bool work;			/* ctx->settle() has work to do */
	bool told;			/* a callback may have run */
	bool cork_idle;			/* no call was in progress at cork */
	int corks;			/* rdmamsg_cork(), nested */
	int epfd;
	bool lost;			/* the program has closed epfd */
	bool sleeps;			/* between events; else it polls */
	int eventfd;			/* submissions, mail, stop */
	struct rdmamsg *ctx;		/* argument for functions */
	struct timers timers;
	struct submit submit;
	pthread_mutex_t mail_lock;
	struct list mail;
	_Atomic bool stop;
	struct list ended;		/* struct watch, freed when settling */
};

/* Returns 0 or -errno. */
int rdmamsg__loop_open(struct loop *loop, struct rdmamsg *ctx,
		       uint32_t submit_depth);
void rdmamsg__loop_close(struct loop *loop);
/* Why epoll_wait(2) has failed. */
const char *rdmamsg__loop_text(int err);
/* Makes the descriptor readable. */
void rdmamsg__loop_kick(struct loop *loop);

static inline void rdmamsg__loop_set_frame(struct loop *loop, void *frame)
{
	atomic_store_explicit(&loop->frame, frame, memory_order_relaxed);
}

static inline const void *rdmamsg__loop_frame(const struct loop *loop)
{
	return atomic_load_explicit(&loop->frame, memory_order_relaxed);
}

/* Returns true if no call is in progress that will settle at its end. */
static inline bool rdmamsg__loop_idle(const struct loop *loop)
{
	return !loop->busy && !loop->in_callback;
}

/* Calls a callback of the program, if there is one. */
#define rdmamsg__tell(loop_, fn, ...) \
	do { \
		struct loop *told_ = (loop_); \
\
		if (fn) { \
			told_->in_callback++; \
			(fn)(__VA_ARGS__); \
			told_->in_callback--; \
		} \
	} while (0)

#endif
