/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The alternate path of a queue pair. An alternate path differs from the path
 * in use by the ports of both ends. Functions that return -errno set the text.
 */
#ifndef RDMAMSG_LIB_MIGRATE_H
#define RDMAMSG_LIB_MIGRATE_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "wire/path.h"

struct lane;

/* Values that an alternate path takes from the first path. */
struct route {
	struct ibv_ah_attr ah;
	uint16_t pkey;
	uint8_t timeout;
};

/*
 * Checks a port that the program wants for the alternate path. l->port must be
 * known. -EINVAL: no such port, or the port in use. -ENETDOWN: not active.
 */
int rdmamsg__migrate_check(const struct lane *l, uint32_t port);
/* -EOPNOTSUPP: the device or the link of l->port has no alternate paths. */
int rdmamsg__migrate_lack(const struct lane *l);
/* Reads the route of a connected queue pair. */
int rdmamsg__migrate_route(const struct lane *l, struct route *ret);
/*
 * Finds the port for an alternate path to l->port: 'wanted' if it is not 0,
 * else 'first' if it will do, else any other that will do. If none will do and
 * 'wanted' is 0, takes l->port with PROTO_PATH_SAME. Sets port, flags, LID and
 * GID of *ret. -ENETDOWN: there is none.
 */
int rdmamsg__migrate_find(const struct lane *l, const struct route *route,
			  uint32_t wanted, uint32_t first,
			  struct proto_path *ret);
/* Loads the path from our port to the peer's, to be armed by the device. */
int rdmamsg__migrate_load(const struct lane *l, const struct route *route,
			  const struct proto_path *own,
			  const struct proto_path *peer);
int rdmamsg__migrate_state(const struct lane *l, enum ibv_mig_state *ret);
/* Migrates an armed queue pair. */
int rdmamsg__migrate_now(const struct lane *l);

#endif
