/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: TCP over the loopback device. Messages of a stream go in writes of
 * 16 KB, as a program would gather them, and reads take what there is.
 */
#include "rival.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define GATHER		((size_t)16 << 10)
#define READ		((size_t)256 << 10)

struct tcp {
	int fd, epoll;		/* epoll < 0: polls */
	bool drained;		/* the last read has taken all there was */
	size_t from, to;	/* unread bytes of 'in' */
	size_t gathered;
	uint8_t in[READ], out[GATHER];
};

/* Waits until the socket is readable, or if 'out' writable. */
static void wait_for(struct tcp *t, bool out)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT };

	if (t->epoll < 0)
		return;
	if (out)
		(void)epoll_ctl(t->epoll, EPOLL_CTL_MOD, t->fd, &ev);
	(void)epoll_wait(t->epoll, &ev, 1, -1);
	ev.events = EPOLLIN;
	if (out)
		(void)epoll_ctl(t->epoll, EPOLL_CTL_MOD, t->fd, &ev);
}

static int put(struct tcp *t, const uint8_t *data, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = send(t->fd, data + at, size - at,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0)
			at += (size_t)n;
		else if (errno == EAGAIN)
			wait_for(t, true);
		else if (errno != EINTR)
			return -1;
	}
	return 0;
}

static int tcp_send(void *conn, const uint8_t *msg, size_t size, bool more)
{
	struct tcp *t = conn;

	if (t->gathered + size > GATHER || (!more && t->gathered)) {
		/* the last message goes in a write of its own */
		if (put(t, t->out, t->gathered))
			return -1;
		t->gathered = 0;
	}
	if (!more || size > GATHER)
		return put(t, msg, size);
	memcpy(t->out + t->gathered, msg, size);
	t->gathered += size;
	return 0;
}

/* Reads more. Returns the number of bytes, or 0 at the end. */
static size_t fill(struct tcp *t)
{
	for (;;) {
		ssize_t n;

		if (t->drained)
			wait_for(t, false);
		n = recv(t->fd, t->in, READ, MSG_DONTWAIT);
		t->drained = n < (ssize_t)READ;
		if (n > 0)
			return (size_t)n;
		if (!n || (errno != EAGAIN && errno != EINTR))
			return 0;
	}
}

static enum rival_kind tcp_recv(void *conn, size_t size)
{
	enum rival_kind kind = RIVAL_STOP;
	struct tcp *t = conn;

	for (size_t got = 0; got < size;) {
		size_t n;

		if (t->from == t->to) {
			t->from = 0;
			t->to = fill(t);
			if (!t->to)
				return RIVAL_STOP;
		}
		if (!got)
			kind = (enum rival_kind)t->in[t->from];
		n = t->to - t->from;
		n = n < size - got ? n : size - got;
		got += n;
		t->from += n;
	}
	return kind;
}

static void *open_tcp(const struct rival_run *run, bool server)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct tcp *t = calloc(1, sizeof(*t));
	int fd = rival_meet(run, server), one = 1;

	if (!t || fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
				       sizeof(one)))
		return NULL;
	t->fd = fd;
	t->drained = true;
	t->epoll = run->rival->event ? epoll_create1(EPOLL_CLOEXEC) : -1;
	if (t->epoll >= 0)
		(void)epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &ev);
	return t;
}

static const struct rival_ops ops = {
	.send = tcp_send, .recv = tcp_recv, .open = open_tcp,
};

const struct rival rival_tcp[] = {
	{ .name = "TCP, epoll", .flags = "TCP_NODELAY, epoll, 16 KB a write",
	  .figures = { true, true, true }, .event = true, .listens = true,
	  .ops = &ops, .serve = rival_server, .client = rival_client },
	{ .name = "TCP, busy poll",
	  .flags = "TCP_NODELAY, recv(MSG_DONTWAIT) in a loop, 16 KB a write",
	  .figures = { true, true, true }, .listens = true,
	  .ops = &ops, .serve = rival_server, .client = rival_client },
	{ .name = NULL },
};
