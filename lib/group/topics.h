/* SPDX-License-Identifier: BSD-2-Clause */
/* Topics: a file gives the groups names. */
#ifndef RDMAMSG_LIB_TOPICS_H
#define RDMAMSG_LIB_TOPICS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define TOPIC_NAME_MAX		255u		/* bytes */
#define TOPIC_LINE_MAX		1024u		/* bytes without newline */
#define TOPICS_FILE_MAX		(1u << 20)	/* bytes */

/* "unicast:[ADDRESS]:PORT" */
struct topic_address {
	char text[INET6_ADDRSTRLEN + sizeof("unicast:[]:65535")];
};

/* A line of the file. */
struct topic {
	const char *name;
	const char *address;
	const char *key_file;		/* or NULL */
};

/* Why a file is refused. */
struct topics_error {
	unsigned int line;		/* from 1 */
	const char *why;		/* NULL: on_topic has ended it */
};

/* Everything of *t is valid during the call. */
typedef int on_topic_fn(const struct topic *t, void *user);

/*
 * Calls on_topic for each line of the text that names a topic, in order. First
 * checks all lines: on_topic is not called if one is refused. Returns 0, what
 * on_topic returns if it is not 0, -EINVAL or -ENOMEM.
 */
int rdmamsg__topics_parse(const char *text, size_t len, on_topic_fn *on_topic,
			  void *user, struct topics_error *ret);
/* Returns true if text is a topic's name, or with stars a pattern of names. */
bool rdmamsg__topic_valid(const char *text, bool stars);
/* Both must be valid. */
bool rdmamsg__topic_matches(const char *pattern, const char *name);
/*
 * Looks for the name in the file. -ENOENT: the file is not there or does not
 * have it; -EINVAL: a line of the file; or why the file cannot be read. The
 * caller frees *key_file, which may be NULL.
 */
int rdmamsg__topic_find(const char *name, struct topic_address *ret,
			char **key_file);

#endif
