/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of a team in one process, each with a context of its own. */
#ifndef RDMAMSG_TESTS_INTEGRATION_MESH_H
#define RDMAMSG_TESTS_INTEGRATION_MESH_H

#include "common.h"

#include <rdmamsg/chain.h>

#define MESH_MAX	34u

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
extern uint32_t mesh_seed;		/* of delays and inputs */

/* ---- paths ------------------------------------------------------------ */

struct mesh_way {
	uint32_t asks;		/* enum rdmamsg_chain_path, of mesh_teams() */
	uint32_t takes;		/* path of each operation that ends well */
	bool warm;		/* mesh_teams() ends after a first barrier */
};

extern struct mesh_way mesh_way;
extern const struct rdmamsg_failover *mesh_failover;	/* of endpoints */
extern struct rdmamsg_pd *mesh_pd;			/* the same */

/* Chooses the way. Skips the test if the device does not have the path. */
void mesh_take(struct mesh_way way);

#define ON(name, prefix, ...) \
	static void prefix##__##name(void **state) \
	{ \
		mesh_take((struct mesh_way){ __VA_ARGS__ }); \
		name(state); \
	}
/* Defines two cases, which call this one on each path. */
#define ON_BOTH(name) \
	ON(name, native, RDMAMSG_CHAIN_NATIVE, RDMAMSG_CHAIN_NATIVE) \
	ON(name, loop, RDMAMSG_CHAIN_LOOP, RDMAMSG_CHAIN_LOOP)
/* Also one in which the first operation is over. */
#define ON_ALL(name) \
	ON_BOTH(name) \
	ON(name, native_later, RDMAMSG_CHAIN_NATIVE, RDMAMSG_CHAIN_NATIVE, true)

/* ---- members ---------------------------------------------------------- */

/* Opens one member and its listener. */
void mesh_member(uint32_t rank, uint32_t size);
/* Connects the member to another one at this port. */
void mesh_dial(uint32_t rank, uint32_t peer, const char *port);
/* Opens and connects all members but 'absent', which is in another process. */
void mesh_open(uint32_t size, uint32_t absent);
void mesh_teams(void);			/* of the members here */
void mesh_team(uint32_t rank);
bool mesh_all_done(unsigned int count);
/* Sets mesh_seed to TEST_SEED, or to one that differs in each run. Prints it */
void mesh_choose_seed(void);
/*
 * Runs 'count' operations that begin() starts and check() checks. Polls all
 * members in turn. A member begins its next operation after a random number of
 * turns, so some are several operations behind.
 */
void mesh_race(uint32_t count, void (*begin)(struct member *m, uint32_t number),
	       void (*check)(const struct member *m, uint32_t number));
/* Destroys the teams, closes all connections and contexts. */
void mesh_close(void);

#endif
