/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict parser of the text format of Prometheus: each metric has HELP, TYPE
 * and samples, in this order and once. The test fails at anything else.
 */
#ifndef EXPOSITION_H
#define EXPOSITION_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define METRICS		256
#define NAME_CHARS	"abcdefghijklmnopqrstuvwxyz_0123456789"

struct sample {
	char text[256];			/* NAME{LABELS} */
	uint64_t value;
};

static struct {
	char names[METRICS][64];
	uint32_t name_count;
	struct sample *samples;
	size_t count, room;
} parsed;

static inline const char *skip_chars(const char *at, const char *chars)
{
	size_t n = strspn(at, chars);

	assert_true(n > 0);
	return at + n;
}

static inline const char *skip_text(const char *at, const char *text)
{
	if (strncmp(at, text, strlen(text)))
		fail_msg("not '%s': '%.80s'", text, at);
	return at + strlen(text);
}

/* Returns the end of a label's value, which begins after a quote. */
static inline const char *skip_value(const char *at)
{
	for (; *at != '"'; at++) {
		assert_true((unsigned char)*at >= 0x20);
		if (*at == '\\')
			assert_non_null(strchr("\\\"n", *++at));
	}
	return at;
}

static inline const char *skip_labels(const char *at)
{
	at = skip_text(at, "{");
	for (;;) {
		at = skip_chars(at, NAME_CHARS);
		at = skip_text(at, "=\"");
		at = skip_text(skip_value(at), "\"");
		if (*at != ',')
			return skip_text(at, "}");
		at++;
	}
}

static inline void add_sample(const char *text, size_t len, uint64_t value)
{
	struct sample *s;

	if (parsed.count == parsed.room) {
		parsed.room = 2 * parsed.room + 64;
		parsed.samples = realloc(parsed.samples, parsed.room *
					 sizeof(*parsed.samples));
		assert_non_null(parsed.samples);
	}
	s = &parsed.samples[parsed.count++];
	assert_true(len < sizeof(s->text));
	memcpy(s->text, text, len);
	s->text[len] = 0;
	s->value = value;
}

/* Parses a line of the metric, and returns the next line. */
static inline const char *parse_sample(const char *at, const char *name)
{
	const char *begin = at, *end;
	char *after;

	at = skip_text(at, name);
	end = skip_labels(at);
	at = skip_text(end, " ");
	assert_true(isdigit((unsigned char)*at));
	add_sample(begin, (size_t)(end - begin), strtoull(at, &after, 10));
	return skip_text(after, "\n");
}

static inline bool is_total(const char *name)
{
	size_t len = strlen(name);

	return len > 6 && !strcmp(name + len - 6, "_total");
}

static inline const char *parse_metric(const char *at)
{
	char *name = parsed.names[parsed.name_count];
	size_t len;

	at = skip_text(at, "# HELP ");
	len = strspn(at, NAME_CHARS);
	assert_true(len > 0 && len < sizeof(parsed.names[0]));
	memcpy(name, at, len);
	name[len] = 0;
	skip_text(name, "rdmamsg_");
	for (uint32_t i = 0; i < parsed.name_count; i++)
		assert_string_not_equal(parsed.names[i], name);
	assert_true(++parsed.name_count < METRICS);
	at = skip_text(at + len, " ");
	assert_true(isupper((unsigned char)*at));
	at += strcspn(at, "\n\\");
	at = skip_text(at, "\n# TYPE ");
	at = skip_text(skip_text(at, name), " ");
	at = skip_text(at, is_total(name) ? "counter\n" : "gauge\n");
	do
		at = parse_sample(at, name);
	while (*at && *at != '#');
	return at;
}

static inline int by_text(const void *a, const void *b)
{
	return strcmp(((const struct sample *)a)->text,
		      ((const struct sample *)b)->text);
}

static inline void parse(const char *text)
{
	parsed.name_count = 0;
	parsed.count = 0;
	while (*text)
		text = parse_metric(text);
	assert_true(parsed.count > 0);
	qsort(parsed.samples, parsed.count, sizeof(*parsed.samples), by_text);
	for (size_t i = 1; i < parsed.count; i++)
		assert_string_not_equal(parsed.samples[i - 1].text,
					parsed.samples[i].text);
}

/* Returns the value of NAME{LABELS}. */
static inline uint64_t sample(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
static inline uint64_t sample(const char *fmt, ...)
{
	struct sample key, *found;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(key.text, sizeof(key.text), fmt, ap);
	va_end(ap);
	found = bsearch(&key, parsed.samples, parsed.count,
			sizeof(*parsed.samples), by_text);
	if (!found)
		fail_msg("no sample %s", key.text);
	return found->value;
}

/* Returns the number of samples that begin like this. */
static inline size_t samples_of(const char *begin)
{
	size_t n = 0;

	for (size_t i = 0; i < parsed.count; i++)
		n += !strncmp(parsed.samples[i].text, begin, strlen(begin));
	return n;
}

#endif
