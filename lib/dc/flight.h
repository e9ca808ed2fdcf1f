/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages and one-sided operations of a session that are under way: their
 * requests, their registrations, and what completes them.
 */
#ifndef RDMAMSG_LIB_DC_FLIGHT_H
#define RDMAMSG_LIB_DC_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "dc/session.h"
#include "wire/dc_frame.h"

#define FLIGHT_ROOM	2u	/* requests of a message, at most */

/* The kinds of struct dc_tx. */
enum flight_kind {
	FLIGHT_FRAME,			/* completes nothing */
	FLIGHT_DATA,			/* completes its cookie */
	FLIGHT_OP,			/* completes a struct dc_msg */
	FLIGHT_BYE,
};

/* Registrations for one message. */
struct dc_flight {
	uint32_t number;		/* of an announced message */
	bool announced;
	uint32_t count;
	struct ibv_mr *mr[RDMAMSG_SEGMENTS_MAX];
};

/* Returns true if the message has a number, and takes a credit. */
static inline bool rdmamsg__flight_numbered(const struct dc_msg *m)
{
	return m->kind == DC_COPY || m->kind == DC_BORROW ||
	       m->kind == DC_WRITE_IMM;
}

static inline struct dc_frame rdmamsg__session_header(
	const struct dc_session *x, enum dcf_type type, uint32_t number,
	uint32_t tag)
{
	return (struct dc_frame){
		.type = (uint8_t)type, .generation = x->far_generation,
		.handle = x->far_handle, .number = number, .tag = tag,
	};
}

/* Writes the header of a frame into the slot of the next request. */
static inline void rdmamsg__session_frame(const struct dc_session *x,
					  enum dcf_type type, uint32_t number,
					  uint32_t tag)
{
	const struct dc_frame f = rdmamsg__session_header(x, type, number, tag);

	rdmamsg__dcf_encode(&f, rdmamsg__peer_slot(&x->peer));
}

/*
 * Posts the requests of a message. The session has room and a credit. On
 * success the session owns the message, or has freed it.
 */
int rdmamsg__flight_begin(struct dc_session *x, struct dc_msg *m);
/* A request of kind FLIGHT_OP has completed. */
void rdmamsg__flight_op_done(struct dc_session *x, const struct dc_tx *tx,
			     int status);
/* DONE has arrived. */
void rdmamsg__flight_done(struct dc_session *x, const struct dc_frame *f);
/* Completes a message of x->flights, and frees it. */
void rdmamsg__flight_end(struct dc_session *x, struct dc_msg *m, int status);

#endif
