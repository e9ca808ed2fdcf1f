/* SPDX-License-Identifier: BSD-2-Clause */
/* The address of a group: from text, or a topic's name, to a socket address. */
#include "base/base.h"
#include "base/util.h"
#include "group/carrier.h"
#include "group/group.h"
#include "group/topics.h"
#include "session/secret.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/ib.h>

#define UNICAST_DEPTH	512u
#define COLONS	7			/* colons of an MGID without "::" */

/*
 * Returns true if text is a port number. The port has no meaning, because the
 * MGID is the whole address.
 */
static bool is_port(const char *text)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);

	return *text >= '0' && *text <= '9' && !*end && port <= 65535;
}

/* Copies ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT without brackets and port. */
static bool cut_port(const char *text, char *ret, size_t room)
{
	const char *colon = strrchr(text, ':');
	size_t len = strlen(text);

	if (*text == '[') {
		if (!colon || colon[-1] != ']' || !is_port(colon + 1))
			return false;
		len = (size_t)(colon - 1 - ++text);
	} else if (colon && colon == strchr(text, ':')) {
		if (!is_port(colon + 1))
			return false;
		len = (size_t)(colon - text);
	}
	if (len >= room)
		return false;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return true;
}

static bool is_written_out(const char *text)
{
	int colons = 0;

	for (const char *p = text; *p; p++)
		colons += *p == ':';
	return colons == COLONS && !strstr(text, "::");
}

/* Takes the port of HOST:PORT or [HOST]:PORT, which is where one listens. */
static bool set_port(const char *text, struct group_address *ret)
{
	const char *colon = strrchr(text, ':');
	const bool has = colon && (*text == '[' ? colon[-1] == ']' :
				   colon == strchr(text, ':'));

	/* in both families the port is there */
	((struct sockaddr_in *)&ret->addr)->sin_port =
		htons((uint16_t)(has ? strtoul(colon + 1, NULL, 10) : 0));
	return ((struct sockaddr_in *)&ret->addr)->sin_port;
}

static bool parse_unicast(const char *text, struct group_address *ret)
{
	if (!rdmamsg__group_parse(text, ret) || ret->unicast ||
	    ret->is_group || !set_port(text, ret))
		return false;
	ret->is_group = ret->unicast = true;
	ret->is_mgid = false;
	return true;
}

bool rdmamsg__group_parse(const char *text, struct group_address *ret)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&ret->addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ret->addr;
	char addr[INET6_ADDRSTRLEN];

	memset(ret, 0, sizeof(*ret));
	if (!strncmp(text, GROUP_UNICAST, strlen(GROUP_UNICAST)))
		return parse_unicast(text + strlen(GROUP_UNICAST), ret);
	if (!cut_port(text, addr, sizeof(addr)))
		return false;
	if (inet_pton(AF_INET, addr, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		ret->is_group = IN_MULTICAST(ntohl(in->sin_addr.s_addr));
	} else if (inet_pton(AF_INET6, addr, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		ret->is_group = IN6_IS_ADDR_MULTICAST(&in6->sin6_addr);
		ret->is_mgid = is_written_out(addr);
	} else {
		return false;
	}
	return true;
}

/* Parses an address, or that of the topic with this name. */
static int resolve(const char *text, struct group_address *ret,
		   char **key_file)
{
	struct topic_address found;
	int err;

	if (rdmamsg__group_parse(text, ret))
		return 0;
	if (!rdmamsg__topic_valid(text, false))
		return rdmamsg__fail(-EINVAL, "'%s' is not the address of a "
				     "group, such as 239.1.2.3, ff15::1, "
				     "239.1.2.3:7000 or, without multicast, "
				     "unicast:10.0.0.1:7000", text);
	err = rdmamsg__topic_find(text, &found, key_file);
	if (!err)
		(void)rdmamsg__group_parse(found.text, ret);
	return err;
}

/* The options of the program go before the file of topics. */
static int take_key(struct rdmamsg_group *g, const char *file)
{
	if (g->key || !file)
		return 0;
	if (g->opts.flags & RDMAMSG_GROUP_RAW)
		return rdmamsg__fail(-EINVAL, "the topic has a key, and "
				     "RDMAMSG_GROUP_RAW no seal");
	return rdmamsg__secret_new(NULL, 0, file, &g->key);
}

/* Subscribers report, so that the publisher knows them. */
static int check_unicast(const struct rdmamsg_group *g)
{
	const uint32_t both = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_SUBSCRIBE;

	if (g->opts.flags & (RDMAMSG_GROUP_RAW | RDMAMSG_GROUP_IPOIB))
		return rdmamsg__fail(-EINVAL, "a group without multicast has "
				     "neither RDMAMSG_GROUP_RAW nor "
				     "RDMAMSG_GROUP_IPOIB");
	if (!(g->opts.flags & RDMAMSG_GROUP_REPAIR))
		return rdmamsg__fail(-EINVAL, "a group without multicast needs "
				     "RDMAMSG_GROUP_REPAIR: its subscribers "
				     "report to the publisher");
	if ((g->opts.flags & both) == both)
		return rdmamsg__fail(-EINVAL, "a group without multicast has "
				     "one publisher: give "
				     "RDMAMSG_GROUP_PUBLISH to it, and "
				     "RDMAMSG_GROUP_SUBSCRIBE to the others");
	return 0;
}

int rdmamsg__group_address(struct rdmamsg_group *g, const char *text)
{
	char *key_file = NULL;
	struct group_address a;
	int ret;

	if (!text)
		return rdmamsg__fail(-EINVAL, "the group to join is NULL");
	ret = resolve(text, &a, &key_file);
	if (!ret)
		ret = take_key(g, key_file);
	free(key_file);
	if (ret)
		return ret;
	if (!a.is_group)
		return rdmamsg__fail(-EINVAL, "%s is not a multicast address: "
				     "those are 224.0.0.0 to 239.255.255.255, "
				     "and ff00::/8", text);
	if (a.is_mgid && !g->opts.source && !g->opts.device)
		return rdmamsg__fail(-EINVAL, "%s is an MGID, to which no "
				     "route leads: set source or device", text);
	ret = a.unicast ? check_unicast(g) : 0;
	if (ret)
		return ret;
	/* a message to all that it counts, and as much again */
	if (a.unicast && g->opts.flags & RDMAMSG_GROUP_PUBLISH)
		g->opts.send_depth = max(g->opts.send_depth, UNICAST_DEPTH);
	g->addr = a.addr;
	g->unicast = a.unicast;
	g->is_mgid = a.is_mgid;
	return 0;
}

const struct sockaddr *rdmamsg__group_sockaddr(struct rdmamsg_group *g)
{
	const struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&g->addr;
	struct sockaddr_ib *ib = (struct sockaddr_ib *)&g->join_addr;

	g->join_addr = g->addr;
	/* on InfiniBand the CM maps an IPv6 address to another MGID */
	if (g->is_mgid && g->carrier->is_ib) {
		memset(ib, 0, sizeof(*ib));
		ib->sib_family = AF_IB;
		memcpy(&ib->sib_addr, &in6->sin6_addr, sizeof(ib->sib_addr));
	}
	return (const struct sockaddr *)&g->join_addr;
}

void rdmamsg__group_text(const struct rdmamsg_group *g,
			 char text[static INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&g->addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&g->addr;
	const void *addr = g->addr.ss_family == AF_INET ?
			   (const void *)&v4->sin_addr :
			   (const void *)&v6->sin6_addr;

	if (!inet_ntop(g->addr.ss_family, addr, text, INET6_ADDRSTRLEN))
		snprintf(text, INET6_ADDRSTRLEN, "?");
}
