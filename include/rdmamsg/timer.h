/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers of a context. They need no descriptor of their own: rdmamsg_fd() is
 * readable when one is due. Time is CLOCK_MONOTONIC.
 */
#ifndef RDMAMSG_TIMER_H
#define RDMAMSG_TIMER_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_timer;

/*
 * Writes a new timer to *ret, which does not run yet. Whenever it expires the
 * context's thread calls on_timer(timer, user), inside the calls that run
 * callbacks. The callback may start, stop and destroy this timer and others.
 * -EINVAL, -ENOMEM; -ECANCELED: the context is being closed.
 */
int rdmamsg_timer_create(struct rdmamsg *ctx,
			 void (*on_timer)(struct rdmamsg_timer *timer,
					  void *user),
			 void *user, struct rdmamsg_timer **ret);

/*
 * Starts the timer, or starts it anew: it expires when delay_ms have passed,
 * not earlier. If repeat_ms is not 0, it then expires every repeat_ms: a delay
 * of one call does not delay the next, and times that were missed are left out.
 * Both at most 2^31 - 1. -EINVAL; -ECANCELED: the context is being closed.
 */
int rdmamsg_timer_start(struct rdmamsg_timer *timer, uint32_t delay_ms,
			uint32_t repeat_ms);

/* on_timer is not called until the timer is started again. */
int rdmamsg_timer_stop(struct rdmamsg_timer *timer);

/*
 * Stops and frees the timer, which may be NULL. rdmamsg_close() first stops all
 * timers of its context, and frees at its end those that are left.
 */
void rdmamsg_timer_destroy(struct rdmamsg_timer *timer);

#ifdef __cplusplus
}
#endif

#endif
