/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics for operators: a Unix socket of a context, which its loop serves.
 * Each connection gets the text of rdmamsg_stats_text(), and then the end. If it
 * asks with GET, the text is the answer of HTTP/1.0. The word "dump" gives the
 * lines of rdmamsg_dump() instead.
 */
#ifndef RDMAMSG_LIB_STATS_SERVER_H
#define RDMAMSG_LIB_STATS_SERVER_H

#include <rdmamsg/rdmamsg.h>

#define STATS_READERS	4	/* at once; others wait in the backlog */
#define STATS_MS	2000	/* then a slow reader is cut off */

/*
 * Listens at the path of RDMAMSG_STATS, or does nothing if path is NULL. Logs a
 * failure, and changes no error text.
 */
void rdmamsg__stats_open(struct rdmamsg *ctx, const char *path);
void rdmamsg__stats_close(struct rdmamsg *ctx);

#endif
