/* SPDX-License-Identifier: BSD-2-Clause */
/* The context, and its loop. */
#ifndef RDMAMSG_LIB_CTX_H
#define RDMAMSG_LIB_CTX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

#include "base/addrmap.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/device.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "session/ep.h"
#include "session/lent.h"
#include "wire/proto.h"

struct rdmamsg {
	struct rdmamsg_hot_ctx hot;	/* first: the inlines look here */
	uint32_t magic;			/* 0 in a forked child */
	struct loop loop;		/* its hot members come first */
	int32_t polls;			/* hot.polls, while that is 0 */
	int ep_count;
	bool closing;
	bool reap;			/* a device is to be closed */
	void *user;
	struct rdmamsg_options opts;
	/* of the RDMA devices, and of the soft HCA */
	struct cm_channel {
		const struct verbs_api *v;	/* NULL until first used */
		_Atomic(struct rdma_event_channel *) ch;
	} cm[TABLES];
	pthread_mutex_t cm_lock;	/* of opening them, of ids that come */
	struct list devs;		/* single ones last */
	struct list eps;
	struct list listeners;
	struct list requests;
	struct list dirty;		/* eps with work before sleeping */
	uint64_t rounds;		/* calls that had some of it to do */
	struct list dead;		/* eps to free outside callbacks */
	struct list starved;		/* eps that wait for buffers */
	struct list held;		/* closed ones that the program holds */
	struct list qps;		/* the program's own */
	struct list srq_list;		/* struct rdmamsg_srq */
	struct list pool_list;		/* struct rdmamsg_pool */
	struct list pd_list;		/* struct rdmamsg_pd */
	struct rdmamsg_srq *srq;	/* of endpoints that have no other */
	struct srq *srqs[SRQ_PARTS];	/* by index in their wr_id */
	uint32_t srq_hint;
	struct rdmamsg_ep *last;	/* that has received something */
	/* as struct ibv_wc has them when a Send has filled a receive */
	struct wc_kind {
		enum ibv_wc_status status;
		enum ibv_wc_opcode opcode;
	} received;
	struct rdmamsg_ep **table;	/* by index of their key */
	uint32_t table_size;
	struct budget budget[DIRECTIONS];
	struct timer again; /* for starved, when the system refuses */
	uint32_t again_ms;
	uint64_t regions;		/* ids given to keys */
	struct list region_list;
	struct list caches;
	struct list lents;		/* struct lent, of endpoints gone too */
	struct addrmap accounts;	/* struct account */
	uint32_t table_hint, generation;
	uid_t euid;
	gid_t egid;
	struct rdmamsg_counters st;	/* of endpoints that are gone */
	struct rdmamsg_reason wait_reason;
	uint8_t wait_data[PROTO_HELLO_DATA_MAX];	/* its data */

	/* requests being put together for one endpoint, posted as a chain */
	struct tx_batch {
		struct rdmamsg_ep *ep;	/* NULL: none */
		struct tx_entry *next;
		bool signal;		/* somebody waits for one of them */
		bool odd;		/* one is no inline message */
		struct tx_entry {
			struct ibv_send_wr wr;	/* first */
			struct ibv_sge sge;
			struct proto_hdr hdr;	/* and, in one piece */
			union {
				uint8_t data[TX_STAGE];
				/* one-sided */
				struct ibv_sge sges[RDMAMSG_SEGMENTS_MAX];
			};
		} entries[TX_BATCH];
	} tx;
};

/* tx.c: the batch */
void rdmamsg__tx_init(struct tx_batch *tx);
void rdmamsg__tx_post(struct rdmamsg *ctx);
static inline void rdmamsg__tx_flush(struct rdmamsg *ctx)
{
	if (ctx->tx.ep)
		rdmamsg__tx_post(ctx);
}
/* One for this endpoint, what was in it is posted. */
void rdmamsg__tx_new(struct rdmamsg_ep *ep);
/* The next entry of the batch. */
static inline struct tx_entry *rdmamsg__tx_add(struct rdmamsg_ep *ep)
{
	struct tx_batch *tx = &ep->ctx->tx;
	struct tx_entry *e;

	if (unlikely(tx->ep != ep || tx->next == tx->entries + TX_BATCH))
		rdmamsg__tx_new(ep);
	e = tx->next++;
	e->wr.wr_id = ep->hot.wr_id | (ep->hot.sq_posted & 0x7fffffffu);
	ep->hot.sq_posted++;
	return e;
}

/*
 * For requests of another make: an entry of the batch to fill in, and that it
 * is filled in.
 */
static inline struct tx_entry *rdmamsg__tx_begin(struct rdmamsg_ep *ep,
						 struct op *op)
{
	struct tx_entry *e = rdmamsg__tx_add(ep);

	if (op) {
		ep->lane.sq.slots[(uint32_t)e->wr.wr_id & ep->lane.sq.mask] =
			op;
		ep->lane.sq.ops++;
	}
	if (unlikely(ep->hot.signal_every == 1))
		e->wr.send_flags |= IBV_SEND_SIGNALED;
	ep->ctx->tx.odd = true;
	ep->st.sent_inline--;		/* all requests are, but these */
	return e;
}
static inline void rdmamsg__tx_end(struct rdmamsg_ep *ep)
{
	if (!ep->ctx->loop.in_callback)
		rdmamsg__tx_flush(ep->ctx);
	else
		rdmamsg__tx_room(ep);	/* not all of them stop at hot.stop */
}

#define CTX_MAGIC	0x72646d61u

/* After callbacks: posts what was put together, frees what is dead. */
void rdmamsg__settle_now(struct rdmamsg *ctx);
static inline void rdmamsg__settle(struct rdmamsg *ctx)
{
	if (unlikely(ctx->loop.work))
		rdmamsg__settle_now(ctx);
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

/* A device is to be closed when we are through. */
static inline void rdmamsg__reap(struct rdmamsg *ctx)
{
	ctx->reap = true;
	ctx->loop.work = true;
}

/* starved.c: endpoints that wait for memory */
int rdmamsg__starved_init(struct rdmamsg *ctx);
/* It is touched when memory comes back; for other errors, after a while. */
void rdmamsg__starve(struct rdmamsg_ep *ep, int err);
void rdmamsg__feed(struct rdmamsg *ctx);
/* Whether what failed with this error may succeed later. */
bool rdmamsg__passes(int err);

/*
 * A message goes to the program, and comes back: to us, or for sending. 'by':
 * the account of the peer that sent it; its bytes are counted there already.
 */
static inline void rdmamsg__msg_lend(struct rdmamsg_msg *msg, struct lent *by)
{
	msg->lent = MSG_LENT;
	msg->lent_by = by;
	msg->dev->msgs_out++;
}

static inline void rdmamsg__msg_back(struct rdmamsg_msg *msg)
{
	if (msg->lent == MSG_IN_PLACE) {
		msg->lent = MSG_PASSED;
		return;
	}
	msg->lent = MSG_OURS;
	if (msg->lent_by)
		rdmamsg__lent_put(msg->lent_by, rdmamsg__msg_bytes(msg));
	if (unlikely(!--msg->dev->msgs_out && !msg->dev->device))
		rdmamsg__reap(msg->dev->ctx);
}

/* 0, or -ECHILD in a forked child. */
int rdmamsg__ctx_check(const struct rdmamsg *ctx);
int rdmamsg__ep_check(const struct rdmamsg_ep *ep);
/* Copies the options; what is not given becomes the default. */
int rdmamsg__ep_options_set(struct rdmamsg_ep_options *o,
			    const struct rdmamsg_ep_options *opts);
/* Whether the fields that are numbers are in range. */
int rdmamsg__ep_options_check(const struct rdmamsg_ep_options *opts);

/* loop.c */
/* rdmamsg_wait() without its checks, and without a text when it fails. */
int rdmamsg__wait(struct rdmamsg *ctx, int timeout_ms);
int rdmamsg__cq_poll(struct rdmamsg *ctx, int budget);
int rdmamsg__cq_rearm(struct dev *dev);
int rdmamsg__cq_get(struct dev *dev, uint32_t entries, uint32_t vector,
		    bool own, struct cq **ret);
void rdmamsg__cq_put(struct dev *dev, struct cq *cq, uint32_t entries);
void rdmamsg__cqs_free(struct dev *dev);
/* Until it is empty: bounded by what it can hold. */
void rdmamsg__cq_drain(struct rdmamsg *ctx, struct cq *cq);

#endif
