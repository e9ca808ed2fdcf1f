/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server on GLib that sends every message back, until Ctrl-C: glib-loop HOST
 * The loop has rdmamsg beside the program's own sources: a UDP socket that is
 * served likewise, a timer that reports what has come, and signals.
 */
#include "usage.h"
#include "udp.h"

#include <glib-unix.h>
#include <rdmamsg/glib.h>

#include <signal.h>

#define GRACE_MS	5000	/* for answers that are under way at the end */

struct program {
	GMainLoop *loop;
	struct rdmamsg *ctx;
	GSource *source;
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
	g_main_loop_quit(p->loop);
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
	    rdmamsg_glib_start(NULL, p->ctx, &p->source))
		errx(1, "%s", rdmamsg_error());
	return rdmamsg_listener_port(listener);
}

/* ---- the program's sources -------------------------------------------- */

static gboolean on_timer(gpointer arg)
{
	struct program *p = arg;

	if (p->messages + p->datagrams != p->reported)
		printf("%lu messages, %lu datagrams\n", p->messages, p->datagrams);
	p->reported = p->messages + p->datagrams;
	fflush(stdout);
	return G_SOURCE_CONTINUE;
}

static gboolean on_signal(gpointer arg)
{
	struct program *p = arg;

	if (rdmamsg_shutdown(p->ctx, GRACE_MS))
		errx(1, "%s", rdmamsg_error());
	return G_SOURCE_CONTINUE;
}

static gboolean on_datagram(gint fd, GIOCondition what, gpointer arg)
{
	struct program *p = arg;

	p->datagrams += udp_echo(fd);
	return G_SOURCE_CONTINUE;
}

static void watch(struct program *p, int udp)
{
	g_timeout_add_seconds(1, on_timer, p);
	g_unix_signal_add(SIGINT, on_signal, p);
	g_unix_signal_add(SIGTERM, on_signal, p);
	g_unix_fd_add(udp, G_IO_IN, on_datagram, p);
}

int main(int argc, char **argv)
{
	struct program p = { 0 };
	unsigned int port;
	int udp;

	usage(argc, argv, "glib-loop HOST", 1, 1);
	p.loop = g_main_loop_new(NULL, FALSE);
	udp = udp_socket(argv[1], &port);
	watch(&p, udp);
	printf("datagrams on port %u\n", port);
	printf("listening on port %u\n", serve(&p, argv[1]));
	fflush(stdout);
	g_main_loop_run(p.loop);
	rdmamsg_glib_stop(p.source);
	rdmamsg_close(p.ctx);
	g_main_loop_unref(p.loop);
	printf("%lu messages, %lu datagrams\n", p.messages, p.datagrams);
	return p.status;
}
