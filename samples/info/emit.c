/* SPDX-License-Identifier: BSD-2-Clause */
/* Fields as lines of text, or as one JSON object. */
#include "info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BOLD	"\033[1m"
#define GREEN	"\033[32m"
#define RED	"\033[31m"
#define DIM	"\033[2m"
#define PLAIN	"\033[0m"

static int depth;
static bool first = true;		/* of its JSON object or array */
static bool not_applicable, colours;

static const char *colour(const char *sequence)
{
	return colours ? sequence : "";
}

void emit_string(const char *s)
{
	putchar('"');
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			printf("\\u%04x", (unsigned char)*s);
		else
			putchar(*s);
	putchar('"');
}

static void indent(void)
{
	printf("%*s", 2 * depth, "");
}

static void json_next(void)
{
	printf(first ? "\n" : ",\n");
	first = false;
	indent();
}

static void json_open(const char *key, char bracket)
{
	json_next();
	if (key) {
		emit_string(key);
		printf(": ");
	}
	putchar(bracket);
	depth++;
	first = true;
}

static void json_close(char bracket)
{
	depth--;
	printf("\n");
	indent();
	putchar(bracket);
	first = false;
}

/* Returns true if the value follows. */
static bool begin_field(const char *key)
{
	if (options.json) {
		json_next();
		emit_string(key);
		printf(": ");
		if (!not_applicable)
			return true;
		printf("null");
		not_applicable = false;
		return false;
	}
	indent();
	printf("%s%s: ", not_applicable ? colour(DIM) : "", key);
	return true;
}

static void end_field(void)
{
	if (options.json)
		return;
	if (not_applicable)
		printf(" [n/a]%s", colour(PLAIN));
	printf("\n");
	not_applicable = false;
}

void emit_begin(void)
{
	colours = !options.json && isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	if (!options.json)
		return;
	putchar('{');
	depth++;
}

void emit_end(void)
{
	if (!options.json)
		return;
	json_close('}');
	printf("\n");
}

void emit_list(const char *key)
{
	if (options.json)
		json_open(key, '[');
}

void emit_list_end(void)
{
	if (options.json)
		json_close(']');
}

void emit_object_begin(void)
{
	json_open(NULL, '{');
}

void emit_object(const char *key, const char *value)
{
	if (options.json) {
		json_open(NULL, '{');
		emit_text(key, value);
		return;
	}
	indent();
	printf("%s%s: %s%s\n", colour(BOLD), key, value, colour(PLAIN));
	depth++;
}

void emit_object_end(void)
{
	if (options.json)
		json_close('}');
	else
		depth--;
}

void emit_text(const char *key, const char *value)
{
	if (!begin_field(key))
		return;
	if (options.json)
		emit_string(value);
	else
		printf("%s", value);
	end_field();
}

void emit_number(const char *key, uint64_t value)
{
	if (!begin_field(key))
		return;
	printf("%" PRIu64, value);
	end_field();
}

void emit_hex(const char *key, uint64_t value)
{
	if (!begin_field(key))
		return;
	/* JSON has no hexadecimal numbers */
	printf(options.json ? "%" PRIu64 : "0x%" PRIx64, value);
	end_field();
}

void emit_coded(const char *key, const char *name, uint64_t code, int good)
{
	if (!begin_field(key))
		return;
	if (options.json) {
		printf("{ \"code\": %" PRIu64 ", \"name\": ", code);
		emit_string(name);
		printf(" }");
	} else {
		printf("%s%s%s (%" PRIu64 ")",
		       good < 0 ? "" : colour(good ? GREEN : RED), name,
		       good < 0 ? "" : colour(PLAIN), code);
	}
	end_field();
}

void emit_flags(const char *key, uint64_t value, enum rdmamsg_name_kind kind)
{
	const char *separator = options.json ? "" : " ";

	if (!begin_field(key))
		return;
	printf(options.json ? "{ \"value\": %" PRIu64 ", \"names\": [" :
	       "0x%" PRIx64, value);
	for (uint32_t bit = 0; bit < 64; bit++) {
		const char *text = rdmamsg_name(kind, bit);

		if (!(value >> bit & 1) || !text)
			continue;
		printf("%s", separator);
		if (options.json)
			emit_string(text);
		else
			printf("%s", text);
		separator = options.json ? ", " : " ";
	}
	if (options.json)
		printf("] }");
	end_field();
}

void emit_not_applicable(void)
{
	not_applicable = true;
}
