/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared messages in the session: what a reference that is sent or freed does.
 * While the program has references, the message counts as lent, and then, while
 * operations send it, in lent->sent.
 */
#ifndef RDMAMSG_LIB_SESSION_SHARED_H
#define RDMAMSG_LIB_SESSION_SHARED_H

struct rdmamsg_ep;
struct rdmamsg_msg;
struct share;

/* Drops a reference of the program. Any thread, also without a context. */
void rdmamsg__shared_free(struct rdmamsg_msg *msg);
/* Drops a reference of the program. Context's thread. */
void rdmamsg__shared_consume(struct rdmamsg_msg *msg);
/* A reference of the program becomes one of an operation. */
void rdmamsg__shared_pass(struct rdmamsg_msg *msg);
/* Returns 0 if the endpoint can send the message, or -errno. */
int rdmamsg__shared_check(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
/* The program has no more references. */
void rdmamsg__shared_given(struct share *s);

#endif
