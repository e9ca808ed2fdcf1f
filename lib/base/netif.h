/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of libc about network interfaces. Each opens a socket for a moment,
 * whose number libc chooses: see lib/base/fd.h.
 */
#ifndef RDMAMSG_BASE_NETIF_H
#define RDMAMSG_BASE_NETIF_H

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"

static inline int netif_addrs(struct ifaddrs **ret)
{
	struct fd_fill fill;
	int err;

	fd_fill(&fill);
	err = getifaddrs(ret);
	fd_unfill(&fill);
	return err;
}

static inline unsigned int netif_index(const char *name)
{
	struct fd_fill fill;
	unsigned int index;

	fd_fill(&fill);
	index = if_nametoindex(name);
	fd_unfill(&fill);
	return index;
}

/* Returns the MTU of an interface, or 0. */
static inline unsigned int netif_mtu(const char *name)
{
	int fd = fd_high(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	struct ifreq r;
	int mtu = 0;

	if (fd < 0)
		return 0;
	memset(&r, 0, sizeof(r));
	memcpy(r.ifr_name, name, strnlen(name, IF_NAMESIZE - 1));
	if (!ioctl(fd, SIOCGIFMTU, &r))
		mtu = r.ifr_mtu;
	close(fd);
	return (unsigned int)mtu;
}

/* Returns NULL, with errno, or ret. */
static inline char *netif_name(unsigned int index, char ret[IF_NAMESIZE])
{
	struct fd_fill fill;

	fd_fill(&fill);
	ret = if_indextoname(index, ret);
	fd_unfill(&fill);
	return ret;
}

#endif
