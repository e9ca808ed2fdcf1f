/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses that the accepting side announces, for another lane. */
#include "base/base.h"
#include "session/connector.h"
#include "session/ep.h"
#include "session/resume.h"
#include "wire/addresses.h"
#include "wire/proto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

static bool parse_port(const char *s, uint16_t *ret)
{
	char *end;
	unsigned long port = strtoul(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || !port || port > UINT16_MAX)
		return false;
	*ret = (uint16_t)port;
	return true;
}

static bool parse_ip(const char *s, struct proto_address *ret)
{
	ret->kind = 4;
	if (inet_pton(AF_INET, s, ret->ip) == 1)
		return true;
	ret->kind = 6;
	return inet_pton(AF_INET6, s, ret->ip) == 1;
}

bool rdmamsg__address_parse(const char *host, const char *service,
			    struct proto_address *ret)
{
	*ret = (struct proto_address){ .kind = 0 };
	return parse_ip(host, ret) && parse_port(service, &ret->port);
}

/* Parses ADDR, ADDR:PORT or [ADDR]:PORT. Writes to s. */
static bool parse_one(char *s, struct proto_address *ret)
{
	char *colon = strchr(s, ':'), *end;

	*ret = (struct proto_address){ .kind = 0 };
	if (*s == '[') {
		end = strchr(++s, ']');
		if (!end || end[1] != ':')
			return false;
		*end = 0;
		colon = end + 1;
	} else if (colon && strchr(colon + 1, ':')) {
		colon = NULL;			/* an IPv6 address */
	}
	if (colon)
		*colon = 0;
	return parse_ip(s, ret) &&
	       (!colon || parse_port(colon + 1, &ret->port));
}

static bool is_sane(const struct proto_address *a)
{
	struct proto_address copy = *a;

	if (!copy.port)
		copy.port = 1;
	return rdmamsg__address_is_sane(&copy);
}

static int parse_all(char *list, struct proto_addresses *ret)
{
	for (char *s = strsep(&list, ","); s; s = strsep(&list, ",")) {
		if (ret->count == PROTO_ADDRESSES_MAX)
			return rdmamsg__fail(-EINVAL, "announce: at most %d "
					     "addresses", PROTO_ADDRESSES_MAX);
		if (!parse_one(s, &ret->at[ret->count]) ||
		    !is_sane(&ret->at[ret->count]))
			return rdmamsg__fail(-EINVAL, "announce: '%s' is not a "
					     "numeric address of one host, "
					     "like 10.0.0.1 or [fd00::1]:4000",
					     s);
		ret->count++;
	}
	return 0;
}

int rdmamsg__announce_parse(const char *list, struct proto_addresses *ret)
{
	char *copy;
	int err;

	ret->count = 0;
	if (!list || !*list)
		return 0;
	copy = strdup(list);
	if (!copy)
		return rdmamsg__fail(-ENOMEM, "no memory for failover");
	err = parse_all(copy, ret);
	free(copy);
	return err;
}

void rdmamsg__announce_put(struct proto_addresses *a,
			   const struct proto_address *one)
{
	if (a->count == PROTO_ADDRESSES_MAX || !rdmamsg__address_is_sane(one))
		return;
	for (uint32_t i = 0; i < a->count; i++)
		if (rdmamsg__address_is_same(&a->at[i], one))
			return;
	a->at[a->count++] = *one;
}

void rdmamsg__address_of(const struct sockaddr *addr,
			 struct proto_address *ret)
{
	const struct sockaddr_in6 *six = (const void *)addr;
	const struct sockaddr_in *four = (const void *)addr;

	*ret = (struct proto_address){ .kind = 4 };
	ret->port = ntohs(four->sin_port);	/* that of sin6, too */
	if (addr->sa_family != AF_INET6) {
		memcpy(ret->ip, &four->sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memcpy(ret->ip, six->sin6_addr.s6_addr + 12, 4);
	} else {
		ret->kind = 6;
		memcpy(ret->ip, &six->sin6_addr, 16);
	}
}

void rdmamsg__announce_add(struct proto_addresses *a,
			   const struct sockaddr_storage *addr, uint16_t port)
{
	struct proto_address one;

	rdmamsg__address_of((const struct sockaddr *)addr, &one);
	one.port = port;
	rdmamsg__announce_put(a, &one);
}

/* An address without a port has that of the listener which has accepted. */
static void announce_given(const struct rdmamsg_ep *ep,
			   const struct proto_addresses *given,
			   struct proto_addresses *ret)
{
	struct proto_address local;

	rdmamsg__address_of(&ep->connect.local_addr.any, &local);
	for (uint32_t i = 0; i < given->count; i++) {
		struct proto_address one = given->at[i];

		if (!one.port)
			one.port = local.port;
		rdmamsg__announce_put(ret, &one);
	}
}

void rdmamsg__announce(const struct rdmamsg_ep *ep,
		       struct proto_addresses *ret)
{
	const struct resume *r = (ep->carries ? ep->carries : ep)->resume;

	if (!r || !ep->connect.passive ||
	    (!ep->carries && !(ep->connect.features & PROTO_FEATURE_RESUME)))
		return;
	if (r->opts.announce)
		announce_given(ep, &r->announce, ret);
	else if (ep->connect.by->addresses)
		ep->connect.by->addresses(ep, ret);
}
