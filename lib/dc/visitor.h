/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Visitors: the target's side of sessions. A visitor has credits for receives
 * of the port, so that no visitor can use up those of another:
 *
 *   next <= announced, announced - next + kept <= grant
 *   sum of grants + HELLOS <= depth
 *
 * A large message is read in order. Messages behind it wait in 'queue', and the
 * credits bound their number.
 */
#ifndef RDMAMSG_LIB_DC_VISITOR_H
#define RDMAMSG_LIB_DC_VISITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "dc/dc.h"
#include "dc/port.h"

struct rdmamsg_request;

/*
 * Writes the place of the target's DCT to *ret. -errno: there is none, so the
 * sender connects. Called if rdmamsg__dc_offers() has returned true.
 */
int rdmamsg__visitors_place(struct rdmamsg_dc_target *t,
			    struct dc_place *ret);
/* Returns the violations that devices have counted. */
uint32_t rdmamsg__visitors_violations(const struct rdmamsg_dc_target *t);
/* Asks all visitors to end. due() of the target follows the last. */
void rdmamsg__visitors_leave(struct rdmamsg_dc_target *t);
/* Ends those that leave at the next tick, without their BYE. */
void rdmamsg__visitors_cut(struct rdmamsg_dc_target *t);
/* Ends all visitors at once, and closes the port. */
void rdmamsg__visitors_close(struct rdmamsg_dc_target *t);

/* target.c */
/* The last visitor has ended. */
void rdmamsg__dc_target_due(struct rdmamsg_dc_target *t);
/* Tells of a violation. from: NULL if the device has found it. */
void rdmamsg__dc_target_violated(struct rdmamsg_dc_target *t,
				 const struct sockaddr_storage *from);
/* Opens the device of the target: a reference, or -errno. */
int rdmamsg__dc_target_dev(struct rdmamsg_dc_target *t, struct dev **ret);

#endif
