/* SPDX-License-Identifier: BSD-2-Clause */
/* Text of /sys, of /proc and of a peer, as values. */
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns false for what strtoull() takes besides digits. */
static bool digits(const char *text, int base, char **end, uint64_t *ret)
{
	uint64_t n;

	if (!isxdigit((unsigned char)*text))
		return false;
	errno = 0;
	n = strtoull(text, end, base);
	if (errno || *end == text)
		return false;
	*ret = n;
	return true;
}

static bool at_end(const char *text)
{
	return !*text || (*text == '\n' && !text[1]);
}

bool parse_number(const char *text, uint64_t *ret)
{
	char *end;

	return digits(text, 10, &end, ret);
}

bool parse_pkey(const char *text, uint16_t *ret)
{
	uint64_t n;
	char *end;

	if (!digits(text, 16, &end, &n) || n > UINT16_MAX || !at_end(end))
		return false;
	*ret = (uint16_t)n;
	return true;
}

bool parse_gid(const char *text, uint8_t ret[16])
{
	uint8_t gid[16];

	for (int i = 0; i < 16; i += 2) {
		uint64_t n;
		char *end;

		if (!digits(text, 16, &end, &n) || end != text + 4 ||
		    (i < 14 ? *end != ':' : !at_end(end)))
			return false;
		gid[i] = (uint8_t)(n >> 8);
		gid[i + 1] = (uint8_t)n;
		text = end + 1;
	}
	memcpy(ret, gid, sizeof(gid));
	return true;
}

bool parse_gid_type(const char *text, bool ethernet, uint32_t *ret)
{
	if (!strncmp(text, "RoCE v2", 7) && at_end(text + 7))
		*ret = 2;
	else if (!strncmp(text, "IB/RoCE v1", 10) && at_end(text + 10))
		*ret = ethernet;
	else
		return false;
	return true;
}

/* The rate may be "2.5 Gb/sec". */
bool parse_rate(const char *text, uint32_t *ret)
{
	uint64_t whole, tenth = 0;
	char *end;

	if (!digits(text, 10, &end, &whole) || whole > UINT32_MAX / 1000 - 1)
		return false;
	if (*end == '.') {
		if (!isdigit((unsigned char)end[1]))
			return false;
		tenth = (uint64_t)(end[1] - '0');
		end += 2;
	}
	if (strncmp(end, " Gb/sec", 7))
		return false;
	*ret = (uint32_t)(whole * 1000 + tenth * 100);
	return true;
}

bool parse_node(const char *text, unsigned int *major, unsigned int *minor)
{
	uint64_t a, b;
	char *end;

	if (!digits(text, 10, &end, &a) || *end != ':' || a > UINT32_MAX ||
	    !digits(end + 1, 10, &end, &b) || b > UINT32_MAX || !at_end(end))
		return false;
	*major = (unsigned int)a;
	*minor = (unsigned int)b;
	return true;
}

/* ---- lines of /proc --------------------------------------------------- */

/* Returns the rest of the line that begins with the prefix, or NULL. */
static const char *line_of(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	while (text) {
		if (!strncmp(text, prefix, len))
			return text + len;
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return NULL;
}

static const char *past_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

static bool limit(const char **text, uint64_t *ret)
{
	const char *at = past_blanks(*text);
	char *end;

	if (!strncmp(at, "unlimited", 9)) {
		*ret = UNLIMITED;
		*text = at + 9;
		return true;
	}
	if (!digits(at, 10, &end, ret))
		return false;
	*text = end;
	return true;
}

bool parse_limit(const char *text, const char *name, uint64_t *soft,
		 uint64_t *hard)
{
	uint64_t a, b;

	text = line_of(text, name);
	if (!text || (*text != ' ' && *text != '\t') || !limit(&text, &a) ||
	    !limit(&text, &b))
		return false;
	*soft = a;
	*hard = b;
	return true;
}

bool parse_value(const char *text, const char *name, int base, uint64_t *ret)
{
	char *end;

	text = line_of(text, name);
	return text && *text == ':' &&
	       digits(past_blanks(text + 1), base, &end, ret);
}

/* Returns the value behind "OBJECT=" within the line, or NULL. */
static const char *object_of(const char *line, const char *object)
{
	size_t len = strlen(object);

	while (*line && *line != '\n') {
		line += strspn(line, " ");
		if (!strncmp(line, object, len) && line[len] == '=')
			return line + len + 1;
		line += strcspn(line, " \n");
	}
	return NULL;
}

bool parse_rdma_cgroup(const char *text, const char *device,
		       const char *object, uint64_t *ret)
{
	const char *value;
	char *end;

	text = line_of(text, device);
	if (!text || *text != ' ')
		return false;
	value = object_of(text, object);
	if (!value)
		return false;
	if (strncmp(value, "max", 3))
		return digits(value, 10, &end, ret);
	*ret = UNLIMITED;
	return true;
}

/* The word is an element of a list that commas separate. */
static bool has_word(const char *list, size_t len, const char *word)
{
	size_t n = strlen(word);

	while (len) {
		const char *comma = memchr(list, ',', len);
		size_t one = comma ? (size_t)(comma - list) : len;

		if (one == n && !memcmp(list, word, n))
			return true;
		list += comma ? one + 1 : one;
		len -= comma ? one + 1 : one;
	}
	return false;
}

static bool copy(const char *from, size_t len, char *to, size_t size)
{
	if (!len || len >= size)
		return false;
	memcpy(to, from, len);
	to[len] = 0;
	return true;
}

/* Lines are HIERARCHY:CONTROLLERS:PATH. */
bool parse_cgroup(const char *text, const char *controller, char *ret,
		  size_t size)
{
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		size_t line = strcspn(text, "\n");
		const char *list = memchr(text, ':', line), *path;

		if (!list)
			continue;
		list++;
		path = memchr(list, ':', line - (size_t)(list - text));
		if (!path)
			continue;
		if (controller ? !has_word(list, (size_t)(path - list),
					   controller) : path != list)
			continue;
		path++;
		return copy(path, line - (size_t)(path - text), ret, size);
	}
	return false;
}

/* Returns the file at the end of a line of /proc/PID/maps, or NULL. */
static const char *mapped_file(const char *line, size_t len)
{
	const char *slash = memchr(line, '/', len);

	return slash && slash > line && slash[-1] == ' ' ? slash : NULL;
}

bool parse_mapped(const char *text, const char *library, char *ret,
		  size_t size)
{
	size_t n = strlen(library);

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		size_t line = strcspn(text, "\n"), len;
		const char *file = mapped_file(text, line), *name;

		if (!file)
			continue;
		len = line - (size_t)(file - text);
		for (name = file + len; name[-1] != '/'; name--)
			;
		if ((size_t)(file + len - name) >= n &&
		    !strncmp(name, library, n))
			return copy(file, len, ret, size);
	}
	return false;
}

/* Lines are PATH/MODULE.ko[.xz]: DEPENDENCIES. */
bool parse_has_module(const char *text, const char *module)
{
	size_t n = strlen(module);

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		size_t path = strcspn(text, ":\n"), name = path;

		while (name && text[name - 1] != '/')
			name--;
		if (path - name > n + 2 && !strncmp(text + name, module, n) &&
		    !strncmp(text + name + n, ".ko", 3))
			return true;
	}
	return false;
}

/* ---- the environment, the operand, the peer --------------------------- */

/* Longer text is cut. */
static void take(const char *from, size_t len, char *to, size_t size)
{
	if (len >= size)
		len = size - 1;
	for (size_t i = 0; i < len; i++)
		to[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ?
			'?' : from[i];
	to[len] = 0;
}

bool parse_variable(const char *text, size_t len, size_t *at, char *name,
		    size_t name_size, char *value, size_t value_size)
{
	const char *one = text + *at;
	size_t n, key;

	if (*at >= len)
		return false;
	n = strnlen(one, len - *at);
	*at += n + 1;
	for (key = 0; key < n && one[key] != '='; key++)
		;
	take(one, key, name, name_size);
	take(one + key + (key < n), n - key - (key < n), value, value_size);
	return true;
}

bool parse_target(const char *text, char *host, size_t host_size, char *port,
		  size_t port_size)
{
	const char *end, *colon = strrchr(text, ':');

	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		colon = end[1] ? end + 1 : NULL;
	} else if (colon && strchr(text, ':') != colon) {
		/* more than one: an IPv6 address */
		colon = NULL;
		end = text + strlen(text);
	} else {
		end = colon ? colon : text + strlen(text);
	}
	if (colon && (!colon[1] || strlen(colon + 1) >= port_size))
		return false;
	if (!copy(text, (size_t)(end - text), host, host_size))
		return false;
	if (colon)
		strcpy(port, colon + 1);
	return true;
}

unsigned int parse_line(const char *text, size_t len, size_t *at, char *buf,
			size_t size, const char *fields[FIELDS_MAX])
{
	const char *line = text + *at, *end;
	unsigned int n = 0;
	size_t length;

	if (*at >= len)
		return 0;
	end = memchr(line, '\n', len - *at);
	length = end ? (size_t)(end - line) : len - *at;
	if (length >= size)
		return 0;
	*at += length + 1;
	while (n < FIELDS_MAX) {
		const char *tab = memchr(line, '\t', length);
		size_t one = tab ? (size_t)(tab - line) : length;

		take(line, one, buf, one + 1);
		fields[n++] = buf;
		buf += one + 1;
		if (!tab)
			break;
		line += one + 1;
		length -= one + 1;
	}
	return n;
}
