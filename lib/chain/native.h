/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Native runs of the operations of a team. Each member has a channel to each
 * other one, a queue pair beside the endpoint. The requests of a run wait for
 * each other in the device: nobody has to call the library in between.
 *
 *	channel		waits for marks and receives; sends
 *	queue		waits for receives; calculates; its completions
 *			are the marks for which others wait
 *	end		waits for all sends, receives and marks; completes
 *
 * Receives go to slots, and calculations to places, all in one registered
 * block. When the run has ended, the results are copied to the program.
 */
#ifndef RDMAMSG_LIB_NATIVE_H
#define RDMAMSG_LIB_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/chain.h>

#include "base/timer.h"
#include "chain/chain.h"
#include "device/cross.h"

#define NATIVE_MEMBERS	32u		/* of a team, at most */
#define NATIVE_BYTES	4096u		/* of a message, at most */
#define NATIVE_COUNT	32u		/* elements of an all-reduce */
#define NATIVE_SLOTS	8u		/* receives of a channel */
#define NATIVE_STEPS	48u		/* of a run, at most */

struct cq;
struct dev;
struct proto_team_meet;
struct rdmamsg;
struct rdmamsg_team;

/* All counts are of the channel's life and wrap. */
struct channel {
	struct cross cross;
	struct ibv_cq *send_cq, *recv_cq;
	uint32_t send_num, recv_num;	/* of these queues, in requests */
	uint32_t psn;			/* first of this side */
	uint32_t sent;			/* sends posted, all signaled */
	uint32_t used;			/* receives that runs wait for */
	uint32_t arrived;		/* receives polled */
	uint32_t posted;
	struct {
		uint32_t len, tag;
	} got[NATIVE_SLOTS];		/* arrived, by slot */
	uint8_t *slots;
};

/* Where the run has what the program has at 'user'. */
struct place {
	const void *user;
	uint8_t *at;
	size_t len;
	bool result;			/* to be copied to the program */
};

/* A message that the run waits for. */
struct expected {
	uint32_t step, rank;
	uint32_t index;			/* of the channel's receives */
};

struct native {
	struct rdmamsg_team *team;
	struct rdmamsg *ctx;
	struct dev *dev;
	uint32_t handle;		/* in wr_id */
	uint8_t *mem;
	size_t size;
	struct ibv_mr *mr;
	struct channel *channels;	/* by rank */
	struct cross queue, end;
	struct ibv_cq *mark_cq;
	uint32_t mark_num;		/* of mark_cq, in requests */
	uint32_t marks;			/* signaled requests of queue, ever */
	struct cq *cq;			/* of the context, for end */

	/* the run */
	bool runs;
	bool swaps;			/* elements are in network order */
	uint32_t first_mark;		/* marks before the run */
	uint8_t *areas;
	size_t area_used;
	struct place places[NATIVE_STEPS];
	struct expected expected[NATIVE_STEPS];
	uint32_t place_count, expected_count;
	uint32_t unmarked;		/* first of 'expected' without a mark */
	uint64_t targets;		/* ranks, as bits, sent to in the run */

	struct timer look;		/* at errors and messages meanwhile */
	uint64_t broken_at;		/* ms; 0: it works */
	uint32_t broken_rank;
	char broken_text[96];
};

/* channel.c */
/* Makes the channels of a team, or fails with a text if the team can't. */
int rdmamsg__native_open(struct rdmamsg_team *t, struct native **ret);
/* Fills in what the member of this rank has to know. */
void rdmamsg__native_offer(const struct native *n, uint32_t rank,
			   struct proto_team_meet *ret);
int rdmamsg__native_connect(struct native *n, uint32_t rank,
			    const struct proto_team_meet *peer);
/* Ends a run, too. n may be NULL. */
void rdmamsg__native_free(struct native *n);
/* Posts receives for the slots that no run needs any more. */
int rdmamsg__channel_refill(struct native *n, struct channel *ch);

/* native.c */
/*
 * Starts a run of the team's chain, whose steps are of one queue. swaps: the
 * steps are of an all-reduce. -errno with a text: nothing or a part is posted,
 * so the team has failed.
 */
int rdmamsg__native_start(struct native *n, bool swaps);
/* The endpoint to the member has ended. Returns true if the run needs it. */
bool rdmamsg__native_needs(struct native *n, uint32_t rank);
/* Handles a completion with CHAIN_KEY. */
void rdmamsg__native_completed(struct rdmamsg *ctx, const struct ibv_wc *wc);
void rdmamsg__native_look(struct timer *look);

#endif
