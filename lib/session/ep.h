/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: their parts, and the functions of each file. */
#ifndef RDMAMSG_LIB_EP_H
#define RDMAMSG_LIB_EP_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "lane/lane.h"
#include "memory/memory.h"
#include "session/auth.h"
#include "session/close.h"
#include "session/connector.h"
#include "session/door.h"
#include "session/failover.h"
#include "session/live.h"
#include "session/op.h"
#include "session/pieces.h"
#include "session/rndv.h"
#include "wire/flight.h"
#include "wire/proto.h"

#define SLOW_EVERY	1024	/* polls */

enum ep_state {
	EP_RESOLVING,		/* name, address, route */
	EP_REQUESTED,		/* sent or accepted a request */
	EP_SETUP,		/* queue pair connected, exchanging SETUP */
	EP_OPEN,
	EP_CLOSING,		/* exchanging CLOSE */
	EP_DRAINING,		/* queue pair in error, counting flushes */
	EP_BACKOFF,		/* rejected for now, will try again */
	EP_CLOSED,
};

/*
 * Member of the owner of a CM id, which gets the events of the id. id->context
 * points to it.
 */
struct cm_event;
struct cm_owner {
	void (*event)(struct rdmamsg *ctx, struct cm_owner *owner,
		      const struct cm_event *ev);
};

enum ep_ctrl {
	CTRL_CREDIT = 1u << 0,
	CTRL_PING = 1u << 1,
	CTRL_PONG = 1u << 2,
	CTRL_CLOSE = 1u << 3,
	CTRL_SETUP = 1u << 4,
	CTRL_DONE = 1u << 5,
	CTRL_KEEPALIVE = 1u << 6,
	CTRL_PATH = 1u << 7,
	CTRL_AUTH = 1u << 8,
};

/* Reads of large messages, and reads of the program. */
enum reader { READ_MESSAGE, READ_RMA, READERS };

#define EP_MAX		(1u << 23)	/* per context; SRQ_KEY is above */
#define EP_TIMERS	2	/* deadline and liveness tick */

/* Message numbers and credits of both directions. */
struct credits {
	uint32_t granted;		/* the peer may send numbers below */
	uint32_t announced;		/* part of 'granted' that was sent */
	uint32_t limit;			/* the peer takes numbers below this */
	/* grant in hot.low; if that has none now, a message has told it */
	uint32_t offered;
	uint16_t messages;		/* CREDITs sent */
	uint16_t seen;			/* CREDITs that the peer has seen */
	uint16_t took;			/* CREDITs of the peer */
	uint16_t told;			/* part of 'took' that was sent */
};

struct receiving {
	struct rdmamsg_msg *inbox, **inbox_tail; /* for rdmamsg_recv_wait() */
	/* hot */
	uint64_t bytes;
	uint32_t next;			/* number of the next data message */
	uint32_t max;			/* payload of a message in one piece */
	uint32_t end;			/* fast path: payload < end */
};

struct sending {
	uint32_t end;			/* rdmamsg_send(): fast if len < end */
	uint32_t inline_max;		/* payload bytes */
	uint32_t inline_end;		/* hot.len_end if there is no batch */
	uint32_t copy_max;		/* eager payload bytes */
	uint32_t pieces_max;		/* payload bytes of a run of pieces */
	bool can_inline;		/* at least the header */
	bool compact;			/* PROTO_FEATURE_IMM is in use */
	bool want_writable;
	/* want_writable for lack of memory, and none has come back since */
	bool want_memory;
	int lack;			/* -errno of the last failed take() */
	uint64_t told_writable; /* ctx->rounds at the last on_writable */
	struct pool *pool;
	struct op *op_free;
	uint32_t op_count, op_max;	/* allocated, and the limit */
	struct op_chunk *op_chunks;
	struct list queue;		/* accepted, not yet posted: op */
	uint32_t queued;
	struct op *orphans;		/* accepted, but posting failed */
};

/* SETUP, AUTH, CREDIT, PING, PONG, CLOSE, DONE. */
struct control {
	uint32_t due;			/* enum ep_ctrl */
	uint32_t ping_tag;
	struct pool *pool;		/* also for announcements */
	bool lacks;			/* waits for a buffer */
};

/* The initiator depth, which large messages and the program share. */
struct reading {
	uint32_t free;
	bool wants[READERS];		/* the reader waits */
	enum reader turn;
};

/* One-sided operations and windows: rma.c, window.c, lib/onesided. */
struct onesided {
	struct rma *all, *free;		/* NULL until first used */
	struct rdmamsg_msg *results;
	struct list windows;
	bool wanted;			/* a call has returned -EAGAIN */
	uint8_t can;			/* 1 << enum rma_kind, when connected */
	uint8_t ways;			/* kinds of 'can' that may be posted */
};

/* Connecting, from the address to both SETUPs, and the values agreed. */
struct connecting {
	const struct connector *by;
	struct cm_owner owner;
	struct rdma_cm_id *id;		/* NULL: none yet, or oob */
	struct oob *oob;		/* in place of id */
	bool or_soft;			/* no route: try the soft HCA */
	bool passive;			/* this side has accepted */
	bool lobby;			/* one receive: a stranger */
	bool unanswered;		/* address resolution timed out */
	bool hello_ok, established, setup_sent, setup_seen;
	bool told;			/* on_connected was called */
	bool addrs_owned;
	struct addrinfo *addrs, *addr;	/* to try */
	struct resolve *resolve;
	char *source, *device, *host, *service;
	uint32_t backoff_ms;
	uint32_t limit;			/* enum proto_limit of a refusal */
	/* our SETUP or the initiator's AUTH refuses the peer */
	enum proto_reject refused;
	struct auth *auth;		/* NULL: no key, or connected */
	struct visitor visitor;		/* at the listener, if passive */
	uint8_t hello_data[PROTO_HELLO_DATA_MAX];
	uint8_t *setup_data;
	uint8_t *peer_data;
	size_t peer_data_len;
	struct proto_setup peer;	/* its data pointer is unused */
	uint32_t version;
	uint32_t features;		/* of PROTO_FEATURE_*, both sides' */
	uint8_t session[16];
	struct sockaddr_storage local_addr, peer_addr;
};

struct rdmamsg_ep {
	struct lane lane;		/* first: the inlines use lane.hot */

	/* hot: used by each message */
	struct rdmamsg *ctx;		/* NULL in a forked child */
	enum ep_state state;
	uint32_t key;			/* index << 8 | generation */
	struct control ctrl;
	struct sending send;		/* its hot members come last */
	struct receiving recv;
	struct credits credit;
	struct rendezvous rndv;
	struct reading reads;
	struct onesided onesided;
	struct rdmamsg_handlers on;
	struct rdmamsg_counters st;
	bool dirty;			/* on ctx->dirty */
	struct list dirty_node;
	struct starving starving;

	/* cold */
	struct list node;		/* of the context */
	int refs;
	struct rdmamsg_ep_options opts;
	void *user;
	uint64_t deadline;		/* ms, of connecting or closing */
	struct timer timer;		/* for the deadline, back-off, drain */
	struct connecting connect;
	struct liveness live;
	struct closing close;
	struct failover *failover;	/* NULL: off */
	struct pieces pieces;
};

_Static_assert(offsetof(struct rdmamsg_ep, lane.hot) == 0, "the inlines");
/* Sending or receiving a small message uses these nine cache lines. */
_Static_assert(offsetof(struct rdmamsg_ep, lane.dev) <= 5 * 64 + 32, "hot");
_Static_assert(offsetof(struct rdmamsg_ep, rndv) -
	       offsetof(struct rdmamsg_ep, ctx) <= 4 * 64, "hot");
_Static_assert(sizeof(struct rdmamsg_ep) <= 2624, "there may be thousands");

/* The session that a lane belongs to. */
static inline struct rdmamsg_ep *rdmamsg__ep_of(struct lane *l)
{
	return list_entry(l, struct rdmamsg_ep, lane);
}

/* ep.c: life */
void rdmamsg__ep_touch(struct rdmamsg_ep *ep);	/* adds to ctx->dirty */
int rdmamsg__ep_new(struct rdmamsg *ctx, const struct connector *by,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret);
void rdmamsg__ep_free(struct rdmamsg_ep *ep);
void rdmamsg__ep_connected(struct rdmamsg_ep *ep);
void rdmamsg__ep_timeout(struct rdmamsg_ep *ep);	/* at its deadline */
/* Messages for rdmamsg_recv_wait(). */
void rdmamsg__inbox_add(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
struct rdmamsg_msg *rdmamsg__inbox_take(struct rdmamsg_ep *ep);
void rdmamsg__ep_drop_inbox(struct rdmamsg_ep *ep);
/* Recomputes the conditions and limits of the fast paths. */
void rdmamsg__ep_ready(struct rdmamsg_ep *ep);

/*
 * A request has failed. If it was posted before our CLOSE, the peer may lack a
 * message.
 */
static inline void rdmamsg__ep_lost(struct rdmamsg_ep *ep, uint32_t seq)
{
	if (!(seq & 0x80000000u) &&
	    (!ep->close.sent || (seq - ep->close.seq) & 0x40000000u))
		ep->close.lost = true;
}

/* The device takes no more receives for this endpoint from the SRQ. */
static inline void rdmamsg__ep_last_wqe(struct rdmamsg_ep *ep)
{
	ep->lane.last_wqe = true;
	rdmamsg__ep_touch(ep);
}

/* ep_options.c: copies the options and their data. -EINVAL, -ENOMEM */
int rdmamsg__ep_configure(struct rdmamsg_ep *ep,
			  const struct rdmamsg_ep_options *opts);

int rdmamsg__ep_check(const struct rdmamsg_ep *ep);
/* Copies the options, and sets the defaults of fields that are 0. */
int rdmamsg__ep_options_set(struct rdmamsg_ep_options *o,
			    const struct rdmamsg_ep_options *opts);
/* Checks the ranges of the fields that are numbers. */
int rdmamsg__ep_options_check(const struct rdmamsg_ep_options *opts);

/* info.c */
void rdmamsg__ep_stats_add(struct rdmamsg_counters *s,
			   const struct rdmamsg_ep *ep);

/* ep_lane.c: resources of an endpoint, and the walk to RTS */
/* Creates them on the device of the CM id or of the record. */
int rdmamsg__ep_resources(struct rdmamsg_ep *ep);
void rdmamsg__ep_resources_free(struct rdmamsg_ep *ep);
int rdmamsg__qp_init(struct rdmamsg_ep *ep);
int rdmamsg__qp_ready(struct rdmamsg_ep *ep);	/* to RTR and RTS */
/* attr() of struct lane_events. */
int rdmamsg__qp_attr(struct lane *l, struct ibv_qp_attr *attr, int *mask);

/* tx.c */
extern const struct lane_events rdmamsg__lane_events;
void rdmamsg__tx_done(struct rdmamsg_ep *ep, uint32_t seq, int status);
void rdmamsg__tx_cancel(struct rdmamsg_ep *ep, int status);
/* Adds a message in full form to the batch. */
void rdmamsg__tx_message(struct rdmamsg_ep *ep, enum proto_type type,
			 uint32_t number, uint32_t tag, struct op *op,
			 struct rdmamsg_msg *msg, const void *inl,
			 uint32_t len);
/*
 * Adds a message of the program, in compact form if possible. For the full
 * form, 'msg' has room for a header before its payload.
 */
void rdmamsg__tx_data(struct rdmamsg_ep *ep, uint32_t tag, struct op *op,
		      struct rdmamsg_msg *msg, const void *inl, uint32_t len);
void rdmamsg__tx_read(struct rdmamsg_ep *ep, struct op *op, void *dst,
		      uint32_t lkey, uint32_t len, uint64_t raddr,
		      uint32_t rkey);
/*
 * An empty write, which the peer's device answers without its program. Requests
 * complete in order, and after a failed request none succeeds. So behind reads
 * on a device with doubtful reads, its completion tells how they have ended.
 */
void rdmamsg__tx_empty(struct rdmamsg_ep *ep, struct op *op);
/*
 * Posts a keepalive on each endpoint with unsignalled requests. Its completion
 * confirms them, so that their memory can be used again.
 */
void rdmamsg__tx_ask(struct rdmamsg *ctx);
/* send.c */
void rdmamsg__tx_pump(struct rdmamsg_ep *ep);
/* Returns -EAGAIN. on_writable follows when memory has come back. */
int rdmamsg__no_buffer(struct rdmamsg_ep *ep);
struct rdmamsg_msg *rdmamsg__send_buffer(struct rdmamsg_ep *ep);
struct rdmamsg_msg *rdmamsg__ctrl_buffer(struct rdmamsg_ep *ep);
/* Returns 0 if the endpoint can send, else -ENOTCONN, -ESHUTDOWN, ... */
int rdmamsg__tx_check(const struct rdmamsg_ep *ep);
/* Returns -EAGAIN. on_writable follows. */
int rdmamsg__tx_again(struct rdmamsg_ep *ep);
/* Puts an accepted operation into send.queue. */
void rdmamsg__tx_queue(struct rdmamsg_ep *ep, struct op *op);

/* The cookie of a send that a call waits for, on the stack of the call. */
struct rdmamsg_waiter {
	bool done;
	int status;
};
int rdmamsg__sendv_waiter(struct rdmamsg_ep *ep, const struct iovec *iov,
			  uint32_t tag, struct rdmamsg_waiter *waiter);

/* ctrl.c: control messages */
void rdmamsg__ctrl_pump(struct rdmamsg_ep *ep);
/* Withdraws announced_max: the budget need not hold such a message. */
void rdmamsg__max_msg_forget(struct rdmamsg_ep *ep);
void rdmamsg__ctrl_setup(struct rdmamsg_ep *ep, const void *buf, size_t len);
void rdmamsg__ctrl_auth(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
			const void *buf, size_t len);

/* lobby.c */
int rdmamsg__lobby_receives(struct rdmamsg_ep *ep);
/* The peer's SETUP has come. After a failure no receives are posted. */
int rdmamsg__lobby_leave(struct rdmamsg_ep *ep);
/* Undoes the charge for receives to the address of the peer. */
void rdmamsg__lobby_credit(struct rdmamsg_ep *ep);

/* recv_post.c */
void rdmamsg__rx_refill(struct rdmamsg_ep *ep);
/* buffer() of struct lane_events: replaces one that the program keeps. */
struct rdmamsg_msg *rdmamsg__rx_buffer(struct lane *l, uint32_t count);

/* recv.c */
/* A message of an endpoint with a shared receive queue. */
void rdmamsg__rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc);
/* A Write with immediate data has used the receive of msg. */
void rdmamsg__rx_imm(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc);
extern struct rdmamsg_ep rdmamsg__nobody;	/* has no receives */
void rdmamsg__dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n);
void rdmamsg__rx_deliver(struct rdmamsg_ep *ep);
void rdmamsg__rx_discard(struct rdmamsg_ep *ep);

/* recv_wait.c: messages that wait behind a large message */
static inline bool rdmamsg__rx_waits(const struct rdmamsg_ep *ep)
{
	return ep->rndv.waiting.first;
}
void rdmamsg__rx_wait_init(struct rdmamsg_ep *ep);
/* Appends msg of this type, which keeps its credit. */
void rdmamsg__rx_wait(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		      enum proto_type type);
/* Creates a rndv_in for each new announcement. After -ENOMEM, goes on. */
void rdmamsg__rx_parse(struct rdmamsg_ep *ep);
/* Removes and returns the first message. */
struct rdmamsg_msg *rdmamsg__rx_next(struct rdmamsg_ep *ep);
/*
 * Returns true if a message in pieces waits before msg. It has no memory yet,
 * and memory is given in order: otherwise msg could take all, and never have
 * its turn.
 */
bool rdmamsg__rx_behind_pieces(const struct rdmamsg_ep *ep,
			       const struct rdmamsg_msg *msg);

#endif
