/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: their parts and states, their life, options and lanes. */
#ifndef RDMAMSG_LIB_EP_H
#define RDMAMSG_LIB_EP_H

#include <endian.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/ib.h>
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
#include "session/recorder.h"
#include "session/resume.h"
#include "session/rndv.h"
#include "wire/flight.h"
#include "wire/proto.h"

enum ep_state {
	EP_RESOLVING,		/* name, address, route */
	EP_REQUESTED,		/* sent or accepted a request */
	EP_SETUP,		/* queue pair connected, exchanging SETUP */
	EP_OPEN,
	EP_CLOSING,		/* exchanging CLOSE */
	EP_DRAINING,		/* queue pair in error, counting flushes */
	EP_BACKOFF,		/* rejected for now, will try again */
	EP_CLOSED,
} __attribute__((packed));	/* a byte, for a line of the cache */

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
	CTRL_CANCELED = 1u << 9,	/* no message: see flow.h */
	CTRL_LANE = 1u << 10,		/* no message: struct resume has work */
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
	uint64_t bytes;
	uint32_t next;			/* number of the next data message */
	uint32_t max;			/* payload of a message in one piece */
	uint32_t end;			/* fast path: payload < end */
	uint32_t plain_end;		/* delivered as it is: payload < this */
	bool paused;			/* rdmamsg_ep_pause() */
};

/* sending.late: on_complete must wait, or does so for some operations */
#define LATE_CALL	1u		/* in a call of the program */
#define LATE_UNTOLD	2u		/* sending.untold is not NULL */

struct sending {
	uint32_t end;			/* rdmamsg_send(): fast if len < end */
	uint32_t inline_max;		/* payload bytes */
	uint32_t inline_end;		/* hot.len_end if there is no batch */
	uint32_t copy_max;		/* eager payload bytes */
	uint32_t plain_end;		/* copied without a CRC: len < this */
	uint32_t pieces_max;		/* payload bytes of a run of pieces */
	bool can_inline;		/* at least the header */
	bool compact;			/* PROTO_FEATURE_IMM is in use */
	bool crc;			/* PROTO_FEATURE_CRC is in use */
	bool careful;			/* messages are kept, or have a CRC */
	bool want_writable;
	/* want_writable for lack of memory, and none has come back since */
	bool want_memory;
	uint8_t late;			/* LATE_* */
	int16_t lack;			/* -errno of the last failed take() */
	/* a refused message in pieces goes when so many can be posted; or 0 */
	uint16_t wants;
	uint32_t queued;		/* of queue */
	uint64_t told_writable; /* ctx->rounds at the last on_writable */
	struct pool *pool;
	struct op *op_free;
	uint32_t op_count, op_max;	/* allocated, and the limit */
	struct op_chunk *op_chunks;
	struct list queue;		/* accepted, not yet posted: op */
	struct op *orphans;		/* accepted, but posting failed */
	struct op *untold; /* last of those that ended, in a circle, or NULL */
	struct op *canceled;		/* by the program; the same */
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

/* One-sided operations and windows: rma_op.c, window.c, lib/onesided. */
struct onesided {
	struct rma *all, *free;		/* NULL until first used */
	struct rdmamsg_msg *results;
	struct list windows;
	uint32_t awaited;		/* ops with AFTER_ANSWER */
	bool wanted;			/* a call has returned -EAGAIN */
	uint8_t can;			/* 1 << enum rma_kind, when connected */
	uint8_t ways;			/* kinds of 'can' that may be posted */
};

/* RDMAMSG_EP_RETRY */
struct tries {
	uint32_t count;			/* in vain */
	uint32_t met[RDMAMSG_CAUSE_CRC + 1];	/* how many, by cause */
	struct rdmamsg_reason last;
};

/* Takes a third of a struct sockaddr_storage. */
union ep_addr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_ib ib;
};

/* Connecting, from the address to both SETUPs, and the values agreed. */
struct connecting {
	const struct connector *by;
	struct cm_owner owner;
	struct rdma_cm_id *id;		/* NULL: none yet, or oob */
	struct oob *oob;		/* in place of id */
	bool or_soft;			/* no route: try the soft HCA */
	bool all_soft;			/* all addresses on the soft HCA */
	bool led;			/* a device leads to an address */
	bool passive;			/* this side has accepted */
	bool lobby;			/* one receive: a stranger */
	bool unanswered;		/* address resolution timed out */
	bool hello_ok, established, setup_sent, setup_seen;
	bool told;			/* on_connected was called */
	/* iWARP: the kernel may wait for the peer before it ends this */
	bool awaits_reply;
	bool addrs_owned;
	bool carrier;			/* brings a lane to a session */
	bool inner;			/* of a sender, which closes it */
	bool redials;			/* when the lane has drained */
	uint8_t crowded;		/* looks for a place, while it waits */
	uint16_t pkey;			/* of the way of the CM; 0: any */
	struct addrinfo *addrs, *addr;	/* to try */
	struct resolve *resolve;
	struct call *call;		/* rdma_connect() in a thread */
	char *source, *device, *host, *service;
	struct tries *tries;		/* NULL: no try was in vain */
	uint32_t backoff_ms;
	uint32_t limit;			/* enum proto_limit of a refusal */
	uint32_t version;
	uint32_t features;		/* of PROTO_FEATURE_*, both sides' */
	uint32_t peer_data_len;
	/* our SETUP or the initiator's AUTH refuses the peer */
	enum proto_reject refused;
	struct auth *auth;		/* NULL: no key, or connected */
	struct visitor visitor;		/* at the listener, if passive */
	union {
		uint8_t hello_data[PROTO_HELLO_DATA_MAX];
		/* once connected: of this program's rdmamsg_ep_close_with() */
		uint8_t word_data[PROTO_HELLO_DATA_MAX];
	};
	uint8_t *setup_data;
	uint8_t *peer_data;
	struct proto_setup peer;	/* its data pointer is unused */
	uint8_t session[16];
	union ep_addr local_addr, peer_addr;
};

/* The first fields of struct rdmamsg_stats: those that an endpoint counts. */
struct ep_counters {
	uint64_t msgs_sent, msgs_received, bytes_sent, bytes_received;
	uint64_t bytes_copied;
	uint64_t sent_inline, sent_eager, sent_rendezvous, received_rendezvous;
	uint64_t sends_refused, credit_stalls, credit_msgs;
	uint64_t keepalives, pings, rnr_errors, stalls, completions;
	uint64_t of_context[4];
	uint64_t rma_writes, rma_reads, rma_atomics, rma_bytes;
	uint64_t sent_pieces, received_pieces;
	uint64_t lanes_lost, lanes_resumed, msgs_repeated;
};

struct rdmamsg_ep {
	struct lane lane;		/* first: the inlines use lane.hot */

	/* hot: used by each message */
	/* NULL in a forked child, where refs is 0, or after rdmamsg_close() */
	struct rdmamsg *ctx;
	struct control ctrl;
	/* a cache line: all that a small message which arrives needs of this */
	enum ep_state state;
	bool dirty;			/* on ctx->dirty */
	uint32_t key;			/* index << 8 | generation */
	struct receiving recv;
	struct credits credit;
	/* a cache line begins: what delivering it needs */
	void *user;
	struct rdmamsg_ep_handlers on;
	struct list dirty_node;
	struct sending send;
	struct rendezvous rndv;
	struct reading reads;
	struct onesided onesided;
	struct ep_counters st;
	struct starving starving;

	/* cold */
	struct list node;		/* of the context */
	int refs;
	struct rdmamsg_ep_options opts;
	struct rdmamsg_ep_tuning tuning;	/* opts.tuning */
	struct rdmamsg_msg *inbox, **inbox_tail; /* for rdmamsg_recv_wait() */
	uint64_t deadline;		/* ms, of connecting or closing */
	struct timer timer;		/* for the deadline, back-off, drain */
	struct connecting connect;
	struct liveness live;
	struct closing close;
	struct failover *failover;	/* NULL: off */
	struct chain_ep *chain;		/* lib/chain, or NULL */
	struct pieces pieces;
	struct resume *resume;		/* NULL: one lane for life */
	struct rdmamsg_ep *carries;	/* NULL, or the session of a carrier */
	struct recorder *recorder;	/* NULL: failover was not asked for */
};

_Static_assert(offsetof(struct rdmamsg_ep, lane.hot) == 0, "the inlines");
/*
 * With thousands of connections, each line that a message uses is a cache miss:
 * these are three of a message that arrives, beside those of lane.hot.
 */
_Static_assert(offsetof(struct rdmamsg_ep, lane.rq) % 64 == 0 &&
	       sizeof(struct receive_queue) <= 64, "one line");
_Static_assert(offsetof(struct rdmamsg_ep, state) % 64 == 0 &&
	       offsetof(struct rdmamsg_ep, user) -
	       offsetof(struct rdmamsg_ep, state) == 64, "one line");
_Static_assert(offsetof(struct rdmamsg_ep, on.on_message) -
	       offsetof(struct rdmamsg_ep, user) < 64, "one line");
_Static_assert(offsetof(struct rdmamsg_ep, send) % 64 == 0, "two lines");
_Static_assert(sizeof(struct rdmamsg_ep) <= 2624, "there may be thousands");

/* The session that a lane belongs to. */
static inline struct rdmamsg_ep *rdmamsg__ep_of(struct lane *l)
{
	return list_entry(l, struct rdmamsg_ep, lane);
}

/* Enters the state, and records it. */
static inline void rdmamsg__ep_enter(struct rdmamsg_ep *ep, enum ep_state state)
{
	ep->state = state;
	rdmamsg__record(ep->recorder, EVENT_STATE, state, 0);
}

/* Returns true if the endpoint has lost its lane and waits for another. */
static inline bool rdmamsg__lane_lost(const struct rdmamsg_ep *ep)
{
	return unlikely(ep->resume) && ep->resume->lane != LANE_UP;
}

/* Returns true if the messages of the endpoint are kept. */
static inline bool rdmamsg__keeps(const struct rdmamsg_ep *ep)
{
	return unlikely(ep->resume) && ep->resume->agreed;
}

/* Returns true if new operations must wait for what is repeated. */
static inline bool rdmamsg__holds_back(const struct rdmamsg_ep *ep)
{
	return rdmamsg__keeps(ep) &&
	       (ep->resume->lane != LANE_UP || ep->resume->taking ||
		rdmamsg__keep_replays(&ep->resume->keep) ||
		!list_empty(&ep->resume->parked));
}

/* ep.c: life */
/* ep_name.c. Valid until the thread calls it again. */
const char *rdmamsg__ep_name(const struct rdmamsg_ep *ep);
/* Copies an address, as long as its family says. 'from' may be *to. */
void rdmamsg__ep_addr_set(union ep_addr *to, const struct sockaddr *from);
#define SESSION_TEXT	24
/*
 * Writes ", session 1f0c22d7": the first four bytes of the number that both
 * sides know, or "" as long as this side does not know it. Returns buf.
 */
const char *rdmamsg__ep_session(const struct rdmamsg_ep *ep,
				char buf[static SESSION_TEXT]);

/* Lines of the log that begin with the endpoint's name. */
#define ep_warn(ep, fmt, ...) \
	log_warn("%s: " fmt, rdmamsg__ep_name(ep), ##__VA_ARGS__)
#define ep_info(ep, fmt, ...) \
	log_info("%s: " fmt, rdmamsg__ep_name(ep), ##__VA_ARGS__)
#define ep_debug(ep, fmt, ...) \
	log_debug("%s: " fmt, rdmamsg__ep_name(ep), ##__VA_ARGS__)

void rdmamsg__ep_touch(struct rdmamsg_ep *ep);	/* adds to ctx->dirty */
int rdmamsg__ep_new(struct rdmamsg *ctx, const struct connector *by,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret);
void rdmamsg__ep_free(struct rdmamsg_ep *ep);
void rdmamsg__ep_connected(struct rdmamsg_ep *ep);
/* The lane of a try is freed: forgets all that the try has agreed. */
void rdmamsg__ep_anew(struct rdmamsg_ep *ep);
void rdmamsg__ep_timeout(struct rdmamsg_ep *ep);	/* at its deadline */
const char *rdmamsg__ep_state_name(enum ep_state state);
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

/*
 * Returns 0, -EINVAL if the endpoint is NULL, -ECHILD in a forked child, or
 * -ESHUTDOWN if its context was closed while the program held it.
 */
int rdmamsg__ep_check(const struct rdmamsg_ep *ep);
/* The same for calls that need no context: not -ESHUTDOWN. */
int rdmamsg__ep_look(const struct rdmamsg_ep *ep);
/* Returns how the peer is reached. */
enum rdmamsg_way rdmamsg__ep_way(const struct rdmamsg_ep *ep);
/* Copies the options, and their tuning to *t, to which o->tuning points. */
int rdmamsg__ep_options_copy(struct rdmamsg_ep_options *o,
			     struct rdmamsg_ep_tuning *t,
			     const struct rdmamsg_ep_options *opts);
/* The same, and sets the defaults of fields that are 0. */
int rdmamsg__ep_options_set(struct rdmamsg_ep_options *o,
			    struct rdmamsg_ep_tuning *t,
			    const struct rdmamsg_ep_options *opts);
/*
 * The reverse: makes options of an endpoint from those that are set, so that
 * another endpoint gets the same values.
 */
void rdmamsg__ep_options_unset(struct rdmamsg_ep_options *o,
			       struct rdmamsg_ep_tuning *t);
/* Checks the ranges of the fields that are numbers. The options are a copy. */
int rdmamsg__ep_options_check(const struct rdmamsg_ep_options *opts);

/* stats.c */
void rdmamsg__ep_stats_add(struct rdmamsg_stats *s,
			   const struct rdmamsg_ep *ep);
/* Counts an endpoint that has ended, at its context. Once. */
void rdmamsg__ep_stats_ended(const struct rdmamsg_ep *ep);

/* ep_lane.c: resources of an endpoint, and the walk to RTS */
/* Creates them on the device of the CM id or of the record. */
int rdmamsg__ep_resources(struct rdmamsg_ep *ep);
void rdmamsg__ep_resources_free(struct rdmamsg_ep *ep);
void rdmamsg__pools_put(struct rdmamsg_ep *ep);
int rdmamsg__qp_init(struct rdmamsg_ep *ep);
int rdmamsg__qp_ready(struct rdmamsg_ep *ep);	/* to RTR and RTS */
/* attr() of struct lane_events. */
int rdmamsg__qp_attr(struct lane *l, struct ibv_qp_attr *attr, int *mask);

#endif
