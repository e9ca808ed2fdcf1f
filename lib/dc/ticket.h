/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tickets: admissions of senders to sessions. A target gives one to the address
 * of a request that asks for DC, in its answer, and a HELLO without a ticket
 * makes no session and needs no memory. The limits are those of a listener, so
 * that no address takes the part of others:
 *
 *   given			<= max_half_open, for DCF_FORGET_MS
 *   given + sessions		<= max_senders
 */
#ifndef RDMAMSG_LIB_DC_TICKET_H
#define RDMAMSG_LIB_DC_TICKET_H

#include <stdint.h>
#include <sys/socket.h>

struct rdmamsg_dc_target;
struct ticket;

/* -ENOMEM; -EBUSY: a limit is reached. */
int rdmamsg__ticket_new(struct rdmamsg_dc_target *t,
			const struct sockaddr_storage *from, uint64_t sender,
			uint64_t *ret);
/*
 * Returns the ticket, which is not valid any more, and which the session holds
 * until its end. NULL: none was given, or not to this sender.
 */
struct ticket *rdmamsg__ticket_take(struct rdmamsg_dc_target *t, uint64_t value,
				    uint64_t sender);
/*
 * A pointer for the address that the ticket was given to, NULL at first. It
 * lives as long as the tickets of this address.
 */
void **rdmamsg__ticket_slot(struct ticket *k);
/* The address that the ticket was given to. */
const struct sockaddr_storage *rdmamsg__ticket_from(const struct ticket *k);
/* Drops those of the same address that were not used. */
void rdmamsg__tickets_drop_like(struct rdmamsg_dc_target *t,
				const struct ticket *k);
/* The session has ended. k may be NULL. */
void rdmamsg__ticket_free(struct ticket *k);
/* Every PORT_TICK_MS: drops those that were not used in time. */
void rdmamsg__tickets_tick(struct rdmamsg_dc_target *t);
/* Drops those that were not used. */
void rdmamsg__tickets_drop(struct rdmamsg_dc_target *t);

#endif
