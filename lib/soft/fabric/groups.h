/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of multicast groups in the fabric's shared memory. All L. */
#ifndef SOFT_FABRIC_GROUPS_H
#define SOFT_FABRIC_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

struct soft_dev;

/*
 * Adds a group that has members on this node, in an unused slot < SOFT_GROUPS.
 */
void soft_groups_add(struct soft_dev *dev, uint32_t slot,
		     const uint8_t mgid[16]);
void soft_groups_remove(struct soft_dev *dev, uint32_t slot);
/* Empties this node's rows, which an earlier process may have filled. */
void soft_groups_clear(struct soft_dev *dev);
/*
 * Returns a number that changes with every change of the table. Read it before
 * the table.
 */
uint32_t soft_groups_epoch(const struct soft_dev *dev);
/* Returns true if the group has members on the node. */
bool soft_groups_has(const struct soft_dev *dev, uint32_t node,
		     const uint64_t mgid[2]);

/*
 * Link layers have unlike MGIDs for the group of one IP address, so members on
 * two of them would hear nothing of each other. Notes that this node joins the
 * group of the address. Returns -EPROTOTYPE if another node has joined it on
 * another link layer. Writes the slot for soft_groups_leave(), or -1.
 */
int soft_groups_join(struct soft_dev *dev, const uint8_t addr[16], int *ret);
/* A slot of -1 has no effect. */
void soft_groups_leave(struct soft_dev *dev, int slot);

#endif
