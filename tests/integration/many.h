/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections between two contexts. The server's share their receives, the
 * clients have their own.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_MANY_H
#define RDMAMSG_TESTS_INTEGRATION_MANY_H

#include "common.h"

#include <rdmamsg/memory.h>

#define MANY_MAX	1000

/* A connection of one side. */
struct conn {
	struct rdmamsg_ep *ep;		/* NULL when it is closed */
	uint32_t sent, received, to_send, len;
};

extern struct side {
	struct rdmamsg *ctx;
	struct conn conns[MANY_MAX];
	unsigned int opened, connected, closed, graceful;
	uint32_t received;
	struct rdmamsg_msg *kept[MANY_MAX];
	unsigned int keep, kept_count;	/* the first of them are kept */
	int last_error;			/* error of the last one closed */
	char last_text[192];
} server, client;

extern struct rdmamsg_srq *srq;		/* of the server */
extern struct rdmamsg_listener *listener;
extern char service[8];
extern bool echoes;		/* the server sends back what it gets */

void many_open(void);		/* opens the contexts only */
/*
 * Listens with a shared queue of these options, NULL for the defaults. All
 * accepted connections share the queue.
 */
void many_listen(const struct rdmamsg_srq_options *opts);
void many_start(const struct rdmamsg_srq_options *opts); /* opens and listens */

/* Returns the default options of the connections. */
struct rdmamsg_ep_options many_ep_options(void);
struct conn *many_dial(const struct rdmamsg_ep_options *opts);
/* Connects until n connections are open. */
void many_connect(unsigned int n);
/*
 * Sends 'count' more messages of length len, or of mixed lengths if len is 0.
 */
void many_send(struct conn *c, uint32_t count, uint32_t len);
struct rdmamsg_srq_stats many_stats(void);
void many_close(void);		/* every connection */
/* Closes all connections. Checks that nothing is lost and nothing is left. */
void many_finish(void);

#endif
