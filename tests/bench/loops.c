/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapters beside plain epoll on the context's descriptor, in turns. A
 * client sends 64 bytes and sleeps in its loop until they are back; the server
 * is another process, which sleeps likewise. Prints for each loop microseconds
 * there and back, the median of the turns, and the median of its ratios to epoll.
 *
 * Usage: loops [TURNS]
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#include "../integration/adapters.h"
#include "median.h"

#define SIZE		64
#define WARM		500u
#define MESSAGES	10000u	/* of a turn */
#define TURNS_MAX	99

/* ---- the server ------------------------------------------------------- */

static void on_request_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(ep, msg, 0, NULL))
		errx(1, "rdmamsg_msg_send: %s", rdmamsg_error());
}

/* Ends with its parent. */
static void serve(int port_fd)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_request_message,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &ep,
	};
	struct rdmamsg_listener *listener;
	struct rdmamsg *ctx;
	uint16_t port;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, "127.0.0.1", "0", &opts, &listener))
		errx(1, "server: %s", rdmamsg_error());
	port = rdmamsg_listener_port(listener);
	if (write(port_fd, &port, sizeof(port)) != sizeof(port))
		err(1, "server");
	if (rdmamsg_run(ctx) < 0)
		errx(1, "server: %s", rdmamsg_error());
}

static void start_server(char *service, size_t size)
{
	uint16_t port;
	int fds[2];

	if (pipe(fds))
		err(1, "pipe");
	switch (fork()) {
	case -1:
		err(1, "fork");
	case 0:
		serve(fds[1]);
		_exit(1);
	}
	close(fds[1]);
	if (read(fds[0], &port, sizeof(port)) != sizeof(port))
		errx(1, "the server has not started");
	close(fds[0]);
	snprintf(service, size, "%u", port);
}

/* ---- plain epoll ------------------------------------------------------ */

struct plain {
	int epoll;
	bool over;
	struct rdmamsg *ctx;
};

static void *plain_make(void)
{
	struct plain *p = calloc(1, sizeof(*p));

	if (p)
		p->epoll = epoll_create1(EPOLL_CLOEXEC);
	return p;
}

static void plain_end(void *loop)
{
	struct plain *p = loop;

	close(p->epoll);
	free(p);
}

static int plain_start(void *loop, struct rdmamsg *ctx, void **ret)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct plain *p = loop;

	*ret = p;
	p->ctx = ctx;
	return epoll_ctl(p->epoll, EPOLL_CTL_ADD, rdmamsg_fd(ctx), &ev);
}

static void plain_stop(void *adapter)
{
}

static void plain_run(void *loop)
{
	struct plain *p = loop;
	struct epoll_event ev;

	while (!p->over)
		if (epoll_wait(p->epoll, &ev, 1, -1) == 1 &&
		    rdmamsg_process(p->ctx) < 0)
			errx(1, "rdmamsg_process: %s", rdmamsg_error());
	p->over = false;
}

static void plain_quit(void *loop)
{
	((struct plain *)loop)->over = true;
}

static const struct loop_kind plain = {
	.name = "epoll", .make = plain_make, .end = plain_end,
	.run = plain_run, .quit = plain_quit, .start = plain_start,
	.stop = plain_stop,
};

/* ---- a client --------------------------------------------------------- */

struct client {
	const struct loop_kind *kind;
	void *loop;
	uint32_t left;
	struct timespec start;
	double us;
	uint8_t data[SIZE];
};

static double us_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) * 1e6 +
	       (double)(now.tv_nsec - start->tv_nsec) / 1e3;
}

static void send_one(struct rdmamsg_ep *ep, struct client *c)
{
	if (rdmamsg_send(ep, c->data, sizeof(c->data), 0, NULL))
		errx(1, "rdmamsg_send: %s", rdmamsg_error());
}

static void on_connected(struct rdmamsg_ep *ep)
{
	send_one(ep, rdmamsg_ep_user(ep));
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct client *c = rdmamsg_ep_user(ep);

	rdmamsg_msg_free(msg);
	c->left--;
	if (c->left == MESSAGES)
		clock_gettime(CLOCK_MONOTONIC, &c->start);
	if (c->left) {
		send_one(ep, c);
		return;
	}
	c->us = us_since(&c->start) / MESSAGES;
	rdmamsg_ep_close(ep);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct client *c = rdmamsg_ep_user(ep);

	if (c->left)
		errx(1, "%s", why->text);
	c->kind->quit(c->loop);
}

static double measure(const struct loop_kind *kind, const char *service)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
		.on_message = on_message, .on_closed = on_closed,
	};
	struct client c = {
		.kind = kind, .loop = kind->make(), .left = WARM + MESSAGES,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on, .user = &c,
	};
	struct rdmamsg *ctx;
	void *adapter;

	if (!c.loop || rdmamsg_open(&ctx, NULL) ||
	    kind->start(c.loop, ctx, &adapter) ||
	    rdmamsg_connect(ctx, "127.0.0.1", service, &opts, NULL))
		errx(1, "%s: %s", kind->name, rdmamsg_error());
	kind->run(c.loop);
	kind->stop(adapter);
	rdmamsg_close(ctx);
	kind->end(c.loop);
	return c.us;
}

/* ---- all -------------------------------------------------------------- */

static void compare(const struct loop_kind *kind, const char *service,
		    size_t turns)
{
	double us[TURNS_MAX], ratio[TURNS_MAX];

	for (size_t i = 0; i < turns; i++) {
		const double base = measure(&plain, service);

		us[i] = measure(kind, service);
		ratio[i] = us[i] / base;
	}
	printf("%-6s %6.2f us, %5.3f of epoll\n", kind->name,
	       median(us, turns), median(ratio, turns));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const int turns = argc > 1 ? atoi(argv[1]) : 7;
	char service[8];

	if (turns < 1 || turns > TURNS_MAX)
		errx(2, "Usage: loops [TURNS], 1 to %d", TURNS_MAX);
	start_server(service, sizeof(service));
	for (const struct loop_kind *kind = loop_kinds; kind->name; kind++)
		compare(kind, service, (size_t)turns);
	return 0;
}
