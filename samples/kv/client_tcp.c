/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's connection over TCP. */
#include "client.h"

#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGAIN_US	50000	/* until it tries again to connect */

static int failed(struct kv *kv)
{
	const int error = errno ? errno : ECONNRESET;

	snprintf(kv->reason, sizeof(kv->reason), "%s", strerror(error));
	return -error;
}

static int try_address(const struct addrinfo *ai)
{
	const int one = 1;
	int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, 0);

	if (fd >= 0 && (connect(fd, ai->ai_addr, ai->ai_addrlen) ||
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
				   sizeof(one)))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int kv_tcp_connect(struct kv *kv)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *all;
	int ret = getaddrinfo(kv->host, kv->port, &hints, &all);

	if (ret)
		errx(1, "%s: %s", kv->host, gai_strerror(ret));
	kv_tcp_close(kv);
	for (struct addrinfo *ai = all; ai && kv->fd < 0; ai = ai->ai_next)
		kv->fd = try_address(ai);
	freeaddrinfo(all);
	if (kv->fd >= 0)
		return 0;
	if (errno != ECONNREFUSED && errno != ECONNRESET)
		err(1, "TCP port %s at %s", kv->port, kv->host);
	usleep(AGAIN_US);
	return -ECONNREFUSED;
}

void kv_tcp_close(struct kv *kv)
{
	if (kv->fd >= 0)
		close(kv->fd);
	kv->fd = -1;
}

int kv_tcp_ask(struct kv *kv, const void *bytes, size_t len,
	       struct kv_item *ret)
{
	size_t have = 0;
	ssize_t n;
	long all;

	for (const char *at = bytes; len; at += n, len -= (size_t)n) {
		n = send(kv->fd, at, len, MSG_NOSIGNAL);
		if (n <= 0)
			return failed(kv);
	}
	while (!(all = kv_parse(kv->bytes, have, ret))) {
		errno = 0;	/* which the end of the stream leaves */
		n = recv(kv->fd, kv->bytes + have, sizeof(kv->bytes) - have, 0);
		if (n <= 0)
			return failed(kv);
		have += (size_t)n;
	}
	errno = EPROTO;
	return all == (long)have ? 0 : failed(kv);
}
