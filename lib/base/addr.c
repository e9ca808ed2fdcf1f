/* SPDX-License-Identifier: BSD-2-Clause */
/* IP addresses: their kind, and their text. */
#include "base/base.h"
#include "base/local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool rdmamsg__addr_is_any(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)addr)->sin6_addr);
	return !((const struct sockaddr_in *)addr)->sin_addr.s_addr;
}

static socklen_t len_of(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       sizeof(struct sockaddr_in);
}

bool rdmamsg__addr_is_local(const struct sockaddr *addr)
{
	/* if nobody knows, it is */
	return addr_local(addr, len_of(addr)) != -EADDRNOTAVAIL;
}

bool rdmamsg__addr_is_loopback(const struct sockaddr *addr)
{
	return addr_is_loopback(addr);
}

const char *rdmamsg__addr_text(const struct sockaddr *sa, char *buf,
			       size_t size)
{
	char host[64], serv[16];

	if (getnameinfo(sa, len_of(sa), host, sizeof(host), serv, sizeof(serv),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(buf, size, "?");
	else
		snprintf(buf, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s",
			 host, serv);
	return buf;
}
