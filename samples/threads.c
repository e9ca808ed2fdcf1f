/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads: threads ADDR
 *
 *	main thread	listens, hands each request to the next context
 *	4 contexts	one thread each; get messages, send answers
 *	2 workers	make the answers, without a context of their own
 *	1 client	8 connections, checks every answer
 *
 * Only the thread of a context touches its objects. A worker gets the bytes of
 * a message, and the endpoint as a pointer. The endpoint's thread holds it
 * (rdmamsg_ep_hold) until the answer is back.
 */
#include "usage.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
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

static void accept_here(struct rdmamsg *ctx, struct rdmamsg_request *req,
			void *arg)
{
	static const struct rdmamsg_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on, .send_queue = 64,
	};
	struct server *s = arg;

	if (rdmamsg_accept(req, &opts, NULL))
		warnx("%s", rdmamsg_error());
	else
		s->accepted++;
}

static void *serve(void *arg)
{
	struct server *s = arg;

	rdmamsg_run(s->ctx);
	rdmamsg_close(s->ctx);
	return NULL;
}

/* ---- the main thread -------------------------------------------------- */

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	static unsigned int next;
	struct server *s = &servers[next++ % CONTEXTS];

	if (rdmamsg_request_move(req, s->ctx, accept_here, s))
		rdmamsg_reject(req, NULL, 0);
}

/* ---- the client ------------------------------------------------------- */

struct client {
	const char *addr;
	char port[8];
	struct rdmamsg *server;		/* main() stops it at the end */
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
	rdmamsg_stop(c->server);
	return NULL;
}

/* ---- all together ----------------------------------------------------- */

static void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	if (pthread_create(thread, NULL, fn, arg))
		errx(1, "no more threads");
}

static void servers_start(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		const struct rdmamsg_options opts = {
			.size = sizeof(opts), .user = &servers[i],
		};

		if (rdmamsg_open(&servers[i].ctx, &opts))
			errx(1, "%s", rdmamsg_error());
		start(&servers[i].thread, serve, &servers[i]);
	}
}

int main(int argc, char **argv)
{
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = on_request,
	};
	struct client c = { .addr = argv[1] };
	pthread_t worker[WORKERS], client;
	struct rdmamsg_listener *l;
	unsigned int answered = 0, used = 0;

	usage(argc, argv, "threads ADDR", 1, 1);
	alarm(LIMIT);
	if (pipe(jobs) || fcntl(jobs[1], F_SETFL, O_NONBLOCK))
		err(1, "pipe");
	if (rdmamsg_open(&c.server, NULL) ||
	    rdmamsg_listen(c.server, argv[1], "0", &opts, &l))
		errx(1, "%s", rdmamsg_error());
	snprintf(c.port, sizeof(c.port), "%u", rdmamsg_listener_port(l));
	servers_start();
	for (int i = 0; i < WORKERS; i++)
		start(&worker[i], work, NULL);
	start(&client, ask, &c);

	rdmamsg_run(c.server);		/* until the client has all answers */
	pthread_join(client, NULL);
	close(jobs[1]);			/* ends the workers */
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);
	for (int i = 0; i < CONTEXTS; i++) {
		rdmamsg_stop(servers[i].ctx);
		pthread_join(servers[i].thread, NULL);
		answered += servers[i].answered;
		used += servers[i].accepted > 0;
	}
	rdmamsg_close(c.server);
	printf("threads: %u answers by %d workers, in %u contexts\n", answered,
	       WORKERS, used);
	return used == CONTEXTS && answered == CLIENTS * ROUNDS ? 0 : 1;
}
