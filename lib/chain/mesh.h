/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoints of a team that is being made: to the members of lower ranks
 * this member connects, those of higher ranks it accepts.
 */
#ifndef RDMAMSG_LIB_MESH_H
#define RDMAMSG_LIB_MESH_H

#include <rdmamsg/chain.h>
#include <rdmamsg/rdmamsg.h>

struct mesh;

/*
 * Begins. rdmamsg__team_formed() or _unformed() follows, not within the call.
 * -EINVAL: an address is not HOST:PORT; errors of rdmamsg_listen() and
 * rdmamsg_connect(); -ENOMEM.
 */
int rdmamsg__mesh_new(struct rdmamsg_team *t, const char *const *addresses,
		      struct mesh **ret);
/* Element i is the endpoint to member i. */
struct rdmamsg_ep *const *rdmamsg__mesh_eps(const struct mesh *m);
/* The endpoints are no longer the mesh's. */
void rdmamsg__mesh_let_go(struct mesh *m);
/* Stops listening, and aborts the endpoints that are the mesh's. */
void rdmamsg__mesh_free(struct mesh *m);

#endif
