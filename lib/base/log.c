/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <rdmamsg/diag.h>

#define LINE_MAX_LEN	512

static bool json;

/* UTC with milliseconds. */
static const char *now_text(char *buf, size_t size)
{
	struct timespec now;
	struct tm tm;
	size_t len;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	len = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(buf + len, size - len, ".%03ldZ", now.tv_nsec / 1000000);
	return buf;
}

/* Text of peers may have any byte. */
static const char *quoted(const char *text, char *buf, size_t size)
{
	size_t len = 0;

	for (; *text && len + 7 < size; text++)
		if (*text == '"' || *text == '\\')
			len += (size_t)snprintf(buf + len, size - len, "\\%c",
						*text);
		else if ((unsigned char)*text < 0x20)
			len += (size_t)snprintf(buf + len, size - len,
						"\\u%04x", *text);
		else
			buf[len++] = *text;
	buf[len] = 0;
	return buf;
}

static void to_stderr(void *arg, enum rdmamsg_log_level level, const char *line)
{
	static const char *const names[] = {
		"", "error", "warning", "info", "debug",
	};
	char when[40], text[6 * LINE_MAX_LEN + 8];

	(void)now_text(when, sizeof(when));
	if (json)
		fprintf(stderr, "{\"time\":\"%s\",\"level\":\"%s\","
			"\"text\":\"%s\"}\n", when, names[level],
			quoted(line, text, sizeof(text)));
	else
		fprintf(stderr, "%s rdmamsg: %s: %s\n", when, names[level],
			line);
}

void rdmamsg__log_json(void)
{
	json = true;
}

_Atomic int rdmamsg__log_level;
static rdmamsg_log_fn log_fn = to_stderr;
static void *log_arg;

void rdmamsg__log(enum rdmamsg_log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_LEN];
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
