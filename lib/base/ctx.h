/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A context: what every layer needs of it, and a part for each layer. A layer
 * knows its own part and those of the layers below, lib/loop makes them all.
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
#include "base/util.h"

#define CTX_MAGIC	0x72646d61u
#define GROUP_KEY	0xffffff02u	/* no endpoint has this one */

struct rdmamsg {
	struct rdmamsg_hot_ctx hot;	/* first: the inlines look here */
	uint32_t magic;			/* 0 in a forked child */
	/* each completion looks at these */
	struct rdmamsg_ep *last;	/* that has received something */
	/* as struct ibv_wc has them when a Send has filled a receive */
	struct wc_kind {
		enum ibv_wc_status status;
		enum ibv_wc_opcode opcode;
	} received;
	struct loop loop;		/* its hot members come first */
	struct devices *devices;	/* device/ */
	struct memory *memory;		/* memory/ */
	struct lanes *lanes;		/* lane/ */
	struct tx_batch *tx;		/* of lane/ as well */
	struct sessions *sessions;	/* session/, cm/ */
	struct list qps;		/* qp/ */
	struct groups *groups;		/* group/ */
	int32_t polls;			/* hot.polls, while that is 0 */
	bool closing;
	void *user;
	struct rdmamsg_options opts;
	/* Does what calls and callbacks have left to do: rdmamsg__settle(). */
	void (*settle)(struct rdmamsg *ctx);
	/* A completion of group/: GROUP_KEY is the upper half of its wr_id. */
	void (*group_done)(struct rdmamsg *ctx, const struct ibv_wc *wc);
};

/* 0, or -ECHILD in a forked child. */
int rdmamsg__ctx_check(const struct rdmamsg *ctx);

/* After callbacks: posts what was put together, frees what is dead. */
static inline void rdmamsg__settle(struct rdmamsg *ctx)
{
	if (unlikely(ctx->loop.work))
		ctx->settle(ctx);
}

/* Inside, the inline poll leaves all to rdmamsg_poll(), which refuses. */
static inline void rdmamsg__enter(struct rdmamsg *ctx)
{
	if (!ctx->loop.busy++ && ctx->hot.cq) {
		ctx->polls = ctx->hot.polls;
		ctx->hot.polls = 0;
	}
}

/* The inline poll works while there is exactly one queue. */
static inline void rdmamsg__leave(struct rdmamsg *ctx)
{
	if (!--ctx->loop.busy)
		ctx->hot.polls = ctx->hot.cq ? ctx->polls : 0;
}

#endif
