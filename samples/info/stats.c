/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-info: prints the statistics or the objects of a running program. Each
 * of its contexts has a socket, at PATH, PATH.1, ...
 */
#include "gather.h"
#include "info.h"

#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS	5000	/* for a context that does nothing else */

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

/* Says why a context gave no text. */
static void complain(const struct source *s)
{
	if (s->error == ETIMEDOUT || s->error == ECONNRESET)
		warnx("%s: no answer: the program does not drive this context, "
		      "or ends", s->path);
	else
		warnx("%s: %s: the program must run with RDMAMSG_STATS",
		      s->path, strerror(s->error));
}

/* Returns ALL_WELL if all contexts have given a text. */
static int read_program(struct sources *s, const char *path, const char *word)
{
	int status = ALL_WELL;

	sources_find(s, path);
	sources_read(s, word, PATIENCE_MS);
	for (size_t i = 0; i < s->count; i++)
		if (s->at[i].error) {
			complain(&s->at[i]);
			status = FAILED;
		}
	return status;
}

int show_objects(const char *path)
{
	struct sources s = { 0 };
	int status = read_program(&s, path, "dump\n");

	for (size_t i = 0; i < s.count; i++) {
		if (s.at[i].error)
			continue;
		/* older programs do not know the word */
		if (s.at[i].text.buf[0] == '#')
			errx(FAILED, "%s: the program's rdmamsg is older, and "
			     "tells --stats only", s.at[i].path);
		printf("%s", s.at[i].text.buf);
	}
	sources_free(&s);
	return status;
}

static void emit_endpoint(const char *line)
{
	if (!options.json) {
		printf("# %s\n", line);
		return;
	}
	emit_object_begin();
	emit_text("endpoint", line);
	emit_object_end();
}

/*
 * Lists endpoints and their peers behind the statistics, as comments. Only root
 * and the user of the program get them.
 */
static void show_endpoints(const char *path)
{
	struct sources s = { 0 };
	char *line, *rest;

	sources_find(&s, path);
	sources_read(&s, "dump\n", PATIENCE_MS);
	emit_list("endpoints");
	for (size_t i = 0; i < s.count; i++)
		for (line = s.at[i].error ? NULL :
		     strtok_r(s.at[i].text.buf, "\n", &rest); line;
		     line = strtok_r(NULL, "\n", &rest))
			if (!strncmp(line, "endpoint ", 9))
				emit_endpoint(line);
	emit_list_end();
	sources_free(&s);
}

int show_stats(const char *path)
{
	struct metrics metrics = { 0 };
	struct sources sources = { 0 };
	int status = read_program(&sources, path, "\n");

	for (size_t i = 0; i < sources.count; i++)
		if (!sources.at[i].error)
			metrics_add(&metrics, &sources.at[i], false);
	sources_free(&sources);
	if (!metrics.count)
		return FAILED;
	emit_begin();
	emit_list("metrics");
	for (size_t i = 0; i < metrics.count; i++) {
		const struct metric *m = &metrics.at[i];

		if (!m->head.buf || !m->samples.buf)
			wrong(m->name);
		if (options.json)
			emit_metric(m);
		else
			printf("%s%s", m->head.buf, m->samples.buf);
	}
	emit_list_end();
	show_endpoints(path);
	emit_end();
	metrics_free(&metrics);
	return status;
}
