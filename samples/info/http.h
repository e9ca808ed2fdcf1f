/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-info: answers GET and HEAD of one page. */
#ifndef RDMAMSG_SAMPLES_INFO_HTTP_H
#define RDMAMSG_SAMPLES_INFO_HTTP_H

#include "gather.h"

#define PATIENCE_MS	2000	/* for a context, and for a client */

/* Appends the page. path: of one program, or NULL. */
typedef void page_fn(const char *path, struct text *body);

/*
 * Answers the clients of a listening socket that does not block, until 'end' is
 * readable.
 */
void http_serve(int listener, int end, page_fn *page, const char *path);

#endif
