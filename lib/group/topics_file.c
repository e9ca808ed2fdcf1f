/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of topics. Each call reads it, so that a change counts at once, and
 * closes it before a callback runs.
 */
#include "base/base.h"
#include "base/fd.h"
#include "group/topics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdmamsg/group.h>

#define DEFAULT_PATH	"/etc/rdmamsg/topics"

static const char *path(void)
{
	const char *set = rdmamsg__env_topics();

	return set ? set : DEFAULT_PATH;
}

static int read_all(int fd, char *text, size_t *len)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	/* others have no end */
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	for (; *len <= TOPICS_FILE_MAX; *len += (size_t)n) {
		n = read(fd, text + *len, TOPICS_FILE_MAX + 1 - *len);
		if (n <= 0)
			return n ? -errno : 0;
	}
	return -EFBIG;
}

static int read_file(char *text, size_t *len)
{
	/* a FIFO does not block */
	int fd = fd_high(open(path(), O_RDONLY | O_CLOEXEC | O_NONBLOCK |
			      O_NOCTTY));
	int ret = fd < 0 ? -errno : read_all(fd, text, len);

	if (fd >= 0)
		close(fd);
	if (ret)
		return rdmamsg__fail(ret, "%s: %s (see RDMAMSG_TOPICS in "
				     "rdmamsg-env(7))", path(),
				     ret == -EINVAL ? "not a regular file" :
				     ret == -EFBIG ? "larger than 1 MB" :
				     strerror(-ret));
	return 0;
}

/* An exception of the program in on_topic frees the text, too. */
static void free_text(char **text)
{
	free(*text);
}

static int each_topic(on_topic_fn *on_topic, void *user)
{
	__attribute__((cleanup(free_text)))
	char *text = malloc(TOPICS_FILE_MAX + 1);
	struct topics_error e = { 0 };
	size_t len = 0;
	int ret;

	if (!text)
		return rdmamsg__fail(-ENOMEM, "no memory for %s", path());
	ret = read_file(text, &len);
	if (!ret)
		ret = rdmamsg__topics_parse(text, len, on_topic, user, &e);
	if (e.why)
		rdmamsg__fail(ret, "%s:%u: %s (see RDMAMSG_TOPICS in "
			      "rdmamsg-env(7))", path(), e.line, e.why);
	return ret;
}

struct match {
	const char *pattern;
	int (*on_topic)(const char *name, const char *address, void *user);
	void *user;
	int count;
};

static int try_topic(const struct topic *t, void *user)
{
	struct match *m = user;

	if (!rdmamsg__topic_matches(m->pattern, t->name))
		return 0;
	m->count++;
	return m->on_topic(t->name, t->address, m->user);
}

struct search {
	const char *name;
	struct topic_address *address;
	char **key_file;
	bool found;
};

static int copy_topic(const struct topic *t, void *user)
{
	struct search *s = user;

	if (strcmp(s->name, t->name))
		return 0;
	s->found = true;
	strcpy(s->address->text, t->address);
	*s->key_file = t->key_file ? strdup(t->key_file) : NULL;
	return t->key_file && !*s->key_file ?
	       rdmamsg__fail(-ENOMEM, "no memory for a topic") : 0;
}

int rdmamsg__topic_find(const char *name, struct topic_address *ret_a,
			char **ret_key)
{
	struct search s = { name, ret_a, ret_key, false };
	int ret = each_topic(copy_topic, &s);

	if (!ret && !s.found)
		ret = rdmamsg__fail(-ENOENT, "%s does not have it", path());
	if (!ret)
		return 0;
	return rdmamsg__fail(ret, "'%.64s' is not the address of a group, such "
			     "as 239.1.2.3, and as a topic: %s", name,
			     rdmamsg__text());
}

int rdmamsg_topics_each(const char *pattern,
			int (*on_topic)(const char *name, const char *address,
					void *user), void *user)
{
	struct match m = { pattern, on_topic, user, 0 };
	int ret;

	if (!pattern || !on_topic)
		return rdmamsg__fail(-EINVAL, "rdmamsg_topics_each: %s is NULL",
				     pattern ? "on_topic" : "pattern");
	if (!rdmamsg__topic_valid(pattern, true))
		return rdmamsg__fail(-EINVAL, "'%.64s' is not a topic, such as "
				     "ticks.eur.usd, nor a pattern of topics, "
				     "such as ticks.*", pattern);
	ret = each_topic(try_topic, &m);
	return ret ? ret : m.count;
}
