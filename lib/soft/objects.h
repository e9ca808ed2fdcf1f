/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects of verbs. */
#ifndef SOFT_OBJECTS_H
#define SOFT_OBJECTS_H

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
	uint32_t fetched;		/* and to be acknowledged */
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

/*
 * Where the message goes that comes after so many others, and what tells that
 * of as many again.
 */
static inline void soft_rq_prefetch(const struct soft_rq *rq, uint32_t ahead)
{
	uint32_t near = (rq->head + ahead) & rq->mask;
	uint32_t far = (rq->head + 2 * ahead) & rq->mask;
	/* a number: where nothing was posted yet it is no address */
	uintptr_t at = (uintptr_t)rq->sges[near * rq->max_sge].addr;

	__builtin_prefetch((const void *)at, 1);
	__builtin_prefetch((const void *)(at + 64), 1);
	__builtin_prefetch(&rq->wqe[far]);
	__builtin_prefetch(&rq->sges[far * rq->max_sge]);
}

/* What open XRC domains of one file have in common. */
struct soft_domain {
	struct list node;		/* dev->domains */
	int refs;
	int name;			/* taken from other processes, or -1 */
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
	uint8_t status;			/* ibv_wc_status: fails in its turn */
	uint8_t try;			/* whose answer counts */
	bool signaled, done, inlined, started;
	bool again;			/* a fault: another copy follows */
	bool show;			/* this try, rather than push */
	bool shown;			/* by any try */
	bool push;			/* only: the other way was refused */
	unsigned int flags;
	uint32_t imm;			/* network order; or the rkey */
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
	int node;			/* IB: whose port; -1: the QPN tells */
	uint8_t port;			/* IB: its number */
	uint16_t slid;
	uint8_t sl;			/* as the receiver is told */
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
	bool atomic, known, show;
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

	/* migration: apm.c */
	uint8_t path;			/* SOFT_F_PATH, or 0 */
	bool path_due;			/* its state is to be told */
	bool path_failed;		/* that has been told */

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
	uint8_t tries;			/* tells their answers apart */
	uint32_t drawn;			/* fates so far */
	struct soft_timer timer;	/* pushing waits for it */
	bool waiting;
	bool lost;			/* for an acknowledgement: it counts */
	bool decided;			/* the next one's fate has been */
	bool reorder;			/* to be overtaken, or has waited */
	bool drained_told;
	uint32_t begun;			/* pushed up to it, if only in part */
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
	bool in_message, dropping;	/* dropping: a NAK until epsn comes */
	bool recv_taken;		/* that message has a receive */
	bool ack_due, ack_asked;	/* asked: somebody waits for it */
	uint8_t nak_due, nak_aux;	/* enum soft_nak */
	uint32_t nak_psn;
	struct soft_rd rd[SOFT_MAX_RD];
	uint32_t rd_head, rd_tail;
	uint32_t async_fetched;		/* and to be acknowledged */
	struct list windows;		/* of type 2, bound for it */

	/* of XRC's receiving end srq is that of the last request */
	struct soft_srq *srq;
	struct soft_xrcd *xrcd;
	struct soft_qp *real;		/* not NULL: that one opened again */
	struct list opened;		/* such handles, or one's place there */
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

#endif
