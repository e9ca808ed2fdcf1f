/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict parser of JSON objects (RFC 8259) that have the keys of --json. Other
 * keys are skipped. Strings with escapes are valid and skipped, because --json
 * writes none.
 */
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX	64	/* characters */

struct text {
	const char *at, *end;
};

static int peek(const struct text *t)
{
	return t->at < t->end ? (unsigned char)*t->at : -1;
}

static void skip_space(struct text *t)
{
	while (t->at < t->end && strchr(" \t\r\n", *t->at) && *t->at)
		t->at++;
}

/* Consumes the character, and the space around it. */
static bool accept(struct text *t, char c)
{
	skip_space(t);
	if (peek(t) != c)
		return false;
	t->at++;
	skip_space(t);
	return true;
}

static bool accept_word(struct text *t, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(t->end - t->at) < len || memcmp(t->at, word, len))
		return false;
	t->at += len;
	return true;
}

static bool is_hex(int c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
	       (c >= 'A' && c <= 'F');
}

/* Consumes what follows a backslash. */
static bool escape(struct text *t)
{
	int c = peek(t);

	if (c <= 0 || !strchr("\"\\/bfnrtu", c))
		return false;
	t->at++;
	for (int i = 0; c == 'u' && i < 4; i++, t->at++)
		if (!is_hex(peek(t)))
			return false;
	return true;
}

/*
 * Reads a string. A string that is too long or not of printable ASCII is
 * consumed, and *ret is empty.
 */
static bool string(struct text *t, char ret[PERF_WORD_MAX])
{
	size_t n = 0;
	bool plain = true;

	ret[0] = 0;
	if (peek(t) != '"')
		return false;
	for (t->at++; peek(t) != '"'; t->at++) {
		int c = peek(t);

		if (c < ' ')
			return false;
		if (c == '\\') {
			t->at++;
			if (!escape(t))
				return false;
			t->at--;
		}
		plain &= c != '\\' && c < 0x7f && n < PERF_WORD_MAX - 1;
		if (plain)
			ret[n++] = (char)c;
	}
	t->at++;
	ret[plain ? n : 0] = 0;
	return true;
}

static bool digits(struct text *t)
{
	const char *from = t->at;

	while (peek(t) >= '0' && peek(t) <= '9')
		t->at++;
	return t->at > from;
}

/* Consumes a number of JSON, which is not what strtod() accepts. */
static bool number_text(struct text *t)
{
	if (peek(t) == '-')
		t->at++;
	if (peek(t) == '0')
		t->at++;
	else if (!digits(t))
		return false;
	if (peek(t) == '.') {
		t->at++;
		if (!digits(t))
			return false;
	}
	if (peek(t) == 'e' || peek(t) == 'E') {
		t->at++;
		if (peek(t) == '+' || peek(t) == '-')
			t->at++;
		if (!digits(t))
			return false;
	}
	return true;
}

static bool number(struct text *t, double *ret)
{
	const char *from = t->at;
	char buf[NUMBER_MAX];
	size_t len;

	if (!number_text(t))
		return false;
	len = (size_t)(t->at - from);
	if (len >= sizeof(buf))
		return false;
	memcpy(buf, from, len);
	buf[len] = 0;
	*ret = strtod(buf, NULL);
	return isfinite(*ret) && *ret >= 0;
}

static bool boolean(struct text *t, bool *ret)
{
	*ret = accept_word(t, "true");
	return *ret || accept_word(t, "false");
}

static bool skip_value(struct text *t, int depth);

/* Consumes the rest of an array or an object. */
static bool skip_members(struct text *t, bool object, int depth)
{
	char close = object ? '}' : ']', word[PERF_WORD_MAX];

	if (accept(t, close))
		return true;
	do {
		if (object && (!string(t, word) || !accept(t, ':')))
			return false;
		if (!skip_value(t, depth))
			return false;
	} while (accept(t, ','));
	return accept(t, close);
}

static bool skip_value(struct text *t, int depth)
{
	char word[PERF_WORD_MAX];

	if (depth == PERF_NESTING)
		return false;
	if (accept(t, '{'))
		return skip_members(t, true, depth + 1);
	if (accept(t, '['))
		return skip_members(t, false, depth + 1);
	if (peek(t) == '"')
		return string(t, word);
	return accept_word(t, "true") || accept_word(t, "false") ||
	       accept_word(t, "null") || number_text(t);
}

/* Reads "[seconds, p50, worst]". */
static bool point(struct text *t, struct perf_point *ret)
{
	return accept(t, '[') && number(t, &ret->seconds) && accept(t, ',') &&
	       number(t, &ret->p50) && accept(t, ',') &&
	       number(t, &ret->worst) && accept(t, ']');
}

static bool points(struct text *t, struct perf_row *r)
{
	r->points = 0;
	if (!accept(t, '['))
		return false;
	if (accept(t, ']'))
		return true;
	do {
		if (r->points == PERF_POINTS || !point(t, &r->point[r->points]))
			return false;
		r->points++;
	} while (accept(t, ','));
	return accept(t, ']');
}

static bool value(struct text *t, const char *key, struct perf_row *r)
{
	const struct {
		const char *key;
		char *word;
		double *number;
	} fields[] = {
		{ "test", r->test, NULL },
		{ "device", r->device, NULL },
		{ "mode", r->mode, NULL },
		{ "size", NULL, &r->size },
		{ "usec_p50", NULL, &r->p50 },
		{ "usec_p99", NULL, &r->p99 },
		{ "usec_p999", NULL, &r->p999 },
		{ "msg_per_s", NULL, &r->msg_per_s },
		{ "mb_per_s", NULL, &r->mb_per_s },
		{ "warmup", NULL, &r->warmup },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(key, fields[i].key))
			return fields[i].word ? string(t, fields[i].word) :
			       number(t, fields[i].number);
	if (!strcmp(key, "cold"))
		return boolean(t, &r->cold);
	if (!strcmp(key, "over_time"))
		return points(t, r);
	return skip_value(t, 0);
}

static bool object(struct text *t, struct perf_row *r)
{
	char key[PERF_WORD_MAX];

	if (!accept(t, '{'))
		return false;
	if (accept(t, '}'))
		return true;
	do {
		if (!string(t, key) || !accept(t, ':') || !value(t, key, r))
			return false;
	} while (accept(t, ','));
	return accept(t, '}');
}

int perf_row_parse(const char *text, size_t len, struct perf_row *ret)
{
	struct text t = { text, text + len };
	struct perf_row r;

	memset(&r, 0, sizeof(r));
	if (!object(&t, &r) || t.at != t.end)
		return -EINVAL;
	if (!r.test[0] || r.p50 <= 0)
		return 0;
	*ret = r;
	return 1;
}
