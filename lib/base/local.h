/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether an IP address is of this host. */
#ifndef RDMAMSG_BASE_LOCAL_H
#define RDMAMSG_BASE_LOCAL_H

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

static inline bool addr_is_loopback(const struct sockaddr *addr)
{
	const struct in6_addr *in6;
	const uint8_t *v4;

	if (addr->sa_family != AF_INET6) {
		v4 = (const uint8_t *)
			&((const struct sockaddr_in *)addr)->sin_addr;
		return v4[0] == 127;
	}
	in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(in6) ||
	       (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

/*
 * Binds a socket to ask the kernel, without a port, because none may be free.
 * Returns 0 for an address of this host, -EADDRNOTAVAIL for another, or -errno
 * if the kernel did not say. A link that is missing or not given is EINVAL,
 * ENODEV: Linux, __inet6_bind().
 *
 * SOCK_CLOEXEC also keeps the socket from librspreload, whose socket() makes an
 * rsocket of it otherwise: rsocket() takes types without flags only (rdma-core,
 * librdmacm/rsocket.c). An rsocket would ask the soft HCA, whose lock the caller
 * has.
 */
static inline int addr_local(const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage a = { 0 };
	int fd = fd_high(socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	int one = 1, ret = 0;

	if (fd < 0)
		return errno == EAFNOSUPPORT ? -EADDRNOTAVAIL : -errno;
	(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one,
			 sizeof(one));
	memcpy(&a, addr, len);
	/* sin6_port has the same offset */
	((struct sockaddr_in *)&a)->sin_port = 0;
	if (bind(fd, (struct sockaddr *)&a, len))
		ret = errno == EINVAL || errno == ENODEV ? -EADDRNOTAVAIL :
		      -errno;
	close(fd);
	return ret;
}

#endif
