/* SPDX-License-Identifier: BSD-2-Clause */
/* Misdeeds of a connected peer, client or server. */
#ifndef MISDEEDS_H
#define MISDEEDS_H

#include "raw.h"
#include "victim.h"

#define CAUSE(name)	(1u << RDMAMSG_CAUSE_##name)

struct misdeed {
	const char *name;
	/* after SETUP, unless before_setup. False: it could not be done. */
	bool (*fn)(struct raw *r);
	uint32_t causes;	/* CAUSE(): what the other side may say */
	bool before_setup;
	bool passive_only;		/* for the one that is connected to */
	bool active_only;		/* for the one that connects */
	const char *says;		/* application data of its hello */
	/* without waiting for credit: where receives are shared, too much */
	bool many;
	struct raw_options how;
	/* the victim is to send (if it is a client) or to close */
	enum wish wish, then;
};

#define READS	.how = { .reads_served = 4 }
#define PROTO	CAUSE(PROTOCOL)

/* A misdeed without a name ends each table. NULL ends the list of tables. */
extern const struct misdeed setup_misdeeds[], message_misdeeds[],
	memory_misdeeds[];
extern const struct misdeed *const misdeeds[];
uint32_t misdeed_causes(const struct misdeed *m);

/* Of the program: whom it harms, how that is asked, and all that it does. */
extern const char victim[];
_Atomic int *victim_wish(void);
/*
 * A first connection, with nothing wrong about it: what the device keeps for
 * the other process from then on is not what misdeeds leave behind. The soft
 * HCA has a socket and a doorbell for it.
 */
bool meet(void);
void misbehave_all(void);
extern const char *address;		/* the server's */

/* Prints a line for the case. Counts bad cases in 'failures'. */
void verdict(const char *name, bool good, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
extern int failures;
/* The only case to run, or NULL: all. */
extern const char *only_case;
bool wanted(const char *name);

/* Prints the verdict on the end of the last connection. */
void judge(const char *name, bool did, uint32_t before, uint32_t causes);

/* Returns true if the send is posted, even if no acknowledgement comes. */
bool do_data(struct raw *r, uint32_t number, uint32_t tag, uint32_t len);
bool do_message(struct raw *r, uint8_t type, const void *body, size_t len);
struct proto_rndv good_rndv(const struct raw *r, uint32_t len);
bool do_rndv(struct raw *r, const struct proto_rndv *w);
bool do_rndv_body(struct raw *r, const void *body, size_t len);
/* Makes the victim announce a large message, and gives its key. */
bool large_from_victim(struct raw *r, struct proto_hdr *hdr,
		       struct proto_key *key);
bool do_vanish(struct raw *r);
bool do_leave(struct raw *r);

#endif
