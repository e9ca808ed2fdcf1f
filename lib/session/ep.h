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

#define RDMAMSG_FAST_TWINS	/* the library defines the layout */
#include <rdmamsg/fast.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "session/door.h"
#include "session/large.h"
#include "wire/proto.h"

/*
 * Receives kept beyond the credits, so that control messages always find one:
 * what a peer that keeps the rules can have in flight, see rdmamsg-proto(7).
 */
#define RNDV_MAX	16	/* rendezvous announced by us: one DONE each */
#define CREDIT_MAX	2	/* CREDIT messages the peer has not seen */
#define RX_LAZY		8	/* control messages whose receives may wait */
#define RX_LAZY_MAX	32	/* data messages: they have used up a credit */
#define RECV_RESERVE	(RNDV_MAX + CREDIT_MAX + RX_LAZY + 2 + \
			 4 /* PING PONG CLOSE SETUP */)
/* Send requests kept beyond those for data: control, keepalive. */
#define SEND_RESERVE	16
#define READ_CHUNK	(1u << 20)
#define TX_BATCH	16
#define SLOW_EVERY	1024	/* polls */
#define TX_STAGE	512	/* inline payload that a batch can hold */

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
	struct list node;		/* ep->fetching, in order of numbers */
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *announced;	/* in ep->waiting */
	struct rdmamsg_msg *msg;	/* where it goes, or NULL */
	struct sink sink;		/* memory of the program's */
	enum in_state state;
	uint8_t done;			/* enum proto_done to send */
	bool done_due;
	bool asked;			/* on_incoming, once */
	bool refused;			/* its pool was full */
	size_t counted;			/* bytes in ep->lent */
	uint32_t number;
	uint32_t tag;
	uint32_t reads;			/* outstanding */
	uint32_t key;			/* the next read: key, offset in it */
	uint64_t offset;
	uint32_t filled;		/* bytes asked for */
	uint32_t arrived;		/* bytes read */
	struct proto_rndv wire;
};

/* A receive and its buffer. */
struct rx_slot {
	struct ibv_recv_wr wr;		/* first; chained in a circle */
	struct ibv_sge sge;
	struct rdmamsg_msg *msg;	/* NULL: the program has kept it */
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
#define TABLES	2	/* the system's, or a test's, and the soft HCA's */

struct rdmamsg_ep {
	struct rdmamsg_hot_ep hot;	/* first: the inlines look here */

	/* hot: data path */
	struct rdmamsg *ctx;		/* NULL in a forked child */
	enum ep_state state;
	uint32_t key;			/* index << 8 | generation */
	struct rx_slot *rq_head;	/* completes next */
	int32_t rq_spare;		/* posted receives above rq_low */
	uint32_t announced;		/* credit that the peer has for sure */
	uint32_t granted_at;		/* number of the first with the last */
	uint32_t rx_next;		/* number of the next data message */
	uint32_t rx_max;		/* payload of a message in one piece */
	uint32_t rx_end;		/* shorter ones are simply delivered */
	uint64_t rx_head;		/* first half of the last's header */
	uint64_t bytes_received;
	uint64_t rq_posts;		/* receives posted, ever */
	struct rx_slot *rq;
	uint32_t rq_target;		/* of them: recv_depth + RECV_RESERVE */
	uint32_t rq_low;		/* fewer are worth a refill */
	uint32_t rq_tail;		/* posted next */
	uint32_t rq_holes;		/* slots without a buffer */
	uint32_t send_end;		/* rdmamsg_send() is short below */
	uint32_t inline_max;		/* payload bytes */
	uint32_t inline_end;		/* hot.len_end, without a batch */
	uint32_t tx_limit;		/* the peer takes numbers below this */
	struct op **sq_slots;		/* NULL: nobody to tell */
	uint32_t sq_mask;
	uint32_t sq_ops;		/* of sq_slots, not NULL */
	uint32_t sq_done;		/* requests completed, ever */
	uint32_t sq_data;		/* that data may have outstanding */
	uint32_t sq_total;		/* all that it can hold */
	uint32_t chunk;			/* bytes of a request, at most */
	uint32_t copy_max;		/* eager payload bytes */
	uint32_t ping_tag;
	bool can_inline;		/* the header, at least */
	uint32_t ctrl_due;		/* enum ep_ctrl */
	bool dirty;			/* on ctx->dirty */
	struct srq *srq;		/* NULL: rq is its own */
	uint32_t share;			/* of the srq: credits to have out */
	bool want_writable;
	bool want_memory;		/* and that for want of memory */
	uint64_t told_writable;		/* ctx->rounds at the last on_writable */
	bool passive;			/* we accepted */
	bool lobby;			/* one receive: no SETUP has come */
	struct list dirty_node;
	struct list starved_node;
	struct pool *recv_pool;
	struct pool *send_pool;
	struct pool *ctrl_pool;		/* of control, announcements */
	struct op *op_free;
	uint32_t op_count, op_max;	/* made, and what it may have */
	struct op_chunk *op_chunks;
	struct list queue;		/* accepted, not yet posted: op */
	uint32_t queued;
	struct list rndv_out;		/* announced: op */
	uint32_t rndv_count;
	/*
	 * Data messages behind a large one that has not arrived, and that one's
	 * announcement, in order. Each keeps its receive buffer and its credit.
	 */
	struct {
		struct rdmamsg_msg *first, **last;
		uint32_t count;
		struct rdmamsg_msg *unparsed;	/* RNDV without a rndv_in */
	} waiting;
	struct list fetching;		/* rndv_in of those announcements */
	uint32_t fetch_count;		/* announced, no DONE sent */
	struct lent *lent;		/* what its messages take */
	struct account *shares;		/* of srq, or NULL */
	size_t charged;			/* to lent->account, for receives */
	uint32_t reads_free;
	bool read_wants[READERS];	/* and had to wait */
	enum reader read_turn;
	struct rma *rma, *rma_free;	/* NULL until first used */
	struct rdmamsg_msg *rma_results;
	struct list windows;
	bool rma_wanted;		/* by a call that gave -EAGAIN */
	uint8_t rma_can;		/* 1 << enum rma_kind, when connected */
	uint8_t rma_ways;		/* those of which one may go now */
	uint16_t credit_msgs;		/* CREDIT sent */
	uint16_t credit_seen;		/* of them, by the peer */
	uint16_t seen_told;		/* CREDITs of the peer, in a header */
	uint32_t seen_at;		/* sq_posted when the last one came */
	struct rdmamsg_handlers on;
	struct rdmamsg_counters st;
	struct rdmamsg_msg *inbox, **inbox_tail; /* for rdmamsg_recv_wait() */

	/* cold */
	struct cm_owner owner;
	struct list node;		/* of the context */
	int refs;
	struct dev *dev;
	struct cq *cq;
	uint32_t cq_share;
	const struct verbs_api *v;	/* of id, and of the device */
	struct rdma_cm_id *id;		/* NULL: none yet, or oob */
	struct oob *oob;		/* in place of it */
	bool or_soft;			/* if this device does not lead there */
	struct rdmamsg_ep_options opts;
	void *user;
	struct addrinfo *addrs, *addr;	/* to try */
	bool addrs_owned;
	struct resolve *resolve;
	char *source, *device, *host, *service;
	uint8_t hello_data[PROTO_HELLO_DATA_MAX];
	uint8_t *setup_data;
	uint8_t *peer_data;
	size_t peer_data_len;
	struct proto_setup peer;	/* its data pointer is unused */
	uint32_t announced_max;		/* largest message, as in our SETUP */
	uint32_t holds_max;		/* of these, into the library's memory */
	uint32_t version;
	uint32_t features;		/* of PROTO_FEATURE_*, both sides' */
	uint8_t session[16];
	struct ibv_qp_cap cap;
	struct sockaddr_storage local_addr, peer_addr;
	uint32_t peer_qp_num, mtu;
	uint8_t port;
	union ibv_gid gid;
	uint8_t resp_res, init_depth;
	uint64_t deadline;		/* ms, of connecting or closing */
	struct timer timer;		/* that deadline, back-off, drain */
	struct timer live;		/* liveness tick */
	uint32_t backoff_ms;
	uint32_t limit;			/* enum proto_limit of a refusal */
	bool unanswered;		/* by address resolution: backs off */
	enum proto_reject refused;	/* the peer, by our SETUP */
	struct visitor visitor;		/* of the listener it came to */
	uint64_t heard;			/* ms, last sign of the program there */
	uint64_t fetched;		/* ms, it was at work on our rendezvous */
	bool fetches;			/* since the last tick */
	uint64_t rx_seen;		/* rdmamsg__rx_count() at last tick */
	struct dead dead;
	bool ping_out, stalled, keepalive_out;
	bool ask_again;			/* when that one is back: tx_ask() */
	bool hello_ok, established, setup_sent, setup_seen;
	bool connected_told;
	bool close_sent, close_done, close_seen;
	bool close_asserted;		/* our CLOSE that confirms the peer's */
	bool close_confirmed;		/* the peer has ours, all before it too */
	bool close_asserted_done;	/* that one is acknowledged */
	bool closed_by_peer;		/* it said CLOSE first */
	bool aborted;			/* by the program */
	bool lost;			/* a request before CLOSE has failed */
	bool lost_read;			/* whose result never came */
	uint32_t close_seq;		/* sq_posted of the first CLOSE */
	bool disconnect_sent, disconnected;
	bool reason_set, closed_told;
	bool failed;			/* the device reported an error */
	bool drained;			/* or nothing more is to be expected */
	bool last_wqe;			/* nothing more is taken from the srq */
	bool rq_short, ctrl_short;	/* for want of buffers */
	struct rdmamsg_reason reason;
	uint8_t reason_data[PROTO_HELLO_DATA_MAX];
	struct op *orphans;		/* accepted, not posted: post failed */
	char device_name[64];		/* once it is closed */
};

/* ep.c: life */
void rdmamsg__ep_touch(struct rdmamsg_ep *ep);	/* onto ctx->dirty */
int rdmamsg__ep_new(struct rdmamsg *ctx, const struct rdmamsg_ep_options *opts,
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
	struct rdmamsg_hot_ep *h = &ep->hot;
	uint32_t posted = (uint32_t)h->sq_posted;
	/* more room may come unnoticed for a while, less may not */
	int32_t credit = (int32_t)(ep->tx_limit - le32toh(h->hdr.number));
	int32_t room = (int32_t)(ep->sq_done + ep->sq_data - posted);

	room = max(min(room, credit), 0);
	h->stop = posted + (uint32_t)room;
	h->look_at = (int32_t)(h->stop - h->signal_at) < 0 ? h->stop :
		     h->signal_at;
}
/* Credit goes with every header: whether our last one has gone. */
static inline uint32_t rdmamsg__announced(struct rdmamsg_ep *ep)
{
	if (le32toh(ep->hot.hdr.number) != ep->granted_at)
		ep->announced = le32toh(ep->hot.hdr.credit);
	return ep->announced;
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

	if ((int32_t)(granted - le32toh(ep->hot.hdr.credit)) > 0) {
		ep->hot.hdr.credit = htole32(granted);
		ep->granted_at = le32toh(ep->hot.hdr.number);
	}
	if ((ep->state == EP_OPEN || ep->state == EP_CLOSING) &&
	    le32toh(ep->hot.hdr.credit) - announced >= worth)
		ep->ctrl_due |= CTRL_CREDIT;
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
	    (!ep->close_sent || (seq - ep->close_seq) & 0x40000000u))
		ep->lost = true;
}
/* Queue pair to error, drain, then on_closed from the loop. */
void rdmamsg__ep_kill(struct rdmamsg_ep *ep);
/* The same for a reason of this program, unless it has ended before. */
void rdmamsg__ep_abort(struct rdmamsg_ep *ep, enum rdmamsg_cause cause,
		       int error, const char *text);
/* In EP_CLOSING: what the peer has acknowledged arrives soon or never. */
void rdmamsg__ep_peer_gone(struct rdmamsg_ep *ep);
/* The device takes nothing more out of its shared receive queue. */
static inline void rdmamsg__ep_last_wqe(struct rdmamsg_ep *ep)
{
	ep->last_wqe = true;
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

/* info.c */
void rdmamsg__ep_stats_add(struct rdmamsg_counters *s,
			   const struct rdmamsg_ep *ep);

/* qp.c: resources of an endpoint, and the walk to RTS */
int rdmamsg__ep_resources(struct rdmamsg_ep *ep);	/* on ep->id's device */
void rdmamsg__ep_resources_free(struct rdmamsg_ep *ep);
int rdmamsg__qp_init(struct rdmamsg_ep *ep);
int rdmamsg__qp_ready(struct rdmamsg_ep *ep);	/* to RTR and RTS */
int rdmamsg__qp_error(struct rdmamsg_ep *ep);
void rdmamsg__qp_destroy(struct rdmamsg_ep *ep);	/* if there is one */

/* live.c */
void rdmamsg__live_start(struct rdmamsg_ep *ep);
void rdmamsg__live_heard(struct rdmamsg_ep *ep);

/* dead.c */
/* Sets timeout and both retry counts; ep->features must be known. */
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
static inline uint32_t rdmamsg__sq_used(const struct rdmamsg_ep *ep)
{
	return (uint32_t)ep->hot.sq_posted - ep->sq_done;
}

/* Of the next data message. */
static inline uint32_t rdmamsg__tx_number(const struct rdmamsg_ep *ep)
{
	return le32toh(ep->hot.hdr.number);
}

static inline uint32_t rdmamsg__tx_next_number(struct rdmamsg_ep *ep)
{
	uint32_t number = rdmamsg__tx_number(ep);

	ep->hot.hdr.number = htole32(number + 1);
	return number;
}

static inline bool rdmamsg__has_credit(const struct rdmamsg_ep *ep)
{
	return (int32_t)(ep->tx_limit - rdmamsg__tx_number(ep)) > 0;
}

/* wait.c: sends that rdmamsg_send_wait() waits for */
struct rdmamsg_waiter;
void rdmamsg__waiter_done(struct rdmamsg_waiter *w, int status);
int rdmamsg__sendv_waiter(struct rdmamsg_ep *ep, const struct iovec *iov,
			  uint32_t tag, struct rdmamsg_waiter *waiter);

/* ctrl.c: control messages */
void rdmamsg__ctrl_pump(struct rdmamsg_ep *ep);
void rdmamsg__ctrl_setup(struct rdmamsg_ep *ep, const void *buf, size_t len);

/* lobby.c */
int rdmamsg__lobby_receives(struct rdmamsg_ep *ep);
/* The SETUP of the peer has come. On failure nothing is posted any more. */
int rdmamsg__lobby_leave(struct rdmamsg_ep *ep);
/* Undoes the charge for receives to the address of the peer. */
void rdmamsg__lobby_credit(struct rdmamsg_ep *ep);

/* recv_post.c */
void rdmamsg__rx_refill(struct rdmamsg_ep *ep);

/* recv.c */
/* A message of an endpoint with a shared receive queue. */
void rdmamsg__rx_msg(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		     const struct ibv_wc *wc);
extern struct rdmamsg_ep rdmamsg__nobody;	/* waits for nothing */
void rdmamsg__dispatch(struct rdmamsg *ctx, const struct ibv_wc *wc, int n);
static inline uint32_t rdmamsg__rq_posted(const struct rdmamsg_ep *ep)
{
	return (uint32_t)ep->rq_spare + ep->rq_low;
}

/* Receives completed, ever. */
static inline uint64_t rdmamsg__rx_count(const struct rdmamsg_ep *ep)
{
	return ep->rq_posts - rdmamsg__rq_posted(ep);
}

static inline uint32_t rdmamsg__granted(const struct rdmamsg_ep *ep)
{
	return le32toh(ep->hot.hdr.credit);
}
void rdmamsg__rx_deliver(struct rdmamsg_ep *ep);
void rdmamsg__rx_discard(struct rdmamsg_ep *ep);

/* recv_wait.c: messages that wait for their turn */
static inline bool rdmamsg__rx_waits(const struct rdmamsg_ep *ep)
{
	return ep->waiting.first;
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
