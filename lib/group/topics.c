/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Topics: parses lines 'name address [port] [key file]', and matches names.
 */
#include "group/topics.h"
#include "group/group.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#define BLANKS		" \t\r"
#define LABEL		"abcdefghijklmnopqrstuvwxyz" \
			"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* ---- names ------------------------------------------------------------ */

bool rdmamsg__topic_valid(const char *text, bool stars)
{
	if (strlen(text) > TOPIC_NAME_MAX)
		return false;
	for (;;) {
		size_t n = strspn(text, LABEL);

		if (!n && stars && *text == '*')
			n = 1;
		if (!n || (text[n] && text[n] != '.'))
			return false;
		if (!text[n])
			return true;
		text += n + 1;
	}
}

bool rdmamsg__topic_matches(const char *pattern, const char *name)
{
	for (;;) {
		size_t p = strcspn(pattern, "."), n = strcspn(name, ".");
		bool star = *pattern == '*';

		if (star && !pattern[p])
			return true;	/* and all further labels */
		if (!star && (p != n || memcmp(pattern, name, n)))
			return false;
		if (!pattern[p] || !name[n])
			return pattern[p] == name[n];
		pattern += p + 1;
		name += n + 1;
	}
}

/* ---- the text of a file ------------------------------------------------ */

struct line {
	char text[TOPIC_LINE_MAX + 1];	/* the name is the first word of it */
	struct topic topic;		/* without a name: an empty line */
	struct topic_address address;
};

/* Puts a port that stands apart behind the address. */
static const char *set_address(struct line *t, const char *address,
			       const char *port)
{
	const char *scheme = "";
	struct group_address parsed;
	bool apart;
	int n;

	if (!address)
		return "no address behind the name";
	if (!strncmp(address, GROUP_UNICAST, strlen(GROUP_UNICAST))) {
		scheme = GROUP_UNICAST;
		address += strlen(GROUP_UNICAST);
	}
	apart = port && strchr(address, ':');
	n = snprintf(t->address.text, sizeof(t->address.text), "%s%s%s%s%s%s",
		     scheme, apart ? "[" : "", address, apart ? "]" : "",
		     port ? ":" : "", port ? port : "");
	if ((size_t)n >= sizeof(t->address.text) ||
	    !rdmamsg__group_parse(t->address.text, &parsed) ||
	    !parsed.is_group)
		return port ? "not the address of a group and its port" :
		       "not the address of a group";
	return NULL;
}

/* Returns why the line is refused, or NULL. */
static const char *parse_line(struct line *t, const char *line, size_t len)
{
	struct group_address parsed;
	char *save, *address, *port, *key_file;

	t->topic = (struct topic){ .address = t->address.text };
	if (len > TOPIC_LINE_MAX)
		return "longer than 1024 bytes";
	if (memchr(line, 0, len))
		return "not a text: it has a byte 0";
	memcpy(t->text, line, len);
	t->text[len] = 0;
	t->text[strcspn(t->text, "#")] = 0;
	t->topic.name = strtok_r(t->text, BLANKS, &save);
	if (!t->topic.name)
		return NULL;
	address = strtok_r(NULL, BLANKS, &save);
	port = address ? strtok_r(NULL, BLANKS, &save) : NULL;
	key_file = port && *port != '/' ? strtok_r(NULL, BLANKS, &save) : port;
	if (key_file == port)
		port = NULL;
	t->topic.key_file = key_file;
	if (key_file && *key_file != '/')
		return "behind the address and the port comes the path of a "
		       "key file, from / on";
	if (key_file && strtok_r(NULL, BLANKS, &save))
		return "more than a name, an address, a port and a key file";
	if (!rdmamsg__topic_valid(t->topic.name, false))
		return "not a name: labels of A-Z a-z 0-9 _ and -, dots "
		       "between them, 255 bytes together";
	if (rdmamsg__group_parse(t->topic.name, &parsed))
		return "the name of a topic is an address";
	return set_address(t, address, port);
}

/* Compares the first words of two lines, which a blank ends. */
static int by_name(const void *one, const void *other)
{
	const unsigned char *a = one, *b = other;

	while (*a == *b && *a > ' ') {
		a++;
		b++;
	}
	return (*a > ' ' ? *a : 0) - (*b > ' ' ? *b : 0);
}

static void keep(void *name)
{
}

/* Refuses a name that an earlier line has. */
static int note_name(void **names, const char *line, const char **why)
{
	const char *const *first;

	line += strspn(line, BLANKS);
	first = tsearch(line, names, by_name);
	if (first && *first == line)
		return 0;
	*why = first ? "an earlier line has the same name" :
	       "no memory for the names";
	return first ? -EINVAL : -ENOMEM;
}

/* Calls on_topic, or without it only checks the lines. */
static int each_line(const char *text, size_t len, on_topic_fn *on_topic,
		     void *user, struct topics_error *e)
{
	const char *end = text + len, *next;
	void *names = NULL;
	struct line t;
	int ret = 0;

	for (e->line = 1; text < end && !ret; text = next + 1, e->line++) {
		next = memchr(text, '\n', (size_t)(end - text));
		if (!next)
			next = end;
		e->why = parse_line(&t, text, (size_t)(next - text));
		if (e->why)
			ret = -EINVAL;
		else if (t.topic.name && on_topic)
			ret = on_topic(&t.topic, user);
		else if (t.topic.name)
			ret = note_name(&names, text, &e->why);
	}
	e->line -= ret != 0;
	tdestroy(names, keep);
	return ret;
}

int rdmamsg__topics_parse(const char *text, size_t len, on_topic_fn *on_topic,
			  void *user, struct topics_error *ret_e)
{
	int ret = each_line(text, len, NULL, NULL, ret_e);

	return ret ? ret : each_line(text, len, on_topic, user, ret_e);
}
