/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of ports. On InfiniBand every process is a node of the subnet, with
 * its own LIDs and port GUIDs. On Ethernet, with RoCE and with iWARP, all
 * processes share the addresses of the host, and the queue pair number names
 * the process.
 */
#include "soft/fabric/gid.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "soft/fabric/dev.h"
#include "soft/fabric/shared.h"

#define SUBNET_PREFIX	0xfe80000000000000ull	/* the default prefix */
#define LID_FIRST	1
#define LID_LAST	0xbfff		/* multicast LIDs follow */
#define PKEY_DEFAULT	0xffff
#define ERRNO_LAST	4095		/* of Linux */

bool soft_asks_iwarp(void)
{
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	return link && !strcmp(link, "iwarp");
}

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
	dev->iwarp = soft_asks_iwarp();
	if (link && !strcmp(link, "ib"))
		dev->link_layer = IBV_LINK_LAYER_INFINIBAND;
	else if (!dev->iwarp && link && *link && strcmp(link, "ethernet"))
		return -EINVAL;
	return 0;
}

enum soft_link soft_link(const struct soft_dev *dev)
{
	return soft_is_ib(dev) ? SOFT_LINK_IB :
	       dev->iwarp ? SOFT_LINK_IWARP : SOFT_LINK_ROCE;
}

const char *soft_link_name(enum soft_link link)
{
	return link == SOFT_LINK_IB ? "ib" :
	       link == SOFT_LINK_IWARP ? "iwarp" : "ethernet";
}

/* ---- InfiniBand ------------------------------------------------------- */

uint16_t soft_lid(const struct soft_dev *dev, uint32_t node, int port)
{
	uint16_t set = dev->fabric->attrs[node].lid[port - 1];

	return set ? set : (uint16_t)(LID_FIRST + node * SOFT_PORTS_MAX +
				      (uint32_t)port - 1);
}

/* Few ports have a LID that was set, so look for one last. */
bool soft_lid_port(const struct soft_dev *dev, uint16_t lid, uint32_t *node,
		   uint8_t *port)
{
	if (lid >= LID_FIRST && lid < LID_FIRST + SOFT_NODES * SOFT_PORTS_MAX) {
		*node = (lid - LID_FIRST) / SOFT_PORTS_MAX;
		*port = (uint8_t)(1 + (lid - LID_FIRST) % SOFT_PORTS_MAX);
		if (soft_lid(dev, *node, *port) == lid)
			return true;
	}
	for (uint32_t i = 0; lid && i < SOFT_NODES; i++)
		for (uint8_t p = 1; p <= SOFT_PORTS_MAX; p++)
			if (dev->fabric->attrs[i].lid[p - 1] == lid) {
				*node = i;
				*port = p;
				return true;
			}
	return false;
}

uint16_t soft_sm_lid(const struct soft_dev *dev, int port)
{
	uint16_t set = dev->fabric->attrs[dev->node].sm_lid[port - 1];

	return set ? set : LID_FIRST;
}

uint16_t soft_pkey(const struct soft_dev *dev, int port)
{
	uint16_t set = dev->fabric->attrs[dev->node].pkey[port - 1];

	return set ? set : PKEY_DEFAULT;
}

static uint64_t prefix_of(const struct soft_dev *dev, uint32_t node, int port)
{
	uint64_t set = dev->fabric->attrs[node].prefix[port - 1];

	return set ? set : SUBNET_PREFIX;
}

static int set_lid(struct soft_dev *dev, int port, uint64_t value)
{
	uint32_t node;
	uint8_t at;

	if (value && soft_lid_port(dev, (uint16_t)value, &node, &at) &&
	    (node != dev->node || at != port) && dev->fabric->guid[node])
		return -EADDRINUSE;
	dev->fabric->attrs[dev->node].lid[port - 1] = (uint16_t)value;
	return 0;
}

/* The largest value of each attribute. */
static const uint64_t attr_max[SOFT_ATTRS] = {
	[SOFT_ATTR_LID] = LID_LAST, [SOFT_ATTR_SM_LID] = LID_LAST,
	[SOFT_ATTR_PKEY] = UINT16_MAX,
	/* 0xff begins a multicast address */
	[SOFT_ATTR_PREFIX] = UINT64_MAX >> 8 | 0xfeull << 56,
	[SOFT_ATTR_GID_ERROR] = ERRNO_LAST, [SOFT_ATTR_PKEY_ERROR] = ERRNO_LAST,
};

static bool has_attr(const struct soft_dev *dev, enum soft_attr what)
{
	switch (what) {
	case SOFT_ATTR_GID_ERROR:
	case SOFT_ATTR_PKEY_ERROR:
		return true;
	case SOFT_ATTR_PKEY:
		return !dev->iwarp;
	default:
		return soft_is_ib(dev);
	}
}

static void set_field(struct soft_attrs *a, enum soft_attr what, int port,
		      uint64_t value)
{
	if (what == SOFT_ATTR_SM_LID)
		a->sm_lid[port - 1] = (uint16_t)value;
	else if (what == SOFT_ATTR_PKEY)
		a->pkey[port - 1] = (uint16_t)value;
	else if (what == SOFT_ATTR_PREFIX)
		a->prefix[port - 1] = value;
	else if (what == SOFT_ATTR_GID_ERROR)
		a->gid_error[port - 1] = (uint16_t)value;
	else if (what == SOFT_ATTR_PKEY_ERROR)
		a->pkey_error[port - 1] = (uint16_t)value;
}

int soft_attr_set(struct soft_dev *dev, enum soft_attr what, int port,
		  uint64_t value, bool fresh)
{
	if (port < 1 || port > dev->ports || what >= SOFT_ATTRS ||
	    value > attr_max[what])
		return -EINVAL;
	if (!has_attr(dev, what))
		return -EOPNOTSUPP;
	if (what == SOFT_ATTR_LID)
		return set_lid(dev, port, value);
	set_field(&dev->fabric->attrs[dev->node], what, port, value);
	if (fresh)
		set_field(&dev->fabric->fresh_attrs, what, port, value);
	return 0;
}

int soft_gid_error(const struct soft_dev *dev, uint32_t port)
{
	return port && port <= SOFT_PORTS_MAX ?
	       dev->fabric->attrs[dev->node].gid_error[port - 1] : 0;
}

int soft_pkey_error(const struct soft_dev *dev, uint32_t port)
{
	return port && port <= SOFT_PORTS_MAX ?
	       dev->fabric->attrs[dev->node].pkey_error[port - 1] : 0;
}

void soft_ib_gid(const struct soft_dev *dev, uint32_t node, int port,
		 uint8_t gid[16])
{
	uint64_t guid = node == dev->node ? dev->guid :
			atomic_load_explicit(&dev->fabric->guid[node],
					     memory_order_relaxed);
	const uint64_t words[2] = {
		htobe64(prefix_of(dev, node, port)),
		htobe64(guid | (uint64_t)port),
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
	return *node < SOFT_NODES && *port && *port <= SOFT_PORTS_MAX &&
	       be64toh(words[0]) == prefix_of(dev, *node, *port) &&
	       atomic_load_explicit(&dev->fabric->guid[*node],
				    memory_order_relaxed) ==
	       (guid & ~(uint64_t)(SOFT_GUID_STEP - 1));
}

bool soft_is_ib(const struct soft_dev *dev)
{
	return dev->link_layer == IBV_LINK_LAYER_INFINIBAND;
}

bool soft_is_roce(const struct soft_dev *dev)
{
	return dev->link_layer == IBV_LINK_LAYER_ETHERNET && !dev->iwarp;
}

/* The MAC address is a locally administered one. */
void soft_iwarp_gid(const struct soft_dev *dev, int port, uint8_t gid[16])
{
	uint64_t tail = htobe64(dev->device_guid + (uint64_t)port);

	memset(gid, 0, 16);
	gid[0] = 2;
	memcpy(gid + 1, (uint8_t *)&tail + 3, 5);
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
