/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-info: gives the statistics of all programs of this host to Prometheus,
 * by HTTP. Programs are found by the variable RDMAMSG_STATS of their processes.
 */
#define _GNU_SOURCE
#include "gather.h"
#include "http.h"
#include "info.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG		16
#define VARIABLE	"RDMAMSG_STATS="
#define TEXT_MAX	((size_t)16 << 20)	/* of a context */

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
	struct sources s = { .most = TEXT_MAX };
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
	int listener, signals;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		err(FAILED, "signals");
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0)
		err(FAILED, "signals");
	listener = listen_at(at);
	announce(listener);
	http_serve(listener, signals, gather, path);
	close(listener);
	close(signals);
	return ALL_WELL;
}
