/* SPDX-License-Identifier: BSD-2-Clause */
/* A process begins here, and ends here with nothing left. */
#include "worker.h"

#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include <rdmamsg/memory.h>

#include "../fds.h"

#define WARM_MS		60000	/* a connection on a busy host */
#define WARM_AGAIN_MS	50
/*
 * Free descriptors beyond those at the start, by slot. The soft HCA needs few
 * for a connection, and a process without a free one must go on.
 */
#define FILES(slot)	(9 + (slot) % 4 * 2)
/*
 * The soft HCA has a wire to each living process that it has spoken to, or two
 * if both have begun one at the same time, and librdmacm keeps the device open.
 * A wire is a socket and two doorbells. The sockets of some questions may still
 * be there.
 */
#define WIRE_FDS	(2 * 3)
#define QUESTIONS	8

static int fds;				/* descriptors before the load */

/* ---- the beginning ---------------------------------------------------- */

static struct {
	bool connected, closed;
	char why[256];			/* it has failed */
} warm;

static void warm_connected(struct rdmamsg_ep *ep)
{
	warm.connected = true;
	rdmamsg_ep_close(ep);
}

static void warm_closed(struct rdmamsg_ep *ep,
			const struct rdmamsg_reason *why)
{
	(void)ep;
	warm.closed = true;
	snprintf(warm.why, sizeof(warm.why), "%s", why->text);
}

static void warm_failed(const char *call)
{
	snprintf(warm.why, sizeof(warm.why), "%s: %s", call, rdmamsg_error());
}

static void warm_connect(struct rdmamsg *ctx, uint64_t end)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = warm_connected,
		.on_closed = warm_closed,
	};
	struct rdmamsg_ep_options e = { .size = sizeof(e), .handlers = &on };
	struct rdmamsg_listen_options o = { .size = sizeof(o), .ep = &e };
	struct rdmamsg_listener *l;
	char service[16];

	if (rdmamsg_listen(ctx, w.board->own, "0", &o, &l)) {
		warm_failed("listen");
		return;
	}
	snprintf(service, sizeof(service), "%u", rdmamsg_listener_port(l));
	if (rdmamsg_connect(ctx, w.board->own, service, &e, NULL)) {
		warm_failed("connect");
		return;
	}
	snprintf(warm.why, sizeof(warm.why), "no end of it");
	while (!warm.closed && now_ms() < end)
		(void)rdmamsg_wait(ctx, 100);
}

/* The device may be without its port, or gone. All have the kernel's. */
static bool is_harmed(void)
{
	uint32_t harm = w.j->kernel ? w.sc->harm : w.j->harmed;

	return harm & (HARM_PORT | HARM_SILENT | HARM_DEVICE);
}

/*
 * The libraries below keep some descriptors and memory for ever. A connection
 * of the process with itself makes all of them. What harms it passes.
 */
static void warm_up(void)
{
	uint64_t end = now_ms() + WARM_MS;
	struct rdmamsg *ctx;

	for (;;) {
		warm.connected = warm.closed = false;
		if (!rdmamsg_open(&ctx, NULL)) {
			warm_connect(ctx, end);
			rdmamsg_close(ctx);
		} else {
			warm_failed("open");
		}
		if (warm.connected && warm.closed)
			return;
		if (!is_harmed() || now_ms() >= end)
			break;
		(void)poll(NULL, 0, WARM_AGAIN_MS);
	}
	violation(w.j, "no connection to itself: %s", warm.why);
}

static int wire_fds(void)
{
	return WIRE_FDS * (w.sc->servers + w.sc->clients - 1) + QUESTIONS;
}

static void limit_files(void)
{
	struct rlimit l;

	if (!(w.sc->harm & HARM_FILES) || getrlimit(RLIMIT_NOFILE, &l))
		return;
	l.rlim_cur = (rlim_t)(fds + (int)FILES(w.slot));
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

void begin(void)
{
	warm_up();
	fds = open_fds();
	limit_files();
}

/* ---- the end ---------------------------------------------------------- */

static void end_pools(void)
{
	if (rdmamsg_pool_destroy(w.recv_pool) ||
	    rdmamsg_pool_destroy(w.send_pool))
		violation(w.j, "pool_destroy: %s", rdmamsg_error());
}

/* Prints the open descriptors to the log. */
static void print_fds(void)
{
	char path[64], to[128];
	ssize_t len;

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, to, sizeof(to) - 1);
		if (len >= 0)
			fprintf(stderr, "  %d %.*s\n", fd, (int)len, to);
	}
}

/* Lanes that endpoints have made in advance end after the endpoints. */
static bool carriers_left(void)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	return w.sc->failover && !rdmamsg_get_stats(w.ctx, &st) && st.endpoints;
}

/* Checks that no endpoint and no message is left. */
static void end_quietly(void)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };
	uint64_t end = now_ms() + CLOSE_MS;

	while (carriers_left() && now_ms() < end)
		(void)rdmamsg_wait(w.ctx, 100);

	held_step(true);
	/* takes back messages that had references */
	(void)rdmamsg_process(w.ctx);
	rdmamsg_srq_destroy(w.srq);
	end_pools();
	(void)rdmamsg_get_stats(w.ctx, &st);
	if (st.msgs_lent || st.endpoints)
		violation(w.j, "at the end %llu messages are lent, %llu "
			  "endpoints are there",
			  (unsigned long long)st.msgs_lent,
			  (unsigned long long)st.endpoints);
}

/*
 * On iWARP a thread of the library destroys the queue pairs of connections that
 * the peer had not accepted, and rdmamsg_close() does not wait for it: see
 * rdmamsg(7).
 */
static void await_late_objects(void)
{
	uint64_t deadline = now_ms() + SLACK_MS;

	while (inject_leftovers()[0] && now_ms() < deadline)
		(void)usleep(1000);
}

void end(void)
{
	uint64_t began, late = worker_late();

	if (!w.ctx)
		return;
	if (w.in_a_hurry)
		conn_abort_all();
	else
		end_quietly();
	began = now_ms();
	rdmamsg_close(w.ctx);
	if (w.live)
		violation(w.j, "rdmamsg_close has left %u endpoints open",
			  w.live);
	if (now_ms() - began > SLACK_MS + worker_late() - late)
		violation(w.j, "rdmamsg_close has taken %llu ms",
			  (unsigned long long)(now_ms() - began));
	await_late_objects();
	if (inject_leftovers()[0])
		violation(w.j, "left: %s", inject_leftovers());
	if (open_fds() > fds + wire_fds()) {
		violation(w.j, "left: %d descriptors", open_fds() - fds);
		print_fds();
	}
}
