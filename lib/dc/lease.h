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

#include "base/list.h"

struct dc_frame;
struct dc_msg;
struct dc_session;

struct dc_lease {
	uint64_t until;			/* ms; 0: before the first answer */
	uint64_t asked;			/* ms, of the last ASK, or of HELLO */
	uint32_t ask;			/* number of the last ASK */
	uint32_t number;		/* of the next message at that time */
	uint32_t ticks;			/* since the last ASK was sent */
	bool due;			/* an ASK must be sent */
	bool out;			/* an ASK has no answer yet */
	/* struct dc_msg that only wait for an answer: to this ASK, or later */
	struct list asked_for, doubts;
};

void rdmamsg__lease_init(struct dc_session *x);
/* HELLO was sent, and WELCOME will answer it. */
void rdmamsg__lease_greet(struct dc_session *x);
/* WELCOME has arrived. */
void rdmamsg__lease_begin(struct dc_session *x);
/* Twice a second. Asks if messages were sent since the last ASK. */
void rdmamsg__lease_tick(struct dc_session *x);
/* Sends an ASK. The session has an initiator with room. */
void rdmamsg__lease_ask(struct dc_session *x);
/* CREDIT has arrived. It may answer the ASK. */
void rdmamsg__lease_credit(struct dc_session *x, const struct dc_frame *f);
/* Completes a message that the device of the target has acknowledged. */
void rdmamsg__lease_complete(struct dc_session *x, void *cookie);
/* Does so for a message of x->flights. */
void rdmamsg__lease_complete_msg(struct dc_session *x, struct dc_msg *m);

static inline bool rdmamsg__lease_doubts(const struct dc_lease *l)
{
	return !list_empty(&l->asked_for) || !list_empty(&l->doubts);
}

/* Returns true if the session has asked, or has messages in doubt. */
static inline bool rdmamsg__lease_waits(const struct dc_lease *l)
{
	return l->out || rdmamsg__lease_doubts(l);
}

#endif
