/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether an address is of this host. */
#ifndef RDMAMSG_BASE_LOCAL_H
#define RDMAMSG_BASE_LOCAL_H

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

/*
 * Binds a socket to ask the kernel, without a port, because none may be free.
 * Returns 0 for an address of this host, -EADDRNOTAVAIL for another, or -errno
 * if the kernel did not say. A link that is missing or not given is EINVAL,
 * ENODEV: Linux, __inet6_bind().
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
