/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of kv-server, over TCP or rdmamsg. It is held up while too many of
 * its requests are not answered, so that it cannot fill the server's memory.
 */
#ifndef KV_SESSION_H
#define KV_SESSION_H

#include <stdbool.h>
#include <stddef.h>

struct session;

struct session_ways {
	/* Sends an answer, and calls session_end() when it is on its way. */
	void (*answer)(struct session *s, const void *bytes, size_t len);
	void (*hold)(struct session *s);	/* takes no more requests */
	void (*go_on)(struct session *s);	/* takes them again */
	void (*free)(struct session *s);	/* closed, and no longer used */
};

struct session {
	const struct session_ways *ways;
	unsigned int refs;
	unsigned int open;	/* requests that are not answered */
	bool held;
	bool closed;
};

void session_init(struct session *s, const struct session_ways *ways);
void session_begin(struct session *s);	/* a request has come */
void session_end(struct session *s);	/* one is answered */
void session_close(struct session *s);	/* the connection is no more */
/* Answers, unless the client has gone. */
void session_answer(struct session *s, const void *bytes, size_t len);

#endif
