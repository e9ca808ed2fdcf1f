/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: a TCP connection over which both sides swap the addresses of their
 * endpoints before a measurement.
 */
#include "rival.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int rival_meet(const struct rival_run *run, bool server)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(run->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd;

	if (server)
		return accept(run->listener, NULL, NULL);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int put(int fd, const void *data, size_t size)
{
	return send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

static int get(int fd, void *ret, size_t size)
{
	return recv(fd, ret, size, MSG_WAITALL) == (ssize_t)size ? 0 : -1;
}

int rival_swap(int fd, const void *own, size_t size,
	       uint8_t ret[RIVAL_ADDRESS_MAX], size_t *ret_size)
{
	size_t n;

	if (put(fd, &size, sizeof(size)) || put(fd, own, size) ||
	    get(fd, &n, sizeof(n)) || n > RIVAL_ADDRESS_MAX || get(fd, ret, n))
		return -1;
	*ret_size = n;
	return 0;
}
