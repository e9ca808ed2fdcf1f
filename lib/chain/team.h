/* SPDX-License-Identifier: BSD-2-Clause */
/* Teams: members, the operation that runs, and the reason of a failure. */
#ifndef RDMAMSG_LIB_TEAM_H
#define RDMAMSG_LIB_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/chain.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "chain/chain.h"
#include "chain/mesh.h"

struct rdmamsg_team {
	struct rdmamsg *ctx;
	struct list node;		/* of the context */
	uint32_t refs;			/* the program, and each fail_due */
	uint32_t size, rank;
	struct chain_ep **members;	/* NULL at the own rank */
	struct rdmamsg_chain *chain;	/* of the operation; NULL: destroyed */
	uint32_t number;		/* of the operation */
	bool has_barrier;		/* the steps of the chain */
	void *cookie;
	int status;			/* of the last operation */
	bool fits;			/* the operation can run natively */
	bool native;			/* else the loop runs all operations */
	uint8_t *temp;			/* all-reduce: received elements */
	size_t temp_size;
	struct mesh *mesh;		/* of rdmamsg_team_connect(), or NULL */
	bool owns;			/* the endpoints: closes them */
	struct rdmamsg_team_options opts;
	struct rdmamsg_team_handlers on;
	struct rdmamsg_ep_options ep_opts;	/* of those that it makes */
	struct rdmamsg_team_failure reason;
};

/* All endpoints are up, or the reason why they will not be. */
void rdmamsg__team_formed(struct rdmamsg_team *t);
void rdmamsg__team_unformed(struct rdmamsg_team *t,
			    const struct rdmamsg_team_failure *why);
/* Starts the steps of the operation. */
void rdmamsg__team_go(struct rdmamsg_team *t);
/* The channel to the member has failed. 'why' says how. */
void rdmamsg__team_broken(struct rdmamsg_team *t, uint32_t rank,
			  const char *why);

#endif
