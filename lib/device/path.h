/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting a queue pair without the CM: ports, GIDs and P_Keys. */
#ifndef RDMAMSG_LIB_PATH_H
#define RDMAMSG_LIB_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdmamsg/oob.h>

#include "wire/proto.h"

struct oob_conn;
struct rdmamsg_device;

/* Connection data of a queue pair without a CM id. */
struct oob {
	struct rdmamsg_path path;	/* of the program, in range */
	struct proto_oob local, peer;
	uint8_t port;
	uint8_t gid_index;
	uint16_t pkey_index;
	bool global;			/* the program asks for the GID */
	struct oob_conn *conn;
};

int rdmamsg__path_copy(struct rdmamsg_path *dst,
		       const struct rdmamsg_path *src);
union ibv_gid;

/* The GID of RoCE that the address has. */
void rdmamsg__addr_gid(const struct sockaddr *addr, union ibv_gid *ret);
int rdmamsg__path_local(struct oob *oob, const struct rdmamsg_device *d,
			const struct sockaddr *local);
/* Returns 0 if the two records can reach each other. Else sets the reason. */
int rdmamsg__path_match(const struct oob *oob);

#endif
