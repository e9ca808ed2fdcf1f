/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server on libevent that sends every message back, until Ctrl-C: event-loop
 * HOST
 * The loop has rdmamsg beside the program's own events: a UDP socket that is
 * served likewise, a timer that reports what has come, and signals.
 */
#include "usage.h"
#include "udp.h"

#include <rdmamsg/event.h>

#include <signal.h>

#define GRACE_MS	5000	/* for answers that are under way at the end */

struct program {
	struct event_base *base;
	struct event *timer, *interrupt, *terminate, *udp;
	struct rdmamsg *ctx;
	struct rdmamsg_libevent *ev;
	unsigned long messages, datagrams, reported;
	int status;
};

/* ---- rdmamsg ---------------------------------------------------------- */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct program *p = rdmamsg_ep_user(ep);

	p->messages++;
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL))
		rdmamsg_msg_free(msg);
}

static void on_shutdown(struct rdmamsg *ctx, uint32_t failed)
{
	struct program *p = rdmamsg_user(ctx);

	p->status = failed != 0;
	event_base_loopbreak(p->base);
}

static unsigned int serve(struct program *p, const char *host)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	static const struct rdmamsg_ctx_handlers ctx_on = {
		.size = sizeof(ctx_on), .on_shutdown = on_shutdown,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .user = p, .handlers = &ctx_on,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on, .user = p, .send_queue = 256,
	};
	const struct rdmamsg_listen_options listen_opts = {
		.size = sizeof(listen_opts), .ep = &ep,
	};
	struct rdmamsg_listener *listener;

	if (rdmamsg_open(&p->ctx, &opts) ||
	    rdmamsg_listen(p->ctx, host, "0", &listen_opts, &listener) ||
	    rdmamsg_libevent_start(p->base, p->ctx, &p->ev))
		errx(1, "%s", rdmamsg_error());
	return rdmamsg_listener_port(listener);
}

/* ---- the program's events --------------------------------------------- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct program *p = arg;

	if (p->messages + p->datagrams != p->reported)
		printf("%lu messages, %lu datagrams\n", p->messages, p->datagrams);
	p->reported = p->messages + p->datagrams;
	fflush(stdout);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct program *p = arg;

	if (rdmamsg_shutdown(p->ctx, GRACE_MS))
		errx(1, "%s", rdmamsg_error());
}

static void on_datagram(evutil_socket_t fd, short what, void *arg)
{
	struct program *p = arg;

	p->datagrams += udp_echo(fd);
}

static void watch(struct program *p, int udp)
{
	static const struct timeval second = { .tv_sec = 1 };

	p->timer = event_new(p->base, -1, EV_PERSIST, on_timer, p);
	p->interrupt = evsignal_new(p->base, SIGINT, on_signal, p);
	p->terminate = evsignal_new(p->base, SIGTERM, on_signal, p);
	p->udp = event_new(p->base, udp, EV_READ | EV_PERSIST, on_datagram, p);
	if (event_add(p->timer, &second) || event_add(p->interrupt, NULL) ||
	    event_add(p->terminate, NULL) || event_add(p->udp, NULL))
		errx(1, "no events");
}

int main(int argc, char **argv)
{
	struct program p = { 0 };
	unsigned int port;
	int udp;

	usage(argc, argv, "event-loop HOST", 1, 1);
	p.base = event_base_new();
	if (!p.base)
		errx(1, "no loop");
	udp = udp_socket(argv[1], &port);
	watch(&p, udp);
	printf("datagrams on port %u\n", port);
	printf("listening on port %u\n", serve(&p, argv[1]));
	fflush(stdout);
	event_base_dispatch(p.base);
	rdmamsg_libevent_stop(p.ev);
	rdmamsg_close(p.ctx);
	event_free(p.timer);
	event_free(p.interrupt);
	event_free(p.terminate);
	event_free(p.udp);
	event_base_free(p.base);
	printf("%lu messages, %lu datagrams\n", p.messages, p.datagrams);
	return p.status;
}
