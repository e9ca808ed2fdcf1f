/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a context on a GLib loop. Link with librdmamsg-glib. */
#ifndef RDMAMSG_GLIB_H
#define RDMAMSG_GLIB_H

#include <glib.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Attaches a source for ctx to main_context, until rdmamsg_glib_stop(). NULL is
 * the default main context. Its thread becomes the context's thread. The caller
 * may give the source a priority, before the loop runs or later.
 */
int rdmamsg_glib_start(GMainContext *main_context, struct rdmamsg *ctx,
		       GSource **ret);

/*
 * Destroys the source, in a callback, too, and drops the reference of the
 * caller. Call it before rdmamsg_close() or right after it. source may be NULL.
 */
void rdmamsg_glib_stop(GSource *source);

#ifdef __cplusplus
}
#endif

#endif
