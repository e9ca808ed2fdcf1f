/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <rdmamsg/diag.h>

static void to_stderr(void *arg, enum rdmamsg_log_level level, const char *line)
{
	static const char *const names[] = {
		"", "error", "warning", "info", "debug",
	};

	fprintf(stderr, "rdmamsg: %s: %s\n", names[level], line);
}

_Atomic int rdmamsg__log_level;
static rdmamsg_log_fn log_fn = to_stderr;
static void *log_arg;

void rdmamsg__log(enum rdmamsg_log_level level, const char *fmt, ...)
{
	char line[512];
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	log_fn(log_arg, level, line);
	errno = saved;
}

void rdmamsg_set_log(rdmamsg_log_fn fn, void *arg, enum rdmamsg_log_level level)
{
	rdmamsg__env_init();
	log_fn = fn ? fn : to_stderr;
	log_arg = arg;
	/* the level of RDMAMSG_LOG has priority */
	if (!rdmamsg__env_log())
		rdmamsg__log_level = fn ? level : RDMAMSG_LOG_NONE;
}
