/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: topics of an accepted file have valid names, each once, and
 * addresses of groups; a refused file has a line with a reason, and no topic.
 */
#include "group/group.h"
#include "group/topics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static int count(const struct topic *t, void *user)
{
	unsigned int *same = user;

	*same += 1;
	return 0;
}

struct file {
	const char *text;
	size_t len;
	unsigned int topics;
};

static int check(const struct topic *t, void *user)
{
	const char *name = t->name;
	struct group_address a;
	struct file *f = user;

	f->topics++;
	must(rdmamsg__topic_valid(name, false) && *name);
	must(strlen(name) <= TOPIC_NAME_MAX);
	must(!rdmamsg__group_parse(name, &a));
	must(rdmamsg__group_parse(t->address, &a) && a.is_group);
	must(!t->key_file || *t->key_file == '/');
	must(rdmamsg__topic_matches(name, name));
	must(rdmamsg__topic_matches("*", name));
	must(rdmamsg__topic_matches("*.*", name) == !!strchr(name, '.'));
	return 0;
}

/* The first line as a pattern. */
static void match(const char *text, size_t len)
{
	char pattern[64];
	size_t n = 0;

	while (n < len && n < sizeof(pattern) - 1 && text[n] != '\n') {
		pattern[n] = text[n];
		n++;
	}
	pattern[n] = 0;
	if (rdmamsg__topic_valid(pattern, true))
		must(rdmamsg__topic_matches(pattern, pattern));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file f = { (const char *)data, size, 0 };
	struct topics_error e = { 0 };
	unsigned int topics = 0;
	int ret = rdmamsg__topics_parse(f.text, size, check, &f, &e);

	match(f.text, size);
	if (ret) {
		must(ret == -EINVAL && e.line && e.why && !f.topics);
		return 0;
	}
	must(!e.why);
	must(!rdmamsg__topics_parse(f.text, size, count, &topics, &e));
	must(topics == f.topics);
	return 0;
}
