/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with its own event loop, plain epoll: own-loop ADDR
 * rdmamsg is one more descriptor in the loop, beside the program's timer and
 * its signals. The program has both ends of a connection: with every tick of
 * the timer the client sends a few messages, and the server sends them back.
 */
#include "usage.h"

#include <rdmamsg/rdmamsg.h>

#include <err.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TICKS		50
#define PER_TICK	20
#define LIMIT		60	/* seconds for the whole run */

struct program {
	struct rdmamsg_ep *client;
	unsigned int ticks, sent, back;
	bool connected, done;
	int status;
};

/* ---- rdmamsg ---------------------------------------------------------- */

static void server_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL))
		rdmamsg_msg_free(msg);
}

static void client_connected(struct rdmamsg_ep *ep)
{
	((struct program *)rdmamsg_ep_user(ep))->connected = true;
}

/* Echoes arrive in order. The tag of each is its number. */
static void client_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct program *p = rdmamsg_ep_user(ep);

	if (rdmamsg_msg_tag(msg) != p->back ||
	    rdmamsg_msg_len(msg) != sizeof(p->back) ||
	    memcmp(rdmamsg_msg_data(msg), &p->back, sizeof(p->back)))
		p->status = 1;
	rdmamsg_msg_free(msg);
	if (++p->back == TICKS * PER_TICK || p->status)
		rdmamsg_ep_close(ep);
}

static void client_closed(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why)
{
	struct program *p = rdmamsg_ep_user(ep);

	if (why->cause != RDMAMSG_CAUSE_CLOSED) {
		warnx("%s", why->text);
		p->status = 1;
	}
	p->done = true;
}

static void start(struct rdmamsg *ctx, const char *addr, struct program *p)
{
	static const struct rdmamsg_ep_handlers server = {
		.size = sizeof(server), .on_message = server_message,
	}, client = {
		.size = sizeof(client), .on_connected = client_connected,
		.on_message = client_message, .on_closed = client_closed,
	};
	const struct rdmamsg_ep_options server_opts = {
		.size = sizeof(server_opts), .handlers = &server,
		.send_queue = TICKS * PER_TICK,
	}, client_opts = {
		.size = sizeof(client_opts), .handlers = &client, .user = p,
		.send_queue = TICKS * PER_TICK,
	};
	const struct rdmamsg_listen_options listen_opts = {
		.size = sizeof(listen_opts), .ep = &server_opts,
	};
	struct rdmamsg_listener *listener;
	char port[8];

	if (rdmamsg_listen(ctx, addr, "0", &listen_opts, &listener))
		errx(1, "%s", rdmamsg_error());
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(listener));
	if (rdmamsg_connect(ctx, addr, port, &client_opts, &p->client))
		errx(1, "%s", rdmamsg_error());
}

/* ---- the program's own descriptors ------------------------------------ */

static int make_timer(void)
{
	const struct itimerspec every = {
		.it_value.tv_nsec = 5000000, .it_interval.tv_nsec = 5000000,
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (fd < 0 || timerfd_settime(fd, 0, &every, NULL))
		err(1, "timerfd");
	return fd;
}

static int make_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		err(1, "signalfd");
	return fd;
}

static void tick(struct program *p, int timer)
{
	uint64_t expired;

	if (read(timer, &expired, sizeof(expired)) < 0)
		err(1, "timerfd");
	if (!p->connected || p->ticks == TICKS)
		return;
	p->ticks++;
	for (int i = 0; i < PER_TICK; i++, p->sent++)
		if (rdmamsg_send(p->client, &p->sent, sizeof(p->sent), p->sent,
				 NULL))
			errx(1, "%s", rdmamsg_error());
}

static void watch(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		err(1, "epoll_ctl");
}

int main(int argc, char **argv)
{
	int timer = make_timer(), signals = make_signals();
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	struct program p = { 0 };
	struct rdmamsg *ctx;

	usage(argc, argv, "own-loop ADDR", 1, 1);
	if (rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	start(ctx, argv[1], &p);
	watch(epfd, timer);
	watch(epfd, signals);
	watch(epfd, rdmamsg_fd(ctx));
	alarm(LIMIT);

	while (!p.done) {
		struct epoll_event ev;

		if (epoll_wait(epfd, &ev, 1, -1) != 1)
			continue;
		if (ev.data.fd == timer)
			tick(&p, timer);
		else if (ev.data.fd == signals)
			errx(1, "ended by a signal");
		else if (rdmamsg_process(ctx) < 0)
			errx(1, "%s", rdmamsg_error());
	}
	printf("own-loop: %u messages there and back, %u ticks\n", p.back,
	       p.ticks);
	rdmamsg_close(ctx);
	return p.status;
}
