/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A door counts the visitors of a listener, and enforces its limits. A visitor
 * is a peer that asks to connect. It passes through the stages in their order:
 *
 *   RECORD				<= backlog
 *   REQUEST				<= max_requests
 *   REQUEST + HALF_OPEN		<= max_half_open
 *   REQUEST + HALF_OPEN + OPEN		<= max_endpoints
 *
 * A request counts for the later limits as well, so that every request that was
 * let in can be accepted. If max_per_source is 0, each address gets at most
 * twice as much of a limit as it leaves to all others, see rdmamsg__is_fair().
 * The /64 of a global IPv6 address gets at most DOOR_NET times that.
 *
 * A visitor offends if it uses a wrong key, breaks the protocol, or does not
 * prove that it has the listener's key. The door
 * rejects its address for slow_ms. Each further offence doubles the time, until
 * the address has been quiet for DOOR_QUIET_MS.
 *
 * A request can move to another context, so a door has a lock. The data path
 * does not use the door.
 */
#ifndef RDMAMSG_LIB_DOOR_H
#define RDMAMSG_LIB_DOOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

#include "wire/proto.h"

#define DOOR_OFFENDERS	64	/* most addresses in the list of offenders */
#define DOOR_SLOW_MS	10000	/* longest time that an address is rejected */
#define DOOR_QUIET_MS	60000	/* then the door forgets the offences */
#define DOOR_ASKS	64	/* for sessions, of an address in a second */
#define DOOR_ASKERS	64	/* addresses, and /64s, that are remembered */
#define DOOR_NET	16	/* shares and budgets of an address for its /64 */

enum door_stage {
	DOOR_RECORD,	/* a TCP connection, no record yet */
	DOOR_REQUEST,	/* the program has not answered */
	DOOR_HALF_OPEN,	/* accepted, no SETUP or no proof yet */
	DOOR_OPEN,	/* SETUP has come, and the proof, if there is a key */
	DOOR_STAGES,
};

struct door;
struct door_source;

/* Member of a TCP connection, then of a request, then of an endpoint. */
struct visitor {
	struct door *door;		/* NULL: not counted */
	struct door_source *source;
	enum door_stage stage;
};

/* Returns NULL if there is no memory. The options are complete. */
struct door *rdmamsg__door_new(const struct rdmamsg_listen_options *o);
/* The listener has closed. The door lives as long as its visitors. */
void rdmamsg__door_close(struct door *d);
void rdmamsg__door_stats(struct door *d, struct rdmamsg_listener_stats *ret);
/* Returns true if max_per_source is 0. */
bool rdmamsg__door_is_fair(const struct door *d);
uint32_t rdmamsg__door_setup_ms(const struct door *d);

/*
 * Admits a new visitor at this stage, or moves *v on from DOOR_RECORD. Returns
 * 0, -ENOMEM, or the enum proto_limit that is reached.
 */
int rdmamsg__door_admit(struct door *d, const struct sockaddr_storage *from,
			enum door_stage stage, struct visitor *v);
/*
 * The same for DOOR_REQUEST, but does not count a visitor that it does not
 * admit: another door may admit it.
 */
int rdmamsg__door_offer(struct door *d, const struct sockaddr_storage *from,
			struct visitor *v);
/* Returns true while the door rejects the address for an offence. */
bool rdmamsg__door_slows(struct door *d, const struct sockaddr_storage *from);
uint32_t rdmamsg__door_requests(struct door *d);
/* Counts a visitor that the caller has rejected. */
void rdmamsg__door_refused(struct door *d, enum proto_limit limit);
void rdmamsg__door_timed_out(struct door *d);
void rdmamsg__door_unproven(struct door *d);

/* Calls on a visitor. If v->door is NULL, they do nothing. */
void rdmamsg__visitor_move(struct visitor *v, enum door_stage stage);
/* *to takes the place of *from. */
static inline void rdmamsg__visitor_pass(struct visitor *from,
					 struct visitor *to)
{
	*to = *from;
	from->door = NULL;
}
void rdmamsg__visitor_leave(struct visitor *v);
/*
 * A pointer for the address of the visitor, NULL at first. It lives as long as
 * the visitors of this address, and only one thread of the caller uses it.
 */
void **rdmamsg__visitor_slot(struct visitor *v);
void rdmamsg__visitor_offends(struct visitor *v);
/*
 * The visitor has asked for a session that this process does not have, as each
 * peer does once after a restart of this side. Returns false if its address has
 * done so DOOR_ASKS times in this second, or its /64 DOOR_NET times as often.
 * That is no offence.
 */
bool rdmamsg__visitor_may_ask(struct visitor *v);

#endif
