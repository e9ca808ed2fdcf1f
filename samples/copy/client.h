/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-copy: declarations that the files of the client share. */
#ifndef RDMAMSG_SAMPLES_COPY_CLIENT_H
#define RDMAMSG_SAMPLES_COPY_CLIENT_H

#include "bar.h"
#include "copy.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

struct client {
	const struct copy_job *job;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	char why[400];			/* reason if connecting failed */
	bool ended;			/* END was sent */
	bool answered;			/* the result of this file has arrived */
	struct copy_result result;
	int send_error;
	int64_t heard_ms;		/* when the server last got DATA */
	struct bar bar;
};

/* A file or directory, sent with one BEGIN. */
struct source {
	const char *path;		/* local name, for messages */
	int fd;				/* an open file, for reading */
	struct copy_begin begin;
	struct copy_digest *digest;
};

/* ---- client.c --------------------------------------------------------- */

/* Prints a line about a file. Returns 1, the number of failures. */
int client_complain(struct client *c, const char *path, const char *text);
/*
 * Waits for events and handles them. Returns -ENOTCONN if the connection ended.
 */
int client_step(struct client *c);
static inline bool client_connected(const struct client *c)
{
	return rdmamsg_ep_state(c->ep) == RDMAMSG_CONNECTED;
}

/* ---- send.c: callbacks, and sending one source ------------------------ */

void client_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
void client_sent(struct rdmamsg_ep *ep, void *cookie, int status);
/* Returns 0, or 1 after printing an error. */
int client_send(struct client *c, struct source *s);

/* ---- tree.c: sources on the command line ------------------------------ */

/* Returns true if the file can be sent, else prints an error. */
bool tree_check(struct client *c, const char *file);
/* Sends a file or a whole directory. Returns the number of failures. */
int tree_send(struct client *c, const char *file);

#endif
