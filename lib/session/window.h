/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows of type 2: access to a part of a region for the peer of one
 * endpoint. Requests in the endpoint's send queue bind and invalidate them.
 */
#ifndef RDMAMSG_LIB_WINDOW_H
#define RDMAMSG_LIB_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"

struct rma;

struct rdmamsg_window {
	struct list node;		/* of the endpoint */
	struct rdmamsg_ep *ep;
	struct ibv_mw *mw;
	uint32_t busy;			/* operations that have not completed */
	bool bound;			/* state after the last call */
	/* of the last binding; NULL: the binding has ended */
	struct rdmamsg_region *region;
	uint64_t addr, len;
	uint32_t access;
	uint32_t rkey;
};

/* The peer has invalidated the window with this rkey. */
void rdmamsg__window_taken(struct rdmamsg_ep *ep, uint32_t rkey);
/* Sets the reason, if wc is of an INVALIDATE that the peer refused. */
void rdmamsg__window_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
void rdmamsg__window_fill(const struct rma *r, struct ibv_send_wr *wr);
void rdmamsg__window_done(struct rma *r, int status);
void rdmamsg__windows_free(struct rdmamsg_ep *ep);
/* Ends the last binding, so that its region can be revoked. */
void rdmamsg__window_let_go(struct rdmamsg_window *w);
/* Frees w. Returns an error if the peer may still reach the memory. */
int rdmamsg__window_free(struct rdmamsg_window *w);

#endif
