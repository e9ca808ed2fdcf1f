/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions: a sender and one address, over dynamically connected queue pairs.
 *
 *   HELLO -> GREETED -> OPEN -> CLOSING -> ENDED
 *     |         |
 *     |         WELCOME has not come yet
 *     the frame HELLO is due
 */
#ifndef RDMAMSG_LIB_DC_SESSION_H
#define RDMAMSG_LIB_DC_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "dc/dc.h"
#include "dc/lease.h"
#include "dc/port.h"

struct rdmamsg_ep;

enum session_state {
	SESSION_HELLO,
	SESSION_GREETED,
	SESSION_OPEN,
	SESSION_CLOSING,		/* takes no message, BYE is due */
	SESSION_ENDED,
};

struct dc_session {
	struct dc_peer peer;		/* first */
	struct list node;		/* of the sender */
	struct rdmamsg_dc_sender *s;
	/* NULL: the session has failed, and only says BYE */
	struct rdmamsg_dc_address *a;
	enum session_state state;
	bool bye_sent;
	bool broken;			/* of the target: BYE with an error */
	bool counted;			/* as an end that was cut off */
	uint64_t ticket;		/* of the target's answer */
	uint32_t far_handle;
	uint64_t far_token;
	uint32_t number, credit;	/* of the next message; end */
	uint32_t eager, max_msg;
	uint32_t quiet;			/* ticks since the last frame */
	struct list flights;		/* struct dc_msg, under way */
	struct dc_lease lease;
	struct dc_msg *run;		/* that posts requests, see run.c */
};

/*
 * Begins a session with the DCT that has answered the request of ep. -errno: no
 * session is possible.
 */
int rdmamsg__session_begin(struct rdmamsg_dc_address *a,
			   const struct rdmamsg_ep *ep,
			   const struct dc_answer *answer);
/* Returns true if the message was sent. The address has no message waiting. */
bool rdmamsg__session_send(struct dc_session *x, const void *buf, size_t len,
			   uint32_t tag, void *cookie);
/*
 * Returns -EAGAIN if the session cannot take the message now. Otherwise the
 * session frees it, also after another error.
 */
int rdmamsg__session_offer(struct dc_session *x, struct dc_msg *m);

/* The sender settles: serves its ports, and ends sessions as asked. */
void rdmamsg__sessions_settle(struct rdmamsg_dc_sender *s);
/* Ends all sessions and closes the ports. */
void rdmamsg__sessions_close(struct rdmamsg_dc_sender *s);
/* Returns how many initiators are bound to targets. */
uint32_t rdmamsg__sessions_bound(const struct rdmamsg_dc_sender *s);
/* Makes room for another initiator. Returns false if all are busy. */
bool rdmamsg__sessions_unbind(struct rdmamsg_dc_sender *s);
/* Returns true if a session waits for an initiator. */
bool rdmamsg__sessions_wait(const struct rdmamsg_dc_sender *s);

#endif
