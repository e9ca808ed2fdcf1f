/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target forgets a sender that it has not heard for DCF_FORGET_MS. Its device
 * still acknowledges the messages of that sender, but nobody reads them. So a
 * message that the device has acknowledged is delivered only if the target has
 * not forgotten the sender by then. The sender knows that for some time after
 * each ASK that the target has answered: the lease. A message that completes
 * after that time is in doubt. It waits for the answer to an ASK behind it.
 *
 *   sender                                   target
 *     | ASK 7, at 'asked'                      |
 *     |--------------------------------------->|  has heard the sender
 *     |                       CREDIT, of ASK 7 |
 *     |<---------------------------------------|
 *     |                                        |
 *     +- the lease ends: asked + LEASE_MS      |
 *                                              +- may forget: DCF_FORGET_MS
 */
#ifndef RDMAMSG_LIB_DC_LEASE_H
#define RDMAMSG_LIB_DC_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/list.h"

struct dc_lease {
	uint64_t until;			/* ms; 0: before the first answer */
	uint64_t asked;			/* ms, of the last ASK, or of HELLO */
	uint32_t ask;			/* number of the last ASK */
	uint32_t number;		/* of the next message at that time */
	uint32_t ticks;			/* since the last ASK was sent */
	bool due;			/* an ASK must be sent */
	bool out;			/* an ASK has no answer yet */
	/* messages that only wait for an answer: to this ASK, or to the next */
	struct list asked_for, doubts;
};

void rdmamsg__lease_init(struct dc_lease *l);
/* HELLO is about to be sent. WELCOME will answer it. */
void rdmamsg__lease_greet(struct dc_lease *l);
/* WELCOME has arrived. */
void rdmamsg__lease_begin(struct dc_lease *l);
/* Twice a second. An ASK is due if messages were sent since the last one. */
void rdmamsg__lease_tick(struct dc_lease *l, uint32_t number);
/*
 * An ASK is about to be sent. Returns its number: that of the last one, if this
 * has no answer yet. number: of the next message.
 */
uint32_t rdmamsg__lease_ask(struct dc_lease *l, uint32_t number);
/* CREDIT has arrived. It is the answer to the ASK of this number, if any. */
void rdmamsg__lease_answer(struct dc_lease *l, uint32_t ask);
/* The message is in doubt. */
void rdmamsg__lease_doubt(struct dc_lease *l, struct list *node);
/* Returns a message that is in doubt no more, or NULL. It leaves its list. */
struct list *rdmamsg__lease_next(struct dc_lease *l);
/* Returns any message in doubt, or NULL. It leaves its list. */
struct list *rdmamsg__lease_drop(struct dc_lease *l);

/*
 * Returns true if a message that has just completed is delivered: its device
 * had it before 'until', and the target remembers the sender until then.
 */
static inline bool rdmamsg__lease_holds(const struct dc_lease *l)
{
	return rdmamsg__about_ms() < l->until;
}

/* Returns true if messages are in doubt. */
static inline bool rdmamsg__lease_doubts(const struct dc_lease *l)
{
	return !list_empty(&l->asked_for) || !list_empty(&l->doubts);
}

/* Returns true if an ASK has no answer, or if messages are in doubt. */
static inline bool rdmamsg__lease_waits(const struct dc_lease *l)
{
	return l->out || rdmamsg__lease_doubts(l);
}

#endif
