/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server on libuv that sends every message back, until Ctrl-C: uv-loop HOST
 * The loop has rdmamsg beside the program's own watchers: a UDP socket that is
 * served likewise, a timer that reports what has come, and signals.
 */
#include "usage.h"

#include <rdmamsg/uv.h>

#define EVERY_MS	1000	/* a report, if something has come */
#define GRACE_MS	5000	/* for answers that are under way at the end */

struct program {
	uv_loop_t loop;
	uv_timer_t timer;
	uv_signal_t interrupt, terminate;
	uv_udp_t udp;
	char datagram[2048];
	struct rdmamsg *ctx;
	struct rdmamsg_uv *uv;
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

/* Without handles uv_run() returns. */
static void on_shutdown(struct rdmamsg *ctx, uint32_t failed)
{
	struct program *p = rdmamsg_user(ctx);

	p->status = failed != 0;
	rdmamsg_uv_stop(p->uv);
	uv_close((uv_handle_t *)&p->timer, NULL);
	uv_close((uv_handle_t *)&p->interrupt, NULL);
	uv_close((uv_handle_t *)&p->terminate, NULL);
	uv_close((uv_handle_t *)&p->udp, NULL);
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
	    rdmamsg_uv_start(&p->loop, p->ctx, &p->uv))
		errx(1, "%s", rdmamsg_error());
	return rdmamsg_listener_port(listener);
}

/* ---- the program's watchers ------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
	struct program *p = timer->data;

	if (p->messages + p->datagrams != p->reported)
		printf("%lu messages, %lu datagrams\n", p->messages, p->datagrams);
	p->reported = p->messages + p->datagrams;
	fflush(stdout);
}

static void on_signal(uv_signal_t *signal, int number)
{
	struct program *p = signal->data;

	if (rdmamsg_shutdown(p->ctx, GRACE_MS))
		errx(1, "%s", rdmamsg_error());
}

static void on_room(uv_handle_t *udp, size_t wanted, uv_buf_t *buf)
{
	struct program *p = udp->data;

	*buf = uv_buf_init(p->datagram, sizeof(p->datagram));
}

static void on_datagram(uv_udp_t *udp, ssize_t len, const uv_buf_t *buf,
			const struct sockaddr *from, unsigned int flags)
{
	struct program *p = udp->data;
	uv_buf_t back = *buf;

	if (len < 0 || !from)
		return;
	p->datagrams++;
	back.len = (size_t)len;
	(void)uv_udp_try_send(udp, &back, 1, from);
}

static unsigned int watch(struct program *p, const char *host)
{
	struct sockaddr_storage any, addr;
	int len = sizeof(addr);

	uv_timer_init(&p->loop, &p->timer);
	uv_signal_init(&p->loop, &p->interrupt);
	uv_signal_init(&p->loop, &p->terminate);
	uv_udp_init(&p->loop, &p->udp);
	p->timer.data = p->interrupt.data = p->terminate.data = p;
	p->udp.data = p;
	if ((uv_ip4_addr(host, 0, (struct sockaddr_in *)&any) &&
	     uv_ip6_addr(host, 0, (struct sockaddr_in6 *)&any)) ||
	    uv_udp_bind(&p->udp, (struct sockaddr *)&any, 0) ||
	    uv_udp_getsockname(&p->udp, (struct sockaddr *)&addr, &len) ||
	    uv_udp_recv_start(&p->udp, on_room, on_datagram) ||
	    uv_timer_start(&p->timer, on_timer, EVERY_MS, EVERY_MS) ||
	    uv_signal_start(&p->interrupt, on_signal, SIGINT) ||
	    uv_signal_start(&p->terminate, on_signal, SIGTERM))
		errx(1, "%s: no watchers", host);
	/* the port is where IPv4 has it, too */
	return ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
}

int main(int argc, char **argv)
{
	static struct program p;

	usage(argc, argv, "uv-loop HOST", 1, 1);
	if (uv_loop_init(&p.loop))
		errx(1, "no loop");
	printf("datagrams on port %u\n", watch(&p, argv[1]));
	printf("listening on port %u\n", serve(&p, argv[1]));
	fflush(stdout);
	uv_run(&p.loop, UV_RUN_DEFAULT);
	rdmamsg_close(p.ctx);
	uv_loop_close(&p.loop);
	printf("%lu messages, %lu datagrams\n", p.messages, p.datagrams);
	return p.status;
}
