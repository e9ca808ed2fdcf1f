/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A chat: chat serve ADDR PORT [GRACE_MS], and for each person
 * chat join HOST PORT.
 * The server sends each line to all others: one message with a reference for
 * each of them, so that no line is copied. The tag of a line is the number of
 * the person who wrote it. The loop of the server is epoll, and that of the
 * client poll.
 *
 * A slow client does not delay the others. The server keeps QUEUE lines for
 * each client. When the queue is full, sends fail with -EAGAIN, and the client
 * misses lines. If on_writable comes within GRACE_MS, by default 2000, the
 * server tells the client how many. If not, the server drops the client.
 */
#include "usage.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/timer.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CLIENTS		64
#define QUEUE		256	/* lines */
#define SHUTDOWN_MS	5000
#define LINE		4096	/* bytes */

/* ---- the server ------------------------------------------------------- */

struct client {
	struct rdmamsg_ep *ep;	/* NULL: the place is free */
	struct rdmamsg_timer *grace;	/* runs while missed > 0 */
	unsigned int missed;
};

/* The number of a client is its place. 0 is the server. */
static struct client clients[CLIENTS + 1];
static uint32_t grace_ms = 2000;
static bool ended;

static unsigned int number_of(const struct client *c)
{
	return c - clients;
}

/* The grace is over. on_closed frees the place, after this callback. */
static void drop(struct rdmamsg_timer *timer, void *user)
{
	struct client *c = user;

	(void)timer;
	printf("client %u is too slow\n", number_of(c));
	rdmamsg_ep_abort(c->ep);
}

/* Sends text of the server. The queue has room when this is called. */
static void tell(struct client *c, const char *text)
{
	if (rdmamsg_send(c->ep, text, strlen(text), 0, NULL))
		fprintf(stderr, "chat: %s\n", rdmamsg_error());
}

static void on_joined(struct rdmamsg_ep *ep)
{
	struct client *c = clients + 1;

	while (c <= clients + CLIENTS && c->ep)
		c++;
	if (c > clients + CLIENTS ||
	    rdmamsg_timer_create(rdmamsg_ep_ctx(ep), drop, c, &c->grace)) {
		rdmamsg_ep_abort(ep);
		return;
	}
	c->ep = ep;
	c->missed = 0;
	rdmamsg_ep_set_user(ep, c);
	printf("client %u has joined\n", number_of(c));
	tell(c, "welcome");
}

static void pass_on(struct client *c, struct rdmamsg_msg *msg, uint32_t from)
{
	int ret = rdmamsg_msg_ref(msg);

	if (!ret) {
		ret = rdmamsg_msg_send(c->ep, msg, from, NULL);
		if (ret)
			rdmamsg_msg_free(msg);	/* the reference of c */
	}
	/* -ESHUTDOWN: the client leaves, and misses nothing */
	if (ret && ret != -ESHUTDOWN && !c->missed++)
		rdmamsg_timer_start(c->grace, grace_ms, 0);
}

static void on_line(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	const struct client *from = rdmamsg_ep_user(ep);

	for (struct client *c = clients + 1; from && c <= clients + CLIENTS;
	     c++)
		if (c->ep && c != from)
			pass_on(c, msg, number_of(from));
	rdmamsg_msg_free(msg);
}

static void on_room(struct rdmamsg_ep *ep)
{
	struct client *c = rdmamsg_ep_user(ep);
	char text[40];

	if (!c || !c->missed)
		return;
	rdmamsg_timer_stop(c->grace);
	snprintf(text, sizeof(text), "you have missed %u lines", c->missed);
	c->missed = 0;
	tell(c, text);
}

static void on_left(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct client *c = rdmamsg_ep_user(ep);

	if (!c)
		return;
	printf("client %u has left: %s\n", number_of(c), why->text);
	rdmamsg_timer_destroy(c->grace);
	c->ep = NULL;
}

static void on_shutdown(struct rdmamsg *ctx, uint32_t failed)
{
	(void)ctx;
	printf("%u connections did not end gracefully\n", failed);
	ended = true;
}

static void watch(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		err(1, "epoll_ctl");
}

static int make_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		err(1, "signalfd");
	return fd;
}

/* A second signal shortens the time that the first one gave. */
static void on_signal(struct rdmamsg *ctx, int fd)
{
	static int timeout_ms = SHUTDOWN_MS;
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		err(1, "signalfd");
	if (rdmamsg_shutdown(ctx, timeout_ms))
		errx(1, "%s", rdmamsg_error());
	timeout_ms = 0;
}

static void serve_loop(struct rdmamsg *ctx)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC), signals = make_signals();

	watch(epfd, signals);
	watch(epfd, rdmamsg_fd(ctx));
	while (!ended) {
		struct epoll_event ev;

		if (epoll_wait(epfd, &ev, 1, -1) != 1)
			continue;
		if (ev.data.fd == signals)
			on_signal(ctx, signals);
		else if (rdmamsg_process(ctx) < 0)
			errx(1, "%s", rdmamsg_error());
	}
	close(signals);
	close(epfd);
}

static int serve(const char *addr, const char *port)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_joined,
		.on_message = on_line, .on_writable = on_room,
		.on_closed = on_left,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .send_queue = QUEUE,
		.max_msg_size = LINE,
	};
	const struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .ep = &ep,
		.max_endpoints = CLIENTS,	/* others learn of this limit */
	};
	static const struct rdmamsg_ctx_handlers ctx_on = {
		.size = sizeof(ctx_on), .on_shutdown = on_shutdown,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .handlers = &ctx_on,
	};
	struct rdmamsg_listener *listener;
	struct rdmamsg *ctx;

	if (rdmamsg_open(&ctx, &opts) ||
	    rdmamsg_listen(ctx, addr, port, &listen, &listener))
		errx(1, "%s", rdmamsg_error());
	printf("listening on port %u\n", rdmamsg_listener_port(listener));
	serve_loop(ctx);
	rdmamsg_close(ctx);
	return 0;
}

/* ---- the client ------------------------------------------------------- */

static struct {
	struct rdmamsg_ep *ep;
	char line[LINE];
	bool reading;		/* standard input */
	bool blocked;		/* the line waits for on_writable */
	bool closed;
	int status;
} me;

static void send_line(void)
{
	int ret = rdmamsg_send(me.ep, me.line, strcspn(me.line, "\n"), 0, NULL);

	me.blocked = ret == -EAGAIN;
	if (ret && !me.blocked && ret != -ESHUTDOWN)
		errx(1, "%s", rdmamsg_error());
}

/* A terminal gives whole lines, so this does not block in their middle. */
static void read_line(void)
{
	if (fgets(me.line, sizeof(me.line), stdin)) {
		send_line();
		return;
	}
	me.reading = false;
	rdmamsg_ep_close(me.ep);
}

static void on_welcome(struct rdmamsg_ep *ep)
{
	(void)ep;
	me.reading = true;
}

static void on_text(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	(void)ep;
	printf("%u: %.*s\n", rdmamsg_msg_tag(msg), (int)rdmamsg_msg_len(msg),
	       (const char *)rdmamsg_msg_data(msg));
	rdmamsg_msg_free(msg);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	(void)ep;
	if (me.blocked)
		send_line();
}

static void on_end(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	(void)ep;
	me.closed = true;
	me.status = why->cause != RDMAMSG_CAUSE_CLOSED;
	if (me.status || why->who == RDMAMSG_WHO_PEER)
		fprintf(stderr, "chat: %s\n", why->text);
}

static int join(const char *host, const char *port)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_welcome,
		.on_message = on_text, .on_writable = on_writable,
		.on_closed = on_end,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg *ctx;

	setvbuf(stdin, NULL, _IONBF, 0);	/* poll() sees what is there */
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_connect(ctx, host, port, &opts, &me.ep))
		errx(1, "%s", rdmamsg_error());
	while (!me.closed) {
		struct pollfd fds[] = {
			{ .fd = rdmamsg_fd(ctx), .events = POLLIN },
			{ .fd = me.reading && !me.blocked ? 0 : -1,
			  .events = POLLIN },
		};

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			err(1, "poll");
		if (fds[1].revents)
			read_line();
		if (rdmamsg_process(ctx) < 0)
			errx(1, "%s", rdmamsg_error());
	}
	rdmamsg_close(ctx);
	return me.status;
}

int main(int argc, char **argv)
{
	usage(argc, argv,
	      "chat serve ADDR PORT [GRACE_MS] | chat join HOST PORT", 3, 4);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 4)
		grace_ms = atoi(argv[4]);
	if (!strcmp(argv[1], "serve"))
		return serve(argv[2], argv[3]);
	if (!strcmp(argv[1], "join"))
		return join(argv[2], argv[3]);
	errx(2, "'%s' is neither serve nor join; see --help", argv[1]);
}
