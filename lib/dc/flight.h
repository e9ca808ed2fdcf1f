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

#include "base/masked.h"
#include "dc/session.h"
#include "wire/dc_frame.h"

#define FLIGHT_ROOM	2u	/* requests of a message that is no run */
#define REQUEST_MAX	((size_t)1 << 30)	/* bytes of a request */

struct layout_import;
struct proto_key;

/* The kinds of struct dc_tx. */
enum flight_kind {
	FLIGHT_FRAME,			/* completes nothing */
	FLIGHT_DATA,			/* completes its cookie */
	FLIGHT_OP,			/* completes a struct dc_msg */
	FLIGHT_PART,			/* of a struct dc_msg */
	FLIGHT_BYE,
};

/* A run: its next request transfers these bytes. */
struct dc_run {
	struct layout_import *far;	/* held; NULL: memory in one piece */
	int entry;
	uint64_t at;			/* in the entry */
	uint64_t raddr;			/* far: offset in it */
	uint32_t rkey;
	uint64_t left;			/* bytes */
};

/* A masked atomic, as tries of compare-and-swap: masked.c. */
struct dc_tries {
	struct masked m;		/* in its place in the word */
	uint64_t raddr;			/* of the word */
	uint32_t rkey;
	uint32_t shift;
	uint64_t expected, operand;	/* of the next try */
	uint32_t left;
	bool out;			/* a try is under way */
};

/* A message or operation that needs registrations, or several requests. */
struct dc_flight {
	uint32_t number;		/* of an announced message */
	bool announced;
	int status;			/* of the first part that failed */
	struct dc_run run;
	struct dc_tries *tries;		/* NULL: no masked atomic */
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
		.type = (uint8_t)type, .handle = x->far_handle,
		.token = x->far_token, .number = number, .tag = tag,
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
/* Posts the message behind the data of a DC_WRITE_IMM. */
void rdmamsg__flight_notify(struct dc_session *x, struct dc_msg *m);
/* A request of kind FLIGHT_DATA has completed. */
void rdmamsg__flight_data_done(struct dc_session *x, void *cookie, int status);
/* A request of kind FLIGHT_PART has completed. */
void rdmamsg__flight_part_done(const struct dc_tx *tx, int status);
/* A request of kind FLIGHT_OP has completed. */
void rdmamsg__flight_op_done(struct dc_session *x, const struct dc_tx *tx,
			     int status);
/* DONE has arrived. */
void rdmamsg__flight_done(struct dc_session *x, const struct dc_frame *f);
/* CREDIT has arrived. It may answer for messages that are in doubt. */
void rdmamsg__flight_answered(struct dc_session *x, const struct dc_frame *f);
/* Completes a message of x->flights, or one that was in doubt, and frees it. */
void rdmamsg__flight_end(struct dc_session *x, struct dc_msg *m, int status);

/* masked.c */
/* Checks the operand of a masked atomic: -EOPNOTSUPP, -ERANGE. */
int rdmamsg__tries_check(const struct dc_op *o, const struct proto_key *key,
			 const struct layout_import *far);
/* Posts the first try. The session posts nothing else before the last one. */
int rdmamsg__tries_begin(struct dc_session *x, struct dc_msg *m,
			 const struct proto_key *key);
/* Posts the next try of x->run, unless one is under way. */
void rdmamsg__tries_go_on(struct dc_session *x);
/*
 * Takes the answer of a try. Returns false if another try must follow.
 * Otherwise the operation ends with *status.
 */
bool rdmamsg__tries_done(struct dc_session *x, struct dc_msg *m,
			 const struct dc_tx *tx, int *status);

/* run.c */
/* Begins a run of at least one byte. The message has a flight. */
void rdmamsg__run_begin(struct dc_session *x, struct dc_msg *m,
			const struct proto_key *key, struct layout_import *far,
			uint64_t len);
/* Posts requests of x->run. Afterwards x->run is NULL if all are posted. */
void rdmamsg__run_go_on(struct dc_session *x);

#endif
