/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A context has common members, and a part for each layer. A layer knows its
 * own part and the parts of the layers below. lib/loop creates all parts.
 */
#ifndef RDMAMSG_LIB_CTX_H
#define RDMAMSG_LIB_CTX_H

#include <stdbool.h>
#include <stdint.h>

#define RDMAMSG_FAST_TWINS	/* the library defines the layout */
#include <rdmamsg/fast.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"

struct cq;

#define CTX_MAGIC	0x72646d61u
#define GROUP_KEY	0xffffff02u	/* no endpoint has these keys */
#define DC_KEY		0xffffff03u
#define CHAIN_KEY	0xffffff04u

/* The graceful end of a context: loop/shutdown.c */
struct shutdown {
	bool begun, over;
	bool inner;			/* the library itself connects */
	uint32_t failed;		/* ends that were not graceful since */
	struct timer timer;		/* timeout_ms */
};

/* Subtracted from hot.polls while what the inline poll has got is handled. */
#define HOT_INSIDE	(1 << 30)

struct rdmamsg {
	struct rdmamsg_hot_ctx hot;	/* first: the inlines use it */
	uint32_t magic;			/* 0 in a forked child */
	/* each completion reads these */
	struct rdmamsg_ep *last;	/* the endpoint that received last */
	/* values of struct ibv_wc if a Send has filled a receive */
	struct wc_kind {
		enum ibv_wc_status status;
		enum ibv_wc_opcode opcode;
	} received;
	struct loop loop;		/* its hot members are first */
	/* completions that were polled together and are being handled */
	const struct ibv_wc *handled;
	int handled_count;
	struct devices *devices;	/* device/ */
	struct memory *memory;		/* memory/ */
	struct lanes *lanes;		/* lane/ */
	struct tx_batch *tx;		/* lane/, too */
	struct sessions *sessions;	/* session/, cm/ */
	struct list qps;		/* qp/ */
	struct list timers;		/* loop/: struct rdmamsg_timer */
	struct list xrcds;		/* qp/ */
	struct groups *groups;		/* group/ */
	struct chains *chains;		/* chain/ */
	struct dcs *dcs;		/* dc/ */
	int32_t polls;			/* saves hot.polls while that is 0 */
	int32_t batch;			/* polls, from one look at the clock on */
	uint64_t batch_at, slow_at;	/* ns, of the last batch, slow path */
	bool closing;
	struct shutdown shutdown;
	void *user;
	struct rdmamsg_options opts;
	struct rdmamsg_ctx_handlers on;
	/* Completes the work that calls and callbacks have left. */
	void (*settle)(struct rdmamsg *ctx);
	/* Handles a completion whose wr_id has GROUP_KEY as upper half. */
	void (*group_done)(struct rdmamsg *ctx, const struct ibv_wc *wc);
	/*
	 * The same inside a call, without a callback. cq: the completion was
	 * polled last, and stays early if the loop is to have it. NULL: the
	 * loop has it.
	 */
	void (*group_early)(struct rdmamsg *ctx, struct cq *cq,
			    const struct ibv_wc *wc);
	/* The same for DC_KEY and CHAIN_KEY. */
	void (*dc_done)(struct rdmamsg *ctx, const struct ibv_wc *wc);
	void (*chain_done)(struct rdmamsg *ctx, const struct ibv_wc *wc);
	uint32_t number;		/* of this context in the process */
	/* number of the last listener, pool, group or shared receive queue */
	uint32_t objects;
	struct stats_server *stats;	/* loop/, or NULL */
};

/* Returns 0, or -ECHILD in a forked child. */
int rdmamsg__ctx_check(const struct rdmamsg *ctx);
/* Returns true if the context takes nothing new: it is closed or shut down. */
static inline bool rdmamsg__ctx_ends(const struct rdmamsg *ctx)
{
	return ctx->closing || ctx->shutdown.begun;
}

/* Returns 0, or -ESHUTDOWN with a text. */
int rdmamsg__ctx_refuses(const struct rdmamsg *ctx);
static inline int rdmamsg__ctx_takes(const struct rdmamsg *ctx)
{
	return likely(!rdmamsg__ctx_ends(ctx)) ? 0 : rdmamsg__ctx_refuses(ctx);
}

/* Counts an end after rdmamsg_shutdown(); error: of its reason. */
void rdmamsg__ctx_ended(struct rdmamsg *ctx, int error);
/*
 * Returns a number that no open context of the process has, mostly the lowest
 * one. Any thread.
 */
uint32_t rdmamsg__ctx_number(void);
void rdmamsg__ctx_number_free(uint32_t number);

/* After callbacks: posts batches, and frees dead objects. */
static inline void rdmamsg__settle(struct rdmamsg *ctx)
{
	if (unlikely(ctx->loop.work))
		ctx->settle(ctx);
}

/*
 * In a call, hot.polls is 0. The inline poll then calls rdmamsg_poll(), which
 * refuses.
 */
static inline __attribute__((always_inline)) void
rdmamsg__enter(struct rdmamsg *ctx)
{
	if (unlikely(ctx->loop.busy++))
		return;
	rdmamsg__loop_set_frame(&ctx->loop, __builtin_frame_address(0));
	ctx->loop.ret = __builtin_return_address(0);
	if (ctx->hot.cq) {
		ctx->polls = ctx->hot.polls;
		ctx->hot.polls = 0;
	}
}

/* Only with exactly one completion queue, the inline poll works again. */
static inline void rdmamsg__leave(struct rdmamsg *ctx)
{
	if (unlikely(--ctx->loop.busy))
		return;
	rdmamsg__loop_set_frame(&ctx->loop, NULL);
	ctx->hot.polls = ctx->hot.cq ? ctx->polls : 0;
}

#endif
