/* SPDX-License-Identifier: BSD-2-Clause */
/* The log, the dump and the version of the library. */
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

/* Called for each line, without newline, from whatever thread has it. */
typedef void (*rdmamsg_log_fn)(void *arg, enum rdmamsg_log_level level,
			       const char *line);

/*
 * Process-wide, not for use beside running contexts. A NULL fn restores the
 * default: stderr, and only if the environment has RDMAMSG_LOG. Lines above
 * 'level' are not made; the level in RDMAMSG_LOG, if set, wins.
 */
void rdmamsg_set_log(rdmamsg_log_fn fn, void *arg,
		     enum rdmamsg_log_level level);

/* Everything there is to see of a context, as lines of text. */
void rdmamsg_dump(const struct rdmamsg *ctx,
		  void (*line)(void *arg, const char *text), void *arg);

/* Of the library at run time, "0.1.0"; <rdmamsg/version.h> is the header's. */
const char *rdmamsg_version(void);

#ifdef __cplusplus
}
#endif

#endif
