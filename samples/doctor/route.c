/* SPDX-License-Identifier: BSD-2-Clause */
/* The first steps to a peer: its address, and the device that reaches it. */
#include "doctor.h"
#include "visit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- address and route ------------------------------------------------ */

static void write_address(const struct sockaddr_storage *ss, char *buf,
			  socklen_t size)
{
	buf[0] = 0;
	(void)getnameinfo((const struct sockaddr *)ss, sizeof(*ss), buf, size,
			  NULL, 0, NI_NUMERICHOST);
}

bool step_resolve(struct visit *v)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *list;
	struct finding *f;
	int ret = getaddrinfo(v->host, v->service, &hints, &list);

	if (ret) {
		f = found(v->host, WRONG, "%s", gai_strerror(ret));
		if (ret == EAI_SERVICE)
			mend(f, "use the number of a port");
		else
			mend(f, "getent hosts %s; add the name to /etc/hosts, "
			     "or use an address", v->host);
		return false;
	}
	v->to_len = list->ai_addrlen;
	memcpy(&v->to, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	write_address(&v->to, v->text, sizeof(v->text));
	found(v->host, OK, "%s", v->text);
	return true;
}

static void gid_of(const struct sockaddr_storage *ss, uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (ss->ss_family == AF_INET) {
		memcpy(gid, mapped, 12);
		memcpy(gid + 12, &((const struct sockaddr_in *)(const void *)
				   ss)->sin_addr, 4);
	} else {
		memcpy(gid, &((const struct sockaddr_in6 *)(const void *)
			      ss)->sin6_addr, 16);
	}
}

static bool is_loopback(const uint8_t gid[16])
{
	return !memcmp(gid, &in6addr_loopback, 16) ||
	       (!memcmp(gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f", 13));
}

/* The network device that has the address, or "". */
static void netdev_of(const struct sockaddr_storage *ss, char *buf,
		      size_t size)
{
	struct ifaddrs *list;
	struct sockaddr_storage one;
	uint8_t wanted[16], gid[16];

	buf[0] = 0;
	gid_of(ss, wanted);
	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *a = list; a; a = a->ifa_next) {
		if (!a->ifa_addr || a->ifa_addr->sa_family != ss->ss_family)
			continue;
		memcpy(&one, a->ifa_addr, ss->ss_family == AF_INET ?
		       sizeof(struct sockaddr_in) :
		       sizeof(struct sockaddr_in6));
		gid_of(&one, gid);
		if (!memcmp(gid, wanted, sizeof(gid)))
			snprintf(buf, size, "%s", a->ifa_name);
	}
	freeifaddrs(list);
}

/* Asks the kernel without sending. Returns 0 or -errno. */
static int find_source(struct visit *v)
{
	int fd = socket(v->to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;
	socklen_t len = sizeof(v->from);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&v->to, v->to_len) ||
	    getsockname(fd, (struct sockaddr *)&v->from, &len))
		ret = -errno;
	close(fd);
	return ret;
}

/* ---- the device that the library uses for an address ------------------ */

/* The conditions that decide which device and port a connection uses. */
struct need {
	const char *asked;		/* RDMAMSG_DEVICE, or NULL */
	bool loopback;			/* the target is 127.0.0.1 or such */
	bool own;			/* the target is this host */
	bool soft;			/* the soft HCA, or other devices */
	uint8_t gid[16];		/* the source address */
	const char *netdev;		/* that has it, or "" */
};

/* The choice of rdmamsg_connect(), see rdmamsg-env(7). */
static bool may_use(const struct need *n, const struct device *d)
{
	if (d->soft != n->soft)
		return false;
	if (!n->asked)
		return true;
	if (!strcmp(n->asked, "hw"))
		return device_is_hw(d);
	if (!strcmp(n->asked, "soft"))
		return d->soft;
	return !strcmp(n->asked, d->name);
}

static bool has_address(const struct need *n, const struct port *p)
{
	if (n->netdev[0] && !strcmp(p->netdev, n->netdev))
		return true;
	for (uint32_t i = 0; i < p->ngids; i++)
		if (!memcmp(p->gids[i].raw, n->gid, 16) ||
		    (n->netdev[0] && !strcmp(p->gids[i].netdev, n->netdev)))
			return true;
	return false;
}

/*
 * The port with the address, else one whose GIDs are no addresses, which may
 * have it: an active one if there is one. NULL: there is none. Only the soft
 * HCA has loopback addresses without a GID of them.
 */
static const struct port *port_of(const struct facts *f, const struct need *n)
{
	const struct port *other = NULL;

	for_each_device(d, f)
		for_each_port(p, d) {
			if (!may_use(n, d))
				continue;
			if (has_address(n, p))
				return p;
			if (!port_is_roce(p) && (d->soft || !n->loopback) &&
			    (!other || (port_is_active(p) &&
					!port_is_active(other))))
				other = p;
		}
	return other;
}

static void mend_link(struct finding *f, const char *first, const char *netdev)
{
	if (netdev[0])
		mend(f, "%srdma link add rxe_%s type rxe netdev %s", first,
		     netdev, netdev);
	else
		mend(f, "%srdma link add rxe0 type rxe netdev NETDEV", first);
}

/* Says why the library does not use the soft HCA, which has every address. */
static void not_soft(const struct visit *v, const struct need *n)
{
	if (!n->asked || !strncmp(n->asked, "soft", 4)) {
		found(v->host, WRONG, "the soft HCA cannot be opened: see "
		      "'devices'");
		return;
	}
	mend(found(v->host, WRONG, "RDMAMSG_DEVICE=%s excludes the soft HCA, "
		   "and no other device has %s", n->asked, v->text),
	     "unset RDMAMSG_DEVICE");
}

/* Says why no device can be used. */
static void no_device(const struct visit *v, const struct need *n)
{
	bool bound = n->asked && strcmp(n->asked, "hw");
	struct need any = *n;
	const struct port *p;
	struct finding *f;

	any.asked = NULL;
	any.soft = false;
	p = port_of(v->facts, &any);
	if (p) {
		f = found(v->host, WRONG, "RDMAMSG_DEVICE=%s: this device "
			  "does not reach %s, %s does", n->asked, v->text,
			  p->device->name);
		mend(f, "unset RDMAMSG_DEVICE");
	} else if (n->own) {
		not_soft(v, n);
	} else {
		f = found(v->host, WRONG, "through %s, which has no RDMA "
			  "device%s%s", n->netdev[0] ? n->netdev :
			  "an unknown network device", bound ?
			  "; RDMAMSG_DEVICE is " : "", bound ? n->asked : "");
		mend_link(f, bound ? "unset RDMAMSG_DEVICE; " : "",
			  n->netdev);
	}
}

/* Soft-RoCE has UDP port 4791 of its network namespace. */
static bool is_soft_roce(const struct device *d)
{
	char path[300], real[PATH_MAX];

	for_each_port(p, d)
		if (!port_is_roce(p))
			return false;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", d->name);
	return !d->soft && realpath(path, real) && strstr(real, "/virtual/");
}

/* As the soft HCA decides it: lib/soft/fabric/dev.c, net_options(). */
static bool soft_leads_out(const struct facts *f)
{
	const char *net = getenv("RDMAMSG_SOFT_NET");
	const char *fabric = getenv("RDMAMSG_SOFT_FABRIC");
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	if (link && *link && strcmp(link, "ethernet"))
		return false;
	for_each_device(d, f)
		if (is_soft_roce(d))
			return false;
	if (net && *net)
		return strcmp(net, "0");
	return !fabric || !*fabric || !strcmp(fabric, "default");
}

/* Says through what the host is reached, or that nothing leads there. */
static bool judge_device(struct visit *v, struct need *n)
{
	const struct port *p = port_of(v->facts, n);
	struct finding *f;
	char from[64];

	write_address(&v->from, from, sizeof(from));
	n->soft = n->own || soft_leads_out(v->facts);
	if (!p && n->soft)
		p = port_of(v->facts, n);
	if (!p) {
		no_device(v, n);
		return false;
	}
	if (port_is_active(p)) {
		found(v->host, OK, "through %s from %s, device %s", n->netdev,
		      from, p->device->name);
		return true;
	}
	f = found(v->host, WRONG, "through %s from %s, but port %u of %s is "
		  "not active", n->netdev, from, p->number, p->device->name);
	mend_port(f, p);
	return false;
}

bool step_route(struct visit *v)
{
	struct need n = { .asked = getenv("RDMAMSG_DEVICE") };
	int ret = find_source(v);
	struct finding *f;
	uint8_t to[16];
	char netdev[32];

	if (ret) {
		f = found(v->host, WRONG, "no route to %s: %s", v->text,
			  strerror(-ret));
		mend(f, "ip route add %s via GATEWAY", v->text);
		return false;
	}
	netdev_of(&v->from, netdev, sizeof(netdev));
	gid_of(&v->from, n.gid);
	gid_of(&v->to, to);
	if (n.asked && !n.asked[0])
		n.asked = NULL;
	n.netdev = netdev;
	n.loopback = is_loopback(to);
	n.own = v->here = n.loopback || net_is_mine(to);
	return judge_device(v, &n);
}
