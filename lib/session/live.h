/* SPDX-License-Identifier: BSD-2-Clause */
/* Liveness of the peer: its program (live.c) and its device (dead.c). */
#ifndef RDMAMSG_LIB_LIVE_H
#define RDMAMSG_LIB_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/timer.h"

struct rdmamsg_ep;

/* The clock of dead_after_ms: dead.c. */
struct dead {
	uint64_t since;			/* ms; 0: the clock does not run */
	uint32_t done;			/* lane.sq.done at the last tick */
	bool port_down;			/* if so, no keepalive is posted */
	bool grace;			/* a late tick has delayed the end */
	bool told;			/* half of the time is over */
};

#define RNR_RETRY_AUTO	8		/* the program set no rnr_retry_count */

struct liveness {
	struct timer timer;		/* the tick */
	uint64_t heard;			/* ms, last sign of peer's program */
	uint64_t fetched; /* ms, last sign that the peer reads our messages */
	uint64_t rx_seen;		/* rdmamsg__rx_count() at last tick */
	struct dead dead;
	bool fetches;			/* such a sign since the last tick */
	bool ping_out, stalled, keepalive_out;
	bool ask_again;			/* tx_ask() after this keepalive */
	uint32_t nudge_ms;		/* to the next nudge */
	bool asks_program; /* completions prove only themselves: see dead.c */
	bool answered;			/* a read, since the last tick */
	uint32_t ping_seq;		/* request of the last PING */
	uint32_t late_ms;		/* the last tick was late by this time */
};

/* live.c */
void rdmamsg__live_start(struct rdmamsg_ep *ep);
void rdmamsg__live_stop(struct rdmamsg_ep *ep);
void rdmamsg__live_heard(struct rdmamsg_ep *ep);
/*
 * Until the peer answers SETUP, posts an empty write from time to time, so that
 * its device reads what has arrived.
 */
void rdmamsg__live_nudge(struct rdmamsg_ep *ep);
/* The last request is a PING, or a PATH in its place. */
void rdmamsg__live_asked(struct rdmamsg_ep *ep);
/*
 * Returns true if the peer may have ended the connection because this program
 * has not come back into the library for dead_after_ms of the peer.
 */
bool rdmamsg__live_was_away(const struct rdmamsg_ep *ep);

/* dead.c */
/* Returns dead_after_ms, or its default on the device of the lane. */
uint32_t rdmamsg__dead_after(const struct rdmamsg_ep *ep);
/* Sets timeout and both retry counts; the features must be known. */
void rdmamsg__dead_transport(const struct rdmamsg_ep *ep,
			     struct ibv_qp_attr *attr);
/* Returns the RNR retry count for a peer with these PROTO_FEATURE_*. */
uint8_t rdmamsg__rnr_retry(const struct rdmamsg_ep *ep, uint32_t features);
/*
 * Returns true if a request fails on this device for want of a route, so that a
 * keepalive would end the connection.
 */
bool rdmamsg__sends_fail(const struct rdmamsg_ep *ep);
/*
 * Part of the liveness tick, which has polled the completion queues since
 * 'began'. For 'stood' ms before that, this process did not run. Returns false
 * if the endpoint has ended.
 */
bool rdmamsg__dead_tick(struct rdmamsg_ep *ep, bool heard, uint64_t began,
			uint32_t stood);
/*
 * Returns true if the peer's device has acknowledged all that it was asked, or
 * on iWARP if the peer's program has answered lately.
 */
bool rdmamsg__dead_acked(const struct rdmamsg_ep *ep);
/* To the next tick, which is one of at most so many ms. */
uint32_t rdmamsg__dead_ms(const struct rdmamsg_ep *ep);
uint32_t rdmamsg__dead_period(const struct rdmamsg_ep *ep);

#endif
