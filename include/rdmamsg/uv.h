/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a context on a libuv loop. Link with librdmamsg-uv. */
#ifndef RDMAMSG_UV_H
#define RDMAMSG_UV_H

#include <uv.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_uv;

/*
 * Adds a handle for ctx to loop, until rdmamsg_uv_stop(). The loop's thread
 * becomes the context's thread. The handle keeps uv_run() going. If it should
 * not, call uv_unref() with rdmamsg_uv_handle().
 */
int rdmamsg_uv_start(uv_loop_t *loop, struct rdmamsg *ctx,
		     struct rdmamsg_uv **ret);

/*
 * Closes the handle, in a callback, too. Call it before rdmamsg_close() or
 * right after it. The loop frees the handle in its next iteration: run it
 * before uv_loop_close(). uv may be NULL.
 */
void rdmamsg_uv_stop(struct rdmamsg_uv *uv);

/* Returns the handle, for uv_ref(), uv_unref() and uv_handle_get_loop(). */
uv_handle_t *rdmamsg_uv_handle(struct rdmamsg_uv *uv);

#ifdef __cplusplus
}
#endif

#endif
