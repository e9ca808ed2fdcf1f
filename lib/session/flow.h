/* SPDX-License-Identifier: BSD-2-Clause */
/* Hooks of flow.c in sending and closing. */
#ifndef RDMAMSG_LIB_FLOW_H
#define RDMAMSG_LIB_FLOW_H

struct op;
struct rdmamsg_ep;

/*
 * Takes an operation that has not begun out of the send queue. The caller
 * completes it.
 */
void rdmamsg__flow_take_back(struct rdmamsg_ep *ep, struct op *op);
/* Completes the sends that the program has cancelled. */
void rdmamsg__flow_canceled(struct rdmamsg_ep *ep);

#endif
