/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Native runs of a chain. Its steps become requests that wait for each other in
 * the device: nobody has to call the library in between.
 *
 *	channel		sends, after the steps before
 *	queue		calculates, after the steps before; its completions
 *			are marks, for which later steps wait
 *	end		waits for all sends, receives and marks; completes
 *
 * Nothing runs for a step that receives, waits or enables: the requests of
 * later steps wait for what it waits for.
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
#include "chain/channel.h"
#include "device/cross.h"

#define NATIVE_ENDS	32u		/* endpoints of a chain */
#define NATIVE_STEPS	256u		/* of a chain */
#define NATIVE_COUNT	32u		/* elements of a calculation */
#define NATIVE_CONDS	256u		/* of a queue, see below */
#define NATIVE_CALCS	1024u		/* requests of a queue, half in a run */
#define NATIVE_AREAS	((size_t)64 << 10)
/* for sends and receives of each endpoint, and marks of each queue */
#define NATIVE_WAITS	(2 * NATIVE_ENDS + RDMAMSG_CHAIN_QUEUES)

struct cq;
struct dev;
struct rdmamsg;

/* The completion queue 'num' has had 'index' completions. */
struct cond {
	uint32_t num, index;
};

/*
 * A queue of the chain; its queue pair is for calculations. A step waits for
 * the last mark before it, and for the conditions that have come since then.
 */
struct nqueue {
	struct cross cross;
	struct ibv_cq *cq;
	uint32_t num;			/* of cq, in requests */
	uint32_t marks;			/* completions of cq, ever */
	uint32_t undrained;		/* requests since cq was polled */

	/* the run */
	uint32_t first_mark;		/* marks before the run */
	uint32_t requests;
	struct seen seen;
	uint32_t unmarked;		/* first condition after the mark */
	uint32_t count;
	struct cond conds[NATIVE_CONDS];
};

/* The conditions of a queue when a step is done. */
struct moment {
	uint32_t mark, from, to;
};

/* Where the run has what the program has at 'user'. */
struct place {
	const uint8_t *user;
	size_t len;
	uint8_t *at;
	uint32_t lkey;
	bool result;			/* to be copied to the program */
};

/* A message that the run waits for. */
struct expected {
	uint32_t step;
	uint32_t index;			/* of the channel's receives */
	struct chain_ep *end;
};

struct request {
	const struct cross *to;
	enum { REQUEST_WAIT, REQUEST_SEND, REQUEST_CALC } kind;
	bool signaled;
	union {
		struct cond wait;
		struct {
			struct ibv_sge sge;	/* length 0: no data */
			uint32_t tag;
		} send;
		struct cross_calc calc;
	};
};

struct native {
	struct rdmamsg_chain *chain;
	struct rdmamsg *ctx;
	struct dev *dev;
	uint32_t handle;		/* in wr_id */
	uint8_t *areas;
	struct ibv_mr *mr;		/* of areas */
	struct nqueue *queues[RDMAMSG_CHAIN_QUEUES]; /* NULL: none yet */
	struct cross end;
	struct cq *cq;			/* of the context, for end */

	/* the run */
	bool runs;
	size_t area_used;
	struct request *requests;
	uint32_t request_count, request_room;
	struct place places[NATIVE_STEPS];
	struct expected expected[NATIVE_STEPS];
	struct moment moments[NATIVE_STEPS];	/* by step */
	struct chain_ep *ends[NATIVE_ENDS];
	uint32_t place_count, expected_count, end_count;

	struct timer look;		/* at errors and messages meanwhile */
	uint64_t broken_at;		/* ms; 0: it works */
	struct chain_ep *broken_end;	/* NULL: of this side */
	char broken_text[96];
};

/* native_make.c */
/* Makes what runs of a chain on this device need. */
int rdmamsg__native_open(struct rdmamsg_chain *c, struct dev *dev,
			 struct native **ret);
/* Make what a queue of the chain needs, unless it is there. -errno, a text */
int rdmamsg__native_queue(struct native *n, uint32_t queue);
int rdmamsg__native_calculates(struct native *n, uint32_t queue);
/*
 * No request of a channel may wait for a mark any more: close the channels of a
 * run first. n may be NULL.
 */
void rdmamsg__native_free(struct native *n);

/* compile.c */
/*
 * Makes the requests of a run. -EOPNOTSUPP: the chain has steps that do not run
 * natively, with a text that names one. On failure nothing has changed.
 */
int rdmamsg__native_compile(struct native *n);
/* Copies the results of the run to the program. */
void rdmamsg__native_results(const struct native *n);

/* native.c */
/*
 * Starts a run, of which rdmamsg__chain_finish() or rdmamsg__chain_fail() is
 * the end. All endpoints have channels. -EOPNOTSUPP: the chain does not run
 * natively, and nothing was posted.
 */
int rdmamsg__native_start(struct rdmamsg_chain *c);
/*
 * The run ends before its requests have. Closes its channels, because nobody
 * knows what is done, and frees the rest. The endpoints without a team end.
 */
void rdmamsg__native_spoil(struct rdmamsg_chain *c);
/*
 * The endpoint has ended without an error. Returns true if a run needs it.
 * Closes its channel if nothing will run with it: a meeting, or a team, goes on
 * with the messages that have come.
 */
bool rdmamsg__native_needs(struct chain_ep *end);
/*
 * The loop runs an operation of a native team. Looks now and then for a member
 * that runs another one natively.
 */
void rdmamsg__native_watch(struct rdmamsg_chain *c);
/*
 * An endpoint has ended. Frees what chains with it have on its device, which
 * may be removed. A run that goes on without the endpoint keeps it.
 */
void rdmamsg__natives_let_go(struct chain_ep *end);
/* Handles a completion with CHAIN_KEY and a number of 'natives'. */
void rdmamsg__native_completed(struct rdmamsg *ctx, const struct ibv_wc *wc);
void rdmamsg__native_look(struct timer *look);

#endif
