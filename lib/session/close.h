/* SPDX-License-Identifier: BSD-2-Clause */
/* Closing and failing, and the reason of the end. */
#ifndef RDMAMSG_LIB_CLOSE_H
#define RDMAMSG_LIB_CLOSE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#include "base/timer.h"
#include "wire/proto.h"

/* Bits, because of the size of struct rdmamsg_ep. */
struct closing {
	/* CLOSE: ours, completed; the peer's */
	bool sent : 1, done : 1, seen : 1;
	bool asserted : 1;		/* our CLOSE confirms the peer's */
	bool once : 1;			/* and is the only one */
	/* the peer's CLOSE confirms ours, all before too */
	bool confirmed : 1;
	bool proving : 1;		/* a proof follows it */
	/* 'asserted' CLOSE, or its proof, completed */
	bool asserted_done : 1;
	bool by_peer : 1;		/* the peer sent CLOSE first */
	bool aborted : 1;		/* by the program */
	bool lost : 1;			/* a request before CLOSE has failed */
	bool undelivered : 1;		/* messages that had arrived */
	bool lost_read : 1;		/* a read has failed or is unproven */
	bool disconnect_sent : 1, disconnected : 1;
	bool unanswered : 1;		/* our disconnect, within its time */
	bool reason_set : 1;
	bool told : 1;			/* on_closed */
	bool failing : 1;		/* rdmamsg__ep_kill(), not acted on */
	bool gap : 1;			/* a message was skipped */
	bool saying : 1;		/* ABORT is on its way */
	bool aborted_by_peer : 1;	/* its ABORT has come */
	bool has_word : 1;		/* of the peer, in the reason */
	uint8_t word_len;		/* connect.word_data: of this side */
	uint32_t code;			/* of this side's word */
	uint32_t seq;			/* sq_posted of the first CLOSE */
	uint32_t rx;			/* rdmamsg__rx_count() at the last one */
	struct rdmamsg_reason reason;
	uint8_t reason_data[PROTO_HELLO_DATA_MAX];
};

#define CLOSE_PROOF	2	/* tag of the operation behind the CLOSE */

/* ep_reason.c */
/* Sets the reason of the end. Later calls do not change it. */
void rdmamsg__ep_reason(struct rdmamsg_ep *ep, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error,
			const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* Clears the reason, with status codes, and all but a word of the peer. */
void rdmamsg__ep_reason_forget(struct rdmamsg_ep *ep);
/* Text for a peer that does not answer any more and has disconnected. */
const char *rdmamsg__peer_gone_text(const struct rdmamsg_ep *ep);
/*
 * The end of the text of a connection that was not established: the peer may be
 * beyond the reach of the soft HCA although its record was not. "" otherwise.
 */
const char *rdmamsg__apart_text(const struct rdmamsg_ep *ep);
/* Of a device that tells the end of the connection as a local error. */
const char *rdmamsg__unsent_text(void);
void rdmamsg__ep_wc_error(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
/*
 * Returns true if each side knows that the other has closed, and messages wait
 * until this program takes them. They must not be lost, because the peer was told
 * that they are delivered, and the lane is not needed any more.
 */
bool rdmamsg__ep_is_over(const struct rdmamsg_ep *ep);
/* Names the operation that failed. NULL: the completion does not tell. */
const char *rdmamsg__ep_operation(const struct rdmamsg_ep *ep,
				  const struct ibv_wc *wc);
/* Posting, arming or polling failed. The device may be gone. */
void rdmamsg__ep_device_failed(struct rdmamsg_ep *ep, int err,
			       const char *what);
void rdmamsg__ep_removed(struct rdmamsg_ep *ep);
/* Counts a wrong key or a protocol error of the peer. */
void rdmamsg__ep_offended(struct rdmamsg_ep *ep);
/* The peer refuses: 'code' is enum proto_reject, limit enum proto_limit. */
void rdmamsg__ep_refused(struct rdmamsg_ep *ep, uint32_t code, uint32_t limit);
/* This side refuses the peer, for lack of a proof. */
void rdmamsg__ep_refuses(struct rdmamsg_ep *ep, enum proto_reject code);
/* Text for a limit of a listener, to follow "limits". */
const char *rdmamsg__limit_text(uint32_t limit);
void rdmamsg__ep_protocol(struct rdmamsg_ep *ep, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ep_close.c */
/*
 * Marks an endpoint as ending. The loop then moves the queue pair to error,
 * disconnects, drains and calls on_closed.
 */
void rdmamsg__ep_kill(struct rdmamsg_ep *ep);
/* Ends an endpoint for a reason of this program, unless it ends already. */
void rdmamsg__ep_abort(struct rdmamsg_ep *ep, enum rdmamsg_cause cause,
		       int error, const char *text);
/*
 * In EP_CLOSING: the peer has disconnected, so wait for at most GONE_MS. If the
 * peer may ask over another lane, wait for LINGER_MS, from when it has noticed
 * that this one is lost. close_timeout_ms limits both.
 */
void rdmamsg__ep_peer_gone(struct rdmamsg_ep *ep);
void rdmamsg__ep_progress_close(struct rdmamsg_ep *ep);
void rdmamsg__ep_peer_closes(struct rdmamsg_ep *ep);
/*
 * The end of a call that creates an endpoint. If ret is an error, frees the
 * endpoint without a callback.
 */
int rdmamsg__ep_made(struct rdmamsg_ep *ep, int ret,
		     struct rdmamsg_ep **ret_ep);
void rdmamsg__ep_deadline(struct timer *t);
/* Text for an endpoint that is not connected yet: "resolving the address". */
const char *rdmamsg__ep_waits_for(const struct rdmamsg_ep *ep);
/* Replaces the reason by that of the tries of RDMAMSG_EP_RETRY, if any. */
void rdmamsg__ep_tried(struct rdmamsg_ep *ep);
/*
 * Writes "18 refused, 2 timeout" for counts by cause. Returns the number of
 * causes.
 */
unsigned int rdmamsg__met_text(const uint32_t *met, char *buf, size_t size);

#endif
