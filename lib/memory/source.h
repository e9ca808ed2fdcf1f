/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources: registrations that peers read large messages with.
 *
 * The memory of an allocated large message stays registered after the message,
 * for the next one to the same peer. That peer can read it in the meantime: it
 * finds messages that were written for it and nothing else. The registration
 * ends before the memory serves another endpoint.
 */
#ifndef RDMAMSG_LIB_SOURCE_H
#define RDMAMSG_LIB_SOURCE_H

#include <stddef.h>
#include <stdint.h>

struct dev;
struct ibv_mr;
struct large;

struct source {
	struct ibv_mr *mr;		/* NULL: none */
	uint64_t addr;			/* where the peer reads */
	size_t len;
	uint64_t reader;		/* id of the endpoint of the peer */
};

/*
 * Registers the first len bytes for a reader, unless they are. Never more than
 * that, because bytes behind a message may be of a message to another peer.
 */
int rdmamsg__source_ready(struct large *l, uint64_t reader, size_t len);
void rdmamsg__source_dereg(struct large *l);
/* The endpoint has ended. */
void rdmamsg__sources_end(struct dev *dev, uint64_t reader);

#endif
