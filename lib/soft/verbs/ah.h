/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles, and the members of multicast groups. */
#ifndef SOFT_VERBS_AH_H
#define SOFT_VERBS_AH_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/path.h"

struct soft_dev;
struct soft_qp;

struct soft_ah {
	struct ibv_ah ibv;
	struct ibv_ah_attr attr;
	int users;			/* the program, and queued datagrams */
	bool mcast;
	bool far;			/* goes to the network, along path */
	struct soft_path path;
	int node;			/* IB: of the port; -1: use QPN */
	uint8_t port;			/* IB: number of the port */
	uint16_t slid;
	uint8_t sl;			/* reported to the receiver */
	uint8_t grh[SOFT_GRH];
	uint32_t sum;			/* IPv4: of the header, no length */
	/* multicast: nodes with members, if `known`, at `epoch` */
	bool known;
	uint32_t epoch;
	uint64_t members[SOFT_NODES / 64];
	uint64_t av[6];			/* of mlx5: raw_dc.c */
};

struct soft_group {
	struct list node;		/* dev->groups[] */
	uint8_t mgid[16];
	uint32_t slot;			/* in fabric/groups.h */
	struct list members;
	int flows;			/* that take its frames: flow.h */
};

struct soft_member {
	struct list node;
	struct soft_qp *qp;
};

/* ah.c. All L */
/* Checks the port and the GID that a path begins with. */
bool soft_ah_source_ok(const struct soft_dev *dev,
		       const struct ibv_ah_attr *a);
/* Checks that there is a destination, too. */
bool soft_ah_attr_ok(const struct soft_dev *dev, const struct ibv_ah_attr *a);
void soft_ah_header(const struct soft_ah *ah, uint32_t length,
		    uint8_t grh[SOFT_GRH]);
/* Makes the header of a datagram that has come along the path. */
void soft_ah_arrived(const struct soft_dev *dev, const struct soft_path *back,
		     uint32_t length, uint8_t grh[SOFT_GRH], uint8_t *sl);
void soft_ah_put(struct soft_ah *ah);

/* mcast.c. All L */
/* Returns the group, which may be new, or NULL. */
struct soft_group *soft_group_get(struct soft_dev *dev,
				  const uint8_t mgid[16]);
/* Drops the group if it has no member and no flow. */
void soft_group_put(struct soft_dev *dev, struct soft_group *g);
struct soft_group *soft_group_find(struct soft_dev *dev,
				   const uint8_t mgid[16]);
/* Brings ah->members up to date. */
void soft_mcast_members(struct soft_dev *dev, struct soft_ah *ah);
/* Drops a node from ah->members. */
void soft_mcast_unreachable(struct soft_ah *ah, uint32_t node);

#endif
