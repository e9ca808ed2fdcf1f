/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints and operations, and the functions of each file. */
#ifndef RDMAMSG_LIB_EP_H
#define RDMAMSG_LIB_EP_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "lane/lane.h"
#include "memory/memory.h"
#include "session/connector.h"
#include "session/door.h"
#include "memory/large.h"
#include "wire/flight.h"
#include "wire/proto.h"

#define SLOW_EVERY	1024	/* polls */

enum op_kind { OP_EAGER, OP_RNDV, OP_READ, OP_PROOF, OP_CTRL, OP_RMA };

/* An accepted operation. Slots of the send queue point to operations. */
struct op {
	struct op *next;		/* free list */
	struct list node;		/* in send.queue or rndv.out */
	enum op_kind kind;
	uint8_t refs;			/* rendezvous: request and DONE */
	uint8_t ctrl;			/* OP_CTRL: proto_type, 0: keepalive */
	bool waiter;			/* cookie is a struct rdmamsg_waiter */
	bool invalidate;		/* OP_EAGER: PROTO_INVALIDATE */
	int status;
	uint32_t number;
	uint32_t tag;
	uint32_t len;
	void *cookie;
	struct rdmamsg_msg *msg;	/* buffer to free at the end, or NULL */
	struct rndv_out *rndv;
	union {
		struct rndv_in *in;	/* OP_READ, OP_PROOF */
		uint64_t region;	/* invalidate: of the peer's window */
	};
	uint32_t rkey;			/* invalidate: of the window */
};

/* A large message that this side has announced. */
struct rndv_out {
	uint32_t total;
	uint32_t count;
	uint64_t since;			/* ms */
	struct rdmamsg_msg *payload;	/* owned large message, or NULL */
	/* registrations of the segments that are not empty */
	struct ibv_mr *mr[RDMAMSG_SEGMENTS_MAX];
	uint64_t addr[RDMAMSG_SEGMENTS_MAX];
	uint64_t len[RDMAMSG_SEGMENTS_MAX];
};

enum in_state { IN_ANNOUNCED, IN_READING, IN_REFUSED, IN_READY };

/* A large message that the peer has announced and this side reads. */
struct rndv_in {
	struct list node;		/* rndv.fetching, in order of numbers */
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *announced;	/* in rndv.waiting */
	struct rdmamsg_msg *msg;	/* destination, or NULL */
	struct sink sink;		/* memory of the program */
	enum in_state state;
	uint8_t done;			/* enum proto_done to send */
	bool done_due;
	bool asked;			/* on_incoming was called */
	bool refused;			/* counted in 'refused' of the pool */
	size_t counted;			/* bytes in rndv.lent */
	uint32_t number;
	uint32_t tag;
	uint32_t reads;			/* outstanding */
	uint32_t key;			/* index of the key of the next read */
	uint64_t offset;		/* of the next read in this key */
	uint32_t filled;		/* bytes of reads that are posted */
	uint32_t arrived;		/* bytes of reads that are done */
	bool doubted;			/* counted in lane.doubted */
	struct proto_rndv wire;
};

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
};

/* The clock of dead_after_ms: dead.c. */
struct dead {
	uint64_t since;			/* ms; 0: the clock does not run */
	uint32_t done;			/* lane.sq.done at the last tick */
	bool port_down;			/* if so, no keepalive is posted */
	bool grace;			/* a late tick has delayed the end */
};

#define RNR_RETRY_AUTO	8		/* the program set no rnr_retry_count */

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
	bool can_inline;		/* at least the header */
	bool compact;			/* PROTO_FEATURE_IMM is in use */
	bool want_writable;
	bool want_memory;		/* want_writable for lack of memory */
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

/* SETUP, CREDIT, PING, PONG, CLOSE, DONE. */
struct control {
	uint32_t due;			/* enum ep_ctrl */
	uint32_t ping_tag;
	struct pool *pool;		/* also for announcements */
	bool lacks;			/* waits for a buffer */
};

struct rendezvous {
	struct list out;		/* struct op: announced by this side */
	uint32_t count;			/* of 'out' */
	uint32_t fetch_count; /* announced by the peer, no DONE sent */
	struct list fetching;		/* rndv_in of those announcements */
	/*
	 * Announcements of large messages that have not arrived, and the data
	 * messages behind them, in order. Each keeps its receive buffer and its
	 * credit.
	 */
	struct {
		struct rdmamsg_msg *first, **last;
		uint32_t count;
		struct rdmamsg_msg *unparsed;	/* RNDV without a rndv_in */
	} waiting;
	struct lent *lent;		/* memory of the peer's messages */
	struct account *shares;		/* account of the SRQ, or NULL */
	size_t charged;			/* to lent->account, for receives */
	uint32_t announced_max;		/* largest message, as in our SETUP */
	uint32_t holds_max; /* largest message for the library's memory */
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
	bool lobby;			/* one receive: no SETUP has come */
	bool unanswered;		/* address resolution timed out */
	bool hello_ok, established, setup_sent, setup_seen;
	bool told;			/* on_connected was called */
	bool addrs_owned;
	struct addrinfo *addrs, *addr;	/* to try */
	struct resolve *resolve;
	char *source, *device, *host, *service;
	uint32_t backoff_ms;
	uint32_t limit;			/* enum proto_limit of a refusal */
	enum proto_reject refused;	/* our SETUP refuses the peer */
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

struct closing {
	bool sent, done, seen; /* CLOSE: ours, acknowledged; the peer's */
	bool asserted;			/* our CLOSE confirms the peer's */
	bool confirmed; /* the peer's CLOSE confirms ours, all before too */
	bool asserted_done;		/* 'asserted' CLOSE is acknowledged */
	bool by_peer;			/* the peer sent CLOSE first */
	bool aborted;			/* by the program */
	bool lost;			/* a request before CLOSE has failed */
	bool lost_read;			/* a read has failed or is unproven */
	bool disconnect_sent, disconnected;
	bool reason_set;
	bool told;			/* on_closed */
	bool failing;			/* rdmamsg__ep_kill(), not acted on */
	uint32_t seq;			/* sq_posted of the first CLOSE */
	struct rdmamsg_reason reason;
	uint8_t reason_data[PROTO_HELLO_DATA_MAX];
};

struct liveness {
	struct timer timer;		/* the tick */
	uint64_t heard;			/* ms, last sign of peer's program */
	uint64_t fetched; /* ms, last sign that the peer reads our messages */
	uint64_t rx_seen;		/* rdmamsg__rx_count() at last tick */
	struct dead dead;
	bool fetches;			/* such a sign since the last tick */
	bool ping_out, stalled, keepalive_out;
	bool ask_again;			/* tx_ask() after this keepalive */
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
};

_Static_assert(offsetof(struct rdmamsg_ep, lane.hot) == 0, "the inlines");
/* Sending or receiving a small message uses these nine cache lines. */
_Static_assert(offsetof(struct rdmamsg_ep, lane.dev) <= 5 * 64 + 32, "hot");
_Static_assert(offsetof(struct rdmamsg_ep, rndv) -
	       offsetof(struct rdmamsg_ep, ctx) <= 4 * 64, "hot");
_Static_assert(sizeof(struct rdmamsg_ep) <= 2440, "there may be thousands");

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
static inline void rdmamsg__tx_room(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	uint32_t posted = (uint32_t)h->sq_posted;
	/* too low a value is harmless for a while, too high a value is not */
	int32_t credit = (int32_t)(ep->credit.limit - h->number);
	int32_t room = (int32_t)(ep->lane.sq.done + ep->lane.sq.data - posted);

	room = max(min(room, credit), 0);
	h->stop = posted + (uint32_t)room;
	h->look_at = (int32_t)(h->stop - h->signal_at) < 0 ? h->stop :
		     h->signal_at;
}
/* Returns the credit announced to the peer, in a message of either form. */
static inline uint32_t rdmamsg__announced(struct rdmamsg_ep *ep)
{
	struct credits *c = &ep->credit;

	if (c->offered && ep->lane.hot.low <= PROTO_NUMBER_MASK) {
		c->announced += rdmamsg__grant_credits(c->offered);
		c->told += (uint16_t)rdmamsg__grant_seen(c->offered);
		c->offered = 0;
	}
	return c->announced;
}

/* The next compact message tells what the peer does not know yet. */
static inline void rdmamsg__tx_offer(struct rdmamsg_ep *ep)
{
	uint32_t announced = rdmamsg__announced(ep);
	struct credits *c = &ep->credit;

	if (!ep->send.compact)
		return;
	c->offered = rdmamsg__grant_encode(c->granted - announced,
					   (uint16_t)(c->took - c->told));
	ep->lane.hot.low = c->offered | (ep->lane.hot.number &
					 PROTO_NUMBER_MASK);
}

/*
 * Grants credit up to message number 'granted'. The next message of this side
 * announces it. If 'worth' or more credits are not announced yet, a CREDIT
 * message becomes due.
 */
static inline void rdmamsg__rx_grant(struct rdmamsg_ep *ep, uint32_t granted,
				     uint32_t worth)
{
	struct credits *c = &ep->credit;

	if ((int32_t)(granted - c->granted) > 0)
		c->granted = granted;
	rdmamsg__tx_offer(ep);
	if ((ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
	    c->granted - c->announced >= worth)
		ep->ctrl.due |= CTRL_CREDIT;
}

/* ep_options.c: copies the options and their data. -EINVAL, -ENOMEM */
int rdmamsg__ep_configure(struct rdmamsg_ep *ep,
			  const struct rdmamsg_ep_options *opts);

/* ep_reason.c */
/* Sets the reason of the end. Later calls do not change it. */
void rdmamsg__ep_reason(struct rdmamsg_ep *ep, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error,
			const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* Clears the reason, with status codes and the data of a reject. */
void rdmamsg__ep_reason_forget(struct rdmamsg_ep *ep);
/* Text for a peer that does not answer any more and has disconnected. */
const char *rdmamsg__peer_gone_text(const struct rdmamsg_ep *ep);
void rdmamsg__ep_wc_error(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
/* Posting, arming or polling failed. The device may be gone. */
void rdmamsg__ep_device_failed(struct rdmamsg_ep *ep, int err,
			       const char *what);
void rdmamsg__ep_removed(struct rdmamsg_ep *ep);
/* Counts a wrong key or a protocol error of the peer. */
void rdmamsg__ep_offended(struct rdmamsg_ep *ep);
/* The peer refuses: 'code' is enum proto_reject, limit enum proto_limit. */
void rdmamsg__ep_refused(struct rdmamsg_ep *ep, uint32_t code, uint32_t limit);
/* Text for a limit of a listener, to follow "limits". */
const char *rdmamsg__limit_text(uint32_t limit);
void rdmamsg__ep_protocol(struct rdmamsg_ep *ep, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ep_close.c */
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
/*
 * Marks an endpoint as ending. The loop then moves the queue pair to error,
 * disconnects, drains and calls on_closed.
 */
void rdmamsg__ep_kill(struct rdmamsg_ep *ep);
/* Ends an endpoint for a reason of this program, unless it ends already. */
void rdmamsg__ep_abort(struct rdmamsg_ep *ep, enum rdmamsg_cause cause,
		       int error, const char *text);
/* In EP_CLOSING: the peer has disconnected, so wait for at most GONE_MS. */
void rdmamsg__ep_peer_gone(struct rdmamsg_ep *ep);
/* The device takes no more receives for this endpoint from the SRQ. */
static inline void rdmamsg__ep_last_wqe(struct rdmamsg_ep *ep)
{
	ep->lane.last_wqe = true;
	rdmamsg__ep_touch(ep);
}
void rdmamsg__ep_progress_close(struct rdmamsg_ep *ep);
void rdmamsg__ep_peer_closes(struct rdmamsg_ep *ep);
/*
 * The end of a call that creates an endpoint. If ret is an error, frees the
 * endpoint without a callback.
 */
int rdmamsg__ep_made(struct rdmamsg_ep *ep, int ret,
		     struct rdmamsg_ep **ret_ep);
void rdmamsg__ep_deadline(struct timer *t);
/* Text for an endpoint that is not connected yet: "resolving the address". */
const char *rdmamsg__ep_waits_for(const struct rdmamsg_ep *ep);

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

/* live.c */
void rdmamsg__live_start(struct rdmamsg_ep *ep);
void rdmamsg__live_heard(struct rdmamsg_ep *ep);

/* dead.c */
/* Sets timeout and both retry counts; the features must be known. */
void rdmamsg__dead_transport(const struct rdmamsg_ep *ep,
			     struct ibv_qp_attr *attr);
/* Returns the RNR retry count for a peer with these PROTO_FEATURE_*. */
uint8_t rdmamsg__rnr_retry(const struct rdmamsg_ep *ep, uint32_t features);
/*
 * Part of the liveness tick, which has polled the completion queues since
 * 'began'. Returns false if the endpoint has ended.
 */
bool rdmamsg__dead_tick(struct rdmamsg_ep *ep, bool heard, uint64_t began);
uint32_t rdmamsg__dead_ms(const struct rdmamsg_ep *ep);	/* to the next tick */

/* op.c. -ENOMEM; -EAGAIN: op_max is reached. */
int rdmamsg__ops_grow(struct rdmamsg_ep *ep);
void rdmamsg__ops_free(struct rdmamsg_ep *ep);
struct op *rdmamsg__op_get(struct rdmamsg_ep *ep);
void rdmamsg__op_put(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__op_complete(struct rdmamsg_ep *ep, struct op *op, int status);

/* tx.c */
extern const struct lane_events rdmamsg__lane_events;
void rdmamsg__tx_done(struct rdmamsg_ep *ep, uint32_t seq, int status);
void rdmamsg__tx_cancel(struct rdmamsg_ep *ep, int status);
/* Adds a message in full form to the batch. */
void rdmamsg__tx_message(struct rdmamsg_ep *ep, enum proto_type type,
			 uint32_t number, uint32_t tag, struct op *op,
			 struct rdmamsg_msg *msg, const void *inl,
			 uint32_t len);
/* Returns true if a message with this tag is sent in compact form. */
static inline bool rdmamsg__is_compact(const struct rdmamsg_ep *ep,
				       uint32_t tag)
{
	return ep->send.compact && tag <= PROTO_TAG_MAX;
}
/*
 * Adds a message of the program, in compact form if possible. For the full form,
 * 'msg' has room for a header before its payload.
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
/* Returns the number of the next data message. */
static inline uint32_t rdmamsg__tx_number(const struct rdmamsg_ep *ep)
{
	return ep->lane.hot.number;
}

static inline uint32_t rdmamsg__tx_next_number(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	uint32_t number = h->number++;

	h->low = (h->low & ~PROTO_NUMBER_MASK) | (h->number & PROTO_NUMBER_MASK);
	return number;
}

/* Takes the number, and returns the immediate data of a compact message. */
static inline __be32 rdmamsg__tx_imm(struct rdmamsg_ep *ep, uint32_t tag)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	uint32_t imm = tag << 16 | h->low;

	h->low = ++h->number & PROTO_NUMBER_MASK;
	return (__be32)htole32(imm);
}

static inline bool rdmamsg__has_credit(const struct rdmamsg_ep *ep)
{
	return (int32_t)(ep->credit.limit - rdmamsg__tx_number(ep)) > 0;
}

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
static inline uint32_t rdmamsg__granted(const struct rdmamsg_ep *ep)
{
	return ep->credit.granted;
}
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

/* rndv.c */
int rdmamsg__rndv_prepare(struct rdmamsg_ep *ep, const struct iovec *iov,
			  int iovcnt, uint32_t total,
			  struct rdmamsg_msg *payload, struct rndv_out **ret);
void rdmamsg__rndv_free(struct rdmamsg_ep *ep, struct rndv_out *r);
void rdmamsg__rndv_announce(struct rdmamsg_ep *ep, struct op *op);
/* Returns 0. -EPROTO: the announcement is wrong, and the endpoint ends. */
int rdmamsg__rndv_check(struct rdmamsg_ep *ep, const void *buf, size_t len);
/* Creates the rndv_in of this announcement. -ENOMEM */
int rdmamsg__rndv_in_new(struct rdmamsg_ep *ep, struct rdmamsg_msg *announced);
void rdmamsg__rndv_done(struct rdmamsg_ep *ep, const struct proto_hdr *hdr);
void rdmamsg__rndv_read_done(struct rdmamsg_ep *ep, struct op *op, int status);
void rdmamsg__rndv_proven(struct rdmamsg_ep *ep, struct op *op, int status);
void rdmamsg__rndv_pump(struct rdmamsg_ep *ep);
void rdmamsg__rndv_in_free(struct rndv_in *in);

#endif
