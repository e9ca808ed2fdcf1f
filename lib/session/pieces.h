/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of middle size, which are sent as a run of eager pieces. send.h has
 * the calls that send them.
 */
#ifndef RDMAMSG_LIB_PIECES_H
#define RDMAMSG_LIB_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session/destination.h"

struct rdmamsg_ep;
struct rdmamsg_msg;

/* The runs of the peer. At most one run arrives at a time. */
struct pieces {
	uint32_t max;			/* largest message, as in our SETUP */
	uint32_t left;			/* bytes of the run that are to come */
	uint32_t index;			/* of the piece that came last */
	uint32_t waiting;		/* first pieces in rndv.waiting */
	uint32_t filled;		/* bytes in dst */
	uint32_t crc;			/* of these bytes */
	struct destination dst;		/* of the run whose turn it is */
};

/* SETUP has come: the limit for messages that this side sends in pieces. */
void rdmamsg__pieces_agreed(struct rdmamsg_ep *ep);
/* Returns true, and ends the endpoint, if a run is not complete yet. */
bool rdmamsg__pieces_broken(struct rdmamsg_ep *ep);
/*
 * Check the place of a piece that has arrived. After false the endpoint ends.
 * Of the first piece, msg->data and msg->len become its payload.
 */
bool rdmamsg__pieces_first(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
bool rdmamsg__pieces_more(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
/*
 * Takes memory for the message of this first piece. After false the piece
 * waits, or the endpoint ends.
 */
bool rdmamsg__pieces_begin(struct rdmamsg_ep *ep,
			   const struct rdmamsg_msg *first);
/* Adds the next piece. Returns the message if it is whole, else NULL. */
struct rdmamsg_msg *rdmamsg__pieces_add(struct rdmamsg_ep *ep,
					const struct rdmamsg_msg *piece);

#endif
