/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a port is: GIDs, LIDs, P_Keys. On InfiniBand every process is a node
 * of the subnet, with LIDs and a GUID of its own; on Ethernet all have the
 * addresses of the host, and the queue pair's number tells whose it is.
 */
#include "priv.h"
#include "soft.h"

#include <endian.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define SUBNET_PREFIX	0xfe80000000000000ull	/* the default one */
#define LID_FIRST	1

int soft_addr_options(struct soft_dev *dev)
{
	const char *ports = getenv("RDMAMSG_SOFT_PORTS");
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	dev->ports = 2;
	dev->link_layer = IBV_LINK_LAYER_ETHERNET;
	if (ports && *ports) {
		if (ports[0] < '1' || ports[0] > '0' + SOFT_PORTS_MAX ||
		    ports[1])
			return -EINVAL;
		dev->ports = ports[0] - '0';
	}
	if (link && !strcmp(link, "ib"))
		dev->link_layer = IBV_LINK_LAYER_INFINIBAND;
	else if (link && *link && strcmp(link, "ethernet"))
		return -EINVAL;
	return 0;
}

/* ---- InfiniBand ------------------------------------------------------- */

uint16_t soft_lid(uint32_t node, int port)
{
	return (uint16_t)(LID_FIRST + node * SOFT_PORTS_MAX +
			  (uint32_t)port - 1);
}

bool soft_lid_port(uint16_t lid, uint32_t *node, uint8_t *port)
{
	if (lid < LID_FIRST || lid >= LID_FIRST + SOFT_NODES * SOFT_PORTS_MAX)
		return false;
	*node = (lid - LID_FIRST) / SOFT_PORTS_MAX;
	*port = (uint8_t)(1 + (lid - LID_FIRST) % SOFT_PORTS_MAX);
	return true;
}

void soft_ib_gid(const struct soft_dev *dev, uint32_t node, int port,
		 uint8_t gid[16])
{
	uint64_t guid = node == dev->node ? dev->guid :
			atomic_load_explicit(&dev->fabric->guid[node],
					     memory_order_relaxed);
	const uint64_t words[2] = {
		htobe64(SUBNET_PREFIX), htobe64(guid | (uint64_t)port),
	};

	memcpy(gid, words, 16);
}

bool soft_ib_gid_port(const struct soft_dev *dev, const uint8_t gid[16],
		      uint32_t *node, uint8_t *port)
{
	uint64_t words[2], guid;

	memcpy(words, gid, 16);
	guid = be64toh(words[1]);
	*node = (uint32_t)(guid & 0xffff) / SOFT_GUID_STEP;
	*port = (uint8_t)(guid % SOFT_GUID_STEP);
	return be64toh(words[0]) == SUBNET_PREFIX && *node < SOFT_NODES &&
	       *port && *port <= SOFT_PORTS_MAX &&
	       atomic_load_explicit(&dev->fabric->guid[*node],
				    memory_order_relaxed) ==
	       (guid & ~(uint64_t)(SOFT_GUID_STEP - 1));
}

bool soft_is_ib(const struct soft_dev *dev)
{
	return dev->link_layer == IBV_LINK_LAYER_INFINIBAND;
}

bool soft_gid_v4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, mapped, sizeof(mapped));
}

bool soft_gid_mcast(const uint8_t gid[16])
{
	return gid[0] == 0xff || (soft_gid_v4(gid) && gid[12] >> 4 == 0xe);
}

/* ---- tables ----------------------------------------------------------- */

int soft_gids(const struct soft_dev *dev)
{
	return soft_is_ib(dev) ? 1 : SOFT_GIDS;
}

/* RoCE v2: the addresses by which this host is reached, as GIDs. */
void soft_port_gid(const struct soft_dev *dev, int port, int index,
		   union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (soft_is_ib(dev)) {
		soft_ib_gid(dev, dev->node, port, gid->raw);
		return;
	}
	if (index == 0) {
		gid->raw[10] = gid->raw[11] = 0xff;
		gid->raw[12] = 127;
	}
	gid->raw[15] = 1;
}

int soft_query_gid(struct ibv_context *verbs, uint8_t port, int index,
		   union ibv_gid *gid)
{
	const struct soft_dev *dev = soft_dev_of(verbs);

	if (soft_ctx(verbs)->removed) {
		errno = EIO;
		return -1;
	}
	if (!port || port > dev->ports || index < 0 || index >= soft_gids(dev)) {
		errno = EINVAL;
		return -1;
	}
	soft_port_gid(dev, port, index, gid);
	return 0;
}

int soft_query_gid_type(struct ibv_context *verbs, uint8_t port,
			unsigned int index, unsigned int *type)
{
	const struct soft_dev *dev = soft_dev_of(verbs);

	if (!port || port > dev->ports || index >= (unsigned int)soft_gids(dev)) {
		errno = EINVAL;
		return -1;
	}
	/* libibverbs has one word for IB and RoCE v1 here: 0 */
	*type = !soft_is_ib(dev);
	return 0;
}

static void fill_entry(const struct soft_dev *dev, uint32_t port,
		       uint32_t index, struct ibv_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	soft_port_gid(dev, (int)port, (int)index, &entry->gid);
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = soft_is_ib(dev) ? IBV_GID_TYPE_IB :
			  IBV_GID_TYPE_ROCE_V2;
	entry->ndev_ifindex = soft_is_ib(dev) ? 0 : if_nametoindex("lo");
}

int soft_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags,
		      size_t entry_size)
{
	const struct soft_dev *dev = soft_dev_of(verbs);

	if (flags)
		return EOPNOTSUPP;
	if (!port || port > (uint32_t)dev->ports || entry_size < sizeof(*entry))
		return EINVAL;
	if (index >= (uint32_t)soft_gids(dev))
		return ENODATA;
	fill_entry(dev, port, index, entry);
	return 0;
}

ssize_t soft_query_gid_table(struct ibv_context *verbs,
			     struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size)
{
	const struct soft_dev *dev = soft_dev_of(verbs);
	size_t n = 0;

	if (flags)
		return -EOPNOTSUPP;
	if (entry_size < sizeof(*entries))
		return -EINVAL;
	for (int port = 1; port <= dev->ports; port++) {
		for (int i = 0; i < soft_gids(dev); i++) {
			if (n == max_entries)
				return -EINVAL;
			fill_entry(dev, (uint32_t)port, (uint32_t)i,
				   (struct ibv_gid_entry *)
				   ((char *)entries + n++ * entry_size));
		}
	}
	return (ssize_t)n;
}

int soft_query_pkey(struct ibv_context *verbs, uint8_t port, int index,
		    __be16 *pkey)
{
	if (soft_ctx(verbs)->removed) {
		errno = EIO;
		return -1;
	}
	if (!port || port > soft_dev_of(verbs)->ports || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}

int soft_get_pkey_index(struct ibv_context *verbs, uint8_t port, __be16 pkey)
{
	if (!port || port > soft_dev_of(verbs)->ports ||
	    pkey != htobe16(0xffff)) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}
