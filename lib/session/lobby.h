/* SPDX-License-Identifier: BSD-2-Clause */
/* The lobby: endpoints whose peer has not sent its SETUP have one receive. */
#ifndef RDMAMSG_LIB_SESSION_LOBBY_H
#define RDMAMSG_LIB_SESSION_LOBBY_H

struct rdmamsg_ep;

int rdmamsg__lobby_receives(struct rdmamsg_ep *ep);
/* The peer's SETUP has come. After a failure no receives are posted. */
int rdmamsg__lobby_leave(struct rdmamsg_ep *ep);
/* Undoes the charge for receives to the address of the peer. */
void rdmamsg__lobby_credit(struct rdmamsg_ep *ep);

#endif
