/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GID tables. On InfiniBand a port has one, its own. On Ethernet all ports have
 * the addresses of the host, as RoCE v2: 127.0.0.1, ::1, and then those of the
 * other interfaces, as many as there are places for. An address keeps its place
 * while it is there, and leaves it empty.
 */
#include "priv.h"
#include "soft.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

static const uint8_t first[][16] = {
	{ [10] = 0xff, 0xff, 127, [15] = 1 }, { [15] = 1 },
};
#define FIRST	(int)(sizeof(first) / sizeof(first[0]))

int soft_gids(const struct soft_dev *dev)
{
	return soft_is_ib(dev) ? 1 : SOFT_GIDS;
}

static bool is_empty(const struct soft_gid *g)
{
	static const uint8_t none[16];

	return !memcmp(g->gid.raw, none, 16);
}

/* An interface that is down is at no address. */
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

/* Its place, or one for it, or -1. */
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

	if (soft_is_ib(dev))
		return;
	for (int i = 0; i < FIRST; i++) {
		memcpy(&dev->gids[i].gid, first[i], 16);
		dev->gids[i].ifindex = if_nametoindex("lo");
		met[i] = true;
	}
	/* not told now: what is known stays */
	if (getifaddrs(&all))
		return;
	for (a = all; a; a = a->ifa_next) {
		int i = take_addr(a, &gid) ? place_of(dev, &gid) : -1;

		if (i < 0)
			continue;
		dev->gids[i].gid = gid;
		dev->gids[i].ifindex = if_nametoindex(a->ifa_name);
		met[i] = true;
	}
	freeifaddrs(all);
	for (int i = 0; i < SOFT_GIDS; i++)
		if (!met[i])
			memset(&dev->gids[i], 0, sizeof(dev->gids[i]));
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

/* ---- queries ---------------------------------------------------------- */

/* 0 or an errno. */
static int query(struct ibv_context *verbs, uint32_t port, uint32_t index,
		 struct soft_gid *ret)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	int err;

	if (soft_ctx(verbs)->removed)
		return EIO;
	soft_lock(dev);
	err = soft_port_gid(dev, port, index, ret);
	soft_unlock(dev);
	return err;
}

/* An empty place is no error here, and is in ibv_query_gid_ex(3). */
int soft_query_gid(struct ibv_context *verbs, uint8_t port, int index,
		   union ibv_gid *gid)
{
	struct soft_gid g;
	int err = query(verbs, port, (uint32_t)index, &g);

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*gid = g.gid;
	return 0;
}

int soft_query_gid_type(struct ibv_context *verbs, uint8_t port,
			unsigned int index, unsigned int *type)
{
	struct soft_gid g;
	int err = query(verbs, port, index, &g);

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	/* libibverbs has one word for IB and RoCE v1 here: 0 */
	*type = !soft_is_ib(soft_dev_of(verbs));
	return 0;
}

static void fill_entry(const struct soft_dev *dev, uint32_t port,
		       uint32_t index, const struct soft_gid *g,
		       struct ibv_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->gid = g->gid;
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = soft_is_ib(dev) ? IBV_GID_TYPE_IB :
			  IBV_GID_TYPE_ROCE_V2;
	entry->ndev_ifindex = g->ifindex;
}

int soft_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags,
		      size_t entry_size)
{
	struct soft_gid g;
	int err;

	if (flags)
		return EOPNOTSUPP;
	if (entry_size < sizeof(*entry))
		return EINVAL;
	err = query(verbs, port, index, &g);
	if (!err)
		fill_entry(soft_dev_of(verbs), port, index, &g, entry);
	return err;
}

/* Only what is there: their number, -EINVAL when there are more. */
ssize_t soft_query_gid_table(struct ibv_context *verbs,
			     struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_gid g;
	size_t n = 0;

	if (flags)
		return -EOPNOTSUPP;
	if (entry_size < sizeof(*entries))
		return -EINVAL;
	soft_lock(dev);
	soft_gids_read(dev);
	for (uint32_t port = 1; port <= (uint32_t)dev->ports; port++) {
		for (uint32_t i = 0; i < (uint32_t)soft_gids(dev); i++) {
			if (soft_port_gid(dev, port, i, &g))
				continue;
			if (n < max_entries)
				fill_entry(dev, port, i, &g,
					   (struct ibv_gid_entry *)
					   ((char *)entries + n * entry_size));
			n++;
		}
	}
	soft_unlock(dev);
	return n > max_entries ? -EINVAL : (ssize_t)n;
}
