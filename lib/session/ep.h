/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints, their operations, and what each file does for them. */
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

enum op_kind { OP_EAGER, OP_RNDV, OP_READ, OP_CTRL, OP_RMA };

/* One accepted operation; slots of the send queue point to it. */
struct op {
	struct op *next;		/* free list */
	struct list node;		/* queue, or rendezvous in flight */
	enum op_kind kind;
	uint8_t refs;			/* rendezvous: request and DONE */
	uint8_t ctrl;			/* OP_CTRL: proto_type, 0: keepalive */
	bool waiter;			/* cookie is a struct rdmamsg_waiter */
	bool invalidate;		/* OP_EAGER: a window of the peer's */
	bool doubted;			/* reads: done, if this proves it */
	int status;
	uint32_t number;
	uint32_t tag;
	uint32_t len;
	void *cookie;
	struct rdmamsg_msg *msg;	/* buffer to give back, or NULL */
	struct rndv_out *rndv;
	union {
		struct rndv_in *in;	/* OP_READ */
		uint64_t region;	/* invalidate: of the peer's window */
	};
	uint32_t rkey;			/* of the window it takes back */
};

/* A large message we announced. */
struct rndv_out {
	uint32_t total;
	uint32_t count;
	uint64_t since;			/* ms */
	struct rdmamsg_msg *payload;	/* owned large message, or NULL */
	/* each segment that is not empty, as the peer reads it */
	struct ibv_mr *mr[RDMAMSG_SEGMENTS_MAX];
	uint64_t addr[RDMAMSG_SEGMENTS_MAX];
	uint64_t len[RDMAMSG_SEGMENTS_MAX];
};

enum in_state { IN_ANNOUNCED, IN_READING, IN_REFUSED, IN_READY };

/* A large message that the peer has announced and that we read. */
struct rndv_in {
	struct list node;		/* rndv.fetching, in order of numbers */
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *announced;	/* in rndv.waiting */
	struct rdmamsg_msg *msg;	/* where it goes, or NULL */
	struct sink sink;		/* memory of the program's */
	enum in_state state;
	uint8_t done;			/* enum proto_done to send */
	bool done_due;
	bool asked;			/* on_incoming, once */
	bool refused;			/* its pool was full */
	size_t counted;			/* bytes in rndv.lent */
	uint32_t number;
	uint32_t tag;
	uint32_t reads;			/* outstanding */
	uint32_t key;			/* the next read: key, offset in it */
	uint64_t offset;
	uint32_t filled;		/* bytes asked for */
	uint32_t arrived;		/* bytes read */
	struct proto_rndv wire;
};

enum ep_state {
	EP_RESOLVING,		/* name, address, route */
	EP_REQUESTED,		/* sent or accepted a request */
	EP_SETUP,		/* connected; SETUP under way */
	EP_OPEN,
	EP_CLOSING,		/* conversation */
	EP_DRAINING,		/* queue pair in error, counting flushes */
	EP_BACKOFF,		/* rejected for the moment, will try again */
	EP_CLOSED,
};

/* What a CM id belongs to; id->context points to one. */
struct cm_owner {
	enum cm_owner_kind { CM_EP, CM_LISTENER, CM_REQUEST } kind;
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
	uint64_t since;			/* ms; 0: nothing to wait for */
	uint32_t done;			/* sq_done at the last tick */
	bool port_down;			/* so there is no keepalive out */
	bool grace;			/* a late tick has put off the end */
};

#define RNR_RETRY_AUTO	8		/* rnr_retry_count not given */

/* Who issues reads: large messages, and the program. */
enum reader { READ_MESSAGE, READ_RMA, READERS };

#define EP_MAX		(1u << 23)	/* of a context; SRQ_KEY is no key */
#define EP_TIMERS	2	/* deadline and liveness tick */

/* Numbers of both directions, and how far each may go. */
struct credits {
	uint32_t announced;		/* credit that the peer has for sure */
	uint32_t granted_at;		/* number of the first with the last */
	uint32_t limit;			/* the peer takes numbers below this */
	uint32_t bare;			/* requests posted without a header */
	uint32_t seen_at;		/* headers sent when a CREDIT came */
	uint16_t messages;		/* CREDIT sent */
	uint16_t seen;			/* of them, by the peer */
	uint16_t seen_told;		/* CREDITs of the peer, in a header */
};

struct receiving {
	struct rdmamsg_msg *inbox, **inbox_tail; /* for rdmamsg_recv_wait() */
	/* hot */
	uint64_t head;			/* first half of the last's header */
	uint64_t bytes;
	uint32_t next;			/* number of the next data message */
	uint32_t max;			/* payload of a message in one piece */
	uint32_t end;			/* shorter ones are simply delivered */
};

struct sending {
	uint32_t end;			/* rdmamsg_send() is short below */
	uint32_t inline_max;		/* payload bytes */
	uint32_t inline_end;		/* hot.len_end, without a batch */
	uint32_t copy_max;		/* eager payload bytes */
	bool can_inline;		/* the header, at least */
	bool want_writable;
	bool want_memory;		/* and that for want of memory */
	int lack;			/* -errno of the last that was none */
	uint64_t told_writable; /* ctx->rounds at the last on_writable */
	struct pool *pool;
	struct op *op_free;
	uint32_t op_count, op_max;	/* made, and what it may have */
	struct op_chunk *op_chunks;
	struct list queue;		/* accepted, not yet posted: op */
	uint32_t queued;
	struct op *orphans;		/* accepted, not posted: post failed */
};

/* SETUP, CREDIT, PING, PONG, CLOSE, DONE. */
struct control {
	uint32_t due;			/* enum ep_ctrl */
	uint32_t ping_tag;
	struct pool *pool;		/* announcements as well */
	bool lacks;			/* a buffer */
};

struct rendezvous {
	struct list out;		/* announced by us: op */
	uint32_t count;			/* of them */
	uint32_t fetch_count; /* announced by the peer, no DONE sent */
	struct list fetching;		/* rndv_in of those announcements */
	/*
	 * Data messages behind a large one that has not arrived, and that one's
	 * announcement, in order. Each keeps its receive buffer and its credit.
	 */
	struct {
		struct rdmamsg_msg *first, **last;
		uint32_t count;
		struct rdmamsg_msg *unparsed;	/* RNDV without a rndv_in */
	} waiting;
	struct lent *lent;		/* what its messages take */
	struct account *shares;		/* of srq, or NULL */
	size_t charged;			/* to lent->account, for receives */
	uint32_t announced_max;		/* largest message, as in our SETUP */
	uint32_t holds_max; /* of these, into the library's memory */
};

/* The depth of reads, which large messages and the program share. */
struct reading {
	uint32_t free;
	bool wants[READERS];		/* and had to wait */
	enum reader turn;
};

/* For lib/onesided, which alone looks into most of it. */
struct onesided {
	struct rma *all, *free;		/* NULL until first used */
	struct rdmamsg_msg *results;
	struct list windows;
	bool wanted;			/* by a call that gave -EAGAIN */
	uint8_t can;			/* 1 << enum rma_kind, when connected */
	uint8_t ways;			/* those of which one may go now */
};

/* From an address to SETUP on both sides, and what was agreed on the way. */
struct connecting {
	const struct connector *by;
	struct cm_owner owner;
	struct rdma_cm_id *id;		/* NULL: none yet, or oob */
	struct oob *oob;		/* in place of it */
	bool or_soft;			/* if this device does not lead there */
	bool passive;			/* we accepted */
	bool lobby;			/* one receive: no SETUP has come */
	bool unanswered;		/* by address resolution: backs off */
	bool hello_ok, established, setup_sent, setup_seen;
	bool told;			/* on_connected */
	bool addrs_owned;
	struct addrinfo *addrs, *addr;	/* to try */
	struct resolve *resolve;
	char *source, *device, *host, *service;
	uint32_t backoff_ms;
	uint32_t limit;			/* enum proto_limit of a refusal */
	enum proto_reject refused;	/* the peer, by our SETUP */
	struct visitor visitor;		/* of the listener it came to */
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
	bool asserted;			/* our CLOSE that confirms the peer's */
	bool confirmed; /* the peer has ours, all before it too */
	bool asserted_done;		/* that one is acknowledged */
	bool by_peer;			/* it said CLOSE first */
	bool aborted;			/* by the program */
	bool lost;			/* a request before CLOSE has failed */
	bool lost_read;			/* whose result never came */
	bool disconnect_sent, disconnected;
	bool reason_set;
	bool told;			/* on_closed */
	bool failing;			/* in EP_DRAINING, and not yet acted on */
	uint32_t seq;			/* sq_posted of the first CLOSE */
	struct rdmamsg_reason reason;
	uint8_t reason_data[PROTO_HELLO_DATA_MAX];
};

struct liveness {
	struct timer timer;		/* the tick */
	uint64_t heard;			/* ms, last sign of the program there */
	uint64_t fetched; /* ms, it was at work on our rendezvous */
	uint64_t rx_seen;		/* rdmamsg__rx_count() at last tick */
	struct dead dead;
	bool fetches;			/* since the last tick */
	bool ping_out, stalled, keepalive_out;
	bool ask_again;			/* when that one is back: tx_ask() */
};

struct rdmamsg_ep {
	struct lane lane;		/* first: the inlines look into it */

	/* hot: each message looks at some of this */
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
	struct timer timer;		/* that deadline, back-off, drain */
	struct connecting connect;
	struct liveness live;
	struct closing close;
};

_Static_assert(offsetof(struct rdmamsg_ep, lane.hot) == 0, "the inlines");
/* A small message, one way or the other, looks at these nine cache lines. */
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
void rdmamsg__ep_touch(struct rdmamsg_ep *ep);	/* onto ctx->dirty */
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
/* Recomputes what the short ways go by, and how far they go. */
void rdmamsg__ep_ready(struct rdmamsg_ep *ep);
static inline void rdmamsg__tx_room(struct rdmamsg_ep *ep)
{
	struct rdmamsg_hot_ep *h = &ep->lane.hot;
	uint32_t posted = (uint32_t)h->sq_posted;
	/* more room may come unnoticed for a while, less may not */
	int32_t credit = (int32_t)(ep->credit.limit - le32toh(h->hdr.number));
	int32_t room = (int32_t)(ep->lane.sq.done + ep->lane.sq.data - posted);

	room = max(min(room, credit), 0);
	h->stop = posted + (uint32_t)room;
	h->look_at = (int32_t)(h->stop - h->signal_at) < 0 ? h->stop :
		     h->signal_at;
}
/* Credit goes with every header: whether our last one has gone. */
static inline uint32_t rdmamsg__announced(struct rdmamsg_ep *ep)
{
	if (le32toh(ep->lane.hot.hdr.number) != ep->credit.granted_at)
		ep->credit.announced = le32toh(ep->lane.hot.hdr.credit);
	return ep->credit.announced;
}

/*
 * More credit, as soon as there is anything to carry it. With data going the
 * other way the news travels for free; otherwise it is worth a message when
 * so many have come together.
 */
static inline void rdmamsg__rx_grant(struct rdmamsg_ep *ep, uint32_t granted,
				     uint32_t worth)
{
	uint32_t announced = rdmamsg__announced(ep);

	if ((int32_t)(granted - le32toh(ep->lane.hot.hdr.credit)) > 0) {
		ep->lane.hot.hdr.credit = htole32(granted);
		ep->credit.granted_at = le32toh(ep->lane.hot.hdr.number);
	}
	if ((ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
	    le32toh(ep->lane.hot.hdr.credit) - announced >= worth)
		ep->ctrl.due |= CTRL_CREDIT;
}

/* ep_options.c: takes over all that is asked. -EINVAL, -ENOMEM */
int rdmamsg__ep_configure(struct rdmamsg_ep *ep,
			  const struct rdmamsg_ep_options *opts);

/* ep_reason.c */
/* Notes why, once; the first reason stays. */
void rdmamsg__ep_reason(struct rdmamsg_ep *ep, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error,
			const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* All of it: status codes and a reject's data as well. */
void rdmamsg__ep_reason_forget(struct rdmamsg_ep *ep);
/* Of a peer that does not answer any more and has disconnected. */
const char *rdmamsg__peer_gone_text(const struct rdmamsg_ep *ep);
void rdmamsg__ep_wc_error(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
/* Posting, arming or polling has: it may be that the device is not there. */
void rdmamsg__ep_device_failed(struct rdmamsg_ep *ep, int err,
			       const char *what);
void rdmamsg__ep_removed(struct rdmamsg_ep *ep);
/* Counts a wrong key, or a breach of the protocol, of the peer. */
void rdmamsg__ep_offended(struct rdmamsg_ep *ep);
/* The peer refuses the connection: enum proto_reject, enum proto_limit. */
void rdmamsg__ep_refused(struct rdmamsg_ep *ep, uint32_t code, uint32_t limit);
/* What a listener limits, to follow "limits". */
const char *rdmamsg__limit_text(uint32_t limit);
void rdmamsg__ep_protocol(struct rdmamsg_ep *ep, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ep_close.c */
/*
 * A request has failed. One before our CLOSE may be a message that the peer
 * does not have.
 */
static inline void rdmamsg__ep_lost(struct rdmamsg_ep *ep, uint32_t seq)
{
	if (!(seq & 0x80000000u) &&
	    (!ep->close.sent || (seq - ep->close.seq) & 0x40000000u))
		ep->close.lost = true;
}
/*
 * Marks an endpoint as ending. The loop does what follows: queue pair to error,
 * disconnect, drain, on_closed.
 */
void rdmamsg__ep_kill(struct rdmamsg_ep *ep);
/* The same for a reason of this program, unless it has ended before. */
void rdmamsg__ep_abort(struct rdmamsg_ep *ep, enum rdmamsg_cause cause,
		       int error, const char *text);
/* In EP_CLOSING: what the peer has acknowledged arrives soon or never. */
void rdmamsg__ep_peer_gone(struct rdmamsg_ep *ep);
/* The device takes nothing more out of its shared receive queue. */
static inline void rdmamsg__ep_last_wqe(struct rdmamsg_ep *ep)
{
	ep->lane.last_wqe = true;
	rdmamsg__ep_touch(ep);
}
void rdmamsg__ep_progress_close(struct rdmamsg_ep *ep);
void rdmamsg__ep_peer_closes(struct rdmamsg_ep *ep);
/* The end of the call that made it; if that failed it is freed, nobody told. */
int rdmamsg__ep_made(struct rdmamsg_ep *ep, int ret,
		     struct rdmamsg_ep **ret_ep);
void rdmamsg__ep_deadline(struct timer *t);
/* Why it is not connected yet: "resolving the address". */
const char *rdmamsg__ep_waits_for(const struct rdmamsg_ep *ep);

int rdmamsg__ep_check(const struct rdmamsg_ep *ep);
/* Copies the options; what is not given becomes the default. */
int rdmamsg__ep_options_set(struct rdmamsg_ep_options *o,
			    const struct rdmamsg_ep_options *opts);
/* Whether the fields that are numbers are in range. */
int rdmamsg__ep_options_check(const struct rdmamsg_ep_options *opts);

/* info.c */
void rdmamsg__ep_stats_add(struct rdmamsg_counters *s,
			   const struct rdmamsg_ep *ep);

/* qp.c: resources of an endpoint, and the walk to RTS */
/* On the device of its CM id. */
int rdmamsg__ep_resources(struct rdmamsg_ep *ep);
void rdmamsg__ep_resources_free(struct rdmamsg_ep *ep);
int rdmamsg__qp_init(struct rdmamsg_ep *ep);
int rdmamsg__qp_ready(struct rdmamsg_ep *ep);	/* to RTR and RTS */
/* Attributes of the queue pair for a step: struct lane_events. */
int rdmamsg__qp_attr(struct lane *l, struct ibv_qp_attr *attr, int *mask);

/* live.c */
void rdmamsg__live_start(struct rdmamsg_ep *ep);
void rdmamsg__live_heard(struct rdmamsg_ep *ep);

/* dead.c */
/* Sets timeout and both retry counts; the features must be known. */
void rdmamsg__dead_transport(const struct rdmamsg_ep *ep,
			     struct ibv_qp_attr *attr);
/* The RNR retry count towards receives of a side with these PROTO_FEATURE_*. */
uint8_t rdmamsg__rnr_retry(const struct rdmamsg_ep *ep, uint32_t features);
/*
 * Part of the liveness tick, which has polled the completion queues at 'began'
 * or later. Returns false if the endpoint has ended.
 */
bool rdmamsg__dead_tick(struct rdmamsg_ep *ep, bool heard, uint64_t began);
uint32_t rdmamsg__dead_ms(const struct rdmamsg_ep *ep);	/* to the next one */

/* op.c: -ENOMEM, -EAGAIN when it has all that it may have */
int rdmamsg__ops_grow(struct rdmamsg_ep *ep);
void rdmamsg__ops_free(struct rdmamsg_ep *ep);
struct op *rdmamsg__op_get(struct rdmamsg_ep *ep);
void rdmamsg__op_put(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__op_complete(struct rdmamsg_ep *ep, struct op *op, int status);

/* tx.c */
extern const struct lane_events rdmamsg__lane_events;
void rdmamsg__tx_done(struct rdmamsg_ep *ep, uint32_t seq, int status);
void rdmamsg__tx_cancel(struct rdmamsg_ep *ep, int status);
/* Adds a request to the batch; the header is filled in. */
void rdmamsg__tx_message(struct rdmamsg_ep *ep, enum proto_type type,
			 uint32_t number, uint32_t tag, struct op *op,
			 struct rdmamsg_msg *msg, const void *inl,
			 uint32_t len);
void rdmamsg__tx_read(struct rdmamsg_ep *ep, struct op *op, void *dst,
		      uint32_t lkey, uint32_t len, uint64_t raddr,
		      uint32_t rkey);
void rdmamsg__tx_keepalive(struct rdmamsg_ep *ep, struct op *op);
/*
 * The last read of an operation has completed on a device with doubtful reads.
 * Returns true if another request was posted for the operation: that one's
 * completion tells whether the read has succeeded. Where no request can be
 * posted any more, *status becomes -ECANCELED.
 */
bool rdmamsg__tx_prove(struct rdmamsg_ep *ep, struct op *op, int *status);
/*
 * Something is in use by requests that nobody waits for. These do not tell by
 * themselves that they went well: now they are asked to.
 */
void rdmamsg__tx_ask(struct rdmamsg *ctx);
/* send.c */
void rdmamsg__tx_pump(struct rdmamsg_ep *ep);
/* -EAGAIN now, on_writable when memory has come back. */
int rdmamsg__no_buffer(struct rdmamsg_ep *ep);
struct rdmamsg_msg *rdmamsg__send_buffer(struct rdmamsg_ep *ep);
struct rdmamsg_msg *rdmamsg__ctrl_buffer(struct rdmamsg_ep *ep);
/* 0, or why the endpoint takes nothing to send. */
int rdmamsg__tx_check(const struct rdmamsg_ep *ep);
/* -EAGAIN, and on_writable will tell. */
int rdmamsg__tx_again(struct rdmamsg_ep *ep);
/* An accepted operation waits for its turn. */
void rdmamsg__tx_queue(struct rdmamsg_ep *ep, struct op *op);
/* Of the next data message. */
static inline uint32_t rdmamsg__tx_number(const struct rdmamsg_ep *ep)
{
	return le32toh(ep->lane.hot.hdr.number);
}

static inline uint32_t rdmamsg__tx_next_number(struct rdmamsg_ep *ep)
{
	uint32_t number = rdmamsg__tx_number(ep);

	ep->lane.hot.hdr.number = htole32(number + 1);
	return number;
}

static inline bool rdmamsg__has_credit(const struct rdmamsg_ep *ep)
{
	return (int32_t)(ep->credit.limit - rdmamsg__tx_number(ep)) > 0;
}

/* wait.c: sends that rdmamsg_send_wait() waits for */
struct rdmamsg_waiter;
void rdmamsg__waiter_done(struct rdmamsg_waiter *w, int status);
int rdmamsg__sendv_waiter(struct rdmamsg_ep *ep, const struct iovec *iov,
			  uint32_t tag, struct rdmamsg_waiter *waiter);

/* ctrl.c: control messages */
void rdmamsg__ctrl_pump(struct rdmamsg_ep *ep);
/* SETUP's largest message does not hold any more: memory for it is free. */
void rdmamsg__max_msg_forget(struct rdmamsg_ep *ep);
void rdmamsg__ctrl_setup(struct rdmamsg_ep *ep, const void *buf, size_t len);

/* lobby.c */
int rdmamsg__lobby_receives(struct rdmamsg_ep *ep);
/* The SETUP of the peer has come. On failure nothing is posted any more. */
int rdmamsg__lobby_leave(struct rdmamsg_ep *ep);
/* Undoes the charge for receives to the address of the peer. */
void rdmamsg__lobby_credit(struct rdmamsg_ep *ep);

/* recv_post.c */
void rdmamsg__rx_refill(struct rdmamsg_ep *ep);
/* In place of one that the program keeps: struct lane_events. */
struct rdmamsg_msg *rdmamsg__rx_buffer(struct lane *l, uint32_t count);

/* recv.c */
/* A message of an endpoint with a shared receive queue. */
void rdmamsg__rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc);
extern struct rdmamsg_ep rdmamsg__nobody;	/* waits for nothing */
void rdmamsg__dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n);
static inline uint32_t rdmamsg__granted(const struct rdmamsg_ep *ep)
{
	return le32toh(ep->lane.hot.hdr.credit);
}
void rdmamsg__rx_deliver(struct rdmamsg_ep *ep);
void rdmamsg__rx_discard(struct rdmamsg_ep *ep);

/* recv_wait.c: messages that wait for their turn */
static inline bool rdmamsg__rx_waits(const struct rdmamsg_ep *ep)
{
	return ep->rndv.waiting.first;
}
static inline enum proto_type rdmamsg__rx_type(const struct rdmamsg_msg *msg)
{
	return (enum proto_type)msg->buf[0];
}
void rdmamsg__rx_wait_init(struct rdmamsg_ep *ep);
/* At the end. Its credit stays with it. */
void rdmamsg__rx_wait(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
/* Finds out which announcements are among them; again after -ENOMEM. */
void rdmamsg__rx_parse(struct rdmamsg_ep *ep);
/* The first one, taken out. */
struct rdmamsg_msg *rdmamsg__rx_next(struct rdmamsg_ep *ep);

/* rndv.c */
int rdmamsg__rndv_prepare(struct rdmamsg_ep *ep, const struct iovec *iov,
			  int iovcnt, uint32_t total,
			  struct rdmamsg_msg *payload, struct rndv_out **ret);
void rdmamsg__rndv_free(struct rdmamsg_ep *ep, struct rndv_out *r);
void rdmamsg__rndv_announce(struct rdmamsg_ep *ep, struct op *op);
/* 0, or -EPROTO and the endpoint ends. */
int rdmamsg__rndv_check(struct rdmamsg_ep *ep, const void *buf, size_t len);
/* The large message of this announcement, -ENOMEM. */
int rdmamsg__rndv_in_new(struct rdmamsg_ep *ep, struct rdmamsg_msg *announced);
void rdmamsg__rndv_done(struct rdmamsg_ep *ep, const struct proto_hdr *hdr);
void rdmamsg__rndv_read_done(struct rdmamsg_ep *ep, struct op *op, int status);
void rdmamsg__rndv_pump(struct rdmamsg_ep *ep);
void rdmamsg__rndv_in_free(struct rndv_in *in);

#endif
