/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints the statistics of a running program. Each of its contexts has a
 * socket, at PATH, PATH.1, ... Their texts become one: the samples of a metric
 * stand together.
 */
#include "info.h"

#include <err.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S	5	/* for a context that does nothing else */

/* A text that grows. */
struct text {
	char *buf;
	size_t len, room;
};

struct metric {
	char *name;
	struct text head, samples;
};

static struct metric *metrics;
static size_t metric_count;

static void append(struct text *t, const char *s, size_t len)
{
	if (t->len + len + 1 > t->room) {
		t->room = 2 * (t->len + len + 1);
		t->buf = realloc(t->buf, t->room);
		if (!t->buf)
			err(FAILED, "memory");
	}
	memcpy(t->buf + t->len, s, len);
	t->len += len;
	t->buf[t->len] = 0;
}

/* ---- reading ---------------------------------------------------------- */

static int dial(const char *path)
{
	const struct timeval patience = { PATIENCE_S, 0 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = strlen(path);
	int fd;

	if (len >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@')
		addr.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&addr, (socklen_t)
		     (offsetof(struct sockaddr_un, sun_path) + len +
		      (path[0] != '@'))))
		return fd;
	close(fd);
	return -1;
}

static struct metric *metric(const char *name, size_t len)
{
	struct metric *m = metrics;

	for (; m < metrics + metric_count; m++)
		if (strlen(m->name) == len && !memcmp(m->name, name, len))
			return m;
	metrics = realloc(metrics, (metric_count + 1) * sizeof(*metrics));
	if (!metrics)
		err(FAILED, "memory");
	m = &metrics[metric_count++];
	*m = (struct metric){ .name = strndup(name, len) };
	if (!m->name)
		err(FAILED, "memory");
	return m;
}

/* Sorts the lines of a text into the metrics. */
static void merge(const char *text)
{
	for (const char *end; *text; text = end) {
		bool comment = *text == '#';
		/* after "# HELP " and "# TYPE " */
		const char *name = text + (comment ? strlen("# HELP ") : 0);
		struct metric *m = metric(name, strcspn(name, " {\n"));

		end = text + strcspn(text, "\n");
		end += *end == '\n';
		if (!comment)
			append(&m->samples, text, (size_t)(end - text));
		else if (!strstr(m->head.buf ? m->head.buf : "",
				 text[2] == 'H' ? "# HELP" : "# TYPE"))
			append(&m->head, text, (size_t)(end - text));
	}
}

/* Reads the text of one context. Returns an exit status. */
static int read_one(const char *path)
{
	struct text t = { 0 };
	char buf[16384];
	ssize_t n = -1;
	int fd = dial(path);

	if (fd < 0) {
		warnx("%s: %s: the program must run with RDMAMSG_STATS", path,
		      strerror(errno));
		return FAILED;
	}
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		append(&t, buf, (size_t)n);
	close(fd);
	/* a text ends with a whole line */
	if (n < 0 || !t.len || t.buf[t.len - 1] != '\n') {
		warnx("%s: no answer: the program does not drive this context, "
		      "or ends", path);
		free(t.buf);
		return FAILED;
	}
	merge(t.buf);
	free(t.buf);
	return ALL_WELL;
}

/* Returns true if the text is a dot and a number. */
static bool is_number(const char *text)
{
	if (*text++ != '.' || !*text)
		return false;
	return strspn(text, "0123456789") == strlen(text);
}

/* Reads PATH.N of files. The pattern's own characters are quoted. */
static int read_files(const char *path)
{
	struct text pattern = { 0 };
	int status = ALL_WELL;
	glob_t found;

	for (const char *at = path; *at; at++) {
		if (strchr("*?[\\", *at))
			append(&pattern, "\\", 1);
		append(&pattern, at, 1);
	}
	append(&pattern, ".*", 2);
	if (!glob(pattern.buf, 0, NULL, &found))
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (is_number(found.gl_pathv[i] + strlen(path)) &&
			    read_one(found.gl_pathv[i]))
				status = FAILED;
	globfree(&found);
	free(pattern.buf);
	return status;
}

/* Reads PATH.N of abstract addresses, the last word of a line in a table. */
static int read_abstract(const char *path)
{
	FILE *table = fopen("/proc/net/unix", "re");
	int status = ALL_WELL;
	char line[512];

	while (table && fgets(line, sizeof(line), table)) {
		char *name = strrchr(line, ' ');

		line[strcspn(line, "\n")] = 0;
		/* flags 00010000: it listens */
		if (name && strstr(line, " 00010000 ") &&
		    !strncmp(++name, path, strlen(path)) &&
		    is_number(name + strlen(path)) && read_one(name))
			status = FAILED;
	}
	if (table)
		fclose(table);
	return status;
}

/* ---- printing --------------------------------------------------------- */

static void __attribute__((noreturn)) wrong(const char *what)
{
	errx(FAILED, "'%s': not the statistics of a program with rdmamsg",
	     what);
}

/* Prints a label's value without its escapes. Returns what follows it. */
static const char *emit_label(const char *key, const char *at)
{
	struct text value = { 0 };

	append(&value, "", 0);
	for (; *at && *at != '"'; at++) {
		if (*at == '\\' && at[1])
			at++;
		append(&value, *at == 'n' && at[-1] == '\\' ? "\n" : at, 1);
	}
	emit_text(key, value.buf);
	free(value.buf);
	return *at ? at + 1 : at;
}

/* NAME{KEY="VALUE",...} NUMBER */
static void emit_sample(const char *line)
{
	const char *at = strchr(line, '{');
	bool first = true;
	char key[64];

	for (; at && (*at == '{' || *at == ','); first = false) {
		size_t len = strcspn(++at, "=");

		snprintf(key, sizeof(key), "%.*s", (int)len, at);
		at += len;
		if (strncmp(at, "=\"", 2))
			wrong(line);
		at += 2;
		if (first)
			emit_object_begin();
		at = emit_label(key, at);
	}
	if (!at || first || strncmp(at, "} ", 2))
		wrong(line);
	emit_number("value", strtoull(at + strlen("} "), NULL, 10));
	emit_object_end();
}

static void emit_metric(const struct metric *m)
{
	char *help = strstr(m->head.buf, "# HELP "), *line, *rest;

	if (!help)
		wrong(m->name);
	emit_object("name", m->name);
	emit_text("type", strstr(m->head.buf, " counter\n") ? "counter" :
		  "gauge");
	help += strlen("# HELP ") + strlen(m->name) + 1;
	help = strndup(help, strcspn(help, "\n"));
	emit_text("help", help ? help : "");
	free(help);
	emit_list("samples");
	for (line = strtok_r(m->samples.buf, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		emit_sample(line);
	emit_list_end();
	emit_object_end();
}

int show_stats(const char *path)
{
	int status = read_one(path);

	if (path[0] == '@' ? read_abstract(path) : read_files(path))
		status = FAILED;
	if (!metric_count)
		return FAILED;
	emit_begin();
	emit_list("metrics");
	for (struct metric *m = metrics; m < metrics + metric_count; m++) {
		if (!m->head.buf || !m->samples.buf)
			wrong(m->name);
		if (options.json)
			emit_metric(m);
		else
			printf("%s%s", m->head.buf, m->samples.buf);
	}
	emit_list_end();
	emit_end();
	return status;
}
