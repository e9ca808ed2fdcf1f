/* SPDX-License-Identifier: BSD-2-Clause */
/* A UDP socket that sends datagrams back, for a loop to watch. */
#ifndef RDMAMSG_SAMPLES_UDP_H
#define RDMAMSG_SAMPLES_UDP_H

#include <err.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* Binds a socket to a numeric address, and writes its port to *ret. */
static inline int udp_socket(const char *host, unsigned int *ret)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_PASSIVE,
		.ai_socktype = SOCK_DGRAM,
	};
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	struct addrinfo *ai;
	int fd;

	if (getaddrinfo(host, "0", &hints, &ai))
		errx(1, "%s: not an address", host);
	fd = socket(ai->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		err(1, "%s", host);
	freeaddrinfo(ai);
	/* IPv4 and IPv6 have the port in the same place */
	*ret = ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
	return fd;
}

/* Sends one datagram back. Returns the number that have come, 0 or 1. */
static inline unsigned int udp_echo(int fd)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	char data[2048];
	ssize_t n = recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *)&from,
			     &len);

	if (n < 0)
		return 0;
	/* like any datagram, the answer may be lost */
	n = sendto(fd, data, (size_t)n, 0, (struct sockaddr *)&from, len);
	(void)n;
	return 1;
}

#endif
