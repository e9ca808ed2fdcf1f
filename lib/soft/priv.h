/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA: a software RDMA device for one host. What its files share.
 *
 *   verbs calls          CM commands (cm.h)
 *        |                    |
 *   objects: ctx pd mr cq qp srq ...      cm ids, event files
 *        |                    |
 *   engine: requester (req.c) responder (resp.c), progress (engine.c)
 *        |                    |
 *   wires: rings (ring.h)     socket messages (wire.c)
 *        |
 *   node: names, fabric state, peers (node.c); the device's thread (thread.c)
 *
 * One mutex for each device, dev->lock, protects everything below it; functions
 * marked L are called with it held. No lock is ever shared with another
 * process: what two processes share is a pair of rings, and a word for each
 * direction that asks for a doorbell.
 */
#ifndef SOFT_PRIV_H
#define SOFT_PRIV_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include "../list.h"
#include "ring.h"
#include "soft_ctl.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))

/* ---- limits ----------------------------------------------------------- */

#define SOFT_VENDOR_ID	0x50f7cau	/* no OUI: the group bit is not set */
#define SOFT_NODES	1024		/* 10 bits of a QPN */
#define SOFT_QPN_BITS	14
#define SOFT_QPS	(1u << SOFT_QPN_BITS)
#define SOFT_PORTS_MAX	SOFT_CTL_PORTS
#define SOFT_MAX_WR	16384
#define SOFT_MAX_SGE	32
#define SOFT_MAX_INLINE	1024
#define SOFT_MIN_INLINE	64u
#define SOFT_MAX_CQE	(1 << 20)
#define SOFT_MAX_RD	16
#define SOFT_MAX_MR	(1u << 20)
#define SOFT_MAX_SRQ	(1u << 16)
#define SOFT_MAX_MSG	0x80000000u
#define SOFT_PSN_MASK	0xffffffu
#define SOFT_SEGMENT	(64u << 10)	/* payload of one record */
#define SOFT_GIDS	2		/* of a port: 127.0.0.1 and ::1 */
#define SOFT_GUID_STEP	16		/* of nodes: their ports are between */
#define SOFT_MTU	4096
#define SOFT_GRH	40		/* in front of what a datagram brings */
#define SOFT_QPN_MCAST	0xffffffu
#define SOFT_GROUPS	128		/* that a node has members of */
#define SOFT_GROUP_BUCKETS 32

/* ---- records on a wire ------------------------------------------------ */

enum soft_op {
	SOFT_SEND = 1,
	SOFT_WRITE,
	SOFT_READ,
	SOFT_CAS,
	SOFT_FAA,
	SOFT_ACK,
	SOFT_NAK,
	SOFT_READ_RESP,
	SOFT_ATOMIC_RESP,
	SOFT_DATAGRAM,
	/* later: DC, cross-process reads */
};

enum {
	SOFT_F_LAST = 1 << 0,		/* segment of its message */
	SOFT_F_IMM = 1 << 1,
	SOFT_F_INV = 1 << 2,
	SOFT_F_SOLICITED = 1 << 3,
	SOFT_F_UNRELIABLE = 1 << 4,	/* nobody is told what becomes of it */
	SOFT_F_GRH = 1 << 5,
};

/* Why a request was not done. LOST: as if it had never arrived. */
enum soft_nak { SOFT_NAK_RNR = 1, SOFT_NAK_INV_REQ, SOFT_NAK_ACCESS,
		SOFT_NAK_OP, SOFT_NAK_LOST };

struct soft_rec {
	uint32_t bytes;			/* payload behind this header */
	uint8_t op, flags, code;	/* code: enum soft_nak */
	uint8_t aux;			/* RNR timer; or which try this is */
	uint32_t dst, src;		/* queue pair numbers */
	uint32_t psn;			/* number of the message */
	uint32_t imm;			/* or the key to invalidate */
	uint64_t raddr;
	uint32_t rkey;
	uint32_t total;			/* length of the message */
	uint32_t offset;		/* of this segment in it */
	uint32_t srqn;			/* XRC: for whose receives */
};
_Static_assert(sizeof(struct soft_rec) == 48, "a multiple of the alignment");

/* ---- device ----------------------------------------------------------- */

struct soft_dev;
struct soft_qp;

struct soft_timer {
	struct list node;		/* dev->timers, by time */
	uint64_t at;			/* ns, CLOCK_MONOTONIC */
	void (*fn)(struct soft_dev *dev, struct soft_timer *t);	/* L */
};

/* A descriptor in the thread's epoll set. */
struct soft_watch {
	int fd;
	void (*fn)(struct soft_dev *dev, struct soft_watch *w, uint32_t events);
};

/* The other process's end, or our own. */
struct soft_wire {
	struct list node;		/* dev->wires */
	struct soft_watch sock;		/* fd -1: to ourselves */
	uint32_t peer;			/* its node number */
	bool known;			/* the peer has said who it is */
	bool mine;			/* we made it */
	bool dirty;			/* committed, doorbell not considered */
	bool eaten;			/* consumed, likewise */
	bool dead;
	struct soft_ring tx, rx;
	int bell;			/* the peer's, -1: not known yet */
	int refs;			/* queue pairs and CM ids */
	uint64_t full_since;		/* ns; 0: there was room */
	struct list outbox;		/* messages its socket had no room for */
	/* requests to queue pairs we do not have: to be told as lost */
	struct soft_lost { uint32_t dst, src, psn; uint8_t aux; } *lost;
	uint32_t lost_count, lost_room;
};

/* Shares of work requests are told in millionths. */
#define SOFT_SHARE_ALL	1000000u
#define SOFT_DELAY_MAX	10000000u	/* us */

/*
 * How a node is broken: fault.c, soft_ctl.h. Everybody can write it: whoever
 * uses it takes a copy, and brings that into its bounds.
 */
struct soft_faults {
	uint32_t port[SOFT_PORTS_MAX];	/* enum soft_port */
	uint32_t drop, delay;		/* shares of work requests */
	uint32_t duplicate, reorder;	/* of those without acknowledgement */
	uint32_t delay_us;
	uint32_t seed;
};

/* What all nodes of a fabric share: only ever hints, each checked on reading. */
#define SOFT_FABRIC_MAGIC	0x534f4654u
#define SOFT_FABRIC_VERSION	2
struct soft_fabric {
	uint32_t magic, version;
	struct soft_faults fresh;	/* what a new node begins with */
	struct soft_faults node[SOFT_NODES];
	_Atomic uint64_t guid[SOFT_NODES];
	/* multicast groups with members: see mcast.c */
	_Atomic uint32_t mcast_epoch;
	_Atomic uint32_t groups[SOFT_NODES];	/* slots to look at */
	struct {
		_Atomic uint64_t word[2];
	} mgid[SOFT_NODES][SOFT_GROUPS];
};

struct soft_mr {
	struct ibv_mr ibv;
	uint64_t iova;			/* what the peer calls addr */
	int access;
	int windows;			/* bound to it */
};

struct soft_mw {
	struct ibv_mw ibv;		/* handle: the slot of its key */
	struct soft_mr *mr;		/* NULL: not bound */
	struct soft_qp *qp;		/* type 2: for this one only */
	struct list node;		/* qp->windows */
	uint64_t addr, len;
	int access;
};

struct soft_key {			/* slot of dev->keys, by key >> 8 */
	struct soft_mr *mr;		/* or */
	struct soft_mw *mw;
	uint8_t gen;
};

struct soft_dev {
	pthread_mutex_t lock;
	int refs;			/* under the registry's lock */
	struct list wires;
	struct soft_wire *to[SOFT_NODES]; /* for sending, by node */
	struct soft_qp **qps;		/* by index */
	uint32_t qp_hint, qp_count;
	struct soft_key *keys;
	uint32_t key_room, key_hint;
	struct soft_srq **srqs;		/* by number */
	uint32_t srq_room, srq_hint;
	struct list domains;		/* XRC */
	struct list pending;		/* qps with something to push */
	struct list contexts;
	bool bells_due;			/* a wire is dirty */
	bool covered;			/* the program polls */
	uint32_t polls;			/* counted to know that */
	uint32_t idle_polls;		/* since a queue was last armed */
	struct list cm_ids, cm_files;
	struct list cm_mcs;		/* joined groups */
	uint32_t cm_mc_last;
	struct list groups[SOFT_GROUP_BUCKETS];
	bool group_used[SOFT_GROUPS];
	struct soft_cm_id **cm_table;
	uint32_t cm_room, cm_hint;

	/* node and thread */
	uint32_t node;
	uint64_t guid;
	char fabric_name[64];
	struct soft_fabric *fabric;
	int fabric_fd;
	struct soft_faults faults;	/* our copy, checked */
	bool faulty;			/* any of them acts */
	bool absent;			/* removed, not yet added again */
	uint32_t refuse[SOFT_OBJECTS];	/* the how many-th from now; 0: none */
	struct soft_watch listener;
	struct list handshakes;		/* accepted, not yet a wire */
	int epfd, bell, timerfd;
	struct soft_watch bell_watch, timer_watch;
	struct soft_watch **watch;	/* by descriptor */
	int watch_room;
	struct list timers;
	uint64_t timer_armed;
	pthread_t thread;
	bool stop;

	/* what a user can choose */
	int ports;
	uint8_t link_layer;
	uint16_t cm_port_last;
};

extern const char soft_device_name[];	/* "soft0" */

/* The process's device, opened by its first user, closed by its last. */
int soft_dev_get(struct soft_dev **ret);
void soft_dev_put(struct soft_dev *dev);
bool soft_dev_absent(void);		/* removed by a fault, soft_ctl.h */

static inline void soft_lock(struct soft_dev *dev)
{
	(void)pthread_mutex_lock(&dev->lock);
}

/* Ends a section: rings the doorbells that are due. */
void soft_unlock(struct soft_dev *dev);

/* ---- node.c, names.c -------------------------------------------------- */

int soft_node_open(struct soft_dev *dev);
/* NULL: what the environment says. */
int soft_fabric_name(struct soft_dev *dev, const char *name);
void soft_node_close(struct soft_dev *dev);
enum soft_port soft_port_state(const struct soft_dev *dev, int port);

/*
 * A listening or connected socket under the abstract name fmt of this user and
 * fabric, or -errno. Without a backlog it has the name and does not listen yet.
 */
int soft_name_listen(const struct soft_dev *dev, int backlog, const char *fmt,
		     ...) __attribute__((format(printf, 3, 4)));
int soft_name_connect(const struct soft_dev *dev, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
bool soft_same_user(int fd);

/* addr.c. RDMAMSG_SOFT_PORTS and _LINK, or -EINVAL. */
int soft_addr_options(struct soft_dev *dev);
bool soft_is_ib(const struct soft_dev *dev);
uint16_t soft_lid(uint32_t node, int port);
bool soft_lid_port(uint16_t lid, uint32_t *node, uint8_t *port);
void soft_ib_gid(const struct soft_dev *dev, uint32_t node, int port,
		 uint8_t gid[16]);
bool soft_ib_gid_port(const struct soft_dev *dev, const uint8_t gid[16],
		      uint32_t *node, uint8_t *port);
bool soft_gid_v4(const uint8_t gid[16]);	/* an IPv4 address, mapped */
bool soft_gid_mcast(const uint8_t gid[16]);
int soft_gids(const struct soft_dev *dev);	/* of a port */
void soft_port_gid(const struct soft_dev *dev, int port, int index,
		   union ibv_gid *gid);
/* cm_addr.c: whether the address that it is, is one of this host. */
bool soft_gid_local(const uint8_t gid[16]);

/* ---- thread.c --------------------------------------------------------- */

int soft_thread_start(struct soft_dev *dev);
void soft_thread_stop(struct soft_dev *dev);
int soft_watch_add(struct soft_dev *dev, struct soft_watch *w, int fd);	/* L */
void soft_watch_mod(struct soft_dev *dev, struct soft_watch *w,
		    uint32_t events);
void soft_watch_del(struct soft_dev *dev, struct soft_watch *w);	/* L */
uint64_t soft_now(void);		/* ns */
void soft_timer_set(struct soft_dev *dev, struct soft_timer *t, uint64_t ns);
void soft_timer_stop(struct soft_timer *t);
/* The program polls: it does the thread's work from here on. L */
void soft_cover(struct soft_dev *dev);
/* It is about to sleep: doorbells again. L */
void soft_uncover(struct soft_dev *dev);

/* ---- wire.c ----------------------------------------------------------- */

/* Messages on the sockets between nodes: fixed size, numbers of this host. */
enum soft_msg_type {
	SOFT_MSG_HELLO = 1,		/* with the rings and our doorbell */
	SOFT_MSG_WELCOME,		/* with a doorbell */
	SOFT_MSG_FABRIC_ASK,
	SOFT_MSG_FABRIC,		/* with the fabric's memory */
	SOFT_MSG_LOOKUP,		/* who listens: sent upon connecting */
	SOFT_MSG_REQ,			/* from here on: CM, see cm.h */
	SOFT_MSG_REP,
	SOFT_MSG_RTU,
	SOFT_MSG_REJ,
	SOFT_MSG_BUSY,
	SOFT_MSG_DREQ,
	SOFT_MSG_DREP,
	SOFT_MSG_CTL,			/* struct soft_ctl_msg, soft_ctl.h */
	SOFT_MSG_CTL_DONE,
};
#define SOFT_MSG_MAGIC	0x5051u
#define SOFT_MSG_MAX	512

struct soft_msg {
	uint16_t magic;
	uint16_t type;
	uint32_t node;			/* who sends */
	uint32_t to, from;		/* CM ids */
};

/* Answered on the same socket, which need not be a wire's. */
enum soft_ctl_op {
	SOFT_CTL_NODE = 1, SOFT_CTL_QPS, SOFT_CTL_PORT, SOFT_CTL_FAULTS,
	SOFT_CTL_REFUSE, SOFT_CTL_REMOVE, SOFT_CTL_ADD, SOFT_CTL_EVENT,
	SOFT_CTL_GROUPS,
};
#define SOFT_CTL_PAGE	12		/* queue pairs of one answer */

struct soft_ctl_msg {
	struct soft_msg hdr;
	uint32_t op;
	int32_t result;			/* of the answer: 0 or -errno */
	uint32_t arg[3];
	uint32_t fresh;			/* new nodes are to have it as well */
	union {
		struct soft_ctl_faults faults;
		struct soft_ctl_node node;
		struct soft_ctl_qp qps[SOFT_CTL_PAGE];
		struct soft_ctl_group groups[SOFT_CTL_PAGE];
	};
};
_Static_assert(sizeof(struct soft_ctl_msg) <= SOFT_MSG_MAX, "one datagram");

int soft_msg_send(int fd, const void *msg, size_t len, const int *fds, int n);
/* Bytes, 0 at the end, -errno. Descriptors come close-on-exec; fds are -1. */
int soft_msg_recv(int fd, void *buf, size_t size, int *fds, int n);

/* The wire to a node, made if need be; a reference. L */
int soft_wire_get(struct soft_dev *dev, uint32_t node, struct soft_wire **ret);
void soft_wire_hold(struct soft_wire *w);
void soft_wire_put(struct soft_dev *dev, struct soft_wire *w);
void soft_wire_down(struct soft_dev *dev, struct soft_wire *w);	/* L */
int soft_wire_send(struct soft_dev *dev, struct soft_wire *w,
		   const struct soft_msg *msg, size_t len);
void soft_wires_close(struct soft_dev *dev);
void soft_bells(struct soft_dev *dev);
void soft_accept(struct soft_dev *dev, struct soft_watch *w, uint32_t events);

/* ---- engine ----------------------------------------------------------- */

/* Takes what has arrived, pushes what waits. True if there was anything. L */
bool soft_progress(struct soft_dev *dev);
/* Something of it is to be pushed when there is room. L */
void soft_qp_pend(struct soft_dev *dev, struct soft_qp *qp);
/* A request that has no queue pair here: the one who asked is told. L */
void soft_wire_lost(struct soft_wire *w, const struct soft_rec *rec);

/* Room for a record and its payload in the ring, or NULL. L */
static inline struct soft_rec *soft_rec_new(const struct soft_dev *dev,
					    struct soft_wire *w, size_t payload)
{
	size_t len = sizeof(struct soft_rec) + payload;
	struct soft_rec *rec = soft_ring_reserve(&w->tx, len);

	if (likely(rec) || dev->covered)
		return rec;
	/* pairs with the fence in soft_bells() */
	atomic_store_explicit(&w->tx.shm->full, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return soft_ring_reserve(&w->tx, len);
}

static inline void soft_rec_commit(struct soft_dev *dev, struct soft_wire *w,
				   size_t payload)
{
	soft_ring_commit(&w->tx, sizeof(struct soft_rec) + payload);
	w->dirty = dev->bells_due = true;
}

/* req.c: the end that asks */
void soft_req_push(struct soft_dev *dev, struct soft_qp *qp);
void soft_req_answer(struct soft_dev *dev, struct soft_qp *qp,
		     const struct soft_rec *rec, const void *payload);
void soft_req_wire_down(struct soft_dev *dev, struct soft_qp *qp);
void soft_req_timer(struct soft_dev *dev, struct soft_timer *t);

/* resp.c: the end that is asked */
void soft_resp_request(struct soft_dev *dev, struct soft_qp *qp,
		       const struct soft_rec *rec, const void *payload);
bool soft_resp_push(struct soft_dev *dev, struct soft_qp *qp);
/* The next receive, or NULL. L */
struct soft_rwqe *soft_receive(struct soft_qp *qp);

/*
 * What becomes of a work request at the moment it is first pushed: the one
 * place where faults of the fabric act (issue: drop, delay, black hole, port
 * down), and where a migrated path is chosen.
 */
enum soft_fate { SOFT_PASS, SOFT_LOSE, SOFT_DELAY, SOFT_DUPLICATE,
		 SOFT_REORDER };
enum soft_fate soft_fate_drawn(struct soft_dev *dev, struct soft_qp *qp);

/* DUPLICATE and REORDER: only where nothing is acknowledged. L */
static inline enum soft_fate soft_fate(struct soft_dev *dev, struct soft_qp *qp)
{
	return likely(!dev->faulty) ? SOFT_PASS : soft_fate_drawn(dev, qp);
}

/* ---- fault.c, removal.c, ctl_node.c ----------------------------------------------- */

/* Whether work requests pass through a port. L */
bool soft_port_carries(const struct soft_dev *dev, uint8_t port);
/* 0, ENOMEM for the one that is to be refused, EIO when the device is gone. */
int soft_may_create(struct ibv_context *verbs, enum soft_object what);
bool soft_refused(struct soft_dev *dev, enum soft_object what);	/* L */
/* Takes over what the fabric says of this node; events tell of ports. L */
void soft_faults_take(struct soft_dev *dev);
/* Of soft_ctl.h's side: one question, one answer. 0, or the wire is cut. L */
int soft_ctl_asked(struct soft_dev *dev, int fd, const struct soft_msg *msg,
		   size_t len);
void soft_remove(struct soft_dev *dev);					/* L */
void soft_readd(struct soft_dev *dev);					/* L */

/* ---- objects ---------------------------------------------------------- */

struct soft_async {
	struct list node;
	struct ibv_async_event ev;
};

struct soft_ctx {
	struct verbs_context v;		/* its last field is the ibv_context */
	struct soft_dev *dev;
	struct list node;		/* dev->contexts */
	struct list async;		/* struct soft_async, not yet fetched */
	_Atomic bool removed;		/* the device went from under it */
	int objects;			/* that hold it */
};

struct soft_pd {
	struct ibv_pd ibv;
	int users;
};

struct soft_channel {
	struct ibv_comp_channel ibv;
	struct list ready;		/* cqs with an event to fetch */
};

enum soft_arm { SOFT_UNARMED, SOFT_ARM_SOLICITED, SOFT_ARM_ANY };

struct soft_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;	/* place for the extended polling */
	};
	struct ibv_wc *ring;
	uint32_t mask, room, head, tail;
	enum soft_arm armed;
	bool overrun, ignore_overrun;
	bool single;			/* extended: one thread polls */
	pthread_mutex_t poll_lock;	/* otherwise: from start to end */
	struct ibv_wc cur;		/* what is being looked at */
	int users;			/* queue pairs */
	struct list ready_node;
	uint32_t events;		/* raised, not yet fetched */
	uint32_t fetched;		/* handed out: acknowledged before destroying */
	uint32_t async_fetched;
};

struct soft_rwqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length;
	struct ibv_sge *sge;
};

/* Receives of a queue pair, or of a shared receive queue. */
struct soft_rq {
	struct soft_rwqe *wqe;
	struct ibv_sge *sges;
	uint32_t mask, room, head, tail, max_sge;
};

/* What open XRC domains of one file have in common. */
struct soft_domain {
	struct list node;		/* dev->domains */
	int refs;
	int name;			/* held against other processes, or -1 */
	bool by_file;
	dev_t st_dev;
	ino_t st_ino;
};

struct soft_xrcd {
	struct ibv_xrcd ibv;
	struct soft_domain *domain;
	int users;
};

struct soft_srq {
	struct ibv_srq ibv;
	struct soft_rq rq;
	uint32_t num;
	uint32_t limit;			/* 0: not armed */
	int users;			/* queue pairs */
	struct soft_xrcd *xrcd;		/* NULL: not of XRC */
	struct soft_cq *cq;		/* XRC: where its receives complete */
	uint32_t async_fetched;
};

struct soft_swqe {
	uint64_t wr_id;
	uint8_t op;			/* enum ibv_wr_opcode */
	uint8_t status;			/* enum ibv_wc_status: fails in its turn */
	uint8_t try;			/* whose answer counts */
	bool signaled, done, inlined, started;
	unsigned int flags;
	uint32_t imm;			/* network order; or rkey to invalidate */
	uint32_t psn;
	uint32_t length;
	uint32_t sent;			/* bytes of it pushed */
	uint32_t num_sge;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t srqn;			/* XRC */
	struct ibv_sge *sge;
	uint8_t *data;			/* inline */
	struct soft_ah *ah;		/* of a datagram; it holds one */
	uint32_t dest_qpn, qkey;
};

/* Counted: its user, and each datagram on its way there. */
struct soft_ah {
	struct ibv_ah ibv;
	struct ibv_ah_attr attr;
	int users;
	bool mcast;
	int node;			/* IB: whose port it is; -1: the QPN tells */
	uint8_t port;			/* IB: its number */
	uint16_t slid;
	uint8_t grh[SOFT_GRH];
	/* of a group: nodes, as of this number of changes */
	bool known;
	uint32_t epoch;
	uint64_t members[SOFT_NODES / 64];
};

struct soft_group {
	struct list node;		/* dev->groups[] */
	uint8_t mgid[16];
	uint32_t slot;			/* in the fabric's memory */
	struct list members;
};

struct soft_member {
	struct list node;
	struct soft_qp *qp;
};

/* A read or atomic we have to answer. */
struct soft_rd {
	uint32_t psn, src_rkey, total, sent;
	uint64_t raddr;
	bool atomic, known;
	const struct ibv_pd *pd;	/* compared, not looked into */
	uint8_t aux;			/* which try of the one who asked */
	uint64_t value;
};

struct soft_qp {
	union {				/* laid out as rdma-core's verbs_qp */
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;	/* place for the builder interface */
	};
	uint32_t ex_comp_mask;
	void *ex_xrcd;

	enum ibv_qp_state state;	/* ibv.state is libibverbs' */
	struct soft_wire *wire;		/* of the peer; NULL: nobody there */
	struct soft_pd *pd;
	struct list pend_node;
	struct ibv_qp_attr attr;	/* as set by modify */
	int attr_mask;			/* which of them ever were */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	bool unreliable;		/* UC, UD */
	uint32_t create_flags;
	int groups;			/* it is attached to */

	/* requester */
	struct soft_swqe *sq;
	struct ibv_sge *sq_sges;
	uint8_t *sq_inline;
	uint32_t sq_mask;
	uint32_t sq_head, sq_next, sq_tail; /* oldest, to push, to fill */
	uint32_t psn_next;		/* of the next request posted */
	uint32_t una;			/* all messages before it are done */
	uint32_t reads_out;		/* pushed, not yet answered */
	uint32_t retries, rnr_retries;	/* left */
	uint8_t tries;			/* tells answers to earlier tries apart */
	uint32_t drawn;			/* fates so far */
	struct soft_timer timer;	/* pushing waits for it */
	bool waiting;
	bool lost;			/* for an acknowledgement: it counts */
	bool decided;			/* the next one's fate has been */
	bool reorder;			/* to be overtaken, or has waited for that */
	bool drained_told;
	uint32_t begun;			/* ever pushed, in part at least: up to it */
	uint32_t drain_to;		/* SQD: what had begun before it */

	/* what is being built, behind sq_tail: qp_ex.c */
	pthread_mutex_t ex_lock;
	uint64_t ex_ops;
	uint32_t ex_tail, ex_room, ex_count;
	int ex_err;
	struct soft_swqe *ex_wqe;	/* what setters set */

	/* responder */
	struct soft_rq rq;
	uint32_t epsn;			/* expected */
	uint32_t offset;		/* of the message in progress */
	bool in_message, dropping;	/* dropping: after a NAK, until epsn comes */
	bool recv_taken;		/* the message in progress has a receive */
	bool ack_due;
	uint8_t nak_due, nak_aux;	/* enum soft_nak */
	uint32_t nak_psn;
	struct soft_rd rd[SOFT_MAX_RD];
	uint32_t rd_head, rd_tail;
	uint32_t async_fetched;		/* handed out: acknowledged before destroying */
	struct list windows;		/* of type 2, bound for it */

	/* of XRC's receiving end srq is that of the last request */
	struct soft_srq *srq;
	struct soft_xrcd *xrcd;
	struct soft_qp *real;		/* not NULL: that one opened again */
	struct list opened;		/* such handles, or a place among them */
	bool gone;			/* its maker's handle is destroyed */
	bool last_wqe_told;
};

static inline struct soft_ctx *soft_ctx(struct ibv_context *c)
{
	return (struct soft_ctx *)((char *)c -
				   offsetof(struct soft_ctx, v.context));
}

static inline struct soft_dev *soft_dev_of(struct ibv_context *c)
{
	return soft_ctx(c)->dev;
}

static inline struct soft_qp *soft_qp(struct ibv_qp *qp)
{
	return (struct soft_qp *)qp;
}

static inline bool soft_can_receive(const struct soft_qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
	       qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
}

static inline struct soft_cq *soft_cq(struct ibv_cq *cq)
{
	return (struct soft_cq *)cq;
}

static inline struct soft_qp *soft_qp_find(struct soft_dev *dev, uint32_t qpn)
{
	return dev->qps[qpn & (SOFT_QPS - 1)];
}

/* The queue pair behind a handle of it. */
static inline struct soft_qp *soft_qp_real(struct ibv_qp *ibv)
{
	struct soft_qp *qp = soft_qp(ibv);

	return qp->real ? qp->real : qp;
}

/* The domain of the memory that receives are about. */
static inline const struct ibv_pd *soft_recv_pd(const struct soft_qp *qp)
{
	return qp->srq ? qp->srq->ibv.pd : &qp->pd->ibv;
}

/* mr.c. The memory behind a key, or NULL: key, domain, bounds or access. L */
void *soft_mr_at(struct soft_dev *dev, const struct ibv_pd *pd, uint32_t key,
		 uint64_t addr, uint64_t len, int access);
/* As a peer's request reaches it: through a window as well. L */
void *soft_remote_at(struct soft_dev *dev, const struct soft_qp *qp,
		     const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		     uint64_t len, int access);
int soft_key_new(struct soft_dev *dev, struct soft_mr *mr, struct soft_mw *mw,
		 uint32_t *ret);
struct soft_mr *soft_key_find(const struct soft_dev *dev, uint32_t key);
struct soft_mw *soft_key_window(const struct soft_dev *dev, uint32_t key);
/* Between a scatter list, at an offset, and plain memory. -EACCES. L */
int soft_gather(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		uint32_t offset, void *dst, uint32_t len);
int soft_scatter(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		 uint32_t offset, const void *src, uint32_t len);
int soft_scatter_in(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const void *src, uint32_t len);
/* Lower addresses are visible before higher ones. */
void soft_copy(void *dst, const void *src, size_t len);

/* mw.c */
struct ibv_mw *soft_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int soft_dealloc_mw(struct ibv_mw *mw);
int soft_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind);
int soft_mw_prepare(struct soft_swqe *wqe, const struct ibv_mw *mw,
		    uint32_t rkey, const struct ibv_mw_bind_info *info);
int soft_mw_bind(struct soft_dev *dev, struct soft_qp *qp,
		 const struct soft_swqe *wqe);			/* L */
int soft_mr_invalidate(struct soft_dev *dev, struct soft_qp *qp, uint32_t rkey);
void soft_mw_forget(struct soft_qp *qp);			/* L */
void *soft_mw_at(struct soft_dev *dev, const struct soft_qp *qp,
		 const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		 uint64_t len, int access);			/* L */

/* srq.c, xrc.c */
struct soft_srq *soft_srq_find(const struct soft_dev *dev, uint32_t num); /* L */
void soft_srq_take(struct soft_dev *dev, struct soft_qp *qp);	/* L */
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
bool soft_xrc_choose(struct soft_dev *dev, struct soft_qp *qp,
		     uint32_t srqn);				/* L */

/* cq.c */
void soft_cq_add(struct soft_dev *dev, struct soft_cq *cq,
		 const struct ibv_wc *wc, bool solicited);	/* L */
/* Forgets what is there of a queue pair that goes. L */
void soft_cq_clean(struct soft_cq *cq, uint32_t qpn);
extern int soft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
extern int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ah.c, ud.c, mcast.c. All L */
void soft_ah_header(const struct soft_ah *ah, uint32_t length,
		    uint8_t grh[SOFT_GRH]);
void soft_ah_put(struct soft_ah *ah);
bool soft_ud_push(struct soft_dev *dev, struct soft_qp *qp,
		  struct soft_swqe *wqe);
/* No room in the ring: true, lose it; false, pend, to be tried again. */
bool soft_give_up(struct soft_dev *dev, struct soft_qp *qp,
		  struct soft_wire *w);
void soft_ud_arrives(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_rec *rec, const void *payload);
struct soft_group *soft_group_find(struct soft_dev *dev,
				   const uint8_t mgid[16]);
void soft_mcast_members(struct soft_dev *dev, struct soft_ah *ah);
void soft_mcast_unreachable(struct soft_ah *ah, uint32_t node);
void soft_mcast_clear(struct soft_dev *dev);

/* steps.c: whether this step exists and sets what it must and may. */
bool soft_step_ok(enum ibv_qp_type type, enum ibv_qp_state from,
		  enum ibv_qp_state to, int mask);

/* qp.c, modify.c, post.c */
void soft_qp_error(struct soft_dev *dev, struct soft_qp *qp);	/* L */
/* Only the send queue, as of an unreliable one. L */
void soft_sq_error(struct soft_dev *dev, struct soft_qp *qp);
void soft_qp_reset(struct soft_dev *dev, struct soft_qp *qp);	/* L */
int soft_rq_init(struct soft_rq *rq, uint32_t wr, uint32_t sge);
void soft_rq_fini(struct soft_rq *rq);
int soft_rq_post(struct soft_rq *rq, const struct ibv_recv_wr *wr);
/* SQD: tells, if nothing is under way any more. L */
void soft_sq_drained(struct soft_dev *dev, struct soft_qp *qp);
void soft_sq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_swqe *wqe, enum ibv_wc_status status);
/* The receive at the head is done. L */
void soft_rq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      struct ibv_wc *wc, bool solicited);
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);
/* 0, or why nothing may be posted now. L */
int soft_sq_may_post(const struct soft_qp *qp);
/* What is filled in at the tail belongs to the queue from now on. L */
void soft_sq_commit(struct soft_qp *qp, struct soft_swqe *wqe);
void soft_sq_kick(struct soft_dev *dev, struct soft_qp *qp);	/* L */
/* qp_ex.c */
int soft_qp_ex_check(enum ibv_qp_type type, uint64_t ops);
void soft_qp_ex_init(struct soft_qp *qp, uint64_t ops);
/* The same, with the type of windows that it may bind. */
int soft_post_send_any(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad, enum ibv_mw_type binds);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad);

/* async.c */
void soft_async_qp(struct soft_dev *dev, struct soft_qp *qp,
		   enum ibv_event_type type);			/* L */
void soft_async_srq(struct soft_dev *dev, struct soft_srq *srq,
		    enum ibv_event_type type);			/* L */
void soft_async_cq(struct soft_dev *dev, struct soft_cq *cq);	/* L */
void soft_async_port(struct soft_dev *dev, uint8_t port,
		     enum ibv_event_type type);			/* L */
void soft_async_device(struct soft_ctx *ctx, enum ibv_event_type type); /* L */
void soft_async_forget(struct soft_ctx *ctx, const void *object); /* L */

/* cm_*.c, as the rest of the device meets them */
void soft_cm_message(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_msg *msg, size_t len);	/* L */
void soft_cm_wire_down(struct soft_dev *dev, struct soft_wire *w); /* L */
void soft_cm_removed(struct soft_dev *dev);			/* L */

#endif
