/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows of type 2: access to a part of a region for the peer of one
 * endpoint, given and taken back in its send queue.
 */
#ifndef RDMAMSG_LIB_WINDOW_H
#define RDMAMSG_LIB_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "base/list.h"

struct rma;

struct rdmamsg_window {
	struct list node;		/* of the endpoint */
	struct rdmamsg_ep *ep;
	struct ibv_mw *mw;
	uint32_t busy;			/* operations on it */
	bool bound;			/* as of the last call */
	/* of the last binding; NULL: it has ended */
	struct rdmamsg_region *region;
	uint64_t addr, len;
	uint32_t access;
	uint32_t rkey;
};

/* The peer has taken back the one with this key. */
void rdmamsg__window_taken(struct rdmamsg_ep *ep, uint32_t rkey);
/* Notes the reason, if it was one of the peer's that could not be. */
void rdmamsg__window_refused(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
void rdmamsg__window_fill(const struct rma *r, struct ibv_send_wr *wr);
void rdmamsg__window_done(struct rma *r, int status);
void rdmamsg__windows_free(struct rdmamsg_ep *ep);
/* The region of its last binding may end. */
void rdmamsg__window_let_go(struct rdmamsg_window *w);
/* 0, or why the peer may still reach it; there is nothing more to be done. */
int rdmamsg__window_free(struct rdmamsg_window *w);

#endif
