/* SPDX-License-Identifier: BSD-2-Clause */
/* The node: the place of this process on a fabric. */
#ifndef SOFT_FABRIC_NODE_H
#define SOFT_FABRIC_NODE_H

struct soft_dev;

int soft_node_open(struct soft_dev *dev);
void soft_node_close(struct soft_dev *dev);
/* NULL: the name in RDMAMSG_SOFT_FABRIC. Returns 0 or -EINVAL. */
int soft_fabric_name(struct soft_dev *dev, const char *name);

#endif
