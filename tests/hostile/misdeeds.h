/* SPDX-License-Identifier: BSD-2-Clause */
/* Misdeeds of a connected peer, client or server. */
#ifndef MISDEEDS_H
#define MISDEEDS_H

#include "raw.h"
#include "victim.h"

#define CAUSE(name)	(1u << RDMAMSG_CAUSE_##name)

struct misdeed {
	const char *name;
	/*
	 * Runs after SETUP, unless before_setup. Returns false if it could not
	 * act.
	 */
	bool (*fn)(struct raw *r);
	uint32_t causes;	/* CAUSE() of each allowed reason */
	bool before_setup;
	bool passive_only;		/* for a listening peer */
	bool active_only;		/* for a connecting peer */
	const char *not_on_iwarp;	/* why not; NULL: there, too */
	/*
	 * A burst beyond all credits. It takes the receives that others share
	 * with this peer, and there is no RNR on iWARP.
	 */
	bool floods;
	const char *says;		/* application data of its hello */
	/* the misdeed ignores credits, which a shared queue may not survive */
	bool many;
	bool timed;	/* what ends it is a time-out of the victim */
	struct raw_options how;
	/* tells the victim to send (client only) or to close */
	enum wish wish, then;
};

#define READS	.how = { .reads_served = 4 }
#define PROTO	CAUSE(PROTOCOL)
#define NO_IMM	.not_on_iwarp = "iWARP has no immediate data"

/* A misdeed without a name ends each table. NULL ends the list of tables. */
extern const struct misdeed setup_misdeeds[], message_misdeeds[],
	memory_misdeeds[], pieces_misdeeds[], word_misdeeds[];
extern const struct misdeed *const misdeeds[];
uint32_t misdeed_causes(const struct misdeed *m);
/* Returns true if the device can do it. Otherwise prints a line that it skips. */
bool misdeed_possible(const char *name, const char *not_on_iwarp);
/* Returns why the misdeed is not for iWARP, or NULL. */
const char *misdeed_not_on_iwarp(const struct misdeed *m);

/* The program defines these: the victim's name, its wishes, and the tests. */
extern const char victim[];
_Atomic int *victim_wish(void);
/*
 * Makes a first, correct connection. The device keeps a socket and a doorbell
 * for the other process from then on (soft HCA), which no misdeed has left.
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

/*
 * Gives the next connection the time-outs of a case that ends for one of these
 * causes: long ones, unless it is for a time-out. judge() takes them back.
 */
void be_patient(uint32_t causes, bool timed);
/* Prints the verdict on the end of the last connection. */
void judge(const char *name, bool did, uint32_t before, uint32_t causes);

/* Returns true if the send is posted, even if no acknowledgement comes. */
bool do_data(struct raw *r, uint32_t number, uint32_t tag, uint32_t len);
bool do_message(struct raw *r, uint8_t type, const void *body, size_t len);
/* Keeps the victim in a handler until do_release(), which returns 'did'. */
bool do_keep_busy(struct raw *r);
bool do_release(bool did);
struct proto_rndv good_rndv(const struct raw *r, uint32_t len);
bool do_rndv(struct raw *r, const struct proto_rndv *w);
bool do_rndv_body(struct raw *r, const void *body, size_t len);
/* Makes the victim announce a large message, and gives its key. */
bool large_from_victim(struct raw *r, struct proto_hdr *hdr,
		       struct proto_key *key);
bool do_vanish(struct raw *r);
bool do_leave(struct raw *r);

#endif
