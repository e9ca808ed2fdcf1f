/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GID tables. On InfiniBand a port has one GID, and so it has with iWARP. With
 * RoCE all ports have the addresses of the host as RoCE v2 GIDs: 127.0.0.1,
 * ::1, then the addresses of other interfaces until the table is full. An
 * address keeps its index as long as the host has it. After that its entry is
 * empty.
 */
#include "soft/fabric/gid.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/netif.h"
#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/path.h"

static const uint8_t first[][16] = {
	{ [10] = 0xff, 0xff, 127, [15] = 1 }, { [15] = 1 },
};
#define FIRST	(int)(sizeof(first) / sizeof(first[0]))

int soft_gids(const struct soft_dev *dev)
{
	return soft_is_roce(dev) ? SOFT_GIDS : 1;
}

static bool is_empty(const struct soft_gid *g)
{
	static const uint8_t none[16];

	return !memcmp(g->gid.raw, none, 16);
}

/* Returns false if the interface is down, because it then has no address. */
static bool take_addr(const struct ifaddrs *a, union ibv_gid *gid)
{
	if (!a->ifa_addr || !(a->ifa_flags & IFF_UP))
		return false;
	memset(gid, 0, sizeof(*gid));
	if (a->ifa_addr->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)
			      a->ifa_addr)->sin6_addr, 16);
		return true;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12,
	       &((const struct sockaddr_in *)a->ifa_addr)->sin_addr, 4);
	return a->ifa_addr->sa_family == AF_INET;
}

/*
 * Returns the index of the GID. If the table lacks it, returns the index of an
 * empty entry, or -1.
 */
static int place_of(const struct soft_dev *dev, const union ibv_gid *gid)
{
	int empty = -1;

	for (int i = 0; i < SOFT_GIDS; i++) {
		if (!memcmp(&dev->gids[i].gid, gid, 16))
			return i;
		if (empty < 0 && is_empty(&dev->gids[i]))
			empty = i;
	}
	return empty;
}

void soft_gids_read(struct soft_dev *dev)
{
	bool met[SOFT_GIDS] = { false };
	struct ifaddrs *all, *a;
	union ibv_gid gid;

	if (!soft_is_roce(dev))
		return;
	for (int i = 0; i < FIRST; i++) {
		memcpy(&dev->gids[i].gid, first[i], 16);
		dev->gids[i].ifindex = netif_index("lo");
		met[i] = true;
	}
	/* if the host's addresses cannot be read, keep the known entries */
	if (netif_addrs(&all))
		return;
	for (a = all; a; a = a->ifa_next) {
		int i = take_addr(a, &gid) ? place_of(dev, &gid) : -1;

		if (i < 0)
			continue;
		dev->gids[i].gid = gid;
		dev->gids[i].ifindex = netif_index(a->ifa_name);
		dev->gids[i].mtu = dev->far && !(a->ifa_flags & IFF_LOOPBACK) ?
				   netif_mtu(a->ifa_name) : 0;
		met[i] = true;
	}
	freeifaddrs(all);
	for (int i = 0; i < SOFT_GIDS; i++)
		if (!met[i])
			memset(&dev->gids[i], 0, sizeof(dev->gids[i]));
}

int soft_gids_mtu(const struct soft_dev *dev)
{
	int mtu = IBV_MTU_4096;

	for (int i = 0; i < SOFT_GIDS; i++)
		if (dev->gids[i].mtu)
			mtu = min(mtu, max(soft_path_mtu(dev->gids[i].mtu),
					   (int)IBV_MTU_256));
	return mtu;
}

int soft_port_gid(const struct soft_dev *dev, uint32_t port, uint32_t index,
		  struct soft_gid *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (!port || port > (uint32_t)dev->ports ||
	    index >= (uint32_t)soft_gids(dev))
		return EINVAL;
	if (soft_is_ib(dev))
		soft_ib_gid(dev, dev->node, (int)port, ret->gid.raw);
	else if (dev->iwarp)
		soft_iwarp_gid(dev, (int)port, ret->gid.raw);
	else
		*ret = dev->gids[index];
	return is_empty(ret) ? ENODATA : 0;
}

int soft_gid_index(const struct soft_dev *dev, uint32_t port,
		   const uint8_t gid[16])
{
	struct soft_gid g;

	for (int i = 0; i < soft_gids(dev); i++)
		if (!soft_port_gid(dev, port, (uint32_t)i, &g) &&
		    !memcmp(g.gid.raw, gid, 16))
			return i;
	return -1;
}
