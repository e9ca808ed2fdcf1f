/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The members of a team that asks for native runs meet before its first
 * operation. In two rounds each tells all others: whether it can, with its ends
 * of the channels; and whether all its channels are connected. The team runs
 * natively if all have said yes twice.
 */
#ifndef RDMAMSG_LIB_MEET_H
#define RDMAMSG_LIB_MEET_H

struct rdmamsg_team;

/* Makes what a meeting needs. -ENOMEM */
int rdmamsg__meet_new(struct rdmamsg_team *t);
/* The first operation waits until the meeting is over. */
void rdmamsg__meet_start(struct rdmamsg_team *t);
/* A round has ended without an error. */
void rdmamsg__meet_round(struct rdmamsg_team *t);
/* Has no effect if there is no meeting. */
void rdmamsg__meet_free(struct rdmamsg_team *t);

#endif
