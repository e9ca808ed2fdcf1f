/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of a team in one process, each with a context of its own. */
#ifndef RDMAMSG_TESTS_INTEGRATION_MESH_H
#define RDMAMSG_TESTS_INTEGRATION_MESH_H

#include "common.h"

#include <rdmamsg/chain.h>

#define MESH_MAX	16u

struct member {
	struct rdmamsg *ctx;		/* NULL: another process */
	struct rdmamsg_listener *listener;
	char port[8];
	uint32_t rank;
	struct link {
		struct member *of;
		uint32_t rank;		/* of the peer */
		struct rdmamsg_ep *ep;	/* NULL if it is closed */
		bool connected;
		struct rdmamsg_reason why;
	} links[MESH_MAX];
	uint32_t connected, closed;
	struct rdmamsg_team *team;
	unsigned int done;		/* operations that have ended */
	int status;			/* of the last of them */
	void (*then_done)(struct member *m);
};

extern struct member members[MESH_MAX];
extern uint32_t mesh_size;
extern uint32_t mesh_ack_timeout;	/* option of the endpoints */
extern uint32_t mesh_path;	/* of the teams */

/* Opens one member and its listener. */
void mesh_member(uint32_t rank, uint32_t size);
/* Connects the member to another one at this port. */
void mesh_dial(uint32_t rank, uint32_t peer, const char *port);
/* Opens and connects all members but 'absent', which is in another process. */
void mesh_open(uint32_t size, uint32_t absent);
void mesh_teams(void);			/* of the members here */
bool mesh_all_done(unsigned int count);
/* Destroys the teams, closes all connections and contexts. */
void mesh_close(void);

#endif
