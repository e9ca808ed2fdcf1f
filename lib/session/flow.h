/* SPDX-License-Identifier: BSD-2-Clause */
/* Hooks of flow.c in sending and closing. */
#ifndef RDMAMSG_LIB_FLOW_H
#define RDMAMSG_LIB_FLOW_H

struct rdmamsg_ep;

/* Completes the sends that the program has cancelled. */
void rdmamsg__flow_canceled(struct rdmamsg_ep *ep);

#endif
