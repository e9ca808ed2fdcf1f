/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: sockets unix|tcp SIZE COUNT
 *
 * A rival of event mode: two processes on two cores send messages of SIZE bytes
 * back and forth over a stream socket. Both sleep in epoll_wait(2) until the
 * socket is readable, as a server of many connections does. Prints the median
 * of half a round trip, in ns.
 */
#define _GNU_SOURCE	/* for the affinity of processes */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM	100	/* messages that are not counted */

static uint8_t *buf;
static size_t size;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static void tcp_pair(int fd[2])
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (l < 0 || fd[1] < 0 || bind(l, (struct sockaddr *)&a, len) ||
	    listen(l, 1) || getsockname(l, (struct sockaddr *)&a, &len) ||
	    connect(fd[1], (struct sockaddr *)&a, len))
		fail("tcp");
	fd[0] = accept(l, NULL, NULL);
	if (fd[0] < 0)
		fail("accept");
	for (int i = 0; i < 2; i++)
		if (setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one,
			       sizeof(one)))
			fail("TCP_NODELAY");
	close(l);
}

/* Waits until fd is readable, or if 'out' writable. */
static void wait_for(int ep, int fd, bool out)
{
	struct epoll_event ev = { .events = out ? EPOLLOUT : EPOLLIN };

	/* a message larger than the socket's buffer waits for room */
	if (out && epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev))
		fail("epoll_ctl");
	while (epoll_wait(ep, &ev, 1, -1) != 1)
		if (errno != EINTR)
			fail("epoll_wait");
	ev.events = EPOLLIN;
	if (out && epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev))
		fail("epoll_ctl");
}

static void put(int ep, int fd)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = send(fd, buf + at, size - at,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0)
			at += (size_t)n;
		else if (errno == EAGAIN)
			wait_for(ep, fd, true);
		else
			fail("send");
	}
}

static void get(int ep, int fd)
{
	for (size_t at = 0; at < size;) {
		ssize_t n;

		wait_for(ep, fd, false);
		n = recv(fd, buf + at, size - at, MSG_DONTWAIT);
		if (n > 0)
			at += (size_t)n;
		else if (!n || errno != EAGAIN)
			fail("recv");
	}
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int loop(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		fail("epoll");
	return ep;
}

static void echo(int fd, uint32_t count)
{
	int ep = loop(fd);

	for (uint32_t i = 0; i < count; i++) {
		get(ep, fd);
		put(ep, fd);
	}
}

static void measure(int fd, uint32_t count)
{
	uint64_t *took = calloc(count, sizeof(*took));
	int ep = loop(fd);

	if (!took)
		fail("calloc");
	for (uint32_t i = 0; i < count; i++) {
		uint64_t begun = now();

		put(ep, fd);
		get(ep, fd);
		took[i] = now() - begun;
	}
	qsort(took + WARM, count - WARM, sizeof(*took), compare);
	printf("%.1f\n", (double)took[WARM + (count - WARM) / 2] / 2);
	free(took);
}

int main(int argc, char **argv)
{
	uint32_t count = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;
	int fd[2], status;
	pid_t child;

	size = argc == 4 ? (size_t)atol(argv[2]) : 0;
	if (!size || count <= WARM) {
		fprintf(stderr, "Usage: sockets unix|tcp SIZE COUNT\n");
		return 2;
	}
	buf = calloc(1, size);
	if (!buf)
		fail("calloc");
	if (!strcmp(argv[1], "tcp"))
		tcp_pair(fd);
	else if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		fail("socketpair");
	child = fork();
	if (child < 0)
		fail("fork");
	close(fd[child ? 0 : 1]);
	pin(child != 0);
	if (!child) {
		echo(fd[0], count);
		return 0;
	}
	measure(fd[1], count);
	close(fd[1]);
	if (waitpid(child, &status, 0) != child || status)
		fail("the other process");
	return 0;
}
