/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a context on a libevent loop. Link with librdmamsg-event. */
#ifndef RDMAMSG_EVENT_H
#define RDMAMSG_EVENT_H

#include <event2/event.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Named after libevent, because struct rdmamsg_event is an event of a device. */
struct rdmamsg_libevent;

/*
 * Adds an event for ctx to base, until rdmamsg_libevent_stop(). The thread of
 * the base becomes the context's thread. The event keeps event_base_dispatch()
 * going.
 */
int rdmamsg_libevent_start(struct event_base *base, struct rdmamsg *ctx,
			   struct rdmamsg_libevent **ret);

/*
 * Removes the event, in a callback, too. Call it before event_base_free(), and
 * before rdmamsg_close() or right after it. ev may be NULL.
 */
void rdmamsg_libevent_stop(struct rdmamsg_libevent *ev);

#ifdef __cplusplus
}
#endif

#endif
