/* SPDX-License-Identifier: BSD-2-Clause */
/* A context on a caller's libev loop. Link with librdmamsg-ev. */
#ifndef RDMAMSG_EV_H
#define RDMAMSG_EV_H

#include <ev.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_ev;

/*
 * Processes ctx on loop, beside the loop's other watchers, until
 * rdmamsg_ev_stop(). The loop's thread becomes the context's thread. The
 * watcher keeps ev_run() going; ev_unref() the loop if it should not.
 */
int rdmamsg_ev_start(struct ev_loop *loop, struct rdmamsg *ctx,
		     struct rdmamsg_ev **ret);

/* Before rdmamsg_close(). NULL is fine. */
void rdmamsg_ev_stop(struct rdmamsg_ev *ev);

#ifdef __cplusplus
}
#endif

#endif
