/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-info: HTTP. Clients are served side by side, each within a bound of
 * memory and time, so a slow one holds up nobody. If they are too many, the one
 * that has come first leaves its place to the next.
 */
#define _GNU_SOURCE
#include "http.h"

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS		64
#define REQUEST		4096	/* bytes, with all header lines */

struct client {
	int fd;				/* -1: free */
	int64_t until;			/* ms */
	char request[REQUEST];
	size_t len;			/* of the request */
	struct text reply;		/* empty: the request is not complete */
	size_t sent;
};

static struct client clients[CLIENTS];

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void drop(struct client *c)
{
	close(c->fd);
	free(c->reply.buf);
	c->reply = (struct text){ 0 };
	c->fd = -1;
}

/* ---- the answer -------------------------------------------------------- */

static void reply(struct client *c, const char *status, const struct text *body,
		  bool head_only)
{
	char head[256];
	int len = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n"
			   "Content-Type: text/plain; version=0.0.4\r\n"
			   "Content-Length: %zu\r\nConnection: close\r\n"
			   "%s\r\n", status, body->len, status[0] == '2' ? "" :
			   "Allow: GET, HEAD\r\n");

	append(&c->reply, head, (size_t)len);
	if (!head_only)
		append(&c->reply, body->buf, body->len);
}

static void answer(struct client *c, page_fn *page, const char *path)
{
	const bool head = !strncmp(c->request, "HEAD ", 5);
	const char *target = strchr(c->request, ' ');
	struct text body = { 0 };

	if (!head && strncmp(c->request, "GET ", 4)) {
		append(&body, "GET or HEAD only\n", 17);
		reply(c, "405 Method Not Allowed", &body, false);
	} else if (strncmp(target, " /metrics", 9) && strncmp(target, " / ", 3)) {
		append(&body, "it is at /metrics\n", 18);
		reply(c, "404 Not Found", &body, head);
	} else {
		page(path, &body);
		reply(c, "200 OK", &body, head);
	}
	free(body.buf);
	c->until = now_ms() + PATIENCE_MS;
}

/* ---- clients ----------------------------------------------------------- */

/* Reads up to the empty line of a request. Returns false if none can come. */
static bool hear(struct client *c)
{
	ssize_t n = recv(c->fd, c->request + c->len, REQUEST - 1 - c->len,
			 MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	c->len += (size_t)n;
	c->request[c->len] = 0;
	return true;
}

static bool is_complete(const struct client *c)
{
	return strstr(c->request, "\r\n\r\n") || strstr(c->request, "\n\n");
}

/* Returns false if all is said, or the client has gone. */
static bool say(struct client *c)
{
	ssize_t n = send(c->fd, c->reply.buf + c->sent, c->reply.len - c->sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN;
	c->sent += (size_t)n;
	return c->sent < c->reply.len;
}

/* Returns false if the client is to be dropped. */
static bool go_on(struct client *c, page_fn *page, const char *path)
{
	if (c->reply.len)
		return say(c);
	if (!hear(c))
		return false;
	if (!is_complete(c))
		return c->len < REQUEST - 1;
	answer(c, page, path);
	return say(c);
}

/* Returns a free place, or that of the client that has come first. */
static struct client *find_place(void)
{
	struct client *oldest = &clients[0];

	for (int i = 0; i < CLIENTS; i++) {
		if (clients[i].fd < 0)
			return &clients[i];
		if (clients[i].until < oldest->until)
			oldest = &clients[i];
	}
	drop(oldest);
	return oldest;
}

static void welcome(int listener)
{
	const int fd = accept4(listener, NULL, NULL,
			       SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *c;

	if (fd >= 0) {
		c = find_place();
		c->fd = fd;
		c->until = now_ms() + PATIENCE_MS;
		c->request[0] = 0;
		c->len = c->sent = 0;
	} else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
		warn("a client");
		(void)poll(NULL, 0, 100);	/* without descriptors */
	}
}

/* Returns ms until the next client is late, or -1. */
static int next_end(void)
{
	const int64_t now = now_ms();
	int64_t ret = -1;

	for (int i = 0; i < CLIENTS; i++) {
		const int64_t left = clients[i].until - now;

		if (clients[i].fd >= 0 && (ret < 0 || left < ret))
			ret = left > 0 ? left : 0;
	}
	return (int)ret;
}

static void look(struct client *c, short events, page_fn *page,
		 const char *path)
{
	if ((events && !go_on(c, page, path)) || c->until <= now_ms())
		drop(c);
}

void http_serve(int listener, int end, page_fn *page, const char *path)
{
	struct pollfd p[CLIENTS + 2];

	for (int i = 0; i < CLIENTS; i++)
		clients[i].fd = -1;
	for (;;) {
		for (int i = 0; i < CLIENTS; i++)
			p[i] = (struct pollfd){
				clients[i].fd, clients[i].reply.len ? POLLOUT :
				POLLIN, 0,
			};
		p[CLIENTS] = (struct pollfd){ listener, POLLIN, 0 };
		p[CLIENTS + 1] = (struct pollfd){ end, POLLIN, 0 };
		if (poll(p, CLIENTS + 2, next_end()) < 0) {
			if (errno != EINTR)
				err(1, "poll");
			continue;
		}
		if (p[CLIENTS + 1].revents)
			break;
		for (int i = 0; i < CLIENTS; i++)
			if (clients[i].fd >= 0)
				look(&clients[i], p[i].revents, page, path);
		if (p[CLIENTS].revents)
			welcome(listener);
	}
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].fd >= 0)
			drop(&clients[i]);
}
