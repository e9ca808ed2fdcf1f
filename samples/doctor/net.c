/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks of network devices, addresses and MTUs. */
#include "doctor.h"
#include "parse.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define ROCE_V1		1
#define ROCE_V2		2
#define MTU_LITTLE	1024	/* path MTU of an Ethernet MTU of 1500 */
#define MTU_LARGE	4200	/* Ethernet MTU for a path MTU of 4096 */
#define V1_TEXT		"IB/RoCE v1"

/* ---- network devices -------------------------------------------------- */

static bool has_rdma(const struct facts *f, const char *netdev)
{
	for_each_device(d, f)
		for_each_port(p, d) {
			if (!strcmp(p->netdev, netdev))
				return true;
			for (uint32_t i = 0; i < p->ngids && !d->soft; i++)
				if (!strcmp(p->gids[i].netdev, netdev))
					return true;
		}
	return false;
}

/* Ethernet, up, and not the loopback device */
static bool is_up_ethernet(const char *netdev)
{
	char type[16], state[16];

	root_line(type, sizeof(type), "/sys/class/net/%s/type", netdev);
	root_line(state, sizeof(state), "/sys/class/net/%s/operstate", netdev);
	return !strcmp(type, "1") && !strcmp(state, "up");
}

struct search {
	const struct facts *facts;
	char first[32];
	unsigned int without;
};

static void look_at(void *arg, const char *netdev)
{
	struct search *s = arg;

	if (!is_up_ethernet(netdev) || has_rdma(s->facts, netdev))
		return;
	if (!s->without++)
		snprintf(s->first, sizeof(s->first), "%s", netdev);
}

void net_candidate(const struct facts *f, char *buf, size_t size)
{
	struct search s = { .facts = f };

	root_each("/sys/class/net", look_at, &s);
	snprintf(buf, size, "%s", s.first);
}

static void check_link(void *arg, const char *netdev)
{
	const struct facts *f = arg;

	if (!is_up_ethernet(netdev))
		return;
	if (has_rdma(f, netdev))
		found(netdev, OK, "has an RDMA device");
	else if (facts_kernel_device(f))
		found(netdev, OK, "has no RDMA device, others have");
	else if (facts_soft_suffices(f))
		found(netdev, OK, "has no RDMA device, which the soft HCA does "
		      "not need");
	else
		mend(found(netdev, WARNING, "has no RDMA device"),
		     "rdma link add rxe_%s type rxe netdev %s", netdev, netdev);
}

void check_links(const struct facts *f)
{
	struct facts copy = *f;

	if (!root_each("/sys/class/net", check_link, &copy))
		found("", OK, "no network device");
}

/* ---- GIDs ------------------------------------------------------------- */

/* The address as a GID has it. */
static bool is_address(const struct sockaddr *sa, const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (sa->sa_family == AF_INET6)
		return !memcmp(&((const struct sockaddr_in6 *)(const void *)
				 sa)->sin6_addr, gid, 16);
	return sa->sa_family == AF_INET && !memcmp(gid, mapped, 12) &&
	       !memcmp(&((const struct sockaddr_in *)(const void *)
			 sa)->sin_addr, gid + 12, 4);
}

/* Without a list of addresses nothing is said against the GID. */
bool net_is_mine(const uint8_t gid[16])
{
	struct ifaddrs *list;
	bool mine = false;

	if (getifaddrs(&list))
		return true;
	for (struct ifaddrs *a = list; a && !mine; a = a->ifa_next)
		mine = a->ifa_addr && is_address(a->ifa_addr, gid);
	freeifaddrs(list);
	return mine;
}

static void check_port_gids(const struct port *p)
{
	const char *netdev = p->netdev[0] ? p->netdev : "NETDEV";
	unsigned int routable = 0;
	struct finding *f;

	if (p->gids_error[0]) {
		f = found(port_subject(p), WRONG, "%s", p->gids_error);
		mend_table(f, p, "gid");
		return;
	}
	for (uint32_t i = 0; i < p->ngids; i++) {
		const struct gid *g = &p->gids[i];

		if (gid_is_link_local(g))
			continue;
		routable++;
		if (options.root[0] || net_is_mine(g->raw))
			continue;
		f = found(port_subject(p), WARNING, "GID %s is an address that "
			  "no network device of this namespace has", g->text);
		mend(f, "ip addr show dev %s", netdev);
	}
	if (routable) {
		found(port_subject(p), OK, "%u addresses", routable);
		return;
	}
	f = found(port_subject(p), WRONG, "no GID of an IP address: connecting "
		  "by address fails");
	mend(f, "ip addr add ADDRESS/LENGTH dev %s", netdev);
}

void check_gids(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f)
		for_each_port(p, d)
			if (port_is_active(p) &&
			    (port_is_roce(p) || p->gids_error[0])) {
				any = true;
				check_port_gids(p);
			}
	if (!any)
		found("", OK, "no active RoCE port");
}

/* ---- RoCE versions ---------------------------------------------------- */

static bool check_default_mode(const struct port *p)
{
	struct finding *f;
	char file[160], mode[32];

	snprintf(file, sizeof(file), "/sys/kernel/config/rdma_cm/%s/ports/%u/"
		 "default_roce_mode", p->device->name, p->number);
	root_line(mode, sizeof(mode), "%s", file);
	if (strncmp(mode, V1_TEXT, strlen(V1_TEXT)))
		return false;
	f = found(port_subject(p), WARNING, "connections use RoCE v1: no "
		  "router passes it, and peers with v2 do not answer");
	mend(f, "echo 'RoCE v2' >%s%s", options.root, file);
	return true;
}

static void check_port_roce(const struct port *p)
{
	unsigned int v1 = 0, v2 = 0;
	struct finding *f;

	for (uint32_t i = 0; i < p->ngids; i++) {
		v1 += p->gids[i].type == ROCE_V1;
		v2 += p->gids[i].type == ROCE_V2;
	}
	if (v1 && !v2) {
		f = found(port_subject(p), WARNING, "RoCE v1 only: no router "
			  "passes it, and peers with v2 do not answer");
		mend(f, "enable RoCE v2: on mlx4, options mlx4_core "
		     "roce_mode=2 in /etc/modprobe.d");
	} else if (!check_default_mode(p)) {
		found(port_subject(p), OK, v2 ? "RoCE v2" : "no GID");
	}
}

void check_roce(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f)
		for_each_port(p, d)
			if (port_is_roce(p)) {
				any = true;
				check_port_roce(p);
			}
	if (!any)
		found("", OK, "no RoCE port");
}

/* ---- MTU -------------------------------------------------------------- */

static uint64_t netdev_mtu(const struct port *p)
{
	uint64_t mtu = 0;
	char text[32];

	if (!p->netdev[0])
		return 0;
	root_line(text, sizeof(text), "/sys/class/net/%s/mtu", p->netdev);
	(void)parse_number(text, &mtu);
	return mtu;
}

/* Of another root only the MTU of the network device is known. */
static bool mtu_is_little(const struct port *p, uint64_t netdev)
{
	if (p->active_mtu)
		return p->active_mtu < MTU_LITTLE && p->active_mtu < p->max_mtu;
	return netdev && netdev < MTU_LITTLE + 100;
}

static void check_port_mtu(const struct port *p)
{
	uint64_t netdev = netdev_mtu(p);
	struct finding *f;

	if (!mtu_is_little(p, netdev)) {
		if (netdev)
			found(port_subject(p), OK, "%u bytes, %s has %llu",
			      p->active_mtu, p->netdev,
			      (unsigned long long)netdev);
		else
			found(port_subject(p), OK, "%u bytes", p->active_mtu);
		return;
	}
	f = found(port_subject(p), WARNING, "path MTU of %u, because %s has an "
		  "MTU of %llu: every message becomes many packets",
		  p->active_mtu, p->netdev[0] ? p->netdev : "the link",
		  (unsigned long long)netdev);
	if (p->netdev[0])
		mend(f, "ip link set dev %s mtu %u", p->netdev, MTU_LARGE);
	else
		mend(f, "raise the MTU in opensm's partitions.conf: mtu=5");
}

void check_mtu(const struct facts *f)
{
	bool any = false;

	for_each_device(d, f)
		for_each_port(p, d)
			if (port_is_active(p)) {
				any = true;
				check_port_mtu(p);
			}
	if (!any)
		found("", OK, "no active port");
}
