/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connected peer can do wrong, whichever side it is. */
#ifndef MISDEEDS_H
#define MISDEEDS_H

#include "raw.h"
#include "victim.h"

#define CAUSE(name)	(1u << RDMAMSG_CAUSE_##name)

struct misdeed {
	const char *name;
	/* after SETUP, unless before_setup. False: it could not be done. */
	bool (*fn)(struct raw *r);
	uint32_t causes;	/* CAUSE(): what the other side may say; 0: nothing */
	bool before_setup;
	bool passive_only;		/* for the one that is connected to */
	/* without waiting for credit: where receives are shared, too much */
	bool many;
	struct raw_options how;
	/* the victim is to send (if it is a client) or to close */
	enum wish wish, then;
};

extern const struct misdeed misdeeds[];
uint32_t misdeed_causes(const struct misdeed *m);

/* Of the program: whom it harms, how that is asked, and all that it does. */
extern const char victim[];
_Atomic int *victim_wish(void);
void misbehave_all(void);
extern const char *address;		/* the server's */

/* A line for the case; counts the bad ones in failures. */
void verdict(const char *name, bool good, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
extern int failures;
/* NULL, or the only case that is wanted. */
extern const char *only_case;
bool wanted(const char *name);

/* How the last connection ended: as it should? Judges and says. */
void judge(const char *name, bool did, uint32_t before, uint32_t causes);

#endif
