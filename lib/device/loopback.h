/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting queue pairs of type RC over a port of the device itself. Errors
 * have a text.
 */
#ifndef RDMAMSG_LIB_LOOPBACK_H
#define RDMAMSG_LIB_LOOPBACK_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "device/path.h"

struct rdmamsg_device;

/* Finds port, GID and P_Key. port 0: the first active port. */
int rdmamsg__loopback_path(const struct rdmamsg_device *d, uint32_t port,
			   struct oob *ret);
/* Addresses the port of the path itself. */
void rdmamsg__loopback_address(const struct oob *path, struct ibv_ah_attr *ret);
/* Takes a queue pair to its next state: INIT, RTR or RTS. */
int rdmamsg__loopback_step(const struct rdmamsg_device *d, struct ibv_qp *qp,
			   const struct oob *path, uint32_t peer,
			   enum ibv_qp_state to);

#endif
