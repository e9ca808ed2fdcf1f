/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program on libev: ev-loop ADDR
 * rdmamsg shares the loop with the program's own timers. The program has both
 * ends of a connection: the client sends a message with every tick of one
 * timer, and the server sends it back. Another timer limits the whole run.
 */
#include "usage.h"

#include <rdmamsg/ev.h>

#include <err.h>
#include <stdio.h>
#include <string.h>

#define MESSAGES	200
#define EVERY		0.005	/* seconds */
#define LIMIT		60.

struct program {
	struct ev_timer ticker; /* first, so that callbacks get its address */
	struct ev_loop *loop;
	struct rdmamsg_ep *client;
	unsigned int sent, back;
	int status;
};

/* ---- the program's timers --------------------------------------------- */

static void on_tick(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct program *p = (struct program *)t;
	uint32_t number = p->sent;

	if (rdmamsg_send(p->client, &number, sizeof(number), number, NULL))
		errx(1, "%s", rdmamsg_error());
	if (++p->sent == MESSAGES)
		ev_timer_stop(loop, t);
}

static void on_limit(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	errx(1, "not done after %.0f seconds", LIMIT);
}

/* ---- rdmamsg ---------------------------------------------------------- */

static void server_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL))
		rdmamsg_msg_free(msg);
}

static void client_connected(struct rdmamsg_ep *ep)
{
	struct program *p = rdmamsg_ep_user(ep);

	ev_timer_start(p->loop, &p->ticker);
}

static void client_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct program *p = rdmamsg_ep_user(ep);
	uint32_t number = p->back++;

	if (rdmamsg_msg_len(msg) != sizeof(number) ||
	    memcmp(rdmamsg_msg_data(msg), &number, sizeof(number)))
		p->status = 1;
	rdmamsg_msg_free(msg);
	if (p->back == MESSAGES)
		rdmamsg_ep_close(ep);
}

static void client_closed(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why)
{
	struct program *p = rdmamsg_ep_user(ep);

	if (why->cause != RDMAMSG_CAUSE_CLOSED)
		errx(1, "%s", why->text);
	ev_break(p->loop, EVBREAK_ALL);
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
		.send_queue = MESSAGES,
	}, client_opts = {
		.size = sizeof(client_opts), .handlers = &client, .user = p,
		.send_queue = MESSAGES,
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

int main(int argc, char **argv)
{
	struct program p = { .loop = ev_default_loop(0) };
	struct rdmamsg_ev *ev;
	struct ev_timer limit;
	struct rdmamsg *ctx;

	usage(argc, argv, "ev-loop ADDR", 1, 1);
	ev_timer_init(&p.ticker, on_tick, 0., EVERY);
	ev_timer_init(&limit, on_limit, LIMIT, 0.);
	ev_timer_start(p.loop, &limit);

	if (rdmamsg_open(&ctx, NULL) || rdmamsg_ev_start(p.loop, ctx, &ev))
		errx(1, "%s", rdmamsg_error());
	start(ctx, argv[1], &p);
	ev_run(p.loop, 0);

	printf("ev-loop: %u messages there and back, one a tick\n", p.back);
	rdmamsg_ev_stop(ev);
	rdmamsg_close(ctx);
	return p.status;
}
