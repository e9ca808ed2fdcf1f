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

struct search {
	const char *pattern;
	on_topic_fn *on_topic;		/* or NULL */
	void *user;
	int matches;
};

static int try_topic(const char *name, const char *address, void *user)
{
	struct search *s = user;

	if (!rdmamsg__topic_matches(s->pattern, name))
		return 0;
	s->matches++;
	return s->on_topic(name, address, s->user);
}

static int copy_address(const char *name, const char *address, void *user)
{
	struct topic_address *ret = user;

	strcpy(ret->text, address);
	return 0;
}

int rdmamsg__topic_find(const char *name, struct topic_address *ret_a)
{
	struct search s = { name, copy_address, ret_a };
	int ret = each_topic(try_topic, &s);

	if (!ret && !s.matches)
		ret = rdmamsg__fail(-ENOENT, "%s does not have it", path());
	if (!ret)
		return 0;
	return rdmamsg__fail(ret, "'%.64s' is not the address of a group, such "
			     "as 239.1.2.3, and as a topic: %s", name,
			     rdmamsg__text());
}

int rdmamsg_topics_each(const char *pattern, on_topic_fn *on_topic, void *user)
{
	struct search s = { pattern, on_topic, user };
	int ret;

	if (!pattern || !on_topic)
		return rdmamsg__fail(-EINVAL, "rdmamsg_topics_each: %s is NULL",
				     pattern ? "on_topic" : "pattern");
	if (!rdmamsg__topic_valid(pattern, true))
		return rdmamsg__fail(-EINVAL, "'%.64s' is not a topic, such as "
				     "ticks.eur.usd, nor a pattern of topics, "
				     "such as ticks.*", pattern);
	ret = each_topic(try_topic, &s);
	return ret ? ret : s.matches;
}
