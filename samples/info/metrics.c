/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-info: gives the statistics of all programs of this host to Prometheus,
 * by HTTP. Programs are found by the variable RDMAMSG_STATS of their processes.
 * Requests are answered one after the other, each within a bound.
 */
#define _GNU_SOURCE
#include "gather.h"
#include "info.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS	2000	/* for a context, and for a client */
#define BACKLOG		16
#define VARIABLE	"RDMAMSG_STATS="

static int signals;		/* readable when the program is to end */

/* ---- the programs ----------------------------------------------------- */

/* Returns false if there is no such file, or this user may not read it. */
static bool read_file(const char *name, struct text *t)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	char buf[16384];
	ssize_t n;

	if (fd < 0)
		return false;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		append(t, buf, (size_t)n);
	close(fd);
	return !n;
}

/* Adds the sockets of a process with this value of the variable. */
static void find_program(struct sources *s, const char *pid, const char *value)
{
	struct text path = { 0 };
	char link[PATH_MAX], cwd[PATH_MAX];
	ssize_t n;

	append(&path, "", 0);
	if (value[0] != '@' && value[0] != '/') {
		snprintf(link, sizeof(link), "/proc/%s/cwd", pid);
		n = readlink(link, cwd, sizeof(cwd));
		if (n > 0)
			append(&path, cwd, (size_t)n);
		append(&path, "/", 1);
	}
	for (; *value; value++)
		if (!strncmp(value, "%p", 2)) {
			append(&path, pid, strlen(pid));
			value++;
		} else {
			append(&path, value, 1);
		}
	sources_find(s, path.buf);
	free(path.buf);
}

static void find_programs(struct sources *s)
{
	DIR *all = opendir("/proc");
	struct dirent *e;

	while (all && (e = readdir(all))) {
		struct text t = { 0 };
		char name[280];

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(name, sizeof(name), "/proc/%s/environ", e->d_name);
		if (read_file(name, &t) && t.len)
			for (const char *at = t.buf; at < t.buf + t.len;
			     at += strlen(at) + 1)
				if (!strncmp(at, VARIABLE, strlen(VARIABLE)) &&
				    at[strlen(VARIABLE)])
					find_program(s, e->d_name,
						     at + strlen(VARIABLE));
		free(t.buf);
	}
	if (all)
		closedir(all);
}

/* ---- the text --------------------------------------------------------- */

static void append_gauge(struct text *t, const char *name, const char *help,
			 size_t value)
{
	char line[256];

	append(t, line, (size_t)snprintf(line, sizeof(line),
		"# HELP %s %s\n# TYPE %s gauge\n%s %zu\n", name, help, name,
		name, value));
}

static bool is_counted(const struct sources *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!s->at[i].error && s->at[i].pid == s->at[n].pid)
			return true;
	return false;
}

static void gather(const char *path, struct text *body)
{
	struct metrics metrics = { 0 };
	struct sources s = { 0 };
	size_t programs = 0, silent = 0;

	if (path)
		sources_find(&s, path);
	else
		find_programs(&s);
	sources_read(&s, "\n", PATIENCE_MS);
	for (size_t i = 0; i < s.count; i++) {
		struct source *src = &s.at[i];

		/* the variable is there, but no context, or no longer */
		if (src->error == ENOENT || src->error == ECONNREFUSED)
			continue;
		/* the socket may be another program's */
		if (!src->error && strncmp(src->text.buf, "# HELP rdmamsg_",
					   strlen("# HELP rdmamsg_")))
			src->error = EPROTO;
		if (src->error) {
			silent++;
			continue;
		}
		programs += !is_counted(&s, i);
		metrics_add(&metrics, src, true);
	}
	append_gauge(body, "rdmamsg_programs",
		     "Programs whose statistics are here.", programs);
	append_gauge(body, "rdmamsg_contexts_silent",
		     "Contexts that gave no statistics.", silent);
	for (size_t i = 0; i < metrics.count; i++) {
		const struct metric *m = &metrics.at[i];

		append(body, m->head.buf ? m->head.buf : "", m->head.len);
		append(body, m->samples.buf ? m->samples.buf : "",
		       m->samples.len);
	}
	metrics_free(&metrics);
	sources_free(&s);
}

/* ---- HTTP ------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits until the socket is ready. Returns false if the time is over. */
static bool ready(int fd, short events, int64_t until)
{
	struct pollfd p[] = { { fd, events, 0 }, { signals, POLLIN, 0 } };
	int64_t rest = until - now_ms();

	return rest > 0 && poll(p, 2, (int)rest) > 0 && !p[1].revents;
}

/* Reads a request up to its empty line. Returns false if none comes. */
static bool hear(int fd, char *buf, size_t size, int64_t until)
{
	size_t len = 0;

	while (len < size - 1 && ready(fd, POLLIN, until)) {
		ssize_t n = recv(fd, buf + len, size - 1 - len, MSG_DONTWAIT);

		if (n <= 0)
			return false;
		len += (size_t)n;
		buf[len] = 0;
		if (strstr(buf, "\r\n\r\n") || strstr(buf, "\n\n"))
			return true;
	}
	return false;
}

static void say(int fd, const char *data, size_t len, int64_t until)
{
	while (len && ready(fd, POLLOUT, until)) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			return;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
}

static void answer(int fd, const char *status, const struct text *body,
		   bool head_only)
{
	const int64_t until = now_ms() + PATIENCE_MS;
	char head[256];
	int len = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n"
			   "Content-Type: text/plain; version=0.0.4\r\n"
			   "Content-Length: %zu\r\nConnection: close\r\n"
			   "%s\r\n", status, body->len, status[0] == '2' ? "" :
			   "Allow: GET, HEAD\r\n");

	say(fd, head, (size_t)len, until);
	if (!head_only)
		say(fd, body->buf, body->len, until);
}

static void serve(int fd, const char *path)
{
	struct text body = { 0 };
	char request[4096];
	const char *target;
	bool head;

	if (!hear(fd, request, sizeof(request), now_ms() + PATIENCE_MS))
		return;
	head = !strncmp(request, "HEAD ", 5);
	target = strchr(request, ' ');
	if (!head && strncmp(request, "GET ", 4)) {
		append(&body, "GET or HEAD only\n", 17);
		answer(fd, "405 Method Not Allowed", &body, false);
	} else if (strncmp(target, " /metrics", 9) && strncmp(target, " / ", 3)) {
		append(&body, "it is at /metrics\n", 18);
		answer(fd, "404 Not Found", &body, head);
	} else {
		gather(path, &body);
		answer(fd, "200 OK", &body, head);
	}
	free(body.buf);
}

/* ---- the listener ----------------------------------------------------- */

/* [ADDRESS:]PORT, an IPv6 address in brackets. Returns a socket. */
static int listen_at(const char *at)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	char *address = strdup(at), *port, *host;
	struct addrinfo *list;
	const int on = 1;
	int fd = -1, ret;

	if (!address)
		err(FAILED, "memory");
	port = strrchr(address, ':');
	host = port ? address : (char *)(uintptr_t)"127.0.0.1";
	if (port)
		*port++ = 0;
	else
		port = address;
	if (port != address && host[0] == '[' && port[-2] == ']') {
		port[-2] = 0;
		host++;
	}
	ret = getaddrinfo(*host ? host : NULL, port, &hints, &list);
	if (ret)
		errx(WRONG_USE, "--metrics=%s: %s", at, gai_strerror(ret));
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC |
		    SOCK_NONBLOCK, 0);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, BACKLOG))
		err(FAILED, "--metrics=%s", at);
	freeaddrinfo(list);
	free(address);
	return fd;
}

static void announce(int fd)
{
	char host[INET6_ADDRSTRLEN + 20], port[16];
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	bool v6;

	if (getsockname(fd, (struct sockaddr *)&own, &len) ||
	    getnameinfo((struct sockaddr *)&own, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	v6 = own.ss_family == AF_INET6;
	printf("http://%s%s%s:%s/metrics\n", v6 ? "[" : "", host,
	       v6 ? "]" : "", port);
	(void)fflush(stdout);
}

int serve_metrics(const char *at, const char *path)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		err(FAILED, "signals");
	signals = p[1].fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0)
		err(FAILED, "signals");
	p[0].fd = listen_at(at);
	announce(p[0].fd);
	for (;;) {
		int fd;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			err(FAILED, "poll");
		if (p[1].revents)
			break;
		fd = accept4(p[0].fd, NULL, NULL, SOCK_CLOEXEC |
			     SOCK_NONBLOCK);
		if (fd >= 0) {
			serve(fd, path);
			close(fd);
		} else if (errno != EAGAIN && errno != ECONNABORTED &&
			   errno != EINTR) {
			warn("a client");
			(void)ready(-1, 0, now_ms() + PATIENCE_MS);
		}
	}
	close(p[0].fd);
	close(signals);
	return ALL_WELL;
}
