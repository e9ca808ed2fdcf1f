/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a context on a libev loop. Link with librdmamsg-ev. */
#ifndef RDMAMSG_EV_H
#define RDMAMSG_EV_H

#include <ev.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_ev;

/*
 * Adds a watcher for ctx to loop, until rdmamsg_ev_stop(). The loop's thread
 * becomes the context's thread. The watcher keeps ev_run() going. If it should
 * not, call ev_unref().
 */
int rdmamsg_ev_start(struct ev_loop *loop, struct rdmamsg *ctx,
		     struct rdmamsg_ev **ret);

/*
 * Removes the watcher, in a callback, too. Call it before the loop is
 * destroyed, and before rdmamsg_close() or right after it. ev may be NULL.
 */
void rdmamsg_ev_stop(struct rdmamsg_ev *ev);

#ifdef __cplusplus
}
#endif

#endif
