/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/fabric/sockaddr.h"

#include <errno.h>
#include <string.h>

#include "base/local.h"

size_t soft_addr_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : 0;
}

in_port_t *soft_addr_port(struct sockaddr_storage *a)
{
	/* sin_port and sin6_port have the same offset */
	return &((struct sockaddr_in *)a)->sin_port;
}

bool soft_addr_is_any(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)a)->sin6_addr);
	return !((const struct sockaddr_in *)a)->sin_addr.s_addr;
}

bool soft_addr_is_loopback(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(
			&((const struct sockaddr_in6 *)a)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 ==
	       IN_LOOPBACKNET;
}

void soft_addr_unmap(struct sockaddr_storage *a)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a;
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (a->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return;
	in.sin_port = in6->sin6_port;
	memcpy(&in.sin_addr, in6->sin6_addr.s6_addr + 12, 4);
	memset(a, 0, sizeof(*a));
	memcpy(a, &in, sizeof(in));
}

/*
 * The device needs no network interface, so the loopback addresses are local
 * even where the kernel has none, as in a network namespace whose lo is down.
 */
int soft_addr_local(const struct sockaddr_storage *addr)
{
	const struct sockaddr *a = (const struct sockaddr *)addr;

	return addr_is_loopback(a) ? 0 :
	       addr_local(a, (socklen_t)soft_addr_len(addr));
}

void soft_addr_to_gid(const struct sockaddr_storage *a, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (a->ss_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
		return;
	}
	if (a->ss_family != AF_INET)
		return;
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
}

void soft_gid_to_addr(const uint8_t gid[16], struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ss_family = AF_INET6;
	memcpy(&((struct sockaddr_in6 *)ret)->sin6_addr, gid, 16);
	soft_addr_unmap(ret);
}

int soft_gid_local(const uint8_t gid[16])
{
	struct sockaddr_storage a;

	soft_gid_to_addr(gid, &a);
	return soft_addr_is_any(&a) ? -EADDRNOTAVAIL : soft_addr_local(&a);
}
