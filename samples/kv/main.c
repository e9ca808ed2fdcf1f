/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv-server: a key-value server on one libuv loop, over TCP and over rdmamsg.
 * README.md tells what is where.
 */
#include "../usage.h"
#include "server.h"

#include <signal.h>

#define TICK_MS	100

static void on_tick(uv_timer_t *timer)
{
	struct server *s = timer->data;

	serve_save(s);
	publish_sequence(s);
}

/* ---- the end ---------------------------------------------------------- */

/* Without handles uv_run() returns. */
static void close_all(struct server *s)
{
	rdmamsg_uv_stop(s->uv);
	tcp_close(s);
	log_close(&s->log);
	uv_close((uv_handle_t *)&s->tick, NULL);
	uv_close((uv_handle_t *)&s->interrupt, NULL);
	uv_close((uv_handle_t *)&s->terminate, NULL);
}

/*
 * Changes that have come are acknowledged first. Then the clients go, and with
 * them their atomic operations, whose sums go to the log at last.
 */
void server_stop(struct server *s)
{
	if (s->alone)
		close_all(s);
	else
		rdma_close(s);
}

void server_alone(struct server *s, unsigned int failed)
{
	s->status = failed != 0;
	s->alone = true;
	serve_save(s);
	if (log_is_idle(&s->log))
		close_all(s);
}

static void on_signal(uv_signal_t *signal, int number)
{
	struct server *s = signal->data;

	if (s->stopping)
		return;
	s->stopping = true;
	uv_timer_stop(&s->tick);
	rdmamsg_listener_close(s->listener);
	if (log_is_idle(&s->log))
		server_stop(s);
}

/* ---- the beginning ---------------------------------------------------- */

static void watch(struct server *s)
{
	uv_timer_init(&s->loop, &s->tick);
	uv_signal_init(&s->loop, &s->interrupt);
	uv_signal_init(&s->loop, &s->terminate);
	s->tick.data = s->interrupt.data = s->terminate.data = s;
	if (uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS) ||
	    uv_signal_start(&s->interrupt, on_signal, SIGINT) ||
	    uv_signal_start(&s->terminate, on_signal, SIGTERM))
		errx(1, "no timer or signals");
}

int main(int argc, char **argv)
{
	static struct server s;
	unsigned int port;

	usage(argc, argv, "kv-server ADDR PORT TCP-PORT LOG [GROUP]", 4, 5);
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* libuv leaves it to the program; a write then fails with EPIPE */
	signal(SIGPIPE, SIG_IGN);
	if (uv_loop_init(&s.loop))
		errx(1, "no loop");
	serve_open(&s, argv[4]);
	watch(&s);
	printf("TCP on port %u\n", tcp_open(&s, argv[1], argv[3]));
	port = rdma_open(&s, argv[1], argv[2]);
	if (argc > 5)
		publish_open(&s, argv[5], argv[1]);
	printf("listening on port %u\n", port);
	uv_run(&s.loop, UV_RUN_DEFAULT);
	rdmamsg_close(s.ctx);
	uv_loop_close(&s.loop);
	store_destroy(s.store);
	return s.status;
}
