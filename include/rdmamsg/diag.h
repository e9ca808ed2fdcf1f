/* SPDX-License-Identifier: BSD-2-Clause */
/* The log, the dump, statistics as text, and the version of the library. */
#ifndef RDMAMSG_DIAG_H
#define RDMAMSG_DIAG_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rdmamsg_log_level {
	RDMAMSG_LOG_NONE,
	RDMAMSG_LOG_ERROR,
	RDMAMSG_LOG_WARN,
	RDMAMSG_LOG_INFO,
	RDMAMSG_LOG_DEBUG,
};

/*
 * Called for each line, without newline, in the thread that makes the line.
 * Must not call the library.
 */
typedef void (*rdmamsg_log_fn)(void *arg, enum rdmamsg_log_level level,
			       const char *line);

/*
 * Sets the log function and level of the process. No context may be open. A
 * NULL fn restores the default: stderr, and only if the environment has
 * RDMAMSG_LOG. The library makes no lines above 'level'. A level in
 * RDMAMSG_LOG overrides 'level'.
 */
void rdmamsg_set_log(rdmamsg_log_fn fn, void *arg,
		     enum rdmamsg_log_level level);

/*
 * Describes a context in lines of text: devices and their ports in use, pools,
 * regions, shared receive queues, listeners, endpoints, queue pairs of the
 * program, and groups. Asks the devices for the state of their ports. line()
 * must not call the library. The context's thread.
 */
void rdmamsg_dump(const struct rdmamsg *ctx,
		  void (*line)(void *arg, const char *text), void *arg);

/*
 * Writes the statistics of a context to buf in the text format of Prometheus:
 * the counters of rdmamsg_stats(), and those of its devices, buffers, pools,
 * shared receive queues, listeners and groups. Writes at most 'size' bytes, the
 * last of them 0. Returns the length of the whole text like snprintf(): if the
 * length is not below 'size', the text is cut off. buf may be NULL if size is
 * 0.
 */
int rdmamsg_stats_text(const struct rdmamsg *ctx, char *buf, size_t size);

/*
 * Returns the version of the library at run time, "0.1.0". The version at
 * compile time is in <rdmamsg/version.h>.
 */
const char *rdmamsg_version(void);

#ifdef __cplusplus
}
#endif

#endif
