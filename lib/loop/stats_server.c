/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Unix socket of RDMAMSG_STATS. Counters belong to the thread of their
 * context, so each context has a socket of its own, and no lock is needed.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/forked.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/watch.h"
#include "loop/stats_server.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rdmamsg/diag.h>

#define AGAIN_MS	1000	/* pause after a failed accept */
#define ASK_MS		100	/* until a reader that asks nothing is answered */
#define HTTP_MAX	160	/* of a head */
#define TIMERS		(STATS_READERS + 1)

struct stats_server {
	struct watch watch;
	struct rdmamsg *ctx;
	struct sockaddr_un addr;
	socklen_t addr_len;
	dev_t dev;			/* of the file */
	ino_t ino;			/* 0: an abstract address */
	struct list readers;
	int count;			/* of readers */
	struct timer again;		/* watches for connections again */
};

struct reader {
	struct watch watch;
	struct list node;
	struct stats_server *server;
	struct timer timer;		/* until it is answered, then cut off */
	char *text;			/* NULL before the answer */
	bool full;			/* there is no memory for more of it */
	size_t len, sent;
};

/* ---- the path --------------------------------------------------------- */

/* Copies the path with the process id in place of each %p. */
static size_t expand(const char *path, char *buf, size_t size)
{
	size_t len = 0;

	while (*path && len < size) {
		if (!strncmp(path, "%p", 2)) {
			len += (size_t)snprintf(buf + len, size - len, "%d",
						(int)getpid());
			path += 2;
		} else {
			buf[len++] = *path++;
		}
	}
	return len;
}

/* -ENAMETOOLONG */
static int set_address(struct stats_server *s, const char *path)
{
	char *name = s->addr.sun_path;
	size_t size = sizeof(s->addr.sun_path);
	size_t len = expand(path, name, size);

	/* the first context has the path, others add their number */
	if (s->ctx->number && len < size)
		len += (size_t)snprintf(name + len, size - len, ".%u",
					s->ctx->number);
	if (len >= size)
		return -ENAMETOOLONG;
	name[len] = 0;
	s->addr.sun_family = AF_UNIX;
	s->addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				  len + (name[0] != '@'));
	if (name[0] == '@')
		name[0] = 0;
	return 0;
}

static const struct sockaddr *address(const struct stats_server *s)
{
	return (const struct sockaddr *)&s->addr;
}

/* Returns true if the path is the socket of a process that has ended. */
static bool is_stale(const struct stats_server *s)
{
	struct stat st;
	bool stale;
	int fd;

	if (!s->addr.sun_path[0] || lstat(s->addr.sun_path, &st) ||
	    !S_ISSOCK(st.st_mode))
		return false;
	fd = fd_high(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
			    SOCK_CLOEXEC, 0));
	if (fd < 0)
		return false;
	stale = connect(fd, address(s), s->addr_len) && errno == ECONNREFUSED;
	close(fd);
	return stale;
}

static int bind_address(struct stats_server *s)
{
	struct stat st;
	int ret = bind(s->watch.fd, address(s), s->addr_len) ? -errno : 0;

	if (ret == -EADDRINUSE && is_stale(s)) {
		(void)unlink(s->addr.sun_path);
		ret = bind(s->watch.fd, address(s), s->addr_len) ? -errno : 0;
	}
	if (!ret && s->addr.sun_path[0] && !lstat(s->addr.sun_path, &st)) {
		s->dev = st.st_dev;
		s->ino = st.st_ino;
	}
	return ret;
}

/* Another process may have replaced the file. */
static void remove_file(const struct stats_server *s)
{
	struct stat st;

	if (s->ino && !lstat(s->addr.sun_path, &st) && st.st_ino == s->ino &&
	    st.st_dev == s->dev)
		(void)unlink(s->addr.sun_path);
}

/* ---- readers ---------------------------------------------------------- */

/* Watches for connections, or tries to a little later. */
static void watch_again(struct stats_server *s)
{
	struct loop *loop = &s->ctx->loop;

	if (rdmamsg__watch_set(loop, &s->watch, EPOLLIN))
		rdmamsg__timer_set(&loop->timers, &s->again, AGAIN_MS);
}

static void on_again(struct timer *t)
{
	struct stats_server *s = list_entry(t, struct stats_server, again);

	if (s->count < STATS_READERS)
		watch_again(s);
}

static void reader_end(struct reader *r)
{
	struct stats_server *s = r->server;
	struct loop *loop = &s->ctx->loop;

	rdmamsg__timer_stop(&loop->timers, &r->timer);
	list_del(&r->node);
	free(r->text);
	rdmamsg__watch_end(loop, &r->watch, r);
	if (s->count-- == STATS_READERS && s->again.pos < 0)
		watch_again(s);
}

/* Sends as much as the socket takes. */
static void reader_send(struct watch *w)
{
	struct reader *r = list_entry(w, struct reader, watch);
	ssize_t n = 0;

	while (r->sent < r->len) {
		n = send(w->fd, r->text + r->sent, r->len - r->sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			break;
		r->sent += (size_t)n;
	}
	if (n >= 0 || errno != EAGAIN ||
	    rdmamsg__watch_set(&r->server->ctx->loop, w, EPOLLOUT))
		reader_end(r);
}

/* The word of a reader, which comes at once if at all. */
enum request { ASKS_NOTHING, ASKS_BY_HTTP, ASKS_FOR_DUMP };

static enum request request_of(const char *word)
{
	return !strncmp(word, "GET ", 4) ? ASKS_BY_HTTP :
	       !strncmp(word, "dump\n", 5) ? ASKS_FOR_DUMP : ASKS_NOTHING;
}

/* A dump has addresses of memory: for the program's user, and for root. */
static bool may_dump(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	       (!peer.uid || peer.uid == geteuid());
}

static void add_line(void *arg, const char *line)
{
	struct reader *r = arg;
	size_t len = strlen(line);
	char *text = r->full ? NULL : realloc(r->text, r->len + len + 1);

	if (!text) {
		r->full = true;
		return;
	}
	r->text = text;
	memcpy(text + r->len, line, len);
	text[r->len + len] = '\n';
	r->len += len + 1;
}

static void make_dump(struct reader *r)
{
	if (may_dump(r->watch.fd))
		rdmamsg_dump(r->server->ctx, add_line, r);
	else
		add_line(r, "a dump is for the user of the program and for "
			 "root");
}

static void make_metrics(struct reader *r, bool http)
{
	const struct rdmamsg *ctx = r->server->ctx;
	int len = rdmamsg__try(rdmamsg_stats_text(ctx, NULL, 0)), head = 0;

	r->text = len < 0 ? NULL : malloc(HTTP_MAX + (size_t)len + 1);
	if (!r->text)
		return;
	if (http)
		head = snprintf(r->text, HTTP_MAX, "HTTP/1.0 200 OK\r\n"
				"Content-Type: text/plain; version=0.0.4\r\n"
				"Content-Length: %d\r\n\r\n", len);
	(void)rdmamsg_stats_text(ctx, r->text + head, (size_t)len + 1);
	r->len = (size_t)(head + len);
}

/* Returns false if there is no memory. */
static bool make_text(struct reader *r, enum request what)
{
	if (what == ASKS_FOR_DUMP)
		make_dump(r);
	else
		make_metrics(r, what == ASKS_BY_HTTP);
	if (r->text && !r->full)
		return true;
	log_warn("no memory for a reader of RDMAMSG_STATS");
	return false;
}

static void reader_answer(struct reader *r, enum request what)
{
	struct loop *loop = &r->server->ctx->loop;

	if (!make_text(r, what)) {
		reader_end(r);
		return;
	}
	rdmamsg__timer_set(&loop->timers, &r->timer, STATS_MS);
	r->watch.fn = reader_send;
	reader_send(&r->watch);
}

/* The word has come, or the end of what the reader sends. */
static void reader_asks(struct watch *w)
{
	struct reader *r = list_entry(w, struct reader, watch);
	char request[4096] = "";
	ssize_t n = recv(w->fd, request, sizeof(request), MSG_DONTWAIT);

	if (n >= 0 || errno != EAGAIN)
		reader_answer(r, request_of(request));
}

static void reader_late(struct timer *t)
{
	struct reader *r = list_entry(t, struct reader, timer);

	if (!r->text) {
		reader_answer(r, ASKS_NOTHING);
		return;
	}
	log_info("a reader of RDMAMSG_STATS is cut off: it has read %zu of %zu "
		 "bytes in %d ms", r->sent, r->len, STATS_MS);
	reader_end(r);
}

/* Takes over fd. */
static void reader_new(struct stats_server *s, int fd)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r) {
		log_warn("no memory for a reader of RDMAMSG_STATS");
		close(fd);
		return;
	}
	r->server = s;
	r->watch.fd = fd;
	rdmamsg__fd_own(fd);
	r->watch.fn = reader_asks;
	rdmamsg__timer_init(&r->timer, reader_late);
	rdmamsg__timer_set(&s->ctx->loop.timers, &r->timer, ASK_MS);
	list_add_tail(&s->readers, &r->node);
	if (++s->count == STATS_READERS)
		(void)rdmamsg__watch_set(&s->ctx->loop, &s->watch, 0);
	if (rdmamsg__watch_set(&s->ctx->loop, &r->watch, EPOLLIN))
		reader_answer(r, ASKS_NOTHING);
}

static void on_connection(struct watch *w)
{
	struct stats_server *s = list_entry(w, struct stats_server, watch);
	int fd = fd_high(accept4(w->fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd >= 0) {
		reader_new(s, fd);
		return;
	}
	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return;
	/* the connection stays, and would wake the loop again and again */
	log_warn("accepting a reader of RDMAMSG_STATS: %s", strerror(errno));
	(void)rdmamsg__watch_set(&s->ctx->loop, w, 0);
	rdmamsg__timer_set(&s->ctx->loop.timers, &s->again, AGAIN_MS);
}

/* ---- opened and closed ------------------------------------------------ */

static int listen_at(struct stats_server *s, const char *path)
{
	int ret = set_address(s, path);

	if (ret)
		return ret;
	s->watch.fd = fd_high(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
				     SOCK_CLOEXEC, 0));
	if (s->watch.fd < 0)
		return -errno;
	ret = bind_address(s);
	if (ret)
		goto err_fd;
	if (listen(s->watch.fd, STATS_READERS)) {
		ret = -errno;
		goto err_file;
	}
	ret = rdmamsg__watch_set(&s->ctx->loop, &s->watch, EPOLLIN);
	if (ret)
		goto err_file;
	rdmamsg__fd_own(s->watch.fd);
	return 0;

err_file:
	remove_file(s);
err_fd:
	close(s->watch.fd);
	return ret;
}

static int server_new(struct rdmamsg *ctx, const char *path)
{
	struct stats_server *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->ctx = ctx;
	s->watch.fn = on_connection;
	list_init(&s->readers);
	rdmamsg__timer_init(&s->again, on_again);
	ret = rdmamsg__timers_reserve(&ctx->loop.timers, TIMERS);
	if (ret)
		goto err_server;
	ret = listen_at(s, path);
	if (ret)
		goto err_timers;
	ctx->stats = s;
	return 0;

err_timers:
	rdmamsg__timers_release(&ctx->loop.timers, TIMERS);
err_server:
	free(s);
	return ret;
}

void rdmamsg__stats_open(struct rdmamsg *ctx, const char *path)
{
	int ret = path ? server_new(ctx, path) : 0;

	/* not log_warn(), because the log is off by default */
	if (ret)
		rdmamsg__log(RDMAMSG_LOG_WARN, "RDMAMSG_STATS '%s' has no "
			     "effect for context %u: %s%s", path, ctx->number,
			     strerror(-ret), ret == -EADDRINUSE ?
			     ": each process needs a path of its own, with %p "
			     "for its id" : "");
	else if (path)
		log_info("context %u serves its statistics at '%s'",
			 ctx->number, path);
}

/* Gives a reader that has asked nothing yet what its socket takes. */
static void reader_last(struct reader *r)
{
	if (make_text(r, ASKS_NOTHING))
		(void)send(r->watch.fd, r->text, r->len,
			   MSG_NOSIGNAL | MSG_DONTWAIT);
	reader_end(r);
}

void rdmamsg__stats_close(struct rdmamsg *ctx)
{
	struct stats_server *s = ctx->stats;
	struct list *n, *t;

	if (!s)
		return;
	ctx->stats = NULL;
	list_for_each_safe(n, t, &s->readers) {
		struct reader *r = list_entry(n, struct reader, node);

		if (r->text)
			reader_end(r);
		else
			reader_last(r);
	}
	rdmamsg__timer_stop(&ctx->loop.timers, &s->again);
	rdmamsg__timers_release(&ctx->loop.timers, TIMERS);
	remove_file(s);
	rdmamsg__watch_end(&ctx->loop, &s->watch, s);
}
