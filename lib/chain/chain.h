/* SPDX-License-Identifier: BSD-2-Clause */
/* Chains, the endpoints that belong to them, and teams. */
#ifndef RDMAMSG_LIB_CHAIN_H
#define RDMAMSG_LIB_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/chain.h>
#include <rdmamsg/rdmamsg.h>

#include "base/handles.h"
#include "base/list.h"
#include "base/timer.h"

#define NO_STEP		UINT32_MAX
#define NO_QUEUE	UINT8_MAX
#define KEPT_SMALL	48		/* bytes */

/* The part of a context for chains. */
struct chains {
	struct rdmamsg_chain *waited;	/* of a blocking call; NULL: ended */
	struct rdmamsg_chain_end waited_end;
	struct list all;		/* chains of the program */
	struct list teams;
	struct list ended;		/* runs whose on_done is due */
	struct handles natives;		/* struct native, by number in wr_id */
	struct handles carries;		/* struct carry, the same */
	struct timer again;		/* TELL_MAX was reached */
	uint64_t round;			/* ctx->sessions->rounds of 'told' */
	uint32_t told;			/* calls of on_done in this round */
};

enum step_kind { STEP_SEND, STEP_RECV, STEP_WAIT, STEP_ENABLE, STEP_CALC };

struct step {
	uint8_t kind;			/* enum step_kind */
	uint8_t op, type;		/* calc */
	uint8_t other;			/* wait, enable: queue */
	uint32_t next;			/* step of the same queue */
	uint32_t n;			/* wait, enable */
	uint32_t tag;
	struct chain_ep *end;		/* send, receive */
	size_t len;			/* bytes; calc: elements */
	void *dst;			/* receive, calc */
	const void *a, *b;		/* send: a */
};

/* All of a run's, except first, last and count. */
struct queue {
	uint32_t first, last, count;	/* steps */
	uint32_t head;			/* next step, or NO_STEP */
	uint32_t done;
	uint32_t allowed;		/* runs while done < allowed */
	uint64_t watchers;		/* queues that wait for it */
};

/* An endpoint of a chain. */
struct chain_use {
	struct list node;		/* of end->uses */
	struct rdmamsg_chain *chain;
	struct chain_ep *end;
	uint8_t sends, receives;	/* queue, or NO_QUEUE */
};

/* Whether the steps of a chain can run natively. */
enum fits { FITS_UNKNOWN, FITS_YES, FITS_NO };

enum chain_state { CHAIN_IDLE, CHAIN_RUNS, CHAIN_ENDED };

struct rdmamsg_chain {
	uint64_t ready;			/* queues that may go on */
	struct step *steps;
	uint32_t count, room;
	uint32_t left;			/* steps not done in this run */
	uint32_t queue_count;		/* highest queue in use + 1 */
	enum chain_state state;
	bool checked;			/* the order can end */
	uint64_t managed;		/* queues that a step enables */
	struct queue queues[RDMAMSG_CHAIN_QUEUES];
	struct chain_use *uses;
	uint32_t use_count, use_room;

	struct rdmamsg *ctx;
	struct rdmamsg_chain_options opts;
	struct rdmamsg_chain_handlers on;
	struct list node;		/* of the context */
	struct list ended_node;
	struct timer timer;
	struct rdmamsg_chain_end end;
	struct rdmamsg_team *team;	/* whose chain this is, or NULL */
	struct meeting *meeting;	/* the same */
	struct meeting *meets;		/* it waits for this one, or will */
	struct native *native;		/* runs it, if it runs natively */
	uint8_t fits;			/* enum fits */
	bool carried;			/* see carry.h */
};

/*
 * A message that waits for a step. A few small messages are copied, because
 * their receives can then be used again at once.
 */
struct kept {
	struct rdmamsg_msg *msg;	/* NULL: copied */
	uint32_t len, tag;
	uint8_t data[KEPT_SMALL];
};

/* Whether native runs can use the endpoint. Both sides know the same. */
enum met { MET_NOT, MET_YES, MET_NO, MET_OVER };

/* An endpoint that belongs to chains. Outlives the struct rdmamsg_ep. */
struct chain_ep {
	struct rdmamsg_ep *ep;		/* NULL: has ended */
	struct list uses;		/* struct chain_use, of chains */
	struct rdmamsg_chain *busy;	/* runs with it, or NULL */
	/* queue of 'busy' that waits for a message, for room; or NO_QUEUE */
	uint8_t receives, sends;
	bool fail_due;			/* team: FAIL could not be sent */
	uint32_t refs;			/* the endpoint, chains, the team */
	/* ring of messages that wait for a step */
	struct kept *inbox;
	uint32_t inbox_at, inbox_count, inbox_room;	/* a power of two */
	struct rdmamsg_team *team;	/* or NULL */
	uint32_t rank;			/* in the team, of the peer */
	struct channel *channel;	/* for native runs, or NULL */
	uint8_t met;			/* enum met */
	struct rdmamsg_ep_handlers on;	/* the program's */
	struct rdmamsg_reason why;	/* if it has ended */
};

/* calc.c */
void rdmamsg__calc(enum rdmamsg_calc_op op, enum rdmamsg_calc_type type,
		   void *dst, const void *a, const void *b, size_t count);

/* build.c: NULL: no memory */
struct rdmamsg_chain *rdmamsg__chain_new(struct rdmamsg *ctx);
void rdmamsg__chain_delete(struct rdmamsg_chain *c);
/* Removes all steps. Memory and endpoints stay for the next ones. */
void rdmamsg__chain_clear(struct rdmamsg_chain *c);
/* Makes room for n more steps. -ENOMEM, -ENOSPC */
int rdmamsg__chain_room(struct rdmamsg_chain *c, uint32_t n);
/* Adds the endpoint to those of the chain. -ENOMEM */
int rdmamsg__chain_use(struct rdmamsg_chain *c, struct chain_ep *end,
		       struct chain_use **ret);
/* Appends a step, for which there is room. Returns its number. */
uint32_t rdmamsg__chain_add(struct rdmamsg_chain *c, uint32_t queue,
			    const struct step *s);
/* Writes "step 3 (send of 8 bytes)" to buf. */
const char *rdmamsg__step_text(const struct rdmamsg_chain *c, uint32_t number,
			       char *buf, size_t size);

/* order.c: -EDEADLK if a run could not end, with a text. */
int rdmamsg__chain_check(const struct rdmamsg_chain *c);

/* run.c */
/* -EMSGSIZE: a message is too large for its receiver. */
int rdmamsg__chain_sizes(const struct rdmamsg_chain *c);
/* Starts a run of a chain whose endpoints are not busy. */
void rdmamsg__chain_start(struct rdmamsg_chain *c);
/* In two parts: the run begins; the loop runs the steps. */
void rdmamsg__chain_hold(struct rdmamsg_chain *c);
void rdmamsg__chain_loop(struct rdmamsg_chain *c);
/* A run that has begun has done all steps. */
void rdmamsg__chain_finish(struct rdmamsg_chain *c);
/* The meeting is over, and a run that has begun goes on. */
void rdmamsg__chain_met(struct rdmamsg_chain *c);
/* A native run has ended early: its endpoint has no known state. */
void rdmamsg__chain_spoil_end(struct chain_ep *end);
/* Ends the run with -EPROTO and returns false if the step wants another one. */
bool rdmamsg__chain_matches(struct rdmamsg_chain *c, uint32_t number,
			    size_t len, uint32_t tag);
/* Goes on with a queue that need not wait any more. */
void rdmamsg__chain_wake(struct rdmamsg_chain *c, uint32_t queue);
/* Gives the queue the message that it waits for. Frees the message. */
void rdmamsg__chain_take(struct rdmamsg_chain *c, uint32_t queue,
			 struct rdmamsg_msg *msg);
/* Ends the run. The text is "STEP: ...". */
void rdmamsg__chain_fail(struct rdmamsg_chain *c, uint32_t step, int status,
			 const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Ends a run without on_done, or takes back an on_done that is due. */
void rdmamsg__chain_stop(struct rdmamsg_chain *c);

/* chains.c */
/* The chain is destroyed. */
void rdmamsg__chain_unwait(struct rdmamsg_chain *c);
int rdmamsg__chains_open(struct rdmamsg *ctx);	/* -ENOMEM */
/* Calls on_done of a run that has ended. The handler may destroy the chain. */
void rdmamsg__chain_tell(struct rdmamsg_chain *c);
/* Handles a completion with CHAIN_KEY. */
void rdmamsg__chains_completed(struct rdmamsg *ctx, const struct ibv_wc *wc);
/* Calls on_done of all runs that have ended. */
void rdmamsg__chains_settle(struct rdmamsg *ctx);
/* All endpoints have ended. */
void rdmamsg__chains_close(struct rdmamsg *ctx);

/* endpoint.c */
/*
 * The endpoint belongs to chains from now on. -ENOTCONN, -ESHUTDOWN, -ENOMEM
 */
int rdmamsg__chain_own(struct rdmamsg *ctx, struct rdmamsg_ep *ep,
		       struct chain_ep **ret);
void rdmamsg__chain_ep_put(struct chain_ep *end);
/* Returns true if a run with the endpoint, or with its team, has not ended. */
bool rdmamsg__chain_ep_runs(const struct chain_ep *end);
/*
 * Removes the first message that waits. NULL: there is none. Valid until the
 * next message comes. The caller frees its 'msg'.
 */
const struct kept *rdmamsg__chain_next(struct chain_ep *end);
/* Returns the same message, and leaves it there. */
const struct kept *rdmamsg__chain_head(const struct chain_ep *end);

/* team.c */
/* The chain of an operation has ended. */
void rdmamsg__team_done(struct rdmamsg_team *t);
/* A step of a chain of the team has failed. */
void rdmamsg__team_step_failed(struct rdmamsg_team *t,
			       const struct rdmamsg_chain *c);
/* The endpoint has ended. */
void rdmamsg__team_closed(struct chain_ep *end);
/* Returns true if the message is a FAIL. */
bool rdmamsg__team_takes(struct chain_ep *end, const struct rdmamsg_msg *msg);
/* The context shuts down: no team goes on connecting. Runs no callback. */
void rdmamsg__teams_unform(struct rdmamsg *ctx);
/* Repeats a FAIL that had no room. */
void rdmamsg__team_writable(struct chain_ep *end);

#endif
