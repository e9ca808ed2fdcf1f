/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads: threads ADDR
 *
 *	4 contexts	one thread each; they listen on one port, and each gets
 *			every fourth connection; get messages, send answers
 *	2 workers	make the answers, without a context of their own
 *	1 client	8 connections, checks every answer
 *
 * Only the thread of a context touches its objects. A worker gets the bytes of
 * a message, and the endpoint as a pointer. The endpoint's thread holds it
 * (rdmamsg_ep_hold) until the answer is back.
 */
#include "usage.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTEXTS	4
#define WORKERS		2
#define CLIENTS		8
#define ROUNDS		50
#define TIMEOUT_MS	20000
#define LIMIT		60	/* seconds for the whole run */

struct job {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *msg;
};

struct server {
	struct rdmamsg *ctx;
	pthread_t thread;
	unsigned int accepted, answered;
};

static struct server servers[CONTEXTS];
static int jobs[2];	/* a pipe of struct job pointers, to the workers */

/* ---- workers ---------------------------------------------------------- */

/* Runs in the context's thread. The connection may have ended meanwhile. */
static void answer(struct rdmamsg *ctx, void *arg)
{
	struct server *s = rdmamsg_user(ctx);
	struct job *j = arg;

	if (rdmamsg_msg_send(j->ep, j->msg, rdmamsg_msg_tag(j->msg), NULL))
		rdmamsg_msg_free(j->msg);
	else
		s->answered++;
	rdmamsg_ep_release(j->ep);
	free(j);
}

static void *work(void *arg)
{
	struct job *j;

	while (read(jobs[0], &j, sizeof(j)) == sizeof(j)) {
		char *data = rdmamsg_msg_data(j->msg);

		for (size_t i = 0; i < rdmamsg_msg_len(j->msg); i++)
			data[i] ^= 0x20;
		/* the context outlives the workers */
		while (rdmamsg_submit(j->ctx, answer, j) == -EAGAIN)
			sched_yield();
	}
	return NULL;
}

/* ---- the four contexts ------------------------------------------------ */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct job *j = malloc(sizeof(*j));

	if (j) {
		*j = (struct job){ rdmamsg_ep_ctx(ep), ep, msg };
		rdmamsg_ep_hold(ep);
		if (write(jobs[1], &j, sizeof(j)) == sizeof(j))
			return;
		rdmamsg_ep_release(ep);
	}
	/* the workers have too many jobs, so this message gets no answer */
	free(j);
	rdmamsg_msg_free(msg);
	rdmamsg_ep_abort(ep);
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct server *s = rdmamsg_user(rdmamsg_ep_ctx(ep));

	s->accepted++;
}

/* The first server takes a free port, and the others share it. */
static void listen_on(struct rdmamsg *ctx, const char *addr,
		      char port[static 8])
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
		.on_message = on_message,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .send_queue = 64,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
		.flags = RDMAMSG_LISTEN_SHARED,
	};
	struct rdmamsg_listener *l;

	if (rdmamsg_listen(ctx, addr, port, &opts, &l))
		errx(1, "%s", rdmamsg_error());
	snprintf(port, 8, "%u", rdmamsg_listener_port(l));
}

static void *serve(void *arg)
{
	struct server *s = arg;

	rdmamsg_run(s->ctx);
	rdmamsg_close(s->ctx);
	return NULL;
}

/* ---- the client ------------------------------------------------------- */

struct client {
	const char *addr;
	char port[8];
};

static void exchange(struct rdmamsg_ep *ep, int round)
{
	char text[64];
	struct rdmamsg_msg *msg;
	size_t len = (size_t)snprintf(text, sizeof(text), "round %d of %p",
				      round, (void *)ep);

	if (rdmamsg_send_wait(ep, text, len, 0, TIMEOUT_MS) ||
	    rdmamsg_recv_wait(ep, TIMEOUT_MS, &msg))
		errx(1, "%s", rdmamsg_error());
	for (size_t i = 0; i < len; i++)
		text[i] ^= 0x20;
	if (rdmamsg_msg_len(msg) != len ||
	    memcmp(rdmamsg_msg_data(msg), text, len))
		errx(1, "a wrong answer");
	rdmamsg_msg_free(msg);
}

static void *ask(void *arg)
{
	const struct client *c = arg;
	struct rdmamsg_ep *ep[CLIENTS];
	struct rdmamsg *ctx;

	if (rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	for (int i = 0; i < CLIENTS; i++)
		if (rdmamsg_connect_wait(ctx, c->addr, c->port, NULL,
					 TIMEOUT_MS, &ep[i]))
			errx(1, "%s", rdmamsg_error());
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < CLIENTS; i++)
			exchange(ep[i], round);
	for (int i = 0; i < CLIENTS; i++)
		if (rdmamsg_ep_close_wait(ep[i], TIMEOUT_MS))
			errx(1, "%s", rdmamsg_error());
	rdmamsg_close(ctx);
	return NULL;
}

/* ---- all together ----------------------------------------------------- */

static void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	if (pthread_create(thread, NULL, fn, arg))
		errx(1, "no more threads");
}

static void servers_start(const char *addr, char port[static 8])
{
	for (int i = 0; i < CONTEXTS; i++) {
		const struct rdmamsg_options opts = {
			.size = sizeof(opts), .user = &servers[i],
		};

		if (rdmamsg_open(&servers[i].ctx, &opts))
			errx(1, "%s", rdmamsg_error());
		listen_on(servers[i].ctx, addr, port);
		start(&servers[i].thread, serve, &servers[i]);
	}
}

int main(int argc, char **argv)
{
	struct client c = { .addr = argv[1], .port = "0" };
	pthread_t worker[WORKERS], client;
	unsigned int answered = 0, used = 0;

	usage(argc, argv, "threads ADDR", 1, 1);
	alarm(LIMIT);
	if (pipe(jobs) || fcntl(jobs[1], F_SETFL, O_NONBLOCK))
		err(1, "pipe");
	servers_start(argv[1], c.port);
	for (int i = 0; i < WORKERS; i++)
		start(&worker[i], work, NULL);
	start(&client, ask, &c);

	pthread_join(client, NULL);
	close(jobs[1]);			/* ends the workers */
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);
	for (int i = 0; i < CONTEXTS; i++) {
		rdmamsg_stop(servers[i].ctx);
		pthread_join(servers[i].thread, NULL);
		answered += servers[i].answered;
		used += servers[i].accepted == CLIENTS / CONTEXTS;
	}
	printf("threads: %u answers by %d workers, in %u contexts with equal "
	       "shares\n", answered, WORKERS, used);
	return used == CONTEXTS && answered == CLIENTS * ROUNDS ? 0 : 1;
}
