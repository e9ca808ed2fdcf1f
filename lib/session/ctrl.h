/* SPDX-License-Identifier: BSD-2-Clause */
/* Control messages of an endpoint. */
#ifndef RDMAMSG_LIB_SESSION_CTRL_H
#define RDMAMSG_LIB_SESSION_CTRL_H

#include <stdbool.h>
#include <stddef.h>

struct proto_hdr;
struct rdmamsg_ep;

void rdmamsg__ctrl_pump(struct rdmamsg_ep *ep);
/*
 * Sends ABORT with the word of this side, if the peer understands it and there
 * is room. close.saying ends when the peer has it. Returns false if it was not
 * sent.
 */
bool rdmamsg__ctrl_abort(struct rdmamsg_ep *ep);
/* Withdraws announced_max: the budget need not hold such a message. */
void rdmamsg__max_msg_forget(struct rdmamsg_ep *ep);
void rdmamsg__ctrl_setup(struct rdmamsg_ep *ep, const void *buf, size_t len);
/* Lets an endpoint in that waits in the lobby for a place. */
void rdmamsg__ctrl_let_in(struct rdmamsg_ep *ep);
void rdmamsg__ctrl_auth(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
			const void *buf, size_t len);

#endif
