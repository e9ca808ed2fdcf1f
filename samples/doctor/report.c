/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings: collected, then printed as text or as JSON. */
#include "doctor.h"

#include <err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdmamsg/diag.h>

#define BOLD	"\033[1m"
#define GREEN	"\033[32m"
#define YELLOW	"\033[33m"
#define RED	"\033[31m"
#define PLAIN	"\033[0m"

static struct finding *findings, **last = &findings;
static const char *running = "";
static bool colours;

const char *verdict_name(enum verdict verdict)
{
	static const char *const names[] = { "ok", "warning", "wrong" };

	return names[verdict];
}

void report_check(const char *name)
{
	running = name;
}

struct finding *found(const char *subject, enum verdict verdict,
		      const char *fmt, ...)
{
	struct finding *f = calloc(1, sizeof(*f));
	va_list ap;

	if (!f)
		err(WRONG, "memory");
	f->check = running;
	f->verdict = verdict;
	snprintf(f->subject, sizeof(f->subject), "%s", subject);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	*last = f;
	last = &f->next;
	return f;
}

void mend(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->remedy, sizeof(f->remedy), fmt, ap);
	va_end(ap);
}

void report_clear(void)
{
	struct finding *next;

	for (struct finding *f = findings; f; f = next) {
		next = f->next;
		free(f);
	}
	findings = NULL;
	last = &findings;
}

const struct finding *report_findings(void)
{
	return findings;
}

enum verdict report_worst(void)
{
	enum verdict worst = OK;

	for (const struct finding *f = findings; f; f = f->next)
		if (f->verdict > worst)
			worst = f->verdict;
	return worst;
}

const struct finding *report_failed_step(void)
{
	const struct finding *f = findings;

	while (f && (f->verdict != WRONG || !check_is_step(f->check)))
		f = f->next;
	return f;
}

static unsigned int count(enum verdict verdict)
{
	unsigned int n = 0;

	for (const struct finding *f = findings; f; f = f->next)
		n += f->verdict == verdict;
	return n;
}

/* ---- text ------------------------------------------------------------- */

static const char *colour(const char *sequence)
{
	return colours ? sequence : "";
}

static void print_finding(const struct finding *f)
{
	static const char *const shades[] = { GREEN, YELLOW, RED };

	printf("%s%-7s%s  %s%s%s: %s\n", colour(shades[f->verdict]),
	       verdict_name(f->verdict), colour(PLAIN), f->check,
	       f->subject[0] ? " " : "", f->subject, f->text);
	if (f->remedy[0])
		printf("         %s%s%s\n", colour(BOLD), f->remedy,
		       colour(PLAIN));
}

static void print_text(void)
{
	const struct finding *failed = report_failed_step();

	for (const struct finding *f = findings; f; f = f->next)
		if (f->verdict != OK || !options.quiet)
			print_finding(f);
	if (failed)
		printf("the first step that fails is '%s': %s\n",
		       failed->check, failed->text);
	printf("%u ok, %u warnings, %u wrong\n", count(OK), count(WARNING),
	       count(WRONG));
}

/* ---- JSON ------------------------------------------------------------- */

/* Returns the length of the UTF-8 sequence at s, or 0 if it is none. */
static int utf8(const unsigned char *s)
{
	int n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 :
		*s >= 0xe0 && *s < 0xf0 ? 3 : *s >= 0xf0 && *s < 0xf5 ? 4 : 0;

	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* longer than necessary, a surrogate, or beyond U+10FFFF */
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
	    (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

static void json_string(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	putchar('"');
	for (int n; *s; s += n ? n : 1) {
		n = utf8(s);
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			printf("\\u%04x", *s);
		else if (n)
			printf("%.*s", n, (const char *)s);
		else
			printf("\\ufffd");
	}
	putchar('"');
}

static void json_field(const char *key, const char *value, const char *end)
{
	printf("\"%s\": ", key);
	json_string(value);
	printf("%s", end);
}

static void json_finding(const struct finding *f)
{
	printf("    { ");
	json_field("check", f->check, ", ");
	json_field("what", check_what(f->check), ",\n      ");
	json_field("subject", f->subject, ", ");
	json_field("verdict", verdict_name(f->verdict), ",\n      ");
	json_field("text", f->text, ",\n      ");
	json_field("remedy", f->remedy, " }");
	printf("%s\n", f->next ? "," : "");
}

static void print_json(const char *target)
{
	const struct finding *failed = report_failed_step();

	printf("{\n  ");
	json_field("version", rdmamsg_version(), ",\n  ");
	json_field("target", target ? target : "", ",\n  ");
	json_field("verdict", verdict_name(report_worst()), ",\n  ");
	json_field("failed_step", failed ? failed->check : "", ",\n  ");
	printf("\"findings\": [\n");
	for (const struct finding *f = findings; f; f = f->next)
		json_finding(f);
	printf("  ]\n}\n");
}

void report_print(const char *target)
{
	colours = !options.json && isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	if (options.json)
		print_json(target);
	else
		print_text();
}
