/* SPDX-License-Identifier: BSD-2-Clause */
/* Private structs, and what two or more files of lib/ and cm/ share. */
#ifndef RDMAMSG_LIB_INTERNAL_H
#define RDMAMSG_LIB_INTERNAL_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#define RDMAMSG_FAST_TWINS	/* no rdmamsg_open() macro in here */
#include <rdmamsg/fast.h>
#include <rdmamsg/rdmamsg.h>

#include "list.h"
#include "proto.h"
#include "verbs_api.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))

/*
 * Receives kept beyond the credits, so that control messages always find one:
 * what a peer that keeps the rules can have in flight, see rdmamsg-proto(7).
 */
#define RNDV_MAX	16	/* rendezvous we have announced: one DONE each */
#define CREDIT_MAX	2	/* CREDIT messages the peer has not seen */
#define RX_LAZY		8	/* control messages whose receives may wait */
#define RX_LAZY_MAX	32	/* data messages: they have used up a credit */
#define RECV_RESERVE	(RNDV_MAX + CREDIT_MAX + 4 /* PING PONG CLOSE SETUP */ + \
			 RX_LAZY + 2)
/* Send requests kept beyond those for data: control, keepalive. */
#define SEND_RESERVE	16
#define READ_CHUNK	(1u << 20)
#define TX_BATCH	16
#define SLOW_EVERY	1024	/* polls */
#define TX_STAGE	512	/* inline payload that a batch can hold */

/* ---- errors and log (err.c, log.c, env.c) ----------------------------- */

/* Keeps the text for rdmamsg_error(), logs it at debug, returns err. */
int rdmamsg__fail(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The same for failed verbs: adds what to do about EACCES, ENOMEM, ... */
int rdmamsg__fail_verbs(int err, const char *what);
/*
 * -EACCES if that is why opening a device node failed with err: the libraries
 * below try one way after the other and report the last one's error.
 */
int rdmamsg__node_error(int err, const char *node);
const char *rdmamsg__wc_text(int status);
const char *rdmamsg__event_text(int type);

extern _Atomic int rdmamsg__log_level;
void rdmamsg__log(enum rdmamsg_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#define log_at(level, ...) \
	do { \
		if (unlikely(rdmamsg__log_level >= (level))) \
			rdmamsg__log(level, __VA_ARGS__); \
	} while (0)
#define log_error(...)	log_at(RDMAMSG_LOG_ERROR, __VA_ARGS__)
#define log_warn(...)	log_at(RDMAMSG_LOG_WARN, __VA_ARGS__)
#define log_info(...)	log_at(RDMAMSG_LOG_INFO, __VA_ARGS__)
#define log_debug(...)	log_at(RDMAMSG_LOG_DEBUG, __VA_ARGS__)

/* Reads the environment once per process. */
void rdmamsg__env_init(void);
bool rdmamsg__env_log(void);		/* RDMAMSG_LOG was set */
const char *rdmamsg__env_device(void);	/* RDMAMSG_DEVICE or NULL */

/* ---- memory of objects (object.c) ------------------------------------- */

/*
 * Zeroed memory that is zero again in a forked child: a context or endpoint
 * there is recognised by its missing owner, and the inlines refuse by
 * themselves.
 */
void *rdmamsg__object_new(size_t size);
void rdmamsg__object_free(void *obj, size_t size);

void rdmamsg__fork_mark(void);	/* RDMA is used from here on */
int rdmamsg__fork_check(void);	/* -ECHILD in a child made after that */

/* Copies an options struct of the caller's size into ours. -EINVAL. */
int rdmamsg__opts_copy(void *dst, size_t dst_size, const void *src,
		       const char *name);
uint64_t rdmamsg__now_ms(void);

/* ---- timers (timer.c) ------------------------------------------------- */

struct timer {
	uint64_t when;		/* ms, CLOCK_MONOTONIC */
	int pos;		/* in the heap, -1: idle */
	void (*fn)(struct timer *t);
};

struct timers {
	struct timer **heap;
	int count, room, promised;
	int fd;
	uint64_t armed;		/* what fd is set to, 0: nothing */
};

int rdmamsg__timers_init(struct timers *ts);
void rdmamsg__timers_fini(struct timers *ts);
void rdmamsg__timer_init(struct timer *t, void (*fn)(struct timer *t));
/* Cannot fail: room was made by rdmamsg__timers_reserve(). */
void rdmamsg__timer_set(struct timers *ts, struct timer *t, uint64_t ms);
void rdmamsg__timer_stop(struct timers *ts, struct timer *t);
/* Room for n more timers to run at once, and its return. */
int rdmamsg__timers_reserve(struct timers *ts, int n);
void rdmamsg__timers_release(struct timers *ts, int n);
int rdmamsg__timers_run(struct timers *ts);

/* ---- work from other threads (submit.c) ------------------------------- */

struct submit_cell {
	_Atomic uint32_t turn;
	void (*fn)(struct rdmamsg *ctx, void *arg);
	void *arg;
};

struct submit {
	struct submit_cell *cells;
	uint32_t mask;
	_Atomic uint32_t tail;
	uint32_t head;
	_Atomic bool kicked;
};

/* A message from another part of the library; allocated by the sender. */
struct mail {
	struct list node;
	void (*fn)(struct rdmamsg *ctx, struct mail *mail);
};

int rdmamsg__submit_init(struct submit *s, uint32_t depth);
void rdmamsg__submit_fini(struct submit *s);
int rdmamsg__submit_run(struct rdmamsg *ctx);
void rdmamsg__mail_post(struct rdmamsg *ctx, struct mail *mail);
/* Makes rdmamsg_fd() readable. */
void rdmamsg__kick(struct rdmamsg *ctx);

/* ---- devices (device.c) ----------------------------------------------- */

enum device_kind { KIND_SOFT_ROCE, KIND_ROCE, KIND_IB, KIND_IWARP, KIND_SOFT };

struct rdmamsg_device {
	struct list node;		/* all, under devices_lock */
	int refs;
	const struct verbs_api *v;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	enum device_kind kind;
	char name[64];
	bool gone;			/* removed: find a new one by this name */
	struct list ports;		/* struct dev of each context */
	struct dev *async_reader;	/* the context that reads async events */
};

/* A registered stretch of pool memory. */
struct slab {
	struct list node;
	struct ibv_mr *mr;
	void *mem;
	size_t size;
	struct rdmamsg_msg *msgs;
};

/* Buffers of one size in local-access memory of one dev. */
struct pool {
	struct list node;
	struct dev *dev;
	size_t buf_size;
	struct rdmamsg_msg *free;
	uint32_t total, used;
	struct list slabs;
};

struct cq {
	struct list node;
	struct ibv_cq *ibv;
	uint32_t room, used;		/* entries, and promised ones */
	uint32_t events;		/* got, not yet acked */
	bool unarmed;			/* arming failed: raises no event */
};

/* A device as one context uses it. */
struct dev {
	struct list node;		/* of the context */
	struct list port_node;		/* of the device */
	struct rdmamsg *ctx;
	struct rdmamsg_device *device;
	struct ibv_comp_channel *channel;
	struct list cqs;
	struct list recv_pools;
	struct list send_pools;
	struct list large;		/* free large buffers, struct large */
	struct list loose;		/* messages that are in no pool */
	size_t large_bytes;
	uint32_t eps;
	uint32_t msgs_out;		/* messages in the program's hands */
	struct list starved;		/* endpoints that wait for buffers */
	struct timer linger;		/* closes it when unused */
	bool reap;			/* close it when settling */
};

int rdmamsg__dev_get(struct rdmamsg *ctx, const struct verbs_api *v,
		     struct ibv_context *verbs, struct dev **ret);
void rdmamsg__dev_put(struct dev *dev);
void rdmamsg__dev_close(struct dev *dev);
void rdmamsg__dev_removed(struct dev *dev);
void rdmamsg__devs_reap(struct rdmamsg *ctx);
void rdmamsg__dev_async(struct dev *dev);
/* 0 if there is such a device and it can be opened. -ENODEV, -EACCES. */
int rdmamsg__device_check(const struct verbs_api *v, const char *name);
/* A local address of the named device, for binding. -ENODEV. */
int rdmamsg__device_addr(const struct verbs_api *v, const char *name,
			 int family, struct sockaddr_storage *ret);
/* Whether an RDMA device is there to be opened, or -errno with the reason. */
int rdmamsg__device_any(const struct verbs_api *v);
/*
 * The table of what was asked for: "hw", "soft", or the name of a device.
 * NULL when nothing was: then the address decides.
 */
const struct verbs_api *rdmamsg__device_table(const char *asked);
static inline bool rdmamsg__soft_possible(void)
{
	return rdmamsg__verbs == &rdmamsg__verbs_system;
}
const char *rdmamsg__kind_name(enum device_kind kind);

/* ---- pools and messages (pool.c, msg.c) ------------------------------- */

struct large {
	struct list node;
	void *mem;
	size_t size;
	struct ibv_mr *mr;		/* local access only */
};

enum msg_kind { MSG_POOL, MSG_LARGE, MSG_USER };

struct rdmamsg_msg {
	struct rdmamsg_msg *next;	/* free list, queue of received */
	uint8_t *data;			/* payload */
	uint32_t len;
	uint32_t tag;
	uint32_t room;			/* for payload */
	uint32_t lkey;
	enum msg_kind kind;
	uint8_t *buf;			/* POOL: start, header goes there */
	struct pool *pool;
	struct dev *dev;
	enum msg_lent {
		MSG_OURS,
		MSG_LENT,		/* in the program's hands */
		MSG_IN_PLACE,		/* lent, still in the receive queue */
		MSG_PASSED,		/* out of there into a send queue */
	} lent;
	struct large *large;
	struct list node;		/* dev->loose, unless POOL */
};

int rdmamsg__pool_get(struct dev *dev, struct list *pools, size_t size,
		      struct pool **ret);
void rdmamsg__pools_dereg(struct list *pools);	/* memory stays */
void rdmamsg__pools_free(struct list *pools);
int rdmamsg__pool_grow(struct pool *pool, uint32_t count);
/* Whether there can ever be room for it. */
bool rdmamsg__large_fits(const struct rdmamsg *ctx, size_t size);
int rdmamsg__large_get(struct dev *dev, size_t size, struct large **ret);
void rdmamsg__large_put(struct dev *dev, struct large *l);
void rdmamsg__larges_free(struct dev *dev);
void rdmamsg__large_dereg(struct dev *dev, struct large *l);
int rdmamsg__msg_large(struct dev *dev, size_t len, struct rdmamsg_msg **ret);
int rdmamsg__msg_user(struct dev *dev, void *data, struct rdmamsg_msg **ret);
void rdmamsg__msg_put(struct rdmamsg_msg *msg);
void rdmamsg__msgs_dereg(struct dev *dev);	/* memory stays */
void rdmamsg__msgs_free(struct dev *dev);

/* NULL when empty: the caller decides whether growing is in place. */
static inline struct rdmamsg_msg *rdmamsg__pool_take(struct pool *pool)
{
	struct rdmamsg_msg *msg = pool->free;

	if (likely(msg)) {
		pool->free = msg->next;
		pool->used++;
	}
	return msg;
}

static inline void rdmamsg__pool_return(struct rdmamsg_msg *msg)
{
	msg->next = msg->pool->free;
	msg->pool->free = msg;
	msg->pool->used--;
}

/* ---- operations ------------------------------------------------------- */

enum op_kind { OP_EAGER, OP_RNDV, OP_READ, OP_CTRL };

/* One accepted operation; slots of the send queue point to it. */
struct op {
	struct op *next;		/* free list */
	struct list node;		/* queue, or rendezvous in flight */
	enum op_kind kind;
	uint8_t refs;			/* rendezvous: request and DONE */
	uint8_t ctrl;			/* OP_CTRL: enum proto_type, 0 keepalive */
	bool waiter;			/* the cookie is a struct rdmamsg_waiter */
	int status;
	uint32_t number;
	uint32_t tag;
	uint32_t len;
	void *cookie;
	struct rdmamsg_msg *msg;	/* buffer to give back, or NULL */
	struct rndv_out *rndv;
	struct rndv_in *in;		/* OP_READ */
	uint32_t read_len;
};

/* A large message we announced. */
struct rndv_out {
	uint32_t total;
	uint32_t count;
	uint64_t since;			/* ms */
	struct rdmamsg_msg *payload;	/* owned large message, or NULL */
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	struct ibv_mr *mr[RDMAMSG_SEGMENTS_MAX];
};

enum in_state { IN_ANNOUNCED, IN_READING, IN_REFUSED, IN_READY };

/* A message received, waiting for its turn; large ones are being read. */
struct rndv_in {
	struct list node;		/* ep->arriving, in order of numbers */
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *msg;
	struct ibv_mr *user_mr;		/* destination given by the program */
	enum in_state state;
	uint8_t done;			/* enum proto_done to send */
	bool done_due;
	bool rndv;
	bool asked;			/* on_incoming, once */
	uint32_t number;
	uint32_t tag;
	uint32_t reads;			/* outstanding */
	uint32_t key;			/* the next read: key, offset in it */
	uint64_t offset;
	uint32_t filled;		/* bytes asked for */
	struct proto_rndv wire;
};

/* ---- endpoints -------------------------------------------------------- */

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
	EP_BACKOFF,		/* stale reject, will try again */
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
	uint32_t granted_at;		/* number of the first with our last one */
	uint32_t rx_next;		/* number of the next data message */
	uint32_t rx_max;		/* payload of a message in one piece */
	uint32_t rx_end;		/* shorter ones are simply delivered */
	uint64_t rx_head;		/* first half of the last header of one */
	uint64_t bytes_received;
	uint64_t rq_posts;		/* receives posted, ever */
	struct rx_slot *rq;
	uint32_t rq_target;		/* of these, recv_depth + RECV_RESERVE */
	uint32_t rq_low;		/* fewer are worth a refill */
	uint32_t rq_tail;		/* posted next */
	uint32_t rq_holes;		/* slots without a buffer */
	uint32_t send_end;		/* rdmamsg_send() is short below */
	uint32_t inline_max;		/* payload bytes */
	uint32_t tx_limit;		/* the peer takes numbers below this */
	struct op **sq_slots;		/* NULL: nobody to tell */
	uint32_t sq_mask;
	uint32_t sq_ops;		/* of sq_slots, not NULL */
	uint32_t sq_done;		/* requests completed, ever */
	uint32_t sq_data;		/* outstanding ones that data may make */
	uint32_t sq_total;		/* all that it can hold */
	uint32_t rx_held;		/* rendezvous whose credit is kept */
	uint32_t copy_max;		/* eager payload bytes */
	uint32_t ping_tag;
	bool can_inline;		/* the header, at least */
	uint32_t ctrl_due;		/* enum ep_ctrl */
	bool dirty;			/* on ctx->dirty */
	bool want_writable;
	bool passive;			/* we accepted */
	struct list dirty_node;
	struct list starved_node;
	struct pool *recv_pool;
	struct pool *send_pool;
	struct op *op_free;
	struct op *ops;
	uint32_t op_count;
	struct list queue;		/* accepted, not yet posted: op */
	uint32_t queued;
	struct list rndv_out;		/* announced: op */
	uint32_t rndv_count;
	struct list arriving;		/* rndv_in, in order */
	uint32_t reads_free;
	uint16_t credit_msgs;		/* CREDIT sent */
	uint16_t credit_seen;		/* of them, by the peer */
	struct rdmamsg_handlers on;
	struct rdmamsg_stats st;
	struct rdmamsg_msg *inbox, **inbox_tail; /* for rdmamsg_recv_wait() */

	/* cold */
	struct cm_owner owner;
	struct list node;		/* of the context */
	int refs;
	struct dev *dev;
	struct cq *cq;
	uint32_t cq_share;
	const struct verbs_api *v;	/* of id, and of the device */
	struct rdma_cm_id *id;
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
	uint32_t version;
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
	uint64_t heard;			/* ms, last sign of the program there */
	uint64_t rx_seen;		/* rdmamsg__rx_count() at the last tick */
	bool ping_out, stalled, keepalive_out;
	bool hello_ok, established, setup_sent, setup_seen;
	bool connected_told;
	bool close_sent, close_done, close_seen;
	bool disconnect_sent, disconnected;
	bool graceful;
	bool reason_set, closed_told;
	bool failed;			/* the device reported an error */
	bool drained;			/* or nothing more is to be expected */
	struct rdmamsg_reason reason;
	uint8_t reason_data[PROTO_HELLO_DATA_MAX];
	struct op *orphans;		/* accepted, never posted, post failed */
	char device_name[64];		/* once it is closed */
};

struct rdmamsg_listener {
	struct cm_owner owner;
	struct list node;
	struct rdmamsg *ctx;
	/* one of each table that it listens through */
	struct listen_id {
		const struct verbs_api *v;
		struct rdma_cm_id *id;
	} ids[TABLES];
	struct rdmamsg_listen_options opts;
	struct rdmamsg_ep_options ep;	/* with memory of its own: */
	struct rdmamsg_handlers ep_on;
	uint8_t ep_hello[PROTO_HELLO_DATA_MAX];
	void *ep_setup;
	char *device;
	uint16_t port;
	bool auto_accept;
	bool dead;
	bool waiting;			/* rdmamsg_accept_wait() looks at it */
	bool closed;			/* and will free it */
	struct list requests;		/* waiting for rdmamsg_accept_wait() */
};

struct rdmamsg_request {
	struct cm_owner owner;
	struct list node;		/* of its context */
	struct list wait_node;		/* of the listener, for accept_wait */
	struct rdmamsg *ctx;
	const struct verbs_api *v;
	struct rdma_cm_id *id;
	struct proto_hello hello;
	uint8_t data[PROTO_HELLO_DATA_MAX];
	uint8_t resp_res, init_depth;
	struct sockaddr_storage peer, local;
	bool dead;			/* the peer gave up; the id may be gone */
};

struct rdmamsg {
	struct rdmamsg_hot_ctx hot;	/* first: the inlines look here */
	uint32_t magic;			/* 0 in a forked child */
	int in_callback;
	int busy;			/* inside us: rdmamsg__settle() comes */
	int32_t polls;			/* hot.polls, while that is 0 */
	bool work;			/* for rdmamsg__settle() */
	int ep_count;
	bool closing;
	bool reap;			/* a device is to be closed */
	int epfd;
	int eventfd;
	void *user;
	struct rdmamsg_options opts;
	/* of the RDMA devices, and of the soft HCA */
	struct cm_channel {
		const struct verbs_api *v;	/* NULL until first used */
		_Atomic(struct rdma_event_channel *) ch;
	} cm[TABLES];
	struct timers timers;
	struct submit submit;
	pthread_mutex_t mail_lock;
	struct list mail;
	_Atomic bool stop;
	struct list devs;
	struct list eps;
	struct list listeners;
	struct list requests;
	struct list dirty;		/* eps with work before sleeping */
	struct list dead;		/* eps to free outside callbacks */
	struct list held;		/* closed ones that the program holds */
	struct rdmamsg_ep *last;	/* that has received something */
	struct rdmamsg_ep **table;	/* by index of their key */
	uint32_t table_size;
	size_t registered;
	uint64_t regions;		/* ids given to keys */
	uint32_t table_hint, generation;
	uid_t euid;
	gid_t egid;
	struct rdmamsg_stats st;	/* of endpoints that are gone */

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
			uint8_t data[TX_STAGE];
		} entries[TX_BATCH];
	} tx;
};

#define CTX_MAGIC	0x72646d61u

/* After callbacks: posts what was put together, frees what is dead. */
void rdmamsg__settle_now(struct rdmamsg *ctx);
static inline void rdmamsg__settle(struct rdmamsg *ctx)
{
	if (unlikely(ctx->work))
		rdmamsg__settle_now(ctx);
}

/* Inside, the inline poll leaves everything to rdmamsg_poll(), which refuses. */
static inline void rdmamsg__enter(struct rdmamsg *ctx)
{
	if (!ctx->busy++ && ctx->hot.cq) {
		ctx->polls = ctx->hot.polls;
		ctx->hot.polls = 0;
	}
}

/* The inline poll works while there is exactly one queue. */
static inline void rdmamsg__leave(struct rdmamsg *ctx)
{
	if (!--ctx->busy)
		ctx->hot.polls = ctx->hot.cq ? ctx->polls : 0;
}

/* A device is to be closed when we are through. */
static inline void rdmamsg__reap(struct rdmamsg *ctx)
{
	ctx->reap = true;
	ctx->work = true;
}

/* A message goes to the program, and comes back: to us, or for sending. */
static inline void rdmamsg__msg_lend(struct rdmamsg_msg *msg)
{
	msg->lent = MSG_LENT;
	msg->dev->msgs_out++;
}

static inline void rdmamsg__msg_back(struct rdmamsg_msg *msg)
{
	if (msg->lent == MSG_IN_PLACE) {
		msg->lent = MSG_PASSED;
		return;
	}
	msg->lent = MSG_OURS;
	if (unlikely(!--msg->dev->msgs_out && !msg->dev->device))
		rdmamsg__reap(msg->dev->ctx);
}

/* 0, or -ECHILD in a forked child. */
int rdmamsg__ctx_check(const struct rdmamsg *ctx);
int rdmamsg__ep_check(const struct rdmamsg_ep *ep);
/* Whether the fields that are numbers are in range. */
int rdmamsg__ep_options_check(const struct rdmamsg_ep_options *opts);

/* loop.c */
int rdmamsg__watch(struct rdmamsg *ctx, int fd, void *tag);
void rdmamsg__unwatch(struct rdmamsg *ctx, int fd);
int rdmamsg__cq_poll(struct rdmamsg *ctx, int budget);
int rdmamsg__cq_rearm(struct dev *dev);
int rdmamsg__cq_get(struct dev *dev, uint32_t entries, struct cq **ret);
void rdmamsg__cqs_free(struct dev *dev);

/* ep.c: life and end */
int rdmamsg__ep_new(struct rdmamsg *ctx, const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret);
void rdmamsg__ep_connected(struct rdmamsg_ep *ep);
/* Notes why, once; the first reason stays. */
void rdmamsg__ep_reason(struct rdmamsg_ep *ep, enum rdmamsg_who who,
			enum rdmamsg_cause cause, int error,
			const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* Queue pair to error, drain, then on_closed from the loop. */
void rdmamsg__ep_kill(struct rdmamsg_ep *ep);
void rdmamsg__ep_progress_close(struct rdmamsg_ep *ep);
void rdmamsg__ep_wc_error(struct rdmamsg_ep *ep, const struct ibv_wc *wc);
void rdmamsg__ep_protocol(struct rdmamsg_ep *ep, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void rdmamsg__ep_peer_closes(struct rdmamsg_ep *ep);
/* Frees one that failed in the call that made it: nobody is told. */
void rdmamsg__ep_unborn(struct rdmamsg_ep *ep);
void rdmamsg__ep_drop_inbox(struct rdmamsg_ep *ep);
void rdmamsg__ep_touch(struct rdmamsg_ep *ep);	/* onto ctx->dirty */
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

/* info.c */
void rdmamsg__ep_stats_add(struct rdmamsg_stats *s, const struct rdmamsg_ep *ep);

/* qp.c: resources of an endpoint, and the walk to RTS */
int rdmamsg__ep_resources(struct rdmamsg_ep *ep);	/* on ep->id's device */
void rdmamsg__ep_resources_free(struct rdmamsg_ep *ep);
int rdmamsg__qp_init(struct rdmamsg_ep *ep);
int rdmamsg__qp_ready(struct rdmamsg_ep *ep);	/* to RTR and RTS */
int rdmamsg__qp_error(struct rdmamsg_ep *ep);

/* live.c */
void rdmamsg__live_start(struct rdmamsg_ep *ep);
void rdmamsg__live_heard(struct rdmamsg_ep *ep);
uint32_t rdmamsg__live_ack_timeout(const struct rdmamsg_ep *ep);

/* send.c */
void rdmamsg__tx_init(struct tx_batch *tx);
void rdmamsg__tx_post(struct rdmamsg *ctx);
static inline void rdmamsg__tx_flush(struct rdmamsg *ctx)
{
	if (ctx->tx.ep)
		rdmamsg__tx_post(ctx);
}

void rdmamsg__tx_pump(struct rdmamsg_ep *ep);
void rdmamsg__tx_done(struct rdmamsg_ep *ep, uint32_t seq, int status);
void rdmamsg__tx_cancel(struct rdmamsg_ep *ep, int status);
/* -EAGAIN now, on_writable when memory has come back. */
int rdmamsg__no_buffer(struct rdmamsg_ep *ep);
struct op *rdmamsg__op_get(struct rdmamsg_ep *ep);
void rdmamsg__op_put(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__op_complete(struct rdmamsg_ep *ep, struct op *op, int status);
/* Adds a request to the batch; the header is filled in. */
void rdmamsg__tx_message(struct rdmamsg_ep *ep, enum proto_type type,
			 uint32_t number, uint32_t tag, struct op *op,
			 struct rdmamsg_msg *msg, const void *inl,
			 uint32_t len);
void rdmamsg__tx_read(struct rdmamsg_ep *ep, struct op *op, void *dst,
		      uint32_t lkey, uint32_t len, uint64_t raddr,
		      uint32_t rkey);
void rdmamsg__tx_keepalive(struct rdmamsg_ep *ep, struct op *op);
static inline uint32_t rdmamsg__sq_used(const struct rdmamsg_ep *ep)
{
	return (uint32_t)ep->hot.sq_posted - ep->sq_done;
}

/* Of the next data message. */
static inline uint32_t rdmamsg__tx_number(const struct rdmamsg_ep *ep)
{
	return le32toh(ep->hot.hdr.number);
}

/* Whether the program has this message. */
static inline bool rdmamsg__msg_is_out(const struct rdmamsg_msg *msg)
{
	return msg->lent == MSG_LENT || msg->lent == MSG_IN_PLACE;
}

/* wait.c: sends that rdmamsg_send_wait() waits for */
struct rdmamsg_waiter;
void rdmamsg__waiter_done(struct rdmamsg_waiter *w, int status);
int rdmamsg__sendv_waiter(struct rdmamsg_ep *ep, const struct iovec *iov,
			  uint32_t tag, struct rdmamsg_waiter *waiter);

/* ctrl.c: control messages */
void rdmamsg__ctrl_pump(struct rdmamsg_ep *ep);
void rdmamsg__ctrl_setup(struct rdmamsg_ep *ep, const void *buf, size_t len);

/* recv.c */
void rdmamsg__rx_refill(struct rdmamsg_ep *ep);
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

/* rndv.c */
struct rdmamsg_msg *rdmamsg__send_buffer(struct rdmamsg_ep *ep);
void rdmamsg__rndv_behind(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
int rdmamsg__rndv_prepare(struct rdmamsg_ep *ep, const struct iovec *iov,
			  int iovcnt, uint32_t total,
			  struct rdmamsg_msg *payload, struct rndv_out **ret);
void rdmamsg__rndv_free(struct rdmamsg_ep *ep, struct rndv_out *r);
void rdmamsg__rndv_announce(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__rndv_arrived(struct rdmamsg_ep *ep, const struct proto_hdr *hdr,
			   const void *buf, size_t len);
void rdmamsg__rndv_done(struct rdmamsg_ep *ep, const struct proto_hdr *hdr);
void rdmamsg__rndv_read_done(struct rdmamsg_ep *ep, struct op *op, int status);
void rdmamsg__rndv_pump(struct rdmamsg_ep *ep);
void rdmamsg__rndv_in_free(struct rndv_in *in);

/* cm/ */
int rdmamsg__cm_open(struct rdmamsg *ctx, const struct verbs_api *v,
		     struct rdma_event_channel **ret);
void rdmamsg__cm_close(struct rdmamsg *ctx);
/* rdmamsg__fail_verbs(), and whether the credentials have changed. */
int rdmamsg__cm_fail(const struct rdmamsg *ctx, int err, const char *what);
int rdmamsg__cm_process(struct rdmamsg *ctx, struct cm_channel *cm);
int rdmamsg__cm_id_new(struct rdmamsg *ctx, const struct verbs_api *v,
		       struct cm_owner *owner, struct rdma_cm_id **ret);
void rdmamsg__cm_id_free(const struct verbs_api *v, struct rdma_cm_id *id);

/* A CM event, copied before it was acknowledged. */
struct cm_event {
	const struct verbs_api *v;
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	struct rdma_conn_param conn;	/* private_data points to data */
	uint8_t data[256];
};

void rdmamsg__ep_cm_event(struct rdmamsg_ep *ep, const struct cm_event *ev);
void rdmamsg__listener_cm_event(struct rdmamsg_listener *l,
				const struct cm_event *ev);
void rdmamsg__request_cm_event(struct rdmamsg_request *req,
			       const struct cm_event *ev);
void rdmamsg__request_free(struct rdmamsg_request *req);
void rdmamsg__listener_free(struct rdmamsg_listener *l);
/* The answer of a peer's hello, or why it is none. */
int rdmamsg__hello_check(struct rdmamsg_ep *ep, const struct cm_event *ev);
void rdmamsg__hello_fill(struct rdmamsg_ep *ep,
			 uint8_t out[static PROTO_HELLO_MAX], uint8_t *ret_len);
void rdmamsg__dial_again(struct rdmamsg_ep *ep);	/* after a back-off */
void rdmamsg__dial_stop(struct rdmamsg_ep *ep);
/* The program or host at the other end has gone without a CLOSE. */
void rdmamsg__ep_disconnected(struct rdmamsg_ep *ep);

/* cm/resolve.c: names, on a thread of their own */
struct addrinfo;
bool rdmamsg__addr_is_any(const struct sockaddr *addr);
bool rdmamsg__addr_is_loopback(const struct sockaddr *addr);
bool rdmamsg__service_ok(const char *service);
int rdmamsg__fail_service(const char *service);
int rdmamsg__resolve_numeric(const char *host, const char *service, int flags,
			     struct addrinfo **ret);
int rdmamsg__resolve_start(struct rdmamsg_ep *ep, struct resolve **ret);
void rdmamsg__resolve_abandon(struct resolve *r);
void rdmamsg__resolved(struct rdmamsg_ep *ep, int gai, struct addrinfo *addrs);

#endif
