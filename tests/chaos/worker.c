/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of a round is a server, or a client that connects to servers again
 * and again. At the board's finish flag the process ends and leaves nothing.
 */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

#define TURN_MS		3
#define AGAIN_MS	50

struct worker w;

void *own_alloc(size_t size)
{
	void *p = __real_malloc(size + 1);

	if (!p)
		abort();
	return p;
}

/* Returns the time that the host and SIGSTOP have taken, in ms. */
uint64_t worker_late(void)
{
	return w.board->late_ms + w.board->stopped_ms[w.slot];
}

/* ---- context ---------------------------------------------------------- */

static bool make_pools(void)
{
	struct rdmamsg_pool_options o = {
		.size = sizeof(o), .max_bytes = (size_t)w.sc->pool << 10,
	};

	return !w.sc->pool ||
	       (!rdmamsg_pool_create(w.ctx, &o, &w.recv_pool) &&
		!rdmamsg_pool_create(w.ctx, &o, &w.send_pool));
}

static bool make_srq(void)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = w.sc->srq_depth,
	};

	return !w.sc->srq_depth || !rdmamsg_srq_create(w.ctx, &o, &w.srq);
}

static bool context_open(void)
{
	struct rdmamsg_options o = {
		.size = sizeof(o),
		.max_registered = (size_t)w.sc->max_registered << 10,
	};

	if (!rdmamsg_open(&w.ctx, &o) && make_pools() && make_srq())
		return true;
	if (!w.rough)
		violation(w.j, "no context: %s", rdmamsg_error());
	rdmamsg_close(w.ctx);
	w.ctx = NULL;
	w.recv_pool = w.send_pool = NULL;
	w.srq = NULL;
	return false;
}

/* ---- listener --------------------------------------------------------- */

static void on_request(struct rdmamsg_listener *listener,
		       struct rdmamsg_request *req)
{
	(void)listener;
	conn_accept(req);
}

static void on_failed(struct rdmamsg_listener *listener, int error)
{
	if (!(w.sc->harm & HARM_DEVICE) && !w.rough)
		violation(w.j, "the listener has failed: %d", error);
	rdmamsg_listener_close(listener);
	w.listener = NULL;
	w.again_at = now_ms() + AGAIN_MS;
}

/* Listens on the port that the first life of this process had. */
static void listen_again(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
		.on_failed = on_failed,
	};
	struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = &on,
	};
	char service[16];
	int ret;

	snprintf(service, sizeof(service), "%u", w.board->port[w.slot]);
	ret = w.sc->oob ?
	      rdmamsg_oob_listen(w.ctx, w.board->address, service, &o,
				 &w.listener) :
	      rdmamsg_listen(w.ctx, w.board->address, service, &o,
			     &w.listener);
	if (!ret) {
		w.board->port[w.slot] = rdmamsg_listener_port(w.listener);
		return;
	}
	w.listener = NULL;
	if (ret != -EADDRINUSE && !(w.sc->harm & HARM_DEVICE) && !w.rough)
		violation(w.j, "listen: %d, %s", ret, rdmamsg_error());
	w.again_at = now_ms() + AGAIN_MS;
}

/* ---- turns ------------------------------------------------------------ */

static void check_memory(void)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };
	size_t most = (size_t)w.sc->max_registered << 10;

	if (most && !rdmamsg_get_stats(w.ctx, &st) &&
	    st.bytes_registered > most)
		violation(w.j, "%llu bytes are registered, %zu are allowed",
			  (unsigned long long)st.bytes_registered, most);
}

static uint32_t count_connected(void)
{
	uint32_t n = 0;

	for (const struct conn *c = w.conns; c; c = c->next)
		n += c->ep && c->r->connected;
	return n;
}

/*
 * Every message that peers may still send finds a receive: each promised
 * message, 6 control messages of each connected endpoint, and the SETUP of each
 * other endpoint. An eighth of the depth may be on its way back, 32 at most:
 * rdmamsg_srq_create(3).
 */
static void check_srq(void)
{
	struct rdmamsg_srq_stats st = { .size = sizeof(st) };
	uint32_t batch = w.sc->srq_depth / 8 < 32 ? w.sc->srq_depth / 8 : 32;

	if (!w.srq || rdmamsg_srq_get_stats(w.srq, &st))
		return;
	if (st.ran_empty && !w.rough)
		violation(w.j, "the shared receive queue has run empty %llu "
			  "times", (unsigned long long)st.ran_empty);
	if (st.posted + batch < st.promised + st.endpoints +
				5 * count_connected() && !w.rough)
		violation(w.j, "%llu shared receives are posted, for %llu "
			  "messages of %llu endpoints",
			  (unsigned long long)st.posted,
			  (unsigned long long)st.promised,
			  (unsigned long long)st.endpoints);
}

static void pump(void)
{
	struct pollfd p = { .fd = rdmamsg_fd(w.ctx), .events = POLLIN };
	struct timespec pause = {
		.tv_nsec = (long)rng_below(&w.rng, 50) * 1000000,
	};
	int ret;

	if (!w.finishing && rng_chance(&w.rng, w.sc->pause))
		nanosleep(&pause, NULL);
	w.writables = 0;
	if (rng_chance(&w.rng, 200)) {
		for (int i = 0; i < 100; i++)
			(void)rdmamsg_fast_poll(w.ctx);
		return;
	}
	ret = poll(&p, 1, TURN_MS);
	if (ret < 0 && errno != EINTR)
		violation(w.j, "poll: %s", strerror(errno));
	ret = rdmamsg_process(w.ctx);
	if (ret < 0 && !w.rough)
		violation(w.j, "rdmamsg_process: %d, %s", ret,
			  rdmamsg_error());
}

static void go_on(void)
{
	uint64_t now = now_ms();

	if (now < w.again_at || (w.finishing && !w.sc->failover))
		return;
	/* connections that close may still need another one */
	if (w.server && !w.listener)
		listen_again();
	else if (!w.server && !w.finishing && w.live < w.sc->conns)
		conn_dial();
}

static void finish(void)
{
	if (w.finishing || !w.board->finish)
		return;
	w.finishing = true;
	w.finish_at = now_ms();
	w.in_a_hurry = rng_chance(&w.rng, w.sc->abort);
	inject_end();
	if (w.sc->failover)
		return;
	rdmamsg_listener_close(w.listener);
	w.listener = NULL;
}

/* Counts the turns in which a new connection gets no descriptor. */
static void count_files(void)
{
	int fd;

	if (!(w.sc->harm & HARM_FILES))
		return;
	fd = dup(STDERR_FILENO);
	if (fd < 0)
		w.j->starved++;
	else
		close(fd);
}

/* Runs until no endpoint is left, or the context has to close at once. */
static void run(void)
{
	while (!w.finishing || (w.live && !w.in_a_hurry)) {
		if (!w.ctx && !context_open()) {
			inject_step();
			finish();
			continue;
		}
		pump();
		finish();
		held_step(w.finishing);
		for (struct conn *c = w.conns; c; c = c->next)
			conn_step(c);
		check_memory();
		check_srq();
		go_on();
		inject_step();
		count_files();
	}
	rdmamsg_listener_close(w.listener);
	w.listener = NULL;
}

/* ---- main ------------------------------------------------------------- */

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	fprintf(stderr, "%llu %s\n", (unsigned long long)now_ms(), line);
}

static void dump_line(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "  %s\n", text);
}

/* The parent sends SIGTERM if the process does not end in time. */
static void on_term(int sig)
{
	(void)sig;
	fprintf(stderr, "%llu no end:\n", (unsigned long long)now_ms());
	if (w.ctx)
		rdmamsg_dump(w.ctx, dump_line, NULL);
	_exit(124);
}

/* Arguments: SLOT LIFE BOARD-FD JOURNAL-FD */
int worker_main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, on_term);
	signal(SIGPIPE, SIG_IGN);
	w.slot = (uint32_t)atoi(argv[0]);
	w.board = share(atoi(argv[2]), sizeof(*w.board));
	w.j = share(atoi(argv[3]), JOURNAL_SIZE);
	if (!w.board || !w.j)
		return 2;
	w.sc = &scenarios[w.board->scenario];
	w.server = w.slot < w.sc->servers;
	w.rough = w.sc->harm & (HARM_INJECT | HARM_FILES | HARM_DEVICE);
	w.rng.seed = mix(mix(w.board->seed, w.slot), (uint64_t)atoi(argv[1]));
	content_init();
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_INFO);
	inject_start();
	begin();
	run();
	end();
	w.j->ended = 1;
	return 0;
}
