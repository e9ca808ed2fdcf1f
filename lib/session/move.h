/* SPDX-License-Identifier: BSD-2-Clause */
/* Planned moves of an endpoint to another lane. */
#ifndef RDMAMSG_LIB_MOVE_H
#define RDMAMSG_LIB_MOVE_H

#include <stdbool.h>

struct rdmamsg_ep;
struct rdmamsg_migrate_options;

/* Returns true if the options name an address or a device. */
bool rdmamsg__move_has_address(const struct rdmamsg_migrate_options *o);
/*
 * Begins to move. on_path follows. -EOPNOTSUPP: there can be no other lane;
 * -EINVAL, -EBUSY, -ENOMEM.
 */
int rdmamsg__move(struct rdmamsg_ep *ep,
		  const struct rdmamsg_migrate_options *o);
/* The peer asks this side to move. */
void rdmamsg__move_asked(struct rdmamsg_ep *ep);

#endif
