/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports and their addresses: LIDs, GIDs, GID tables. */
#ifndef SOFT_FABRIC_GID_H
#define SOFT_FABRIC_GID_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct soft_dev;

struct soft_gid {
	union ibv_gid gid;		/* all 0: the entry is empty */
	uint32_t ifindex;
	uint32_t mtu;			/* of IP there; 0: not asked for */
};

/* addr.c. Reads RDMAMSG_SOFT_PORTS and RDMAMSG_SOFT_LINK; 0 or -EINVAL. */
int soft_addr_options(struct soft_dev *dev);
bool soft_is_ib(const struct soft_dev *dev);
bool soft_is_roce(const struct soft_dev *dev);
/* Returns true if RDMAMSG_SOFT_LINK asks for iWARP. Needs no open device. */
bool soft_asks_iwarp(void);
/* As LOOKUP of a node names its link layer. 0: it is older, and names none. */
enum soft_link { SOFT_LINK_UNKNOWN, SOFT_LINK_ROCE, SOFT_LINK_IB,
		 SOFT_LINK_IWARP };
enum soft_link soft_link(const struct soft_dev *dev);
/* Returns its value of RDMAMSG_SOFT_LINK. */
const char *soft_link_name(enum soft_link link);
/* An iWARP GID is the port's MAC address, then zeros: Linux siw_query_gid(). */
void soft_iwarp_gid(const struct soft_dev *dev, int port, uint8_t gid[16]);
uint16_t soft_lid(const struct soft_dev *dev, uint32_t node, int port);
bool soft_lid_port(const struct soft_dev *dev, uint16_t lid, uint32_t *node,
		   uint8_t *port);
/* Attributes that a subnet manager sets, in host order. */
uint16_t soft_sm_lid(const struct soft_dev *dev, int port);
uint16_t soft_pkey(const struct soft_dev *dev, int port);
enum soft_attr { SOFT_ATTR_LID, SOFT_ATTR_SM_LID, SOFT_ATTR_PKEY,
		 SOFT_ATTR_PREFIX, SOFT_ATTR_GID_ERROR, SOFT_ATTR_PKEY_ERROR,
		 SOFT_ATTRS };
/*
 * Sets one of a port of this node; 0: the default. Later nodes have it as well
 * if 'fresh', but no two ports have one LID. -EINVAL; -EOPNOTSUPP: the link
 * layer has none; -EADDRINUSE: another port has the LID. L
 */
int soft_attr_set(struct soft_dev *dev, enum soft_attr what, int port,
		  uint64_t value, bool fresh);
/* The errno of reading the port's table of GIDs or P_Keys, 0: none. */
int soft_gid_error(const struct soft_dev *dev, uint32_t port);
int soft_pkey_error(const struct soft_dev *dev, uint32_t port);
void soft_ib_gid(const struct soft_dev *dev, uint32_t node, int port,
		 uint8_t gid[16]);
bool soft_ib_gid_port(const struct soft_dev *dev, const uint8_t gid[16],
		      uint32_t *node, uint8_t *port);
bool soft_gid_v4(const uint8_t gid[16]);	/* an IPv4-mapped address */
bool soft_gid_mcast(const uint8_t gid[16]);

/* gid.c. Returns the number of entries in a port's table. */
int soft_gids(const struct soft_dev *dev);
void soft_gids_read(struct soft_dev *dev);	/* reads addresses. L */
/*
 * Returns the enum ibv_mtu of the ports: where other hosts are reached, the
 * smallest of the interfaces.
 */
int soft_gids_mtu(const struct soft_dev *dev);
/* Returns 0, EINVAL if there is no such entry, ENODATA if it is empty. L */
int soft_port_gid(const struct soft_dev *dev, uint32_t port, uint32_t index,
		  struct soft_gid *ret);
/* Returns the index of a GID in a port's table, or -1. L */
int soft_gid_index(const struct soft_dev *dev, uint32_t port,
		   const uint8_t gid[16]);

#endif
