/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the recipes that no loop changes, in C and C++: both ends of a
 * connection in one context. The server sends back what comes. After MESSAGES
 * answers the client closes, and 'done' tells the loop to end.
 */
#ifndef RDMAMSG_SAMPLES_LOOPS_ECHO_H
#define RDMAMSG_SAMPLES_LOOPS_ECHO_H

#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

#define MESSAGES	1000
#define AT_ONCE		16

struct echo {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *client;
	unsigned int sent, back;
	bool done;
	int status;
};

static inline void echo_server_message(struct rdmamsg_ep *ep,
				       struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL))
		rdmamsg_msg_free(msg);
}

static inline void echo_send(struct echo *e)
{
	if (e->sent < MESSAGES &&
	    rdmamsg_send(e->client, &e->sent, sizeof(e->sent), e->sent, NULL))
		errx(1, "%s", rdmamsg_error());
	e->sent++;
}

static inline void echo_connected(struct rdmamsg_ep *ep)
{
	for (int i = 0; i < AT_ONCE; i++)
		echo_send((struct echo *)rdmamsg_ep_user(ep));
}

/* Echoes arrive in order. The tag of each is its number. */
static inline void echo_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct echo *e = (struct echo *)rdmamsg_ep_user(ep);

	if (rdmamsg_msg_tag(msg) != e->back ||
	    rdmamsg_msg_len(msg) != sizeof(e->back) ||
	    memcmp(rdmamsg_msg_data(msg), &e->back, sizeof(e->back)))
		e->status = 1;
	rdmamsg_msg_free(msg);
	if (++e->back == MESSAGES)
		rdmamsg_ep_close(ep);
	else
		echo_send(e);
}

static inline void echo_closed(struct rdmamsg_ep *ep,
			       const struct rdmamsg_reason *why)
{
	struct echo *e = (struct echo *)rdmamsg_ep_user(ep);

	if (why->cause != RDMAMSG_CAUSE_CLOSED)
		errx(1, "%s", why->text);
	e->done = true;
}

/* Opens the context and connects. All else happens in rdmamsg_process(). */
static inline void echo_begin(struct echo *e, const char *addr)
{
	struct rdmamsg_ep_handlers server = {}, client = {};
	struct rdmamsg_ep_options server_opts = {}, client_opts = {};
	struct rdmamsg_listen_options listen_opts = {};
	struct rdmamsg_listener *listener;
	char port[8];

	memset(e, 0, sizeof(*e));
	server.size = client.size = sizeof(server);
	server.on_message = echo_server_message;
	client.on_connected = echo_connected;
	client.on_message = echo_message;
	client.on_closed = echo_closed;
	server_opts.size = client_opts.size = sizeof(server_opts);
	server_opts.send_queue = client_opts.send_queue = 4 * AT_ONCE;
	server_opts.handlers = &server;
	client_opts.handlers = &client;
	client_opts.user = e;
	listen_opts.size = sizeof(listen_opts);
	listen_opts.ep = &server_opts;

	if (rdmamsg_open(&e->ctx, NULL) ||
	    rdmamsg_listen(e->ctx, addr, "0", &listen_opts, &listener))
		errx(1, "%s", rdmamsg_error());
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(listener));
	if (rdmamsg_connect(e->ctx, addr, port, &client_opts, &e->client))
		errx(1, "%s", rdmamsg_error());
}

/*
 * A descriptor for loops that close theirs. It is readable when the context's is.
 */
static inline int echo_descriptor(const struct echo *e)
{
	int fd = fcntl(rdmamsg_fd(e->ctx), F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		err(1, "fcntl");
	return fd;
}

static inline void echo_process(struct echo *e)
{
	if (rdmamsg_process(e->ctx) < 0)
		errx(1, "%s", rdmamsg_error());
}

/* Returns the exit status. */
static inline int echo_end(struct echo *e, const char *name)
{
	rdmamsg_close(e->ctx);
	printf("%s: %u messages there and back\n", name, e->back);
	return e->status || e->back != MESSAGES;
}

#endif
