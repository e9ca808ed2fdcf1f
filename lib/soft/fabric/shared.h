/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that all nodes of a fabric map. A node writes its own row of each
 * table. All values are hints: a reader checks them before use.
 */
#ifndef SOFT_FABRIC_SHARED_H
#define SOFT_FABRIC_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#include "soft/fabric/fault.h"
#include "soft/fabric/limits.h"

#define SOFT_FABRIC_MAGIC	0x534f4654u
#define SOFT_FABRIC_VERSION	7

/*
 * Attributes that rdmamsg-soft-ctl(1) has set, as a subnet manager would. 0
 * means the default.
 */
struct soft_attrs {
	uint16_t lid[SOFT_PORTS_MAX], sm_lid[SOFT_PORTS_MAX];
	uint16_t pkey[SOFT_PORTS_MAX];
	uint16_t gid_error[SOFT_PORTS_MAX], pkey_error[SOFT_PORTS_MAX];
	uint64_t prefix[SOFT_PORTS_MAX];	/* of the subnet */
};

/*
 * Counters of a node, on a page of their own. A processor that fetches lines
 * ahead would otherwise take those of the next node, at each message again.
 */
struct soft_counts {
	_Alignas(4096) _Atomic uint64_t of[SOFT_PORTS_MAX][SOFT_COUNTERS];
	/* net/steer.c: the last round of probes; place of its socket, from 1 */
	_Atomic uint64_t round;
	_Atomic uint32_t place;
};

_Static_assert(sizeof(struct soft_counts) == 4096, "one page");

struct soft_fabric {
	uint32_t magic, version;
	struct soft_faults fresh;	/* initial faults of a new node */
	uint32_t fresh_absent;		/* a new node has no device */
	struct soft_attrs fresh_attrs;
	struct soft_faults node[SOFT_NODES];
	struct soft_attrs attrs[SOFT_NODES];
	_Atomic uint64_t guid[SOFT_NODES];
	/* multicast groups with members: groups.c */
	_Atomic uint32_t mcast_epoch;
	_Atomic uint32_t groups[SOFT_NODES];	/* slots to look at */
	struct {
		_Atomic uint64_t word[2];
	} mgid[SOFT_NODES][SOFT_GROUPS];
	/* IP addresses of joined groups as hashes, and enum soft_link */
	_Atomic uint64_t joined[SOFT_NODES][SOFT_GROUPS];
	_Atomic uint32_t link[SOFT_NODES];
	struct soft_counts counts[SOFT_NODES];	/* count.c */
};

#endif
