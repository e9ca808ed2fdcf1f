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
#define SOFT_FABRIC_VERSION	3

struct soft_fabric {
	uint32_t magic, version;
	struct soft_faults fresh;	/* initial faults of a new node */
	struct soft_faults node[SOFT_NODES];
	_Atomic uint64_t guid[SOFT_NODES];
	/* multicast groups with members: groups.c */
	_Atomic uint32_t mcast_epoch;
	_Atomic uint32_t groups[SOFT_NODES];	/* slots to look at */
	struct {
		_Atomic uint64_t word[2];
	} mgid[SOFT_NODES][SOFT_GROUPS];
};

#endif
